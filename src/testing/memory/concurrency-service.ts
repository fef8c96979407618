import { concatBytes, NO_BYTES, onAbort, toBytes } from '../../base/index.js';
import {
  type Compare,
  CompareResult,
  CompareTarget,
  type RangeRequest,
  type RangeResponse,
  type RequestOp,
  type ResponseHeader,
  SortOrder,
  SortTarget,
  type TxnResponse,
} from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import { EventType, type KeyValue } from '../../gen/mvccpb/kv.js';
import type { LeaderKey } from '../../gen/v3electionpb/v3election.js';
import { decode, encode, type Init, type Method } from '../../wire/index.js';
import type { Change } from './change.js';
import { ALL_KEYS, type KeyId, keyId } from './key-range.js';
import type { Member } from './member.js';
import { type ResponseStream, type Router, type ServerCall, type Service, StatusError, unaryRoute } from './service.js';

/**
 * TTL in seconds of the lease that the services grant if a request contains no lease ID: the default of Go's sessions.
 */
const DEFAULT_TTL_SECONDS = 60n;
/** The lease ID that stands for no lease. */
const NO_LEASE = 0n;
/** The character after `/`. A range from `name/` to `name0` contains all keys with the prefix `name/`. */
const AFTER_SLASH = '0';

/**
 * Registers the services Lock and Election. As in etcd, their handlers call methods of the services KV and Lease with
 * the token of the caller. `service` carries out these calls.
 */
export function registerConcurrency(router: Router, member: Member, service: Service): void {
  const queues = new Queues(member, service);
  const serve = <Request, Response>(
    method: Method<Request, Response, 'unary'>,
    handler: (request: Request, call: ServerCall) => Promise<Init<Response>>,
  ): void => router.unary(method, (request, call) => withUnknownStatus(() => handler(request, call)));

  serve(methods.lock.lock, (request, call) => queues.lock(request, call));
  serve(methods.lock.unlock, async ({ key }, call) => {
    const { header } = await queues.run(methods.kv.deleteRange, { key }, call);
    return { header };
  });
  serve(methods.election.campaign, (request, call) => queues.campaign(request, call));
  serve(methods.election.proclaim, async ({ leader, value }, call) => {
    const { key, rev, lease } = await leadershipOf(queues, leader, call);
    return { header: await queues.proclaim(key, rev, value, lease, call) };
  });
  serve(methods.election.leader, async ({ name }, call) => {
    const { header, kvs } = await queues.first(name, call);
    if (kvs[0] === undefined) throw failure('election: no leader');
    return { header, kv: kvs[0] };
  });
  serve(methods.election.resign, async ({ leader }, call) => {
    const { key, rev } = await leadershipOf(queues, leader, call);
    return { header: await queues.resign(key, rev, call) };
  });
  router.streaming(methods.election.observe, (responses, call) => {
    const stopping = new AbortController();
    return {
      message: ({ name }) => {
        queues.observe(name, responses, call, stopping.signal).catch((error: unknown) => {
          if (!(error instanceof StatusError)) throw error;
          // etcd ends the call with status OK, because `Observe` of `client/v3/concurrency/election.go` hides the
          // error.
          if (!stopping.signal.aborted) responses.end();
        });
      },
      halfClosed: () => {},
      canceled: () => stopping.abort(),
    };
  });
}

/**
 * Returns the leadership that a request names. Grants a lease if the request contains no lease ID, as etcd does.
 *
 * @throws StatusError if the request names no leadership.
 */
async function leadershipOf(queues: Queues, leader: LeaderKey | undefined, call: ServerCall): Promise<LeaderKey> {
  if (leader === undefined) throw failure('"leader" field must be provided');
  return { ...leader, lease: await queues.leaseOf(leader.lease, call) };
}

/**
 * The queues of the locks and elections. The keys of a queue have the prefix `name/`. The key with the lowest create
 * revision belongs to the holder or the leader.
 */
class Queues {
  readonly #member: Member;
  readonly #service: Service;

  constructor(member: Member, service: Service) {
    this.#member = member;
    this.#service = service;
  }

  /** Calls another method of the server with the token of the caller. @throws StatusError if the method fails. */
  async run<Request, Response>(
    method: Method<Request, Response, 'unary'>,
    request: Init<Request>,
    call: ServerCall,
  ): Promise<Response> {
    const answer = unaryRoute(this.#service, method.path).unary(
      decode(method.request, encode(method.request, request)),
      call,
    );
    return decode(method.response, encode(method.response, (await answer) as Init<Response>));
  }

  /** Returns the lease, or a new lease if the ID is 0. */
  async leaseOf(lease: bigint, call: ServerCall): Promise<bigint> {
    if (lease !== NO_LEASE) return lease;
    return (await this.run(methods.lease.leaseGrant, { ttl: DEFAULT_TTL_SECONDS }, call)).id;
  }

  async lock(
    { name, lease: given }: { readonly name: Uint8Array; readonly lease: bigint },
    call: ServerCall,
  ): Promise<{ header: ResponseHeader | undefined; key: Uint8Array }> {
    const { epoch } = this.#member;
    const lease = await this.leaseOf(given, call);
    const key = queueKey(name, lease);
    const owner: Init<RequestOp> = { request: { case: 'requestRange', value: firstOf(name) } };
    const entered = await this.#enter(key, NO_BYTES, lease, [owner], call);
    const [own, first] = entered.responses;
    const revision = entered.succeeded ? revisionOf(entered) : (keysIn(own)[0] as KeyValue).createRevision;
    const [holder] = keysIn(first);
    if (holder === undefined || holder.createRevision === revision) return { header: entered.header, key };
    try {
      await this.#becomesFirst(name, revision, call);
      const { header, kvs } = await this.run(methods.kv.range, { key }, call);
      if (kvs.length === 0) throw failure('mutex: session is expired');
      return { header, key };
    } catch (error) {
      if (call.signal.aborted)
        this.#cleanUp(epoch, () => this.run(methods.kv.deleteRange, { key }, this.#withoutToken(call)));
      throw error;
    }
  }

  async campaign(
    { name, lease: given, value }: { readonly name: Uint8Array; readonly lease: bigint; readonly value: Uint8Array },
    call: ServerCall,
  ): Promise<{ header: ResponseHeader | undefined; leader: LeaderKey }> {
    const { epoch } = this.#member;
    const lease = await this.leaseOf(given, call);
    const key = queueKey(name, lease);
    const entered = await this.#enter(key, value, lease, [], call);
    const [own] = keysIn(entered.responses[0]);
    const rev = entered.succeeded || own === undefined ? revisionOf(entered) : own.createRevision;
    if (!entered.succeeded && own !== undefined && keyId(own.value) !== keyId(value)) {
      try {
        await this.proclaim(key, rev, value, lease, call);
      } catch (error) {
        // `Campaign` of etcd's `client/v3/concurrency/election.go` gives up the leadership with the caller's token.
        this.#cleanUp(epoch, () => this.resign(key, rev, call));
        throw error;
      }
    }
    try {
      await this.#becomesFirst(name, rev, call);
    } catch (error) {
      if (call.signal.aborted) this.#cleanUp(epoch, () => this.resign(key, rev, this.#withoutToken(call)));
      throw error;
    }
    return { header: entered.header, leader: { name, key, rev, lease } };
  }

  async proclaim(
    key: Uint8Array,
    revision: bigint,
    value: Uint8Array,
    lease: bigint,
    call: ServerCall,
  ): Promise<ResponseHeader | undefined> {
    const put: Init<RequestOp> = { request: { case: 'requestPut', value: { key, value, lease } } };
    const { succeeded, header } = await this.#ifCreatedAt(key, revision, put, call);
    if (!succeeded) throw failure('election: not leader');
    return header;
  }

  async resign(key: Uint8Array, revision: bigint, call: ServerCall): Promise<ResponseHeader | undefined> {
    const deletion: Init<RequestOp> = { request: { case: 'requestDeleteRange', value: { key } } };
    return (await this.#ifCreatedAt(key, revision, deletion, call)).header;
  }

  /** Reads the first key of a queue. */
  first(name: Uint8Array, call: ServerCall): Promise<RangeResponse> {
    return this.run(methods.kv.range, firstOf(name), call);
  }

  /** Sends each value of each leader of the election, until the signal aborts. */
  async observe(
    name: Uint8Array,
    responses: ResponseStream<{ header: ResponseHeader | undefined; kv: KeyValue | undefined }>,
    call: ServerCall,
    signal: AbortSignal,
  ): Promise<void> {
    const isInQueue = (key: KeyId): boolean => key.startsWith(`${keyId(name)}/`);
    while (!signal.aborted) {
      const { header, kvs } = await this.first(name, call);
      const after = header?.revision ?? 0n;
      const leader = kvs[0];
      if (leader === undefined) {
        await this.#changeAfter(after, ({ key, type }) => isInQueue(key) && type === EventType.PUT, signal);
        continue;
      }
      if (signal.aborted) return;
      responses.send({ header, kv: leader });
      const leaderKey = keyId(leader.key);
      const isEnd = ({ key, type, kv }: Change): boolean => {
        if (key === leaderKey && type === EventType.PUT)
          responses.send({ header: this.#member.header(kv.modRevision), kv });
        return key === leaderKey && type === EventType.DELETE;
      };
      await this.#changeAfter(after, isEnd, signal);
    }
  }

  /** Creates the key if it does not exist, or else reads it. Carries out `others` in both cases. */
  #enter(
    key: Uint8Array,
    value: Uint8Array,
    lease: bigint,
    others: readonly Init<RequestOp>[],
    call: ServerCall,
  ): Promise<TxnResponse> {
    const put: Init<RequestOp> = { request: { case: 'requestPut', value: { key, value, lease } } };
    const get: Init<RequestOp> = { request: { case: 'requestRange', value: { key } } };
    const request = { compare: [isCreatedAt(key, 0n)], success: [put, ...others], failure: [get, ...others] };
    return this.run(methods.kv.txn, request, call);
  }

  /** Carries out an operation if the key exists and has the create revision `revision`. */
  #ifCreatedAt(key: Uint8Array, revision: bigint, operation: Init<RequestOp>, call: ServerCall): Promise<TxnResponse> {
    return this.run(methods.kv.txn, { compare: [isCreatedAt(key, revision)], success: [operation] }, call);
  }

  /** Resolves when the queue has no key with a lower create revision. */
  async #becomesFirst(name: Uint8Array, revision: bigint, call: ServerCall): Promise<void> {
    for (;;) {
      const ahead = {
        ...prefixOf(name),
        limit: 1n,
        sortOrder: SortOrder.DESCEND,
        sortTarget: SortTarget.CREATE,
        maxCreateRevision: revision - 1n,
      };
      const { header, kvs } = await this.run(methods.kv.range, ahead, call);
      if (kvs[0] === undefined) return;
      const awaited = keyId(kvs[0].key);
      const isDeletion = ({ key, type }: Change): boolean => key === awaited && type === EventType.DELETE;
      await this.#changeAfter(header?.revision ?? 0n, isDeletion, call.signal);
    }
  }

  /**
   * Calls `matches` with each change after a revision. Resolves when `matches` has returned true.
   *
   * @throws StatusError with status `Canceled` if the signal aborts.
   */
  #changeAfter(revision: bigint, matches: (change: Change) => boolean, signal: AbortSignal): Promise<void> {
    const { store } = this.#member;
    for (const { changes } of store.commits(revision + 1n, ALL_KEYS))
      if (changes.some(matches)) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const stop = store.onCommit(({ changes }) => {
        if (changes.some(matches)) finish(resolve);
      });
      const abort = (): void => finish(() => reject(new StatusError('Canceled', 'context canceled')));
      const offAbort = onAbort(signal, abort);
      const finish = (settle: () => void): void => {
        stop();
        offAbort();
        settle();
      };
      if (signal.aborted) abort();
    });
  }

  /** Returns a call by the server itself, because etcd cleans up without the token of the caller. */
  #withoutToken(call: ServerCall): ServerCall {
    return { metadata: {}, endpoint: call.endpoint, signal: new AbortController().signal };
  }

  /**
   * Calls `action`, which removes the key of a call that failed or was canceled, unless the server has stopped since
   * `epoch`. Ignores a `StatusError`, as etcd does.
   */
  #cleanUp(epoch: number, action: () => Promise<unknown>): void {
    if (epoch !== this.#member.epoch) return;
    action().catch((error: unknown) => {
      if (!(error instanceof StatusError)) throw error;
    });
  }
}

/** The codes of the errors of Go's contexts. */
const KEPT_CODES: readonly string[] = ['Canceled', 'DeadlineExceeded'];

/** The key of a contender: the name, a slash, and the ID of the lease in hexadecimal. */
function queueKey(name: Uint8Array, lease: bigint): Uint8Array {
  return concatBytes(name, toBytes(`/${lease.toString(16)}`, 'key'));
}

function prefixOf(name: Uint8Array): { readonly key: Uint8Array; readonly rangeEnd: Uint8Array } {
  return { key: concatBytes(name, toBytes('/', 'key')), rangeEnd: concatBytes(name, toBytes(AFTER_SLASH, 'key')) };
}

/** The request for the key with the lowest create revision. */
function firstOf(name: Uint8Array): Init<RangeRequest> {
  return { ...prefixOf(name), limit: 1n, sortOrder: SortOrder.ASCEND, sortTarget: SortTarget.CREATE };
}

/** The condition that a key has a create revision, or does not exist if the revision is 0. */
function isCreatedAt(key: Uint8Array, revision: bigint): Init<Compare> {
  const targetUnion = { case: 'createRevision', value: revision } as const;
  return { result: CompareResult.EQUAL, target: CompareTarget.CREATE, key, targetUnion };
}

function keysIn(op: TxnResponse['responses'][number] | undefined): readonly KeyValue[] {
  return op?.response?.case === 'responseRange' ? op.response.value.kvs : [];
}

function revisionOf({ header }: TxnResponse): bigint {
  return header?.revision ?? 0n;
}

/** Returns an error of etcd's client package. It has no gRPC status, so the server sends it with status `Unknown`. */
function failure(message: string): StatusError {
  return new StatusError('Unknown', message);
}

/**
 * Runs a handler. Replaces the status of an error by `Unknown`, unless the error is one of Go's contexts: the services
 * Lock and Election of etcd call KV and Lease through etcd's client package, whose errors have no gRPC status.
 */
async function withUnknownStatus<T>(action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof StatusError) || KEPT_CODES.includes(error.code)) throw error;
    throw failure(error.message);
  }
}
