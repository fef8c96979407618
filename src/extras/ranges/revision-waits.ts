import { at, canceled, type EtcdError, onAbort, SortedList, timedOut } from '../../base/index.js';
import { type CallOptions, deadlineIn, type WaitTrace } from '../../rpc/index.js';

/** A pending call to `waitForRevision`. */
interface Waiter {
  readonly revision: bigint;
  /** Distinguishes the calls that wait for the same revision. */
  readonly number: number;
  /** Resolves the call, or rejects it with `error`. */
  end(error?: EtcdError): void;
}

/** The pending calls to `waitForRevision` of one cached range. */
export class RevisionWaits {
  readonly #waiters = new SortedList<Waiter, Waiter>(compareWaiters);
  readonly #trace: WaitTrace;
  #added = 0;

  /** If a call times out, its error tells what the trace contains. */
  constructor(trace: WaitTrace) {
    this.#trace = trace;
  }

  get isEmpty(): boolean {
    return this.#waiters.size === 0;
  }

  /**
   * Waits for a revision. `what` is the name of the wait in the text of errors. Rejects after `timeoutMs`, when `signal`
   * aborts, and with the error of `fail`.
   */
  add(revision: bigint, options: Pick<CallOptions, 'signal' | 'timeoutMs'>, what = 'waitForRevision'): Promise<void> {
    const { signal, timeoutMs = Number.POSITIVE_INFINITY } = options;
    const deadline = deadlineIn(options, timeoutMs);
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        revision,
        number: this.#added++,
        end: (error) => {
          this.#waiters.delete(waiter);
          stopTimer();
          offAbort();
          if (error === undefined) resolve();
          else reject(error);
        },
      };
      const late = (): EtcdError => {
        const { failures, endpoint } = this.#trace;
        return timedOut(what, timeoutMs, 'rejected', undefined, failures, endpoint);
      };
      const stopTimer = at(deadline, () => waiter.end(late()));
      const offAbort = onAbort(signal, () => waiter.end(canceled(signal as AbortSignal, 'rejected')));
      this.#waiters.put(waiter, waiter);
    });
  }

  /** Resolves the calls that wait for `revision` or an earlier revision. */
  reached(revision: bigint): void {
    for (let next = this.#waiters.first; next !== undefined && next.revision <= revision; next = this.#waiters.first)
      next.end();
  }

  /** Rejects all calls. */
  fail(error: EtcdError): void {
    for (let next = this.#waiters.first; next !== undefined; next = this.#waiters.first) next.end(error);
  }
}

function compareWaiters(a: Waiter, b: Waiter): number {
  return a.revision === b.revision ? a.number - b.number : a.revision < b.revision ? -1 : 1;
}
