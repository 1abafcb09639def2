/** Runs one program under limits, and leaves nothing of it behind that should not be there. @module */

import { spawn, type ChildProcess } from "node:child_process";
import { stat } from "node:fs/promises";
import { constants } from "node:os";
import type { Readable } from "node:stream";
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";

import { Group } from "./group.js";
import { aborted } from "./stops.js";

/**
 * A file that another process's fresh child still holds open for writing cannot be executed; the moment passes by
 * itself.
 */
const BUSY_LIMIT_MS = 2000;
const BUSY_PAUSE_MS = 5;

/** One program to run. */
export interface Command {
  readonly argv: readonly string[];
  /** The whole environment: nothing of this process is inherited. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
  readonly stdin: Uint8Array;
}

/** What one run may take. */
export interface Limits {
  /** How long the program may run, counted from its start, in milliseconds. */
  readonly timeoutMs: number;
  /** How many bytes of stdout, and as many of stderr, are kept. */
  readonly outputBytes: number;
  /** How long pipes that others still hold are read after the leader has exited; never beyond the timeout. */
  readonly pipeGraceMs: number;
  /** The time between SIGTERM and SIGKILL for a group that has to end. */
  readonly killGraceMs: number;
}

/** How a program ended. */
export type End =
  | { readonly kind: "exited"; readonly code: number }
  /** By this signal, which was not ours. */
  | { readonly kind: "signalled"; readonly signal: number }
  | { readonly kind: "timed-out" }
  | { readonly kind: "cancelled" }
  /** One line that says why. */
  | { readonly kind: "did-not-start"; readonly why: string };

/** How one run ended, and what the program wrote until then. */
export interface Finished {
  readonly end: End;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  /** There was more than was kept. */
  readonly truncated: boolean;
  /** From its start to this answer; 0 if it never started. */
  readonly elapsedMs: number;
}

/** What ends a run from outside. */
export interface Stops {
  /** Nobody waits for it any more, once one of these is aborted. */
  readonly cancelled: readonly AbortSignal[];
  /** Groups that are being ended get no more grace. */
  readonly hurry: AbortSignal;
  /** Called once the program and its group are gone; the answer does not wait for that. */
  readonly gone: () => void;
}

/**
 * Runs one program. It leads a process group of its own and gets exactly its environment; stdin is written while both
 * outputs are read; one timer counts from its start. A time-out, a cancellation and the death of the leader by a signal
 * end the whole group. A leader that exits by itself leaves what it detached alone.
 */
export async function run(command: Command, limits: Limits, { cancelled, hurry, gone }: Stops): Promise<Finished> {
  const started = performance.now();
  const unstarted = (end: End): Finished => {
    gone();
    return { end, stdout: new Uint8Array(), stderr: new Uint8Array(), truncated: false, elapsedMs: 0 };
  };
  if (cancelled.some((signal) => signal.aborted)) {
    return unstarted({ kind: "cancelled" });
  }
  if (limits.timeoutMs <= 0) {
    return unstarted({ kind: "timed-out" });
  }
  const child = await start(command, started);
  if (typeof child === "string") {
    return unstarted({ kind: "did-not-start", why: child });
  }
  const group = new Group(child.process, child.pid);
  const stdout = new Captured(child.process.stdout, limits.outputBytes);
  const stderr = new Captured(child.process.stderr, limits.outputBytes);
  feed(child.process, command.stdin);

  const timer = new AbortController();
  const timeOver = started + limits.timeoutMs;
  const end = await Promise.race([
    exited(child.process),
    aborted(cancelled, timer.signal).then((): End => ({ kind: "cancelled" })),
    pause(timeOver - performance.now(), undefined, { signal: timer.signal }).then(
      (): End => ({ kind: "timed-out" }),
      () => new Promise<never>(() => undefined),
    ),
  ]);
  timer.abort();

  if (end.kind === "exited" || end.kind === "signalled") {
    const graceMs = Math.min(limits.pipeGraceMs, Math.max(0, timeOver - performance.now()));
    await within(graceMs, Promise.all([stdout.closed, stderr.closed]));
  }
  const finished: Finished = {
    end,
    stdout: stdout.bytes(),
    stderr: stderr.bytes(),
    truncated: stdout.truncated || stderr.truncated,
    elapsedMs: performance.now() - started,
  };
  if (end.kind === "exited") {
    group.leave();
    release(child.process);
    gone();
  } else {
    // The pipes stay open meanwhile: one that says something while it cleans up would else die of SIGPIPE.
    void group.end(limits.killGraceMs, hurry).finally(() => {
      release(child.process);
      gone();
    });
  }
  return finished;
}

/** Starts the program, or says why it did not. */
async function start(
  { argv: [program, ...args], env, cwd }: Command,
  started: number,
): Promise<{ readonly process: ChildProcess; readonly pid: number } | string> {
  if (program === undefined) {
    return "no program is named";
  }
  for (;;) {
    const child = await spawned(program, args, env, cwd);
    if (!(child instanceof Error)) {
      return child;
    }
    const { code } = child as NodeJS.ErrnoException;
    if (code === "ETXTBSY" && performance.now() - started < BUSY_LIMIT_MS) {
      await pause(BUSY_PAUSE_MS);
      continue;
    }
    return (
      (cwd === undefined ? undefined : await noDirectory(cwd)) ??
      `cannot start \`${program}\`: ${code ?? child.message}`
    );
  }
}

async function spawned(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd: string | undefined,
): Promise<{ readonly process: ChildProcess; readonly pid: number } | Error> {
  let child: ChildProcess;
  try {
    child = spawn(program, args, { env, stdio: "pipe", detached: true, ...(cwd !== undefined && { cwd }) });
  } catch (error) {
    return error as Error;
  }
  const { pid } = child;
  if (pid === undefined) {
    return new Promise((resolve) => child.once("error", resolve));
  }
  // A signal that cannot be sent shows as a member that stays.
  child.on("error", () => undefined);
  return { process: child, pid };
}

/** A missing working directory and a missing program give the same error; this tells them apart. */
async function noDirectory(cwd: string): Promise<string | undefined> {
  try {
    return (await stat(cwd)).isDirectory() ? undefined : `the working directory \`${cwd}\` is not a directory`;
  } catch (error) {
    return `cannot use the working directory \`${cwd}\`: ${(error as NodeJS.ErrnoException).code ?? String(error)}`;
  }
}

function exited(child: ChildProcess): Promise<End> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => {
      resolve(
        signal === null
          ? { kind: "exited", code: code ?? 0 }
          : { kind: "signalled", signal: constants.signals[signal] },
      );
    });
  });
}

function feed({ stdin }: ChildProcess, bytes: Uint8Array): void {
  // A child need not read its stdin: one that closes it, or ends first, does so without fault.
  stdin?.on("error", () => undefined);
  stdin?.end(bytes);
}

function release({ stdin, stdout, stderr }: ChildProcess): void {
  for (const pipe of [stdin, stdout, stderr]) {
    pipe?.destroy();
  }
}

async function within(ms: number, done: Promise<unknown>): Promise<void> {
  const timer = new AbortController();
  await Promise.race([done, pause(ms, undefined, { signal: timer.signal }).catch(() => undefined)]);
  timer.abort();
  // What was written before the exit is in the pipes already, and must not be lost because this process was late.
  await turn();
  await turn();
}

/**
 * The start of one output, up to a cap. What is beyond it is read and thrown away: a full pipe would block the child.
 */
class Captured {
  readonly closed: Promise<void>;
  readonly #chunks: Buffer[] = [];
  #room: number;
  truncated = false;

  constructor(pipe: Readable | null, cap: number) {
    this.#room = cap;
    this.closed = new Promise((resolve) => (pipe === null ? resolve() : pipe.once("close", resolve)));
    pipe?.on("error", () => undefined);
    pipe?.on("data", (chunk: Buffer) => {
      const kept = chunk.subarray(0, this.#room);
      this.truncated ||= kept.length < chunk.length;
      this.#room -= kept.length;
      if (kept.length > 0) {
        this.#chunks.push(kept);
      }
    });
  }

  bytes(): Uint8Array {
    return Buffer.concat(this.#chunks);
  }
}
