/** Makes one attempt after another within the deadline, while nobody answers. @module */

import { fromBinary, toBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf";

import { onAbort } from "./abort.js";
import type { Address } from "./address.js";
import { CallError, deadlineExceeded, garbled, tooLarge, unsendable, withMore } from "./call-error.js";
import { Connection, type Attempt, type ConnectionOptions } from "./transport.js";

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
}

/** The connections of a client, and its rules for retries. */
export class Asker {
  readonly #connections: readonly Connection[];
  readonly #options: AskerOptions;
  /** Who is asked first: a random one, then the next whenever it does not answer. Counts on, modulo. */
  #current: number;

  constructor(options: AskerOptions) {
    this.#options = options;
    this.#connections = options.addresses.map((address) => new Connection(address, options));
    this.#current = Math.floor(Math.random() * this.#connections.length);
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
    const deadline = performance.now() + deadlineMs;
    let last: CallError | undefined;
    // It counts more: what blocks must not turn into what `onUnavailable` lets go by another server being away.
    let untrusted: CallError | undefined;
    for (let round = 0; round < rounds; round += 1) {
      if (round > 0 && !(await waited(round, deadline, signal))) {
        break;
      }
      let mayBeBack = false;
      for (let place = 0; place < this.#connections.length; place += 1) {
        const asked = this.#current;
        const connection = this.#connections[asked % this.#connections.length] as Connection;
        const at = connection.address.text;
        const leftMs = deadline - performance.now();
        if (leftMs <= 0) {
          throw deadlineExceeded(at, deadlineMs, untrusted ?? last);
        }
        try {
          return await attempt(connection, { leftMs, signal });
        } catch (error) {
          signal?.throwIfAborted();
          if (!(error instanceof CallError)) {
            throw error;
          }
          if (error.kind === "deadline-exceeded" && error.decisionId === undefined) {
            throw deadlineExceeded(at, deadlineMs, untrusted ?? last);
          }
          if ((error.kind !== "unavailable" && error.kind !== "not-trusted") || !mayRepeat()) {
            throw error;
          }
          if (error.kind === "not-trusted") {
            untrusted = error;
          } else {
            last = error;
            mayBeBack = true;
          }
        }
        // Another call may have moved on already.
        if (this.#current === asked) {
          this.#current = asked + 1;
        }
      }
      if (!mayBeBack) {
        break;
      }
    }
    const error = untrusted ?? last;
    if (error === undefined) {
      throw deadlineExceeded("any address", deadlineMs, undefined);
    }
    const tried = this.#connections.map((connection) => connection.address.text);
    throw tried.length > 1 ? withMore(error, `; tried ${tried.join(", ")}`) : error;
  }

  /** Closes all connections. Calls in flight end. */
  close(): void {
    for (const connection of this.#connections) {
      connection.close();
    }
  }
}

/** The message in these bytes, or throws a {@link CallError}. */
export function decoded<O extends DescMessage>(schema: O, bytes: Uint8Array, { address }: Connection): MessageShape<O> {
  try {
    return fromBinary(schema, bytes);
  } catch (error) {
    throw garbled((error as Error).message, address.text);
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
