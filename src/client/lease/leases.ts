import {
  checkBoolean,
  checkInt64,
  checkOptions,
  EtcdError,
  type Int64Like,
  int64Of,
  invalidInput,
  monotonicMs,
  type Printable,
  show,
} from '../../base/index.js';
import * as leaseMethods from '../../gen/methods/lease.js';
import {
  CALL_OPTIONS,
  type CallOptions,
  checkCallOptions,
  Result,
  type Rpc,
  readStream,
  type WithHeader,
  withHeader,
  withObserver,
} from '../../rpc/index.js';
import { keyOf } from '../kv/key-value.js';
import { type KeepAlive as LeaseKeepAlive, leaseLost, Moment } from './keep-alive.js';
import { type LeaseLike, leaseIdOf } from './lease-id.js';
import type { RenewalStream } from './renewal-stream.js';

/** The longest TTL in seconds without `allowLongTtl`. */
export const MAX_USUAL_TTL_S = 3_600;
/** The maximum TTL in seconds. etcd refuses a larger TTL (`MaxLeaseTTL` in `server/lease/lessor.go`). */
export const MAX_TTL = 9_000_000_000;

/** A lease as the server granted it. */
export interface Lease {
  readonly id: bigint;
  /** The granted TTL, in seconds. The server raises a requested TTL that is below the server's minimum. */
  readonly ttl: number;
  /**
   * When the client sent the grant request, in milliseconds on the monotonic clock. The lease lives for at least `ttl`
   * seconds from then on, unless a client revokes it.
   */
  readonly sentAt: number;
}

/** For each lease that `grant` has returned, when the client sent the request, on all clocks. */
const sentMoments = new WeakMap<object, Moment>();

/** Options of `lease.grant`. */
export interface GrantOptions extends CallOptions {
  /**
   * Seconds until the lease expires unless it is renewed: an integer from 1 to 3,600, or to 9,000,000,000 with
   * `allowLongTtl`.
   */
  readonly ttl: number;
  /**
   * Allows a `ttl` above an hour. Without this option, the client refuses such a TTL, because callers usually mean
   * milliseconds. Default false.
   */
  readonly allowLongTtl?: boolean | undefined;
  /** The ID of the lease, above 0n. Default: the server chooses the ID. */
  readonly id?: Int64Like | undefined;
}

const GRANT_OPTIONS = { ttl: checkTtl, allowLongTtl: checkBoolean, id: checkLeaseId, ...CALL_OPTIONS } as const;
const TIME_TO_LIVE_OPTIONS = { keys: checkBoolean, ...CALL_OPTIONS } as const;

/** The time that a lease has left. `grantedTtl` and `remainingTtl` are undefined if the lease does not exist. */
export type TimeToLive = {
  readonly id: bigint;
  /**
   * The keys that are attached to the lease, as text. Empty unless the option `keys` was true. Reading this property
   * throws an EtcdError with reason `NotText` if a key is not UTF-8: read `keyBytes` then.
   */
  readonly keys: readonly string[];
  /** The keys that are attached to the lease. Empty unless the option `keys` was true. */
  readonly keyBytes: readonly Uint8Array[];
} & (
  | {
      /** The granted TTL, in seconds. */
      readonly grantedTtl: number;
      /**
       * Seconds until the lease expires, unless it is renewed or revoked first. etcd's interface calls this value
       * `TTL`.
       */
      readonly remainingTtl: number;
    }
  | { readonly grantedTtl: undefined; readonly remainingTtl: undefined }
);

class TimeLeft extends Result {
  static override readonly name = 'Result';
  declare readonly keyBytes: readonly Uint8Array[];

  get keys(): readonly string[] {
    return this.keyBytes.map(keyOf);
  }

  override shown(): object {
    const { keyBytes: keys, ...others } = this;
    return { ...others, keys };
  }
}

/**
 * The method for a grant whose ID the server chooses. It is repeatable, because a second copy of the request grants
 * another lease, and never brings back a lease that has ended.
 */
export const REPEATABLE_GRANT = { ...leaseMethods.leaseGrant, repeatable: true } as const;

/**
 * Keeps a lease alive until the keepalive is closed or the lease is lost. The deadline of the lease counts from the
 * time when the client sent the latest acknowledged request, so the server does not end the lease earlier, except in
 * the cases that `docs/leases.md` lists.
 *
 * @example
 * const lease = await etcd.lease.grant({ ttl: 10 });
 * await using alive = etcd.lease.keepAlive(lease);
 * alive.signal.addEventListener('abort', () => console.error('lost:', alive.signal.reason));
 * await etcd.put('workers/1', 'up', { lease });
 */
export interface KeepAlive
  extends Omit<LeaseKeepAlive, 'signal' | 'ttl' | 'acknowledged' | 'lose' | 'lostBy' | 'onLost' | keyof Printable> {
  /**
   * Aborts when the lease is lost. The abort reason is an `EtcdError`. Each read of `aborted` compares the deadline
   * with the clocks of the machine, so the result is correct even if the timer fires late or the machine was suspended.
   */
  readonly signal: AbortSignal;
  /** The TTL in seconds that the latest grant or renewal returned. Undefined before the client knows the TTL. */
  readonly ttl: number | undefined;
}

/**
 * Grants, renews, revokes and lists leases. The server deletes the keys attached to a lease when the lease ends.
 *
 * @example
 * const lease = await etcd.lease.grant({ ttl: 10 });
 * await etcd.put('workers/1', 'ready', { lease: lease.id });
 */
export interface Leases extends Omit<LeaseClient, 'keepAlive' | 'withDefaultTimeout' | 'close' | 'isClosed'> {
  /**
   * Renews a lease each time a third of its TTL has passed, until the keepalive is closed or the lease is lost. If you
   * pass a `Lease` that `grant` returned, the keepalive is valid at once, because the client knows the deadline of the
   * lease. If you pass a lease ID, the keepalive is valid once the server has acknowledged the first renewal.
   *
   * @throws EtcdError with reason `InvalidInput` if `ttl` or `sentAt` of a `Lease` is a value that `grant` cannot have
   * returned.
   *
   * @example
   * const lease = await etcd.lease.grant({ ttl: 10 });
   * await using alive = etcd.lease.keepAlive(lease);
   * await etcd.put('workers/1', 'up', { lease });
   * console.log(alive.valid(), alive.remainingMs());
   */
  keepAlive(lease: Lease | LeaseLike): KeepAlive;
}

/** Implements `Leases`, which is an interface, because a test double cannot have the private fields of a class. */
export class LeaseClient {
  /** @internal The class name that `console.log` shows. */
  static readonly name = 'Leases';
  readonly #rpc: Rpc;
  readonly #renewals: RenewalStream;
  /** @internal */
  isClosed = false;

  /** @internal `renewals` is the stream that all keyspaces of the client share. */
  constructor(rpc: Rpc, renewals: RenewalStream) {
    this.#rpc = rpc;
    this.#renewals = renewals;
  }

  /**
   * Creates a lease. Without the option `id`, the server chooses the ID, and the client repeats the call until a server
   * answers or the time limit passes. If the answer to an attempt is lost, the server may keep the lease of this
   * attempt, without keys, until its TTL ends.
   *
   * With the option `id`, the client does not repeat a call whose outcome is unknown, because a copy of the request
   * that arrives late could grant the lease again after a client has revoked it.
   *
   * @throws EtcdError with reason `InvalidInput` if `ttl` or `id` is out of range; with reason `LeaseExist` if a lease
   * with the given `id` exists.
   *
   * @example
   * const lease = await etcd.lease.grant({ ttl: 60 });
   * await etcd.put('services/api', 'http://10.0.0.1', { lease });
   */
  async grant(options: GrantOptions): Promise<WithHeader<Lease>> {
    checkOptions(options, GRANT_OPTIONS, 'lease.grant');
    const { ttl: seconds, allowLongTtl, id, ...call } = options ?? {};
    const ttl = BigInt(checkUsualTtl(seconds, allowLongTtl));
    // The server may have granted any of the attempts, so the client counts the TTL from the first attempt. A transport of
    // the program may not call `sent`.
    const called = new Moment();
    let sent: Moment | undefined;
    const observer = {
      sent: () => {
        sent ??= new Moment();
      },
    };
    const method = id === undefined ? REPEATABLE_GRANT : leaseMethods.leaseGrant;
    const response = await this.#rpc.call(method, { ttl, id: int64Of(id) }, withObserver(call, observer));
    return granted(response.header, response.id, Number(response.ttl), sent ?? called);
  }

  /**
   * Ends a lease. The server then deletes the keys that are attached to the lease. The keepalives of the lease in the
   * same client and its namespaces end with reason `LeaseRevoked` when the client sends the request.
   *
   * @throws EtcdError with reason `LeaseNotFound` if the lease does not exist.
   *
   * @example
   * const lease = await etcd.lease.grant({ ttl: 60 });
   * await etcd.lease.revoke(lease);
   */
  async revoke(lease: LeaseLike, options: CallOptions = {}): Promise<WithHeader<object>> {
    checkCallOptions(options, 'lease.revoke');
    const id = leaseIdOf(lease, 'lease');
    const sent = (): void => this.#renewals.lose(id, leaseLost(id, 'LeaseRevoked', 'was revoked by this client'));
    const response = await this.#rpc.call(leaseMethods.leaseRevoke, { id }, withObserver(options, { sent }));
    // A transport of the program may not call `sent`.
    sent();
    return withHeader(response.header, {});
  }

  /**
   * Reads how much time a lease has left. If `keys` is true, also reads which keys are attached to the lease. For a
   * lease that does not exist, `grantedTtl` and `remainingTtl` are undefined.
   *
   * @example
   * const lease = await etcd.lease.grant({ ttl: 60 });
   * const { grantedTtl, remainingTtl, keys } = await etcd.lease.timeToLive(lease, { keys: true });
   * if (remainingTtl !== undefined) console.log(`${remainingTtl} of ${grantedTtl} s left, ${keys.length} keys`);
   */
  async timeToLive(
    lease: LeaseLike,
    options: { readonly keys?: boolean | undefined } & CallOptions = {},
  ): Promise<WithHeader<TimeToLive>> {
    checkOptions(options, TIME_TO_LIVE_OPTIONS, 'lease.timeToLive');
    const id = leaseIdOf(lease, 'lease');
    const response = await this.#rpc.call(leaseMethods.leaseTimeToLive, { id, keys: options.keys }, options);
    const { header, keys: keyBytes } = response;
    const [grantedTtl, remainingTtl] = [Number(response.grantedTtl), Math.max(0, Number(response.ttl))];
    // For a lease that does not exist, the server answers with a TTL of -1 and a granted TTL of 0.
    const times = grantedTtl <= 0 ? { grantedTtl: undefined, remainingTtl: undefined } : { grantedTtl, remainingTtl };
    return new TimeLeft(header, { id, ...times, keyBytes }) as TimeLeft & TimeToLive;
  }

  /**
   * Lists the IDs of all leases in the cluster.
   *
   * @example
   * const { ids } = await etcd.lease.list();
   * for (const id of ids) console.log(id.toString(16));
   */
  async list(options: CallOptions = {}): Promise<WithHeader<{ readonly ids: readonly bigint[] }>> {
    checkCallOptions(options, 'lease.list');
    const response = await this.#rpc.call(leaseMethods.leaseLeases, {}, options);
    return withHeader(response.header, { ids: response.leases.map(({ id }) => id) });
  }

  keepAlive(lease: Lease | LeaseLike): LeaseKeepAlive {
    const id = leaseIdOf(lease, 'lease');
    const isGranted = typeof lease === 'object' && 'sentAt' in lease;
    return this.#renewals.keepAlive(id, isGranted ? checkGranted(lease as Lease) : undefined, this);
  }

  /**
   * Renews a lease once. The returned `ttl` is the number of seconds until the lease expires.
   *
   * @throws EtcdError with reason `LeaseExpired` if the lease does not exist.
   *
   * @example
   * const lease = await etcd.lease.grant({ ttl: 60 });
   * const { ttl } = await etcd.lease.keepAliveOnce(lease);
   * console.log(`${ttl} s left`); // 60 s left
   */
  async keepAliveOnce(lease: LeaseLike, options: CallOptions = {}): Promise<WithHeader<Pick<Lease, 'id' | 'ttl'>>> {
    checkCallOptions(options, 'lease.keepAliveOnce');
    const id = leaseIdOf(lease, 'lease');
    const answers = readStream(this.#rpc, leaseMethods.leaseKeepAlive, { id }, this.#rpc.withDefaultTimeout(options));
    for await (const { header, ttl } of answers) {
      if (ttl <= 0n) throw leaseLost(id, 'LeaseExpired', 'does not exist on the server');
      return withHeader(header, { id, ttl: Number(ttl) });
    }
    throw new EtcdError('the server ended the keepalive stream without answering the renewal', {
      code: 'Unavailable',
      reason: 'ConnectionLost',
      outcome: 'unknown',
      method: leaseMethods.leaseKeepAlive.path,
    });
  }

  /** @internal Adds the client's default time limit if the options have none. */
  withDefaultTimeout(options: CallOptions): CallOptions {
    return this.#rpc.withDefaultTimeout(options);
  }

  /** @internal Ends every keepalive with reason `ClientClosed`. */
  close(): void {
    this.isClosed = true;
    this.#renewals.closeScope(this);
  }
}

/**
 * Checks the properties of a `Lease` that the caller passed. Refuses a `sentAt` in the future, because the client would
 * then believe that the lease lives longer than it does. Such a `sentAt` may come from the clock of another thread.
 */
function checkGranted(lease: Lease): { readonly ttl: number; readonly sent: Moment } {
  const { ttl, sentAt } = lease;
  if (!(Number.isFinite(ttl) && ttl > 0))
    throw invalidInput('lease.ttl', show(ttl), 'the ttl, in seconds, that lease.grant returned');
  const agoMs = typeof sentAt === 'number' ? monotonicMs() - sentAt : Number.NaN;
  if (agoMs >= 0) return { ttl, sent: sentMoments.get(lease) ?? new Moment(agoMs) };
  const allowed = 'the sentAt of lease.grant in this thread; elsewhere, pass only the ID';
  throw invalidInput('lease.sentAt', show(sentAt), allowed);
}

/** Returns the lease, and remembers when the client sent the request. */
function granted(header: Parameters<typeof withHeader>[0], id: bigint, ttl: number, sent: Moment): WithHeader<Lease> {
  const lease = withHeader(header, { id, ttl, sentAt: sent.monotonic });
  sentMoments.set(lease, sent);
  return lease;
}

function checkLeaseId(id: Int64Like, argument: string): bigint {
  return checkInt64(id, argument, 1n);
}

export function checkTtl(ttl: number, argument: string): number {
  if (Number.isInteger(ttl) && ttl >= 1 && ttl <= MAX_TTL) return ttl;
  throw invalidInput(argument, show(ttl), `whole seconds from 1 to ${MAX_TTL}`);
}

/**
 * Checks a TTL. Unless `allowLong` is true, refuses a TTL that is probably a number of milliseconds, because the locks
 * and caches of other libraries expect milliseconds.
 */
export function checkUsualTtl(ttl: number, allowLong = false): number {
  if (checkTtl(ttl, 'ttl') <= MAX_USUAL_TTL_S || allowLong) return ttl;
  throw invalidInput(
    'ttl',
    `${ttl} seconds (did you mean ttl: ${Math.ceil(ttl / 1_000)}?)`,
    `whole seconds from 1 to ${MAX_USUAL_TTL_S}, or more with allowLongTtl: true`,
  );
}
