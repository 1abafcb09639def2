/** Makes one attempt after another within the deadline, while nobody answers. @module */

import { fromBinary, toBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf";

import { onAbort } from "./abort.js";
import type { Address } from "./address.js";
import { CallError, garbled, tooLarge, unsendable } from "./call-error.js";
import { Failures } from "./failures.js";
import { Fleet, within, type Replica } from "./fleet.js";
import type { Resolve } from "./resolve.js";
import type { Attempt, Connection, ConnectionOptions } from "./transport.js";

/** The wait before the second round; it doubles from round to round up to the longest. */
const FIRST_BACK_OFF_MS = 50;
const LONGEST_BACK_OFF_MS = 1000;

/** A call's own wishes. */
export interface CallOptions {
  /** Ends the call: its promise then rejects with the signal's reason, and hookd stops what it runs for it. */
  readonly signal?: AbortSignal | undefined;
}

/** What an {@link Asker} is made of. */
export interface AskerOptions extends ConnectionOptions {
  readonly addresses: readonly Address[];
  readonly deadlineMs: number;
  readonly rounds: number;
  readonly resolve: Resolve;
}

/** The replicas of a client, and its rules for retries. */
export class Asker {
  readonly #fleet: Fleet;
  readonly #options: AskerOptions;

  constructor(options: AskerOptions) {
    this.#options = options;
    this.#fleet = new Fleet(options.addresses, options.resolve, options);
  }

  /** Asks the method at `path`. Rejects with a {@link CallError}, or with the reason of an aborted signal. */
  async unary<I extends DescMessage, O extends DescMessage>(
    path: string,
    [input, output]: readonly [I, O],
    message: MessageShape<I>,
    { signal }: CallOptions = {},
  ): Promise<MessageShape<O>> {
    const request = this.encoded(input, message);
    return this.ask(signal, always, async (connection, attempt) =>
      decoded(output, await connection.call(path, request, attempt), connection),
    );
  }

  /** The bytes of a message that may be sent, or throws a {@link CallError}. */
  encoded<I extends DescMessage>(schema: I, message: MessageShape<I>): Uint8Array {
    const malformed = malformedText(message);
    if (malformed !== undefined) {
      throw unsendable(`\`${malformed}\` holds a lone surrogate`);
    }
    let bytes: Uint8Array;
    try {
      bytes = toBinary(schema, message);
    } catch (error) {
      throw unsendable((error as Error).message);
    }
    if (bytes.length > this.#options.messageBytes) {
      throw tooLarge(bytes.length, this.#options.messageBytes);
    }
    return bytes;
  }

  /** Makes one attempt after another within the deadline while nobody answers, and while one more does no harm. */
  async ask<A>(
    signal: AbortSignal | undefined,
    mayRepeat: () => boolean,
    attempt: (connection: Connection, attempt: Attempt) => Promise<A>,
  ): Promise<A> {
    const { deadlineMs, rounds } = this.#options;
    const fleet = this.#fleet;
    const deadline = performance.now() + deadlineMs;
    const leftMs = () => Math.max(deadline - performance.now(), 0);
    const failures = new Failures(deadlineMs);
    let names: string[] = [];
    let since: number | undefined;
    for (let round = 0; round < rounds; round += 1) {
      if (round > 0 && !(await waited(round, deadline, signal))) {
        break;
      }
      // Those who were asked in vain may not be there any more.
      const known = await within(leftMs(), [fleet.known(since)], signal);
      if (known === undefined) {
        throw failures.late(fleet.addresses.map(({ text }) => text).join(", "));
      }
      since = performance.now();
      names = fleet.names(known);
      known.unresolved.forEach((error) => failures.add(error));
      const tried = new Set<Replica>();
      for (;;) {
        const reached = await fleet.reach(known, tried, failures, leftMs, signal);
        if (leftMs() === 0) {
          throw failures.late(reached?.replica.name ?? names.join(", "));
        }
        if (reached === undefined) {
          break;
        }
        const { replica, connection } = reached;
        try {
          const answer = await attempt(connection, { leftMs: leftMs(), signal });
          replica.failures = 0;
          return answer;
        } catch (error) {
          signal?.throwIfAborted();
          if (!(error instanceof CallError)) {
            throw error;
          }
          if (error.kind === "deadline-exceeded" && error.decisionId === undefined) {
            // It may be stuck: it has to connect anew before it is asked again.
            replica.retire(connection);
            throw failures.late(replica.name);
          }
          if (error.kind === "unavailable" || error.kind === "not-trusted") {
            replica.hasFailed(connection);
            fleet.hasLost();
          }
          if ((error.kind !== "unavailable" && error.kind !== "not-trusted") || !mayRepeat()) {
            throw error;
          }
          failures.add(error);
          tried.add(replica);
        }
      }
      if (!failures.mayPass) {
        break;
      }
    }
    throw failures.unanswered(names);
  }

  /** Closes all connections. Calls in flight end. */
  close(): void {
    this.#fleet.close();
  }
}

/** The message in these bytes, or throws a {@link CallError}. */
export function decoded<O extends DescMessage>(schema: O, bytes: Uint8Array, { name }: Connection): MessageShape<O> {
  try {
    return fromBinary(schema, bytes);
  } catch (error) {
    throw garbled((error as Error).message, name);
  }
}

function always(): boolean {
  return true;
}

/** Waits before `round` (from 1), between half of its back-off and all of it. `false`: the deadline is nearer. */
async function waited(round: number, deadline: number, signal: AbortSignal | undefined): Promise<boolean> {
  const longest = Math.min(FIRST_BACK_OFF_MS * 2 ** (round - 1), LONGEST_BACK_OFF_MS);
  const wait = (longest * (1 + Math.random())) / 2;
  if (performance.now() + wait >= deadline) {
    return false;
  }
  await new Promise<void>((resolve) => {
    const stop = signal && onAbort(signal, () => done());
    const timer = setTimeout(() => done(), wait);
    function done(): void {
      clearTimeout(timer);
      stop?.();
      resolve();
    }
  });
  signal?.throwIfAborted();
  return true;
}

/**
 * The name of a field that is no well-formed text. It would be sent with another character in its place, and another
 * text would be judged than the one that was meant.
 */
function malformedText(message: object): string | undefined {
  for (const [name, value] of Object.entries(message)) {
    if (typeof value === "string") {
      if (!value.isWellFormed()) {
        return name;
      }
    } else if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value)) {
      const inside = malformedText(value as object);
      if (inside !== undefined) {
        return inside;
      }
    }
  }
  return undefined;
}
