import {
  canceled,
  checkBoolean,
  checkSignal,
  compareBytes,
  type EtcdError,
  idOf,
  onAbort,
  type SignalOption,
} from '../../base/index.js';
import { Keyed, type KeyValue } from '../../client/index.js';

/** A difference of one key between two states of a cached range. `old` is undefined if the key did not exist. */
export type RangeChange = Pick<KeyValue, 'key' | 'keyBytes'> &
  (
    | { readonly type: 'put'; readonly kv: KeyValue; readonly old: KeyValue | undefined }
    | { readonly type: 'delete'; readonly kv: undefined; readonly old: KeyValue }
  );

/** Options of `CachedRange.changes`. */
export interface ChangesOptions {
  /** Whether to yield first each key that the cached range contains now, as a put without `old`. Default: false. */
  readonly initial?: boolean | undefined;
  /** A signal that ends the iteration: when the signal aborts, the iteration throws an error with reason `Canceled`. */
  readonly signal?: SignalOption;
}

export const CHANGES_OPTIONS = { initial: checkBoolean, signal: checkSignal } as const;

/** A change that the consumer has not taken: from the state that the consumer knows to the key's latest state. */
interface Pending {
  readonly old: KeyValue | undefined;
  kv: KeyValue | undefined;
}

/**
 * The changes of a cached range for one consumer. If a key changes several times before the consumer takes its change,
 * the consumer gets one change from the first state to the last. So a slow consumer needs at most one entry for each
 * key, and no entry for a key that is again in the state that the consumer knows.
 */
export class Changes implements AsyncIterableIterator<RangeChange> {
  readonly #pending = new Map<string, Pending>();
  readonly #consumers: Set<Changes>;
  readonly #offAbort: (() => void) | undefined;
  /** Functions that make the waiting calls of `next` look for a change again. */
  #wakes: (() => void)[] = [];
  #ended = false;
  #error: EtcdError | undefined;

  /** Adds this object to `consumers`, whose members get the changes. Removes it when the iteration ends. */
  constructor(consumers: Set<Changes>, signal: SignalOption) {
    this.#consumers = consumers;
    consumers.add(this);
    if (signal === undefined || signal === null) return;
    const cancel = (): void => {
      this.#pending.clear();
      this.end(canceled(signal, 'rejected'));
    };
    this.#offAbort = onAbort(signal, cancel);
    if (signal.aborted) cancel();
  }

  /** Adds a change of a key from the state `old` to the state `kv`. Undefined is the state of a missing key. */
  note(key: Uint8Array, old: KeyValue | undefined, kv: KeyValue | undefined): void {
    if (this.#ended) return;
    const id = idOf(key);
    const pending = this.#pending.get(id) ?? { old, kv };
    pending.kv = kv;
    if (isSameState(pending.old, kv)) this.#pending.delete(id);
    else this.#pending.set(id, pending);
    for (const wake of this.#wakes.splice(0)) wake();
  }

  /** Ends the iteration after the changes so far. If `error` is defined, the iteration then throws this error. */
  end(error?: EtcdError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#consumers.delete(this);
    this.#offAbort?.();
    for (const wake of this.#wakes.splice(0)) wake();
  }

  async next(): Promise<IteratorResult<RangeChange, undefined>> {
    for (;;) {
      for (const [id, pending] of this.#pending) {
        this.#pending.delete(id);
        return { done: false, value: changeOf(pending) };
      }
      if (this.#ended) break;
      await new Promise<void>((resolve) => void this.#wakes.push(resolve));
    }
    const error = this.#error;
    this.#error = undefined;
    if (error !== undefined) throw error;
    return { done: true, value: undefined };
  }

  async return(): Promise<IteratorResult<RangeChange, undefined>> {
    this.#pending.clear();
    this.end();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

function changeOf({ old, kv }: Pending): RangeChange {
  if (kv !== undefined) return Object.assign(new Keyed(kv.keyBytes), { type: 'put', kv, old } as const);
  const last = old as KeyValue;
  return Object.assign(new Keyed(last.keyBytes), { type: 'delete', kv, old: last } as const);
}

/**
 * Whether `a` and `b` are the same state of a key. Compares values too, because a restored cluster may use a revision
 * again.
 */
export function isSameState(a: KeyValue | undefined, b: KeyValue | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.modRevision === b.modRevision && a.lease === b.lease && compareBytes(a.value, b.value) === 0;
}
