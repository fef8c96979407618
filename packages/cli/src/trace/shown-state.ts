import {
  bigintIn,
  headerRevision,
  hexIn,
  isJsonObject,
  type JsonObject,
  objectsIn,
  textIn,
} from '../../../../src/internal.js';
import { type FrameWithFields, kubernetesValueIn, shortType } from '../frames.js';
import { kubernetesName, streamOf } from '../inspect/index.js';
import { NO_QUEUE, rangeName } from './sentences.js';

/** A key, as far as a trace has shown it. */
interface ShownKey {
  readonly key: string;
  /** The key, or the kind, the namespace and the name of an object of Kubernetes. */
  readonly name: string;
  readonly value: string;
  /** The mod revision. */
  readonly mod: string;
  /** Empty if no message has shown it. */
  readonly version: string;
  /** The ID of the lease in hexadecimal. Empty if the key has no lease. */
  readonly lease: string;
}

/** A change of what a trace has shown of the store, its leases and its watches. */
export type ShownChange =
  | { readonly kind: 'key'; readonly key: ShownKey }
  | { readonly kind: 'key gone'; readonly key: string }
  /** The lease lasts `ttl` seconds from this moment on. */
  | { readonly kind: 'lease'; readonly id: string; readonly ttl: number }
  | { readonly kind: 'lease gone'; readonly id: string }
  | { readonly kind: 'watch'; readonly id: string; readonly range: string }
  | { readonly kind: 'watch gone'; readonly id: string }
  | { readonly kind: 'event'; readonly id: string; readonly text: string };

/** Maximum number of keys or events that count of one message. Further ones are left out. */
const MAX_ITEMS = 100;

/**
 * Follows the messages of a trace, in their order, and says how each of them changes what the trace has shown of the
 * store, of the leases and of the watches. A read at an earlier revision changes nothing.
 */
export class ShownState {
  /** The latest request of each stream. */
  readonly #requests = new Map<string, { readonly type: string; readonly fields: JsonObject }>();
  /** The mod revisions and the leases of the keys, also of those that do not exist. */
  readonly #keys = new Map<string, { readonly mod: bigint; readonly lease: string; readonly exists: boolean }>();
  /** The ranges of the watches that etcd has not created yet, by stream, in the order of their requests. */
  readonly #wanted = new Map<string, string[]>();
  /** The open watches by stream. */
  readonly #watches = new Map<string, Set<string>>();

  /** Returns the changes of each message in the frame. The last ones contain those of the frame itself, too. */
  follow({ frame, messages }: FrameWithFields): readonly (readonly ShownChange[])[] {
    const stream = streamOf(frame);
    const changes: (readonly ShownChange[])[] = messages.map(({ message, fields }) => {
      const type = shortType(message);
      if (frame.direction === 'received') return [...this.#answered(type, fields, stream)];
      this.#requests.set(stream, { type, fields });
      if (type === 'WatchRequest' && isJsonObject(fields.create_request)) {
        const wanted = this.#wanted.get(stream) ?? [];
        this.#wanted.set(stream, [...wanted, rangeName(fields.create_request, NO_QUEUE)]);
      }
      return [];
    });
    const { type, direction, flags } = frame;
    const ends = type === 'RST_STREAM' || (direction === 'received' && flags.includes('END_STREAM'));
    if (!ends) return changes;
    return [...changes.slice(0, -1), [...(changes.at(-1) ?? []), ...this.#ended(stream)]];
  }

  /** Returns the changes when a connection closes. */
  closed(connection: number): readonly ShownChange[] {
    const streams = [...this.#watches.keys()].filter((stream) => stream.startsWith(`${connection}:`));
    return streams.flatMap((stream) => this.#ended(stream));
  }

  #ended(stream: string): readonly ShownChange[] {
    const ids = [...(this.#watches.get(stream) ?? [])];
    this.#watches.delete(stream);
    this.#requests.delete(stream);
    return ids.map((id) => ({ kind: 'watch gone', id }));
  }

  *#answered(type: string, fields: JsonObject, stream: string): Generator<ShownChange, void, undefined> {
    const request = this.#requests.get(stream)?.fields ?? {};
    const revision = headerRevision(fields);
    switch (type) {
      case 'LeaseGrantResponse':
        yield { kind: 'lease', id: hexIn(fields.ID), ttl: Number(fields.TTL ?? 0) };
        return;
      case 'LeaseKeepAliveResponse':
        yield fields.TTL === undefined
          ? { kind: 'lease gone', id: hexIn(fields.ID) }
          : { kind: 'lease', id: hexIn(fields.ID), ttl: Number(fields.TTL) };
        return;
      case 'LeaseTimeToLiveResponse':
        yield textIn(fields.TTL) === '-1'
          ? { kind: 'lease gone', id: hexIn(fields.ID) }
          : { kind: 'lease', id: hexIn(fields.ID), ttl: Number(fields.TTL ?? 0) };
        return;
      case 'LeaseRevokeResponse':
        yield { kind: 'lease gone', id: hexIn(request.ID) };
        for (const [key, { lease, exists }] of this.#keys)
          if (exists && lease === hexIn(request.ID)) yield* this.#gone(key, revision);
        return;
      case 'WatchResponse':
        yield* this.#watched(fields, stream);
        return;
      case 'TxnResponse':
        yield* this.#transacted(request, fields, revision);
        return;
      default:
        yield* this.#operated(type, request, fields, revision);
    }
  }

  *#transacted(request: JsonObject, response: JsonObject, revision: bigint): Generator<ShownChange, void, undefined> {
    const operations = objectsIn(response.succeeded === true ? request.success : request.failure);
    const isNew = new Set(response.succeeded === true ? objectsIn(request.compare).filter(isAbsence).map(keyOf) : []);
    for (const [index, operation] of operations.entries()) {
      const answer = objectsIn(response.responses)[index] ?? {};
      for (const [name, type] of OPERATIONS) {
        const asked = operation[`request_${name}`];
        if (!isJsonObject(asked)) continue;
        const given = answer[`response_${name}`];
        const fields = isJsonObject(given) ? given : {};
        if (name === 'txn') yield* this.#transacted(asked, fields, revision);
        else yield* this.#operated(type, asked, fields, revision, isNew.has(keyOf(asked)));
      }
    }
  }

  /** `isNew` tells whether the key is known not to have existed before. */
  *#operated(
    type: string,
    request: JsonObject,
    fields: JsonObject,
    revision: bigint,
    isNew = false,
  ): Generator<ShownChange, void, undefined> {
    const { revision: asOf, keys_only: keysOnly, count_only: countOnly } = request;
    if (type === 'PutResponse') {
      const { prev_kv: previous } = fields;
      const before = isJsonObject(previous) ? previous : undefined;
      const version = before !== undefined ? `${bigintIn(before.version) + 1n}` : isNew ? '1' : '';
      const value = request.ignore_value === true ? before : request;
      const lease = request.ignore_lease === true ? before?.lease : request.lease;
      yield* this.#seen({
        ...request,
        value: value?.value ?? '',
        lease: lease ?? 0,
        version,
        mod_revision: `${revision}`,
      });
    } else if (type === 'DeleteRangeResponse') {
      const { key, range_end: end } = request;
      if (end === undefined) yield* this.#gone(textIn(key), revision);
      else
        for (const [known, { exists }] of this.#keys)
          if (exists && isWithin(known, textIn(key), textIn(end))) yield* this.#gone(known, revision);
    } else if (type === 'RangeResponse' && asOf === undefined && keysOnly !== true && countOnly !== true) {
      const found = objectsIn(fields.kvs);
      for (const kv of found.slice(0, MAX_ITEMS)) yield* this.#seen(kv);
      if (found.length === 0 && request.range_end === undefined) yield* this.#gone(keyOf(request), revision);
    }
  }

  *#watched(fields: JsonObject, stream: string): Generator<ShownChange, void, undefined> {
    const id = `${stream} watch ${textIn(fields.watch_id) || 0}`;
    if (fields.canceled === true) {
      this.#watches.get(stream)?.delete(id);
      yield { kind: 'watch gone', id };
    } else if (fields.created === true) {
      const range = this.#wanted.get(stream)?.shift() ?? '';
      this.#watches.set(stream, (this.#watches.get(stream) ?? new Set()).add(id));
      yield { kind: 'watch', id, range };
    }
    for (const { type, kv } of objectsIn(fields.events).slice(0, MAX_ITEMS)) {
      if (!isJsonObject(kv)) continue;
      const isDeleted = type === 'DELETE';
      const shown = kubernetesName(keyOf(kv)) ?? keyOf(kv);
      yield { kind: 'event', id, text: isDeleted ? `${shown} was deleted` : `${shown} = ${shownValue(kv)}` };
      if (isDeleted) yield* this.#gone(keyOf(kv), bigintIn(kv.mod_revision));
      else yield* this.#seen(kv);
    }
  }

  *#seen(kv: JsonObject): Generator<ShownChange, void, undefined> {
    const [key, mod] = [keyOf(kv), bigintIn(kv.mod_revision)];
    const known = this.#keys.get(key);
    if (known !== undefined && known.mod > mod) return;
    const lease = textIn(kv.lease) === '' || textIn(kv.lease) === '0' ? '' : hexIn(kv.lease);
    this.#keys.set(key, { mod, lease, exists: true });
    const name = kubernetesName(key) ?? key;
    yield { kind: 'key', key: { key, name, value: shownValue(kv), mod: `${mod}`, version: textIn(kv.version), lease } };
  }

  *#gone(key: string, revision: bigint): Generator<ShownChange, void, undefined> {
    const known = this.#keys.get(key);
    if (known !== undefined && known.mod > revision) return;
    this.#keys.set(key, { mod: revision, lease: '', exists: false });
    if (known?.exists) yield { kind: 'key gone', key };
  }
}

/** The operations of a transaction, and the types of their responses. */
const OPERATIONS = [
  ['put', 'PutResponse'],
  ['delete_range', 'DeleteRangeResponse'],
  ['range', 'RangeResponse'],
  ['txn', 'TxnResponse'],
] as const;

/** Whether the condition of a transaction holds only if its key does not exist. */
function isAbsence({ target, result, create_revision, mod_revision, version }: JsonObject): boolean {
  const compared = { CREATE: create_revision, MOD: mod_revision, VERSION: version }[textIn(target) || 'VERSION'];
  return (
    (result === undefined || result === 'EQUAL') &&
    (textIn(compared) || '0') === '0' &&
    target !== 'VALUE' &&
    target !== 'LEASE'
  );
}

/** Whether the key is in the range. Both are as `textOrBase64` formats them, so the comparison suits only text. */
function isWithin(key: string, start: string, end: string): boolean {
  return key >= start && (end === '\0' || key < end);
}

function keyOf({ key }: JsonObject): string {
  return textIn(key);
}

function shownValue(kv: JsonObject): string {
  return kubernetesValueIn(kv) ?? textIn(kv.value);
}
