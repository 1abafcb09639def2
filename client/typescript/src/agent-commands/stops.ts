/** What ends things. @module */

import { onAbort } from "../abort.js";

/**
 * Resolves when one of the signals is aborted. Listens no longer than `until` lives: signals of a whole side outlive
 * many commands.
 */
export function aborted(signals: readonly AbortSignal[], until: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of signals) {
      onAbort(until, onAbort(signal, resolve));
    }
  });
}
