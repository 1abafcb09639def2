/**
 * Claude Agent SDK: hooks for the options of `query`.
 *
 * - A block is the SDK's own: a denied call, feedback beside a result, a refused prompt, an agent that goes on.
 * - A question goes the SDK's way: to `canUseTool`, or to a no where there is none. It cannot suspend: hookd downgrades
 *   that.
 * - A halt ends the query: no more turns, with the reason in its messages.
 * - A tool's result is replaced in the form of the tool's output, without which the SDK would show the original: what
 *   has another form stands as a text in its first string.
 * - Hooks of the SDK that fail let the action go ahead; these block it.
 *
 * @module
 */

import type { HookCallbackMatcher, HookEvent, HookInput, SyncHookJSONOutput } from "@anthropic-ai/claude-agent-sdk";

import { notice, unhandled, type Gate } from "../gate.js";
import { Capability } from "../gen/hookd/v1/hook_service_pb.js";
import type { EventDetails, Session, ToolCallDetails } from "../session.js";
import {
  beside,
  context,
  FrameworkAsker,
  IN_A_LOOP,
  lostDigits,
  plain,
  rewritten,
  sendable,
  signed,
  textOf,
  type AdapterOptions,
  type Can,
} from "./common.js";

export type { AdapterOptions } from "./common.js";

/** The events that are asked about, and what can be carried out on each. */
const CAN = {
  ...IN_A_LOOP,
  // It takes a delay in some sessions, ignores it in others, and does not say which: an ignored one would be a consent.
  PreToolUse: IN_A_LOOP.PreToolUse.filter((one) => one !== Capability.DEFER),
  // As at `Stop`, context would make it go on, whatever the verdict.
  SubagentStop: [Capability.FORCE_CONTINUE, Capability.HALT],
  SubagentStart: [Capability.ADDITIONAL_CONTEXT],
  SessionStart: [Capability.ADDITIONAL_CONTEXT, Capability.HALT],
  SessionEnd: [],
  PreCompact: [Capability.BLOCK],
  Notification: [],
} satisfies Can;

/** Where a hook that fails keeps something from happening. */
const GUARDS: readonly string[] = ["PreToolUse", "PostToolUse", "UserPromptSubmit"];

/** How long the SDK waits for an answer, in seconds: longer than the deadline of any client that means well. */
const PATIENCE_S = 3600;

/** The hooks for the options of `query`: they ask in this session. */
export function hookdHooks(
  session: Session,
  options: AdapterOptions = {},
): Partial<Record<HookEvent, HookCallbackMatcher[]>> {
  const asker = new FrameworkAsker(session, "claude-agent-sdk", CAN, options);
  const matcherOf = (event: string): HookCallbackMatcher => ({
    timeout: PATIENCE_S,
    ...(GUARDS.includes(event) && { onFailure: "block" }),
    hooks: [
      async (input, _id, { signal }) => {
        const { agent_id: agentId, agent_type: agentType } = input;
        const within = { ...(agentId !== undefined && { agentId }), ...(agentType !== undefined && { agentType }) };
        return outputOf(input, await asker.ask(event, detailsOf(input), { signal }, within));
      },
    ],
  });
  return Object.fromEntries(Object.keys(CAN).map((event) => [event, [matcherOf(event)]]));
}

/** What has a field of its own in hookd's request, and the rest by its own names. */
function detailsOf(input: HookInput): EventDetails {
  const { hook_event_name: _event, session_id, transcript_path, cwd, permission_mode, ...others } = input;
  const { agent_id: _agent, agent_type: _type, ...rest } = others as Record<string, unknown>;
  const { tool_name, tool_input, tool_response, tool_use_id, error, duration_ms, ...payload } = rest;
  const details = {
    transcriptPath: transcript_path,
    cwd,
    ...(permission_mode !== undefined && { permissionMode: permission_mode }),
    // The one that asks has named the session.
    payload: { ...payload, session_id },
  };
  if (typeof tool_name !== "string") {
    return details;
  }
  const [, mcpServer, mcpTool] = /^mcp__(.+?)__(.+)$/s.exec(tool_name) ?? [];
  const toolCall: ToolCallDetails = {
    tool: tool_name,
    params: (tool_input ?? {}) as object,
    ...(tool_response !== undefined && { result: sendable(tool_response) }),
    ...(typeof tool_use_id === "string" && { toolUseId: tool_use_id }),
    ...(typeof error === "string" && { error }),
    ...(typeof duration_ms === "number" && { elapsedMs: duration_ms }),
    ...(mcpServer !== undefined && mcpTool !== undefined && { mcpServer, mcpTool }),
  };
  return { ...details, toolCall };
}

function outputOf(input: HookInput, gate: Gate): SyncHookJSONOutput {
  const event = input.hook_event_name;
  const messages = gate.decision.systemMessages.map(({ text }) => text);
  const notes = context(gate);
  const specific: Record<string, unknown> = notes.length === 0 ? {} : { additionalContext: beside("", notes) };
  const output: SyncHookJSONOutput = messages.length === 0 ? {} : { systemMessage: beside("", messages) };
  const reason = gate.kind === "run" ? "" : signed(gate.reason, gate.decision, `${event} was refused`);
  const blocks = isBlock(gate);
  if (gate.kind === "halt") {
    Object.assign(output, { continue: false, stopReason: reason });
  }
  if (event === "PreToolUse") {
    Object.assign(specific, permission(gate, reason));
  } else if (blocks && event !== "SessionStart" && !(gate.kind === "halt" && event.endsWith("Stop"))) {
    Object.assign(output, { decision: "block", reason });
  }
  // Where it is a question, nobody has agreed that the model sees it.
  const isOpen = gate.kind === "ask" || gate.kind === "suspend";
  const result = isOpen ? notice(reason) : "result" in gate ? gate.result : undefined;
  if (event === "PostToolUse" && result !== undefined) {
    const shown = plain(result);
    // The SDK shows the original where the form is another.
    specific["updatedToolOutput"] = fits(shown, input.tool_response)
      ? shown
      : inShapeOf(input.tool_response, textOf(shown));
  }
  if (Object.keys(specific).length > 0) {
    output.hookSpecificOutput = { hookEventName: event, ...specific } as NonNullable<
      SyncHookJSONOutput["hookSpecificOutput"]
    >;
  }
  return output;
}

function isBlock(gate: Gate): boolean {
  switch (gate.kind) {
    case "run":
      return false;
    case "ask":
    case "suspend":
    case "refuse":
    case "continue":
    case "halt":
      return true;
    default:
      return unhandled(gate);
  }
}

/** What becomes of a call. Without a decision it goes the SDK's own way. */
function permission(gate: Gate, permissionDecisionReason: string): object {
  switch (gate.kind) {
    case "run":
    case "ask": {
      const asks = { permissionDecision: "ask", permissionDecisionReason };
      const output = gate.kind === "ask" ? asks : gate.approved ? { permissionDecision: "allow" } : {};
      if (gate.params === undefined) {
        return output;
      }
      const updatedInput = rewritten(gate.params);
      if (updatedInput === undefined) {
        return { permissionDecision: "deny", permissionDecisionReason: lostDigits(gate) };
      }
      return { ...output, updatedInput };
    }
    case "suspend":
    case "refuse":
    case "continue":
    case "halt":
      return { permissionDecision: "deny", permissionDecisionReason };
    default:
      return unhandled(gate);
  }
}

/** Whether a value has the form of a result: the same fields, and in a list what could stand there. */
function fits(value: unknown, result: unknown): boolean {
  if (typeof value !== "object" || typeof result !== "object" || value === null || result === null) {
    return value === result || (typeof value === typeof result && typeof value !== "object");
  }
  if (Array.isArray(value) || Array.isArray(result)) {
    const [items, places] = [value, result];
    return (
      Array.isArray(items) &&
      Array.isArray(places) &&
      items.every((item: unknown) => places.some((place: unknown) => fits(item, place)))
    );
  }
  const fields = new Map<string, unknown>(Object.entries(result));
  const entries = Object.entries(value);
  return entries.length === fields.size && entries.every(([key, one]) => fields.has(key) && fits(one, fields.get(key)));
}

/** `text` in the form of a result: in its first string, and nothing in the others. */
function inShapeOf(result: unknown, text: string): unknown {
  let left: string | undefined = text;
  const filled = (value: unknown): unknown => {
    if (typeof value === "string") {
      const shown = left ?? "";
      left = undefined;
      return shown;
    }
    if (Array.isArray(value)) {
      return value.map(filled);
    }
    if (typeof value !== "object" || value === null) {
      return value;
    }
    // By `type` such forms tell their variants.
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, key === "type" ? one : filled(one)]));
  };
  const shaped = filled(result);
  return left === undefined ? shaped : text;
}
