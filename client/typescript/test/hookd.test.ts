/** The client against the real hookd. */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";

import { writeJson, type JsonObject } from "@hookd/client";
import { AgentSide, OfferedRules } from "@hookd/client/agent-commands";

import { client, seen } from "./support/clients.js";
import { decide, Hookd, type Setup } from "./support/hookd.js";

const PACKAGE = new URL("../..", import.meta.url).pathname;
const PATH = "/usr/local/bin:/usr/bin:/bin";

async function start(t: TestContext, setup: Setup): Promise<Hookd> {
  const hookd = await Hookd.start(setup);
  t.after(() => hookd.end());
  return hookd;
}

function shell(id: string, event: string, command: string, more: object = {}): object {
  return { id, event, handler: { type: "command", command, ...more } };
}

/** Puts what a handler was given into the parameters. */
const ECHO = shell("echo", "PreToolUse", `printf '{"modifiedParams":{"given":%s}}' "$(cat)"`);

const RULES = [
  decide("no-rm", "PreToolUse", "block", { matcher: "^rm$" }, { reason: "no removing" }),
  decide("fine", "PreToolUse", "allow", { matcher: "^ls$" }),
  decide("person", "PreToolUse", "ask", { matcher: "^push$" }, { reason: "who says so" }),
  decide("later", "PreToolUse", "defer", { matcher: "^deploy$" }, { reason: "in the morning" }),
  decide("other", "PreToolUse", "allow", { matcher: "^cp$" }, { modifiedParams: { id: 9007199254740993n } }),
  decide("hide", "PostToolUse", "block", { matcher: "^cat$" }, { reason: "a secret", modifiedResult: "***" }),
  decide("swear", "UserPromptSubmit", "block", {}, { reason: "no swearing" }),
  decide("go-on", "Stop", "block", { when: "payload.stop_hook_active == false" }, { reason: "write the tests" }),
  decide("start", "SessionStart", "block"),
  decide("enough", "Notification", undefined, {}, { halt: true, reason: "enough" }),
];

test("every gate of an agent's loop", async (t) => {
  const hookd = await start(t, { rules: RULES });
  const revision = (await client(hookd.address).status()).policyRevision;
  for (const address of [hookd.address, `unix:${hookd.socket}`]) {
    const session = client(address).session("s1", { cwd: "/" });
    const run = { kind: "run", approved: false };
    assert.deepEqual(seen(await session.preToolUse("other", {})), run);
    assert.deepEqual(seen(await session.preToolUse("ls", {})), { ...run, approved: true });
    assert.deepEqual(seen(await session.preToolUse("rm", {})), { kind: "refuse", reason: "no removing" });
    assert.deepEqual(seen(await session.preToolUse("push", {})), { kind: "ask", reason: "who says so" });
    assert.deepEqual(seen(await session.preToolUse("deploy", {})), { kind: "suspend", reason: "in the morning" });
    const copied = await session.preToolUse("cp", {});
    assert.ok(copied.kind === "run" && copied.approved);
    assert.equal(copied.params?.text, '{"id":9007199254740993}');
    assert.deepEqual(copied.params.value(), { id: 9007199254740993n });
    assert.equal(copied.decision.policyRevision, revision);
    assert.match(copied.decision.id, /^[0-9a-f-]{36}$/);
    const hidden = { kind: "refuse", reason: "a secret", result: '"***"' };
    assert.deepEqual(seen(await session.postToolUse("cat", {}, "password")), hidden);
    assert.deepEqual(seen(await session.userPromptSubmit("damn")), { kind: "refuse", reason: "no swearing" });
    assert.deepEqual(seen(await session.stop()), { kind: "continue", reason: "write the tests" });
    assert.deepEqual(seen(await session.stop(true)), run);
    assert.deepEqual(seen(await session.sessionStart("startup")), run);
    assert.equal((await session.trigger("Notification", { payload: { type: "idle" } })).kind, "halt");
  }
});

test("a wrapped tool between real rules", async (t) => {
  const hookd = await start(t, { rules: RULES });
  const session = client(hookd.address).session("s1");
  const ran: object[] = [];
  const tool = (name: string) => session.wrapTool(name, (params: object) => (ran.push(params), "password"));
  assert.deepEqual((await tool("rm")({})).kind, "refused");
  assert.equal((await tool("cp")({ id: 1 })).kind, "ran");
  assert.deepEqual(ran, [{ id: 9007199254740993n }]);
  const hidden = await tool("cat")({});
  assert.ok(hidden.kind === "ran");
  assert.deepEqual([hidden.result, hidden.feedback], ["***", "a secret"]);
});

test("case_045 digits and characters arrive and come back as they were", async (t) => {
  const hookd = await start(t, { rules: [ECHO] });
  const session = client(hookd.address).session("s1");
  const texts = [
    '{"big":123456789012345678901234567890,"small":9007199254740993,"exact":0.10000000000000000001,"one":1.0,"e":1e400}',
    '{"text":"漢字 😀 é \\u0007 \\\\ \\" \u2028","":"","__proto__":1}',
  ];
  for (const text of texts) {
    const gate = await session.preToolUse("bash", text);
    assert.ok(gate.kind === "run" && gate.params !== undefined, gate.decision.error?.message);
    const { given } = gate.params.value() as { given: JsonObject & { toolCall: { params: JsonObject } } };
    assert.ok(gate.params.text.includes(`"params":${text}`), gate.params.text);
    if (text.includes("big")) {
      assert.equal(given.toolCall.params["big"], 123456789012345678901234567890n);
      assert.equal(String(given.toolCall.params["e"]), "1e400");
    } else {
      assert.equal(given.toolCall.params["text"], '漢字 😀 é \u0007 \\ " \u2028');
      assert.ok(Object.hasOwn(given.toolCall.params, "__proto__"));
    }
  }
  const asValue = await session.preToolUse("bash", { n: 123456789012345678901234567890n });
  assert.ok(asValue.kind === "run" && asValue.params?.text.includes('"params":{"n":123456789012345678901234567890}'));
});

test("what an administrator asks", async (t) => {
  const hookd = await start(t, { rules: RULES });
  const asks = client(hookd.address);
  const { rules } = await asks.listRules("Stop");
  assert.deepEqual(
    rules.map(({ ruleId }) => ruleId),
    ["go-on"],
  );
  const explained = await asks.explain({ event: "PreToolUse", toolCall: { tool: "rm" } });
  assert.ok(explained.rules.length > 3);
  await asks.reload();
});

test("rules of the agent's own run where the agent is", async (t) => {
  const hookd = await start(t, { rules: [decide("fine", "PreToolUse", "allow")] });
  await writeFile(join(hookd.folder, "policy"), "no ls here");
  const guard = `input=$(cat); case $input in *'"ls"'*) echo "{\\"blocked\\":true,\\"blockReason\\":\\"$(cat policy)\\"}";; esac`;
  const content = writeJson({ hooks: [shell("guard", "PreToolUse", guard)] });
  await writeFile(join(hookd.folder, "hooks.json"), content);
  const side = new AgentSide([await OfferedRules.read("shared", join(hookd.folder, "hooks.json"))]);
  const session = client(hookd.address).session("s", { cwd: hookd.folder, ownRules: side });
  for (let round = 0; round < 2; round += 1) {
    const refused = await session.preToolUse("bash", { command: "ls" });
    assert.deepEqual(seen(refused), { kind: "refuse", reason: "no ls here" }, refused.decision.error?.message);
    const allowed = await session.preToolUse("bash", { command: "pwd" });
    assert.deepEqual(seen(allowed), { kind: "run", approved: true });
  }
  assert.equal(side.places.live, 0);
});

test("a process with an idle connection ends by itself", async (t) => {
  const hookd = await start(t, { rules: RULES });
  const script = `
    import { Client } from "@hookd/client";
    const gate = await new Client(${JSON.stringify(hookd.address)}, { onUnavailable: "block" }).session("s").preToolUse("rm", {});
    console.log(gate.kind);`;
  // A proxy for the web is none for this.
  const env = { ...process.env, http_proxy: "http://127.0.0.1:1", https_proxy: "http://127.0.0.1:1" };
  const node = promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
    cwd: PACKAGE,
    env,
    timeout: 20_000,
  });
  assert.equal((await node).stdout, "refuse\n");
});

test("a process that ends takes its commands along", async (t) => {
  const hookd = await start(t, { rules: [] });
  const content = writeJson({ hooks: [shell("slow", "PreToolUse", "-", { timeout: 60_000 })] });
  const script = `
    import { Client } from "@hookd/client";
    import { AgentSide, OfferedRules } from "@hookd/client/agent-commands";
    const file = new OfferedRules("shared", "/repo/hooks.json", "hookd", ${JSON.stringify(content)});
    const commands = { program: () => ({ argv: ["sh", "-c", "echo $$ > pid.new; mv pid.new pid; sleep 1000; sleep 1000"], env: { PATH: "${PATH}" } }) };
    const ownRules = new AgentSide([file], commands);
    const client = new Client(${JSON.stringify(hookd.address)}, { onUnavailable: "block" });
    process.stdin.once("data", () => process.exit(3));
    await client.session("s", { ownRules, cwd: ${JSON.stringify(hookd.folder)} }).preToolUse("bash", {});`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    cwd: PACKAGE,
    stdio: ["pipe", "inherit", "inherit"],
  });
  await until(async () => (await readdir(hookd.folder)).includes("pid"));
  const pid = Number(await readFile(join(hookd.folder, "pid"), "utf8"));
  child.stdin.write("now\n");
  assert.deepEqual(await once(child, "exit"), [3, null]);
  await until(async () => /^$|^\d+ \(.*\) Z/.test(await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")));
});

async function until(is: () => Promise<boolean>): Promise<void> {
  const limit = performance.now() + 20_000;
  while (!(await is())) {
    assert.ok(performance.now() < limit, "in time");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
