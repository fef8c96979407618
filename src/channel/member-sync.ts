import { methods } from '../gen/methods.js';
import type { Endpoint } from '../host/endpoint.js';
import type { Channel } from './channel.js';
import { type AllowEndpoint, memberEndpoints } from './member-endpoints.js';
import { type CallOptions, checkCallOptions, type Rpc } from './rpc.js';

/** Has the channel use the endpoints that the cluster's members advertise. */
export class MemberSync {
  readonly #rpc: Rpc;
  readonly #channel: Channel;
  readonly #configured: readonly Endpoint[];
  readonly #allow: AllowEndpoint;

  constructor(rpc: Rpc, channel: Channel, configured: readonly Endpoint[], allow: AllowEndpoint = () => true) {
    this.#rpc = rpc;
    this.#channel = channel;
    this.#configured = configured;
    this.#allow = allow;
  }

  /** Gives the endpoints in use. A list of which none may be used changes nothing. */
  async sync(options?: CallOptions): Promise<readonly string[]> {
    checkCallOptions(options, 'sync');
    // Linearizable: a member that was cut off would tell of a cluster that is gone.
    const { members } = await this.#rpc.call(methods.cluster.memberList, { linearizable: true }, options);
    const endpoints = memberEndpoints(members, this.#configured, this.#allow);
    if (endpoints.length > 0) this.#channel.follow(endpoints);
    return this.#channel.endpoints;
  }
}
