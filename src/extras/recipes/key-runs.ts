import { after, checkDelay, idOf, monotonicMs, printable, textOf, UniqueQueue } from '../../base/index.js';

/** A key that is queued, running, or waiting for its next run. */
interface Entry {
  readonly key: Uint8Array;
  /** Number of failed runs since the last successful run. */
  failures: number;
  isRunning: boolean;
  /** Whether the key is queued again when its current run ends. */
  isChanged: boolean;
  /** Stops the timer of the next run. */
  stopTimer: () => void;
}

/** A report about one run of the handler of `reconcile`. */
export interface RunReport {
  /** The key as text, for messages: malformed UTF-8 becomes U+FFFD. */
  readonly key: string;
  readonly keyBytes: Uint8Array;
  /** See `KeyRun.attempt`. */
  readonly attempt: number;
  /** How long the run has taken, in milliseconds. */
  readonly durationMs: number;
  /** What the handler has thrown. Undefined if the run has succeeded. */
  readonly error: unknown;
  /** The number of keys that are queued after the run. */
  readonly queued: number;
}

interface KeyRunsOptions {
  /** Runs a key. Resolves with the milliseconds after which the key runs again, or with undefined. */
  readonly run: (key: Uint8Array, attempt: number) => Promise<number | undefined>;
  readonly concurrency: number;
  readonly retryDelayMs: (attempt: number) => number;
  readonly onRun: ((report: RunReport) => void) | undefined;
  /** No run starts after this signal has aborted, and the result of a run that ends after that does not count. */
  readonly signal: AbortSignal;
  /** Called with what `retryDelayMs` or `onRun` throws. */
  readonly fail: (error: unknown) => void;
}

/**
 * Keys that wait for a run, in the order in which they were added. Runs up to `concurrency` keys at once, and each key
 * at most once at a time. A key that is added during its run runs once more after that run.
 */
export class KeyRuns {
  readonly #options: KeyRunsOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #queue = new UniqueQueue<Entry>();
  readonly #running = new Set<Promise<void>>();

  constructor(options: KeyRunsOptions) {
    this.#options = options;
  }

  /** Queues a key, also a key that waits for the timer of its next run. */
  add(key: Uint8Array): void {
    const id = idOf(key);
    let entry = this.#entries.get(id);
    if (entry === undefined) {
      entry = { key, failures: 0, isRunning: false, isChanged: false, stopTimer: () => {} };
      this.#entries.set(id, entry);
    }
    if (entry.isRunning) entry.isChanged = true;
    else this.#enqueue(entry);
  }

  /** Stops all timers, and waits for the current runs. The signal must have aborted before. */
  async end(): Promise<void> {
    for (const { stopTimer } of this.#entries.values()) stopTimer();
    await Promise.all(this.#running);
  }

  #enqueue(entry: Entry): void {
    entry.stopTimer();
    this.#queue.add(entry);
    this.#startRuns();
  }

  #startRuns(): void {
    const { concurrency, signal, fail } = this.#options;
    while (this.#running.size < concurrency && this.#queue.size > 0 && !signal.aborted) {
      const entry = this.#queue.take() as Entry;
      const run: Promise<void> = this.#run(entry)
        .catch(fail)
        .finally(() => {
          this.#running.delete(run);
          this.#startRuns();
        });
      this.#running.add(run);
    }
  }

  /** Runs a key, and decides when the key runs again. @throws what `retryDelayMs` or `onRun` throws. */
  async #run(entry: Entry): Promise<void> {
    const { run, retryDelayMs, onRun, signal } = this.#options;
    const { key } = entry;
    const attempt = entry.failures + 1;
    const startedAt = monotonicMs();
    entry.isRunning = true;
    entry.isChanged = false;
    let error: unknown;
    let delayMs: number | undefined;
    try {
      delayMs = await run(key, attempt);
      entry.failures = 0;
    } catch (thrown) {
      error = thrown ?? new Error(`the handler has thrown ${thrown}`);
      entry.failures = attempt;
    }
    entry.isRunning = false;
    if (signal.aborted) return;
    if (entry.failures > 0 && !entry.isChanged) delayMs = checkDelay(retryDelayMs(attempt), 'retryDelayMs(attempt)');
    if (entry.isChanged) this.#queue.add(entry);
    else if (delayMs === undefined) this.#entries.delete(idOf(key));
    else entry.stopTimer = after(delayMs, () => this.#enqueue(entry));
    const durationMs = monotonicMs() - startedAt;
    await onRun?.(printable({ key: textOf(key), keyBytes: key, attempt, durationMs, error, queued: this.#queue.size }));
  }
}
