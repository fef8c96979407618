import type { WatchRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import type { Init } from '../../src/wire/protobuf/writer.js';
import type { ClusterTraits } from './traits.js';
import type { World } from './world.js';

/** The maximum time between two parts of a response, in milliseconds: etcd's interval for watches that catch up. */
const PART_MS = 100;
/**
 * The maximum number of responses that a queue holds back. While a queue is longer, the stream sends the first response
 * of the queue at once.
 */
const MAX_WAITING = 100;
/** The key of the queue in `#queues` that all watches of the stream share. */
const ALL = 'all';

type Response = Init<WatchResponse>;

/**
 * Sends the responses of one watch stream in an order that the protocol permits. Depending on the traits of the
 * cluster, divides responses at revisions, lets answers to progress requests overtake events, or chooses watch IDs and
 * answers creations in any order.
 */
export class WatchOutbox {
  readonly #world: World;
  readonly #traits: ClusterTraits;
  readonly #send: (response: Response) => void;
  /** The responses that wait, in order. A proxy has one queue for each watch. */
  readonly #queues = new Map<bigint | typeof ALL, Response[]>();
  /** The IDs that the proxy has chosen, by the ID that the client asked for. */
  readonly #proxyIds = new Map<bigint, bigint>();

  constructor(world: World, traits: ClusterTraits, send: (response: Response) => void) {
    this.#world = world;
    this.#traits = traits;
    this.#send = send;
  }

  /**
   * Returns the request as the server behind the proxy receives it. Undefined if the proxy does not forward the
   * request.
   */
  request(request: WatchRequest): WatchRequest | undefined {
    const { requestUnion } = request;
    if (!this.#traits.isProxy) return request;
    if (requestUnion?.case === 'progressRequest') return undefined;
    if (requestUnion?.case === 'createRequest') {
      const { watchId } = requestUnion.value;
      this.#proxyIds.set(watchId, BigInt(this.#proxyIds.size));
    }
    if (requestUnion?.case !== 'cancelRequest') return request;
    const { watchId } = requestUnion.value;
    const own = [...this.#proxyIds].find(([, chosen]) => chosen === watchId)?.[0];
    if (own === undefined) return undefined;
    return { ...request, requestUnion: { case: 'cancelRequest', value: { watchId: own } } } as WatchRequest;
  }

  response(response: Response): void {
    const { isProxy, progressOvertakes } = this.#traits;
    const { watchId = 0n, created = false, canceled = false } = response;
    if (isProxy) {
      const chosen = this.#proxyIds.get(watchId);
      return this.#push(watchId, chosen === undefined ? response : { ...response, watchId: chosen });
    }
    if (progressOvertakes && watchId === -1n && !created && !canceled) return this.#send(response);
    for (const part of this.#traits.splitsEvents ? this.#parts(response) : [response]) this.#push(ALL, part);
  }

  /** Divides a response at revisions. All parts have the header of the response, as parts of a long catch-up do. */
  #parts(response: Response): Response[] {
    const { events = [] } = response;
    const parts: Response[] = [];
    let start = 0;
    for (let at = 1; at < events.length; at += 1) {
      if (events[at]?.kv?.modRevision === events[at - 1]?.kv?.modRevision || this.#world.random.chance(0.4)) continue;
      parts.push({ ...response, events: events.slice(start, at) });
      start = at;
    }
    parts.push(start === 0 ? response : { ...response, events: events.slice(start) });
    return parts;
  }

  #push(id: bigint | typeof ALL, response: Response): void {
    const queue = this.#queues.get(id) ?? [];
    this.#queues.set(id, queue);
    queue.push(response);
    if (queue.length === 1) this.#sendNext(queue, this.#isSlow(response));
  }

  /** Whether the response waits. Otherwise, the server sends it at once. */
  #isSlow({ events = [], created = false }: Response): boolean {
    const { isProxy, progressOvertakes } = this.#traits;
    return (isProxy && created) || (progressOvertakes && events.length > 0);
  }

  #sendNext(queue: Response[], waits: boolean): void {
    const { random, now, outside } = this.#world;
    const send = (): void => {
      this.#send(queue[0] as Response);
      queue.shift();
      // Otherwise, hundreds of responses to several watches would need minutes.
      if (queue.length > 0) this.#sendNext(queue, queue.length < MAX_WAITING);
    };
    if (waits) this.#world.at(now + random.fraction() * PART_MS, outside, 'sends a response', 'of a watch', send);
    else send();
  }
}
