import { EtcdError, type Outcome } from '../../src/base/etcd-error.js';
import { errorFromStatus } from '../../src/base/status-error.js';
import { methods } from '../../src/gen/methods.js';
import type { Interceptor } from '../../src/rpc/interceptors.js';
import type { StatusError } from '../../src/testing/memory/service.js';
import { bothObservers, type Metadata, type UnaryCall } from '../../src/wire/transport.js';
import type { Process } from './process.js';
import type { World } from './world.js';

/**
 * The metadata field that contains the number of a call, and the metadata field that marks a copy that the client has
 * not sent.
 */
const CALL = 'simulated-call';
const COPY = 'simulated-copy';
/** How much later than its deadline a call may end if all timers are on time, in milliseconds. */
const LATENESS_MS = 2;
/** The maximum number of attempts of a call if all members fail: a fixed number, plus a number for each second. */
const MAX_ATTEMPTS = 12;
const MAX_ATTEMPTS_PER_SECOND = 12;

/**
 * The maximum number of calls of a process: a fixed number, plus a number for each operation and for each second. An
 * operation may be a job that several workers try one after the other.
 */
const MAX_CALLS = { idle: 20, perOperation: 16, perSecond: 6 } as const;

/** The error reasons that the client itself gives to a call that a fault has ended. */
const CONNECTION_REASONS: ReadonlySet<string> = new Set(['ConnectFailed', 'ConnectionLost', 'StreamRefused']);

/** The properties of a history on which the permitted delays and errors of its calls depend. */
export interface CallRules {
  /** How late a timer may be, in milliseconds. */
  readonly maxTimerLagMs: number;
  /** Whether the store may be replaced. */
  readonly isRestored: boolean;
  /** The URLs of the members. */
  readonly endpoints: readonly string[];
  violated(rule: string, detail: string): void;
}

/** A unary call of a client, and the effects that the call has had at the servers. */
interface JudgedCall {
  readonly path: string;
  readonly process: Process;
  readonly isRepeatable: boolean;
  readonly startMs: number;
  attempts: number;
  /** How many times the request itself has arrived. Copies do not count. */
  received: number;
  /** The revisions of the store after the request itself was applied. Copies do not count. */
  readonly applied: bigint[];
  /** The reasons of the errors that the servers have answered. */
  readonly refusals: Set<string>;
  /** How the call has ended. Undefined while it runs, and if its process was killed. */
  end: { readonly outcome: Outcome | 'ok'; readonly reason: string; readonly revision: bigint | undefined } | undefined;
}

/**
 * Judges every unary call of a history, whatever the workload: when the call ends, how many attempts it makes, and
 * whether its result agrees with its effects at the servers.
 */
export class Calls {
  readonly #world: World;
  readonly #rules: CallRules;
  readonly #calls: JudgedCall[] = [];

  constructor(world: World, rules: CallRules) {
    this.#world = world;
    this.#rules = rules;
  }

  /** Returns the interceptor for a client. `isClosed` returns whether the program has closed the client. */
  interceptor(process: Process, isClosed: () => boolean): Interceptor {
    return {
      unary: async (call, next) => {
        const judged = this.#begin(process, call);
        const metadata = { ...call.metadata, [CALL]: String(this.#calls.length - 1) };
        const attempt = (): void => {
          judged.attempts += 1;
        };
        try {
          const response = await next({ ...call, metadata, observer: bothObservers({ attempt }, call.observer) });
          const { header } = response as { readonly header?: { readonly revision?: bigint } };
          judged.end = { outcome: 'ok', reason: '', revision: header?.revision };
          this.#ended(judged, call);
          return response;
        } catch (error) {
          if (error instanceof EtcdError) {
            judged.end = { outcome: error.outcome, reason: error.reason, revision: undefined };
            this.#ended(judged, call);
            this.#judgeError(judged, call, error, isClosed());
          } else this.#rules.violated('unexpected error', `${judged.path}: ${String(error)}`);
          throw error;
        }
      },
    };
  }

  /** Records that a request has arrived. */
  received(metadata: Metadata): void {
    const call = this.#original(metadata);
    if (call !== undefined) call.received += 1;
  }

  /**
   * Records that the server has changed the store for a request. `revision` is the revision of the store after the
   * change.
   */
  applied(metadata: Metadata, revision: bigint): void {
    this.#original(metadata)?.applied.push(revision);
  }

  /** Records that the server has answered with an error. */
  refused(metadata: Metadata, { code, message }: StatusError): void {
    const call = this.#original(metadata);
    call?.refusals.add(errorFromStatus(code, message, { method: call.path, endpoint: '' }).reason);
  }

  /** Checks that a process has not made too many calls for its operations. */
  checkCost(process: Process, operations: number): void {
    // The interval of the option `autoSyncIntervalMs` decides how often a client reads the member list.
    const { path: synced } = methods.cluster.memberList;
    const calls = this.#calls.filter((call) => call.process === process && call.path !== synced);
    const seconds = (this.#world.now - (calls[0]?.startMs ?? this.#world.now)) / 1_000;
    const { idle, perOperation, perSecond } = MAX_CALLS;
    if (calls.length <= idle + perOperation * operations + perSecond * seconds) return;
    const detail = `${calls.length} of ${process.name} for ${operations} operations within ${seconds} s`;
    this.#rules.violated('too many calls', detail);
  }

  /** Compares the results of all calls with the effects at the servers. */
  check(): void {
    for (const call of this.#calls) {
      const { path, process, end, received, applied, isRepeatable } = call;
      const detail = `${path} of ${process.name} at ${call.startMs}`;
      if (!isRepeatable && applied.length > 1)
        this.#rules.violated('applied twice', `${detail}, at the revisions ${applied.join(', ')}`);
      if (end === undefined) continue;
      const { outcome, reason, revision } = end;
      // The outcome of a call that only reads has no meaning.
      if (!isRepeatable && outcome === 'not-sent' && received > 0)
        this.#rules.violated('wrong outcome', `${detail} was received, but ended as not-sent (${reason})`);
      if (outcome === 'rejected' && applied.length > 0)
        this.#rules.violated('wrong outcome', `${detail} was applied, but ended as rejected (${reason})`);
      if (outcome !== 'ok') continue;
      if (received === 0) this.#rules.violated('invented answer', `${detail} was never received`);
      const isWrong = applied.length > 0 && revision !== undefined && !applied.includes(revision);
      if (isWrong && !isRepeatable)
        this.#rules.violated('wrong revision', `${detail} returned ${revision}, but was applied at ${applied[0]}`);
    }
  }

  /** Returns the metadata of a copy of a request. */
  static copyOf(metadata: Metadata): Metadata {
    return { ...metadata, [COPY]: 'yes' };
  }

  #begin(process: Process, { method }: UnaryCall<unknown, unknown>): JudgedCall {
    const judged: JudgedCall = {
      path: method.path,
      process,
      isRepeatable: method.repeatable === true,
      startMs: this.#world.time,
      attempts: 0,
      received: 0,
      applied: [],
      refusals: new Set(),
      end: undefined,
    };
    this.#calls.push(judged);
    return judged;
  }

  #original(metadata: Metadata): JudgedCall | undefined {
    const { [CALL]: id, [COPY]: copy } = metadata;
    return id === undefined || copy !== undefined ? undefined : this.#calls[Number(id)];
  }

  /** Checks that a call has ended in time, and has not made too many attempts. */
  #ended({ path, process, startMs, attempts }: JudgedCall, { deadline }: UnaryCall<unknown, unknown>): void {
    const { time } = this.#world;
    const { maxTimerLagMs, violated } = this.#rules;
    const dueMs = Math.max(process.worldAt(deadline), process.stalledUntil);
    const lateMs = time - dueMs;
    if (lateMs > maxTimerLagMs + LATENESS_MS)
      violated('late end', `${path} of ${process.name}, ${lateMs} ms after its deadline`);
    const seconds = (time - startMs) / 1_000;
    if (attempts > MAX_ATTEMPTS + MAX_ATTEMPTS_PER_SECOND * seconds)
      violated('too many attempts', `${attempts} of ${path} of ${process.name} within ${seconds} s`);
  }

  /** Checks that the reason of an error is one that the call can have. */
  #judgeError(
    { path, refusals, process }: JudgedCall,
    { signal, deadline, endpoint: named }: UnaryCall<unknown, unknown>,
    error: EtcdError,
    isClosed: boolean,
  ): void {
    const { violated, endpoints, isRestored } = this.#rules;
    const { reason, method, endpoint } = error;
    const wrong = (why: string): void => violated('wrong error', `${path}: ${why}: ${reason}, ${error.message}`);
    if (method !== path && method !== undefined) wrong(`the method is ${method}`);
    if (endpoint !== undefined && !endpoints.includes(endpoint)) wrong(`the endpoint is ${endpoint}`);
    if (endpoint !== undefined && named !== undefined && endpoint !== named) wrong(`the call was for ${named}`);
    if (refusals.has(reason) || CONNECTION_REASONS.has(reason)) return;
    switch (reason) {
      case 'DeadlineExceeded':
        if (process.monotonicAt(this.#world.time) < deadline - 1) wrong(`the deadline is ${deadline}`);
        return;
      case 'Canceled':
        if (!signal?.aborted) wrong('nothing has canceled it');
        return;
      case 'ClientClosed':
        if (!isClosed) wrong('the client is open');
        return;
      case 'ClusterChanged':
        if (!isRestored) wrong('the store is the same');
        return;
      case 'InvalidInput':
        // The client's endpoints were replaced while the call waited.
        if (named === undefined || !error.message.includes(`endpoint: got ${named}`)) wrong('no argument is wrong');
        return;
      default:
        if (path === methods.auth.authenticate.path) return;
        wrong('no server has answered that');
    }
  }
}
