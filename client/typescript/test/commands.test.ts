/** Calls in which the client runs commands, against servers that do as a test says, and the process rules. */

import assert from "node:assert/strict";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { proto, type CallError, type Client, type TriggerInit } from "@hookd/client";
import {
  AgentSide,
  OfferedRules,
  nativeProgram,
  type AgentCommands,
  type DetachedProgram,
} from "@hookd/client/agent-commands";

import { client } from "./support/clients.js";
import { answer, Scripted, type ScriptedCall } from "./support/scripted.js";

const { ASK } = proto.Verdict;
const { Failure } = proto;
const PATH = "/usr/local/bin:/usr/bin:/bin";
const FILE = new OfferedRules("shared", "/repo/hooks.json", "hookd", "cat\nsleep 1000\nexit 7");

type Came = proto.TriggerStreamResponse["message"];
type Result = Partial<Omit<proto.CommandResult, "$typeName" | "stdout" | "stderr">> & {
  stdout?: string;
  stderr?: string;
};

const REQUEST: TriggerInit = { event: "PreToolUse", toolCall: { tool: "bash", paramsJson: "{}" } };
const RESPONSE: Came = { case: "response", value: answer(ASK) };

/** Runs every command of the file as `sh -c INDEX-TH LINE OF IT`. */
const LINES: AgentCommands = {
  program({ file, index }) {
    const line = Buffer.from(file.content).toString().split("\n")[index];
    if (line === undefined) {
      throw new Error("there is no such line");
    }
    return { argv: ["/bin/sh", "-c", line], env: { PATH } };
  },
};

function side(): AgentSide {
  return new AgentSide([FILE], LINES);
}

function run(commandId: number, index: number, more: Partial<proto.RunCommand> = {}, sha256 = FILE.sha256): Came {
  const program = { case: "offeredRule", value: create(proto.OfferedRuleSchema, { sha256, index }) } as const;
  const value = create(proto.RunCommandSchema, {
    commandId,
    tier: proto.Tier.SHARED,
    program,
    stdin: Buffer.from(`input of ${commandId}`),
    timeout: durationFromMs(10_000),
    outputLimitBytes: 8,
  });
  return { case: "runCommand", value: Object.assign(value, more) };
}

async function serve(t: TestContext, script: (call: ScriptedCall) => Promise<void>): Promise<[Client, Scripted]> {
  const server = await Scripted.start(script);
  t.after(() => server.kill());
  return [client(server.address, "allow", { rounds: 2, deadlineMs: 20_000 }), server];
}

/** A server that says this, whatever the client does. */
function saying(t: TestContext, messages: (Came | undefined)[], code = 0, id?: string): Promise<[Client, Scripted]> {
  return serve(t, async (call) => {
    messages.forEach((message) => call.say(message));
    call.end({ code, message: "no", ...(id !== undefined && { id }) });
  });
}

async function receive(call: ScriptedCall): Promise<proto.TriggerStreamRequest["message"]> {
  return (await call.receive(proto.TriggerStreamRequestSchema)).message;
}

/** One command's result, as texts, and without how long it took. */
async function result(call: ScriptedCall): Promise<Result> {
  const message = await receive(call);
  assert.ok(message.case === "commandResult", message.case);
  const { $typeName: _, elapsed: _elapsed, stdout, stderr, truncated, failure, ...rest } = message.value;
  return {
    ...rest,
    ...(stdout.length > 0 && { stdout: Buffer.from(stdout).toString() }),
    ...(stderr.length > 0 && { stderr: Buffer.from(stderr).toString() }),
    ...(truncated && { truncated }),
    ...(failure !== Failure.UNSPECIFIED && { failure }),
  };
}

/** What commands come to, one after another. */
async function results(t: TestContext, commands: Came[], agent: AgentSide, request = REQUEST): Promise<Result[]> {
  const seen: Result[] = [];
  const [asks] = await serve(t, async (call) => {
    await receive(call);
    for (const command of commands) {
      call.say(command);
      seen.push(await result(call));
    }
    call.say(RESPONSE);
    call.end();
  });
  assert.equal((await agent.call(asks, request)).verdict, ASK);
  return seen;
}

/** Processes whose environment names this mark. */
async function marked(mark: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry))) {
    const environ = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
    if (environ.split("\0").includes(`MARK=${mark}`)) {
      found.push(pid);
    }
  }
  return found;
}

async function eventually(what: string, is: () => Promise<boolean>): Promise<void> {
  const limit = performance.now() + 20_000;
  while (!(await is())) {
    assert.ok(performance.now() < limit, what);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Lines of a file that run with a mark, to be found by. */
function markedSide(lines: string[], mark: string): [AgentSide, OfferedRules] {
  const file = new OfferedRules("shared", "/repo/hooks.json", "hookd", lines.join("\n"));
  const commands: AgentCommands = {
    program: ({ index }) => ({ argv: ["sh", "-c", lines[index] ?? ""], env: { PATH, MARK: mark } }),
  };
  return [new AgentSide([file], commands), file];
}

test("files are sent on demand, and results carry ids and are cut", async (t) => {
  const seen: unknown[] = [];
  const [asks, server] = await serve(t, async (call) => {
    seen.push(await receive(call));
    const sha256 = [FILE.sha256, "never offered"];
    call.say({ case: "needFiles", value: create(proto.NeedFilesSchema, { sha256 }) });
    seen.push(await receive(call));
    // One that is cancelled gives no result.
    call.say(run(1, 1));
    for (const commandId of [1, 9]) {
      call.say({ case: "cancelCommand", value: create(proto.CancelCommandSchema, { commandId }) });
    }
    for (const command of [run(2, 0), run(3, 2), run(4, 5), run(5, 0, {}, "other")]) {
      call.say(command);
      seen.push(await result(call));
    }
    call.say(RESPONSE);
    call.end();
  });
  assert.deepEqual(await side().call(asks, REQUEST), answer(ASK));
  assert.equal(server.calls, 1);
  const [start, files, ...rest] = seen as [
    proto.TriggerStreamRequest["message"],
    proto.TriggerStreamRequest["message"],
  ];
  assert.ok(start.case === "start" && files.case === "files");
  assert.deepEqual(start.value.trigger, create(proto.TriggerRequestSchema, REQUEST));
  assert.deepEqual(start.value.offered, [
    create(proto.OfferedFileSchema, {
      sha256: FILE.sha256,
      tier: proto.Tier.SHARED,
      path: "/repo/hooks.json",
      format: "hookd",
    }),
  ]);
  assert.deepEqual(
    files.value.files.map(({ content }) => Buffer.from(content)),
    [Buffer.from(FILE.content)],
  );
  const refused = (commandId: number, stderr: string) => ({ commandId, failure: Failure.NOT_PERMITTED, stderr });
  assert.deepEqual(rest, [
    { commandId: 2, exitCode: 0, stdout: "input of", truncated: true },
    { commandId: 3, exitCode: 7 },
    refused(4, "there is no such line"),
    refused(5, "the rule stands in no file that was offered"),
  ]);
});

test("files over the limits are not sent", async (t) => {
  const files = [300, 200, 250, 250, 250, 250].map(
    (kib, at) => new OfferedRules("local", `/f${at}`, "", Buffer.alloc(kib * 1024, at)),
  );
  let sent: number[] = [];
  const [asks] = await serve(t, async (call) => {
    await receive(call);
    call.say({
      case: "needFiles",
      value: create(proto.NeedFilesSchema, { sha256: files.map(({ sha256 }) => sha256) }),
    });
    const message = await receive(call);
    sent = message.case === "files" ? message.value.files.map(({ content }) => content[0] ?? -1) : [];
    call.say(RESPONSE);
    call.end();
  });
  await new AgentSide(files, LINES).call(asks, REQUEST);
  assert.deepEqual(sent, [1, 2, 3, 4]);
});

test("what is not understood is no answer and blocks", async (t) => {
  const rows: [(Came | undefined)[], string][] = [
    [[], "the stream ended without one"],
    [[undefined], "a message that this client does not know"],
    [[RESPONSE, RESPONSE], "the stream goes on after it"],
    [[RESPONSE, undefined], "the stream goes on after it"],
  ];
  for (const [messages, why] of rows) {
    const [asks, server] = await saying(t, messages);
    const gate = await side().trigger(asks, REQUEST);
    assert.ok(gate.kind === "refuse", gate.kind);
    assert.equal(gate.decision.error?.kind, "not-understood");
    assert.equal(gate.decision.error?.message, `the answer of hookd cannot be carried out: ${why}`);
    assert.equal(server.calls, 1);
  }
});

test("a server that breaks the rules leaves nothing running", async (t) => {
  const mark = `rules-${process.pid}`;
  const [agent, file] = markedSide(["sleep 1000; echo never"], mark);
  // One id for two, and more after what is no message.
  const again = () => run(1, 0, {}, file.sha256);
  const [asks] = await saying(t, [again(), again(), undefined, again(), again()]);
  await assert.rejects(agent.call(asks, REQUEST), { kind: "not-understood" });
  await agent.places.idle();
  assert.deepEqual(await marked(mark), []);
});

test("it is tried again only where nothing was run", async (t) => {
  const kind = (error: CallError) => error.kind;
  const [asks, server] = await saying(t, [], 14, "d9");
  assert.equal(await side().call(asks, REQUEST).catch(kind), "unavailable");
  assert.equal(server.calls, 2);

  const [again, second] = await saying(t, [run(1, 2)], 14, "d9");
  assert.equal(await side().call(again, REQUEST).catch(kind), "unavailable");
  assert.equal(second.calls, 1);
  const gate = await side().trigger(again, REQUEST);
  assert.ok(gate.kind === "run" && !gate.approved, "as `onUnavailable` says");

  // The answer counts only with the status that follows it.
  const [cut, third] = await saying(t, [RESPONSE], 13);
  assert.equal(await side().call(cut, REQUEST).catch(kind), "unavailable");
  assert.equal(third.calls, 2);
});

test("statuses mean what they mean on plain calls", async (t) => {
  const rows: [number, string | undefined, string][] = [
    [3, "d9", "refused"],
    [12, undefined, "refused"],
    [13, "d9", "internal"],
    [4, "d9", "deadline-exceeded"],
  ];
  for (const [code, id, kind] of rows) {
    const [asks, server] = await saying(t, [], code, id);
    await assert.rejects(side().call(asks, REQUEST), { kind, decisionId: id });
    assert.equal(server.calls, 1);
  }
});

test("a server that says nothing costs the deadline and no more", async (t) => {
  const server = await Scripted.start(async () => undefined);
  t.after(() => server.kill());
  const impatient = client(server.address, "allow", { deadlineMs: 300 });
  await assert.rejects(side().call(impatient, REQUEST), { kind: "deadline-exceeded" });
  assert.equal(server.calls, 1);
});

test("a start over the limit is not even sent", async () => {
  const gate = await side().trigger(client("127.0.0.1:1", "allow", { messageBytes: 64 }), REQUEST);
  assert.ok(gate.kind === "refuse" && gate.decision.error?.kind === "refused");
});

test("a side with nothing to offer makes a plain call", async (t) => {
  const server = await Scripted.answering(() => answer(ASK));
  t.after(() => server.kill());
  const empty = new AgentSide([], LINES);
  assert.ok(empty.isEmpty);
  const session = client(server.address).session("s", { ownRules: empty });
  assert.equal((await session.preToolUse("bash", {})).kind, "ask");
});

test("programs of the server's run only where the caller has said so", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "hookd-client-"));
  t.after(() => rm(folder, { recursive: true }));
  process.env["HOOKD_TEST_SECRET"] = "hidden";
  const program = (argv: string[], env: Record<string, string> = {}) =>
    ({ case: "serverProgram", value: create(proto.ServerProgramSchema, { argv, env }) }) as const;
  const asked = (argv: string[], more: Partial<proto.RunCommand> = {}) =>
    run(1, 0, { program: program(argv, { HOME: "/h", X: "1" }), outputLimitBytes: 1000, ...more });
  const refused = await results(t, [asked(["env"])], side());
  assert.deepEqual(refused, [
    { commandId: 1, failure: Failure.NOT_PERMITTED, stderr: "this caller runs no programs of the server's" },
  ]);
  const open = new AgentSide([], LINES, { serverPrograms: true });
  const [env, where, none, unknown, missing, nowhere] = await results(
    t,
    [
      asked(["env"]),
      asked(["pwd"], { cwd: folder }),
      asked([]),
      run(5, 0, { program: { case: undefined } }),
      asked(["no-such-program"]),
      asked(["pwd"], { cwd: join(folder, "gone") }),
    ],
    open,
  );
  const names = (env?.stdout ?? "")
    .trim()
    .split("\n")
    .map((line) => line.split("=")[0]);
  assert.ok(names.includes("X") && !names.includes("HOOKD_TEST_SECRET"), env?.stdout);
  assert.ok(env?.stdout?.includes("HOME=/h\n"));
  assert.deepEqual(where, { commandId: 1, exitCode: 0, stdout: `${folder}\n` });
  assert.deepEqual(none, { commandId: 1, failure: Failure.DID_NOT_START, stderr: "no program is named" });
  assert.deepEqual(unknown, {
    commandId: 5,
    failure: Failure.UNSUPPORTED,
    stderr: "this caller does not know what is to be run",
  });
  assert.deepEqual(missing, {
    commandId: 1,
    failure: Failure.DID_NOT_START,
    stderr: "cannot start `no-such-program`: ENOENT",
  });
  assert.deepEqual(nowhere, {
    commandId: 1,
    failure: Failure.DID_NOT_START,
    stderr: `cannot use the working directory \`${join(folder, "gone")}\`: ENOENT`,
  });
});

test("a command runs in the directory of the event, and ends as it ends", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "hookd-client-"));
  t.after(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "script"), "#!/bin/sh\necho here", { mode: 0o644 });
  const lines = ["pwd", "kill -SEGV $$", "echo no >&2; exit 2", "./script"];
  const [agent, file] = markedSide(lines, "ends");
  const commands = lines.map((_, at) => run(at + 1, at, { outputLimitBytes: 1000 }, file.sha256));
  const [where, killed, failed, unlaunched] = await results(t, commands, agent, { ...REQUEST, cwd: folder });
  assert.deepEqual(where, { commandId: 1, exitCode: 0, stdout: `${folder}\n` });
  assert.deepEqual(killed, { commandId: 2, signal: 11 });
  assert.deepEqual(failed, { commandId: 3, exitCode: 2, stderr: "no\n" });
  assert.equal(unlaunched?.exitCode, 126);
});

test("case_010 megabytes go in and come out at the same time", async (t) => {
  const [agent, file] = markedSide(["cat; cat /dev/null", "head -c 3000000 /dev/zero | tr '\\0' x"], "streams");
  const stdin = Buffer.alloc(700_000, "y");
  const [echoed, cut] = await results(
    t,
    [
      run(1, 0, { stdin, outputLimitBytes: 1_000_000 }, file.sha256),
      run(2, 1, { stdin, outputLimitBytes: 4_000_000_000 }, file.sha256),
    ],
    agent,
  );
  assert.deepEqual(echoed, { commandId: 1, exitCode: 0, stdout: "y".repeat(700_000) });
  assert.deepEqual(cut, { commandId: 2, exitCode: 0, stdout: "x".repeat(1024 * 1024), truncated: true });
});

test("a command that takes too long is killed, and everything that it started", async (t) => {
  const mark = `late-${process.pid}`;
  const [agent, file] = markedSide(
    ["echo begun; trap '' TERM; (trap '' TERM; sleep 1000) & sleep 1000; sleep 1000"],
    mark,
  );
  const begun = performance.now();
  const late = run(1, 0, { timeout: durationFromMs(300), outputLimitBytes: 100 }, file.sha256);
  assert.deepEqual(await results(t, [late], agent), [{ commandId: 1, failure: Failure.TIMED_OUT, stdout: "begun\n" }]);
  assert.ok(performance.now() - begun < 5000);
  await eventually("nothing is left", async () => (await marked(mark)).length === 0);
  await agent.places.idle();
});

test("a leader that exits leaves alone what it detached, and the answer does not wait for it", async (t) => {
  const mark = `detached-${process.pid}`;
  const [agent, file] = markedSide(["sleep 30 & echo done"], mark);
  t.after(async () => (await marked(mark)).forEach((pid) => process.kill(Number(pid), "SIGKILL")));
  const begun = performance.now();
  const left = run(1, 0, { outputLimitBytes: 100 }, file.sha256);
  assert.deepEqual(await results(t, [left], agent), [{ commandId: 1, exitCode: 0, stdout: "done\n" }]);
  assert.ok(performance.now() - begun < 5000);
  assert.equal((await marked(mark)).length, 1);
  assert.equal(agent.places.live, 0);
});

test("a call that ends takes its commands along", async (t) => {
  const mark = `ended-${process.pid}`;
  const [agent, file] = markedSide(["sleep 1000; echo never"], mark);
  const runs = () => eventually("it runs", async () => (await marked(mark)).length > 0);
  const gone = () => eventually("nothing is left", async () => (await marked(mark)).length === 0);

  // With its answer,
  const [answered] = await serve(t, async (call) => {
    await receive(call);
    call.say(run(1, 0, {}, file.sha256));
    await runs();
    call.say(RESPONSE);
    call.end();
  });
  assert.equal((await agent.call(answered, REQUEST)).verdict, ASK);
  await gone();

  // with its deadline, with its server, and with its caller.
  const [silent, server] = await serve(t, async (call) => {
    await receive(call);
    call.say(run(1, 0, {}, file.sha256));
  });
  const address = server.address;
  const impatient = client(address, "block", { deadlineMs: 1000 });
  await assert.rejects(agent.call(impatient, REQUEST), { kind: "deadline-exceeded" });
  await gone();
  const abort = new AbortController();
  const aborted = agent.call(silent, REQUEST, { signal: abort.signal });
  await runs();
  abort.abort(new Error("enough"));
  await assert.rejects(aborted, /enough/);
  await gone();
  const killed = agent.call(silent, REQUEST);
  await runs();
  await server.kill();
  await assert.rejects(killed, { kind: "unavailable" });
  await gone();
});

test("what nobody waits for runs on, or is handed over", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "hookd-client-"));
  t.after(() => rm(folder, { recursive: true }));
  const lines = [`cat > ${join(folder, "out")}`];
  const file = new OfferedRules("shared", "/repo/hooks.json", "hookd", lines.join("\n"));
  const detached: DetachedProgram[] = [];
  let takes = false;
  const agent = new AgentSide([file], {
    program: ({ index }) => ({ argv: ["sh", "-c", lines[index] ?? ""], env: { PATH } }),
    detach: (program) => takes && detached.push(program) > 0,
  });
  const [asks] = await serve(t, async (call) => {
    await receive(call);
    call.say(run(1, 0, { detached: true }, file.sha256));
    call.say(RESPONSE);
    call.end();
  });
  await agent.call(asks, { ...REQUEST, cwd: folder });
  await eventually(
    "it has run",
    async () => (await readFile(join(folder, "out"), "utf8").catch(() => "")) === "input of 1",
  );
  takes = true;
  await agent.call(asks, { ...REQUEST, cwd: folder });
  assert.deepEqual(
    detached.map(({ stdin, ...rest }) => ({ ...rest, stdin: Buffer.from(stdin).toString() })),
    [{ program: { argv: ["sh", "-c", lines[0]], env: { PATH }, cwd: folder }, timeoutMs: 10_000, stdin: "input of 1" }],
  );
});

test("programs of native rule files are found where they stand", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "hookd-client-"));
  t.after(() => rm(folder, { recursive: true }));
  const rule = (handler: object, more: object = {}) => ({ event: "PreToolUse", handler, ...more });
  const hooks = [
    rule({ type: "command", command: "echo hi", shell: "bash", env: { X: "1" } }),
    rule({ type: "command", argv: ["./tool", "a b"], cwd: "tools" }),
    rule({ type: "decide", verdict: "allow" }),
    rule({ type: "command", command: "x" }, { protocol: "claude-code" }),
    rule({ type: "command", argv: ["x", 1] }),
    rule({ type: "command" }),
  ];
  await writeFile(join(folder, "hooks.json"), JSON.stringify({ hooks }));
  const file = await OfferedRules.read("shared", join(folder, "hooks.json"));
  const request = create(proto.TriggerRequestSchema, {
    event: "PreToolUse",
    sessionId: "s".repeat(5000),
    cwd: join(folder, "gone"),
    workspaceRoots: [folder],
    toolCall: { tool: "bash" },
  });
  const program = (index: number, from = file) => nativeProgram({ file: from, index, ruleId: "r", request });
  const { env, ...shell } = program(0);
  assert.deepEqual(shell, { argv: ["bash", "-c", "echo hi"], cwd: folder });
  const { PATH: _path, HOME: _home, LANG: _lang, TMPDIR: _tmpdir, ...own } = env;
  const said = { HOOKD_EVENT: "PreToolUse", HOOKD_TOOL: "bash", HOOKD_RULE_ID: "r", HOOKD_CWD: request.cwd };
  assert.deepEqual(own, { ...said, X: "1" });
  const { env: _env, ...words } = program(1);
  assert.deepEqual(words, { argv: ["./tool", "a b"], cwd: join(folder, "tools") });
  for (const [index, message] of [
    [2, /rule `r` of .* is no command/],
    [3, /speaks a protocol that is not known here/],
    [4, /has no command at 4 that can be read/],
    [5, /has no command at 5 that can be read/],
    [6, /is no command/],
  ] as const) {
    assert.throws(() => program(index), message);
  }
  const yaml = new OfferedRules("shared", "/hooks.yaml", "hookd", "hooks: []");
  assert.throws(() => program(0, yaml), /\/hooks.yaml is no rule file in JSON/);
});

test("the cap on programs holds, and those that wait get their turn", async (t) => {
  const mark = `cap-${process.pid}`;
  const [agent, file] = markedSide(["sleep 0.05"], mark);
  let most = 0;
  const count = 80;
  const [asks] = await serve(t, async (call) => {
    await receive(call);
    for (let commandId = 1; commandId <= count; commandId += 1) {
      call.say(run(commandId, 0, {}, file.sha256));
    }
    const codes: unknown[] = [];
    while (codes.length < count) {
      most = Math.max(most, agent.places.live);
      codes.push((await result(call)).exitCode);
    }
    assert.deepEqual(
      codes,
      Array.from({ length: count }, () => 0),
    );
    call.say(RESPONSE);
    call.end();
  });
  await agent.call(asks, REQUEST);
  assert.ok(most > 1 && most <= 48, `${most}`);
  assert.equal(agent.places.live, 0);
});

test("a shutdown ends everything for good", async (t) => {
  const mark = `shutdown-${process.pid}`;
  const [agent, file] = markedSide(["trap '' TERM; sleep 1000; sleep 1000"], mark);
  const seen: Result[] = [];
  const [asks] = await serve(t, async (call) => {
    await receive(call);
    for (const commandId of [1, 2]) {
      call.say(run(commandId, 0, {}, file.sha256));
      seen.push(await result(call));
    }
    call.say(RESPONSE);
    call.end();
  });
  const asked = agent.call(asks, REQUEST);
  await eventually("it runs", async () => (await marked(mark)).length > 0);
  assert.equal(await agent.shutdown(50), 0);
  assert.equal((await marked(mark)).length, 0);
  await asked;
  const cancelled = { failure: Failure.CANCELLED };
  assert.deepEqual(seen, [
    { commandId: 1, ...cancelled },
    { commandId: 2, ...cancelled },
  ]);
});
