/** What ends things. @module */

/**
 * Resolves when one of the signals is aborted. Listens no longer than `until` lives: signals of a whole side outlive millions
 * of commands.
 */
export function aborted(signals: readonly AbortSignal[], until: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of signals) {
      if (signal.aborted) {
        resolve();
      } else {
        signal.addEventListener("abort", () => resolve(), { once: true, signal: until });
      }
    }
  });
}
