import type { MemoryEtcd } from '../../src/testing/memory/memory-etcd.js';
import { type ResponseStream, serverError } from '../../src/testing/memory/service.js';

/**
 * A member of the simulated cluster. All members share one store. If a member lags behind, its serializable reads and
 * its watches show the store as it was at `frozenAt`.
 */
export class SimulatedMember {
  readonly url: string;
  /** Whether the member's process has stopped. */
  isDown = false;
  /** Whether the member is cut off from the other members. */
  isIsolated = false;
  /** Whether the member is isolated, and has not noticed yet that it is no longer the leader. */
  isOldLeader = false;
  /** The time at which a slow member has applied everything. 0 for a member that is not slow. */
  answersAt = 0;
  /** The functions that give the answers to the writes that the member has not applied yet. */
  readonly unapplied = new Set<() => void>();
  /** The server of another cluster that answers at the member's address. */
  foreign: MemoryEtcd | undefined;
  /** Whether the member is a learner, which serves no client. */
  isLearner = false;
  /** The store revision that the member has applied, if it lags behind. */
  frozenAt: bigint | undefined;
  /** The open streams. */
  readonly streams = new Set<ResponseStream<unknown>>();
  /** The streams that a member without a leader ends. */
  readonly leaderStreams = new Set<ResponseStream<unknown>>();
  /** The responses of watches that wait until the member has applied their revision, in order. */
  readonly held: { readonly revision: bigint; readonly send: () => void }[] = [];

  constructor(url: string) {
    this.url = url;
  }

  /** Whether the member believes that it knows the leader, unless the whole cluster has none. */
  get knowsLeader(): boolean {
    return !this.isIsolated || this.isOldLeader;
  }

  /** Makes serializable reads and watches of the member show the store at this revision. */
  freeze(revision: bigint): void {
    this.frozenAt ??= revision;
  }

  /** Lets a frozen member apply all changes up to a revision. The member stays frozen. */
  catchUp(revision: bigint): void {
    if (this.frozenAt === undefined) return;
    if (revision > this.frozenAt) this.frozenAt = revision;
    while (this.held[0] !== undefined && this.held[0].revision <= this.frozenAt) this.held.shift()?.send();
  }

  /** Lets a frozen member apply all changes. It no longer lags behind. */
  thaw(): void {
    this.frozenAt = undefined;
    for (const { send } of this.held.splice(0)) send();
  }

  /** Ends all streams without an error, like a server or a proxy that shuts down. */
  endStreams(): void {
    for (const stream of [...this.streams]) stream.end();
  }

  /** Ends the streams that require a leader. */
  endLeaderStreams(): void {
    for (const stream of [...this.leaderStreams]) stream.end(serverError('NoLeader'));
  }
}
