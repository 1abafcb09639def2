/** An agent of LangChain, its own loop and a scripted model, with hookd in it. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { Command, MemorySaver } from "@langchain/langgraph";
import { AIMessage, createAgent, fakeModel, HumanMessage, tool, type BaseMessage, type ToolMessage } from "langchain";
import * as z from "zod";

import type { Decision, Session } from "@hookd/client";
import { haltIn, hookdMiddleware } from "@hookd/client/adapters/langchain";

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

function script() {
  const call = { name: "add", args: { a: 1, b: 2 }, id: "call-1", type: "tool_call" as const };
  const says = [new AIMessage({ content: "", tool_calls: [call] }), new AIMessage("done"), new AIMessage("done again")];
  return says.reduce((model, message) => model.respond(message), fakeModel());
}

function toolOf(adder: Adder) {
  const schema = z.object({ a: z.number(), b: z.number() });
  return tool(adder.add, { name: "add", description: "adds", schema });
}

class Run {
  readonly adder = new Adder();
  readonly told: Decision[] = [];
  readonly #agent;
  readonly #config = { configurable: { thread_id: "1" } };

  constructor(session: Session) {
    const hookd = hookdMiddleware(session, { onDecision: (decision) => this.told.push(decision) });
    this.#agent = createAgent({
      model: script(),
      tools: [toolOf(this.adder)],
      middleware: [hookd],
      checkpointer: new MemorySaver(),
    });
  }

  async go(...more: BaseMessage[]): Promise<BaseMessage[]> {
    const messages = [new HumanMessage("what is 1 + 2?"), ...more];
    return this.#messages(await this.#agent.invoke({ messages }, this.#config));
  }

  async resume(decision: object): Promise<BaseMessage[]> {
    return this.#messages(await this.#agent.invoke(new Command({ resume: { decisions: [decision] } }), this.#config));
  }

  interrupts: unknown[] = [];

  #messages(state: object): BaseMessage[] {
    this.interrupts = "__interrupt__" in state ? (state.__interrupt__ as unknown[]) : [];
    return (state as { messages: BaseMessage[] }).messages;
  }
}

async function run(t: TestContext, ...rules: object[]): Promise<Run> {
  return new Run(await sessionWith(t, ...rules));
}

function output(messages: BaseMessage[]): ToolMessage {
  const [message, ...others] = messages.filter((one): one is ToolMessage => one.type === "tool");
  assert.ok(message !== undefined && others.length === 0);
  return message;
}

test("a tool runs as it was called", async (t) => {
  const one = await run(t);
  const messages = await one.go();
  assert.deepEqual([one.adder.ran, output(messages).text, messages.at(-1)?.text], [[{ a: 1, b: 2 }], "sum 3", "done"]);
  assert.equal(one.told.length, 4);
});

test("a block comes back as the tool's error", async (t) => {
  const one = await run(t, RULES.addBlock);
  const message = output(await one.go());
  assert.deepEqual([one.adder.ran, message.status], [[], "error"]);
  assertSigned(message.text, "no adding today", "no-add");
});

test("a rewrite reaches the tool", async (t) => {
  const one = await run(t, RULES.addRewrite);
  assert.equal(output(await one.go()).text, "sum 42");
  assert.deepEqual(one.adder.ran, [{ a: 40, b: 2 }]);
});

test("a rewrite that would lose digits on the way reaches nothing", async (t) => {
  const one = await run(t, RULES.addDigits);
  assertSigned(output(await one.go()).text, "would lose digits on the way to the tool", "exact");
  assert.deepEqual(one.adder.ran, []);
});

test("a result is replaced, and a block after the fact stands beside it", async (t) => {
  assert.equal(output(await (await run(t, RULES.resultHide)).go()).text, "***");
  const { text } = output(await (await run(t, RULES.resultBlock)).go());
  assert.ok(text.startsWith("sum 3\n\n"));
  assertSigned(text, "look again", "look");
});

test("stop makes it go on", async (t) => {
  const messages = await (await run(t, RULES.stopOnce)).go();
  assert.equal(messages.at(-1)?.text, "done again");
  assert.equal(messages.at(-2)?.type, "human");
  assertSigned(messages.at(-2)?.text, "check it again", "again");
});

test("a question is an interrupt", async (t) => {
  for (const [rule, ran] of [
    [RULES.addAsk, { a: 40, b: 2 }],
    [RULES.addDefer, { a: 1, b: 2 }],
  ] as const) {
    const session = await sessionWith(t, rule);
    const agreed = new Run(session);
    await agreed.go();
    assert.deepEqual([agreed.adder.ran, agreed.interrupts.length], [[], 1]);
    assert.equal((await agreed.resume({ type: "approve" })).at(-1)?.text, "done");
    assert.deepEqual(agreed.adder.ran, [ran]);
    const refused = new Run(session);
    await refused.go();
    const message = output(await refused.resume({ type: "reject", message: "rather not" }));
    assert.deepEqual([refused.adder.ran, message.status], [[], "error"]);
    assert.match(message.text, /^rather not \(/);
  }
});

test("a refused prompt reaches no model", async (t) => {
  const one = await run(t, RULES.promptBlock, RULES.stopOnce);
  const messages = await one.go();
  assert.deepEqual(
    messages.map(({ type }) => type),
    ["ai"],
  );
  assertSigned(messages[0]?.text, "not this", "no-prompt");
  assert.equal(one.told.length, 1);
});

test("context stands beside the prompt", async (t) => {
  const messages = await (await run(t, RULES.promptNote)).go();
  assert.deepEqual(
    messages.slice(0, 2).map(({ text }) => text),
    ["what is 1 + 2?", "mind the gap"],
  );
});

test("a halt ends the run", async (t) => {
  for (const rule of [RULES.addHalt, RULES.resultHalt]) {
    const one = await run(t, rule);
    await assert.rejects(one.go(), (error) => {
      assert.match(haltIn(error)?.message ?? "", /^enough \(/);
      return true;
    });
    assert.equal(one.adder.ran.length, rule === RULES.addHalt ? 0 : 1);
  }
});

test("a tool that breaks says so to the model, with what rules have to say", async (t) => {
  const one = await run(t, RULES.failureNote);
  one.adder.breaks = true;
  const message = output(await one.go());
  assert.equal(message.status, "error");
  assert.equal(message.text, "Error: the shop is closed\n Please fix your mistakes.\n\nit is closed");
});

test("with no hookd there, it is as the caller says", async (t) => {
  const blocked = new Run(await sessionWithout(t, { blockExcept: [] }));
  const messages = await blocked.go();
  assert.match(messages.at(-1)?.text ?? "", /^hookd cannot be reached/);
  // Where the last word is not a person's, the first question is about the call.
  const refused = new Run(await sessionWithout(t, "block"));
  assert.match(output(await refused.go(new AIMessage("let me see"))).text, /^hookd cannot be reached/);
  assert.deepEqual(refused.adder.ran, []);
  const allowed = new Run(await sessionWithout(t, "allow"));
  assert.equal(output(await allowed.go()).text, "sum 3");
});

test("a result that nobody has judged is not shown", async (t) => {
  const { session, kill } = await mortalSession(t);
  const one = new Run(session);
  one.adder.meanwhile = kill;
  assert.match(output(await one.go()).text, /^the result is not shown: hookd /);
  assert.deepEqual(one.adder.ran, [{ a: 1, b: 2 }]);
});

test("the example runs", async (t) => {
  const adder = new Adder();
  const client = clientOf(t, await hookdWith(t, RULES.addRewrite, RULES.stopOnce));
  const said = await example("langchain", { client, model: script(), tools: [toolOf(adder)] });
  assert.deepEqual([said, adder.ran], [["done again"], [{ a: 40, b: 2 }]]);
});
