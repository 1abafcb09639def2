/** A tool between two questions: before it runs, and after. @module */

import type { CallOptions } from "./asker.js";
import { notice, type AskGate, type Decision, type Gate } from "./gate.js";
import type { Note } from "./gen/hookd/v1/hook_service_pb.js";
import { parseJson } from "./json-parse.js";
import { JsonError, JsonNumber, type JsonObject, type JsonText, type JsonValue } from "./json-text.js";
import { writeJson } from "./json-write.js";
import type { Session } from "./session.js";

/** How a wrapped tool treats what needs a person. */
export interface ToolOptions {
  /**
   * Asks a person about the call that the gate tells of, and says whether they agree. Absent: nobody is there to agree.
   * `params` are what would run, to show.
   */
  readonly ask?: (gate: AskGate, params: JsonObject) => boolean | Promise<boolean>;
}

/** What every outcome of a wrapped tool has. */
interface Told {
  /** How hookd decided before the tool ran. */
  readonly before: Decision;
  /** How hookd decided after it. `undefined`: it did not run. */
  readonly after: Decision | undefined;
  /** Texts of the rules for the model, of both decisions. */
  readonly context: readonly Note[];
}

/**
 * What became of a call of a wrapped tool.
 *
 * - `ran`: `result` is what the model may see: the tool's own, or what stands in its place (`replaced`). `feedback`
 *   goes to the model beside it.
 * - `failed`: the tool threw `error`. `feedback` goes to the model beside it.
 * - `refused`: it did not run. `reason` goes to the model.
 * - `suspended`: it did not run, and is to be put aside with these `params` (`undefined`: its own) until someone
 *   decides.
 * - `halted`: the agent has to stop. The tool ran if there is an `after`; its result goes nowhere.
 */
export type ToolOutcome<R> = Told &
  (
    | {
        readonly kind: "ran";
        readonly result: R | JsonValue;
        readonly replaced: boolean;
        readonly feedback: string | undefined;
      }
    | { readonly kind: "failed"; readonly error: unknown; readonly feedback: string | undefined }
    | { readonly kind: "refused"; readonly reason: string }
    | { readonly kind: "suspended"; readonly reason: string; readonly params: JsonText<JsonObject> | undefined }
    | { readonly kind: "halted"; readonly reason: string }
  );

/** A call that may run, or what became of one that may not. */
type Before<P, R> =
  | { readonly params: P; readonly text: JsonText<JsonObject> | undefined }
  | { readonly outcome: ToolOutcome<R> };

/**
 * Wraps a function that is a tool, so that hookd is asked before it runs (`PreToolUse`) and after it ran (`PostToolUse`,
 * or `PostToolUseFailure` where it threw). The function gets the parameters as the rules left them; rewritten ones, and
 * those that came as text, in the view of {@link JsonText.value}. The wrapped function rejects only with the reason of
 * an aborted signal, and with what `ask` throws.
 */
export function wrapTool<P extends object, R>(
  session: Session,
  tool: string,
  run: (params: P) => R | Promise<R>,
  { ask }: ToolOptions = {},
): (params: P | string, call?: CallOptions & { toolUseId?: string }) => Promise<ToolOutcome<R>> {
  return async (given, call = {}) => {
    // Once: the tool may change what it is given, and hookd is to hear twice of the same call.
    const asked = asText(given);
    const gate = await session.preToolUse(tool, asked, call);
    const before = await entered<P, R>(gate, given, asked, ask);
    if ("outcome" in before) {
      return before.outcome;
    }
    const params = before.text ?? asked;
    let result: R;
    try {
      result = await run(before.params);
    } catch (error) {
      const toolCall = { tool, params, error: messageOf(error), ...(call.toolUseId && { toolUseId: call.toolUseId }) };
      const after = await session.trigger("PostToolUseFailure", { toolCall }, call);
      return ofFailure(gate.decision, after, error);
    }
    return ofResult(gate.decision, await session.postToolUse(tool, params, result, call), result);
  };
}

async function entered<P extends object, R>(
  gate: Gate,
  given: P | string,
  asked: object | string,
  ask: ToolOptions["ask"],
): Promise<Before<P, R>> {
  const told: Told = { before: gate.decision, after: undefined, context: gate.decision.additionalContext };
  const refused = (reason: string): Before<P, R> => ({ outcome: { kind: "refused", reason, ...told } });
  switch (gate.kind) {
    case "run":
    case "ask": {
      const read = (): JsonObject => gate.params?.value() ?? objectOf(asked);
      try {
        if (gate.kind === "ask" && (await ask?.(gate, read())) !== true) {
          return refused(gate.reason);
        }
        if (gate.params !== undefined || typeof given === "string") {
          return { params: read() as object as P, text: gate.params };
        }
      } catch (error) {
        if (error instanceof JsonError) {
          // What hookd has let go by and this side cannot read.
          return refused(`the parameters: ${error.message}`);
        }
        throw error;
      }
      // INVARIANT: nothing runs that was not judged.
      return asText(given) === asked
        ? { params: given, text: undefined }
        : refused("the parameters were changed while hookd was asked about them");
    }
    case "suspend":
      return { outcome: { kind: "suspended", reason: gate.reason, params: gate.params, ...told } };
    case "halt":
      return { outcome: { kind: "halted", reason: gate.reason, ...told } };
    // `continue` is for agents that want to stop; where it comes all the same, nothing runs.
    case "refuse":
    case "continue":
      return refused(gate.reason);
  }
}

/** The object in the text that hookd was asked about. */
function objectOf(asked: object | string): JsonObject {
  const value = typeof asked !== "string" || asked === "" ? {} : parseJson(asked);
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof JsonNumber) {
    throw new JsonError("they are not a JSON object");
  }
  return value;
}

function ofResult<R>(before: Decision, gate: Gate, result: R): ToolOutcome<R> {
  const told = toldOf(before, gate.decision);
  const ran = (shown: JsonText | undefined, feedback: string | undefined): ToolOutcome<R> => {
    const replaced = shown !== undefined;
    return { kind: "ran", result: replaced ? shown.value() : result, replaced, feedback, ...told };
  };
  switch (gate.kind) {
    case "run":
      return ran(gate.result, undefined);
    case "refuse":
      return ran(gate.result, gate.reason);
    // Nobody has agreed that the model sees it.
    case "ask":
    case "suspend":
    case "continue":
      return ran(notice(gate.reason), gate.reason);
    case "halt":
      return { kind: "halted", reason: gate.reason, ...told };
  }
}

function ofFailure<R>(before: Decision, gate: Gate, error: unknown): ToolOutcome<R> {
  const told = toldOf(before, gate.decision);
  switch (gate.kind) {
    case "run":
      return { kind: "failed", error, feedback: undefined, ...told };
    case "refuse":
    case "ask":
    case "suspend":
    case "continue":
      return { kind: "failed", error, feedback: gate.reason, ...told };
    case "halt":
      return { kind: "halted", reason: gate.reason, ...told };
  }
}

function toldOf(before: Decision, after: Decision): Told {
  return { before, after, context: [...before.additionalContext, ...after.additionalContext] };
}

/** The text of parameters. What cannot be written stays as it is: the session says why it asks nobody about it. */
function asText(given: object | string): object | string {
  try {
    return typeof given === "string" ? given : writeJson(given);
  } catch {
    return given;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
