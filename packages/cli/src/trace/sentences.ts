import {
  bigintIn,
  compareBytes,
  fromTextOrBase64,
  GUARD_PREFIX,
  hexIn,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  objectsIn,
  prefixEnd,
  textIn,
} from '../../../../src/internal.js';
import { kubernetesValueIn, shortType } from '../frames.js';
import { kubernetesName, type WireMessage } from '../inspect/index.js';

/** Name of the traced client in labels. */
export const THIS_CLIENT = 'this client';

/** The queue that the sentences are about. */
export interface Queue {
  /** Returns the name of the contender to which a queue key belongs, and undefined for any other key. */
  contenderOf(key: string): string | undefined;
  /** Whether this key is the prefix of the queue keys. */
  isPrefix(key: string): boolean;
}

/** A queue without keys, for messages that belong to no lock. */
export const NO_QUEUE: Queue = { contenderOf: () => undefined, isPrefix: () => false };

/**
 * Describes a message in a short sentence, such as "if my queue key does not exist: put my queue key".
 *
 * @param fields The fields of the message.
 * @param request If the message is a response, the fields of its request.
 */
export function sentenceFor(
  message: Pick<WireMessage, 'typeName' | 'method'>,
  fields: JsonObject,
  queue: Queue,
  request: JsonObject = {},
): string {
  const type = shortType(message);
  const method = message.method.slice(message.method.lastIndexOf('/') + 1);
  return SENTENCES[type]?.(fields, queue, request) ?? `${method}: ${type}`;
}

type Sentence = (fields: JsonObject, queue: Queue, request: JsonObject) => string;

const SENTENCES: Readonly<Record<string, Sentence>> = {
  LeaseGrantRequest: ({ TTL }) => `grant a lease of ${textIn(TTL)} s`,
  LeaseGrantResponse: ({ ID }) => `lease ${hexIn(ID)} granted`,
  LeaseRevokeRequest: ({ ID }) => `revoke lease ${hexIn(ID)} and delete its keys`,
  LeaseRevokeResponse: () => 'lease revoked',
  LeaseKeepAliveRequest: ({ ID }) => `renew lease ${hexIn(ID)}`,
  LeaseKeepAliveResponse: ({ TTL }) =>
    TTL === undefined ? 'the lease does not exist' : `lease renewed for ${textIn(TTL)} s`,
  LeaseTimeToLiveRequest: ({ ID }) => `ask how long lease ${hexIn(ID)} lasts`,
  LeaseTimeToLiveResponse: ({ TTL }) =>
    textIn(TTL) === '-1' ? 'the lease does not exist' : `the lease lasts ${textIn(TTL) || 0} s`,
  LeaseLeasesRequest: () => 'list the leases',
  LeaseLeasesResponse: ({ leases }) => `leases: ${objectsIn(leases).length}`,
  StatusRequest: () => 'ask for the status of the member',
  StatusResponse: ({ version, dbSize }) => `version ${textIn(version)}, ${textIn(dbSize)} bytes`,
  MemberListRequest: () => 'list the members',
  MemberListResponse: ({ members }) => `members: ${objectsIn(members).length}`,
  RangeRequest: rangeRequest,
  RangeResponse: rangeResponse,
  PutRequest: putSentence,
  PutResponse: () => 'put applied',
  DeleteRangeRequest: (fields, queue) => `delete ${rangeName(fields, queue)}`,
  DeleteRangeResponse: ({ deleted }) => `deleted keys: ${textIn(deleted) || 0}`,
  TxnRequest: txnRequest,
  TxnResponse: txnResponse,
  CompactionRequest: ({ revision }) => `compact the history before revision ${textIn(revision)}`,
  CompactionResponse: () => 'history compacted',
  LockRequest: ({ name }) => `lock ${textIn(name)}`,
  LockResponse: ({ key }) => `locked with the key ${textIn(key)}`,
  UnlockRequest: ({ key }) => `unlock the key ${textIn(key)}`,
  UnlockResponse: () => 'unlocked',
  CampaignRequest: ({ name, value }) => `become the leader of ${textIn(name)} as ${textIn(value)}`,
  CampaignResponse: () => 'you are the leader',
  ProclaimRequest: ({ value }) => `announce ${textIn(value)} as the leader`,
  ProclaimResponse: () => 'announced',
  ResignRequest: () => 'give up the leadership',
  ResignResponse: () => 'leadership given up',
  LeaderRequest: ({ name }) => `ask for the leader of ${textIn(name)}`,
  LeaderResponse: ({ kv }) => `the leader is ${isJsonObject(kv) ? textIn(kv.value) : 'unknown'}`,
  AuthenticateRequest: ({ name }) => `log in as ${textIn(name)}`,
  AuthenticateResponse: () => 'logged in',
  WatchRequest: watchRequest,
  WatchResponse: watchResponse,
};

function rangeRequest(range: JsonObject, queue: Queue): string {
  const { range_end, count_only } = range;
  if (count_only) return range_end === undefined ? `count ${keyName(range, queue)}` : 'count keys';
  if (range_end === undefined) return `get ${keyName(range, queue)}`;
  const part = queuePart(range, queue);
  if (part !== undefined) return `get ${part}`;
  const end = endOf(range);
  return `get ${end === undefined ? '' : `${end.name} of `}${rangeName(range, queue)}`;
}

/** Returns which part of the queue a request asks for; undefined if it does not ask for the queue. */
function queuePart(range: JsonObject, queue: Queue): 'the queue' | 'the contender ahead' | 'the holder' | undefined {
  const { key, range_end, sort_target, sort_order } = range;
  if (range_end === undefined || sort_target !== 'CREATE' || !queue.isPrefix(textIn(key))) return undefined;
  if (endOf(range) === undefined) return 'the queue';
  return sort_order === 'DESCEND' ? 'the contender ahead' : 'the holder';
}

/**
 * Returns which one of several keys a request asks for: the key that was created last, perhaps of those before a
 * revision, or the key that was created first. Undefined if it asks for other keys. A waiter of a lock asks for the
 * newest key before its own create revision, but so may any other program.
 */
function endOf(range: JsonObject): { readonly name: string; readonly before: bigint } | undefined {
  const { range_end, sort_target, sort_order, limit, max_create_revision } = range;
  if (range_end === undefined || sort_target !== 'CREATE' || textIn(limit) !== '1') return undefined;
  if (sort_order !== 'DESCEND') return { name: 'the oldest', before: 0n };
  if (max_create_revision === undefined) return { name: 'the newest', before: 0n };
  const before = bigintIn(max_create_revision) + 1n;
  return { name: `the newest before revision ${before}`, before };
}

function rangeResponse({ kvs, count }: JsonObject, queue: Queue, request: JsonObject): string {
  const { range_end, count_only } = request;
  if (count_only) return `${textIn(count) || 0} ${textIn(count) === '1' ? 'key' : 'keys'}`;
  const found = objectsIn(kvs);
  const part = queuePart(request, queue);
  if (part !== undefined) {
    const names = found.map((kv) => queue.contenderOf(textIn(kv.key)) ?? textIn(kv.key)).join(', ');
    if (part === 'the queue') return names === '' ? 'the queue is empty' : `the queue: ${names}`;
    return `${names || 'no contender'} is ${part === 'the holder' ? 'the holder' : 'ahead'}`;
  }
  const [first] = found;
  const before = endOf(request)?.before ?? 0n;
  if (before > 0n) return `${first === undefined ? 'no key' : keyName(first, queue)} is before revision ${before}`;
  if (first === undefined) return range_end === undefined ? 'the key does not exist' : 'no keys';
  if (found.length > 3) return `${found.length} keys`;
  const names = found.map((kv) => keyName(kv, queue, 'your')).join(', ');
  // The value of a queue key does not matter to the queue.
  const hasValue = range_end === undefined && !request.keys_only && queue.contenderOf(textIn(first.key)) === undefined;
  return `found ${names}${hasValue ? ` = ${valueName(first)}` : ''}`;
}

/** Leaves out guards (see src/locks/guards.ts), because they only make the transaction safe to repeat. */
function txnRequest({ compare, success, failure }: JsonObject, queue: Queue): string {
  const conditions = objectsIn(compare);
  const condition = conditions.find(({ key }) => !isGuard(key)) ?? conditions[0];
  const then = operationsSentence(objectsIn(success), queue);
  if (condition === undefined) return then || 'do nothing';
  const holds = conditionSentence(condition, queue);
  if (then !== '') return `if ${holds}: ${then}`;
  const otherwise = operationsSentence(objectsIn(failure), queue);
  return otherwise === '' ? `check whether ${holds}` : `unless ${holds}: ${otherwise}`;
}

function operationsSentence(operations: readonly JsonObject[], queue: Queue): string {
  const others = operations.filter(({ request_put }) => !(isJsonObject(request_put) && isGuard(request_put.key)));
  return (others.length > 0 ? others : operations).map((each) => operationSentence(each, queue)).join(' and ');
}

function isGuard(key: JsonValue | undefined): boolean {
  return textIn(key).includes(GUARD_PREFIX);
}

function conditionSentence(condition: JsonObject, queue: Queue): string {
  const { target, result, create_revision, mod_revision } = condition;
  const name = keyName(condition, queue);
  if (target !== 'CREATE' && target !== 'MOD') return `${name} is as expected`;
  const revision = textIn(target === 'CREATE' ? create_revision : mod_revision) || '0';
  const relation = { GREATER: '>', LESS: '<', NOT_EQUAL: '≠' }[textIn(result)] ?? '=';
  if (relation === '=' && revision === '0') return `${name} does not exist`;
  const isOwnKey = queue.contenderOf(textIn(condition.key)) === THIS_CLIENT;
  if (relation === '=' && target === 'CREATE')
    return isOwnKey ? `${name} still exists` : `${name}, created at revision ${revision}, still exists`;
  return `the ${target === 'CREATE' ? 'create' : 'mod'} revision of ${name} ${relation} ${revision}`;
}

function operationSentence(operation: JsonObject, queue: Queue): string {
  const { request_put, request_range, request_delete_range, request_txn } = operation;
  if (isJsonObject(request_put)) return putSentence(request_put, queue);
  if (isJsonObject(request_delete_range)) return `delete ${rangeName(request_delete_range, queue)}`;
  if (isJsonObject(request_txn)) return txnRequest(request_txn, queue);
  return isJsonObject(request_range) ? rangeRequest(request_range, queue) : 'do nothing';
}

/** Leaves out the value of a queue key, because it does not matter to the queue. */
function putSentence(put: JsonObject, queue: Queue): string {
  const isQueueKey = queue.contenderOf(textIn(put.key)) !== undefined;
  return `put ${keyName(put, queue)}${isQueueKey ? '' : ` = ${valueName(put)}`}`;
}

function txnResponse(response: JsonObject, queue: Queue, request: JsonObject): string {
  const found = foundIn(response, queue, request);
  // A transaction with a condition and without operations only asks whether the condition holds.
  const isCheck = objectsIn(request.compare).length > 0 && objectsIn(request.success).length === 0;
  const applied = isCheck ? 'the condition is true' : 'applied';
  const result = response.succeeded ? applied : 'the condition is false';
  return found.length === 0 ? result : `${result}: ${found.join(', ')}`;
}

/** Returns what the reads of a transaction have found, also those in nested transactions. Leaves out guards. */
function foundIn({ succeeded, responses }: JsonObject, queue: Queue, request: JsonObject): string[] {
  const operations = objectsIn(succeeded ? request.success : request.failure);
  return objectsIn(responses).flatMap(({ response_range, response_txn }, index) => {
    const { request_range, request_txn } = operations[index] ?? {};
    if (isJsonObject(request_range) && isGuard(request_range.key)) return [];
    if (isJsonObject(response_range) && isJsonObject(request_range))
      return [rangeResponse(response_range, queue, request_range)];
    return isJsonObject(response_txn) && isJsonObject(request_txn) ? foundIn(response_txn, queue, request_txn) : [];
  });
}

function watchRequest({ create_request, cancel_request }: JsonObject, queue: Queue): string {
  if (isJsonObject(cancel_request)) return 'cancel the watch';
  if (!isJsonObject(create_request)) return 'report the progress of the watch';
  const start = textIn(create_request.start_revision) || '0';
  return `watch ${rangeName(create_request, queue)}${start === '0' ? '' : ` from revision ${start}`}`;
}

function watchResponse({ created, canceled, events }: JsonObject, queue: Queue): string {
  if (canceled) return 'watch canceled';
  if (created) return 'watch created';
  const changes = objectsIn(events).map(({ type, kv }) => {
    if (!isJsonObject(kv)) return '';
    if (type === 'DELETE') return `${keyName(kv, queue, 'your')} was deleted`;
    if (queue.contenderOf(textIn(kv.key)) === undefined) return `${keyName(kv, queue)} = ${valueName(kv)}`;
    return `${keyName(kv, queue, 'your')} was put`;
  });
  return changes.join(', ') || 'no new events';
}

/**
 * Returns the name of a key in a sentence. The client's queue key is "my queue key" in messages from the client, and
 * "your queue key" in messages from etcd.
 */
function keyName({ key }: JsonObject, queue: Queue, whose: 'my' | 'your' = 'my'): string {
  const contender = queue.contenderOf(textIn(key));
  if (contender === THIS_CLIENT) return `${whose} queue key`;
  return contender === undefined ? (kubernetesName(textIn(key)) ?? textIn(key)) : `the queue key of ${contender}`;
}

/** Returns the value of a key, or describes it if it is an object of Kubernetes. */
function valueName(kv: JsonObject): string {
  return kubernetesValueIn(kv) ?? (textIn(kv.value) || '""');
}

/** Returns the name of a key, or describes the keys of a range. */
export function rangeName(range: JsonObject, queue: Queue): string {
  if (range.range_end === undefined) return keyName(range, queue);
  const [start, end] = [fromTextOrBase64(textIn(range.key), 'key'), fromTextOrBase64(textIn(range.range_end), 'key')];
  const isOpen = end.length === 1 && end[0] === 0;
  if (isOpen)
    return start.every((byte) => byte === 0) && start.length <= 1
      ? 'all keys'
      : `all keys from ${textIn(range.key)} on`;
  if (compareBytes(end, prefixEnd(start)) === 0) {
    const objects = textIn(range.key).endsWith('/') ? kubernetesName(textIn(range.key)) : undefined;
    return objects ?? `all keys that begin with ${textIn(range.key)}`;
  }
  return `all keys from ${textIn(range.key)} to before ${textIn(range.range_end)}`;
}
