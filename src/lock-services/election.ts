import { type WithHeader, withHeader, withHeaderOf } from '../channel/results.js';
import { type CallOptions, checkCallOptions, type Rpc, withoutDefaultTimeout } from '../channel/rpc.js';
import { openServerStream, STREAM_OPTIONS, type StreamOptions } from '../channel/streams.js';
import { EtcdError } from '../errors/etcd-error.js';
import * as electionMethods from '../gen/methods/election.js';
import type { LeaderKey } from '../gen/v3electionpb/v3election.js';
import { KeyValue } from '../kv/key-value.js';
import { type LeaseLike, leaseIdOf } from '../lease/lease-id.js';
import { checkedLaterAll, checkFields, checkInt64, checkOptions } from '../runtime/arguments.js';
import { type BytesLike, toBytes } from '../runtime/bytes.js';

export type { LeaderKey };

/**
 * etcd's own election service, which uses the same keys as `Election`. The service is meant for programs that cannot
 * keep a session open. Prefer `Election`, because the service has these limitations:
 *
 * - The client does not renew the lease and does not learn that the lease has ended. Keep the lease alive yourself. In
 *   each write that only the leader may make, check that the create revision of the leader's key is still `leader.rev`.
 * - Two campaigns with the same lease count as one candidate, so both win.
 * - A `campaign` whose outcome is unknown may leave its candidate in the queue until the lease ends.
 * - `observe` may skip a leader that led only briefly, and ends when the server's own watch ends.
 *
 * @example
 * const { id } = await etcd.lease.grant({ ttl: 60 });
 * const { leader } = await etcd.electionService.campaign('scheduler', id, 'host-1');
 * await etcd.electionService.resign(leader);
 */
export class ElectionService {
  readonly #rpc: Rpc;

  /** @internal */
  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /**
   * Enters the election as a candidate, and waits until the candidate is elected. Without `timeoutMs`, the wait has no
   * limit.
   *
   * @throws EtcdError, for example with reason `LeaseNotFound` if the lease does not exist, or `DeadlineExceeded` after
   * `timeoutMs`.
   */
  async campaign(
    name: BytesLike,
    lease: LeaseLike,
    value: BytesLike,
    options: CallOptions = {},
  ): Promise<WithHeader<{ readonly leader: LeaderKey }>> {
    checkCallOptions(options, 'electionService.campaign');
    const request = {
      name: toBytes(name, 'name'),
      lease: leaseIdOf(lease, 'lease'),
      value: toBytes(value, 'value'),
    };
    const { header, leader } = await this.#rpc.call(electionMethods.campaign, request, withoutDefaultTimeout(options));
    return withHeader(header, { leader: leader as LeaderKey });
  }

  /**
   * Replaces the value of the leader's key.
   *
   * @throws EtcdError with reason `ElectionNotLeader` if `leader` is no longer the leader.
   */
  async proclaim(leader: LeaderKey, value: BytesLike, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { leader: ownLeader(leader), value: toBytes(value, 'value') };
    return withHeaderOf(this.#rpc.checkedCall(electionMethods.proclaim, request, options));
  }

  /** Returns the key of the leader, or undefined if the election has no leader. @throws EtcdError if the call fails. */
  async leader(name: BytesLike, options?: CallOptions): Promise<KeyValue | undefined> {
    checkCallOptions(options, 'electionService.leader');
    try {
      const { kv } = await this.#rpc.call(electionMethods.leader, { name: toBytes(name, 'name') }, options);
      return kv && new KeyValue(kv);
    } catch (error) {
      if (error instanceof EtcdError && error.reason === 'ElectionNoLeader') return undefined;
      throw error;
    }
  }

  /**
   * Yields the key of the current leader, and then the key of the leader after every change that the server notices.
   *
   * @throws EtcdError when the server ends the stream.
   */
  async *observe(name: BytesLike, options?: StreamOptions): AsyncGenerator<KeyValue, void> {
    checkOptions(options, STREAM_OPTIONS, 'electionService.observe');
    const request = { name: toBytes(name, 'name') };
    // If the token has expired, the server ends an `observe` stream without an error. To prevent this, call `leader`
    // first: if the token has expired, the client obtains a new token for this call.
    await this.leader(name, options);
    for await (const { kv } of openServerStream(this.#rpc, electionMethods.observe, request, options)) {
      if (kv !== undefined) yield new KeyValue(kv);
    }
    throw new EtcdError('the server ended the stream of leaders', {
      code: 'Unavailable',
      reason: 'ConnectionLost',
      outcome: 'unknown',
      method: electionMethods.observe.path,
    });
  }

  /** Gives up the leadership if `leader` is still the leader. @throws EtcdError if the call fails. */
  async resign(leader: LeaderKey, options?: CallOptions): Promise<WithHeader<object>> {
    return withHeaderOf(this.#rpc.checkedCall(electionMethods.resign, { leader: ownLeader(leader) }, options));
  }
}

const LEADER = checkedLaterAll('name', 'key', 'rev', 'lease');

/** Returns a copy, because the caller may overwrite its buffers. */
function ownLeader(leader: LeaderKey): LeaderKey {
  checkFields(leader, LEADER, 'leader');
  return {
    name: toBytes(leader.name, 'leader.name'),
    key: toBytes(leader.key, 'leader.key'),
    rev: checkInt64(leader.rev, 'leader.rev'),
    lease: checkInt64(leader.lease, 'leader.lease'),
  };
}
