import { EtcdError } from '../errors/etcd-error.js';
import { monotonicMs } from '../runtime/timers.js';

/** One call, as whoever made it saw it. */
export interface Operation<Call, Result> {
  /** Who made it. */
  readonly process: string;
  readonly call: Call;
  /** On the monotonic clock. */
  readonly startMs: number;
  /** `Infinity` where the outcome is unknown: it may take effect at any time after its start, or never. */
  readonly endMs: number;
  /** `fail`: it certainly had no effect. */
  readonly outcome: 'ok' | 'fail' | 'unknown';
  /** Of an outcome `ok` alone. */
  readonly result: Result | undefined;
}

/** Records what was asked and what came of it, for a checker to judge. */
export class History<Call, Result> {
  readonly #operations: Operation<Call, Result>[] = [];

  /** Those that have ended, in the order of their ends. */
  get operations(): readonly Operation<Call, Result>[] {
    return this.#operations;
  }

  /** Makes the call and notes it; gives, or throws, what `act` does. */
  async record(process: string, call: Call, act: () => Promise<Result>): Promise<Result> {
    const startMs = monotonicMs();
    const note = (outcome: Operation<Call, Result>['outcome'], result?: Result): void => {
      const endMs = outcome === 'unknown' ? Number.POSITIVE_INFINITY : monotonicMs();
      this.#operations.push({ process, call, startMs, endMs, outcome, result });
    };
    try {
      const result = await act();
      note('ok', result);
      return result;
    } catch (error) {
      note(outcomeOf(error));
      throw error;
    }
  }
}

/** An error that is none of ours proves nothing. */
function outcomeOf(error: unknown): 'fail' | 'unknown' {
  return error instanceof EtcdError && error.outcome !== 'unknown' ? 'fail' : 'unknown';
}
