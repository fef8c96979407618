import {
  type CallOptions,
  type Client,
  compare,
  compareBytes,
  concatBytes,
  EtcdError,
  idOf,
  type Op,
  op,
  toBytes,
  type WireRange,
} from '../../../../src/internal.js';
import { CliError, ExitCode } from '../exit-code.js';
import { bytesField } from './export-file.js';

/** The version of the format of a position. */
const VERSION = 1;

/** A change of a key of the destination: a put, or a deletion if `value` is undefined. */
export interface Change {
  readonly key: Uint8Array;
  readonly value: Uint8Array | undefined;
}

/**
 * How far a mirror is. The mirror continues after `revision`. If `revision` is 0n, it reads the whole range of the
 * source. The mirror cannot detect a restored source that has the same cluster ID and has passed `revision` before the
 * mirror reads from it again. Then the user passes `--resync`, or restores the source with `etcdutl snapshot restore
 * --bump-revision 1000000000 --mark-compacted`.
 *
 * - `reading`: The destination is being made equal to the range of the source.
 * - `applying`: The mirror is applying the changes of later revisions in several transactions. Some of these changes
 *   may already be applied. A mirror that continues applies all of them.
 * - `complete`: The destination equals the range of the source at `revision`.
 */
export interface Position {
  readonly revision: bigint;
  readonly state: 'reading' | 'applying' | 'complete';
  /** The ID of the cluster that `revision` belongs to. */
  readonly clusterId: bigint;
}

/** Another process has changed the position, or the target was restored from a backup. */
export class PositionMoved extends Error {
  override readonly name = 'PositionMoved';
}

interface ClaimOptions {
  /** Whether to refuse a position that another process has written. */
  readonly ownOnly: boolean;
  /** Whether to reset the position, so that the mirror reads the whole range. */
  readonly startsAnew: boolean;
  /** Runs if there is no position, before this mirror creates one. */
  readonly checkNew: () => Promise<void>;
}

interface MirrorTargetOptions {
  readonly client: Client;
  readonly source: WireRange;
  readonly destination: WireRange;
  readonly positionKey: Uint8Array;
  readonly maxTxnOps: number;
  readonly call: CallOptions;
}

/**
 * The cluster that a mirror writes to. The position is the value of a key of this cluster. Each transaction requires
 * that no other process has moved the position. It also moves the position, unless a large value leaves no room for it:
 * see `#applyLarge`.
 *
 * So the position matches the keys, also after a crash of the mirror or a restoration of the target. If a second mirror
 * takes over the position, the first mirror can write nothing more, not even with a request that arrives late.
 */
export class MirrorTarget {
  readonly #options: MirrorTargetOptions;
  #position: Position = { revision: 0n, state: 'reading', clusterId: 0n };
  /** The mod revision of the position key. Each transaction requires that the key still has this mod revision. */
  #modRevision = 0n;
  /** The numbers of keys that this object has written and deleted. */
  readonly counts = { written: 0, deleted: 0 };
  /** Distinguishes this process from other mirrors with the same position key. */
  readonly #run: string;

  constructor(options: MirrorTargetOptions, run: string) {
    this.#options = options;
    this.#run = run;
  }

  get position(): Position {
    return this.#position;
  }

  /**
   * Reads the position, and takes it over from another mirror with the same source and destination. Creates the
   * position if it is missing.
   *
   * @throws CliError if the position belongs to a mirror of another source or destination, if `ownOnly` is true and
   * another process has taken over the position, or if the value of the position key is not a position.
   */
  async claim({ ownOnly, startsAnew, checkNew }: ClaimOptions): Promise<void> {
    const { client, positionKey, call } = this.#options;
    for (;;) {
      const kv = await client.get(positionKey, call);
      const found = kv === undefined ? undefined : parsePosition(kv.value);
      if (kv !== undefined && found === undefined)
        throw new CliError(
          ExitCode.DATA,
          'the value of the position key is not a position; choose another --position-key',
        );
      if (found !== undefined && found.mirror !== this.#identity())
        throw new CliError(
          ExitCode.FAILED,
          'the position key belongs to a mirror with other keys or another destination; choose another ' +
            '--position-key, or delete the key to begin again',
        );
      if (found !== undefined && found.run !== this.#run && ownOnly) throw takenOver();
      if (found === undefined) await checkNew();
      this.#modRevision = kv?.modRevision ?? 0n;
      const none: Position = { revision: 0n, state: 'reading', clusterId: 0n };
      try {
        await this.#write([], startsAnew ? none : (found ?? none));
        return;
      } catch (error) {
        if (!(error instanceof PositionMoved)) throw error;
        // Another mirror has moved the position between the read and the write.
      }
    }
  }

  /**
   * Whether `client` reads the position that this process has written. If so, `client` uses the same cluster.
   *
   * @throws PositionMoved if another process has moved the position meanwhile. The read then proves nothing.
   */
  async isSameCluster(client: Client): Promise<boolean> {
    const { client: target, positionKey, call } = this.#options;
    const kv = await client.get(positionKey, call);
    if (kv !== undefined && parsePosition(kv.value)?.run === this.#run) return true;
    // In the same cluster, the read would have found the position, because the position is still there afterwards.
    if ((await target.get(positionKey, call))?.modRevision !== this.#modRevision) throw positionMoved();
    return false;
  }

  /** Deletes the position if no other mirror has moved it. */
  async abandon(): Promise<void> {
    const { client, positionKey, call } = this.#options;
    const isOwn = compare.modRevision(positionKey, '==', this.#modRevision);
    await client.txn({ if: [isOwn], then: [op.delete(positionKey)] }, call);
  }

  /**
   * Applies changes of different keys, and moves the position. Uses one transaction if the changes fit into one, and
   * several otherwise.
   *
   * @throws PositionMoved if another process has moved the position. The transaction then has no effect.
   */
  async apply(changes: readonly Change[], position: Position): Promise<void> {
    const { maxTxnOps } = this.#options;
    if (changes.length < maxTxnOps && (changes.length < 2 || weightOf(changes) <= TXN_BYTES)) {
      try {
        await this.#write(changes.map(opOf), position);
        return this.#count(changes);
      } catch (error) {
        if (!isTooLarge(error) || changes.length === 0) throw error;
      }
      if (changes.length === 1) return this.#applyLarge(changes[0] as Change, position);
    }
    const half = Math.ceil(changes.length / 2);
    await this.apply(changes.slice(0, half), this.#unfinished());
    await this.apply(changes.slice(half), position);
  }

  /**
   * Writes a value that is so large that its transaction has no room for the position. The position first says that a
   * change is being applied, and moves afterwards. A value within about 100 bytes of the limit of the target does not fit
   * into one request with the condition on the position, so the target refuses it.
   */
  async #applyLarge(change: Change, position: Position): Promise<void> {
    await this.#write([], this.#unfinished());
    try {
      await this.#txn([opOf(change)]);
    } catch (error) {
      if (!isTooLarge(error)) throw error;
      throw new CliError(
        ExitCode.FAILED,
        `the target refuses a value of ${change.value?.length ?? 0} bytes; start its members with a larger --max-request-bytes`,
      );
    }
    await this.#write([], position);
    this.#count([change]);
  }

  #count(changes: readonly Change[]): void {
    for (const { value } of changes) {
      if (value === undefined) this.counts.deleted += 1;
      else this.counts.written += 1;
    }
  }

  #unfinished(): Position {
    const { state } = this.#position;
    return { ...this.#position, state: state === 'complete' ? 'applying' : state };
  }

  async #write(ops: readonly Op[], position: Position): Promise<void> {
    this.#modRevision = await this.#txn([...ops, op.put(this.#options.positionKey, this.#valueOf(position))]);
    this.#position = position;
  }

  async #txn(ops: readonly Op[]): Promise<bigint> {
    const { client, positionKey, call } = this.#options;
    const isOwn = compare.modRevision(positionKey, '==', this.#modRevision);
    const { succeeded, header } = await client.txn({ if: [isOwn], then: ops }, call);
    if (!succeeded) throw positionMoved();
    return header.revision;
  }

  #identity(): string {
    const { source, destination } = this.#options;
    return JSON.stringify([rangeField(source), rangeField(destination)]);
  }

  #valueOf({ revision, state, clusterId }: Position): Uint8Array {
    const { source, destination } = this.#options;
    const fields = {
      etcdwire_mirror: VERSION,
      revision: String(revision),
      state,
      source_cluster_id: String(clusterId),
      source: rangeField(source),
      destination: rangeField(destination),
      run: this.#run,
    };
    return toBytes(JSON.stringify(fields), 'position');
  }
}

function positionMoved(): PositionMoved {
  return new PositionMoved('another process has changed the position of the mirror (--position-key)');
}

/** Returns the error for a mirror whose position another mirror has taken over. */
function takenOver(): CliError {
  return new CliError(
    ExitCode.LOST,
    'another mirror has taken over this destination; only one mirror may write to a destination at a time',
  );
}

/**
 * Maximum number of bytes of keys and values in a transaction with more than one change. With the position, such a
 * request is smaller than etcd's default limit of 1.5 MiB.
 */
export const TXN_BYTES = 1_048_576;

/** Returns the number of bytes of keys and values in the changes. */
function weightOf(changes: Iterable<Change>): number {
  let weight = 0;
  for (const { key, value } of changes) weight += key.length + (value?.length ?? 0);
  return weight;
}

/** Collects the last change of each key of several revisions, because a transaction may change a key only once. */
export class PendingChanges {
  readonly #changes = new Map<string, Change>();
  #bytes = 0;
  /** The revision that the destination reaches with these changes. */
  revision = 0n;

  get isEmpty(): boolean {
    return this.#changes.size === 0;
  }

  get all(): readonly Change[] {
    return [...this.#changes.values()];
  }

  /** Whether one transaction has room for the collected changes, these changes and the position. */
  hasRoomFor(changes: readonly Change[], maxTxnOps: number): boolean {
    return this.#changes.size + changes.length < maxTxnOps && this.#bytes + weightOf(changes) <= TXN_BYTES;
  }

  add(changes: readonly Change[], revision: bigint): void {
    for (const change of changes) {
      const id = idOf(change.key);
      const previous = this.#changes.get(id);
      if (previous !== undefined) this.#bytes -= weightOf([previous]);
      this.#changes.set(id, change);
    }
    this.#bytes += weightOf(changes);
    this.revision = revision;
  }

  clear(): void {
    this.#changes.clear();
    this.#bytes = 0;
  }
}

/** How the keys of the source are named at the destination. */
export class Renaming {
  readonly destination: WireRange;
  readonly positionKey: Uint8Array;
  readonly #from: Uint8Array;
  readonly #to: Uint8Array;

  /** The renaming replaces the prefix `from` of each key with `to`. */
  constructor(destination: WireRange, from: Uint8Array, to: Uint8Array, positionKey: Uint8Array) {
    this.destination = destination;
    this.#from = from;
    this.#to = to;
    this.positionKey = positionKey;
  }

  /**
   * Returns the key at the destination. Undefined for a key that would be the position key, which is not mirrored.
   *
   * @throws CliError if the name at the destination would be empty.
   */
  keyOf(key: Uint8Array): Uint8Array | undefined {
    const renamed = concatBytes(this.#to, key.subarray(this.#from.length));
    if (renamed.length === 0)
      throw new CliError(
        ExitCode.FAILED,
        'the source has a key that equals the prefix, and etcd allows no empty key; give --dest-prefix',
      );
    return this.isPosition(renamed) ? undefined : renamed;
  }

  isPosition(key: Uint8Array): boolean {
    return compareBytes(key, this.positionKey) === 0;
  }
}

function opOf({ key, value }: Change): Op {
  return value === undefined ? op.delete(key) : op.put(key, value);
}

/** Whether the server refused the request because of its size. gRPC refuses very large requests before etcd does. */
function isTooLarge(error: unknown): boolean {
  if (!(error instanceof EtcdError)) return false;
  return error.reason === 'RequestTooLarge' || /message larger than max/.test(error.problem);
}

function rangeField({ key, rangeEnd }: WireRange): Readonly<Record<string, string>> {
  return { ...bytesField('key', key), ...bytesField('range_end', rangeEnd) };
}

interface FoundPosition extends Position {
  readonly run: string;
  readonly mirror: string;
}

/** Parses the value of a position key. Returns undefined if it is not a position of this format. */
function parsePosition(value: Uint8Array): FoundPosition | undefined {
  let fields: Readonly<Record<string, unknown>>;
  try {
    fields = JSON.parse(Buffer.from(value).toString());
  } catch {
    return undefined;
  }
  if (fields?.etcdwire_mirror !== VERSION) return undefined;
  const { revision, state, source_cluster_id: clusterId, source, destination, run } = fields;
  const isNumber = (text: unknown): text is string => typeof text === 'string' && /^\d{1,20}$/.test(text);
  if (!isNumber(revision) || !isNumber(clusterId) || typeof run !== 'string') return undefined;
  if (state !== 'reading' && state !== 'applying' && state !== 'complete') return undefined;
  const mirror = JSON.stringify([source, destination]);
  return { revision: BigInt(revision), state, clusterId: BigInt(clusterId), run, mirror };
}
