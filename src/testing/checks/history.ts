import { checkFunction, checkText, monotonicMs } from '../../base/index.js';
import { recorded } from './recorded-outcome.js';

/** A broken rule, as reported by a checker such as `checkPuts`. A checker that finds no violation returns `[]`. */
export interface Violation<Rule extends string = string> {
  readonly rule: Rule;
  /** Text that names the operation or the event, and says what is wrong with it. */
  readonly detail: string;
}

/** One change to one key, as a watcher saw it. */
export interface SeenEvent {
  readonly revision: bigint;
  readonly type: 'put' | 'delete';
  readonly key: string;
  /** The new value; empty for a delete. */
  readonly value: string;
}

/** One call as its caller saw it. */
export interface Operation<Call, Result> {
  /** Name of the caller. */
  readonly process: string;
  readonly call: Call;
  /** When the call started, in milliseconds on the monotonic clock. */
  readonly startMs: number;
  /**
   * When the call ended, in milliseconds on the monotonic clock. `Infinity` if the outcome is unknown, because a call
   * with an unknown outcome may take effect at any time after its start, or never.
   */
  readonly endMs: number;
  /** `ok`: the call succeeded. `fail`: the call had no effect. `unknown`: the call may have had an effect. */
  readonly outcome: 'ok' | 'fail' | 'unknown';
  /** Result of the call; undefined unless the outcome is `ok`. */
  readonly result: Result | undefined;
}

/**
 * Records calls and their results for a checker such as `checkPuts`.
 *
 * @example
 * import { Client } from 'etcdwire';
 * import { checkPuts, History, type PutCall } from 'etcdwire/testing';
 *
 * await using etcd = new Client({ endpoints: ['http://127.0.0.1:2379'] });
 * const history = new History<PutCall, unknown>();
 * await history.record('writer 1', { key: 'k', value: 'v1' }, () => etcd.put('k', 'v1'));
 * console.log(checkPuts(history.operations, [{ key: 'k', value: 'v1' }])); // []
 */
export class History<Call, Result> {
  readonly #operations: Operation<Call, Result>[] = [];

  /** The calls that have ended, in the order in which they ended. */
  get operations(): readonly Operation<Call, Result>[] {
    return this.#operations;
  }

  /**
   * Calls `act` and records the call. Resolves or rejects as `act` does. Records a rejection as `fail` only if the
   * error is an `EtcdError` with the outcome `rejected` or `not-sent`. Records any other rejection as `unknown`.
   */
  async record(process: string, call: Call, act: () => Promise<Result>): Promise<Result> {
    checkText(process, 'process');
    checkFunction(act, 'act');
    const startMs = monotonicMs();
    const note = (outcome: Operation<Call, Result>['outcome'], result?: Result): void => {
      const endMs = outcome === 'unknown' ? Number.POSITIVE_INFINITY : monotonicMs();
      this.#operations.push({ process, call, startMs, endMs, outcome, result });
    };
    return recorded(act, note);
  }
}
