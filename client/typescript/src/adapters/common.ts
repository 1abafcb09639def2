/**
 * What the adapters share: asking with what the framework can carry out, and texts and values for models and tools.
 *
 * @module
 */

import { clone, create } from "@bufbuild/protobuf";

import type { CallOptions } from "../asker.js";
import { notice, unhandled, type Decision, type Gate, type HaltGate } from "../gate.js";
import { CallerSchema, Capability } from "../gen/hookd/v1/hook_service_pb.js";
import { JsonText, type JsonObject } from "../json-text.js";
import { writeJson } from "../json-write.js";
import { templateOf, type EventDetails, type Session, type ToolCallDetails } from "../session.js";

/** Options of every adapter. */
export interface AdapterOptions {
  /** Is given each decision, for its texts for the person, its other outputs and what was downgraded. */
  readonly onDecision?: (decision: Decision) => void;
}

/** What a framework can carry out, by event. */
export type Can = Readonly<Record<string, readonly Capability[]>>;

/** What a loop can carry out whose tools and messages an adapter has in its hands. */
export const IN_A_LOOP = {
  PreToolUse: [
    Capability.ASK,
    Capability.DEFER,
    Capability.BLOCK,
    Capability.MODIFY_PARAMS,
    Capability.ADDITIONAL_CONTEXT,
    Capability.HALT,
  ],
  PostToolUse: [Capability.BLOCK, Capability.MODIFY_RESULT, Capability.ADDITIONAL_CONTEXT, Capability.HALT],
  PostToolUseFailure: [Capability.BLOCK, Capability.ADDITIONAL_CONTEXT, Capability.HALT],
  UserPromptSubmit: [Capability.BLOCK, Capability.ADDITIONAL_CONTEXT, Capability.HALT],
  Stop: [Capability.FORCE_CONTINUE, Capability.HALT],
} satisfies Can;

/** A subagent that an event comes from. */
export interface Subagent {
  readonly agentId?: string;
  readonly agentType?: string;
}

/** A rule has said that the agent has to stop. */
export class AgentHalted extends Error {
  override readonly name: string = "AgentHalted";
  /** What said so. */
  readonly gate: HaltGate;

  constructor(gate: HaltGate) {
    super(signed(gate.reason, gate.decision, "the agent has to stop"));
    this.gate = gate;
  }
}

/**
 * The halt in an error that a framework threw: itself, or what it wraps (frameworks put errors of their own around
 * those of tools). `undefined`: it is about something else.
 */
export function haltIn(error: unknown): AgentHalted | undefined {
  const seen = new Set<unknown>();
  for (let at = error; typeof at === "object" && at !== null && !seen.has(at);) {
    if (at instanceof AgentHalted) {
      return at;
    }
    seen.add(at);
    at = ("cause" in at ? at.cause : undefined) ?? ("error" in at ? at.error : undefined);
  }
  return undefined;
}

/**
 * Asks for a framework: each event goes with what the framework can carry out on it, and no more than the session says
 * of itself.
 */
export class FrameworkAsker {
  readonly #session: Session;
  readonly #agent: string;
  readonly #can: Can;
  readonly #onDecision: ((decision: Decision) => void) | undefined;

  /** `agent` is what the caller calls itself, unless the session says so. */
  constructor(session: Session, agent: string, can: Can, { onDecision }: AdapterOptions) {
    this.#session = session;
    this.#agent = agent;
    this.#can = can;
    this.#onDecision = onDecision;
  }

  /** `within` names the subagent, if it is one. Rejects only with the reason of an aborted signal. */
  async ask(event: string, details: EventDetails, options: CallOptions = {}, within: Subagent = {}): Promise<Gate> {
    const { caller, capabilities } = templateOf(this.#session);
    const own = capabilities === undefined ? undefined : (capabilities.supported ?? []);
    const supported = (this.#can[event] ?? []).filter((one) => own === undefined || own.includes(one));
    const named = clone(CallerSchema, create(CallerSchema, caller));
    named.agent ||= this.#agent;
    Object.assign(named, within);
    const asked = { ...details, caller: named, capabilities: { supported } };
    const gate = await this.#session.trigger(event, asked, options);
    this.#onDecision?.(gate.decision);
    return gate;
  }

  /** Asks about a result. */
  async askAfter(call: ToolCallDetails, options: CallOptions = {}): Promise<After> {
    return afterOf(await this.ask("PostToolUse", { toolCall: call }, options), call.tool);
  }

  /** Asks about a call that failed. */
  async askAfterFailure(call: ToolCallDetails, error: unknown, options: CallOptions = {}): Promise<After> {
    const toolCall = { ...call, error: messageOf(error) };
    return afterOf(await this.ask("PostToolUseFailure", { toolCall }, options), call.tool);
  }
}

/** What becomes of a result. */
export interface After {
  /** What is shown in its place. `undefined`: it stays. */
  readonly result: JsonText | undefined;
  /** What the model is told beside it. */
  readonly notes: readonly string[];
}

function afterOf(gate: Gate, tool: string): After {
  switch (gate.kind) {
    case "run":
      return { result: gate.result, notes: context(gate) };
    case "refuse":
    case "ask":
    case "suspend":
    case "continue": {
      const why = signed(gate.reason, gate.decision, `the result of ${tool} was refused`);
      // Where it is no refusal, nobody has agreed that the model sees it.
      return { result: gate.kind === "refuse" ? gate.result : notice(why), notes: [why, ...context(gate)] };
    }
    case "halt":
      throw new AgentHalted(gate);
    default:
      return unhandled(gate);
  }
}

/** Gates that wait for their call, which comes at once unless the run is cut there. */
export class WaitingGates {
  static readonly #MOST = 1024;
  readonly #gates = new Map<string, Gate>();

  /** Keeps the gate of a call with these parameters. */
  keep(id: string, params: unknown, gate: Gate): void {
    this.#gates.set(keyOf(id, params), gate);
    const [oldest] = this.#gates.keys();
    if (oldest !== undefined && this.#gates.size > WaitingGates.#MOST) {
      // Its call is asked about again, if it still comes.
      this.#gates.delete(oldest);
    }
  }

  /** Takes the gate of exactly this call. `undefined`: there is none. */
  take(id: string, params: unknown): Gate | undefined {
    const key = keyOf(id, params);
    const gate = this.#gates.get(key);
    this.#gates.delete(key);
    return gate;
  }
}

function keyOf(id: string, params: unknown): string {
  return JSON.stringify([id, textOf(params)]);
}

/** `reason (rule, decision id)`, as far as they are known; `otherwise` where there is no reason. */
export function signed(reason: string, decision: Decision, otherwise: string): string {
  const { answer } = decision;
  // Where nothing gave a verdict, a block can only be about the rewrite.
  const rule = answer?.decidedBy === undefined ? answer?.rewrites.at(-1)?.ruleId : answer.decidedBy.ruleId;
  const marks = [rule ?? "", decision.id].filter((mark) => mark !== "").join(", ");
  const said = reason.trim() === "" ? otherwise : reason.trim();
  return marks === "" ? said : `${said} (${marks})`;
}

/** What the model is told of a call that does not run. */
export function refusal(gate: Exclude<Gate, { kind: "run" }>, tool: string): string {
  return signed(gate.reason, gate.decision, `the call of ${tool} was refused`);
}

/**
 * Parameters that a rule has put in the place of the model's, as frameworks have them. `undefined`: they have a number
 * that would lose digits there, and something else would run than was decided.
 */
export function rewritten(params: JsonText<JsonObject>): Record<string, unknown> | undefined {
  const value = plain(params);
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
}

/** What the model is told of a call whose rewritten parameters cannot reach the tool. */
export function lostDigits({ decision }: Gate): string {
  return signed("the rewritten parameters have a number that would lose digits on the way to the tool", decision, "");
}

/** Texts of the rules for the model. */
export function context(gate: Gate): string[] {
  return gate.decision.additionalContext.map(({ text }) => text);
}

/** `text` with notes after it. */
export function beside(text: string, notes: readonly string[]): string {
  return [text, ...notes].filter((part) => part !== "").join("\n\n");
}

/** A value as frameworks have it, who read and write by `JSON`, where that keeps every digit; else the text. */
export function plain(json: JsonText): unknown {
  try {
    const value: unknown = JSON.parse(json.text);
    return writeJson(value) === writeJson(json.value()) ? value : json.text;
  } catch {
    return json.text;
  }
}

/** A value as a text for a model. */
export function textOf(value: unknown): string {
  if (typeof value === "string") {
    return value;
  }
  try {
    return writeJson(value);
  } catch {
    return asJson(value) ?? String(value);
  }
}

/** A result in a form that JSON has; what has none is sent as a text. */
export function sendable(value: unknown): unknown {
  if (value === undefined || value === null) {
    return null;
  }
  if (typeof value === "string") {
    return value.toWellFormed();
  }
  try {
    return new JsonText(writeJson(value));
  } catch {
    // A number whose last digits are lost already: the model sees it as it is.
    const text = asJson(value);
    return text === undefined ? String(value).toWellFormed() : new JsonText(text);
  }
}

/** What an error says. */
export function messageOf(error: unknown): string {
  const said = error instanceof Error ? error.message || error.name : String(error);
  return said.toWellFormed();
}

function asJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value) as string | undefined;
  } catch {
    return undefined;
  }
}
