/**
 * The TypeScript client of hookd.
 *
 * Read in this order: {@link Gate}, which is what an agent acts on; {@link OnUnavailable}, which says what happens
 * where hookd cannot be asked; {@link Client} and {@link Session}; {@link CallError}.
 *
 * With `@hookd/client/agent-commands` a client can offer rule files of its own, and runs their commands on this
 * machine.
 *
 * @module
 */

export { AddressError } from "./address.js";
export type { CallOptions } from "./asker.js";
export { CallError, type CallErrorKind, type StatusCode } from "./call-error.js";
export { Client, OptionError, type ClientOptions, type TriggerInit } from "./client.js";
export {
  Decision,
  gateOfAnswer,
  unhandled,
  type AskGate,
  type ContinueGate,
  type Gate,
  type HaltGate,
  type OnUnavailable,
  type RefuseGate,
  type RunGate,
  type SuspendGate,
} from "./gate.js";
export { parseJson } from "./json-parse.js";
export { JsonError, JsonNumber, JsonText, type JsonObject, type JsonValue } from "./json-text.js";
export { writeJson } from "./json-write.js";
export * as proto from "./proto.js";
export type { Place, Resolve } from "./resolve.js";
export {
  Session,
  type EventDetails,
  type ObjectInput,
  type OwnRules,
  type SessionOptions,
  type ToolCallDetails,
} from "./session.js";
export { wrapTool, type ToolOptions, type ToolOutcome } from "./tool.js";
export type { KeepAlive, TlsOptions } from "./transport.js";
