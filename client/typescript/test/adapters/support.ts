/** What the tests of all adapters share: rules, servers, the tool, and the examples of ADAPTERS.md. */

import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { pathToFileURL } from "node:url";

import type { Client, OnUnavailable, Session } from "@hookd/client";

import { client, dead } from "../support/clients.js";
import { decide, Hookd } from "../support/hookd.js";

const PACKAGE = new URL("../../..", import.meta.url).pathname;

export const ID = "[0-9a-f]{8}-[0-9a-f-]{27}";

/** The name of the tool of all tests, wherever it can be chosen. */
const ADD = { matcher: "^(mcp__sums__)?add$" };

export const RULES = {
  addRewrite: decide("bigger", "PreToolUse", undefined, ADD, { modifiedParams: { a: 40, b: 2 } }),
  addDigits: decide("exact", "PreToolUse", undefined, ADD, { modifiedParams: { a: 9007199254740993n, b: 2 } }),
  addBlock: decide("no-add", "PreToolUse", "block", ADD, { reason: "no adding today" }),
  addAsk: decide("ask-add", "PreToolUse", "ask", ADD, { reason: "sure?", modifiedParams: { a: 40, b: 2 } }),
  addDefer: decide("later-add", "PreToolUse", "defer", ADD, { reason: "later" }),
  addHalt: decide("halt-add", "PreToolUse", undefined, ADD, { halt: true, haltReason: "enough" }),
  addAllow: decide("fine-add", "PreToolUse", "allow", ADD),
  resultHide: decide("hide", "PostToolUse", undefined, ADD, { modifiedResult: "***" }),
  resultBlock: decide("look", "PostToolUse", "block", ADD, { reason: "look again" }),
  resultHalt: decide("halt-result", "PostToolUse", undefined, ADD, { halt: true, haltReason: "enough" }),
  failureNote: decide("told", "PostToolUseFailure", undefined, ADD, { additionalContext: "it is closed" }),
  promptBlock: decide("no-prompt", "UserPromptSubmit", "block", {}, { reason: "not this" }),
  promptNote: decide("note", "UserPromptSubmit", undefined, {}, { additionalContext: "mind the gap" }),
  stopOnce: decide(
    "again",
    "Stop",
    "block",
    { when: "payload.stop_hook_active == false" },
    { reason: "check it again" },
  ),
} as const;

/** The address of a hookd with these rules. */
export async function hookdWith(t: TestContext, ...rules: object[]): Promise<string> {
  const hookd = await Hookd.start({ rules });
  t.after(() => hookd.end());
  return hookd.address;
}

export function clientOf(t: TestContext, address: string, onUnavailable: OnUnavailable = "block"): Client {
  const one = client(address, onUnavailable, { rounds: 1, deadlineMs: 20_000 });
  t.after(() => one.close());
  return one;
}

export async function sessionWith(t: TestContext, ...rules: object[]): Promise<Session> {
  return clientOf(t, await hookdWith(t, ...rules)).session("s");
}

/** A session whose hookd goes away at the call of `kill`. */
export async function mortalSession(
  t: TestContext,
  ...rules: object[]
): Promise<{ session: Session; kill: () => void }> {
  const hookd = await Hookd.start({ rules });
  t.after(() => hookd.end());
  return { session: clientOf(t, hookd.address).session("s"), kill: () => void process.kill(hookd.pid, "SIGKILL") };
}

/** A session whose hookd is not there. */
export async function sessionWithout(t: TestContext, onUnavailable: OnUnavailable): Promise<Session> {
  return clientOf(t, await dead(), onUnavailable).session("s");
}

/** The tool of all tests: adds, and remembers with what it ran. */
export class Adder {
  readonly ran: unknown[] = [];
  /** Breaks where it is set. */
  breaks = false;
  /** Happens while it runs. */
  meanwhile: () => void = () => undefined;

  readonly add = (params: { a: number; b: number }): string => {
    this.ran.push(params);
    this.meanwhile();
    if (this.breaks) {
      throw new Error("the shop is closed");
    }
    return `sum ${params.a + params.b}`;
  };
}

/** Says that `text` has a reason that ends with its rule and the decision's id. */
export function assertSigned(text: unknown, reason: string, rule: string): void {
  assert.match(String(text), new RegExp(`${escaped(reason)} \\(${rule}, ${ID}\\)`));
}

/** A text for a regular expression. */
export function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Runs what ADAPTERS.md shows for an adapter, with these names, and gives what it says. */
export async function example(adapter: string, names: Record<string, unknown>): Promise<string[]> {
  const page = await readFile(join(PACKAGE, "ADAPTERS.md"), "utf8");
  const blocks = [...page.matchAll(/```js\n(.*?)```/gs)].map(([, block = ""]) => block);
  const [code, ...others] = blocks.filter((block) => block.includes(`@hookd/client/adapters/${adapter}"`));
  assert.ok(code !== undefined && others.length === 0, `${adapter} has ${others.length + 1} examples`);
  const lines = code.split("\n").filter((line) => line !== "");
  assert.ok(lines.length <= 5, `${lines.length} lines`);
  const imports = lines.filter((line) => line.startsWith("import "));
  const rest = lines.filter((line) => !line.startsWith("import "));
  const said: string[] = [];
  const given = { ...names, console: { log: (text: unknown) => said.push(String(text)) } };
  const folder = join(PACKAGE, "build/examples");
  await mkdir(folder, { recursive: true });
  const file = join(folder, `${adapter}.mjs`);
  const params = `{ ${Object.keys(given).join(", ")} }`;
  await writeFile(file, [...imports, `export default async (${params}) => {`, ...rest, "};", ""].join("\n"));
  const { default: run } = (await import(pathToFileURL(file).href)) as { default: (names: object) => Promise<void> };
  await run(given);
  return said;
}
