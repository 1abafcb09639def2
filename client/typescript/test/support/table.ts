/** The table of what every client does (tests/conformance), in TypeScript: its rows, and how gates are compared. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface, type Interface } from "node:readline";

import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { proto, type Gate, type OnUnavailable, type TriggerInit } from "@hookd/client";

import { seen as seenGate } from "./clients.js";

export const ROOT = new URL("../../../../../", import.meta.url);
const FOLDER = new URL("tests/conformance/", ROOT);
const PROGRAM = process.env["HOOKD_SCRIPTED"] ?? new URL("target/debug/hookd-scripted", ROOT).pathname;

/** What has to come of a call. */
export interface Expected {
  readonly gate: object;
  readonly error?: object;
}

export interface Call extends Expected {
  readonly request: JsonValue;
  readonly padBytes?: number;
  readonly differs?: Readonly<Record<string, Expected & { readonly why: string }>>;
}

export type ServerOf =
  | "dead"
  | { readonly scripted: readonly object[] }
  | { readonly hookd: { readonly rules: readonly object[]; readonly settings?: object } };

export interface ClientOf {
  readonly onUnavailable?: OnUnavailable;
  readonly deadlineMs?: number;
  readonly rounds?: number;
  readonly messageBytes?: number;
}

export interface StatusOf {
  readonly status: object;
  readonly error: object;
  readonly reason: string;
  readonly gates: string;
}

export interface Row {
  readonly name: string;
  readonly kind: string;
  readonly servers?: readonly ServerOf[];
  readonly client: ClientOf;
  readonly calls?: readonly Call[];
  readonly clients?: number;
  readonly asked?: number;
  readonly times?: number;
  readonly signal?: "SIGTERM" | "SIGKILL";
  readonly restart?: boolean;
  readonly forMs?: number;
  readonly busy?: JsonValue;
  readonly settings?: readonly OnUnavailable[];
  readonly requests?: readonly JsonValue[];
  readonly statuses?: readonly StatusOf[];
  readonly without?: Readonly<Record<string, string>>;
}

const KEYS = {
  row: [
    ...["name", "kind", "servers", "client", "calls", "clients", "asked", "times", "signal", "restart", "forMs"],
    ...["busy", "settings", "requests", "statuses", "without"],
  ],
  client: ["onUnavailable", "deadlineMs", "rounds", "messageBytes"],
  call: ["request", "padBytes", "gate", "error", "differs"],
  status: ["status", "error", "reason", "gates"],
};

/** A file of the table, or of what stands beside it. */
export function read(name: string): unknown {
  return JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
}

/** Throws where a row has a key that is not known here. */
export function checkKeys(row: Row): void {
  const check = (value: object, known: readonly string[]) => {
    const unknown = Object.keys(value).filter((key) => !known.includes(key));
    if (unknown.length > 0) {
      throw new Error(`unknown keys in the table: ${unknown.join(", ")}`);
    }
  };
  check(row, KEYS.row);
  check(row.client, KEYS.client);
  row.calls?.forEach((call) => check(call, KEYS.call));
  row.statuses?.forEach((status) => check(status, KEYS.status));
}

/** The scripted servers, in one process. */
export class Scripts {
  readonly #child: ChildProcess;
  readonly #answers: AsyncIterator<string>;
  #last: Promise<unknown> = Promise.resolve();

  constructor() {
    this.#child = spawn(PROGRAM, { stdio: ["pipe", "pipe", "inherit"] });
    const lines: Interface = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
    this.#answers = lines[Symbol.asyncIterator]();
  }

  /** Gives one order and its answer, as the program's own text says. */
  order(order: object): Promise<string> {
    const answer = this.#last.then(async () => {
      this.#child.stdin?.write(`${JSON.stringify(order)}\n`);
      const line = await this.#answers.next();
      if (line.done === true) {
        throw new Error(`no answer to ${JSON.stringify(order)}`);
      }
      return line.value;
    });
    this.#last = answer.catch(() => undefined);
    return answer;
  }

  async close(): Promise<void> {
    const exited = once(this.#child, "exit");
    this.#child.stdin?.end();
    const [code] = (await exited) as [number | null];
    if (code !== 0) {
      throw new Error(`it ended with ${code}`);
    }
  }
}

/** A request of the table or of a vector. */
export function message(request: JsonValue): proto.TriggerRequest {
  return fromJson(proto.TriggerRequestSchema, request);
}

/** What a call of the table sends. */
export function requestOf({ request, padBytes }: Call): TriggerInit {
  const made = message(request);
  if (padBytes !== undefined && made.toolCall !== undefined) {
    made.toolCall.paramsJson = JSON.stringify({ text: "x".repeat(padBytes) });
  }
  return made;
}

/** What has to come of a call in TypeScript. */
export function expected(call: Call): Expected {
  const { gate, error } = call.differs?.["typescript"] ?? call;
  return { gate, ...(error !== undefined && { error }) };
}

/** A gate in the words of the table. */
export function seen(gate: Gate): Expected {
  const { error } = gate.decision;
  if (error === undefined) {
    return { gate: seenGate(gate) };
  }
  const { kind, decisionId, retryAfterMs } = error;
  return {
    gate: seenGate(gate),
    error: {
      kind: kind.replaceAll("-", "_"),
      ofHookd: decisionId !== undefined,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    },
  };
}

/** `found` is as the table says. */
export function holds(wanted: unknown, found: unknown, addresses: readonly string[]): boolean {
  if (isObject(wanted) && isObject(found)) {
    const keys = Object.keys(wanted);
    return (
      keys.length === Object.keys(found).length &&
      keys.every((key) => Object.hasOwn(found, key) && holds(wanted[key], found[key], addresses))
    );
  }
  if (typeof wanted === "string" && typeof found === "string") {
    const named = addresses.reduce(
      (text, address, at) => text.replaceAll(at === 0 ? "{address}" : `{address ${at + 1}}`, address),
      wanted,
    );
    const parts = named.split("{any}").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    return new RegExp(`^${parts.join(".*")}$`, "s").test(found);
  }
  return wanted === "any" ? typeof found === "boolean" : wanted === found;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
