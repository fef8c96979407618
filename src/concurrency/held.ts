import { type CallOptions, checkCallOptions, checkTimeout } from '../channel/rpc.js';
import { EtcdError, timedOut } from '../errors/etcd-error.js';
import { compare } from '../kv/compare.js';
import { type Op, op, type Txn, type TxnResult } from '../kv/op.js';
import type { WithHeader } from '../kv/results.js';
import { checkOptions } from '../runtime/arguments.js';
import { CheckedSignal, checkedSignalOf } from '../runtime/checked-signal.js';
import { onAbort } from '../runtime/signals.js';
import { settledWithin } from '../runtime/timers.js';
import { entryGone, leaveQueue, type QueueEntry, watchEntry } from './queue-entry.js';
import type { Session } from './session.js';

const UNLOCK_TIMEOUT_MS = 10_000;

/** How long a release may take before its caller goes on. */
export interface UnlockOptions {
  /** Milliseconds. Default 10,000. */
  readonly timeoutMs?: number | undefined;
}

export const UNLOCK_OPTIONS = { timeoutMs: true } as const;

/**
 * A lock that is held. `signal` aborts when it is not any more: released, or the session lost, before the server can
 * give it to another; or its key deleted by somebody, as soon as that is seen.
 */
export class Held implements AsyncDisposable {
  /** The lock's name. */
  readonly name: string;
  /** The key that stands for the holder. */
  readonly key: string;
  /** Fencing token: the create revision of the key. Every later holder has a greater one. */
  readonly token: bigint;
  /** @internal */
  protected readonly session: Session;
  readonly #over: CheckedSignal;
  readonly #leave: () => void;
  readonly #stopWatching: () => void;
  readonly #offSessionLost: () => void;
  /** Never rejects. */
  #releasing: Promise<void> | undefined;

  /**
   * @internal The constructor's arguments.
   * @throws EtcdError with the reason, where the session was lost on the way: then the key goes with the lease.
   */
  static begin<T extends Held>(
    this: new (
      session: Session,
      name: string,
      entry: QueueEntry,
      leave: () => void,
    ) => T,
    ...given: [Session, string, QueueEntry, () => void]
  ): T {
    const held = new this(...given);
    held.signal.throwIfAborted();
    return held;
  }

  /** @internal `leave` lets the next locker of the same session go ahead. */
  constructor(session: Session, name: string, entry: QueueEntry, leave: () => void) {
    this.name = name;
    this.key = entry.key;
    this.token = entry.revision;
    this.session = session;
    this.#leave = leave;
    this.#over = new CheckedSignal(() => (session.signal.aborted ? session.signal.reason : undefined));
    this.#offSessionLost = onAbort(session.signal, () => this.#lose(session.signal.reason));
    this.#stopWatching = watchEntry(session.client, entry, (error) => this.#lose(error));
    if (this.#over.aborted) this.#lose(session.signal.reason);
  }

  /** Aborts when the lock is not held any more, with an `EtcdError`; `aborted` compares clocks when read. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /**
   * A signal that aborts when the lock is not held any more or one of `others` aborts. Its `aborted` compares clocks when
   * read, as `signal.aborted` does. `AbortSignal.any` does not: after a blocked event loop it is not aborted yet,
   * although the lock may be another's already.
   *
   * @example
   * await work({ signal: held.signalWith(stop.signal) });
   */
  signalWith(...others: readonly AbortSignal[]): AbortSignal {
    return checkedSignalOf(this.signal, others);
  }

  /** Whether the lock is certain to be held now. Compares clocks. */
  valid(): boolean {
    return !this.#over.aborted;
  }

  /**
   * A transaction that does nothing unless the lock is still held: the comparison with the token is part of it, so a
   * holder that was paused for too long cannot write.
   *
   * @throws EtcdError, reason `LockLost`, or `LockReleased` after `unlock`, where the lock is not held; nothing was done
   * then.
   */
  async txn<const Then extends readonly Op[] = [], const Else extends readonly Op[] = []>(
    txn: Txn<Then, Else>,
    options: CallOptions = {},
  ): Promise<WithHeader<TxnResult<Then, Else>>> {
    checkCallOptions(options, 'Held.txn');
    if (!this.valid()) throw notHeld(this.signal.reason);
    const held = compare.createRevision(this.key, '==', this.token);
    const result = await this.session.client.txn({ if: [held], then: [op.txn(txn)] }, options);
    if (!result.succeeded) {
      this.#lose(entryGone());
      throw notHeld(this.signal.reason);
    }
    return { header: result.header, ...result.responses[0] } as WithHeader<TxnResult<Then, Else>>;
  }

  /**
   * Releases the lock. `signal` aborts first. Where no server answers within `timeoutMs` (default 10,000) this rejects,
   * and the release goes on in the background until the session ends. Releasing twice, or what was lost, does nothing.
   */
  async unlock(options: UnlockOptions = {}): Promise<void> {
    checkOptions(options, UNLOCK_OPTIONS, 'unlock');
    const { timeoutMs = UNLOCK_TIMEOUT_MS } = options;
    checkTimeout(timeoutMs, 'timeoutMs');
    this.#lose(
      new EtcdError('the lock was released', { code: 'Aborted', reason: 'LockReleased', outcome: 'rejected' }),
    );
    const released = await settledWithin(timeoutMs, this.#releasing as Promise<void>);
    if (!released) throw timedOut('unlock', timeoutMs, 'unknown');
  }

  /** As `unlock`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.unlock();
  }

  /** However the lock is lost, the key is deleted if it is there, and only then comes the session's next locker. */
  #lose(reason: EtcdError): void {
    if (this.#releasing !== undefined) return;
    this.#offSessionLost();
    this.#stopWatching();
    this.#over.abort(reason);
    this.#releasing = this.#release();
  }

  async #release(): Promise<void> {
    try {
      await leaveQueue(this.session.client, this.key, this.token, this.session.signal);
    } catch {
      // Only the end of the session or of the client stops it, and with the lease the key goes too.
    } finally {
      this.#leave();
    }
  }
}

function notHeld(cause: unknown): EtcdError {
  const isReleased = cause instanceof EtcdError && cause.reason === 'LockReleased';
  return new EtcdError('the lock is not held any more; nothing was written', {
    code: 'Aborted',
    reason: isReleased ? 'LockReleased' : 'LockLost',
    outcome: 'rejected',
    cause,
  });
}
