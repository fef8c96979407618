import { CALL_OPTIONS, type CallOptions, checkCallOptions, type Rpc } from '../channel/rpc.js';
import { readStream } from '../channel/streams.js';
import { amended, EtcdError, invalidInput, timedOut } from '../errors/etcd-error.js';
import { methods } from '../gen/methods.js';
import { type WithHeader, withHeader } from '../kv/requests.js';
import { checkInt64, checkOptions, show } from '../runtime/arguments.js';
import { randomId } from '../runtime/bytes.js';
import { backoffMs, monotonicMs, pause } from '../runtime/timers.js';
import { type KeepAlive, leaseLost } from './keep-alive.js';
import { LeaseKeeper } from './keeper.js';

/** etcd's own limit, in seconds. */
const MAX_TTL = 9_000_000_000;

/** A lease as granted. */
export interface Lease {
  readonly id: bigint;
  /** Seconds granted; the server raises small wishes to its minimum. */
  readonly ttl: number;
  /** When the request was sent, on the monotonic clock: the lease lives at least `ttl` from then. */
  readonly sentAt: number;
}

export interface GrantOptions extends CallOptions {
  /** Seconds without renewal until the lease ends: whole, from 1 to 9,000,000,000. */
  readonly ttl: number;
  /** The lease's number, above 0n. Default: a random one. */
  readonly id?: bigint | undefined;
}

const GRANT_OPTIONS = { ttl: true, id: true, ...CALL_OPTIONS } as const;
const TIME_TO_LIVE_OPTIONS = { keys: true, ...CALL_OPTIONS } as const;

/** What a lease has left. */
export interface TimeToLive {
  readonly id: bigint;
  /** Seconds that remain; -1 if there is no such lease. */
  readonly ttl: number;
  /** Seconds granted; 0 if there is no such lease. */
  readonly grantedTtl: number;
  /** Keys attached, if asked for. */
  readonly keys: readonly Uint8Array[];
}

/** Leases: keys attached to one are deleted when it ends. */
export class Leases {
  readonly #rpc: Rpc;
  readonly #keeper: LeaseKeeper;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.#keeper = new LeaseKeeper(rpc);
  }

  /**
   * Creates a lease. With a number of our own choice a lost answer is no trouble: when the request is repeated, "lease
   * already exists" means the first one came through.
   */
  async grant(options: GrantOptions): Promise<WithHeader<Lease>> {
    checkOptions(options, GRANT_OPTIONS, 'lease.grant');
    const ttl = checkTtl(options?.ttl);
    const id = options.id === undefined ? randomId() : checkInt64(options.id, 'id', 1n);
    // The server counts from some time after the request was handed to a connection: the first that may have counted.
    let sentAt = 0;
    const onSent = (): void => {
      sentAt ||= monotonicMs();
    };
    const { signal, endpoint } = options;
    const { timeoutMs } = this.#rpc.withDefaultTimeout(options);
    const left = this.#rpc.sharedTimeout({ signal, timeoutMs, endpoint });
    const deadline = monotonicMs() + timeoutMs;
    let doubtful = false;
    let last: EtcdError | undefined;
    for (let attempt = 0; ; attempt += 1) {
      try {
        const response = await this.#rpc.call(methods.lease.leaseGrant, { ttl: BigInt(ttl), id }, left(), onSent);
        return withHeader(response.header, { id: response.id, ttl: Number(response.ttl), sentAt });
      } catch (error) {
        if (!(error instanceof EtcdError)) throw error;
        // The last attempt had less time than the caller gave, and its error says so.
        if (last !== undefined && error.reason === 'DeadlineExceeded') throw grantTimedOut(timeoutMs, last);
        // Nobody else draws this ID, so an earlier copy of the request came through: of an earlier attempt, or one that
        // the host sent by itself.
        if (options.id === undefined && error.reason === 'LeaseExist') return this.#adopt(id, sentAt, left());
        // An earlier attempt may have been granted, whatever became of this one.
        if (doubtful && error.outcome !== 'unknown') throw amended(error, { outcome: 'unknown' });
        doubtful = error.outcome === 'unknown';
        if (options.id !== undefined || error.outcome !== 'unknown' || error.code !== 'Unavailable') throw error;
        last = error;
        await pause(Math.min(backoffMs(attempt), deadline - monotonicMs()), signal);
        if (signal?.aborted) throw error;
        if (monotonicMs() >= deadline) throw grantTimedOut(timeoutMs, error);
      }
    }
  }

  /** Ends a lease and deletes its keys. A keepalive of it here ends first, with reason `LeaseRevoked`. */
  async revoke(id: bigint, options: CallOptions = {}): Promise<WithHeader<object>> {
    checkCallOptions(options, 'lease.revoke');
    checkInt64(id, 'id', 1n);
    this.#keeper.lose(id, leaseLost(id, 'LeaseRevoked', 'it was revoked by this client'));
    const response = await this.#rpc.call(methods.lease.leaseRevoke, { id }, options);
    return withHeader(response.header, {});
  }

  /** What remains of a lease. Of one that does not exist the TTL is -1. */
  async timeToLive(
    id: bigint,
    options: { readonly keys?: boolean | undefined } & CallOptions = {},
  ): Promise<WithHeader<TimeToLive>> {
    checkOptions(options, TIME_TO_LIVE_OPTIONS, 'lease.timeToLive');
    const request = { id: checkInt64(id, 'id', 1n), keys: options.keys };
    const response = await this.#rpc.call(methods.lease.leaseTimeToLive, request, options);
    const { ttl, grantedTtl, keys } = response;
    return withHeader(response.header, { id, ttl: Number(ttl), grantedTtl: Number(grantedTtl), keys });
  }

  /** The numbers of all leases. */
  async leases(options: CallOptions = {}): Promise<WithHeader<{ readonly ids: readonly bigint[] }>> {
    checkCallOptions(options, 'lease.leases');
    const response = await this.#rpc.call(methods.lease.leaseLeases, {}, options);
    return withHeader(response.header, { ids: response.leases.map(({ id }) => id) });
  }

  /**
   * Renews a lease at a third of its TTL until closed. Given the lease as granted its deadline is known from the start;
   * given the number alone it is `valid` from the first renewal on.
   */
  keepAlive(lease: Lease | bigint): KeepAlive {
    if (typeof lease === 'object' && lease !== null)
      return this.#keeper.keep(checkInt64(lease.id, 'lease.id', 1n), checkGranted(lease));
    return this.#keeper.keep(checkInt64(lease, 'lease', 1n));
  }

  /**
   * Renews a lease once, and gives the seconds that it lives from then on. @throws EtcdError, reason `LeaseExpired`
   * where there is no such lease.
   */
  async keepAliveOnce(id: bigint, options: CallOptions = {}): Promise<WithHeader<Pick<Lease, 'id' | 'ttl'>>> {
    checkCallOptions(options, 'lease.keepAliveOnce');
    const request = { id: checkInt64(id, 'id', 1n) };
    const answers = readStream(this.#rpc, methods.lease.leaseKeepAlive, request, this.#rpc.withDefaultTimeout(options));
    for await (const { header, ttl } of answers) {
      if (ttl <= 0n) throw leaseLost(id, 'LeaseExpired', 'the server does not know it any more');
      return withHeader(header, { id, ttl: Number(ttl) });
    }
    throw new EtcdError('the server ended the stream without an answer', {
      code: 'Unavailable',
      reason: 'ConnectionLost',
      outcome: 'unknown',
      method: methods.lease.leaseKeepAlive.path,
    });
  }

  /** @internal Adds the time limit of the client to options that have none. */
  withDefaultTimeout(options: CallOptions): CallOptions {
    return this.#rpc.withDefaultTimeout(options);
  }

  /** @internal Ends every keepalive. */
  close(): void {
    this.#keeper.close();
  }

  async #adopt(id: bigint, sentAt: number, options: CallOptions): Promise<WithHeader<Lease>> {
    const { header, grantedTtl } = await this.timeToLive(id, options).catch((error: EtcdError) => {
      throw amended(error, { outcome: 'unknown', method: methods.lease.leaseGrant.path });
    });
    if (grantedTtl === 0) throw leaseLost(id, 'LeaseExpired', 'it was granted, and had ended when the answer came');
    return withHeader(header, { id, ttl: grantedTtl, sentAt });
  }
}

/** An earlier attempt may have been granted. */
function grantTimedOut(timeoutMs: number, last: EtcdError): EtcdError {
  return timedOut('call', timeoutMs, 'unknown', methods.lease.leaseGrant.path, last);
}

/** Clocks of other threads begin elsewhere: by them the lease would seem to live for longer than it does. */
function checkGranted({ ttl, sentAt }: Lease): Pick<Lease, 'ttl' | 'sentAt'> {
  if (typeof ttl !== 'number' || !(ttl > 0)) throw invalidInput('lease.ttl', show(ttl), 'seconds, as granted');
  if (typeof sentAt === 'number' && sentAt <= monotonicMs()) return { ttl, sentAt };
  throw invalidInput('lease.sentAt', show(sentAt), "a time gone by on this thread's clock; else the lease's number");
}

function checkTtl(ttl: number): number {
  if (Number.isInteger(ttl) && ttl >= 1 && ttl <= MAX_TTL) return ttl;
  throw invalidInput('ttl', show(ttl), `whole seconds from 1 to ${MAX_TTL}`);
}
