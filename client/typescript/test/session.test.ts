/** What a session sends, and what a client takes. */

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { AddressError, Client, JsonText, OptionError, proto, type ClientOptions } from "@hookd/client";

import { client, seen } from "./support/clients.js";
import { answer, Scripted } from "./support/scripted.js";

const { NONE, ALLOW } = proto.Verdict;
const run = { kind: "run", approved: false };

test("a session sends what was set and the call", async (t) => {
  const received: proto.TriggerRequest[] = [];
  const server = await Scripted.answering((request) => {
    received.push(request);
    return answer(NONE);
  });
  t.after(() => server.kill());
  const session = client(server.address).session("s1", { cwd: "/p", model: "m1", caller: { agent: "a" } });
  const expect = (event: string, more: object) => {
    const { timestamp, $typeName: _, caller, toolCall, ...rest } = received.pop() as proto.TriggerRequest;
    assert.ok((timestamp?.seconds ?? 0n) > 1_700_000_000n);
    assert.equal(caller?.agent, "a");
    const call = toolCall && { ...toolCall };
    assert.deepEqual(
      { ...rest, ...(call && { toolCall: call }) },
      {
        event,
        sessionId: "s1",
        cwd: "/p",
        model: "m1",
        payloadJson: "",
        requestId: "",
        turnId: "",
        transcriptPath: "",
        permissionMode: "",
        expectedPolicyRevision: "",
        workspaceRoots: [],
        ...more,
      },
    );
  };
  const toolCall = (more: object) => ({
    $typeName: "hookd.v1.ToolCall",
    tool: "bash",
    paramsJson: "",
    toolUseId: "",
    kind: "",
    mcpServer: "",
    mcpTool: "",
    ...more,
  });

  assert.deepEqual(seen(await session.preToolUse("bash", '{"n":1.0,\n "big":9007199254740993}')), run);
  expect("PreToolUse", { toolCall: toolCall({ paramsJson: '{"n":1.0,\n "big":9007199254740993}' }) });
  await session.preToolUse("bash", { big: 9007199254740993n, text: "漢😀" }, { toolUseId: "t1" });
  expect("PreToolUse", {
    toolCall: toolCall({ paramsJson: '{"big":9007199254740993,"text":"漢😀"}', toolUseId: "t1" }),
  });
  await session.postToolUse("bash", {}, "a text");
  expect("PostToolUse", { toolCall: toolCall({ paramsJson: "{}", resultJson: '"a text"' }) });
  await session.postToolUse("bash", new JsonText('{"n":1.0}'), new JsonText("[1.0]"));
  expect("PostToolUse", { toolCall: toolCall({ paramsJson: '{"n":1.0}', resultJson: "[1.0]" }) });
  await session.postToolUse("bash", {}, null);
  expect("PostToolUse", { toolCall: toolCall({ paramsJson: "{}", resultJson: "null" }) });
  await session.postToolUse("bash", {}, undefined);
  expect("PostToolUse", { toolCall: toolCall({ paramsJson: "{}" }) });
  await session.trigger("PostToolUse", { toolCall: { tool: "bash", elapsedMs: 1500.7 } });
  const elapsed = { $typeName: "google.protobuf.Duration", seconds: 1n, nanos: 501_000_000 };
  expect("PostToolUse", { toolCall: toolCall({ elapsed }) });
  await session.userPromptSubmit('say "hi"\n');
  expect("UserPromptSubmit", { payloadJson: '{"prompt":"say \\"hi\\"\\n"}' });
  await session.sessionStart("startup");
  expect("SessionStart", { payloadJson: '{"source":"startup"}' });
  await session.sessionEnd("other");
  expect("SessionEnd", { payloadJson: '{"reason":"other"}' });
  await session.stop(true);
  expect("Stop", { payloadJson: '{"stop_hook_active":true}' });
  await session.trigger("PostToolUseFailure", {
    toolCall: { tool: "bash", error: "exit 1", kind: "shell" },
    model: "m2",
  });
  expect("PostToolUseFailure", { toolCall: toolCall({ error: "exit 1", kind: "shell" }), model: "m2" });
});

test("the calls of an administrator arrive", async (t) => {
  const paths: string[] = [];
  const server = await Scripted.start((call) => {
    paths.push(String(call.headers[":path"]));
    call.raw(Buffer.alloc(5));
  });
  t.after(() => server.kill());
  const asks = client(server.address);
  assert.deepEqual((await asks.status()).version, "");
  assert.deepEqual((await asks.listRules("Stop")).rules, []);
  await asks.explain({ event: "Stop" });
  await asks.reload();
  const methods = ["GetStatus", "ListRules", "Explain", "Reload"];
  assert.deepEqual(
    paths,
    methods.map((method) => `/hookd.v1.AdminService/${method}`),
  );
});

test("a unix socket is an address", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "hookd client "));
  const path = join(folder, "h.sock");
  const server = await Scripted.start((call) => call.answer(answer(ALLOW)), { path });
  t.after(async () => {
    await server.kill();
    await rm(folder, { recursive: true });
  });
  for (const address of [`unix:${path}`, `unix://${path}`]) {
    assert.deepEqual(seen(await client(address).session("s").preToolUse("bash", {})), { ...run, approved: true });
  }
});

test("every documented form is an address, and what is none is named", () => {
  const forms =
    "127.0.0.1:50051, http://hookd.svc:1, [::1]:2,,http://h:3/,unix:/run/h.sock,unix:///run/h.sock,https://h:1";
  client(forms);
  new Client(["h:1", " h_2.x:2 "], { onUnavailable: "block" });
  const expected = "`host:port`, `http://host:port`, `https://host:port` or `unix:/path`";
  for (const text of [
    "localhost",
    "http://",
    ":50051",
    "h:0",
    "h:99999",
    "h:1/path",
    "h:1?q",
    "u@h:1",
    "unix:",
    "unix:run/h.sock",
    "tcp://h:1",
    "h :1",
    "grpc://h:1",
    "[::1:2",
    "[h]:1",
    "::1:2",
  ]) {
    assert.throws(
      () => client(text),
      (error) =>
        error instanceof AddressError && error.message === `\`${text}\` is not an address, expected ${expected}`,
      text,
    );
  }
  assert.throws(() => client(" , "), { message: `no address given, expected ${expected}` });
  // Whose types nobody checks, and whose variable is not set.
  const untyped = Client as new (addresses?: unknown, options?: unknown) => Client;
  assert.throws(() => new untyped(undefined, {}), { message: `no address given, expected ${expected}` });
  assert.throws(() => new untyped(50051, {}), { message: `\`50051\` is not an address, expected ${expected}` });
  assert.throws(() => new untyped("h:1"), OptionError);
});

test("options that make no sense are refused by name", () => {
  const rows: [string, object, RegExp][] = [
    ["h:1", {}, /^`onUnavailable` has to say/],
    ["h:1", { onUnavailable: "ask" }, /^`onUnavailable` has to say/],
    ["h:1", { onUnavailable: { blockExcept: "grep" } }, /^`onUnavailable` has to say/],
    ["h:1", { onUnavailable: "block", deadlineMs: 0 }, /^`deadlineMs` is 0, expected a number from 1/],
    ["h:1", { onUnavailable: "block", deadlineMs: "30s" }, /^`deadlineMs` is "30s", expected a number from 1/],
    ["h:1", { onUnavailable: "block", rounds: NaN }, /^`rounds` is NaN/],
    ["h:1", { onUnavailable: "block", tls: { caFile: "ca" } }, /^`tls` is of no use at `h:1`, expected `https/],
    ["https://h:1", { onUnavailable: "block", tls: { certFile: "c" } }, /^`tls.certFile` and `tls.keyFile`/],
    ["h:1", { onUnavailable: "block", tokenFile: "t" }, /^a token would travel to `h:1` in the clear/],
  ];
  for (const [address, options, message] of rows) {
    assert.throws(
      () => new Client(address, options as ClientOptions),
      (error) => error instanceof OptionError && message.test(error.message),
    );
  }
});

test("a client closes once its calls have ended, and opens again", async (t) => {
  let closes: () => void = () => undefined;
  const server = await Scripted.start(async (call) => {
    await call.trigger();
    closes();
    setImmediate(() => call.answer(answer(ALLOW)));
  });
  t.after(() => server.kill());
  const asks = client(server.address, "block", { rounds: 1 });
  closes = () => asks.close();
  for (let round = 1; round <= 3; round += 1) {
    assert.deepEqual(seen(await asks.session("s").preToolUse("bash", {})), { ...run, approved: true });
    assert.equal(server.connections, round);
  }
});

test("the client says who it is", async (t) => {
  let agent = "";
  const server = await Scripted.start((call) => {
    agent = String(call.headers["user-agent"]);
    call.answer(answer(ALLOW));
  });
  t.after(() => server.kill());
  await client(server.address).session("s").preToolUse("bash", {});
  const { version } = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  assert.ok(agent.startsWith(`hookd-client-typescript/${version} `), agent);
});
