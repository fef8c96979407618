import type { Member as MemberMessage } from '../../gen/etcdserverpb/rpc.js';
import { StatusError, serverError } from './service.js';

/** The maximum number of learners in a cluster: etcd's `--max-learners`. */
const MAX_LEARNERS = 1;
/** A member with which the cluster starts. */
export interface Site {
  readonly id: bigint;
  readonly name: string;
  /** The URL that the member advertises to clients while it listens at no port. */
  readonly endpoint: string;
  /** The URLs of the ports at which the member listens. */
  readonly listenUrls: Set<string>;
  /** The URLs at which the other members reach the member. */
  readonly peerUrls: readonly string[];
}

/** A member that was added. It never starts, so it has neither a name nor client URLs. */
interface AddedMember {
  readonly id: bigint;
  readonly peerUrls: readonly string[];
  readonly isLearner: boolean;
}

/**
 * The members of the cluster, as one of them knows them. A member that a client has added never starts.
 *
 * When a client adds a voting member to a real cluster of one member, the cluster has no quorum until the new member
 * starts: reads and writes time out. Here, the quorum never changes, so that a test can still use the cluster and remove
 * the other member. The members with which a cluster of several members starts cannot be removed. Except for the IDs of new members (see `add`), all other answers are those of etcd with its option
 * `--strict-reconfig-check`.
 */
export class Membership {
  readonly #id: bigint;
  readonly #sites: readonly Site[];
  /** The peer URLs that clients have changed, by the ID of the member. */
  readonly #peerUrls = new Map<bigint, readonly string[]>();
  #added: AddedMember[] = [];

  /** `id` is the ID of the member itself. `sites` are the members with which the cluster starts. */
  constructor(id: bigint, sites: readonly Site[]) {
    this.#id = id;
    this.#sites = sites;
  }

  /** The URLs of the ports at which the member itself listens. */
  get listenUrls(): Set<string> {
    return (this.#sites.find(({ id }) => id === this.#id) as Site).listenUrls;
  }

  /** All members, ordered by their IDs. */
  list(): MemberMessage[] {
    const running = this.#sites.map(({ id, name, endpoint, listenUrls, peerUrls }) => ({
      id,
      name,
      peerUrls: [...(this.#peerUrls.get(id) ?? peerUrls)],
      clientUrls: listenUrls.size > 0 ? [...listenUrls] : [endpoint],
      isLearner: false,
    }));
    const added = this.#added.map((each) => ({ ...each, name: '', peerUrls: [...each.peerUrls], clientUrls: [] }));
    return [...running, ...added].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** Whether the member exists and votes. */
  isVoter(id: bigint): boolean {
    return this.list().some((member) => member.id === id && !member.isLearner);
  }

  /** Checks whether a member with these URLs may be added. The URLs are valid. @throws StatusError */
  checkAdd(peerUrls: readonly string[], isLearner: boolean): void {
    if (this.#added.some((member) => !member.isLearner))
      throw isLearner || this.#sites.length > 1 ? serverError('Unhealthy') : notEnoughStarted();
    this.#checkUrls(undefined, peerUrls);
    const learners = this.#added.filter((member) => member.isLearner).length;
    if (isLearner && learners >= MAX_LEARNERS) throw serverError('TooManyLearners');
  }

  /**
   * Adds a member.
   *
   * If a client removes a member and adds it again with the same URLs within a second, etcd derives the same ID for
   * both, and reports `MemberNotFound`. Here, every new member has a new ID.
   *
   * @throws StatusError if the member may not be added: see `checkAdd`.
   */
  add({ id, peerUrls, isLearner }: MemberMessage): void {
    this.checkAdd(peerUrls, isLearner);
    this.#added.push({ id, peerUrls, isLearner });
  }

  /** @throws StatusError if the member does not exist, or if it is a member that runs */
  checkRemove(id: bigint): void {
    if (this.#isSite(id)) throw notEnoughStarted();
    this.#existing(id);
  }

  /** Removes a member that a client has added. @throws StatusError for the same reasons as `checkRemove`. */
  remove(id: bigint): void {
    this.checkRemove(id);
    this.#added = this.#added.filter((member) => member.id !== id);
  }

  /** Checks whether a member may get new peer URLs. Like etcd, does not check whether they are valid URLs. */
  checkUpdate(id: bigint, peerUrls: readonly string[]): void {
    this.#existing(id);
    this.#checkUrls(id, peerUrls);
  }

  /** Replaces the peer URLs of a member. @throws StatusError */
  update(id: bigint, peerUrls: readonly string[]): void {
    this.checkUpdate(id, peerUrls);
    if (this.#isSite(id)) this.#peerUrls.set(id, peerUrls);
    else this.#added = this.#added.map((member) => (member.id === id ? { ...member, peerUrls } : member));
  }

  /**
   * @throws StatusError always: the ID is unknown, or the added member has never started, or the running member votes
   * already.
   */
  promote(id: bigint): never {
    this.#existing(id);
    throw serverError(this.#isSite(id) ? 'MemberNotLearner' : 'LearnerNotReady');
  }

  #isSite(id: bigint): boolean {
    return this.#sites.some((site) => site.id === id);
  }

  #existing(id: bigint): void {
    if (!this.list().some((member) => member.id === id)) throw serverError('MemberNotFound');
  }

  /** Requires that no member other than `id` has one of the URLs. */
  #checkUrls(id: bigint | undefined, peerUrls: readonly string[]): void {
    const used = this.list().flatMap((member) => (member.id === id ? [] : member.peerUrls));
    if (peerUrls.some((url) => used.includes(url))) throw serverError('PeerURLExist');
  }
}

/**
 * The error of a change after which too few members would be running. etcd sends this error with status `Unknown`,
 * because the table `toGRPCErrorMap` in etcd's `v3rpc/util.go` lacks it: the table contains an error of the client
 * instead.
 */
function notEnoughStarted(): StatusError {
  return new StatusError('Unknown', serverError('MemberNotEnoughStarted').message);
}
