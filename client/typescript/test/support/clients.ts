import { connect, createServer, type AddressInfo } from "node:net";
import { once } from "node:events";

import { Client, type ClientOptions, type Gate, type OnUnavailable } from "@hookd/client";

export function client(
  address: string,
  onUnavailable: OnUnavailable = "block",
  more: Partial<ClientOptions> = {},
): Client {
  return new Client(address, { onUnavailable, ...more });
}

/** An address where nobody listens, nor can as long as the tests run: this end of a connection has it. */
export async function dead(): Promise<string> {
  const server = createServer((far) => far.unref()).listen(0, "127.0.0.1");
  await once(server, "listening");
  const near = connect((server.address() as AddressInfo).port, "127.0.0.1");
  await once(near, "connect");
  server.unref();
  near.unref();
  return `127.0.0.1:${near.localPort}`;
}

/** A gate without its decision, texts as texts. */
export function seen(gate: Gate): object {
  const { decision: _, ...rest } = gate;
  return JSON.parse(JSON.stringify(rest, (_key, value: unknown) => (isText(value) ? value.text : value))) as object;
}

function isText(value: unknown): value is { text: string } {
  return typeof value === "object" && value !== null && "text" in value;
}
