/** What is special to this client where hookd gives no answer. The rest is in `tests/conformance`. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { proto } from "@hookd/client";

import { client, dead } from "./support/clients.js";
import { answer, Scripted } from "./support/scripted.js";

const { NONE, ALLOW, BLOCK } = proto.Verdict;

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
