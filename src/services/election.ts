import { openServerStream, STREAM_OPTIONS, type StreamOptions } from '../channel/message-stream.js';
import { type CallOptions, checkCallOptions, type Rpc, unhurried } from '../channel/rpc.js';
import { EtcdError } from '../errors/etcd-error.js';
import { methods } from '../gen/methods.js';
import type { LeaderKey } from '../gen/v3electionpb/v3election.js';
import { KeyValue } from '../kv/key-value.js';
import { type WithHeader, withHeader } from '../kv/results.js';
import { checkInt64, checkOptions } from '../runtime/arguments.js';
import { type BytesLike, toBytes } from '../runtime/bytes.js';

export type { LeaderKey };

/** What the server says, with status Unknown, where nobody leads. */
const NO_LEADER = 'election: no leader';

/**
 * The server's own election service, on the key layout of `Election`. For programs that cannot hold a session. Prefer
 * `Election` for these reasons:
 *
 * - nobody renews the lease, and nobody hears of its end: keep it alive, and guard writes by the leader key's `rev`;
 * - two campaigns with one lease are one candidate, and both win;
 * - a `campaign` whose outcome is unknown may leave its candidate in the queue until the lease ends;
 * - `observe` may leave out leaders of a short time, and ends where the server's own watch does.
 */
export class ElectionService {
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Waits to be elected, without a limit where `timeoutMs` sets none. */
  async campaign(
    name: BytesLike,
    lease: bigint,
    value: BytesLike,
    options: CallOptions = {},
  ): Promise<WithHeader<{ readonly leader: LeaderKey }>> {
    checkCallOptions(options, 'electionService.campaign');
    const request = {
      name: toBytes(name, 'name'),
      lease: checkInt64(lease, 'lease', 1n),
      value: toBytes(value, 'value'),
    };
    const { header, leader } = await this.#rpc.call(methods.election.campaign, request, unhurried(options));
    return withHeader(header, { leader: leader as LeaderKey });
  }

  /** Gives the leader a new value. */
  async proclaim(leader: LeaderKey, value: BytesLike, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { leader, value: toBytes(value, 'value') };
    const { header } = await this.#rpc.checkedCall(methods.election.proclaim, request, options);
    return withHeader(header, {});
  }

  /** The leader's key, or undefined where nobody leads. */
  async leader(name: BytesLike, options?: CallOptions): Promise<KeyValue | undefined> {
    checkCallOptions(options, 'electionService.leader');
    try {
      const { kv } = await this.#rpc.call(methods.election.leader, { name: toBytes(name, 'name') }, options);
      return kv && new KeyValue(kv);
    } catch (error) {
      if (error instanceof EtcdError && error.problem === NO_LEADER) return undefined;
      throw error;
    }
  }

  /** The leader's key now, and after every change that the server sees. @throws EtcdError when the server ends it. */
  async *observe(name: BytesLike, options?: StreamOptions): AsyncGenerator<KeyValue, void> {
    checkOptions(options, STREAM_OPTIONS, 'electionService.observe');
    const request = { name: toBytes(name, 'name') };
    // The server ends the stream without a word where the token has expired; a call gets a new one.
    await this.leader(name, options);
    for await (const { kv } of openServerStream(this.#rpc, methods.election.observe, request, options)) {
      if (kv !== undefined) yield new KeyValue(kv);
    }
    throw new EtcdError('the server ended the observation', {
      code: 'Unavailable',
      reason: 'ConnectionLost',
      outcome: 'unknown',
      method: methods.election.observe.path,
    });
  }

  /** Gives the leadership up, where it is still that of `leader`. */
  async resign(leader: LeaderKey, options?: CallOptions): Promise<WithHeader<object>> {
    const { header } = await this.#rpc.checkedCall(methods.election.resign, { leader }, options);
    return withHeader(header, {});
  }
}
