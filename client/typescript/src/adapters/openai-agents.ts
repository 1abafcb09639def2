/**
 * OpenAI Agents SDK: agents whose tools ask, and a run that asks about the prompt and the stop.
 *
 * - A block is the tool's output: a rejection of a tool input guardrail, as the SDK has it.
 * - A question and a suspension are an interruption of the run (`result.interruptions`), to be approved or rejected on
 *   its `state` and run again with it; hookd is asked again when the run goes on.
 * - A refused prompt rejects with the SDK's `InputGuardrailTripwireTriggered`, with the reason in its `outputInfo`.
 * - A stop that may not be is a new run with the reason as the next input. It has no bound but the rules' own:
 *   `stop_hook_active` tells them.
 * - A halt rejects with {@link AgentHalted}.
 * - A tool whose `errorFunction` makes a text of an error (the SDK's default) has a result: it is asked about as
 *   `PostToolUse`.
 * - `guard` gives the agent alone, for streamed runs and the like; nobody asks about prompt and stop then, and
 *   {@link haltIn} finds a halt in the SDK's error.
 * - Tools that run where the SDK has no say (hosted tools, shell, computer, patches) cannot be guarded: `guard` refuses
 *   an agent that has some, unless they are named in `unguarded`. An agent that is a tool is one call for the agent
 *   around it; for its own calls make it of a guarded one: `hookd.guard(agent).asTool(…)`.
 *
 * @module
 */

import {
  Agent,
  Handoff,
  InputGuardrailTripwireTriggered,
  Runner,
  RunState,
  type AgentInputItem,
  type FunctionTool,
  type NonStreamRunOptions,
  type RunContext,
  type RunResult,
  type Tool,
  type ToolGuardrailFunctionOutput,
  type ToolInputGuardrailData,
} from "@openai/agents";

import { unhandled, type Gate } from "../gate.js";
import { Capability } from "../gen/hookd/v1/hook_service_pb.js";
import { parseJson } from "../json-parse.js";
import type { Session, ToolCallDetails } from "../session.js";
import {
  AgentHalted,
  beside,
  context,
  FrameworkAsker,
  haltIn,
  IN_A_LOOP,
  lostDigits,
  plain,
  refusal,
  rewritten,
  sendable,
  signed,
  textOf,
  WaitingGates,
  type AdapterOptions,
  type Can,
} from "./common.js";

export { AgentHalted, haltIn, type AdapterOptions } from "./common.js";

/** Its tools answer errors themselves, or end the run. */
const CAN: Can = { ...IN_A_LOOP, PostToolUseFailure: [Capability.HALT] };

/** Options of {@link HookdAgents}. */
export interface HookdAgentsOptions extends AdapterOptions {
  /** Names of tools that may run without asking where they cannot be guarded. */
  readonly unguarded?: readonly string[];
  /** What runs the agents. Absent: a `Runner` with the SDK's defaults. */
  readonly runner?: Runner;
}

// Whatever their contexts and outputs are: the adapter does not look.
type AnyAgent = Agent<any, any>;
type AnyHandoff = Handoff<any, any>;
type AnyFunction = FunctionTool<any, any, any>;

/** Asks hookd in agents of the OpenAI Agents SDK. */
export class HookdAgents {
  readonly #asker: FrameworkAsker;
  readonly #unguarded: ReadonlySet<string>;
  readonly #runner: Runner;
  readonly #waiting = new WaitingGates();
  /** Agents by what they were made of, and guarded ones by themselves: a run that goes on has to find the same ones. */
  readonly #guarded = new WeakMap<AnyAgent, AnyAgent>();

  /** Asks in this session. */
  constructor(session: Session, { unguarded = [], runner, ...options }: HookdAgentsOptions = {}) {
    this.#asker = new FrameworkAsker(session, "openai-agents", CAN, options);
    this.#unguarded = new Set(unguarded);
    this.#runner = runner ?? new Runner();
  }

  /**
   * Runs the guarded agent, as the SDK's `run`: asks about the prompt, and whether it may stop.
   *
   * @throws `TypeError` as {@link HookdAgents.guard}.
   */
  async run<A extends AnyAgent, C = undefined>(
    agent: A,
    input: string | AgentInputItem[] | RunState<C, A>,
    options: NonStreamRunOptions<C, A> = {},
  ): Promise<RunResult<C, A>> {
    let guarded = this.guard(agent);
    let next = input instanceof RunState ? input : await this.#prompt(input, options.signal);
    let previous = options;
    for (let continued = false; ; continued = true) {
      let result: RunResult<C, A>;
      try {
        result = await this.#runner.run(guarded, next, previous);
      } catch (error) {
        // The SDK puts errors of its own around those of tools.
        throw haltIn(error) ?? error;
      }
      if (result.interruptions.length > 0) {
        return result;
      }
      const payload = { stop_hook_active: continued, last_assistant_message: textOf(result.finalOutput ?? "") };
      const gate = await this.#asker.ask("Stop", { payload }, { signal: options.signal });
      if (gate.kind === "halt") {
        throw new AgentHalted(gate);
      }
      if (gate.kind !== "continue") {
        return result;
      }
      const message: AgentInputItem = { role: "user", content: signed(gate.reason, gate.decision, "go on") };
      const isKept = [options.session, options.conversationId, options.previousResponseId].some(
        (one) => one !== undefined,
      );
      next = isKept ? [message] : [...result.history, message];
      if (options.previousResponseId !== undefined && result.lastResponseId !== undefined) {
        previous = { ...options, previousResponseId: result.lastResponseId };
      }
      guarded = result.lastAgent ?? guarded;
    }
  }

  /**
   * A copy of the agent whose tools ask, and of all agents that it can hand over to. The same agent gives the same
   * copy, whatever was changed in between: guard it when it is ready.
   *
   * @throws `TypeError` for tools that cannot be guarded and are not in `unguarded`.
   */
  guard<A extends AnyAgent>(agent: A): A {
    const known = this.#guarded.get(agent);
    if (known !== undefined) {
      return known as A;
    }
    const copy = Object.assign(Object.create(Object.getPrototypeOf(agent) as object) as A, agent);
    this.#guarded.set(agent, copy);
    this.#guarded.set(copy, copy);
    try {
      copy.tools = agent.tools.map((tool) => this.#tool(tool));
      copy.handoffs = agent.handoffs.map((one) =>
        one instanceof Handoff ? this.#handoff(one as AnyHandoff) : this.guard(one as AnyAgent),
      );
    } catch (error) {
      this.#guarded.delete(agent);
      throw error;
    }
    // Tools of MCP servers come with each turn.
    copy.getMcpTools = async (...given) =>
      (await agent.getMcpTools(...given)).map((tool) => this.#tool(tool) as AnyFunction);
    return copy;
  }

  #handoff(handoff: AnyHandoff): AnyHandoff {
    return handoff.clone({
      agent: this.guard(handoff.agent),
      onInvokeHandoff: async (ctx, args) => this.guard(await handoff.onInvokeHandoff(ctx, args)),
    });
  }

  #tool<T extends Tool>(tool: T): T {
    if (tool.type === "function") {
      return this.#function(tool) as T;
    }
    if (this.#unguarded.has(tool.name)) {
      return tool;
    }
    throw new TypeError(
      `the tool ${tool.name} runs where hookd cannot be asked; leave it out, or name it in \`unguarded\``,
    );
  }

  #function(tool: AnyFunction): AnyFunction {
    const { name } = tool;
    const guardrail = {
      type: "tool_input" as const,
      name: "hookd",
      run: (data: ToolInputGuardrailData) => this.#enter(name, data),
    };
    return {
      ...tool,
      needsApproval: async (ctx, params, callId = "") => {
        const call = { tool: name, params: params as object, toolUseId: callId };
        const gate = await this.#asker.ask("PreToolUse", { toolCall: call });
        if (gate.kind === "ask" || gate.kind === "suspend") {
          return true;
        }
        if (gate.kind === "run" && !gate.approved && (await tool.needsApproval(ctx, params as never, callId))) {
          return true;
        }
        this.#waiting.keep(callId, params, gate);
        return false;
      },
      inputGuardrails: [...(tool.inputGuardrails ?? []), guardrail],
      invoke: (ctx, given, details) => this.#invoke(tool, ctx as RunContext, given, details),
    };
  }

  /** The last word before a tool runs. */
  async #enter(tool: string, { context: ctx, toolCall }: ToolInputGuardrailData): Promise<ToolGuardrailFunctionOutput> {
    const { callId, arguments: given } = toolCall;
    const params = paramsOf(given);
    // Where none waits, a person has been asked, maybe in another process, or nobody could be.
    const gate =
      this.#waiting.take(callId, params) ??
      (await this.#asker.ask("PreToolUse", { toolCall: { tool, params, toolUseId: callId } }));
    switch (gate.kind) {
      case "halt":
        throw new AgentHalted(gate);
      case "refuse":
      case "continue":
        return rejected(refusal(gate, tool));
      case "ask":
      case "suspend":
        if (ctx.isToolApproved({ toolName: tool, callId }) !== true) {
          return rejected(refusal(gate, tool));
        }
        break;
      case "run":
        break;
      default:
        return unhandled(gate);
    }
    if (gate.params !== undefined && rewritten(gate.params) === undefined) {
      return rejected(lostDigits(gate));
    }
    this.#waiting.keep(callId, given, gate);
    return { behavior: { type: "allow" } };
  }

  async #invoke(
    tool: AnyFunction,
    ctx: RunContext,
    given: string,
    details: Parameters<AnyFunction["invoke"]>[2],
  ): Promise<unknown> {
    const toolUseId = details?.toolCall?.callId ?? "";
    const gate: Gate | undefined = this.#waiting.take(toolUseId, given);
    if (gate === undefined || !("params" in gate)) {
      throw new Error(`the tool ${tool.name} was called past its guardrails, and nobody has asked hookd about it`);
    }
    const call: ToolCallDetails = { tool: tool.name, params: gate.params ?? paramsOf(given), toolUseId };
    const options = { signal: details?.signal };
    const begun = performance.now();
    let result: unknown;
    try {
      result = await tool.invoke(ctx, gate.params?.text ?? given, details);
    } catch (error) {
      await this.#asker.askAfterFailure({ ...call, elapsedMs: performance.now() - begun }, error, options);
      throw error;
    }
    const elapsedMs = performance.now() - begun;
    const after = await this.#asker.askAfter({ ...call, elapsedMs, result: sendable(result) }, options);
    const shown = after.result === undefined ? result : plain(after.result);
    const notes = [...context(gate), ...after.notes];
    return notes.length === 0 ? shown : beside(textOf(shown), notes);
  }

  async #prompt(input: string | AgentInputItem[], signal: AbortSignal | undefined): Promise<string | AgentInputItem[]> {
    const prompt = lastPrompt(input);
    if (prompt === undefined) {
      return input;
    }
    const gate = await this.#asker.ask("UserPromptSubmit", { payload: { prompt } }, { signal });
    switch (gate.kind) {
      case "run": {
        const notes = context(gate);
        if (notes.length === 0) {
          return input;
        }
        const items: AgentInputItem[] = typeof input === "string" ? [{ role: "user", content: input }] : input;
        return [...items, { role: "user", content: beside("", notes) }];
      }
      case "halt":
        throw new AgentHalted(gate);
      case "refuse":
      case "ask":
      case "suspend":
      case "continue": {
        const outputInfo = signed(gate.reason, gate.decision, "the prompt was refused");
        const guardrail = { type: "input" as const, name: "hookd" };
        const output = { tripwireTriggered: true, outputInfo };
        throw new InputGuardrailTripwireTriggered(outputInfo, { guardrail, output });
      }
      default:
        return unhandled(gate);
    }
  }
}

function rejected(message: string): ToolGuardrailFunctionOutput {
  return { behavior: { type: "rejectContent", message } };
}

/** The model's arguments as the SDK reads them. What is no object is sent as it is: hookd says what is wrong. */
function paramsOf(given: string): object | string {
  try {
    parseJson(given);
    const value: unknown = JSON.parse(given);
    return typeof value === "object" && value !== null ? value : given;
  } catch {
    return given.trim() === "" ? {} : given;
  }
}

function lastPrompt(input: string | AgentInputItem[]): string | undefined {
  if (typeof input === "string") {
    return input;
  }
  const last = input.at(-1);
  if (last === undefined || !("role" in last) || last.role !== "user") {
    return undefined;
  }
  return typeof last.content === "string"
    ? last.content
    : last.content.map((part) => (part.type === "input_text" ? part.text : "")).join("\n");
}
