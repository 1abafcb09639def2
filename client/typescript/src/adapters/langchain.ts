/**
 * LangChain and LangGraph: a middleware for `createAgent`.
 *
 * - A block is a tool message with `status: "error"`; a refused prompt is taken out, and the reason is the agent's
 *   answer.
 * - A question and a suspension are a LangGraph interrupt in the form of LangChain's own `humanInTheLoopMiddleware`, to
 *   be resumed by `new Command({ resume: { decisions: [{ type: "approve" }] } })` or `{ type: "reject", message }`; the
 *   agent needs a checkpointer. hookd is asked again when the run goes on.
 * - A stop that may not be is a new message for the model. LangGraph's own `recursionLimit` is the bound.
 * - A halt rejects the run; LangChain puts an error of its own around it, in which {@link haltIn} finds it.
 * - A tool that throws gives the model the message that LangChain makes where there is no middleware.
 * - Put it last in the list: then no other middleware changes a call after hookd has judged it.
 *
 * @module
 */

import { AIMessage, RemoveMessage, type BaseMessage } from "@langchain/core/messages";
import { Command, interrupt, isCommand, isGraphBubbleUp } from "@langchain/langgraph";
import { createMiddleware, HumanMessage, ToolMessage, type AgentMiddleware, type ToolCallRequest } from "langchain";

import { unhandled, type AskGate, type Gate, type SuspendGate } from "../gate.js";
import type { Session } from "../session.js";
import {
  AgentHalted,
  beside,
  context,
  FrameworkAsker,
  IN_A_LOOP,
  lostDigits,
  plain,
  refusal,
  rewritten,
  sendable,
  signed,
  textOf,
  type AdapterOptions,
  type After,
} from "./common.js";

export { AgentHalted, haltIn, type AdapterOptions } from "./common.js";

/** Where messages of this adapter say what they are. It stays here: no provider is sent it. */
const MARK = "hookd";

/** A middleware that asks in this session. */
export function hookdMiddleware(session: Session, options: AdapterOptions = {}): AgentMiddleware {
  const asker = new FrameworkAsker(session, "langchain", IN_A_LOOP, options);
  return createMiddleware({
    name: "hookd",
    wrapToolCall: (request, handler) => toolCall(asker, request, async (next) => handler(next)),
    beforeAgent: {
      canJumpTo: ["end"],
      hook: ({ messages }, { signal }) => prompt(asker, messages, signal),
    },
    afterAgent: {
      canJumpTo: ["model"],
      hook: ({ messages }, { signal }) => stop(asker, messages, signal),
    },
  });
}

type Handler = (request: ToolCallRequest) => Promise<ToolMessage | Command>;

async function toolCall(
  asker: FrameworkAsker,
  request: ToolCallRequest,
  handler: Handler,
): Promise<ToolMessage | Command> {
  const { name, args, id = "" } = request.toolCall;
  const { signal } = request.runtime;
  const about = { tool: name, toolUseId: id };
  const gate = await asker.ask("PreToolUse", { toolCall: { ...about, params: args } }, { signal });
  const changed = "params" in gate && gate.params !== undefined ? rewritten(gate.params) : args;
  if (changed === undefined) {
    return errorMessage(lostDigits(gate), name, id);
  }
  switch (gate.kind) {
    case "run":
      break;
    case "ask":
    case "suspend": {
      const no = notApproved(name, changed, gate);
      if (no !== undefined) {
        return errorMessage(no, name, id);
      }
      break;
    }
    case "refuse":
    case "continue":
      return errorMessage(refusal(gate, name), name, id);
    case "halt":
      throw new AgentHalted(gate);
    default:
      return unhandled(gate);
  }
  const toolCall = { ...request.toolCall, args: changed };
  const call = { ...about, params: gate.params ?? args };
  const begun = performance.now();
  let result: ToolMessage | Command;
  try {
    result = await handler({ ...request, toolCall });
  } catch (error) {
    // The tool itself waits for a person, or the run was ended.
    if (isGraphBubbleUp(error) || signal?.aborted === true) {
      throw error;
    }
    result = errorMessage(ofLangChain(error), name, id);
  }
  const message = messageOf(result, id);
  const elapsedMs = performance.now() - begun;
  const after =
    message?.status === "error"
      ? await asker.askAfterFailure({ ...call, elapsedMs }, textOf(message.content), { signal })
      : await asker.askAfter({ ...call, elapsedMs, result: sendable(message?.content) }, { signal });
  return shown(result, message, { ...after, notes: [...context(gate), ...after.notes] }, name, id);
}

/** What LangChain tells the model of an error where there is no middleware. */
function ofLangChain(error: unknown): string {
  const isOwn = error instanceof Error && error.name === "ToolInvocationError";
  return isOwn ? error.message : `${String(error)}\n Please fix your mistakes.`;
}

function shown(
  result: ToolMessage | Command,
  message: ToolMessage | undefined,
  after: After,
  name: string,
  id: string,
): ToolMessage | Command {
  if (after.result === undefined && after.notes.length === 0) {
    return result;
  }
  if (message === undefined) {
    // A command that gives the model nothing of this call: there is nothing to replace.
    return after.result === undefined ? result : errorMessage(beside("", after.notes), name, id);
  }
  const content = after.result === undefined ? message.content : textOf(plain(after.result));
  const notes = after.notes.map((text) => ({ type: "text" as const, text }));
  const changed = new ToolMessage({
    content: typeof content === "string" ? beside(content, after.notes) : [...content, ...notes],
    tool_call_id: message.tool_call_id,
    additional_kwargs: message.additional_kwargs,
    response_metadata: message.response_metadata,
    ...(message.name !== undefined && { name: message.name }),
    ...(message.id !== undefined && { id: message.id }),
    ...(message.status !== undefined && { status: message.status }),
    // It holds the result in another form.
    ...(after.result === undefined && message.artifact !== undefined && { artifact: message.artifact as unknown }),
  });
  if (!isCommand(result)) {
    return changed;
  }
  const messages = messagesIn(result).map((one) => (one === message ? changed : one));
  const { graph, resume, goto } = result;
  return new Command({
    ...(graph !== undefined && { graph }),
    ...(resume !== undefined && { resume }),
    ...(goto !== undefined && { goto }),
    update: { ...(result.update as object), messages },
  });
}

/** Asks a person. `undefined`: they agreed; else what the model is told. */
function notApproved(name: string, args: Record<string, unknown>, gate: AskGate | SuspendGate): string | undefined {
  const description = signed(gate.reason, gate.decision, `a person has to agree to the call of ${name}`);
  const answer = interrupt<unknown, { decisions?: unknown } | undefined>({
    actionRequests: [{ name, args, description }],
    reviewConfigs: [{ actionName: name, allowedDecisions: ["approve", "reject"] }],
  });
  const decisions = Array.isArray(answer?.decisions) ? (answer.decisions as unknown[]) : [];
  const [only] = decisions as ({ type?: unknown; message?: unknown } | null | undefined)[];
  if (decisions.length === 1 && only?.type === "approve") {
    return undefined;
  }
  const said = typeof only?.message === "string" ? only.message : "";
  return signed(said, gate.decision, `nobody agreed to the call of ${name}`);
}

/** The message about this call. */
function messageOf(result: ToolMessage | Command, id: string): ToolMessage | undefined {
  return ToolMessage.isInstance(result)
    ? result
    : messagesIn(result).find((one): one is ToolMessage => ToolMessage.isInstance(one) && one.tool_call_id === id);
}

function messagesIn({ update }: Command): unknown[] {
  const messages = typeof update === "object" && "messages" in update ? update["messages"] : undefined;
  return Array.isArray(messages) ? (messages as unknown[]) : [];
}

function errorMessage(content: string, name: string, id: string): ToolMessage {
  return new ToolMessage({ content, tool_call_id: id, name, status: "error" });
}

interface Update {
  messages?: BaseMessage[];
  jumpTo?: "model" | "end";
}

async function prompt(
  asker: FrameworkAsker,
  messages: readonly BaseMessage[],
  signal: AbortSignal | undefined,
): Promise<Update | undefined> {
  const last = messages.at(-1);
  if (!HumanMessage.isInstance(last)) {
    return undefined;
  }
  const gate: Gate = await asker.ask("UserPromptSubmit", { payload: { prompt: last.text } }, { signal });
  switch (gate.kind) {
    case "run": {
      const notes = context(gate);
      return notes.length === 0 ? undefined : { messages: [new HumanMessage(beside("", notes))] };
    }
    case "halt":
      throw new AgentHalted(gate);
    case "refuse":
    case "ask":
    case "suspend":
    case "continue": {
      const content = signed(gate.reason, gate.decision, "the prompt was refused");
      const gone = last.id === undefined ? [] : [new RemoveMessage({ id: last.id })];
      const answer = new AIMessage({ content, response_metadata: { [MARK]: "refused" } });
      return { messages: [...gone, answer], jumpTo: "end" };
    }
    default:
      return unhandled(gate);
  }
}

async function stop(
  asker: FrameworkAsker,
  messages: readonly BaseMessage[],
  signal: AbortSignal | undefined,
): Promise<Update | undefined> {
  const last = messages.at(-1);
  if (last?.response_metadata[MARK] === "refused") {
    return undefined;
  }
  const asked = messages.findLast((message) => HumanMessage.isInstance(message));
  const payload = {
    stop_hook_active: asked?.response_metadata[MARK] === "continue",
    ...(AIMessage.isInstance(last) && { last_assistant_message: last.text }),
  };
  const gate = await asker.ask("Stop", { payload }, { signal });
  if (gate.kind === "halt") {
    throw new AgentHalted(gate);
  }
  if (gate.kind !== "continue") {
    return undefined;
  }
  const content = signed(gate.reason, gate.decision, "go on");
  return { messages: [new HumanMessage({ content, response_metadata: { [MARK]: "continue" } })], jumpTo: "model" };
}
