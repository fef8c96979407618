import {
  type ActionLast,
  actionLast,
  type BytesLike,
  backoffMs,
  checkGivenOptions,
  checkInt64,
  checkOptions,
  checkPositiveCount,
  EtcdError,
  type Int64Like,
  invalidInput,
  monotonicMs,
  pause,
  toBytes,
} from '../../base/index.js';
import {
  type Compare,
  type CoreKeyspace,
  checkClient,
  checkKey,
  compare,
  type DeleteOp,
  type KeyValue,
  type LeaseLike,
  leaseIdOrNone,
  type Op,
  op,
  type PutOp,
} from '../../client/index.js';
import { type WithHeader, WRITE_OPTIONS, type WriteOptions, withHeader } from '../../rpc/index.js';

// Each function writes the key in a transaction that also compares the key, so no other client can change the key
// between the comparison and the write.

/** Options of `createKey`. */
export interface CreateOptions extends WriteOptions {
  /** The lease that the key is attached to. Default: no lease. */
  readonly lease?: LeaseLike | undefined;
}

/** What `updateKey` and `deleteKeyIf` expect of the key. The caller must give exactly one of the properties. */
export interface Expected {
  /** The revision of the key's last put. */
  readonly modRevision?: Int64Like | undefined;
  /** The value of the key. It may have been put any number of times. */
  readonly oldValue?: BytesLike | undefined;
}

/** Options of `updateKey`. */
export interface UpdateOptions extends WriteOptions {
  /** The lease that the key is attached to. 0n: no lease. Default: the lease that the key has. */
  readonly lease?: LeaseLike | undefined;
}

/** The write was done, in the revision `header.revision`. */
export interface Written {
  readonly succeeded: true;
}

/** Nothing was written. */
export interface NotWritten<Reason extends 'exists' | 'missing' | 'changed'> {
  readonly succeeded: false;
  /** Why nothing was written: the key exists already, does not exist, or is not as expected (see `Expected`). */
  readonly reason: Reason;
  /** The key as the transaction found it. Undefined if the key does not exist. */
  readonly current: Reason extends 'missing' ? undefined : KeyValue;
}

function checkRevision(revision: Int64Like, argument: string): bigint {
  return checkInt64(revision, argument, 1n);
}

const CREATE_OPTIONS = { lease: leaseIdOrNone, ...WRITE_OPTIONS } as const;
const EXPECTED = { modRevision: checkRevision, oldValue: toBytes } as const;
const UPDATE_OPTIONS = { ...EXPECTED, ...CREATE_OPTIONS } as const;
const DELETE_OPTIONS = { ...EXPECTED, ...WRITE_OPTIONS } as const;

/**
 * Puts a key if the key does not exist.
 *
 * @throws EtcdError as `txn` does. If its outcome is `unknown`, the key may exist because of this call.
 *
 * @example
 * const created = await createKey(etcd, 'users/ada', 'Ada Lovelace');
 * if (!created.succeeded) console.log('taken by', created.current.text());
 */
export async function createKey(
  client: CoreKeyspace,
  key: BytesLike,
  value: BytesLike,
  options: CreateOptions = {},
): Promise<WithHeader<Written | NotWritten<'exists'>>> {
  checkClient(client, 'txn');
  checkOptions(options, CREATE_OPTIONS, 'createKey');
  const own = checkKey(key, 'key');
  const { lease, ...callOptions } = options;
  const result = await client.txn(
    { if: [compare.missing(own)], then: [op.put(own, value, { lease })], else: [op.get(own)] },
    callOptions,
  );
  const { header } = result;
  if (result.succeeded) return withHeader(header, { succeeded: true });
  return withHeader(header, { succeeded: false, reason: 'exists', current: result.responses[0] as KeyValue });
}

/**
 * Puts a key if the key exists and has the expected mod revision or value.
 *
 * @throws EtcdError as `txn` does. If its outcome is `unknown`, the key may have been put.
 *
 * @example
 * const kv = await etcd.get('config/size');
 * if (kv !== undefined) {
 *   const updated = await updateKey(etcd, kv.key, '20', { modRevision: kv.modRevision });
 *   if (!updated.succeeded) console.log(updated.reason);
 * }
 */
export async function updateKey(
  client: CoreKeyspace,
  key: BytesLike,
  value: BytesLike,
  options: Expected & UpdateOptions,
): Promise<WithHeader<Written | NotWritten<'missing'> | NotWritten<'changed'>>> {
  checkClient(client, 'txn');
  checkGivenOptions(options, UPDATE_OPTIONS, 'updateKey');
  const own = checkKey(key, 'key');
  const { modRevision, oldValue, lease, ...callOptions } = options;
  // The server refuses `ignoreLease` for a key that does not exist. The condition proves that the key exists.
  const put = op.put(own, value, lease === undefined ? { ignoreLease: true } : { lease });
  return writeIfUnchanged(client, own, put, { modRevision, oldValue }, callOptions);
}

/**
 * Deletes a key if the key exists and has the expected mod revision or value.
 *
 * @throws EtcdError as `txn` does. If its outcome is `unknown`, the key may have been deleted.
 *
 * @example
 * const deleted = await deleteKeyIf(etcd, 'jobs/1', { oldValue: 'done' });
 * if (!deleted.succeeded && deleted.reason === 'changed') console.log('is now', deleted.current.text());
 */
export async function deleteKeyIf(
  client: CoreKeyspace,
  key: BytesLike,
  options: Expected & WriteOptions,
): Promise<WithHeader<Written | NotWritten<'missing'> | NotWritten<'changed'>>> {
  checkClient(client, 'txn');
  checkGivenOptions(options, DELETE_OPTIONS, 'deleteKeyIf');
  const { modRevision, oldValue, ...callOptions } = options;
  const own = checkKey(key, 'key');
  return writeIfUnchanged(client, own, op.delete(own), { modRevision, oldValue }, callOptions);
}

/** Options of `modifyKey`. `timeoutMs` limits each call. Use `signal` to limit the time of all calls together. */
export interface ModifyOptions extends UpdateOptions {
  /** Maximum number of times that `change` runs. Default 100. */
  readonly maxAttempts?: number | undefined;
}

const MODIFY_OPTIONS = { maxAttempts: checkPositiveCount, ...CREATE_OPTIONS } as const;
const DEFAULT_MAX_ATTEMPTS = 100;
/** The number of attempts without a pause between them. */
const EAGER_ATTEMPTS = 3;
/** The largest argument of `backoffMs`: from then on, the pause between two attempts no longer grows. */
const MAX_BACKOFF_ATTEMPT = 4;

/** The result of `modifyKey`. */
export interface Modified {
  /** Whether the key was put: false if `change` returned undefined. */
  readonly changed: boolean;
  /** The key that `change` received last. Undefined if the key did not exist. */
  readonly old: KeyValue | undefined;
}

/**
 * Reads a key, lets `change` calculate its new value, and puts the value. If another client changes the key between the
 * read and the put, `change` runs again with the latest key, so it must have no other side effects. If `change` returns
 * undefined, nothing is written. If `change` throws, `modifyKey` rejects with the same error.
 *
 * @throws EtcdError with reason `TxnConflict` after `maxAttempts`, and otherwise as `txn` does. Without `retryWrites`,
 * a put whose outcome is unknown is not repeated.
 *
 * @example
 * const { old } = await modifyKey(etcd, 'visits', (kv) => String(Number(kv?.text() ?? 0) + 1));
 * console.log('visits before this one:', old?.text() ?? 0);
 */
export async function modifyKey(
  client: CoreKeyspace,
  key: BytesLike,
  ...last: ActionLast<
    ModifyOptions,
    (old: KeyValue | undefined) => BytesLike | undefined | Promise<BytesLike | undefined>
  >
): Promise<Modified> {
  const [options, change] = actionLast(last, 'change');
  checkClient(client, 'txn');
  checkOptions(options, MODIFY_OPTIONS, 'modifyKey');
  const { lease, maxAttempts = DEFAULT_MAX_ATTEMPTS, ...callOptions } = options;
  const own = checkKey(key, 'key');
  let old: KeyValue | undefined;
  const put = async (seen: KeyValue | undefined): Promise<readonly PutOp[] | undefined> => {
    old = seen;
    const value = await change(seen);
    return value === undefined ? undefined : [op.put(own, value, { lease: lease ?? seen?.lease })];
  };
  const changed = await swapKey(client, own, put, callOptions, maxAttempts);
  return { changed, old };
}

/** The operations that change a key. Undefined if the key is to stay as it is. */
type Change = readonly Op[] | undefined;

/**
 * Reads a key, and runs the operations that `change` returns for it in a transaction that has no effect if another
 * client has changed the key since the read. If so, calls `change` again with the latest key. Resolves with true when
 * the operations have taken effect, and with false when `change` has returned undefined. `askedMs` is a time on the
 * monotonic clock before the server read the key.
 *
 * @throws EtcdError with reason `TxnConflict` after `maxAttempts`, and otherwise as `get` and `txn` do. Without
 * `retryWrites`, a transaction whose outcome is unknown is not repeated.
 */
export async function swapKey(
  client: CoreKeyspace,
  key: BytesLike,
  change: (seen: KeyValue | undefined, askedMs: number) => Change | Promise<Change>,
  { retryWrites, ...calls }: WriteOptions = {},
  maxAttempts = Number.POSITIVE_INFINITY,
): Promise<boolean> {
  let askedMs = monotonicMs();
  let seen = await client.get(key, calls);
  for (let attempt = 1; ; attempt += 1) {
    const then = await change(seen, askedMs);
    if (then === undefined) return false;
    const isUnchanged = [compare.modRevision(key, '==', seen?.modRevision ?? 0n)];
    askedMs = monotonicMs();
    const result = await client.txn({ if: isUnchanged, then, else: [op.get(key)] }, { ...calls, retryWrites });
    if (result.succeeded) return true;
    if (attempt === maxAttempts) throw txnConflict('the key during each attempt', maxAttempts);
    [seen] = result.responses;
    if (attempt < EAGER_ATTEMPTS) continue;
    // Read the key after the pause. The state from before the pause would be outdated in most cases.
    await pause(backoffMs(Math.min(attempt - EAGER_ATTEMPTS, MAX_BACKOFF_ATTEMPT)), calls.signal);
    askedMs = monotonicMs();
    seen = await client.get(key, calls);
  }
}

/** Returns the error for a transaction that other clients have prevented `maxAttempts` times. */
export function txnConflict(changed: string, maxAttempts: number): EtcdError {
  const problem = `other clients changed ${changed} (maxAttempts = ${maxAttempts}); nothing was written`;
  return new EtcdError(problem, { code: 'Aborted', reason: 'TxnConflict', outcome: 'rejected' });
}

async function writeIfUnchanged(
  client: CoreKeyspace,
  key: BytesLike,
  write: PutOp | DeleteOp,
  expected: Expected,
  options: WriteOptions,
): Promise<WithHeader<Written | NotWritten<'missing'> | NotWritten<'changed'>>> {
  const { header, succeeded, responses } = await client.txn(
    { if: unchanged(key, expected), then: [write], else: [op.get(key)] },
    options,
  );
  if (succeeded) return withHeader(header, { succeeded });
  const [current] = responses;
  if (current === undefined) return withHeader(header, { succeeded, reason: 'missing', current });
  return withHeader(header, { succeeded, reason: 'changed', current });
}

function unchanged(key: BytesLike, { modRevision, oldValue }: Expected): readonly Compare[] {
  if ((modRevision === undefined) === (oldValue === undefined))
    throw invalidInput('options', modRevision === undefined ? 'neither' : 'both', 'one of modRevision and oldValue');
  if (modRevision !== undefined) return [compare.modRevision(key, '==', modRevision)];
  return [compare.exists(key), compare.value(key, '==', oldValue as BytesLike)];
}
