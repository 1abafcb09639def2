/** The Vercel AI SDK's own loop and a scripted model, with hookd in it. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import {
  generateText,
  simulateReadableStream,
  stepCountIs,
  streamText,
  tool,
  type ModelMessage,
  type ToolSet,
} from "ai";
import { MockLanguageModelV3 } from "ai/test";
import * as z from "zod";

import type { Decision, Session } from "@hookd/client";
import { AgentHalted, HookdTools, PromptRefused } from "@hookd/client/adapters/ai-sdk";

import {
  Adder,
  assertSigned,
  clientOf,
  example,
  hookdWith,
  mortalSession,
  RULES,
  sessionWith,
  sessionWithout,
} from "./support.js";

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

const CALL = { type: "tool-call", toolCallId: "call-1", toolName: "add", input: '{"a": 1, "b": 2}' } as const;

function script(): MockLanguageModelV3 {
  const says = (text: string) => ({
    content: [{ type: "text" as const, text }],
    finishReason: { unified: "stop" as const, raw: undefined },
    usage: USAGE,
    warnings: [],
  });
  const calls = { ...says(""), content: [CALL], finishReason: { unified: "tool-calls" as const, raw: undefined } };
  return new MockLanguageModelV3({ doGenerate: [calls, says("done"), says("done again")] });
}

const INPUT = z.object({ a: z.number(), b: z.number() });

function toolsOf(adder: Adder, needsApproval = false) {
  return { add: tool({ description: "adds", inputSchema: INPUT, needsApproval, execute: adder.add }) };
}

class Run {
  readonly adder = new Adder();
  readonly told: Decision[] = [];
  readonly model = script();
  readonly hookd: HookdTools;
  readonly tools: ToolSet;

  constructor(session: Session, needsApproval = false) {
    this.hookd = new HookdTools(session, { onDecision: (decision) => this.told.push(decision) });
    this.tools = toolsOf(this.adder, needsApproval);
  }

  go(messages: ModelMessage[] = [{ role: "user", content: "what is 1 + 2?" }]) {
    return this.hookd.generateText({ model: this.model, tools: this.tools, messages, stopWhen: stepCountIs(5) });
  }

  /** What the model was told of the call. */
  get output(): unknown {
    const results = (this.model.doGenerateCalls.at(-1)?.prompt ?? []).flatMap((message) =>
      message.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : [],
    );
    const [result, ...others] = results;
    assert.ok(result !== undefined && others.length === 0);
    return result.output;
  }

  text(type: string): string {
    const output = this.output as { type: string; value?: string; reason?: string };
    assert.equal(output.type, type);
    return output.value ?? output.reason ?? "";
  }
}

async function run(t: TestContext, ...rules: object[]): Promise<Run> {
  return new Run(await sessionWith(t, ...rules));
}

test("a tool runs as it was called", async (t) => {
  const one = await run(t);
  assert.equal((await one.go()).text, "done");
  assert.deepEqual([one.adder.ran, one.text("text")], [[{ a: 1, b: 2 }], "sum 3"]);
  assert.equal(one.told.length, 4);
});

test("a block comes back as the tool's error", async (t) => {
  const one = await run(t, RULES.addBlock);
  await one.go();
  assert.deepEqual(one.adder.ran, []);
  assertSigned(one.text("error-text"), "no adding today", "no-add");
});

test("a rewrite reaches the tool", async (t) => {
  const one = await run(t, RULES.addRewrite);
  await one.go();
  assert.deepEqual([one.adder.ran, one.text("text")], [[{ a: 40, b: 2 }], "sum 42"]);
  assert.equal(one.told.length, 4);
});

test("a rewrite that would lose digits on the way reaches nothing", async (t) => {
  const one = await run(t, RULES.addDigits);
  await one.go();
  assertSigned(one.text("error-text"), "would lose digits on the way to the tool", "exact");
  assert.deepEqual(one.adder.ran, []);
});

test("a result is replaced, and a block after the fact stands beside it", async (t) => {
  const hidden = await run(t, RULES.resultHide);
  await hidden.go();
  assert.equal(hidden.text("text"), "***");
  const blocked = await run(t, RULES.resultBlock);
  await blocked.go();
  assert.ok(blocked.text("text").startsWith("sum 3\n\n"));
  assertSigned(blocked.text("text"), "look again", "look");
});

test("stop makes it go on", async (t) => {
  const one = await run(t, RULES.stopOnce);
  assert.equal((await one.go()).text, "done again");
  const last = one.model.doGenerateCalls.at(-1)?.prompt.at(-1);
  assert.equal(last?.role, "user");
  assertSigned(JSON.stringify(last.content), "check it again", "again");
});

test("a question is an approval", async (t) => {
  for (const [rule, ran] of [
    [RULES.addAsk, { a: 40, b: 2 }],
    [RULES.addDefer, { a: 1, b: 2 }],
  ] as const) {
    const session = await sessionWith(t, rule);
    for (const approved of [true, false]) {
      const one = new Run(session);
      const asked = await one.go();
      const request = asked.content.find((part) => part.type === "tool-approval-request");
      assert.ok(request?.type === "tool-approval-request");
      assert.deepEqual(one.adder.ran, []);
      const answer = {
        type: "tool-approval-response" as const,
        approvalId: request.approvalId,
        approved,
        reason: "so",
      };
      const result = await one.go([
        { role: "user", content: "what is 1 + 2?" },
        ...asked.response.messages,
        { role: "tool", content: [answer] },
      ]);
      assert.equal(result.text, "done");
      assert.deepEqual(one.adder.ran, approved ? [ran] : []);
      assert.equal(one.text(approved ? "text" : "execution-denied"), approved ? `sum ${ran.a + ran.b}` : "so");
    }
  }
});

test("a tool that always asks still does, unless a rule allows it", async (t) => {
  const asks = await new Run(await sessionWith(t), true).go();
  assert.ok(asks.content.some(({ type }) => type === "tool-approval-request"));
  assert.equal((await new Run(await sessionWith(t, RULES.addAllow), true).go()).text, "done");
});

test("a refused prompt reaches no model", async (t) => {
  const one = await run(t, RULES.promptBlock);
  await assert.rejects(one.go(), (error) => {
    assert.ok(error instanceof PromptRefused);
    assertSigned(error.message, "not this", "no-prompt");
    return true;
  });
  assert.equal(one.model.doGenerateCalls.length, 0);
});

test("context stands beside the prompt", async (t) => {
  const one = await run(t, RULES.promptNote);
  await one.go();
  assert.match(JSON.stringify(one.model.doGenerateCalls[0]?.prompt), /what is 1 \+ 2\?.*mind the gap/);
});

test("a halt ends the run", async (t) => {
  for (const rule of [RULES.addHalt, RULES.resultHalt]) {
    const one = await run(t, rule);
    await assert.rejects(one.go(), (error) => error instanceof AgentHalted && error.message.startsWith("enough ("));
    assert.deepEqual([one.adder.ran.length, one.model.doGenerateCalls.length], [rule === RULES.addHalt ? 0 : 1, 1]);
  }
});

test("a tool that breaks says so to the model, with what rules have to say", async (t) => {
  const one = await run(t, RULES.failureNote);
  one.adder.breaks = true;
  await one.go();
  assert.match(one.text("error-text"), /the shop is closed\n\nit is closed$/);
});

test("tools alone are guarded in a stream, and after a halt none runs", async (t) => {
  const session = await sessionWith(t, RULES.addHalt);
  const adder = new Adder();
  const chunks = (id: string) => [
    { ...CALL, toolCallId: id },
    { type: "finish" as const, finishReason: { unified: "tool-calls" as const, raw: undefined }, usage: USAGE },
  ];
  const doStream = ["call-1", "call-2"].map((id) => ({ stream: simulateReadableStream({ chunks: chunks(id) }) }));
  const tools = new HookdTools(session).guard(toolsOf(adder));
  const model = new MockLanguageModelV3({ doStream });
  const { steps } = streamText({ model, tools, prompt: "what is 1 + 2?", stopWhen: stepCountIs(2) });
  const errors = (await steps).flatMap(({ content }) => content).filter((part) => part.type === "tool-error");
  assert.deepEqual([adder.ran, errors.length], [[], 2]);
  errors.forEach(({ error }) => assertSigned((error as Error).message, "enough", "halt-add"));
});

test("what cannot be guarded is refused", async (t) => {
  const session = await sessionWith(t);
  const tools: ToolSet = { here: tool({ inputSchema: INPUT }) as ToolSet[string] };
  assert.throws(
    () => new HookdTools(session).guard(tools),
    /^TypeError: the tool here runs where hookd cannot be asked/,
  );
  assert.deepEqual(new HookdTools(session, { unguarded: ["here"] }).guard(tools), tools);
});

test("with no hookd there, it is as the caller says", async (t) => {
  await assert.rejects(new Run(await sessionWithout(t, "block")).go(), /hookd cannot be reached/);
  const refused = new Run(await sessionWithout(t, "block"));
  await generateText({
    model: refused.model,
    tools: refused.hookd.guard(refused.tools),
    prompt: "what is 1 + 2?",
    stopWhen: stepCountIs(2),
  });
  assert.match(refused.text("error-text"), /^hookd cannot be reached/);
  assert.deepEqual(refused.adder.ran, []);
  const allowed = new Run(await sessionWithout(t, "allow"));
  await allowed.go();
  assert.equal(allowed.text("text"), "sum 3");
  assert.ok(allowed.told.every(({ degraded }) => degraded));
});

test("a result that nobody has judged is not shown", async (t) => {
  const { session, kill } = await mortalSession(t);
  const one = new Run(session);
  one.adder.meanwhile = kill;
  await one.go();
  assert.match(one.text("text"), /^the result is not shown: hookd /);
  assert.deepEqual(one.adder.ran, [{ a: 1, b: 2 }]);
});

test("the example runs", async (t) => {
  const adder = new Adder();
  const client = clientOf(t, await hookdWith(t, RULES.addRewrite, RULES.stopOnce));
  const said = await example("ai-sdk", { client, model: script(), tools: toolsOf(adder) });
  assert.deepEqual([said, adder.ran], [["done again"], [{ a: 40, b: 2 }]]);
});
