/** Why hookd gave no answer that can be carried out. @module */

/**
 * What went wrong with a call.
 *
 * - `unavailable`: nobody answered: no connection, a connection that broke, or a hookd that shuts down (`UNAVAILABLE`).
 * - `deadline-exceeded`: no answer came in time.
 * - `internal`: hookd had a fault of its own (`INTERNAL`).
 * - `shed`: hookd has too many calls in flight and did not take this one.
 * - `refused`: the call itself is at fault: too large, invalid, unauthenticated, denied, not implemented, another
 *   revision.
 * - `not-trusted`: the two ends do not trust each other, so hookd was not asked: its certificate has expired, is by an
 *   unknown CA, or is for another name; or a file with the token, the CAs, the certificate or the key cannot be used.
 * - `not-understood`: there is an answer, but it is not understood or cannot be carried out.
 */
export type CallErrorKind =
  | "unavailable"
  | "deadline-exceeded"
  | "internal"
  | "shed"
  | "refused"
  | "not-trusted"
  | "not-understood";

const STATUS_CODES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

/** A gRPC status code by its name. */
export type StatusCode = (typeof STATUS_CODES)[number];

/**
 * Why a call gave no usable answer. Its message is one line for a person: lowercase, no full stop, with the address.
 */
export class CallError extends Error {
  override readonly name: string = "CallError";
  /** What went wrong. */
  readonly kind: CallErrorKind;
  /** The gRPC status code. `undefined`: the call ended before there was one. */
  readonly code: StatusCode | undefined;
  /** hookd's id of this decision, to be found in its logs. `undefined`: hookd itself did not answer. */
  readonly decisionId: string | undefined;
  /** When a call that was shed may be worth another try, in milliseconds. `undefined` on all others. */
  readonly retryAfterMs: number | undefined;

  /** For those who make one up in a test. */
  constructor(
    kind: CallErrorKind,
    message: string,
    details: { code?: StatusCode; decisionId?: string; retryAfterMs?: number } = {},
  ) {
    super(message);
    this.kind = kind;
    this.code = details.code;
    this.decisionId = details.decisionId;
    this.retryAfterMs = details.retryAfterMs;
  }

  /**
   * Whether `onUnavailable` says what happens. Otherwise it is a block where the event can block, so that a padded or
   * broken call, or broken trust, does not buy an allow.
   */
  get isUnavailable(): boolean {
    switch (this.kind) {
      case "unavailable":
      case "deadline-exceeded":
      case "internal":
      case "shed":
        return true;
      case "refused":
      case "not-trusted":
      case "not-understood":
        return false;
    }
  }
}

/** How a call ended that gave no answer. */
export interface FailedStatus {
  readonly code: number;
  readonly details: string;
  /** Of the headers or the trailers. */
  readonly decisionId: string | undefined;
  /** From the status's details: it was shed, and may be tried again after so long. */
  readonly retryAfterMs: number | undefined;
}

/** What `status` means; `at` is the address. */
export function errorOfStatus(status: FailedStatus, at: string): CallError {
  const kind = kindOf(status);
  const code = STATUS_CODES[status.code] ?? "UNKNOWN";
  const said = oneLine(status.details);
  const message = {
    unavailable:
      status.decisionId === undefined
        ? `hookd cannot be reached at ${at}: ${said}`
        : `hookd at ${at} is not available: ${said}`,
    "deadline-exceeded": `hookd at ${at} gave no answer in time: ${said}`,
    internal: `hookd at ${at} failed: ${said}`,
    shed: `hookd at ${at} has too many calls: ${said}`,
    refused: `hookd at ${at} refused the call: ${said} (${code})`,
    "not-trusted": `hookd at ${at} is not asked: ${said}`,
    "not-understood": `the answer of hookd at ${at} is not understood: ${said}`,
  }[kind];
  return new CallError(kind, message, {
    code,
    ...(status.decisionId === undefined ? {} : { decisionId: status.decisionId }),
    ...(kind === "shed" && status.retryAfterMs !== undefined ? { retryAfterMs: status.retryAfterMs } : {}),
  });
}

function kindOf({ code, decisionId, retryAfterMs }: FailedStatus): CallErrorKind {
  const name = STATUS_CODES[code] ?? "UNKNOWN";
  switch (name) {
    case "DEADLINE_EXCEEDED":
      return "deadline-exceeded";
    case "UNAVAILABLE":
      return "unavailable";
    case "INTERNAL":
      // Without the id: what the transport makes of a connection that closes under a call, as the two below.
      return decisionId === undefined ? "unavailable" : "internal";
    case "CANCELLED":
    case "UNKNOWN":
      return decisionId === undefined ? "unavailable" : "refused";
    case "RESOURCE_EXHAUSTED":
      return retryAfterMs === undefined ? "refused" : "shed";
    default:
      return "refused";
  }
}

/** Bytes that are not the message that they should be. */
export function garbled(why: string, at: string): CallError {
  return new CallError("not-understood", `the answer of hookd at ${at} is not understood: ${oneLine(why)}`, {
    code: "INTERNAL",
  });
}

/** An answer that cannot be carried out. */
export function notUnderstood(why: string): CallError {
  return new CallError("not-understood", `the answer of hookd cannot be carried out: ${why}`);
}

/** Nobody is found at `at`. */
export function unreachable(why: string, at: string): CallError {
  return new CallError("unavailable", `hookd cannot be reached at ${at}: ${oneLine(why)}`);
}

/** Nothing is said to `at`. */
export function notTrusted(why: string, at: string): CallError {
  return new CallError("not-trusted", `hookd at ${at} is not asked: ${oneLine(why)}`);
}

/** A request that is over the limit, and not even sent. */
export function tooLarge(bytes: number, limit: number): CallError {
  return new CallError("refused", `the call has ${bytes} bytes, the limit is ${limit}`, { code: "RESOURCE_EXHAUSTED" });
}

/** A request that cannot be sent. */
export function unsendable(why: string): CallError {
  return new CallError("refused", `the call cannot be sent: ${oneLine(why)}`);
}

/** No answer in time; `last` is what the last finished attempt met. Want of trust stays what it is. */
export function deadlineExceeded(at: string, grantedMs: number, last: CallError | undefined): CallError {
  const because = last === undefined ? "" : `: ${last.message}`;
  const message = `hookd at ${at} gave no answer within ${duration(grantedMs)}${because}`;
  return last?.kind === "not-trusted"
    ? new CallError("not-trusted", message)
    : new CallError("deadline-exceeded", message, { code: "DEADLINE_EXCEEDED" });
}

/** The same error with more to say. */
export function withMore(error: CallError, more: string): CallError {
  return new CallError(error.kind, error.message + more, {
    ...(error.code === undefined ? {} : { code: error.code }),
    ...(error.decisionId === undefined ? {} : { decisionId: error.decisionId }),
    ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
  });
}

function duration(ms: number): string {
  return ms < 1000 ? `${ms}ms` : `${ms / 1000}s`;
}

/** `text` without control characters, starting in lowercase: it ends up on terminals and in front of models. */
export function oneLine(text: string): string {
  const line = text
    .split(/\p{Cc}+/u)
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .join(" ");
  if (line === "") {
    return "no reason was given";
  }
  const [first = "", second = ""] = line;
  // Not where the first word is a name in capitals.
  return /\p{Lu}/u.test(second) ? line : first.toLowerCase() + line.slice(first.length);
}
