import {
  after,
  canceled,
  clientClosed,
  Deadlines,
  EtcdError,
  type Expiring,
  monotonicMs,
  onAbort,
  timedOut,
  UniqueQueue,
} from '../base/index.js';
import type { MethodPath } from '../gen/methods.js';
import type { UnaryCall } from '../wire/index.js';
import { type CallClass, type EndpointPool, hasRoom, type PooledEndpoint } from './endpoint-pool.js';

/**
 * Interval in milliseconds at which the queue checks whether an endpoint has room for a waiting call. If a server stops
 * answering, no call ends, and only these checks find room at another endpoint.
 */
const RECHECK_MS = 250;

/** RPCs of etcd's lock and election services that put a key, and answer when the caller holds the lock or leads. */
const PUT_THEN_WAIT: ReadonlySet<string> = new Set<MethodPath>([
  '/v3lockpb.Lock/Lock',
  '/v3electionpb.Election/Campaign',
]);

/**
 * RPCs that other calls or other clients wait for: releases of locks and leaderships, and `Authenticate`, without which
 * no other call succeeds.
 */
const URGENT: ReadonlySet<string> = new Set<MethodPath>([
  '/etcdserverpb.Lease/LeaseRevoke',
  '/v3lockpb.Lock/Unlock',
  '/v3electionpb.Election/Resign',
  '/etcdserverpb.Auth/Authenticate',
]);

export function classOf({ method, urgent }: UnaryCall<unknown, unknown>): CallClass {
  if (urgent === true || URGENT.has(method.path)) return 'urgent';
  return PUT_THEN_WAIT.has(method.path) ? 'blocking' : 'normal';
}

/**
 * How many turns of the microtask queue `idle` waits for calls that have not reached the channel yet, because a layer
 * around it waits, for example for a token that is known already.
 */
const LAYER_TURNS = 50;

interface Queue {
  readonly callClass: CallClass;
  readonly endpoint: string | undefined;
  readonly waiting: UniqueQueue<WaitingCall>;
}

/**
 * Bounds the number of calls that are in flight at each endpoint, and queues the other calls. Each class of calls has
 * one queue for each endpoint that the calls name, and one queue for the calls that name no endpoint. The calls of a
 * queue leave it in the order in which they entered it. The queues take turns: each turn lets at most one call leave.
 *
 * A call waits here until it has an endpoint. The streams of calls that have an endpoint wait in the `StreamTable` of
 * their connection, because the client learns how many streams a server allows only from the SETTINGS of the
 * connection, which a call opens after it has left this queue. `StreamTable` also holds the streams that `maxInFlight`
 * does not count, and the calls that do not return to this queue: those that come from another endpoint after a failure,
 * or from a connection that opens no more streams. If a call ends in one of the two queues, the outcome of the attempt is
 * `not-sent`.
 */
export class CallQueue {
  readonly #endpoints: EndpointPool;
  /** The bound for the normal calls at one endpoint. The urgent calls have a separate bound of the same size. */
  readonly maxInFlight: number;
  readonly #queues: Queue[] = [];
  /** Number of turns so far. This number modulo the number of queues is the index of the queue whose turn is next. */
  #turn = 0;
  /** Number of waiting calls in all queues. */
  #size = 0;
  /** Number of calls in flight, except those of the class `blocking`. */
  #inFlight = 0;
  /** Ends the wait of `idle`. */
  #onIdle: (() => void) | undefined;
  /** The timer does not keep the process alive, because the calls in flight do so. */
  readonly #deadlines = new Deadlines<WaitingCall>('background');
  #stopRecheck: (() => void) | undefined;
  #closed = false;

  constructor(endpoints: EndpointPool, maxInFlight: number) {
    this.#endpoints = endpoints;
    this.maxInFlight = maxInFlight;
  }

  /**
   * Returns the endpoint for a call, and counts the call as in flight there until the channel calls `leaveEndpoint`.
   * Returns undefined if the call must `wait`.
   *
   * @throws EtcdError, reason `InvalidInput`, if the call names an endpoint that the client does not use.
   */
  enter({ endpoint }: UnaryCall<unknown, unknown>, callClass: CallClass): PooledEndpoint | undefined {
    if (this.#size > 0 && (this.#find(endpoint, callClass)?.waiting.size ?? 0) > 0) return undefined;
    return this.#pick(endpoint, callClass);
  }

  /**
   * Waits until an endpoint has room for the call. Then does the same as `enter`.
   *
   * @throws EtcdError with outcome `not-sent` if the call times out or is canceled, if the client is closed, or if the
   * client no longer uses the endpoint that the call names.
   */
  wait(call: UnaryCall<unknown, unknown>, callClass: CallClass): Promise<PooledEndpoint> {
    const { signal, deadline, endpoint, method } = call;
    if (this.#closed) throw clientClosed('not-sent', method.path);
    if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
    if (deadline <= monotonicMs()) throw neverSent(call, this.maxInFlight);
    return new Promise((resolve) => {
      const { waiting } = this.#queueOf(endpoint, callClass);
      const entry = new WaitingCall(this, call, waiting, resolve);
      waiting.add(entry);
      this.#size += 1;
      this.#deadlines.add(entry);
      this.#recheckLater();
    });
  }

  /**
   * Picks the endpoint for the next attempt of a call in flight. Picks `before`, the endpoint of the last attempt, if
   * `stays` is true and this endpoint is available. The call does not wait again, so it may exceed the bound of another
   * endpoint.
   */
  move(
    { endpoint }: UnaryCall<unknown, unknown>,
    callClass: CallClass,
    before: PooledEndpoint,
    stays: boolean,
  ): PooledEndpoint {
    if (stays && this.#endpoints.isAvailable(before)) return before;
    const picked = this.#endpoints.pickForCall(endpoint, callClass, this.maxInFlight);
    this.#count(picked, callClass, 1);
    this.leaveEndpoint(before, callClass);
    return picked;
  }

  /** Stops counting the call, which `enter`, `wait` or `move` has counted, and lets waiting calls use the room. */
  leaveEndpoint(endpoint: PooledEndpoint, callClass: CallClass): void {
    this.#count(endpoint, callClass, -1);
    this.#endpoints.release(endpoint);
    if (this.#size > 0) this.#admit();
    if (this.#open === 0) this.#onIdle?.();
  }

  /** Removes a call whose wait has timed out or was canceled. */
  remove(entry: WaitingCall): void {
    if (entry.waiting.delete(entry)) this.#removed(entry);
    if (this.#size > 0) this.#admit();
    if (this.#open === 0) this.#onIdle?.();
  }

  /**
   * Resolves when no call is in flight or waits, except calls of the class `blocking`, which may wait for other clients
   * for any time.
   */
  async idle(): Promise<void> {
    for (let turn = 0; turn < LAYER_TURNS || this.#open > 0; turn += 1) {
      if (this.#open === 0) await undefined;
      else
        await new Promise<void>((resolve) => {
          this.#onIdle = resolve;
        });
    }
  }

  /** Ends all waits with reason `ClientClosed`. */
  close(): void {
    this.#closed = true;
    for (const { waiting } of this.#queues)
      for (let entry = waiting.take(); entry !== undefined; entry = waiting.take()) {
        this.#removed(entry);
        entry.reject(clientClosed('not-sent', entry.call.method.path));
      }
    this.#stopRecheck?.();
    this.#deadlines.stop();
  }

  get #open(): number {
    return this.#inFlight + this.#size;
  }

  #count({ inFlight }: PooledEndpoint, callClass: CallClass, change: 1 | -1): void {
    inFlight[callClass] += change;
    if (callClass !== 'blocking') this.#inFlight += change;
  }

  #find(endpoint: string | undefined, callClass: CallClass): Queue | undefined {
    return this.#queues.find((queue) => queue.endpoint === endpoint && queue.callClass === callClass);
  }

  #queueOf(endpoint: string | undefined, callClass: CallClass): Queue {
    const found = this.#find(endpoint, callClass);
    if (found !== undefined) return found;
    const queue = { endpoint, callClass, waiting: new UniqueQueue<WaitingCall>() };
    this.#queues.push(queue);
    return queue;
  }

  #pick(url: string | undefined, callClass: CallClass): PooledEndpoint | undefined {
    const endpoint = this.#endpoints.pickForCall(url, callClass, this.maxInFlight);
    if (hasRoom(endpoint, callClass, this.maxInFlight)) {
      this.#count(endpoint, callClass, 1);
      return endpoint;
    }
    this.#endpoints.release(endpoint);
    return undefined;
  }

  /** Takes calls from the queues in turn, until there is no room for the first call of any queue. */
  #admit(): void {
    for (let full = 0; full < this.#queues.length; ) {
      const queue = this.#queues[this.#turn % this.#queues.length] as Queue;
      this.#turn += 1;
      full = this.#admitFirst(queue) ? 0 : full + 1;
    }
  }

  /**
   * Takes the first call from the queue. Returns false if the queue is empty, if there is no room for the call, or if
   * the deadline of the call has passed. In the last case, the timer of `Deadlines` ends the call, possibly in a later
   * turn of the event loop.
   */
  #admitFirst({ endpoint, callClass, waiting }: Queue): boolean {
    if (waiting.first === undefined || waiting.first.deadline <= monotonicMs()) return false;
    let picked: PooledEndpoint | EtcdError | undefined;
    try {
      picked = this.#pick(endpoint, callClass);
    } catch (error) {
      // The client no longer uses the endpoint that the call names.
      picked = error as EtcdError;
    }
    if (picked === undefined) return false;
    const entry = waiting.take() as WaitingCall;
    this.#removed(entry);
    if (picked instanceof EtcdError) entry.reject(picked);
    else entry.resolve(picked);
    return true;
  }

  #removed(entry: WaitingCall): void {
    this.#size -= 1;
    this.#deadlines.delete(entry);
    entry.offAbort?.();
  }

  #recheckLater(): void {
    this.#stopRecheck ??= after(RECHECK_MS, () => {
      this.#stopRecheck = undefined;
      this.#admit();
      if (this.#size > 0) this.#recheckLater();
    });
  }
}

class WaitingCall implements Expiring {
  slot = -1;
  readonly call: UnaryCall<unknown, unknown>;
  readonly waiting: UniqueQueue<WaitingCall>;
  readonly resolve: (endpoint: PooledEndpoint | Promise<never>) => void;
  readonly offAbort: (() => void) | undefined;
  readonly #owner: CallQueue;

  constructor(
    owner: CallQueue,
    call: UnaryCall<unknown, unknown>,
    waiting: UniqueQueue<WaitingCall>,
    resolve: (endpoint: PooledEndpoint | Promise<never>) => void,
  ) {
    this.#owner = owner;
    this.call = call;
    this.waiting = waiting;
    this.resolve = resolve;
    const { signal, method } = call;
    if (signal !== undefined)
      this.offAbort = onAbort(signal, () => this.#end(canceled(signal, 'not-sent', method.path)));
  }

  reject(error: EtcdError): void {
    this.resolve(Promise.reject(error));
  }

  get deadline(): number {
    return this.call.deadline;
  }

  expire(): void {
    this.#end(neverSent(this.call, this.#owner.maxInFlight));
  }

  #end(error: EtcdError): void {
    this.#owner.remove(this);
    this.reject(error);
  }
}

function neverSent({ timeoutMs, method }: UnaryCall<unknown, unknown>, maxInFlight: number): EtcdError {
  const { problem, ...details } = timedOut('call', timeoutMs, 'not-sent', method.path);
  const full = `it was never sent, because maxInFlight = ${maxInFlight} earlier calls were in flight`;
  return new EtcdError(`${problem}; ${full}`, details);
}
