/** Runs what hookd asks for: one command under the process rules, and what it came to. @module */

import { isAbsolute } from "node:path";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";

import { oneLine } from "../call-error.js";
import {
  CommandResultSchema,
  Failure,
  type CommandResult,
  type RunCommand,
  type TriggerRequest,
} from "../gen/hookd/v1/hook_service_pb.js";
import { passedOn } from "./native.js";
import { Overloaded, type Release } from "./places.js";
import { run, type Command, type Finished, type Limits } from "./process.js";
import type { AgentProgram, AgentSide } from "./side.js";
import { aborted } from "./stops.js";

/** Most that is kept of one output, whatever hookd asks for. */
const MAX_OUTPUT_BYTES = 1024 * 1024;
/** What a command may take of which hookd does not say it. */
const DEFAULT_TIMEOUT_MS = 10_000;
const PIPE_GRACE_MS = 100;
const KILL_GRACE_MS = 500;

/** One command of a call. */
export interface Asked {
  readonly message: RunCommand;
  readonly request: TriggerRequest;
  /** When the call is over, on the clock of `performance.now()`. */
  readonly deadline: number;
}

/** Why there is nothing to run. */
class NoProgram extends Error {
  readonly failure: Failure;

  constructor(failure: Failure, why: string) {
    super(why);
    this.failure = failure;
  }
}

/** Runs a command to its end. `cancelled` ends the program and its group. */
export async function runAsked(side: AgentSide, asked: Asked, cancelled: AbortSignal): Promise<CommandResult> {
  const stopped = [cancelled, side.closing.signal];
  const result = await ran(side, asked, stopped).catch((error: unknown) =>
    failed(Failure.INTERNAL, oneLine(String(error))),
  );
  return create(CommandResultSchema, { ...result, commandId: asked.message.commandId });
}

/** Starts a command that nobody waits for. One that cannot be started is nobody's to tell. */
export async function runDetached(side: AgentSide, { message, request }: Asked): Promise<void> {
  try {
    const program = await programOf(side, message, request);
    const timeoutMs = timeoutOf(message) ?? DEFAULT_TIMEOUT_MS;
    if (side.commands.detach?.({ program, stdin: message.stdin, timeoutMs }) === true) {
      return;
    }
    const gone = side.places.background();
    const stops = { cancelled: [side.closing.signal], hurry: side.killing.signal, gone };
    await run(commandOf(program, message.stdin), limitsOf(timeoutMs, 0), stops);
  } catch {
    // As it says above.
  }
}

type Result = MessageInitShape<typeof CommandResultSchema>;

async function ran(
  side: AgentSide,
  { message, request, deadline }: Asked,
  stopped: readonly AbortSignal[],
): Promise<Result> {
  let program: AgentProgram;
  try {
    program = await programOf(side, message, request);
  } catch (error) {
    const failure = error instanceof NoProgram ? error.failure : Failure.NOT_PERMITTED;
    return failed(failure, oneLine(error instanceof Error ? error.message : String(error)));
  }
  let place: Release | undefined;
  try {
    place = await placed(side, deadline, stopped);
  } catch (error) {
    if (error instanceof Overloaded) {
      return failed(Failure.OVERLOADED, error.message);
    }
    throw error;
  }
  if (place === undefined) {
    return { failure: stopped.some((signal) => signal.aborted) ? Failure.CANCELLED : Failure.TIMED_OUT };
  }
  const leftMs = deadline - performance.now();
  const limits = limitsOf(
    Math.min(timeoutOf(message) ?? leftMs, leftMs),
    Math.min(message.outputLimitBytes, MAX_OUTPUT_BYTES),
  );
  const stops = { cancelled: stopped, hurry: side.killing.signal, gone: place };
  return ended(await run(commandOf(program, message.stdin), limits, stops));
}

/** Waits for a place, until the deadline. */
async function placed(
  side: AgentSide,
  deadline: number,
  stopped: readonly AbortSignal[],
): Promise<Release | undefined> {
  const late = new AbortController();
  const done = new AbortController();
  const timer = setTimeout(() => late.abort(), Math.max(0, deadline - performance.now()));
  try {
    return await side.places.child(aborted([...stopped, late.signal], done.signal));
  } finally {
    clearTimeout(timer);
    done.abort();
  }
}

/** What is to be run, with the directory to run it in. */
async function programOf(side: AgentSide, message: RunCommand, request: TriggerRequest): Promise<AgentProgram> {
  const program = await bareProgramOf(side, message, request);
  return program.cwd === undefined && isAbsolute(request.cwd) ? { ...program, cwd: request.cwd } : program;
}

async function bareProgramOf(side: AgentSide, message: RunCommand, request: TriggerRequest): Promise<AgentProgram> {
  switch (message.program.case) {
    case "offeredRule": {
      const { sha256, index } = message.program.value;
      const file = side.offers.find((offer) => offer.sha256 === sha256 && offer.toMessage().tier === message.tier);
      if (file === undefined) {
        throw new NoProgram(Failure.NOT_PERMITTED, "the rule stands in no file that was offered");
      }
      return side.commands.program({ file, index, ruleId: message.ruleId, request });
    }
    case "serverProgram": {
      if (!side.serverPrograms) {
        throw new NoProgram(Failure.NOT_PERMITTED, "this caller runs no programs of the server's");
      }
      const { argv, env: added } = message.program.value;
      return { argv, env: { ...passedOn(), ...added }, ...(isAbsolute(message.cwd) && { cwd: message.cwd }) };
    }
    case undefined:
      throw new NoProgram(Failure.UNSUPPORTED, "this caller does not know what is to be run");
  }
}

function commandOf({ argv, env, cwd }: AgentProgram, stdin: Uint8Array): Command {
  return { argv, env, cwd, stdin };
}

function limitsOf(timeoutMs: number, outputBytes: number): Limits {
  return { timeoutMs, outputBytes, pipeGraceMs: PIPE_GRACE_MS, killGraceMs: KILL_GRACE_MS };
}

function timeoutOf({ timeout }: RunCommand): number | undefined {
  return timeout === undefined ? undefined : durationMs(timeout);
}

function failed(failure: Failure, why: string): Result {
  return { failure, stderr: Buffer.from(why) };
}

function ended({ end, stdout, stderr, truncated, elapsedMs }: Finished): Result {
  const result: Result = {
    stdout,
    stderr,
    truncated,
    ...(elapsedMs > 0 && { elapsed: durationFromMs(Math.round(elapsedMs)) }),
  };
  switch (end.kind) {
    case "exited":
      return { ...result, exitCode: end.code };
    case "signalled":
      return { ...result, signal: end.signal };
    case "timed-out":
      return { ...result, failure: Failure.TIMED_OUT };
    case "cancelled":
      return { ...result, failure: Failure.CANCELLED };
    case "did-not-start":
      return failed(Failure.DID_NOT_START, end.why);
  }
}
