import type { WatchResponse } from '../gen/etcdserverpb/rpc.js';
import { UniqueQueue } from '../runtime/queues.js';
import type { ServerWatch } from './server-watch.js';

/**
 * The watch id in a response that belongs to no live watch: the answer to a creation that the server refused, or a
 * response that concerns every watch of the stream.
 */
export const NO_WATCH_ID = -1n;

/** The owner of the stream. */
export interface WatchIdsOwner {
  /** @throws EtcdError if the request is too long to send. */
  sendCreation(watch: ServerWatch, watchId: bigint): void;
  sendCancel(watchId: bigint): void;
  created(watch: ServerWatch, revision: bigint): void;
  refused(watch: ServerWatch, response: WatchResponse): void;
  /** Called when the creation request could not be sent. */
  failed(watch: ServerWatch, error: unknown): void;
}

/**
 * Matches the responses on one stream to its watches.
 *
 * The answer to a creation has an id. etcd 3.4 and later use the id that the client asks for, so the client knows which
 * creation was answered. `etcd grpc-proxy` and older servers choose ids of their own, and the proxy answers in any
 * order. So the first creation on each stream goes out alone, and its answer shows which kind of server it is. If the
 * server chooses the ids, all other creations go out one at a time, too.
 *
 * A refused creation has no id. If only one is unanswered, that one was refused. If several are, the client waits until
 * every unanswered creation must be a refused one, and then sends these again, one at a time.
 */
export class WatchIds {
  readonly #owner: WatchIdsOwner;
  /** Watches whose creation request the client has not sent. */
  readonly #queued = new UniqueQueue<ServerWatch>();
  /** Unanswered creations by the id that the client asked for, in order. Undefined if the watch has been removed. */
  readonly #requested = new Map<bigint, ServerWatch | undefined>();
  /** The watches that the server has created, by id. */
  readonly live = new Map<bigint, ServerWatch>();
  /** By watch: its id in `live`. */
  readonly #liveId = new Map<ServerWatch, bigint>();
  /**
   * Whether the server uses the ids that the client asks for; undefined until it answers the stream's first creation.
   */
  #keepsIds: boolean | undefined;
  /** Refusals that the client cannot match to a creation yet. */
  #refusals: WatchResponse[] = [];
  /** Whether the client resends creations one at a time, because it could not match several refusals. */
  #oneByOne = false;
  /** The id for the next creation request. Not reset with the stream, so that no id is used twice. */
  nextId = 1n;

  constructor(owner: WatchIdsOwner) {
    this.#owner = owner;
  }

  /** Whether the watch is queued, requested or live on this stream. */
  has(watch: ServerWatch): boolean {
    return this.#queued.has(watch) || this.#isRequested(watch) || this.#liveId.has(watch);
  }

  add(watches: Iterable<ServerWatch>): void {
    for (const watch of watches) this.#queued.add(watch);
    this.#sendCreations();
  }

  /** Cancels the watch on the server. Later responses with its id find no watch. */
  remove(watch: ServerWatch): void {
    this.#queued.delete(watch);
    // The id of the server's watch is unknown before the answer, so the cancel request follows the answer.
    if (this.#isRequested(watch)) this.#requested.set(watch.requestId, undefined);
    const liveId = this.#liveId.get(watch);
    if (liveId === undefined) return;
    this.release(liveId, watch);
    this.#owner.sendCancel(liveId);
  }

  /** Forgets a live watch that the server has ended. */
  release(watchId: bigint, watch: ServerWatch): void {
    this.live.delete(watchId);
    this.#liveId.delete(watch);
  }

  /** Takes the answer to a creation. */
  answered(response: WatchResponse): void {
    if (response.watchId === NO_WATCH_ID) this.#refusals.push(response);
    else if (!this.#assign(response)) return;
    this.#assignRefusals();
    this.#sendCreations();
  }

  /** Forgets all watches and ids, because they end with the stream. */
  reset(): void {
    this.#queued.clear();
    this.#requested.clear();
    this.live.clear();
    this.#liveId.clear();
    this.#keepsIds = undefined;
    this.#refusals = [];
    this.#oneByOne = false;
  }

  #isRequested(watch: ServerWatch): boolean {
    return this.#requested.get(watch.requestId) === watch;
  }

  /** Sends the creations whose answers the client can match. */
  #sendCreations(): void {
    while (this.#queued.size > 0) {
      if (this.#requested.size > 0 && (this.#keepsIds !== true || this.#oneByOne)) return;
      const watch = this.#queued.take() as ServerWatch;
      const id = this.nextId++;
      try {
        this.#owner.sendCreation(watch, id);
        this.#requested.set(id, watch);
        watch.requestId = id;
      } catch (error) {
        this.#owner.failed(watch, error);
      }
    }
  }

  /** Gives the answered id to its watch. Returns false if the response does not answer a creation of this stream. */
  #assign(response: WatchResponse): boolean {
    const { watchId } = response;
    const requestId = this.#requestAnswered(watchId);
    if (requestId === undefined) return false;
    const watch = this.#requested.get(requestId);
    this.#requested.delete(requestId);
    if (watch === undefined) {
      if (!response.canceled) this.#owner.sendCancel(watchId);
      return true;
    }
    if (response.canceled) this.#owner.refused(watch, response);
    else {
      this.live.set(watchId, watch);
      this.#liveId.set(watch, watchId);
      this.#owner.created(watch, response.header?.revision ?? 0n);
    }
    return true;
  }

  /**
   * The id of the creation that a response with `watchId` answers; undefined if it answers none or repeats an answer.
   */
  #requestAnswered(watchId: bigint): bigint | undefined {
    if (this.live.has(watchId)) return undefined;
    if (this.#keepsIds === true) return this.#requested.has(watchId) ? watchId : undefined;
    const [only] = this.#requested.keys();
    if (only !== undefined) this.#keepsIds ??= watchId === only;
    return only;
  }

  /** Matches the refusals once there are as many as unanswered creations. */
  #assignRefusals(): void {
    if (this.#refusals.length === 0 || this.#refusals.length < this.#requested.size) return;
    const [refusal] = this.#refusals as [WatchResponse];
    const refused = [...this.#requested.values()];
    this.#refusals = [];
    this.#requested.clear();
    const [only] = refused;
    if (refused.length !== 1) {
      this.#oneByOne = true;
      for (const watch of refused) if (watch !== undefined) this.#queued.add(watch);
    } else if (only !== undefined) this.#owner.refused(only, refusal);
    this.#sendCreations();
    if (this.#queued.size === 0 && this.#requested.size === 0) this.#oneByOne = false;
  }
}
