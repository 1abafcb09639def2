/** What an agent does with an answer, or without one. @module */

import type { CallError } from "./call-error.js";
import { notUnderstood } from "./call-error.js";
import { blockOn, type Block } from "./event.js";
import { Verdict, type Note, type TriggerResponse } from "./gen/hookd/v1/hook_service_pb.js";
import { parseJson } from "./json-parse.js";
import { JsonText, type JsonObject } from "./json-text.js";

/**
 * What to do now. The answer to the everyday call, which never rejects for want of an answer: what happens then is
 * decided in here, by {@link OnUnavailable} and the event's safe side. Leave a `kind` out of a `switch`, and the type
 * checker says so (see {@link unhandled}).
 *
 * The safe side is `refuse` where a block keeps something from happening or is feedback, and `run` where it is recorded
 * only or where what it would keep from happening is the agent's end (`Stop`, `SubagentStop`, `TaskCompleted`,
 * `TeammateIdle`: a hookd that is not there must not keep an agent running).
 */
export type Gate = RunGate | AskGate | SuspendGate | RefuseGate | ContinueGate | HaltGate;

/** Go on: run the tool, take the prompt, stop, or whatever the event announced. */
export interface RunGate {
  readonly kind: "run";
  /** The parameters to run the tool with. `undefined`: the ones that were sent. */
  readonly params: JsonText<JsonObject> | undefined;
  /** The result to show to the model. `undefined`: the one that was sent. */
  readonly result: JsonText | undefined;
  /**
   * A rule allowed this explicitly: the agent's own permission prompt is not needed. `false` where no rule had an
   * opinion or hookd was not asked; the agent goes on as if it had not asked, its own prompts included.
   */
  readonly approved: boolean;
  /** How this came about. */
  readonly decision: Decision;
}

/** A person has to agree first. Without a person to ask, this is a no. */
export interface AskGate {
  readonly kind: "ask";
  /** Why, for the person. May be empty. */
  readonly reason: string;
  /** What the person is asked about and what runs if they agree, as in {@link RunGate}. */
  readonly params: JsonText<JsonObject> | undefined;
  /** The result to show to the model, as in {@link RunGate}. */
  readonly result: JsonText | undefined;
  /** How this came about. */
  readonly decision: Decision;
}

/** Put the call aside until someone decides outside. Never consent. */
export interface SuspendGate {
  readonly kind: "suspend";
  /** Why. May be empty. */
  readonly reason: string;
  /** What would run, as in {@link RunGate}. */
  readonly params: JsonText<JsonObject> | undefined;
  /** The result to show to the model, as in {@link RunGate}. */
  readonly result: JsonText | undefined;
  /** How this came about. */
  readonly decision: Decision;
}

/**
 * It does not happen: the tool does not run, the prompt is refused. On events after the fact (`PostToolUse`) nothing
 * can be kept from happening any more: the reason goes to the model beside the result.
 */
export interface RefuseGate {
  readonly kind: "refuse";
  /** Why, for the model. May be empty. */
  readonly reason: string;
  /** The result to show to the model; only on `PostToolUse`. `undefined`: the one that was sent. */
  readonly result: JsonText | undefined;
  /** How this came about. */
  readonly decision: Decision;
}

/** The agent wanted to stop and has to go on. Only on `Stop`, `SubagentStop`, `TaskCompleted` and `TeammateIdle`. */
export interface ContinueGate {
  readonly kind: "continue";
  /** Its next instruction. May be empty. */
  readonly reason: string;
  /** How this came about. */
  readonly decision: Decision;
}

/** The agent has to stop now; what the event announced does not happen. */
export interface HaltGate {
  readonly kind: "halt";
  /** Why. May be empty. */
  readonly reason: string;
  /** How this came about. */
  readonly decision: Decision;
}

/**
 * What happens where hookd cannot be asked: nobody answers, or not in time, or hookd has a fault of its own or too many
 * calls ({@link CallError.isUnavailable}). There is no default on purpose. On Stop-like events the agent may always
 * stop.
 *
 * - `"block"`: block where the event can block.
 * - `{ blockExcept: […] }`: as `"block"`, but events of these tools (exact names) go on unapproved: an agent that can
 *   still read is not lost. Events without a tool block.
 * - `"allow"`: go on unapproved, as if there were no hookd.
 */
export type OnUnavailable = "block" | "allow" | { readonly blockExcept: readonly string[] };

/** How a {@link Gate} came about. */
export class Decision {
  /** The whole answer. `undefined`: there was none; {@link Decision.error} says why. */
  readonly answer: TriggerResponse | undefined;
  /** Why there was no answer, or why it could not be carried out. `undefined`: it was carried out. */
  readonly error: CallError | undefined;

  constructor(answer: TriggerResponse | undefined, error: CallError | undefined) {
    this.answer = answer;
    this.error = error;
  }

  /** hookd's id of this decision, to be found in its logs. Empty: hookd did not answer. */
  get id(): string {
    return this.answer?.decisionId ?? this.error?.decisionId ?? "";
  }

  /** Revision of the rules that judged. Empty: none did. */
  get policyRevision(): string {
    return this.answer?.policyRevision ?? "";
  }

  /** A rule that should have had a say had none: a failure was forgiven, or hookd gave no usable answer. */
  get degraded(): boolean {
    return this.error !== undefined || this.answer?.degraded === true;
  }

  /** Texts for the model, in the order of the rules. */
  get additionalContext(): readonly Note[] {
    return this.answer?.additionalContext ?? [];
  }

  /** Texts for the person, in the order of the rules. */
  get systemMessages(): readonly Note[] {
    return this.answer?.systemMessages ?? [];
  }

  /** Per-event outputs that have no field of their own, the text of a JSON object. `undefined`: none. */
  get eventOutputJson(): string | undefined {
    return this.answer?.eventOutputJson;
  }
}

/**
 * For the end of a `switch` over {@link Gate.kind}: does not type-check where a kind was left out. Throws if it is ever
 * reached, so that what nobody thought of is not done.
 */
export function unhandled(gate: never): never {
  throw new TypeError(`no case for the gate ${JSON.stringify((gate as Gate).kind)}`);
}

/** What `answer` means on `event`, the exact name. For a caller that got it by {@link Client.call}. */
export function gateOfAnswer(event: string, answer: TriggerResponse): Gate {
  const block = blockOn(event);
  if (answer.halt) {
    const reason = answer.haltReason === "" ? answer.reason : answer.haltReason;
    return { kind: "halt", reason, decision: new Decision(answer, undefined) };
  }
  const { reason } = answer;
  const problem = whyNotCarriedOut(answer);
  if (problem !== undefined) {
    return safeSide(block, new Decision(answer, notUnderstood(problem)));
  }
  const decision = new Decision(answer, undefined);
  if (answer.verdict === Verdict.BLOCK) {
    return blocked(block, reason, answer.modifiedResultJson, decision);
  }
  const params = wrapped<JsonObject>(answer.modifiedParamsJson);
  const result = wrapped(answer.modifiedResultJson);
  switch (answer.verdict) {
    case Verdict.ASK:
      return { kind: "ask", reason, params, result, decision };
    case Verdict.DEFER:
      return { kind: "suspend", reason, params, result, decision };
    case Verdict.NONE:
    case Verdict.ALLOW:
    // Not reached: it cannot be carried out.
    case Verdict.UNSPECIFIED:
      return { kind: "run", params, result, approved: answer.verdict === Verdict.ALLOW, decision };
  }
}

/** What happens on `event`, about `tool` if it is about one, where hookd gave no answer. */
export function gateOfError(
  event: string,
  tool: string | undefined,
  error: CallError,
  onUnavailable: OnUnavailable,
): Gate {
  const decision = new Decision(undefined, error);
  if (error.isUnavailable && !blocksUnavailable(onUnavailable, tool)) {
    return going(decision);
  }
  return safeSide(blockOn(event), decision);
}

/** A result that stands for one that is not shown. */
export function notice(why: string): JsonText {
  return JsonText.of(`the result is not shown: ${why}`);
}

function blocksUnavailable(onUnavailable: OnUnavailable, tool: string | undefined): boolean {
  if (typeof onUnavailable === "object") {
    return tool === undefined || !onUnavailable.blockExcept.includes(tool);
  }
  return onUnavailable !== "allow";
}

function blocked(block: Block, reason: string, resultJson: string | undefined, decision: Decision): Gate {
  switch (block) {
    case "preventsStop":
      return { kind: "continue", reason, decision };
    case "recorded":
      return going(decision);
    case "prevents":
    case "feedback":
      return { kind: "refuse", reason, result: undefined, decision };
    case "feedbackOnResult": {
      const isJson = whyNotJson(resultJson) === undefined;
      const result = isJson ? wrapped(resultJson) : notice("its replacement by hookd is not JSON");
      return { kind: "refuse", reason, result, decision };
    }
  }
}

function safeSide(block: Block, decision: Decision): Gate {
  const reason = decision.error?.message ?? "";
  switch (block) {
    case "preventsStop":
    case "recorded":
      return going(decision);
    case "prevents":
    case "feedback":
      return { kind: "refuse", reason, result: undefined, decision };
    case "feedbackOnResult":
      // A rule that takes secrets out of results may not have had its turn.
      return { kind: "refuse", reason, result: notice(reason), decision };
  }
}

function going(decision: Decision): RunGate {
  return { kind: "run", params: undefined, result: undefined, approved: false, decision };
}

function wrapped<V extends JsonObject>(text: string | undefined): JsonText<V> | undefined;
function wrapped(text: string | undefined): JsonText | undefined;
function wrapped(text: string | undefined): JsonText | undefined {
  return text === undefined ? undefined : new JsonText(text);
}

function whyNotCarriedOut(answer: TriggerResponse): string | undefined {
  switch (answer.verdict) {
    case Verdict.BLOCK:
      // Needs neither form to be carried out.
      return undefined;
    case Verdict.NONE:
    case Verdict.ALLOW:
    case Verdict.ASK:
    case Verdict.DEFER:
      return whyNotObject(answer.modifiedParamsJson) ?? whyNotJson(answer.modifiedResultJson);
    default:
      return `verdict ${answer.verdict} is not known`;
  }
}

function whyNotObject(text: string | undefined): string | undefined {
  if (text === undefined) {
    return undefined;
  }
  try {
    const value = parseJson(text);
    const isObject = typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
    return isObject ? undefined : "the modified parameters are not a JSON object";
  } catch (error) {
    return `the modified parameters are not a JSON object: ${String((error as Error).message)}`;
  }
}

function whyNotJson(text: string | undefined): string | undefined {
  if (text === undefined) {
    return undefined;
  }
  try {
    parseJson(text);
    return undefined;
  } catch (error) {
    return `the modified result is not JSON: ${String((error as Error).message)}`;
  }
}
