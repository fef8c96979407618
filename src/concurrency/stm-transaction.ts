import type { Keyspace } from '../keyspace.js';
import { type Compare, compare } from '../kv/compare.js';
import { checkKey } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { type GetOp, type Op, op } from '../kv/op.js';
import { PUT_HINTS, type PutOptions } from '../kv/requests.js';
import { checkOptions } from '../runtime/arguments.js';
import { type BytesLike, idOf, textOf, toBytes } from '../runtime/bytes.js';

/** What a level promises. */
interface Promises {
  /** All reads are of one revision. */
  readonly snapshot: boolean;
  /** No key that was read has changed when the transaction takes effect. */
  readonly readsStand: boolean;
  /** No key that is written has changed since the first read. */
  readonly writesStand: boolean;
}

export const ISOLATIONS = {
  serializableSnapshot: { snapshot: true, readsStand: true, writesStand: true },
  serializable: { snapshot: true, readsStand: true, writesStand: false },
  repeatableReads: { snapshot: false, readsStand: true, writesStand: false },
  readCommitted: { snapshot: false, readsStand: false, writesStand: false },
} as const satisfies Record<string, Promises>;

/**
 * - `serializableSnapshot`: all reads are of one revision, and no key read or written has changed since;
 * - `serializable`: the same, but keys that were written without being read may have changed;
 * - `repeatableReads`: no key read has changed, but different keys may have been read at different revisions, so that a
 *   run may see what never was at one time, and then takes no effect;
 * - `readCommitted`: every read is of its moment, and nothing is checked: of two that change one key the last one wins.
 */
export type Isolation = keyof typeof ISOLATIONS;

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

const PUT_OPTIONS = { lease: true } as const;

/** One run of a transaction: its reads, and its writes, which wait for the end. */
export class StmTransaction {
  readonly #client: Keyspace;
  readonly #isolation: Promises;
  readonly #signal: AbortSignal;
  readonly #reads = new Map<string, Read>();
  readonly #writes = new Map<string, Write>();
  /** What a conflict brought along, all of one revision. */
  readonly #prefetched: ReadonlyMap<string, Read>;
  #committing = false;
  /** Revision of the first read. */
  #revision: Promise<bigint> | undefined;

  /** @internal */
  constructor(
    client: Keyspace,
    isolation: Promises,
    signal: AbortSignal,
    prefetched: { readonly revision: bigint; readonly reads: ReadonlyMap<string, Read> } | undefined = undefined,
  ) {
    this.#client = client;
    this.#isolation = isolation;
    this.#signal = signal;
    this.#prefetched = prefetched?.reads ?? new Map();
    if (prefetched !== undefined) this.#revision = Promise.resolve(prefetched.revision);
  }

  /** The value; undefined where there is no such key. What this transaction wrote itself counts. */
  async get(key: BytesLike): Promise<Uint8Array | undefined> {
    const bytes = checkKey(key, 'key');
    const written = this.#writes.get(idOf(bytes));
    if (written !== undefined) return written.value;
    return (await this.#read(bytes)).kv?.value;
  }

  /** The value as UTF-8 text. */
  async text(key: BytesLike): Promise<string | undefined> {
    const value = await this.get(key);
    return value && textOf(value);
  }

  /** Revision of the key's last change, before this transaction; 0n where there is no such key. */
  async revision(key: BytesLike): Promise<bigint> {
    return (await this.#read(checkKey(key, 'key'))).kv?.modRevision ?? 0n;
  }

  /** Puts a key, when the transaction is committed. */
  put(key: BytesLike, value: BytesLike, options: Pick<PutOptions, 'lease'> = {}): void {
    checkOptions(options, PUT_OPTIONS, 'StmTransaction.put', PUT_HINTS);
    const bytes = checkKey(key, 'key');
    this.#writes.set(idOf(bytes), { key: bytes, value: toBytes(value, 'value'), options });
  }

  /** Deletes a key, when the transaction is committed. */
  delete(key: BytesLike): void {
    const bytes = checkKey(key, 'key');
    this.#writes.set(idOf(bytes), { key: bytes, value: undefined, options: {} });
  }

  /** @internal The writes may have been sent. */
  get committing(): boolean {
    return this.#committing;
  }

  /** @internal Undefined when it took effect; after a conflict what to run next. */
  async commit(): Promise<StmTransaction | undefined> {
    const { snapshot, readsStand } = this.#isolation;
    // A snapshot has been consistent at its own revision, whatever happened since.
    if (this.#writes.size === 0 && (snapshot || !readsStand)) return undefined;
    const reads = [...this.#reads.values()];
    this.#committing = true;
    const result = await this.#client.txn(
      {
        if: await this.#conditions(reads),
        then: [...this.#writes.values()].map(writeOp),
        else: reads.map(({ key }): GetOp => op.get(key)),
      },
      { signal: this.#signal },
    );
    if (result.succeeded) return undefined;
    const fresh = result.responses as readonly (KeyValue | undefined)[];
    const prefetched = new Map(reads.map(({ key }, index): [string, Read] => [idOf(key), { key, kv: fresh[index] }]));
    return new StmTransaction(this.#client, this.#isolation, this.#signal, {
      revision: result.header.revision,
      reads: prefetched,
    });
  }

  async #conditions(reads: readonly Read[]): Promise<Compare[]> {
    const { readsStand, writesStand } = this.#isolation;
    const conditions: Compare[] = [];
    if (readsStand) {
      for (const { key, kv } of reads) conditions.push(compare.modRevision(key, '==', kv?.modRevision ?? 0n));
    }
    const since = writesStand ? await this.#revision : undefined;
    if (since !== undefined) {
      for (const { key } of this.#writes.values()) {
        if (!this.#reads.has(idOf(key))) conditions.push(compare.modRevision(key, '<', since + 1n));
      }
    }
    return conditions;
  }

  async #read(key: Uint8Array): Promise<Read> {
    const id = idOf(key);
    const known = this.#reads.get(id);
    if (known !== undefined && this.#isolation.readsStand) return known;
    const prefetched = this.#prefetched.get(id);
    const read = prefetched !== undefined && this.#isolation.readsStand ? prefetched : await this.#fetch(key);
    // Two reads of a key at the same time: the first to come in stands.
    const first = this.#reads.get(id);
    if (first !== undefined && this.#isolation.readsStand) return first;
    this.#reads.set(id, read);
    return read;
  }

  async #fetch(key: Uint8Array): Promise<Read> {
    const signal = this.#signal;
    if (!this.#isolation.snapshot) return { key, kv: await this.#client.get(key, { signal }) };
    if (this.#revision !== undefined) {
      return { key, kv: await this.#client.get(key, { revision: await this.#revision, signal }) };
    }
    const first = this.#client.range(key, { signal });
    this.#revision = first.then(({ header }) => header.revision);
    this.#revision.catch(() => {});
    return { key, kv: (await first).kvs[0] };
  }
}

function writeOp({ key, value, options }: Write): Op {
  return value === undefined ? op.delete(key) : op.put(key, value, options);
}
