/** What happens where hookd gives no answer. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { test } from "node:test";

import { toBinary, create } from "@bufbuild/protobuf";
import { AnySchema, DurationSchema } from "@bufbuild/protobuf/wkt";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { CallError, proto, type OnUnavailable, type TriggerInit } from "@hookd/client";

import { client, dead } from "./support/clients.js";
import { answer, ofHookd, Scripted, type Status } from "./support/scripted.js";

const { NONE, ALLOW, BLOCK } = proto.Verdict;
const [CANCELLED, UNKNOWN, INVALID, DEADLINE, EXHAUSTED, INTERNAL, UNAVAILABLE] = [1, 2, 3, 4, 8, 13, 14];

function preToolUse(tool: string): TriggerInit {
  return { event: "PreToolUse", toolCall: { tool, paramsJson: "{}" } };
}

/** The details of a status that was shed. */
function retryIn(ms: number): string {
  const retryDelay = toBinary(DurationSchema, create(DurationSchema, { nanos: ms * 1_000_000 }));
  const value = new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(retryDelay).finish();
  const any = toBinary(AnySchema, create(AnySchema, { typeUrl: "type.googleapis.com/google.rpc.RetryInfo", value }));
  const status = new BinaryWriter()
    .tag(1, WireType.Varint)
    .int32(8)
    .tag(3, WireType.LengthDelimited)
    .bytes(any)
    .finish();
  return Buffer.from(status).toString("base64");
}

/**
 * The gates of one status under each setting: on a tool call, on a call of a tool that is excepted, on a prompt, and on
 * a stop. `R` runs unapproved, `X` is refused.
 */
async function row(status: Status): Promise<[string | undefined, string]> {
  const server = await Scripted.answering(() => status);
  let kind: string | undefined;
  const cells: string[] = [];
  for (const onUnavailable of ["block", { blockExcept: ["grep"] }, "allow"] satisfies OnUnavailable[]) {
    const asks = client(server.address, onUnavailable, { rounds: 1 });
    let cell = "";
    for (const request of [preToolUse("bash"), preToolUse("grep"), { event: "UserPromptSubmit" }, { event: "Stop" }]) {
      const gate = await asks.trigger(request);
      kind = gate.decision.error?.kind;
      assert.ok(gate.decision.degraded);
      const runs = gate.kind === "run" && !gate.approved && gate.params === undefined && gate.result === undefined;
      assert.ok(runs || gate.kind === "refuse", gate.kind);
      cell += runs ? "R" : "X";
    }
    cells.push(cell);
  }
  await server.kill();
  return [kind, cells.join(" ")];
}

test("case_061 each status against each setting", async () => {
  const unavailable = "XXXR XRXR RRRR";
  const refused = "XXXR XXXR XXXR";
  const rows: [Status, string, string][] = [
    [ofHookd(UNAVAILABLE), "unavailable", unavailable],
    [ofHookd(DEADLINE), "deadline-exceeded", unavailable],
    [ofHookd(INTERNAL), "internal", unavailable],
    [ofHookd(EXHAUSTED, "too many", { details: retryIn(250) }), "shed", unavailable],
    [ofHookd(EXHAUSTED, "message of 5 MiB"), "refused", refused],
    ...[CANCELLED, UNKNOWN, INVALID, 5, 6, 7, 9, 10, 11, 12, 15, 16, 99].map((code): [Status, string, string] => [
      ofHookd(code),
      "refused",
      refused,
    ]),
    // Without the decision id it was not hookd: these are what a transport makes of a connection that breaks.
    ...[INTERNAL, CANCELLED, UNKNOWN, UNAVAILABLE].map((code): [Status, string, string] => [
      { code, message: "h2" },
      "unavailable",
      unavailable,
    ]),
    ...[INVALID, 12, 7].map((code): [Status, string, string] => [{ code, message: "x" }, "refused", refused]),
  ];
  for (const [status, kind, cells] of rows) {
    assert.deepEqual(await row(status), [kind, cells], JSON.stringify(status));
  }
});

test("a call that was shed says when to come again", async (t) => {
  const server = await Scripted.answering(() => ofHookd(EXHAUSTED, "Too many calls", { details: retryIn(250) }));
  t.after(() => server.kill());
  await assert.rejects(client(server.address).call(preToolUse("bash")), {
    kind: "shed",
    code: "RESOURCE_EXHAUSTED",
    decisionId: "d9",
    retryAfterMs: 250,
    message: `hookd at ${server.address} has too many calls: too many calls`,
  });
});

test("events after the fact and recorded ones have a safe side too", async (t) => {
  const server = await Scripted.answering(() => ofHookd(INVALID));
  t.after(() => server.kill());
  const session = client(server.address, "allow").session("s");
  const reason = `hookd at ${server.address} refused the call: no (INVALID_ARGUMENT)`;
  const gate = await session.postToolUse("bash", {}, 1);
  assert.ok(gate.kind === "refuse");
  assert.deepEqual([gate.reason, gate.result?.value()], [reason, `the result is not shown: ${reason}`]);
  const started = await session.sessionStart("startup");
  assert.ok(started.kind === "run" && !started.approved);
  assert.equal((await session.trigger("PreDeploy")).kind, "refuse");
});

test("nobody there is said in one line with the address", async () => {
  const address = await dead();
  const message = `hookd cannot be reached at ${address}: connection refused`;
  await assert.rejects(client(address).call({ event: "Stop" }), { kind: "unavailable", code: "UNAVAILABLE", message });
  const unix = "unix:/nowhere/hookd.sock";
  const missing = `hookd cannot be reached at ${unix}: no such file or directory`;
  await assert.rejects(client(unix).call({ event: "Stop" }), { kind: "unavailable", message: missing });
});

test("nobody there at several addresses names them all", async () => {
  const [one, other] = [await dead(), await dead()];
  await assert.rejects(client(`${one},${other}`).call({ event: "Stop" }), (error: CallError) =>
    error.message.endsWith(`; tried ${one}, ${other}`),
  );
});

test("a dead first address is passed over and the live one is kept", async (t) => {
  const server = await Scripted.answering(() => answer(ALLOW));
  t.after(() => server.kill());
  const list = [await dead(), server.address, await dead()];
  // The start is random: several clients begin at each place.
  for (let round = 0; round < 12; round += 1) {
    const session = client(list.join(","), "block").session("s");
    for (let call = 0; call < 3; call += 1) {
      const gate = await session.preToolUse("bash", {});
      assert.ok(gate.kind === "run" && gate.approved, gate.decision.error?.message);
    }
  }
  assert.equal(server.calls, 36);
  assert.equal(server.connections, 12, "connections are used again");
});

test("a call is tried again only where no answer was given", async () => {
  const tries = async (status: Status): Promise<[number, boolean]> => {
    const server: Scripted = await Scripted.answering(() => (server.calls <= 2 ? status : answer(ALLOW)));
    const answered = await client(server.address)
      .call({ event: "PreDeploy" })
      .then(
        () => true,
        () => false,
      );
    await server.kill();
    return [server.calls, answered];
  };
  assert.deepEqual(await tries({ code: UNAVAILABLE, message: "transport" }), [3, true]);
  assert.deepEqual(await tries(ofHookd(UNAVAILABLE, "cut by the drain")), [3, true]);
  assert.deepEqual(await tries({ code: INTERNAL }), [3, true]);
  assert.deepEqual(await tries({ code: CANCELLED }), [3, true]);
  assert.deepEqual(await tries({ code: UNKNOWN }), [3, true]);
  assert.deepEqual(await tries(ofHookd(INTERNAL, "panic")), [1, false]);
  assert.deepEqual(await tries(ofHookd(DEADLINE, "late")), [1, false]);
  assert.deepEqual(await tries(ofHookd(EXHAUSTED, "shed", { details: retryIn(1) })), [1, false]);
  assert.deepEqual(await tries(ofHookd(INVALID)), [1, false]);
  assert.deepEqual(await tries({ code: EXHAUSTED, message: "too large" }), [1, false]);
});

test("the tries are bounded", async (t) => {
  const server = await Scripted.answering(() => ({ code: UNAVAILABLE, message: "never" }));
  t.after(() => server.kill());
  const message = `hookd cannot be reached at ${server.address}: never`;
  await assert.rejects(client(server.address, "block", { rounds: 3 }).call({ event: "Stop" }), { message });
  assert.equal(server.calls, 3);
});

test("the deadline is sent and kept", async (t) => {
  let sent = "";
  const server = await Scripted.start((call) => void (sent = String(call.headers["grpc-timeout"])));
  t.after(() => server.kill());
  const message = `hookd at ${server.address} gave no answer within 400ms`;
  await assert.rejects(client(server.address, "block", { deadlineMs: 400 }).call({ event: "PreDeploy" }), {
    kind: "deadline-exceeded",
    code: "DEADLINE_EXCEEDED",
    message,
  });
  const [, ms = ""] = /^(\d+)m$/.exec(sent) ?? [];
  assert.ok(Number(ms) >= 1 && Number(ms) <= 400, sent);
  assert.equal(server.calls, 1, "asked once");
});

test("the deadline holds while connecting and between tries", async () => {
  const begun = performance.now();
  const impatient = client(await dead(), "block", { deadlineMs: 300, rounds: 1_000_000 });
  await assert.rejects(impatient.call({ event: "PreDeploy" }), (error: CallError) => error.isUnavailable);
  assert.ok(performance.now() - begun < 10_000);
});

test("one that takes connections and says nothing is passed over", async (t) => {
  const sockets: Socket[] = [];
  const mute = createServer((socket) => void sockets.push(socket)).listen(0, "127.0.0.1");
  await once(mute, "listening");
  const server = await Scripted.answering(() => answer(ALLOW));
  t.after(async () => {
    mute.close();
    sockets.forEach((socket) => socket.destroy());
    await server.kill();
  });
  const { port } = mute.address() as { port: number };
  // The start is random: with two clients at each place at least one begins at the mute one, mostly.
  const gates = Array.from({ length: 8 }, () =>
    client(`127.0.0.1:${port},${server.address}`).session("s").preToolUse("bash", {}),
  );
  const alone = client(`127.0.0.1:${port}`, "block", { rounds: 1 });
  const message = `hookd cannot be reached at 127.0.0.1:${port}: no connection within 5s`;
  await assert.rejects(alone.call({ event: "Stop" }), { kind: "unavailable", message });
  for (const gate of await Promise.all(gates)) {
    assert.ok(gate.kind === "run" && gate.approved, gate.decision.error?.message);
  }
});

test("a padded call is not sent and buys no allow", async (t) => {
  const server = await Scripted.answering(() => answer(ALLOW));
  t.after(() => server.kill());
  const gate = await client(server.address, "allow").trigger({
    ...preToolUse("bash"),
    payloadJson: "x".repeat(5 * 1024 * 1024),
  });
  assert.ok(gate.kind === "refuse" && /^the call has \d+ bytes, the limit is 4194304$/.test(gate.reason));
  assert.equal(server.calls, 0);
});

test("an answer over the limit blocks", async (t) => {
  const server = await Scripted.answering(() => answer(ALLOW, { reason: "x".repeat(3000) }));
  t.after(() => server.kill());
  const gate = await client(server.address, "allow", { messageBytes: 2000 }).trigger(preToolUse("bash"));
  assert.ok(gate.kind === "refuse" && gate.reason.endsWith("(RESOURCE_EXHAUSTED)"), JSON.stringify(gate.kind));
});

test("a call can be aborted, and then is no gate at all", async (t) => {
  let closed: () => void = () => undefined;
  const isClosed = new Promise<void>((resolve) => (closed = resolve));
  const reached = new Promise<void>((resolve) => {
    void Scripted.start((call) => {
      call.stream.on("close", closed);
      resolve();
    }).then((server) => {
      t.after(() => server.kill());
      ask(server.address);
    });
  });
  const abort = new AbortController();
  let asked: Promise<unknown> = Promise.resolve();
  function ask(address: string): void {
    asked = client(address, "allow").session("s").preToolUse("bash", {}, { signal: abort.signal });
    asked.catch(() => undefined);
  }
  await reached;
  abort.abort(new Error("enough"));
  await assert.rejects(asked, /^Error: enough$/);
  await isClosed;
  await assert.rejects(
    client(await dead(), "allow")
      .session("s")
      .preToolUse("bash", {}, { signal: abort.signal }),
    /^Error: enough$/,
  );
});

test("a thousand calls can share a signal", async (t) => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => void warnings.push(warning);
  process.on("warning", warn);
  const server = await Scripted.start(() => undefined);
  t.after(async () => {
    process.off("warning", warn);
    await server.kill();
  });
  const abort = new AbortController();
  const session = client(server.address, "allow").session("s");
  const asked = Array.from({ length: 1000 }, () => session.preToolUse("bash", {}, { signal: abort.signal }));
  setImmediate(() => abort.abort("enough"));
  for (const { status } of await Promise.allSettled(asked)) {
    assert.equal(status, "rejected");
  }
  assert.deepEqual(warnings, []);
});

test("what would be sent as another text is not sent", async (t) => {
  const server = await Scripted.answering(() => answer(NONE));
  t.after(() => server.kill());
  const lenient = client(server.address, "allow");
  const gate = await lenient.session("s").preToolUse("bash", '{"command":"\ud800"}');
  assert.ok(gate.kind === "refuse");
  assert.equal(gate.reason, "the call cannot be sent: `paramsJson` holds a lone surrogate");
  const tool = await lenient.session("s").preToolUse("b\udc00", {});
  assert.ok(tool.kind === "refuse");
  const lost = await lenient.session("s").preToolUse("bash", { id: 2 ** 60 });
  assert.ok(lost.kind === "refuse" && lost.decision.error?.kind === "refused");
  assert.match(
    lost.reason,
    /^the call cannot be sent: the parameters: 1152921504606847000, whose last digits a number/,
  );
  const hidden = await lenient.session("s").postToolUse("bash", {}, new Map([[1, 2]]));
  assert.ok(hidden.kind === "refuse" && hidden.result !== undefined);
  assert.equal(server.calls, 0);
});

test("the answer BLOCK of a server is a block under every setting", async (t) => {
  const server = await Scripted.answering(() => answer(BLOCK));
  t.after(() => server.kill());
  for (const onUnavailable of ["block", "allow", { blockExcept: ["bash"] }] satisfies OnUnavailable[]) {
    const gate = await client(server.address, onUnavailable).session("s").preToolUse("bash", {});
    assert.ok(gate.kind === "refuse" && gate.decision.error === undefined);
  }
});
