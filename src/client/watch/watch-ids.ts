import { UniqueQueue } from '../../base/index.js';
import type { WatchResponse } from '../../gen/etcdserverpb/rpc.js';
import type { ServerWatch } from './server-watch.js';

/** The watch ID in a response that refuses a creation, or that concerns every watch on the stream. */
export const NO_WATCH_ID = -1n;

/** The methods of a `WatchStream` that its `WatchIds` calls. */
export interface WatchIdsOwner {
  /** Sends the request that creates the watch. @throws EtcdError if the request is too long to send. */
  sendCreation(watch: ServerWatch, watchId: bigint): void;
  sendCancel(watchId: bigint): void;
  created(watch: ServerWatch, revision: bigint): void;
  refused(watch: ServerWatch, response: WatchResponse): void;
  /** `sendCreation` threw `error`, so the client has not sent the creation request. */
  failed(watch: ServerWatch, error: unknown): void;
}

/**
 * Matches the responses on one stream to its watches. In this file, a creation is a request that creates a watch.
 *
 * The answer to a creation has an ID. etcd 3.4 and later use the ID that the client asks for, so the client knows which
 * creation was answered. `etcd grpc-proxy` and older servers choose the IDs themselves, and the proxy answers in any
 * order. So the client sends the first creation on each stream alone, and the answer shows which kind of server it is.
 * If the server chooses the IDs, the client also sends all other creations one at a time.
 *
 * The answer to a refused creation has no ID. If only one creation is unanswered, the server has refused that creation.
 * If several creations are unanswered, the client waits until there are as many refusals as unanswered creations. Then
 * the server must have refused all these creations, and the client sends them again, one at a time, to learn the reason
 * for each refusal.
 */
export class WatchIds {
  readonly #owner: WatchIdsOwner;
  /** Watches whose creation the client has not sent yet. */
  readonly #queued = new UniqueQueue<ServerWatch>();
  /** Watches with unanswered creations, by requested ID, in the order of sending. Undefined for a removed watch. */
  readonly #requested = new Map<bigint, ServerWatch | undefined>();
  /** The watches that the server has created, by ID. */
  readonly live = new Map<bigint, ServerWatch>();
  /** Whether the server uses the requested IDs. Undefined until the server answers the stream's first creation. */
  #keepsIds: boolean | undefined;
  /** Refusals that the client cannot match to a creation yet. */
  #refusals: WatchResponse[] = [];
  /** Whether the client resends creations one at a time, because it could not match several refusals. */
  #oneByOne = false;
  /** The ID for the next creation. `reset` does not change it, so that the client never asks for the same ID twice. */
  nextId = 1n;

  constructor(owner: WatchIdsOwner) {
    this.#owner = owner;
  }

  /** Whether the watch is queued, requested or live on this stream. */
  has(watch: ServerWatch): boolean {
    return this.#queued.has(watch) || this.#isRequested(watch) || this.#isLive(watch);
  }

  /** Creates the watches on the stream. Sends each creation as soon as the client can match its answer. */
  add(watches: Iterable<ServerWatch>): void {
    for (const watch of watches) this.#queued.add(watch);
    this.#sendCreations();
  }

  /**
   * Removes the watch, and cancels it on the server if the server has created it. Ignores later responses with the
   * watch's ID.
   */
  remove(watch: ServerWatch): void {
    this.#queued.delete(watch);
    // The client does not know the watch's ID on the server before the answer to the creation, so it sends the cancel
    // request after that answer.
    if (this.#isRequested(watch)) this.#requested.set(watch.requestId, undefined);
    if (!this.#isLive(watch)) return;
    this.release(watch);
    this.#owner.sendCancel(watch.liveId);
  }

  /** Forgets a live watch that the server has ended, or that the client is about to cancel. */
  release({ liveId }: ServerWatch): void {
    this.live.delete(liveId);
  }

  answered(response: WatchResponse): void {
    if (response.watchId === NO_WATCH_ID) this.#refusals.push(response);
    else if (!this.#assign(response)) return;
    this.#assignRefusals();
    this.#sendCreations();
  }

  /** Forgets all watches, and their IDs, which are valid only on the stream that has ended. */
  reset(): void {
    this.#queued.clear();
    this.#requested.clear();
    this.live.clear();
    this.#keepsIds = undefined;
    this.#refusals = [];
    this.#oneByOne = false;
  }

  #isRequested(watch: ServerWatch): boolean {
    return this.#requested.get(watch.requestId) === watch;
  }

  #isLive(watch: ServerWatch): boolean {
    return this.live.get(watch.liveId) === watch;
  }

  /** Sends queued creations as long as the client can match their answers. */
  #sendCreations(): void {
    while (this.#queued.size > 0) {
      if (this.#requested.size > 0 && (this.#keepsIds !== true || this.#oneByOne)) return;
      const watch = this.#queued.take() as ServerWatch;
      const id = this.nextId++;
      this.#requested.set(id, watch);
      watch.requestId = id;
      try {
        this.#owner.sendCreation(watch, id);
      } catch (error) {
        this.#requested.delete(id);
        this.#owner.failed(watch, error);
      }
    }
  }

  /** Returns false if the response does not answer a creation on this stream. */
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
      watch.liveId = watchId;
      this.#owner.created(watch, response.header?.revision ?? 0n);
    }
    return true;
  }

  /**
   * Returns the requested ID of the creation that the response answers. Returns undefined if the response answers no
   * creation, or repeats an answer.
   */
  #requestAnswered(watchId: bigint): bigint | undefined {
    if (this.live.has(watchId)) return undefined;
    if (this.#keepsIds === true) return this.#requested.has(watchId) ? watchId : undefined;
    const [only] = this.#requested.keys();
    if (only !== undefined) this.#keepsIds ??= watchId === only;
    return only;
  }

  /** Matches the refusals to creations, once there are as many refusals as unanswered creations. */
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
