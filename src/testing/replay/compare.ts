import { isJsonObject, type JsonObject, type JsonValue } from '../../extras/transports/json/index.js';
import { isRevision, type RevisionMap } from './revisions.js';

/** A field in which two messages differ. */
export interface FieldDifference {
  readonly field: string;
  readonly recorded: JsonValue | undefined;
  readonly replayed: JsonValue | undefined;
}

/** The difference in seconds up to which two TTLs count as equal, because the recorded calls took time. */
const TTL_TOLERANCE_S = 2;

/** The fields of headers that belong to one cluster. */
export const OF_CLUSTER: readonly string[] = ['cluster_id', 'member_id', 'raft_term'];

/**
 * The fields that two correct servers answer differently, by the service, or by the RPC. `*` stands for all RPCs. They
 * contain IDs, sizes, hashes, tokens, and the names and versions of members.
 */
const IGNORED: Readonly<Record<string, readonly string[]>> = {
  '*': OF_CLUSTER,
  Auth: ['token', 'authRevision'],
  Cluster: ['members', 'member'],
  Maintenance: ['hash', 'compact_revision', 'memberID', 'blob', 'remaining_bytes', 'version'],
  'Maintenance/Status': [
    ...['dbSize', 'dbSizeInUse', 'leader', 'raftIndex', 'raftTerm', 'raftAppliedIndex', 'isLearner', 'errors'],
    ...['storageVersion', 'dbSizeQuota', 'downgradeInfo'],
  ],
};

/** The lists whose order etcd does not define. */
const UNORDERED: Readonly<Record<string, string>> = { 'Lease/LeaseTimeToLive': 'keys', 'Lease/LeaseLeases': 'leases' };

/** Compares the answers to one RPC, such as `KV/Put`. */
export class MessageComparison {
  readonly differences: FieldDifference[] = [];
  readonly #revisions: RevisionMap;
  readonly #ignored: ReadonlySet<string>;
  readonly #unordered: string | undefined;
  readonly #comparesTtl: boolean;

  /** With `comparesTtl` set to false, the server has not lived through the recorded time. */
  constructor(rpc: string, revisions: RevisionMap, comparesTtl: boolean) {
    this.#revisions = revisions;
    const service = rpc.slice(0, rpc.indexOf('/'));
    this.#ignored = new Set(['*', service, rpc].flatMap((name) => IGNORED[name] ?? []));
    this.#unordered = UNORDERED[rpc];
    this.#comparesTtl = comparesTtl;
  }

  compare(recorded: JsonValue | undefined, replayed: JsonValue | undefined, field = '', name = ''): void {
    if (this.#ignored.has(name)) return;
    if (isRevision(name)) return this.#compareRevision(recorded, replayed, field);
    if (name === 'TTL') return this.#compareTtl(recorded, replayed, field);
    if (isJsonObject(recorded) && isJsonObject(replayed)) {
      for (const key of new Set([...Object.keys(recorded), ...Object.keys(replayed)]))
        this.compare(recorded[key], replayed[key], field === '' ? key : `${field}.${key}`, key);
    } else if (Array.isArray(recorded) && Array.isArray(replayed)) {
      const [left, right] = name === this.#unordered ? [sorted(recorded), sorted(replayed)] : [recorded, replayed];
      for (let index = 0; index < Math.max(left.length, right.length); index += 1)
        this.compare(left[index], right[index], `${field}[${index}]`);
    } else if (recorded !== replayed) this.differences.push({ field, recorded, replayed });
  }

  #compareRevision(recorded: JsonValue | undefined, replayed: JsonValue | undefined, field: string): void {
    const isOfHeader = field === 'header.revision';
    if (this.#revisions.agree(BigInt(String(recorded ?? 0)), BigInt(String(replayed ?? 0)), isOfHeader)) return;
    this.differences.push({ field, recorded, replayed });
  }

  #compareTtl(recorded: JsonValue | undefined, replayed: JsonValue | undefined, field: string): void {
    const [left, right] = [Number(recorded ?? 0), Number(replayed ?? 0)];
    // The TTL of a lease that does not exist is 0 or -1.
    const bothExist = left > 0 && right > 0;
    if (left === right || (bothExist && (!this.#comparesTtl || Math.abs(left - right) <= TTL_TOLERANCE_S))) return;
    this.differences.push({ field, recorded, replayed });
  }
}

function sorted(list: readonly JsonValue[]): readonly JsonValue[] {
  return list
    .map((item) => JSON.stringify(item))
    .sort()
    .map((text) => JSON.parse(text) as JsonValue);
}

/** Returns a copy of a request with the revisions of the server that receives it. */
export function withRevisions(request: JsonObject, revisions: RevisionMap): JsonObject {
  return mapped(request, '', revisions) as JsonObject;
}

function mapped(value: JsonValue, name: string, revisions: RevisionMap): JsonValue {
  if (isRevision(name)) return String(revisions.toServer(BigInt(String(value))));
  if (Array.isArray(value)) return value.map((item) => mapped(item, '', revisions));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapped(inner, key, revisions)]));
}
