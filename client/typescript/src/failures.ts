/** What the attempts of one call met. @module */

import { type CallError, deadlineExceeded, withMore } from "./call-error.js";

/** What the attempts of one call met, for the error where none of them was answered. */
export class Failures {
  readonly #grantedMs: number;
  #last: CallError | undefined;
  /** It counts more: what blocks must not turn into what `onUnavailable` lets go by another replica being away. */
  #untrusted: CallError | undefined;

  constructor(grantedMs: number) {
    this.#grantedMs = grantedMs;
  }

  add(error: CallError): void {
    if (error.kind === "not-trusted") {
      this.#untrusted = error;
    } else {
      this.#last = error;
    }
  }

  /** One more round can have another end: somebody was away, who may be back. */
  get mayPass(): boolean {
    return this.#last !== undefined;
  }

  /** There is no time left. */
  late(at: string): CallError {
    return deadlineExceeded(at, this.#grantedMs, this.#untrusted ?? this.#last);
  }

  /** All attempts are made, at all of `tried`. */
  unanswered(tried: readonly string[]): CallError {
    const error = this.#untrusted ?? this.#last ?? deadlineExceeded("any address", this.#grantedMs, undefined);
    return tried.length > 1 ? withMore(error, `; tried ${tried.join(", ")}`) : error;
  }
}
