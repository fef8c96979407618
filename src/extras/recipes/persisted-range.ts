import {
  backoffMs,
  checkInt64,
  checkOptions,
  EtcdError,
  environment,
  type Int64Like,
  onAbort,
  pause,
  settledWithin,
  timedOut,
} from '../../base/index.js';
import { type KeyspaceClient, keysOf, type WireRange } from '../../client/index.js';
import { untilAnswered, type Waiting } from '../../locks/index.js';
import { type CallOptions, TIME_LIMITS, withSharedLimit } from '../../rpc/index.js';
import {
  CachedKeyRange,
  type CachedRangeState,
  encodeCopy,
  type MirrorMessage,
  type MirrorOptions,
  type RangeCopy,
  RangeFold,
  RangeMirror,
  RevisionWaits,
} from '../ranges/index.js';
import { lossOf } from './copy-loss.js';

/**
 * How long the range waits for a save, in milliseconds. After this time, the save counts as failed, and the range shows
 * the new keys.
 */
const SAVE_LIMIT_MS = 5_000;

/**
 * Keeps the copy of one persisted range, for example in a file, in IndexedDB or in a key-value store of a worker.
 * `fileStore` of `etcdwire/node` returns such a store. The bytes of the copy contain all keys and values of the range.
 *
 * @example
 * let kept: Uint8Array | undefined;
 * const store: CopyStore = {
 *   load: async () => kept,
 *   save: async (bytes) => {
 *     kept = bytes;
 *   },
 * };
 * await using config = await persisted(etcd, prefix('config/'), store);
 */
export interface CopyStore {
  /** Resolves with the bytes of the last save that was complete, or with undefined if there was none. */
  readonly load: () => Promise<Uint8Array | undefined>;
  /**
   * Replaces the bytes. Resolves when the new bytes are stored durably. If the process ends earlier, `load` must return
   * either the old or the new bytes. A persisted range calls `save` only after the previous call has ended.
   */
  readonly save: (bytes: Uint8Array) => Promise<void>;
}

/**
 * Whether a persisted range is up to date. Besides the states of a cached range, there is `stored`: The range shows the
 * copy from the store, because no server has answered yet. `savedAt` is when the copy was saved, on the wall clock of
 * the machine that saved it.
 */
export type PersistedRangeState = CachedRangeState | StoredState;

/** The state of a persisted range that shows the copy of its store. */
export interface StoredState {
  readonly status: 'stored';
  readonly savedAt: Date;
}

/**
 * A notice that a persisted range gives to the program.
 *
 * - `copy-ignored`: The store could not load the copy, or the copy is damaged. The range starts without a copy.
 * - `save-failed`: A save has failed, or has taken more than 5 s. The range shows new keys although they are not saved,
 *   and saves them as soon as possible. Reported once, until a save succeeds.
 * - `store-changed`: The cluster was restored from a backup, or another cluster answers. The range reads all keys
 *   again. Its revision may then be lower than before.
 */
export interface PersistedRangeNotice {
  readonly type: 'copy-ignored' | 'save-failed' | 'store-changed';
  /** What the store has thrown, or an `EtcdError`. */
  readonly cause: unknown;
}

/** Calls wait in `#waits` for this number, which is not a revision, until a server has confirmed the copy. */
const CERTAIN = 1n;

/** Reports a notice to the program. Never throws. */
export type Notify = (notice: PersistedRangeNotice) => void;

/**
 * A cached range that saves each state before it shows the state. All changes of the keys and of the revision arrive as
 * messages in `apply`. The messages wait in `#pending` while a save is in progress. The next save then contains all of
 * their changes.
 */
export class PersistedKeyRange extends CachedKeyRange<StoredState> {
  /** @internal The class name that `console.log` shows. */
  static override readonly name = 'PersistedRange';
  readonly #store: CopyStore;
  readonly #notify: Notify;
  /** Aborts when the range ends. */
  readonly #ended: AbortSignal;
  /** The keys after all messages that have left `#pending`. The range saves these keys before it shows them. */
  readonly #ahead: Ahead;
  #pending: MirrorMessage[] = [];
  /** Whether there are messages that the range does not show yet. */
  #hasUnshown = false;
  #isRunning = false;
  /** Wakes `#run` from its pause after a save has failed. */
  #wake = (): void => {};
  /** Settles when the save in progress has ended, or takes too long. */
  #saving: Promise<unknown> | undefined;
  /** Whether a save has taken too long and has not ended yet. */
  #isStuck = false;
  /** Whether the latest save has failed, or has taken too long. */
  #isFailing = false;
  /** Whether the copy in the store has all changes of `#ahead`. */
  #isSaved = true;
  #savedRevision: bigint;
  /** Counts how many times the cluster was restored or replaced. */
  #changes = 0;
  /** When the copy that the range shows was saved. Undefined if a server has answered, or if there was no copy. */
  #storedAt: Date | undefined;
  /**
   * Whether the range certainly shows the current history of etcd's store. False until a server has confirmed the copy.
   * Also false after the cluster was restored or replaced, until the range shows the new keys.
   */
  #isCertain: boolean;
  /** The calls that wait until `#isCertain` is true. */
  readonly #waits = new RevisionWaits(this.trace);
  #isChangeReported = false;

  constructor(
    keyspace: KeyspaceClient,
    range: WireRange,
    store: CopyStore,
    notify: Notify,
    copy: RangeCopy | undefined,
  ) {
    let ended: AbortSignal | undefined;
    const confirmed = (): void => {
      this.#storedAt = undefined;
      this.#certain();
    };
    super(keysOf(range), keyspace, (keys, options) => {
      ended = options.signal as AbortSignal;
      if (copy === undefined) return new RangeMirror(keyspace, keyspace.watches, keys, options);
      return continued(keyspace, copy, options, confirmed);
    });
    const signal = ended as unknown as AbortSignal;
    this.#ended = signal;
    onAbort(signal, () => this.#waits.fail(signal.reason));
    this.#store = store;
    this.#notify = notify;
    this.#ahead = new Ahead(keyspace.core.prefix, range);
    this.#savedRevision = copy?.revision ?? 0n;
    this.#isCertain = copy === undefined;
    if (copy === undefined) return;
    const { revision, clusterId, kvs, savedAtMs } = copy;
    this.#storedAt = new Date(savedAtMs);
    for (const message of [
      { type: 'keys', revision, kvs },
      { type: 'synced', revision, clusterId },
    ] as const) {
      this.#ahead.take(message);
      super.apply(message);
    }
  }

  get savedRevision(): bigint {
    return this.#savedRevision;
  }

  override get state(): CachedRangeState | StoredState {
    const state = super.state;
    return this.#storedAt === undefined ? state : { status: 'stored', savedAt: this.#storedAt };
  }

  /** Does the same as `CachedRange.waitForRevision`, but first waits until a server has confirmed the copy. */
  override async waitForRevision(
    revision: Int64Like,
    options: Pick<CallOptions, 'signal' | 'timeoutMs'> = {},
  ): Promise<void> {
    checkOptions(options, TIME_LIMITS, 'waitForRevision');
    checkInt64(revision, 'revision');
    const { signal } = options;
    const limits = withSharedLimit(options);
    while (!this.#isCertain && !this.#ended.aborted && !signal?.aborted) await this.#waits.add(CERTAIN, limits);
    await super.waitForRevision(revision, limits);
  }

  /** Ends the range, and waits until the save in progress has ended, but not longer than `SAVE_LIMIT_MS`. */
  override async close(): Promise<void> {
    await super.close();
    await this.#saving;
  }

  protected override apply(message: MirrorMessage): void {
    if (message.type === 'resync') this.#resync(message.cause);
    // `CachedKeyRange` sends itself a message without events if a read shows that no key has changed since its
    // revision. The read proves nothing while the range may show another history, or does not yet show changes that it
    // has received.
    else if (message.type === 'events' && message.events.length === 0 && (!this.#isCertain || this.#hasUnshown)) return;
    this.#hasUnshown = true;
    this.#pending.push(message);
    this.#wake();
    if (!this.#isRunning) void this.#run();
  }

  #certain(): void {
    this.#isCertain = true;
    this.#isChangeReported = false;
    this.#waits.reached(CERTAIN);
  }

  #resync(cause: EtcdError): void {
    this.#storedAt = undefined;
    if (cause.reason !== 'ClusterChanged') return;
    // These messages belong to the former history.
    this.#pending = [];
    this.#isCertain = false;
    // The copy belongs to the former history.
    this.#savedRevision = 0n;
    this.#changes += 1;
    if (this.#isChangeReported) return;
    this.#isChangeReported = true;
    this.#notify({ type: 'store-changed', cause });
  }

  /** Saves and shows the pending messages, and saves again after a save has failed. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    for (let failures = 0; !this.#ended.aborted; ) {
      const [messages, changes] = [this.#pending, this.#changes];
      this.#pending = [];
      for (const message of messages) if (this.#ahead.take(message)) this.#isSaved = false;
      if (!this.#isSaved) {
        this.#saving = this.#save();
        await this.#saving;
      }
      // If the cluster was restored during the save, the messages belong to the former history.
      if (changes === this.#changes) for (const message of messages) super.apply(message);
      this.#hasUnshown = this.#pending.length > 0;
      const isReplaced = this.#pending.some(({ type }) => type === 'resync');
      const last = messages.filter(({ type }) => type === 'synced' || type === 'resync').at(-1);
      if (!isReplaced && last?.type === 'synced') this.#certain();
      if (this.#pending.length > 0) continue;
      if (this.#isSaved) break;
      const woken = new AbortController();
      this.#wake = () => woken.abort();
      await pause(this.#isStuck ? Number.POSITIVE_INFINITY : backoffMs(failures), this.#ended, woken.signal);
      failures += 1;
    }
    this.#isRunning = false;
  }

  /** Saves the keys, unless an earlier save is stuck. Never rejects. */
  async #save(): Promise<void> {
    if (this.#isStuck) return;
    const { revision } = this.#ahead;
    const saving = this.#saveAt(revision);
    if (await settledWithin(SAVE_LIMIT_MS, saving)) return;
    this.#isStuck = true;
    this.#failed(timedOut('store.save', SAVE_LIMIT_MS, 'unknown'));
    void saving.then(() => {
      this.#isStuck = false;
      this.#wake();
    });
  }

  async #saveAt(revision: bigint): Promise<void> {
    const { version } = this.#ahead;
    const changes = this.#changes;
    try {
      await this.#store.save(this.#ahead.encoded());
      if (changes === this.#changes) this.#savedRevision = revision;
      this.#isSaved = version === this.#ahead.version;
      this.#isFailing = false;
    } catch (error) {
      this.#failed(error);
    }
  }

  #failed(cause: unknown): void {
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.#notify({ type: 'save-failed', cause });
  }
}

/** The keys of a range and their revision after the messages that `take` has applied. */
class Ahead extends RangeFold {
  readonly #namespace: Uint8Array;
  readonly #range: WireRange;
  #clusterId = 0n;
  /** Counts the changes of the keys and the revision. */
  version = 0;

  constructor(namespace: Uint8Array, range: WireRange) {
    super();
    this.#namespace = namespace;
    this.#range = range;
  }

  override take(message: MirrorMessage): boolean {
    if (!super.take(message)) return false;
    if ('clusterId' in message) this.#clusterId = message.clusterId;
    this.version += 1;
    return true;
  }

  encoded(): Uint8Array {
    return encodeCopy({
      namespace: this.#namespace,
      range: this.#range,
      clusterId: this.#clusterId,
      revision: this.revision,
      savedAtMs: environment.Date.now(),
      kvs: this.all(),
    });
  }
}

/**
 * Continues a copy: compares the copy with the keys in etcd, and then yields the later changes. The comparison is
 * necessary, because a cluster that was restored from a backup may have the same ID, and may have passed the revision
 * of the copy again. Calls `confirmed` if etcd had the keys of the copy at the revision of the copy.
 */
async function* continued(
  keyspace: KeyspaceClient,
  copy: RangeCopy,
  options: Pick<MirrorOptions, 'signal'>,
  confirmed: () => void,
): AsyncGenerator<MirrorMessage, void> {
  const keys = keysOf(copy.range);
  const { clusterId } = copy;
  let fromRevision = copy.revision;
  const cause = await untilAnswered(options as Waiting, (call) => lossOf(keyspace, keys, copy, call));
  if (cause === undefined) confirmed();
  else {
    fromRevision = 0n;
    yield { type: 'resync', cause };
  }
  for (let failures = 0; ; failures += 1) {
    try {
      return yield* new RangeMirror(keyspace, keyspace.watches, keys, { ...options, fromRevision, clusterId });
    } catch (error) {
      // One of the endpoints belongs to another cluster than the one that has answered first.
      if (!(error instanceof EtcdError && error.reason === 'ClusterChanged')) throw error;
      await pause(backoffMs(failures), options.signal);
    }
  }
}
