/** An agent of the OpenAI Agents SDK, its own loop and a scripted model, with hookd in it. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import {
  Agent,
  handoff,
  hostedMcpTool,
  InputGuardrailTripwireTriggered,
  Runner,
  RunState,
  setTracingDisabled,
  tool,
  Usage,
  type AgentInputItem,
  type AgentOutputItem,
  type Model,
  type ModelRequest,
  type ModelResponse,
  type StreamEvent,
} from "@openai/agents";
import * as z from "zod";

import type { Decision, Session } from "@hookd/client";
import { AgentHalted, haltIn, HookdAgents } from "@hookd/client/adapters/openai-agents";

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

setTracingDisabled(true);

/** Says what a test wrote, one turn after the other, and keeps what it was sent. */
class Script implements Model {
  readonly seen: AgentInputItem[][] = [];
  readonly #turns: AgentOutputItem[];

  constructor(...turns: AgentOutputItem[]) {
    this.#turns = turns;
  }

  async getResponse({ input }: ModelRequest): Promise<ModelResponse> {
    const turn = this.#turns[this.seen.length];
    this.seen.push(typeof input === "string" ? [{ role: "user", content: input }] : [...input]);
    assert.ok(turn !== undefined, "one turn more than was written");
    return { output: [turn], usage: new Usage() };
  }

  getStreamedResponse(): AsyncIterable<StreamEvent> {
    throw new Error("not here");
  }
}

function calls(name = "add", args = '{"a": 1, "b": 2}'): AgentOutputItem {
  return { type: "function_call", name, arguments: args, callId: "call-1", status: "completed" };
}

function says(text: string): AgentOutputItem {
  return { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text }] };
}

const PARAMETERS = z.object({ a: z.number(), b: z.number() });

function toolOf(adder: Adder, needsApproval = false) {
  return tool({ name: "add", description: "adds", parameters: PARAMETERS, needsApproval, execute: adder.add });
}

class Run {
  readonly adder = new Adder();
  readonly told: Decision[] = [];
  readonly model = new Script(calls(), says("done"), says("done again"));
  readonly hookd: HookdAgents;
  readonly agent: Agent;

  constructor(session: Session, needsApproval = false) {
    this.hookd = new HookdAgents(session, { onDecision: (decision) => this.told.push(decision) });
    this.agent = new Agent({ name: "one", model: this.model, tools: [toolOf(this.adder, needsApproval)] });
  }

  go() {
    return this.hookd.run(this.agent, "what is 1 + 2?");
  }

  /** What the model was told of the call. */
  get output(): string {
    return this.outputOf("add");
  }

  outputOf(tool: string): string {
    const [item, ...others] = (this.model.seen.at(-1) ?? []).filter(
      (one) => one.type === "function_call_result" && one.name === tool,
    );
    assert.ok(item !== undefined && others.length === 0);
    const said = "output" in item ? (item.output as string | { text: string }) : "";
    return typeof said === "string" ? said : said.text;
  }
}

async function run(t: TestContext, ...rules: object[]): Promise<Run> {
  return new Run(await sessionWith(t, ...rules));
}

test("a tool runs as it was called", async (t) => {
  const one = await run(t);
  assert.equal((await one.go()).finalOutput, "done");
  assert.deepEqual([one.adder.ran, one.output], [[{ a: 1, b: 2 }], "sum 3"]);
  assert.equal(one.told.length, 4);
});

test("a block comes back as the tool's rejection", async (t) => {
  const one = await run(t, RULES.addBlock);
  await one.go();
  assert.deepEqual(one.adder.ran, []);
  assertSigned(one.output, "no adding today", "no-add");
});

test("a rewrite reaches the tool", async (t) => {
  const one = await run(t, RULES.addRewrite);
  await one.go();
  assert.deepEqual([one.adder.ran, one.output], [[{ a: 40, b: 2 }], "sum 42"]);
  assert.equal(one.told.length, 4);
});

test("a rewrite that would lose digits on the way reaches nothing", async (t) => {
  const one = await run(t, RULES.addDigits);
  await one.go();
  assertSigned(one.output, "would lose digits on the way to the tool", "exact");
  assert.deepEqual(one.adder.ran, []);
});

test("a result is replaced, and a block after the fact stands beside it", async (t) => {
  const hidden = await run(t, RULES.resultHide);
  await hidden.go();
  assert.equal(hidden.output, "***");
  const blocked = await run(t, RULES.resultBlock);
  await blocked.go();
  assert.ok(blocked.output.startsWith("sum 3\n\n"));
  assertSigned(blocked.output, "look again", "look");
});

test("stop makes it go on", async (t) => {
  const one = await run(t, RULES.stopOnce);
  assert.equal((await one.go()).finalOutput, "done again");
  const last = one.model.seen.at(-1)?.at(-1);
  assert.ok(last !== undefined && "role" in last && last.role === "user");
  assertSigned(last.content, "check it again", "again");
});

test("a question is an interruption", async (t) => {
  for (const [rule, ran] of [
    [RULES.addAsk, { a: 40, b: 2 }],
    [RULES.addDefer, { a: 1, b: 2 }],
  ] as const) {
    const session = await sessionWith(t, rule);
    const agreed = new Run(session);
    const asked = await agreed.go();
    const [item, ...others] = asked.interruptions;
    assert.ok(item !== undefined && others.length === 0);
    assert.deepEqual(agreed.adder.ran, []);
    asked.state.approve(item);
    assert.equal((await agreed.hookd.run(agreed.agent, asked.state)).finalOutput, "done");
    assert.deepEqual(agreed.adder.ran, [ran]);

    // The answer may come in another process.
    const refused = new Run(session);
    const text = (await refused.go()).state.toString();
    const state = await RunState.fromString(refused.hookd.guard(refused.agent), text);
    const [pending] = state.getInterruptions();
    assert.ok(pending !== undefined);
    state.reject(pending, { message: "rather not" });
    await refused.hookd.run(refused.agent, state);
    assert.deepEqual([refused.adder.ran, refused.output], [[], "rather not"]);
  }
});

test("a tool that always asks still does, unless a rule allows it", async (t) => {
  assert.equal((await new Run(await sessionWith(t), true).go()).interruptions.length, 1);
  assert.equal((await new Run(await sessionWith(t, RULES.addAllow), true).go()).finalOutput, "done");
});

test("a refused prompt reaches no model", async (t) => {
  const one = await run(t, RULES.promptBlock);
  await assert.rejects(one.go(), (error) => {
    assert.ok(error instanceof InputGuardrailTripwireTriggered);
    assertSigned(error.result.output.outputInfo, "not this", "no-prompt");
    return true;
  });
  assert.equal(one.model.seen.length, 0);
});

test("context stands beside the prompt", async (t) => {
  const one = await run(t, RULES.promptNote);
  await one.go();
  assert.deepEqual(
    one.model.seen[0]?.map((item) => "content" in item && item.content),
    ["what is 1 + 2?", "mind the gap"],
  );
});

test("a halt ends the run", async (t) => {
  for (const rule of [RULES.addHalt, RULES.resultHalt]) {
    const one = await run(t, rule);
    await assert.rejects(one.go(), (error) => error instanceof AgentHalted && error.message.startsWith("enough ("));
    assert.equal(one.adder.ran.length, rule === RULES.addHalt ? 0 : 1);
  }
});

test("agents that are handed over to are guarded too", async (t) => {
  const session = await sessionWith(t, RULES.addBlock);
  for (const wrap of [(agent: Agent) => agent, (agent: Agent) => handoff(agent)]) {
    const next = new Run(session);
    const model = new Script(calls("transfer_to_one", "{}"));
    const first = new Agent({ name: "first", model, handoffs: [wrap(next.agent)] });
    assert.equal((await next.hookd.run(first, "what is 1 + 2?")).finalOutput, "done");
    assert.deepEqual(next.adder.ran, []);
    assert.match(next.outputOf("add"), /^no adding today \(/);
  }
});

test("an agent that was guarded on its own is as guarded", async (t) => {
  const one = await run(t, RULES.addHalt);
  await assert.rejects(new Runner().run(one.hookd.guard(one.agent), "what is 1 + 2?"), (error) => {
    assert.match(haltIn(error)?.message ?? "", /^enough \(/);
    return true;
  });
  assert.deepEqual(one.adder.ran, []);
  assert.equal(haltIn(new Error("no halt")), undefined);
  const gone = new Run(await sessionWithout(t, "block"));
  await new Runner().run(gone.hookd.guard(gone.agent), "what is 1 + 2?");
  assert.deepEqual(gone.adder.ran, []);
  assert.match(gone.output, /^hookd cannot be reached/);
});

test("what cannot be guarded is refused", async (t) => {
  const session = await sessionWith(t);
  const hosted = hostedMcpTool({ serverLabel: "far", serverUrl: "https://far.example/" });
  const agent = new Agent({ name: "one", tools: [hosted] });
  assert.throws(() => new HookdAgents(session).guard(agent), /^TypeError: the tool hosted_mcp runs where hookd cannot/);
  assert.deepEqual(new HookdAgents(session, { unguarded: ["hosted_mcp"] }).guard(agent).tools, [hosted]);
});

test("with no hookd there, it is as the caller says", async (t) => {
  const blocked = new Run(await sessionWithout(t, "block"));
  await assert.rejects(blocked.go(), /hookd cannot be reached/);
  const allowed = new Run(await sessionWithout(t, "allow"));
  await allowed.go();
  assert.equal(allowed.output, "sum 3");
  assert.ok(allowed.told.every(({ degraded }) => degraded));
});

test("a result that nobody has judged is not shown", async (t) => {
  const { session, kill } = await mortalSession(t);
  const one = new Run(session);
  one.adder.meanwhile = kill;
  await one.go();
  assert.match(one.output, /^the result is not shown: hookd /);
  assert.deepEqual(one.adder.ran, [{ a: 1, b: 2 }]);
});

test("the example runs", async (t) => {
  const adder = new Adder();
  const client = clientOf(t, await hookdWith(t, RULES.addRewrite, RULES.stopOnce));
  const model = new Script(calls(), says("done"), says("done again"));
  const agent = new Agent({ name: "one", model, tools: [toolOf(adder)] });
  const said = await example("openai-agents", { client, agent });
  assert.deepEqual([said, adder.ran], [["done again"], [{ a: 40, b: 2 }]]);
});
