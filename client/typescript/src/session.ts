/** The everyday calls of one agent session. @module */

import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";

import type { CallOptions } from "./asker.js";
import { unsendable } from "./call-error.js";
import { gateBy, type Client, type TriggerInit } from "./client.js";
import type { Gate } from "./gate.js";
import type { TriggerRequest } from "./gen/hookd/v1/hook_service_pb.js";
import { writeJson } from "./json-write.js";
import { JsonError, JsonText } from "./json-text.js";
import { wrapTool, type ToolOptions, type ToolOutcome } from "./tool.js";

/**
 * A JSON object: a value, written as {@link writeJson} says, or its text as the model gave it, which is sent untouched.
 * What needs more than the 53 bits of a `number` has to come as text (or a `bigint`): a `number` has lost it already.
 */
export type ObjectInput = object | string;

/** The same, where it is not a whole message. */
type Fields = Exclude<TriggerInit, TriggerRequest>;

/** Asks about an event with rules of the agent's own: an `AgentSide` of `@hookd/client/agent-commands`. */
export interface OwnRules {
  /** As {@link Client.trigger}. */
  trigger(client: Client, request: TriggerInit, options?: CallOptions): Promise<Gate>;
}

/** What is sent with each event of a session, and with what rules of the agent's own. */
export interface SessionOptions
  extends Pick<
    Fields,
    | "caller"
    | "capabilities"
    | "cwd"
    | "expectedPolicyRevision"
    | "model"
    | "permissionMode"
    | "transcriptPath"
    | "turnId"
    | "workspaceRoots"
  > {
  /** Rule files of the agent's own, and what runs their commands here. Absent: none. */
  readonly ownRules?: OwnRules;
}

/** What a tool event is about. */
export interface ToolCallDetails {
  /** The tool's own name in the agent. */
  readonly tool: string;
  /** The parameters. Absent: `{}`. */
  readonly params?: ObjectInput;
  /** The result: a value, or a {@link JsonText}. (A string is a value here.) Absent: none. */
  readonly result?: unknown;
  /** Error text of a call that failed. */
  readonly error?: string;
  /** The agent's id of this call. */
  readonly toolUseId?: string;
  /** Normalised kind: shell, read, write, edit, fetch, search, mcp, spawn. Absent: derived by hookd. */
  readonly kind?: string;
  /** Name of the MCP server that provides the tool. */
  readonly mcpServer?: string;
  /** Name of the tool on that server. */
  readonly mcpTool?: string;
  /** How long the tool ran, in milliseconds; fractions are rounded. */
  readonly elapsedMs?: number;
}

/** What an event is about. */
export interface EventDetails extends Omit<SessionOptions, "ownRules"> {
  /** The tool call, on tool events. */
  readonly toolCall?: ToolCallDetails;
  /** What else belongs to the event. */
  readonly payload?: ObjectInput;
  /** The caller's id of this request, for logs on both sides. */
  readonly requestId?: string;
}

/** What is sent with each event of a session, for the rest of this package. */
export let templateOf: (session: Session) => Fields;

/** One session of an agent: asks about its events, each with what was set here and the time of the call. */
export class Session {
  readonly #client: Client;
  readonly #ownRules: OwnRules | undefined;
  readonly #template: Fields;

  static {
    templateOf = (session) => session.#template;
  }

  /** By {@link Client.session}. */
  constructor(client: Client, id: string, { ownRules, ...template }: SessionOptions) {
    this.#client = client;
    this.#ownRules = ownRules;
    this.#template = { ...template, sessionId: id };
  }

  /** Before a tool runs. */
  preToolUse(tool: string, params: ObjectInput, options: CallOptions & { toolUseId?: string } = {}): Promise<Gate> {
    return this.trigger("PreToolUse", { toolCall: { tool, params, ...idOf(options) } }, options);
  }

  /** After a tool ran. A `result` that is JSON text already comes as a {@link JsonText}; a string is a value. */
  postToolUse(
    tool: string,
    params: ObjectInput,
    result: unknown,
    options: CallOptions & { toolUseId?: string } = {},
  ): Promise<Gate> {
    return this.trigger("PostToolUse", { toolCall: { tool, params, result, ...idOf(options) } }, options);
  }

  /** Before the model sees a prompt. */
  userPromptSubmit(prompt: string, options: CallOptions = {}): Promise<Gate> {
    return this.trigger("UserPromptSubmit", { payload: { prompt } }, options);
  }

  /** When the session starts; `source` says how (`startup`, `resume`, `clear`, `compact`). */
  sessionStart(source: string, options: CallOptions = {}): Promise<Gate> {
    return this.trigger("SessionStart", { payload: { source } }, options);
  }

  /** When the session ends; `reason` says why. */
  sessionEnd(reason: string, options: CallOptions = {}): Promise<Gate> {
    return this.trigger("SessionEnd", { payload: { reason } }, options);
  }

  /**
   * When the agent wants to stop. `continued`: it goes on already because of a `continue` gate, which lets rules keep
   * from holding it for ever.
   */
  stop(continued = false, options: CallOptions = {}): Promise<Gate> {
    return this.trigger("Stop", { payload: { stop_hook_active: continued } }, options);
  }

  /** Any event, by its exact name. Details that are set count before those of the session. */
  async trigger(event: string, details: EventDetails = {}, options: CallOptions = {}): Promise<Gate> {
    const request = this.#request(event, details);
    if (request instanceof JsonError) {
      const named = { event, ...(details.toolCall && { toolCall: { tool: details.toolCall.tool } }) };
      return gateBy(this.#client, named, () => Promise.reject(unsendable(request.message)));
    }
    return this.#ownRules === undefined
      ? this.#client.trigger(request, options)
      : this.#ownRules.trigger(this.#client, request, options);
  }

  /** Wraps a function that is a tool: see {@link wrapTool}. */
  wrapTool<P extends object, R>(
    tool: string,
    run: (params: P) => R | Promise<R>,
    options: ToolOptions = {},
  ): (params: P | string, call?: CallOptions & { toolUseId?: string }) => Promise<ToolOutcome<R>> {
    return wrapTool(this, tool, run, options);
  }

  /** The request, or what in it cannot be written. */
  #request(event: string, { toolCall, payload, ...rest }: EventDetails): Fields | JsonError {
    try {
      return {
        ...this.#template,
        ...rest,
        event,
        timestamp: timestampFromMs(Date.now()),
        ...(toolCall && { toolCall: toolCallOf(toolCall) }),
        payloadJson: payload === undefined ? "" : objectText(payload, "payload"),
      };
    } catch (error) {
      if (error instanceof JsonError) {
        return error;
      }
      // A getter or a `toJSON` of the caller's own.
      return new JsonError(`the event cannot be written as JSON: ${String(error)}`);
    }
  }
}

function toolCallOf({ params, result, elapsedMs, ...rest }: ToolCallDetails): NonNullable<Fields["toolCall"]> {
  return {
    ...rest,
    ...(elapsedMs !== undefined && { elapsed: durationFromMs(Math.round(elapsedMs)) }),
    paramsJson: params === undefined ? "" : objectText(params, "parameters"),
    ...(result !== undefined && { resultJson: said(result, "result") }),
  };
}

function objectText(input: ObjectInput, what: string): string {
  return typeof input === "string" ? input : said(input, what);
}

function said(value: unknown, what: string): string {
  try {
    return value instanceof JsonText ? value.text : writeJson(value);
  } catch (error) {
    throw error instanceof JsonError ? new JsonError(`the ${what}: ${error.message}`) : error;
  }
}

function idOf({ toolUseId }: { toolUseId?: string }): { toolUseId?: string } {
  return toolUseId === undefined ? {} : { toolUseId };
}
