import {
  bigintIn,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  objectIn,
  objectsIn,
} from '../../../../src/internal.js';

// What the planner reads from the messages of a recording.

/** Returns all keys in an answer, as `mvccpb.KeyValue`, also those of nested transactions and previous values. */
export function keyValuesIn(value: JsonValue | undefined): readonly JsonObject[] {
  if (Array.isArray(value)) return value.flatMap(keyValuesIn);
  if (!isJsonObject(value)) return [];
  if (value.mod_revision !== undefined && value.key !== undefined) return [value];
  return Object.values(value).flatMap(keyValuesIn);
}

/** Whether the answer of a transaction or a deletion shows that it has changed a key. */
export function hasChanged({ responses, deleted }: JsonObject): boolean {
  if (bigintIn(deleted) > 0n) return true;
  return objectsIn(responses).some((response) => {
    const { response_put, response_delete_range, response_txn } = response;
    return (
      response_put !== undefined || hasChanged(objectIn(response_delete_range)) || hasChanged(objectIn(response_txn))
    );
  });
}

/** A put in a request that was carried out. */
export interface Put {
  readonly key: string;
  /** The ID of the lease in decimal. `0` for none. */
  readonly lease: string;
}

/** Returns the puts that a request has carried out, as its answer shows. */
export function putsIn(rpc: string, request: JsonObject, answer: JsonObject): readonly Put[] {
  if (rpc === 'KV/Put') return [putOf(request)];
  if (rpc !== 'KV/Txn') return [];
  return objectsIn(answer.succeeded ? request.success : request.failure).flatMap((operation, index) => {
    const { request_put, request_txn } = operation;
    if (isJsonObject(request_put)) return [putOf(request_put)];
    if (!isJsonObject(request_txn)) return [];
    return putsIn('KV/Txn', request_txn, objectIn(objectsIn(answer.responses)[index]?.response_txn));
  });
}

function putOf({ key, lease }: JsonObject): Put {
  return { key: String(key ?? ''), lease: String(lease ?? '0') };
}

/** Returns the keys that a request may write, whatever its answer is. */
export function keysWritten(request: JsonObject): readonly string[] {
  const { key, success, failure } = request;
  if (key !== undefined) return [String(key)];
  return [...objectsIn(success), ...objectsIn(failure)].flatMap(({ request_put, request_delete_range, request_txn }) =>
    [request_put, request_delete_range, request_txn].filter(isJsonObject).flatMap(keysWritten),
  );
}

/** Returns the key that existed before an operation, as its answer shows although it does not contain the key. */
export function existingKey(rpc: string, request: JsonObject, answer: JsonObject): string | undefined {
  if (rpc === 'KV/DeleteRange' && request.range_end === undefined && answer.deleted === '1') return String(request.key);
  const [compare, ...others] = objectsIn(request.compare);
  if (rpc !== 'KV/Txn' || compare === undefined || others.length > 0 || answer.succeeded === true) return undefined;
  const { target, result, create_revision, range_end, key } = compare;
  const isIfNew = target === 'CREATE' && result === undefined && bigintIn(create_revision) === 0n;
  return isIfNew && range_end === undefined ? String(key) : undefined;
}
