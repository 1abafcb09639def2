/**
 * Vercel AI SDK: tools that ask, and a `generateText` that asks about the prompt and the stop.
 *
 * - A block is a tool error with the reason, which the model is told.
 * - A question and a suspension are the SDK's own approval (`tool-approval-request` in the content, answered by a
 *   `tool-approval-response` in the messages of the next call); hookd is asked again when the call goes on.
 * - A refused prompt rejects with {@link PromptRefused}.
 * - A stop that may not be is another round with the reason as the next message. It has no bound but the rules' own:
 *   `stop_hook_active` tells them.
 * - A halt rejects with {@link AgentHalted}.
 * - `guard` gives the tools alone, for `streamText`, agents and the like: nobody asks about prompt and stop then, and a
 *   halt is a tool error on this call and every later one.
 * - Tools that run elsewhere (at the provider, in the browser) cannot be guarded: `guard` refuses them, unless they are
 *   named in `unguarded`. Results that a tool streams before its last one are not shown.
 *
 * @module
 */

import { generateText, type ModelMessage, type Tool, type ToolSet } from "ai";

import { unhandled, type Gate, type HaltGate } from "../gate.js";
import type { Session } from "../session.js";
import {
  AgentHalted,
  beside,
  context,
  FrameworkAsker,
  IN_A_LOOP,
  lostDigits,
  messageOf,
  plain,
  refusal,
  rewritten,
  sendable,
  signed,
  textOf,
  WaitingGates,
  type AdapterOptions,
  type After,
} from "./common.js";

export { AgentHalted, haltIn, type AdapterOptions } from "./common.js";

/** A prompt that no model has seen. Its message is the reason. */
export class PromptRefused extends Error {
  override readonly name: string = "PromptRefused";
  /** What refused it. */
  readonly gate: Gate;

  constructor(gate: Exclude<Gate, { kind: "run" }>) {
    super(signed(gate.reason, gate.decision, "the prompt was refused"));
    this.gate = gate;
  }
}

/** A call of a tool that did not run. Its message is the reason; the model is told it. */
export class ToolRefused extends Error {
  override readonly name: string = "ToolRefused";
}

/** Options of {@link HookdTools}. */
export interface HookdToolsOptions extends AdapterOptions {
  /** Names of tools that may run without asking where they cannot be guarded. */
  readonly unguarded?: readonly string[];
}

type GenerateText = typeof generateText;
// Not by its name: it has another shape in each version of the SDK.
type ToolExecutionOptions = Parameters<NonNullable<Tool["execute"]>>[1];

interface FormerNames {
  readonly experimental_prepareStep?: Parameters<GenerateText>[0]["prepareStep"];
}

/** Asks hookd for tools of the Vercel AI SDK. */
export class HookdTools {
  readonly #asker: FrameworkAsker;
  readonly #unguarded: ReadonlySet<string>;
  readonly #waiting = new WaitingGates();

  /** Asks in this session. */
  constructor(session: Session, { unguarded = [], ...options }: HookdToolsOptions = {}) {
    this.#asker = new FrameworkAsker(session, "ai-sdk", IN_A_LOOP, options);
    this.#unguarded = new Set(unguarded);
  }

  /**
   * The SDK's `generateText` with guarded tools: asks about the prompt, and whether it may stop.
   *
   * @throws `TypeError` as {@link HookdTools.guard}.
   */
  readonly generateText: GenerateText = (async (given: Parameters<GenerateText>[0]) => {
    const halts: HaltGate[] = [];
    const { abortSignal: signal, prompt, messages, stopWhen, ...rest } = given;
    const { prepareStep = (given as FormerNames).experimental_prepareStep } = given;
    const asked: ModelMessage[] =
      messages ?? (typeof prompt === "string" ? [{ role: "user", content: prompt }] : (prompt ?? []));
    let next = await this.#prompt(asked, signal);
    const throwHalt = () => {
      const [halt] = halts;
      if (halt !== undefined) {
        throw new AgentHalted(halt);
      }
    };
    for (let continued = false; ; continued = true) {
      const result = await generateText({
        ...rest,
        ...(signal !== undefined && { abortSignal: signal }),
        ...(given.tools !== undefined && { tools: this.#guard(given.tools, halts) }),
        // It is one step where nothing is said.
        ...(stopWhen !== undefined && { stopWhen }),
        prepareStep: (step) => {
          throwHalt();
          return prepareStep?.(step);
        },
        messages: next,
      });
      throwHalt();
      if (result.finishReason === "tool-calls" || result.content.some(({ type }) => type === "tool-approval-request")) {
        // It waits for a person, or has had its steps.
        return result;
      }
      const payload = { stop_hook_active: continued, last_assistant_message: result.text };
      const gate = await this.#asker.ask("Stop", { payload }, { signal });
      if (gate.kind === "halt") {
        throw new AgentHalted(gate);
      }
      if (gate.kind !== "continue") {
        return result;
      }
      next = [
        ...next,
        ...result.response.messages,
        { role: "user", content: signed(gate.reason, gate.decision, "go on") },
      ];
    }
  }) as GenerateText;

  /**
   * The same tools, which ask before and after they run.
   *
   * @throws `TypeError` for tools that cannot be guarded and are not in `unguarded`.
   */
  guard<T extends ToolSet>(tools: T): T {
    return this.#guard(tools, []);
  }

  #guard<T extends ToolSet>(tools: T, halts: HaltGate[]): T {
    return Object.fromEntries(
      Object.entries(tools).map(([name, tool]) => [name, this.#tool(name, tool as Tool, halts)]),
    ) as T;
  }

  #tool(name: string, tool: Tool, halts: HaltGate[]): Tool {
    if (tool.execute === undefined) {
      if (this.#unguarded.has(name)) {
        return tool;
      }
      throw new TypeError(
        `the tool ${name} runs where hookd cannot be asked; leave it out, or name it in \`unguarded\``,
      );
    }
    const own = tool.needsApproval;
    const needsApproval: Tool["needsApproval"] = async (params: object, options) => {
      // The SDK looks again whether what was approved had to be: it had, whatever hookd says by now.
      if (answerOf(options.messages, options.toolCallId) !== undefined) {
        return true;
      }
      const toolCall = { tool: name, params, toolUseId: options.toolCallId };
      const gate = await this.#asker.ask("PreToolUse", { toolCall });
      if (gate.kind === "ask" || gate.kind === "suspend") {
        return true;
      }
      if (gate.kind === "run" && !gate.approved) {
        if (typeof own === "function" ? await own(params as never, options) : own === true) {
          return true;
        }
      }
      this.#waiting.keep(options.toolCallId, params, gate);
      return false;
    };
    const execute = (params: object, options: ToolExecutionOptions) => this.#run(name, tool, params, options, halts);
    return { ...tool, needsApproval, execute } as Tool;
  }

  async #run(
    name: string,
    tool: Tool,
    given: object,
    options: ToolExecutionOptions,
    halts: HaltGate[],
  ): Promise<unknown> {
    const { toolCallId, messages, abortSignal: signal } = options;
    const [halt] = halts;
    if (halt !== undefined) {
      throw new AgentHalted(halt);
    }
    const about = { tool: name, toolUseId: toolCallId };
    const gate =
      this.#waiting.take(toolCallId, given) ??
      (await this.#asker.ask("PreToolUse", { toolCall: { ...about, params: given } }, { signal }));
    switch (gate.kind) {
      case "run":
        break;
      case "ask":
      case "suspend":
        if (answerOf(messages, toolCallId) !== true) {
          throw new ToolRefused(refusal(gate, name));
        }
        break;
      case "refuse":
      case "continue":
        throw new ToolRefused(refusal(gate, name));
      case "halt":
        halts.push(gate);
        throw new AgentHalted(gate);
      default:
        return unhandled(gate);
    }
    const params: object | undefined = gate.params === undefined ? given : rewritten(gate.params);
    if (params === undefined) {
      throw new ToolRefused(lostDigits(gate));
    }
    const call = { ...about, params: gate.params ?? given };
    const begun = performance.now();
    let result: unknown;
    try {
      result = await lastOf(tool.execute?.(params, options) as unknown);
    } catch (error) {
      const elapsedMs = performance.now() - begun;
      const asked = this.#asker.askAfterFailure({ ...call, elapsedMs }, error, { signal });
      const notes = [...context(gate), ...(await heard(asked, halts)).notes];
      throw notes.length === 0 ? error : new Error(beside(messageOf(error), notes), { cause: error });
    }
    const elapsedMs = performance.now() - begun;
    const after = await heard(
      this.#asker.askAfter({ ...call, elapsedMs, result: sendable(result) }, { signal }),
      halts,
    );
    const shown = after.result === undefined ? result : plain(after.result);
    const notes = [...context(gate), ...after.notes];
    return notes.length === 0 ? shown : beside(textOf(shown), notes);
  }

  async #prompt(messages: ModelMessage[], signal: AbortSignal | undefined): Promise<ModelMessage[]> {
    const last = messages.at(-1);
    if (last?.role !== "user") {
      return messages;
    }
    const gate = await this.#asker.ask("UserPromptSubmit", { payload: { prompt: textIn(last.content) } }, { signal });
    switch (gate.kind) {
      case "run": {
        const notes = context(gate);
        return notes.length === 0 ? messages : [...messages, { role: "user", content: beside("", notes) }];
      }
      case "halt":
        throw new AgentHalted(gate);
      case "refuse":
      case "ask":
      case "suspend":
      case "continue":
        throw new PromptRefused(gate);
      default:
        return unhandled(gate);
    }
  }
}

/** Passes on what becomes of a result, and remembers a halt: the SDK makes a tool error of what a tool throws. */
async function heard(asked: Promise<After>, halts: HaltGate[]): Promise<After> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof AgentHalted) {
      halts.push(error.gate);
    }
    throw error;
  }
}

/** What a person has said about a call, in the messages. `undefined`: nothing. */
function answerOf(messages: readonly ModelMessage[], toolCallId: string): boolean | undefined {
  const parts = messages.flatMap((message) => {
    const { content } = message as { content: string | readonly object[] };
    return typeof content === "string" ? [] : (content as readonly Part[]);
  });
  const request = parts.findLast((part) => part.type === "tool-approval-request" && part.toolCallId === toolCallId);
  const answer = parts.findLast(
    (part) => request !== undefined && part.type === "tool-approval-response" && part.approvalId === request.approvalId,
  );
  return answer?.approved;
}

interface Part {
  readonly type: string;
  readonly toolCallId?: string;
  readonly approvalId?: string;
  readonly approved?: boolean;
}

/** The last value where a tool gives several. */
async function lastOf(given: unknown): Promise<unknown> {
  let value = await given;
  if (typeof value === "object" && value !== null && Symbol.asyncIterator in value) {
    const values = value as AsyncIterable<unknown>;
    value = undefined;
    for await (value of values);
  }
  return value;
}

function textIn(content: string | readonly { readonly type: string; readonly text?: string }[]): string {
  return typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("\n");
}
