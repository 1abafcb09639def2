/** The program that the Claude Agent SDK ships, a scripted server in the model's place, and hookd in its loop. */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { createSdkMcpServer, query, tool, type Options, type SDKMessage } from "@anthropic-ai/claude-agent-sdk";
import * as z from "zod";

import { proto, type Decision, type Session } from "@hookd/client";
import { hookdHooks } from "@hookd/client/adapters/claude-agent-sdk";

import { decide, Hookd } from "../support/hookd.js";
import { ModelServer, type Turn } from "./model.js";
import {
  Adder,
  assertSigned,
  clientOf,
  escaped,
  example,
  hookdWith,
  mortalSession,
  RULES,
  sessionWith,
  sessionWithout,
} from "./support.js";

const CALL: Turn = { name: "mcp__sums__add", input: { a: 1, b: 2 } };

class Run {
  readonly adder = new Adder();
  readonly told: Decision[] = [];
  readonly model: ModelServer;
  readonly options: Options;
  readonly #session: Session;

  private constructor(session: Session, model: ModelServer, folder: string, more: Options) {
    this.#session = session;
    this.model = model;
    const parameters = { a: z.number(), b: z.number() };
    const add = tool("add", "adds", parameters, async (params) => ({
      content: [{ type: "text", text: this.adder.add(params) }],
    }));
    this.options = {
      // Nothing of this machine's own settings and names.
      env: {
        PATH: process.env["PATH"],
        HOME: folder,
        CLAUDE_CONFIG_DIR: join(folder, "config"),
        ANTHROPIC_BASE_URL: model.url,
        ANTHROPIC_API_KEY: "scripted",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      },
      cwd: folder,
      model: "scripted",
      settingSources: [],
      tools: [],
      allowedTools: ["mcp__sums__add"],
      mcpServers: { sums: createSdkMcpServer({ name: "sums", tools: [add] }) },
      ...more,
    };
  }

  static async of(t: TestContext, session: Session, turns: Turn[] = [CALL, "done", "done again"], more: Options = {}) {
    const model = await ModelServer.start(...turns);
    t.after(() => model.end());
    const folder = await mkdtemp(join(tmpdir(), "hookd-claude-"));
    t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
    return new Run(session, model, folder, more);
  }

  async go(listen: (decision: Decision) => void = () => undefined): Promise<SDKMessage[]> {
    const onDecision = (decision: Decision) => {
      this.told.push(decision);
      listen(decision);
    };
    const hooks = hookdHooks(this.#session, { onDecision });
    const messages: SDKMessage[] = [];
    try {
      for await (const message of query({ prompt: "what is 1 + 2?", options: { ...this.options, hooks } })) {
        messages.push(message);
      }
    } catch (error) {
      // What ends in an error is thrown, too, after its result.
      assert.ok(
        messages.some(({ type }) => type === "result"),
        String(error),
      );
    }
    return messages;
  }

  /** What the model was told of the call. */
  get output(): { text: string; isError: boolean } {
    const [result, ...others] = this.model.blocks("tool_result");
    assert.ok(result !== undefined && others.length === 0, JSON.stringify(this.model.seen.at(-1)));
    const { content = "" } = result;
    const text = typeof content === "string" ? content : content.map((block) => block.text ?? "").join("\n");
    return { text, isError: result.is_error === true };
  }
}

async function run(t: TestContext, ...rules: object[]): Promise<Run> {
  return Run.of(t, await sessionWith(t, ...rules));
}

function resultOf(messages: SDKMessage[]): string {
  const result = messages.find((message) => message.type === "result");
  assert.ok(result?.type === "result");
  return result.subtype === "success" ? result.result : result.subtype;
}

test("a tool runs as it was called", async (t) => {
  const one = await run(t);
  assert.equal(resultOf(await one.go()), "done");
  assert.deepEqual([one.adder.ran, one.output], [[{ a: 1, b: 2 }], { text: "sum 3", isError: false }]);
  assert.deepEqual(
    one.told.filter(({ degraded }) => degraded),
    [],
  );
});

test("a block comes back as the tool's error", async (t) => {
  const one = await run(t, RULES.addBlock);
  await one.go();
  assert.deepEqual([one.adder.ran, one.output.isError], [[], true]);
  assertSigned(one.output.text, "no adding today", "no-add");
});

test("a rewrite reaches the tool", async (t) => {
  const one = await run(t, RULES.addRewrite);
  await one.go();
  assert.deepEqual([one.adder.ran, one.output.text], [[{ a: 40, b: 2 }], "sum 42"]);
});

test("rules see a tool of the SDK's own as Claude Code names it", async (t) => {
  const when = "toolKind == 'shell' && params.command.startsWith('rm ')";
  const session = await sessionWith(t, decide("no-rm", "PreToolUse", "block", { when }, { reason: "no removing" }));
  const turns = [{ name: "Bash", input: { command: "rm -rf x" } }, "done"];
  const one = await Run.of(t, session, turns, { tools: ["Bash"], allowedTools: ["Bash"] });
  await one.go();
  assertSigned(one.output.text, "no removing", "no-rm");
});

test("a rewrite that would lose digits on the way reaches nothing", async (t) => {
  const one = await run(t, RULES.addDigits);
  await one.go();
  assertSigned(one.output.text, "would lose digits on the way to the tool", "exact");
  assert.deepEqual(one.adder.ran, []);
});

test("a result is replaced, and a block after the fact stands beside it", async (t) => {
  const hidden = await run(t, RULES.resultHide);
  await hidden.go();
  assert.equal(hidden.output.text, "***");
  const blocked = await run(t, RULES.resultBlock);
  await blocked.go();
  assertSigned(JSON.stringify(blocked.model.seen.at(-1)), "look again", "look");
});

test("stop makes it go on", async (t) => {
  const one = await run(t, RULES.stopOnce);
  assert.equal(resultOf(await one.go()), "done again");
  assertSigned(JSON.stringify(one.model.seen.at(-1)?.at(-1)), "check it again", "again");
});

test("a question goes to the SDK's own, and is a no where nobody is there", async (t) => {
  const session = await sessionWith(t, RULES.addAsk);
  const alone = await Run.of(t, session);
  await alone.go();
  assert.deepEqual([alone.adder.ran, alone.output.isError], [[], true]);
  const asked: unknown[] = [];
  const canUseTool: Options["canUseTool"] = async (_tool, input) => {
    asked.push(input);
    return { behavior: "allow", updatedInput: input };
  };
  const agreed = await Run.of(t, session, [CALL, "done"], { canUseTool, allowedTools: [] });
  await agreed.go();
  assert.deepEqual([asked, agreed.adder.ran], [[{ a: 40, b: 2 }], [{ a: 40, b: 2 }]]);
});

test("what it cannot suspend is downgraded by hookd", async (t) => {
  const one = await run(t, RULES.addDefer);
  await one.go();
  assert.deepEqual([one.adder.ran, one.output.isError], [[], true]);
  const [downgrade] = one.told.flatMap(({ answer }) => answer?.downgrades ?? []);
  assert.equal(downgrade?.missing, proto.Capability.DEFER);
});

test("a refused prompt reaches no model", async (t) => {
  const one = await run(t, RULES.promptBlock);
  const messages = await one.go();
  assertSigned(JSON.stringify(messages), "not this", "no-prompt");
  assert.equal(one.model.seen.length, 0);
});

test("context stands beside the prompt", async (t) => {
  const one = await run(t, RULES.promptNote);
  await one.go();
  assert.match(JSON.stringify(one.model.seen[0]), /mind the gap/);
});

test("a halt ends the query", async (t) => {
  for (const rule of [RULES.addHalt, RULES.resultHalt]) {
    const one = await run(t, rule);
    await one.go();
    assert.deepEqual([one.adder.ran.length, one.model.seen.length], [rule === RULES.addHalt ? 0 : 1, 1]);
  }
});

test("a tool that breaks says so to the model, with what rules have to say", async (t) => {
  const one = await run(t, RULES.failureNote);
  one.adder.breaks = true;
  await one.go();
  assert.match(one.output.text, /the shop is closed/);
  assert.match(JSON.stringify(one.model.seen.at(-1)), /it is closed/);
});

test("with no hookd there, it is as the caller says", async (t) => {
  const blocked = await Run.of(t, await sessionWithout(t, "block"));
  assert.match(JSON.stringify(await blocked.go()), /hookd cannot be reached/);
  assert.equal(blocked.model.seen.length, 0);
  const allowed = await Run.of(t, await sessionWithout(t, "allow"));
  await allowed.go();
  assert.deepEqual([allowed.adder.ran, allowed.output.text], [[{ a: 1, b: 2 }], "sum 3"]);
});

test("a hookd that goes away under a session blocks its calls", async (t) => {
  const { session, kill } = await mortalSession(t, RULES.promptNote);
  const one = await Run.of(t, session);
  await one.go(({ additionalContext }) => {
    if (additionalContext.length > 0) {
      kill();
    }
  });
  assert.deepEqual([one.adder.ran, one.output.isError], [[], true]);
  assert.match(one.output.text, /hookd cannot be reached/);
});

test("a hook that fails blocks, whatever was decided", async (t) => {
  const one = await run(t, RULES.addAllow);
  await one.go(({ answer }) => {
    if (answer?.decidedBy?.ruleId === "fine-add") {
      throw new Error("a fault of the listener's own");
    }
  });
  assert.deepEqual([one.adder.ran, one.output.isError], [[], true]);
});

test("a result that nobody has judged is not shown", async (t) => {
  const { session, kill } = await mortalSession(t);
  const one = await Run.of(t, session);
  one.adder.meanwhile = kill;
  await one.go();
  assert.deepEqual(one.adder.ran, [{ a: 1, b: 2 }]);
  assert.doesNotMatch(JSON.stringify(one.model.seen), /sum 3/);
  assert.match(one.output.text, /hookd/);
});

test("a result of a tool of the SDK's own keeps its form", async (t) => {
  const more: Options = { tools: ["Bash"], allowedTools: ["Bash"] };
  const turns = [{ name: "Bash", input: { command: "echo sec''ret" } }, "done"];
  for (const [modifiedResult, shown] of [
    ["***", "***"],
    [{ hidden: true }, '{"hidden":true}'],
    [7, "7"],
    [{ stdout: 7, stderr: "", interrupted: false, isImage: false, noOutputExpected: false }, /^\{"stdout":7,/],
    [{ stdout: "+++", stderr: "", interrupted: false, isImage: false, noOutputExpected: false }, "+++"],
  ] as const) {
    const hide = decide("hide", "PostToolUse", undefined, { matcher: "^Bash$" }, { modifiedResult });
    const hidden = await Run.of(t, await sessionWith(t, hide), turns, more);
    await hidden.go();
    assert.match(hidden.output.text, typeof shown === "string" ? new RegExp(`^${escaped(shown)}$`) : shown);
  }

  const hookd = await Hookd.start({ rules: [] });
  t.after(() => hookd.end());
  const last = [{ name: "Bash", input: { command: `kill -9 ${hookd.pid}; echo sec''ret` } }, "done"];
  const gone = await Run.of(t, clientOf(t, hookd.address).session("s"), last, more);
  await gone.go();
  assert.match(gone.output.text, /hookd/);
  assert.doesNotMatch(JSON.stringify(gone.model.seen), /secret/);
});

test("the example runs", async (t) => {
  const client = clientOf(t, await hookdWith(t, RULES.addRewrite, RULES.stopOnce));
  const one = await Run.of(t, client.session("s"));
  const said = await example("claude-agent-sdk", { client, options: one.options });
  assert.deepEqual([said, one.adder.ran], [["done again"], [{ a: 40, b: 2 }]]);
});
