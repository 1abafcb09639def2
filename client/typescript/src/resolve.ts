/** From names to addresses. @module */

import { lookup } from "node:dns/promises";

/** Where a replica is. */
export interface Place {
  /** An IP address. */
  readonly ip: string;
  readonly port: number;
}

/**
 * Looks up where the replicas behind a name are, each place one replica. `port` is that of the address that is looked up.
 * Where it rejects, that counts as a replica that cannot be reached, and what was known before stays in use.
 */
export type Resolve = (host: string, port: number) => Promise<readonly Place[]>;

/** As the system knows them. */
export const resolveBySystem: Resolve = async (host, port) => {
  const found = await lookup(host, { all: true });
  return found.map(({ address }) => ({ ip: address, port }));
};

/** Whether what is sent there stays on this machine. */
export function isLoopback(ip: string): boolean {
  return ip === "::1" || ip.startsWith("127.") || ip.startsWith("::ffff:127.");
}
