import { after, type ClientEvents, onAbort } from '../../base/index.js';

/** Milliseconds without an answer of any endpoint after which the client warns. */
const WARN_AFTER_MS = 2_000;

/** The part of Node.js's `process` that this module uses. Bun and Deno have it, other runtimes do not. */
interface WithWarnings {
  readonly process?: { emitWarning?(message: string, options: { readonly code: string }): void };
}

/**
 * Emits one warning for each time in which no endpoint answers for two seconds. Without it, a program that has neither a
 * logger nor a listener would see nothing while its watches and locks wait. `endpoints` returns the URLs in use.
 */
export function warnWhenUnreachable(
  events: ClientEvents,
  closed: AbortSignal,
  endpoints: () => readonly string[],
): void {
  /** What is wrong with each endpoint that has not answered since it failed. */
  const problems = new Map<string, string>();
  let stopTimer: (() => void) | undefined;
  const isUnreachable = (): boolean => endpoints().every((endpoint) => problems.has(endpoint));
  const warn = (): void => {
    stopTimer = undefined;
    if (events.isObserved || !isUnreachable()) return;
    const list = endpoints().map((endpoint) => `${endpoint}: ${problems.get(endpoint)}`);
    (globalThis as WithWarnings).process?.emitWarning?.(
      `etcdwire has had no answer for ${WARN_AFTER_MS / 1_000} s, and tries again (${list.join('; ')})`,
      { code: 'ETCDWIRE_UNREACHABLE' },
    );
  };
  events.add((event) => {
    if (event.type === 'endpoint unavailable') {
      problems.set(event.endpoint, event.problem);
      if (isUnreachable()) stopTimer ??= after(WARN_AFTER_MS, warn, 'background');
    } else if (event.type === 'endpoint available again') {
      problems.delete(event.endpoint);
      stopTimer?.();
      stopTimer = undefined;
    }
  });
  onAbort(closed, () => stopTimer?.());
}
