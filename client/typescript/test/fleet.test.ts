/**
 * Replicas of the real hookd behind a list or a name: they are replaced, killed and paused under 500 calls that must be
 * blocked, and no call is let through or left without an answer.
 */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { Client, type ClientOptions, type Gate, type Place, type Resolve } from "@hookd/client";

import { client, dead, seen } from "./support/clients.js";
import { decide, Hookd } from "./support/hookd.js";

const CALLERS = 500;
const LIMIT_MS = 60_000;
const REQUEST = { event: "PreToolUse", toolCall: { tool: "bash", paramsJson: "{}" } };

/** Replicas by their names, each of which blocks and says its own, and a name service that knows where they are. */
class Replicas {
  readonly running = new Map<string, Hookd>();
  places: readonly Place[] = [];
  readonly #context: TestContext;
  #count = 0;

  constructor(context: TestContext) {
    this.#context = context;
  }

  static async start(context: TestContext, count: number): Promise<Replicas> {
    const replicas = new Replicas(context);
    await Promise.all(Array.from({ length: count }, () => replicas.more()));
    replicas.say();
    return replicas;
  }

  async more(): Promise<void> {
    this.#count += 1;
    const name = `replica ${this.#count}`;
    const hookd = await Hookd.start({ rules: [decide("guard", "PreToolUse", "block", {}, { reason: name })] });
    this.#context.after(() => hookd.end());
    this.running.set(name, hookd);
  }

  /** Takes one out. */
  take(name: string): Hookd {
    const hookd = this.running.get(name);
    assert.ok(hookd !== undefined);
    this.running.delete(name);
    return hookd;
  }

  get names(): string[] {
    return [...this.running.keys()];
  }

  /** The name service knows those that run. */
  say(): void {
    this.places = Array.from(this.running.values(), ({ address }) => {
      const [ip = "", port] = address.split(":");
      return { ip, port: Number(port) };
    });
  }

  /** A client that lets everything go where hookd cannot be asked: an answer that is lost is an allow. */
  client(more: Partial<ClientOptions> = {}): Client {
    // What a paused replica costs, not what is usual.
    const keepAlive = { intervalMs: 1000, timeoutMs: 2000 };
    return client("hookd.test:50051", "allow", { deadlineMs: 50_000, keepAlive, resolve: this.resolve, ...more });
  }

  readonly resolve: Resolve = (host) =>
    host === "hookd.test" ? Promise.resolve(this.places) : Promise.reject(new Error("unknown"));
}

/** The replica that has answered. */
function answered(gate: Gate): string {
  assert.ok(gate.kind === "refuse" && gate.decision.error === undefined, JSON.stringify(seen(gate)));
  return gate.reason;
}

/** Callers that go on until they are told to stop. */
class Callers {
  readonly answers = new Map<string, number>();
  readonly #ends: Promise<PromiseSettledResult<void>[]>;
  #isOver = false;
  #lost: unknown;

  constructor(asks: Client) {
    this.#ends = Promise.allSettled(Array.from({ length: CALLERS }, () => this.#call(asks)));
  }

  async #call(asks: Client): Promise<void> {
    while (!this.#isOver) {
      try {
        const name = answered(await asks.trigger(REQUEST));
        this.answers.set(name, (this.answers.get(name) ?? 0) + 1);
      } catch (error) {
        this.#lost ??= error;
        throw error;
      }
    }
  }

  /** Waits until each of these has answered so many calls more. */
  async answer(names: readonly string[], more = 100): Promise<void> {
    const before = new Map(this.answers);
    const limit = performance.now() + LIMIT_MS;
    while (!names.every((name) => (this.answers.get(name) ?? 0) - (before.get(name) ?? 0) >= more)) {
      assert.equal(this.#lost, undefined);
      assert.ok(performance.now() < limit, "in time");
      await pause(5);
    }
  }

  /** All calls were answered with a block. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#ends;
    assert.equal(this.#lost, undefined);
  }
}

/** So many calls are shared by these within a tenth, once the client is connected to all of them. */
async function assertEven(asks: Client, names: readonly string[], times = 600): Promise<void> {
  const missing = new Set(names);
  while (missing.size > 0) {
    missing.delete(answered(await asks.trigger(REQUEST)));
  }
  const shares = new Map<string, number>();
  for (let time = 0; time < times; time += 1) {
    const name = answered(await asks.trigger(REQUEST));
    shares.set(name, (shares.get(name) ?? 0) + 1);
  }
  const mean = times / names.length;
  assert.deepEqual([...shares.keys()].sort(), [...names].sort());
  assert.ok([...shares.values()].every((share) => Math.abs(share - mean) <= mean / 10), JSON.stringify([...shares]));
}

test("calls are shared evenly over a list and over the addresses of a name", async (t) => {
  const replicas = await Replicas.start(t, 3);
  const list = Array.from(replicas.running.values(), ({ address }) => address).join(",");
  await assertEven(client(list, "allow"), replicas.names);
  await assertEven(replicas.client(), replicas.names);
});

test("replicas are replaced one after another under 500 calls and none is lost or let through", async (t) => {
  const replicas = await Replicas.start(t, 3);
  const asks = replicas.client();
  const callers = new Callers(asks);
  await callers.answer(replicas.names);
  for (const old of replicas.names) {
    await replicas.more();
    const leaving = replicas.take(old);
    replicas.say();
    await leaving.end("SIGTERM");
    // The one that is new has its share too before the next goes.
    await callers.answer(replicas.names);
  }
  await callers.end();
  await assertEven(asks, replicas.names);
});

test("replicas are killed under 500 calls and none is lost or let through", async (t) => {
  const replicas = await Replicas.start(t, 3);
  const callers = new Callers(replicas.client());
  await callers.answer(replicas.names);
  for (const old of replicas.names) {
    await replicas.take(old).end("SIGKILL");
    await callers.answer(replicas.names);
    await replicas.more();
    replicas.say();
    // It is found by the one that is not there any more.
    await callers.answer(replicas.names);
  }
  await callers.end();
});

test("the share of a paused replica moves to the others and comes back", async (t) => {
  const replicas = await Replicas.start(t, 3);
  const [paused, ...others] = replicas.names;
  assert.ok(paused !== undefined);
  const asks = replicas.client();
  const callers = new Callers(asks);
  await callers.answer(replicas.names);
  const { pid } = replicas.running.get(paused) as Hookd;
  process.kill(pid, "SIGSTOP");
  try {
    // Those that wait for it find out, and all go on at the others.
    await callers.answer(others, 500);
    // Whoever comes anew is not held up by it.
    await assertEven(replicas.client(), others);
  } finally {
    process.kill(pid, "SIGCONT");
  }
  await callers.answer(replicas.names);
  await callers.end();
  await assertEven(asks, replicas.names);
});

test("a name that is not known is named, and is found once it is", async (t) => {
  const error = async (address: string, more: Partial<ClientOptions>) =>
    (await client(address, "block", more).trigger(REQUEST)).decision.error?.message;
  const unknown: Resolve = () => Promise.reject(new Error("unknown"));
  const said = "hookd cannot be reached at hookd.nowhere:1: the name";
  assert.equal(await error("hookd.nowhere:1", { resolve: unknown, rounds: 1 }), `${said} cannot be looked up: unknown`);
  assert.equal(
    await error("hookd.nowhere:1", { resolve: () => Promise.resolve([]), rounds: 2 }),
    `${said} has no address`,
  );
  const replicas = await Replicas.start(t, 1);
  let asked = 0;
  const resolve: Resolve = () => {
    asked += 1;
    return asked === 1 ? Promise.reject(new Error("not yet")) : Promise.resolve(replicas.places);
  };
  assert.equal(answered(await replicas.client({ resolve }).trigger(REQUEST)), "replica 1");
  assert.equal(asked, 2);
});

test("a local name that leads to another machine is not asked", async () => {
  const resolve: Resolve = (_, port) => Promise.resolve([{ ip: "192.0.2.1", port }]);
  const gate = await client("localhost:1", "allow", { resolve }).trigger(REQUEST);
  const reason = "hookd at localhost:1 is not asked: it is not on this machine, and there is no TLS";
  assert.deepEqual(seen(gate), { kind: "refuse", reason });
});

test("the last failure is named with the place that it was met at", async () => {
  const [ip = "", port] = (await dead()).split(":");
  const resolve: Resolve = () => Promise.resolve([{ ip, port: Number(port) }]);
  const { error } = (await client("hookd.test:7", "block", { resolve, rounds: 2 }).trigger(REQUEST)).decision;
  assert.equal(error?.message, `hookd cannot be reached at hookd.test:7 (${ip}:${port}): connection refused`);
});

test("one that never says a word of HTTP/2 is not connected", async (t) => {
  const replicas = await Replicas.start(t, 2);
  const [silent, other] = replicas.names as [string, string];
  const { pid } = replicas.running.get(silent) as Hookd;
  process.kill(pid, "SIGSTOP");
  try {
    const asks = replicas.client();
    for (let time = 0; time < 6; time += 1) {
      assert.equal(answered(await asks.trigger(REQUEST)), other);
    }
  } finally {
    process.kill(pid, "SIGCONT");
  }
});
