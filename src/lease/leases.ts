import { CALL_OPTIONS, type CallOptions, checkCallOptions, type Rpc } from '../channel/rpc.js';
import { readStream } from '../channel/streams.js';
import { amended, callTimedOut, EtcdError, invalidInput } from '../errors/etcd-error.js';
import { methods } from '../gen/methods.js';
import { type WithHeader, withHeader } from '../kv/requests.js';
import { checkInt64, checkOptions, show } from '../runtime/arguments.js';
import { randomId } from '../runtime/bytes.js';
import { backoffMs, monotonicMs, pause } from '../runtime/timers.js';
import { type KeepAlive, leaseLost } from './keep-alive.js';
import { type LeaseLike, leaseIdOf } from './lease-id.js';
import { RenewalStream } from './renewal-stream.js';

/** The longest TTL in seconds. etcd refuses a longer one (`maxLeaseTTL` in `server/lease/lessor.go`). */
const MAX_TTL = 9_000_000_000;

/** A lease as the server granted it. */
export interface Lease {
  readonly id: bigint;
  /** Seconds granted. The server raises a TTL that is below its minimum. */
  readonly ttl: number;
  /** When the client sent the request, on its monotonic clock. The lease lives for at least `ttl` seconds from then. */
  readonly sentAt: number;
}

/** Options of `lease.grant`. */
export interface GrantOptions extends CallOptions {
  /** Seconds until the lease expires unless it is renewed: an integer from 1 to 9,000,000,000. */
  readonly ttl: number;
  /** The id of the lease, above 0n. Default: a random one. */
  readonly id?: bigint | undefined;
}

const GRANT_OPTIONS = { ttl: true, id: true, ...CALL_OPTIONS } as const;
const TIME_TO_LIVE_OPTIONS = { keys: true, ...CALL_OPTIONS } as const;

/** The time that a lease has left. `ttl` and `remaining` are undefined if the lease does not exist. */
export type TimeToLive = {
  readonly id: bigint;
  /** The keys that are attached to the lease, if the option `keys` asked for them. */
  readonly keys: readonly Uint8Array[];
} & (
  | {
      /** Seconds granted. */
      readonly ttl: number;
      /** Seconds left, unless the lease is renewed or revoked. */
      readonly remaining: number;
    }
  | { readonly ttl: undefined; readonly remaining: undefined }
);

/** Grants, renews, revokes and lists leases. The server deletes the keys attached to a lease when the lease ends. */
export class Leases {
  readonly #rpc: Rpc;
  readonly #renewals: RenewalStream;

  /** @internal */
  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.#renewals = new RenewalStream(rpc);
  }

  /**
   * Creates a lease. If the answer to a request with a random id is lost, the client repeats the request: the answer
   * "lease already exists" then means that an earlier copy of the request was granted.
   *
   * @throws EtcdError with reason `InvalidInput` for a `ttl` or `id` out of range, and with reason `LeaseExist` if a
   * lease with the given `id` exists.
   *
   * @example
   * const lease = await etcd.lease.grant({ ttl: 60 });
   * await etcd.put('services/api', 'http://10.0.0.1', { lease });
   */
  async grant(options: GrantOptions): Promise<WithHeader<Lease>> {
    checkOptions(options, GRANT_OPTIONS, 'lease.grant');
    const ttl = checkTtl(options?.ttl);
    const id = options.id === undefined ? randomId() : checkInt64(options.id, 'id', 1n);
    // The server may have granted any of the attempts, so the client counts the TTL from the first one.
    let sentAt = 0;
    const onSent = (): void => {
      sentAt ||= monotonicMs();
    };
    const { signal, endpoint } = options;
    const { timeoutMs } = this.#rpc.withDefaultTimeout(options);
    const left = this.#rpc.sharedTimeout({ signal, timeoutMs, endpoint });
    const deadline = monotonicMs() + timeoutMs;
    const limit = { timeoutMs, method: methods.lease.leaseGrant };
    let doubtful = false;
    let last: EtcdError | undefined;
    for (let attempt = 0; ; attempt += 1) {
      try {
        const response = await this.#rpc.call(methods.lease.leaseGrant, { ttl: BigInt(ttl), id }, left(), onSent);
        return withHeader(response.header, { id: response.id, ttl: Number(response.ttl), sentAt });
      } catch (error) {
        if (!(error instanceof EtcdError)) throw error;
        // The error of the last attempt names only the time that was left for it, so report the limit of the call.
        if (last !== undefined && error.reason === 'DeadlineExceeded') throw callTimedOut(limit, 'unknown', last);
        // No other client has the same random id, so an earlier attempt was granted or the runtime sent the request
        // twice.
        if (options.id === undefined && error.reason === 'LeaseExist') return this.#adopt(id, sentAt, left());
        // An earlier attempt may have been granted, even if this one was not.
        if (doubtful && error.outcome !== 'unknown') throw amended(error, { outcome: 'unknown' });
        doubtful = error.outcome === 'unknown';
        if (options.id !== undefined || error.outcome !== 'unknown' || error.code !== 'Unavailable') throw error;
        last = error;
        await pause(Math.min(backoffMs(attempt), deadline - monotonicMs()), signal);
        if (signal?.aborted) throw error;
        if (monotonicMs() >= deadline) throw callTimedOut(limit, 'unknown', error);
      }
    }
  }

  /**
   * Ends a lease. The server then deletes the keys attached to it. Keepalives of this client for the lease end with
   * reason `LeaseRevoked` before the request is sent.
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
    this.#renewals.lose(id, leaseLost(id, 'LeaseRevoked', 'it was revoked by this client'));
    const response = await this.#rpc.call(methods.lease.leaseRevoke, { id }, options);
    return withHeader(response.header, {});
  }

  /**
   * Reads how long a lease has left, and its keys if `keys` is true. For a lease that does not exist, `ttl` and
   * `remaining` are undefined.
   *
   * @example
   * const lease = await etcd.lease.grant({ ttl: 60 });
   * const { ttl, remaining, keys } = await etcd.lease.timeToLive(lease, { keys: true });
   * if (remaining !== undefined) console.log(`${remaining} of ${ttl} s left, ${keys.length} keys`);
   */
  async timeToLive(
    lease: LeaseLike,
    options: { readonly keys?: boolean | undefined } & CallOptions = {},
  ): Promise<WithHeader<TimeToLive>> {
    checkOptions(options, TIME_TO_LIVE_OPTIONS, 'lease.timeToLive');
    const id = leaseIdOf(lease, 'lease');
    const response = await this.#rpc.call(methods.lease.leaseTimeToLive, { id, keys: options.keys }, options);
    const { header, ttl, grantedTtl, keys } = response;
    // For a lease that does not exist, the server answers with a TTL of -1 and a granted TTL of 0.
    if (grantedTtl <= 0n) return withHeader(header, { id, ttl: undefined, remaining: undefined, keys });
    return withHeader(header, { id, ttl: Number(grantedTtl), remaining: Math.max(0, Number(ttl)), keys });
  }

  /**
   * Lists the ids of all leases of the cluster.
   *
   * @example
   * const { ids } = await etcd.lease.list();
   * for (const id of ids) console.log(id.toString(16));
   */
  async list(options: CallOptions = {}): Promise<WithHeader<{ readonly ids: readonly bigint[] }>> {
    checkCallOptions(options, 'lease.list');
    const response = await this.#rpc.call(methods.lease.leaseLeases, {}, options);
    return withHeader(response.header, { ids: response.leases.map(({ id }) => id) });
  }

  /**
   * Renews a lease at a third of its TTL until the keepalive is closed or the lease is lost. A `Lease` that `grant`
   * returned is valid at once, because its deadline is known. A lease given by its id is valid once the first
   * renewal is acknowledged.
   *
   * @throws EtcdError with reason `InvalidInput` if a `Lease` has a `ttl` or `sentAt` that `grant` cannot have
   * returned.
   *
   * @example
   * const lease = await etcd.lease.grant({ ttl: 10 });
   * await using alive = etcd.lease.keepAlive(lease);
   * await etcd.put('workers/1', 'up', { lease });
   * console.log(alive.valid(), alive.remainingMs());
   */
  keepAlive(lease: Lease | LeaseLike): KeepAlive {
    const id = leaseIdOf(lease, 'lease');
    const isGranted = typeof lease === 'object' && 'sentAt' in lease;
    return this.#renewals.keepAlive(id, isGranted ? checkGranted(lease as Lease) : undefined);
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
    const answers = readStream(this.#rpc, methods.lease.leaseKeepAlive, { id }, this.#rpc.withDefaultTimeout(options));
    for await (const { header, ttl } of answers) {
      if (ttl <= 0n) throw leaseLost(id, 'LeaseExpired', 'it does not exist on the server');
      return withHeader(header, { id, ttl: Number(ttl) });
    }
    throw new EtcdError('the server ended the stream without an answer', {
      code: 'Unavailable',
      reason: 'ConnectionLost',
      outcome: 'unknown',
      method: methods.lease.leaseKeepAlive.path,
    });
  }

  /** @internal Returns the options with the client's default time limit, unless they set a limit. */
  withDefaultTimeout(options: CallOptions): CallOptions {
    return this.#rpc.withDefaultTimeout(options);
  }

  /** @internal Ends every keepalive with reason `ClientClosed`. */
  close(): void {
    this.#renewals.close();
  }

  /** Returns the lease that an earlier copy of the grant request created. */
  async #adopt(id: bigint, sentAt: number, options: CallOptions): Promise<WithHeader<Lease>> {
    const { header, ttl } = await this.timeToLive(id, options).catch((error: EtcdError) => {
      throw amended(error, { outcome: 'unknown', method: methods.lease.leaseGrant.path });
    });
    if (ttl === undefined) throw leaseLost(id, 'LeaseExpired', 'it ended before the client had an answer');
    return withHeader(header, { id, ttl, sentAt });
  }
}

/**
 * Refuses a future `sentAt` (from another thread's clock), because the lease would seem to live longer than it does.
 */
function checkGranted({ ttl, sentAt }: Lease): Pick<Lease, 'ttl' | 'sentAt'> {
  if (typeof ttl !== 'number' || !(ttl > 0)) throw invalidInput('lease.ttl', show(ttl), 'the ttl of the grant');
  if (typeof sentAt === 'number' && sentAt <= monotonicMs()) return { ttl, sentAt };
  const allowed = "a past time on this thread's clock, or the id alone";
  throw invalidInput('lease.sentAt', show(sentAt), allowed);
}

function checkTtl(ttl: number): number {
  if (Number.isInteger(ttl) && ttl >= 1 && ttl <= MAX_TTL) return ttl;
  throw invalidInput('ttl', show(ttl), `whole seconds from 1 to ${MAX_TTL}`);
}
