/** Listening to signals that many calls share. @module */

const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Runs `act` when the signal is aborted, or at once where it is. What comes back stops the listening.
 *
 * A signal gets one listener, however many wait for it: it may stand for a whole session, and Node takes more than ten
 * for a leak and says so.
 */
export function onAbort(signal: AbortSignal, act: () => void): () => void {
  if (signal.aborted) {
    act();
    return () => undefined;
  }
  const waiting = listeners.get(signal) ?? listen(signal);
  waiting.add(act);
  return () => waiting.delete(act);
}

function listen(signal: AbortSignal): Set<() => void> {
  const waiting = new Set<() => void>();
  listeners.set(signal, waiting);
  signal.addEventListener("abort", () => waiting.forEach((act) => act()), { once: true });
  return waiting;
}
