/** Where hookd listens. @module */

import { isIP, isIPv6 } from "node:net";

const FORMS = "`host:port`, `http://host:port`, `https://host:port` or `unix:/path`";
const LONGEST_PORT = 65_535;

/** A text that is not an address of hookd. Its message is one line. */
export class AddressError extends Error {
  override readonly name: string = "AddressError";
}

/** One address of hookd. */
export interface Address {
  /** As it was written. */
  readonly text: string;
  /** What the transport takes. */
  readonly target: string;
  /** A name or an IP address, without brackets. Empty: a unix socket. */
  readonly host: string;
  readonly port: number;
  /** It has to be looked up, and stands for as many replicas as it has addresses. */
  readonly isName: boolean;
  /** Over TLS. */
  readonly tls: boolean;
  /** What is sent there can be read on this machine alone. */
  readonly onThisMachine: boolean;
}

/**
 * The addresses in a comma separated list, as `HOOKD_ADDRESS` holds it, or in a list. White space and empty places are
 * skipped.
 *
 * @throws {@link AddressError} for the first one that is none, and where there is not a single one.
 */
export function parseAddresses(list: string | readonly string[]): Address[] {
  const given: unknown = list;
  // For callers whose types nobody checks, and whose variable is not set.
  if (typeof given !== "string" && !Array.isArray(given)) {
    const seen = given === undefined ? "no address given" : `\`${String(given)}\` is not an address`;
    throw new AddressError(`${seen}, expected ${FORMS}`);
  }
  const places = (typeof list === "string" ? list.split(",") : list).map((place) => place.trim());
  const addresses = places.filter((place) => place !== "").map(parseAddress);
  if (addresses.length === 0) {
    throw new AddressError(`no address given, expected ${FORMS}`);
  }
  return addresses;
}

function parseAddress(text: string): Address {
  const address = text.startsWith("unix:") ? parseUnix(text) : parseTcp(text);
  if (address === undefined) {
    throw new AddressError(`\`${text}\` is not an address, expected ${FORMS}`);
  }
  return address;
}

function parseUnix(text: string): Address | undefined {
  const rest = text.slice("unix:".length);
  const path = rest.startsWith("//") ? rest.slice(2) : rest;
  if (!path.startsWith("/") || path.includes("\0")) {
    return undefined;
  }
  return { text, target: `unix:${path}`, host: "", port: 0, isName: false, tls: false, onThisMachine: true };
}

function parseTcp(text: string): Address | undefined {
  const [, scheme = "http", host = "", digits = ""] =
    /^(?:(https?):\/\/)?(\[[\da-fA-F:.]+\]|[\w.-]+):(\d{1,5})\/?$/.exec(text) ?? [];
  const port = Number(digits);
  if (host === "" || port === 0 || port > LONGEST_PORT) {
    return undefined;
  }
  const bare = host.replace(/^\[|\]$/g, "");
  if (host.startsWith("[") !== isIPv6(bare)) {
    return undefined;
  }
  const onThisMachine = bare === "localhost" || bare === "::1" || (isIP(bare) === 4 && bare.startsWith("127."));
  const place = { host: bare, port, isName: isIP(bare) === 0 };
  return { text, target: `dns:///${host}:${port}`, ...place, tls: scheme === "https", onThisMachine };
}
