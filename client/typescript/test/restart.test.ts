/** hookd goes away and comes back under calls. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { proto, type Client } from "@hookd/client";

import { client } from "./support/clients.js";
import { answer, Scripted, type ScriptedCall } from "./support/scripted.js";

const { BLOCK } = proto.Verdict;

/** Asks without a break; every call is one that the rules deny. */
async function ask(asks: Client, isOver: () => boolean): Promise<{ answered: number; unanswered: number }> {
  const session = asks.session("s");
  const count = { answered: 0, unanswered: 0 };
  while (!isOver()) {
    const gate = await session.preToolUse("bash", { command: "rm -rf /" });
    assert.equal(gate.kind, "refuse", "let through");
    const { error } = gate.decision;
    assert.ok(error === undefined || error.kind === "unavailable", error?.message);
    count[error === undefined ? "answered" : "unanswered"] += 1;
  }
  return count;
}

/** Eight callers while the server is restarted again and again on its port, each time in the middle of calls. */
async function restartUnderCalls(end: (server: Scripted) => Promise<void>): Promise<number> {
  let begun = 0;
  let tell: () => void = () => undefined;
  const script = async (call: ScriptedCall) => {
    begun += 1;
    tell();
    await call.trigger();
    // Long enough for calls to be in flight whenever the server goes.
    await pause(2);
    call.answer(answer(BLOCK));
  };
  const more = async (calls: number) => {
    const enough = begun + calls;
    while (begun < enough) {
      await new Promise<void>((resolve) => (tell = resolve));
    }
  };
  let server = await Scripted.start(script);
  const { port } = server;
  let isOver = false;
  const asks = client(server.address);
  const callers = Array.from({ length: 8 }, () => ask(asks, () => isOver));
  for (let round = 0; round < 10; round += 1) {
    await more(20);
    await end(server);
    server = await Scripted.start(script, { port });
  }
  await more(20);
  isOver = true;
  const counts = await Promise.all(callers);
  await server.kill();
  assert.ok(counts.reduce((sum, { answered }) => sum + answered, 0) >= 100);
  return counts.reduce((sum, { unanswered }) => sum + unanswered, 0);
}

test("case_106 nothing slips through while hookd shuts down and restarts", async () => {
  await restartUnderCalls((server) => server.shutDown());
});

test("case_106 nothing slips through while hookd is killed and restarts", async () => {
  await restartUnderCalls((server) => server.kill());
});

test("a GOAWAY costs no call", async (t) => {
  const server = await Scripted.start(async (call) => {
    const isLast = server.calls % 50 === 0;
    await call.trigger();
    await pause(1);
    if (isLast) {
      server.goAway();
    }
    call.answer(answer(BLOCK));
  });
  t.after(() => server.kill());
  const session = client(server.address, "allow", { rounds: 2 }).session("s");
  const caller = async () => {
    for (let call = 0; call < 100; call += 1) {
      const gate = await session.preToolUse("bash", {});
      assert.ok(gate.kind === "refuse" && gate.decision.error === undefined, gate.decision.error?.message);
    }
  };
  await Promise.all(Array.from({ length: 8 }, caller));
  assert.ok(server.connections >= 10, `${server.connections} connections`);
});

test("a server that dies under a call is unavailable", async () => {
  const server = await Scripted.start(() => void server.kill());
  const gate = await client(server.address, "block", { rounds: 2 }).session("s").preToolUse("bash", {});
  assert.equal(gate.kind, "refuse");
  assert.equal(gate.decision.error?.kind, "unavailable", gate.decision.error?.message);
});

test("a call moves to another server when its own dies", async (t) => {
  const living = await Scripted.answering(() => answer(BLOCK));
  t.after(() => living.kill());
  let died = 0;
  // Until a client starts with the one that is going to die.
  while (died === 0) {
    const dying = await Scripted.start(() => {
      died += 1;
      void dying.kill();
    });
    const gate = await client(`${dying.address},${living.address}`, "allow").session("s").preToolUse("bash", {});
    assert.ok(gate.kind === "refuse" && gate.decision.error === undefined, gate.decision.error?.message);
    if (died === 0) {
      await dying.kill();
    }
  }
});
