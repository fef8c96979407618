import {
  type ActionLast,
  actionLast,
  type BytesLike,
  backoffMs,
  checkBoolean,
  checkOptions,
  checkPositiveCount,
  compareBytes,
  EtcdError,
  idOf,
  oneOf,
  pause,
  toBytes,
} from '../../base/index.js';
import {
  type Compare,
  type CoreKeyspace,
  checkClient,
  checkKey,
  compare,
  contains,
  type GetOp,
  type Keys,
  KeyValue,
  leaseIdOrNone,
  op,
  ownKeys,
  PUT_HINTS,
  type PutOptions,
  type RangeResult,
  resolveKeys,
} from '../../client/index.js';
import { WAIT_OPTIONS, type Waiting, type WaitOptions, waitLimit } from '../../locks/index.js';
import { txnConflict } from '../keys/index.js';

const DEFAULT_MAX_ATTEMPTS = 100;
/**
 * Number of conflicts after which the backoff stops growing. The limit is low, because the commit that caused a
 * conflict takes only milliseconds.
 */
const MAX_BACKOFF_ATTEMPT = 3;

interface Guarantees {
  /** All reads see the same store revision. */
  readonly snapshot: boolean;
  /** No key that the transaction has read has changed when the transaction takes effect. */
  readonly readsUnchanged: boolean;
  /** No key that the transaction writes has changed since the transaction's first read. */
  readonly writesUnchanged: boolean;
}

const ISOLATIONS = {
  serializableSnapshot: { snapshot: true, readsUnchanged: true, writesUnchanged: true },
  serializable: { snapshot: true, readsUnchanged: true, writesUnchanged: false },
  repeatableReads: { snapshot: false, readsUnchanged: true, writesUnchanged: false },
  readCommitted: { snapshot: false, readsUnchanged: false, writesUnchanged: false },
} as const satisfies Record<string, Guarantees>;

/**
 * The guarantees of a transaction against concurrent changes. The levels are those of Go's `concurrency` package.
 *
 * - `serializableSnapshot`: all reads see the same store revision, and no key that was read or written has changed
 *   since that revision when the transaction commits. A transaction without writes does not check this.
 * - `serializable`: the same, except that a key that was written but not read may have changed.
 * - `repeatableReads`: no key that was read has changed, but the reads may see different revisions. The transaction may
 *   therefore see a state that never existed, but its writes then do not take effect.
 * - `readCommitted`: each read sees the latest revision, and the commit does not check whether keys have changed. If
 *   two transactions change the same key, the last commit wins.
 */
export type Isolation = keyof typeof ISOLATIONS;

/** Options of `stm`. */
export interface StmOptions extends WaitOptions {
  /** Isolation level. Default `serializableSnapshot`. */
  readonly isolation?: Isolation | undefined;
  /**
   * Maximum number of times that the transaction runs. The transaction runs again after each conflict with another
   * client. Default 100.
   */
  readonly maxAttempts?: number | undefined;
  /**
   * Whether the client repeats the commit until a server answers, see `WriteOptions`. Default: the client's
   * `retryWrites`.
   */
  readonly retryWrites?: boolean | undefined;
}

const STM_OPTIONS = {
  isolation: oneOf(ISOLATIONS),
  maxAttempts: checkPositiveCount,
  retryWrites: checkBoolean,
  ...WAIT_OPTIONS,
} as const;

/**
 * Runs `apply` as a transaction (software transactional memory). `apply` reads and writes keys through `tx`. The writes
 * take effect together, if no other client has changed the keys in a way that the isolation level forbids. Otherwise
 * `apply` runs again, so it must have no other side effects. Returns what `apply` returns. If `apply` throws, `stm`
 * throws the same error and writes nothing.
 *
 * @throws EtcdError with reason `TxnConflict` after `maxAttempts` conflicts; see also `WaitOptions`. Without
 * `retryWrites`, `stm` does not repeat a commit whose outcome is unknown: it rejects with an error whose `outcome` is
 * `unknown`. If a proxy repeats such a commit, `apply` may take effect twice.
 * @example
 * await stm(etcd, async (tx) => {
 *   const count = Number((await tx.text('counter')) ?? 0);
 *   tx.put('counter', String(count + 1));
 * });
 */
export async function stm<T>(
  client: CoreKeyspace,
  ...last: ActionLast<StmOptions, (tx: StmTransaction) => Promise<T> | T>
): Promise<T> {
  const [options, apply] = actionLast(last, 'apply');
  checkClient(client);
  checkOptions(options, STM_OPTIONS, 'stm');
  const {
    isolation: level = 'serializableSnapshot',
    maxAttempts = DEFAULT_MAX_ATTEMPTS,
    retryWrites,
    ...wait
  } = options;
  const isolation = ISOLATIONS[level];
  const limit = waitLimit('stm', wait);
  let tx = new StmTransaction(client, isolation, limit.waiting);
  try {
    for (let attempt = 1; ; attempt += 1) {
      limit.signal.throwIfAborted();
      // The transaction for the next run, with the values that a failed commit has read.
      let next: StmTransaction | undefined;
      try {
        const result = await apply(tx);
        next = await tx.commit(retryWrites);
        if (next === undefined) return result;
      } catch (error) {
        // If the revision of the snapshot was compacted during the run, the transaction runs again with a new snapshot.
        if (!(error instanceof EtcdError && error.reason === 'Compacted')) throw error;
      }
      if (attempt === maxAttempts)
        throw txnConflict('keys of the transaction during each of its attempts', maxAttempts);
      await pause(backoffMs(Math.min(attempt - 1, MAX_BACKOFF_ATTEMPT)), limit.signal);
      tx = next ?? new StmTransaction(client, isolation, limit.waiting);
    }
  } catch (error) {
    if (!limit.signal.aborted || !(error instanceof EtcdError)) throw error;
    // Only the commit writes, so the outcome matters only if the commit was in progress when the wait ended.
    const { outcome } = error;
    if (tx.isCommitting && (outcome === 'unknown' || outcome === 'applied')) limit.setOutcome(outcome);
    throw limit.endedBy(error);
  } finally {
    limit.dispose();
  }
}

interface Read {
  readonly key: Uint8Array;
  readonly kv: KeyValue | undefined;
}

interface Write {
  readonly key: Uint8Array;
  /** Undefined for a deletion. */
  readonly value: Uint8Array | undefined;
  readonly options: Pick<PutOptions, 'lease'>;
}

const PUT_OPTIONS = { lease: leaseIdOrNone } as const;

interface RangeRead {
  readonly keys: Keys;
  readonly kvs: readonly KeyValue[];
  /** The store revision of the read. */
  readonly revision: bigint;
}

/**
 * One run of a transaction. It collects the writes until the commit at the end of the run.
 *
 * @example
 * async function move(tx: StmTransaction, from: string, to: string): Promise<void> {
 *   const job = await tx.get(from);
 *   if (job === undefined) return;
 *   tx.put(to, job.value);
 *   tx.delete(from);
 * }
 * await stm(etcd, (tx) => move(tx, 'jobs/waiting/1', 'jobs/running/1'));
 */
export class StmTransaction {
  readonly #client: CoreKeyspace;
  readonly #isolation: Guarantees;
  readonly #waiting: Waiting;
  readonly #reads = new Map<string, Read>();
  readonly #ranges = new Map<string, RangeRead>();
  readonly #writes = new Map<string, Write>();
  /** The keys that the failed commit of the previous run has read, all at one store revision. */
  readonly #prefetched: ReadonlyMap<string, Read>;
  #isCommitting = false;
  /**
   * The store revision that all reads of this run see: that of the failed commit before this run, or that of the first
   * read. Undefined before the first read, and if the isolation level does not need it.
   */
  #revision: Promise<bigint> | undefined;

  /** @internal */
  constructor(
    client: CoreKeyspace,
    isolation: Guarantees,
    waiting: Waiting,
    prefetched: { readonly revision: bigint; readonly reads: ReadonlyMap<string, Read> } | undefined = undefined,
  ) {
    this.#client = client;
    this.#isolation = isolation;
    this.#waiting = waiting;
    this.#prefetched = prefetched?.reads ?? new Map();
    if (prefetched !== undefined) this.#revision = Promise.resolve(prefetched.revision);
  }

  /**
   * Returns the key, or undefined if it does not exist. Sees the writes of this transaction: a key that it has put has
   * the new value and lease, and revisions of 0n.
   */
  async get(key: BytesLike): Promise<KeyValue | undefined> {
    const bytes = checkKey(key, 'key');
    const written = this.#writes.get(idOf(bytes));
    return written === undefined ? (await this.#read(bytes)).kv : asWritten(written);
  }

  /**
   * Returns the keys of a range, in ascending order. Sees the writes of this transaction, like `get`. Under all
   * isolation levels except `readCommitted`, a transaction that writes runs again if another client puts or deletes a
   * key of the range before the commit, even a key that did not exist before. The commit then has a condition for each
   * key that was read, so the option `maxTxnOps` of the client limits the number of keys.
   *
   * @example
   * const total = await stm(etcd, async (tx) => {
   *   const { kvs } = await tx.range(prefix('stock/'));
   *   return kvs.reduce((sum, kv) => sum + Number(kv.text()), 0);
   * });
   */
  async range(keys: Keys): Promise<Pick<RangeResult, 'kvs' | 'count'>> {
    const own = ownKeys(keys);
    const range = resolveKeys(own, 'keys');
    const id = `${idOf(range.key)} ${idOf(range.rangeEnd)}`;
    const { kvs } = await this.#once(this.#ranges, id, () => this.#fetch(own));
    const writes = [...this.#writes.values()].filter(({ key }) => contains(range, key));
    const unwritten = kvs.filter((kv) => !this.#writes.has(idOf(kv.keyBytes)));
    const merged = [...unwritten, ...writes.map(asWritten).filter((kv) => kv !== undefined)];
    const sorted = merged.sort((a, b) => compareBytes(a.keyBytes, b.keyBytes));
    return { kvs: sorted, count: sorted.length };
  }

  /** Returns the value as UTF-8 text, or undefined if the key does not exist. */
  async text(key: BytesLike): Promise<string | undefined> {
    return (await this.get(key))?.text();
  }

  /** Returns the key's mod revision before this transaction, or 0n if the key does not exist. */
  async revision(key: BytesLike): Promise<bigint> {
    return modRevisionOf((await this.#read(checkKey(key, 'key'))).kv);
  }

  /** Puts a key when the transaction commits. */
  put(key: BytesLike, value: BytesLike, options: Pick<PutOptions, 'lease'> = {}): void {
    checkOptions(options, PUT_OPTIONS, 'StmTransaction.put', PUT_HINTS);
    const bytes = checkKey(key, 'key');
    this.#writes.set(idOf(bytes), { key: bytes, value: toBytes(value, 'value'), options });
  }

  /** Deletes a key when the transaction commits. */
  delete(key: BytesLike): void {
    const bytes = checkKey(key, 'key');
    this.#writes.set(idOf(bytes), { key: bytes, value: undefined, options: {} });
  }

  /** @internal Whether the client may have sent the writes. */
  get isCommitting(): boolean {
    return this.#isCommitting;
  }

  /** @internal Commits. Returns undefined if the transaction took effect, or else the transaction for the next run. */
  async commit(retryWrites?: boolean): Promise<StmTransaction | undefined> {
    const { snapshot, readsUnchanged } = this.#isolation;
    // A run that only reads needs no commit if all its reads see the same revision, or if its isolation level does not
    // require that the keys read are unchanged.
    if (this.#writes.size === 0 && (snapshot || !readsUnchanged)) return undefined;
    const reads = [...this.#reads.values()];
    this.#isCommitting = true;
    const result = await this.#client.txn(
      {
        if: await this.#conditions(reads),
        then: [...this.#writes.values()].map(({ key, value, options }) =>
          value === undefined ? op.delete(key) : op.put(key, value, options),
        ),
        else: reads.map(({ key }): GetOp => op.get(key)),
      },
      { ...this.#waiting, retryWrites },
    );
    if (result.succeeded) return undefined;
    // The next run reads its ranges again, so all its reads need a new snapshot.
    if (this.#ranges.size > 0) return new StmTransaction(this.#client, this.#isolation, this.#waiting);
    const current = result.responses as readonly (KeyValue | undefined)[];
    const prefetched = new Map(reads.map(({ key }, index): [string, Read] => [idOf(key), { key, kv: current[index] }]));
    return new StmTransaction(this.#client, this.#isolation, this.#waiting, {
      revision: result.header.revision,
      reads: prefetched,
    });
  }

  async #conditions(reads: readonly Read[]): Promise<Compare[]> {
    const { readsUnchanged, writesUnchanged } = this.#isolation;
    const conditions: Compare[] = [];
    if (readsUnchanged) {
      // A key may be read on its own and in ranges. If the reads saw different revisions, the commit must fail.
      const unchanged = new Map<string, Compare>();
      const expect = (key: Uint8Array, modRevision: bigint): unknown =>
        unchanged.set(`${idOf(key)} ${modRevision}`, compare.modRevision(key, '==', modRevision));
      for (const { key, kv } of reads) expect(key, modRevisionOf(kv));
      for (const { keys, kvs, revision } of this.#ranges.values()) {
        // Checks that no key of the range was put since the read, and that no key that was read was deleted.
        conditions.push(compare.modRevision(keys, '<', revision + 1n));
        for (const kv of kvs) expect(kv.keyBytes, kv.modRevision);
      }
      conditions.push(...unchanged.values());
    }
    const since = writesUnchanged ? await this.#revision : undefined;
    if (since !== undefined) {
      for (const { key } of this.#writes.values()) {
        if (!this.#reads.has(idOf(key))) conditions.push(compare.modRevision(key, '<', since + 1n));
      }
    }
    return conditions;
  }

  #read(key: Uint8Array): Promise<Read> {
    const id = idOf(key);
    const prefetched = this.#prefetched.get(id);
    return this.#once(this.#reads, id, async () => prefetched ?? { key, kv: (await this.#fetch(key)).kvs[0] });
  }

  /** Returns the first result of this read, if the isolation level requires that all reads of a key return the same. */
  async #once<Result>(results: Map<string, Result>, id: string, read: () => Promise<Result>): Promise<Result> {
    const known = (): Result | undefined => (this.#isolation.readsUnchanged ? results.get(id) : undefined);
    const before = known();
    if (before !== undefined) return before;
    const result = await read();
    // If `apply` reads a key twice at the same time, both reads return the result that arrives first.
    const first = known() ?? result;
    results.set(id, first);
    return first;
  }

  /** Reads the keys at the revision of the first read if all reads must see the same revision. */
  async #fetch(keys: Keys): Promise<RangeRead> {
    const snapshot = this.#isolation.snapshot ? this.#revision : undefined;
    // The first read sets `#revision` before its first `await`, so that reads that start at the same time find it set.
    let revision: bigint | undefined;
    if (snapshot !== undefined) {
      revision = await snapshot.catch(() => undefined);
      // The first read was refused, so this read becomes the first one.
      if (revision === undefined) return this.#fetch(keys);
    }
    const reading = this.#client.range(keys, { ...this.#waiting, revision });
    if (snapshot === undefined && this.#isolation.snapshot) {
      const first = reading.then(({ header }) => header.revision);
      this.#revision = first;
      first.catch(() => {
        // Another read is the first one then.
        if (this.#revision === first) this.#revision = undefined;
      });
    }
    const { header, kvs } = await reading;
    return { keys, kvs, revision: revision ?? header.revision };
  }
}

function modRevisionOf(kv: KeyValue | undefined): bigint {
  return kv?.modRevision ?? 0n;
}

/** Returns undefined if the transaction has deleted the key. */
function asWritten({ key, value, options }: Write): KeyValue | undefined {
  if (value === undefined) return undefined;
  const lease = options.lease === undefined ? 0n : leaseIdOrNone(options.lease, 'lease');
  return new KeyValue({ key, value, lease, createRevision: 0n, modRevision: 0n, version: 0n });
}
