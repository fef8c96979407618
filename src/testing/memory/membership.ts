import type { Member as MemberMessage } from '../../gen/etcdserverpb/rpc.js';
import { StatusError, serverError } from './service.js';
import type { MemberSettings } from './settings.js';

/** The maximum number of learners in a cluster: etcd's `--max-learners`. */
const MAX_LEARNERS = 1;
/** etcd's default of `--initial-advertise-peer-urls`. No member listens there. */
const PEER_URLS: readonly string[] = ['http://localhost:2380'];

type MembershipSettings = Pick<MemberSettings, 'name' | 'endpoint'>;

/** A member that was added. It never starts, so it has neither a name nor client URLs. */
interface AddedMember {
  readonly id: bigint;
  readonly peerUrls: readonly string[];
  readonly isLearner: boolean;
}

/**
 * The members of the cluster. Only the member itself is running; a member that was added never starts.
 *
 * When a client adds a voting member to a real cluster of one member, the cluster has no quorum until the new member
 * starts: reads and writes time out. Here, the member keeps its quorum, so that a test can still use it and remove the
 * other member. Except for the IDs of new members (see `add`), all other answers are those of etcd with its option
 * `--strict-reconfig-check`.
 */
export class Membership {
  readonly #id: bigint;
  readonly #settings: MembershipSettings;
  readonly #newId: () => bigint;
  /** The URLs of the ports at which the member listens. */
  readonly listenUrls = new Set<string>();
  /** The URLs at which other members would reach this member. */
  #peerUrls = PEER_URLS;
  #added: AddedMember[] = [];

  constructor(id: bigint, settings: MembershipSettings, newId: () => bigint) {
    this.#id = id;
    this.#settings = settings;
    this.#newId = newId;
  }

  /** All members, ordered by their IDs. */
  list(): MemberMessage[] {
    const { name, endpoint } = this.#settings;
    const clientUrls = this.listenUrls.size > 0 ? [...this.listenUrls] : [endpoint];
    const self = { id: this.#id, name, peerUrls: [...this.#peerUrls], clientUrls, isLearner: false };
    const others = this.#added.map((added) => ({ ...added, name: '', peerUrls: [...added.peerUrls], clientUrls: [] }));
    return [self, ...others].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** Whether the member exists and votes. */
  isVoter(id: bigint): boolean {
    return this.list().some((member) => member.id === id && !member.isLearner);
  }

  /**
   * Adds a member, and returns it. The URLs have been checked.
   *
   * If a client removes a member and adds it again with the same URLs within a second, etcd derives the same ID for
   * both, and reports `MemberNotFound`. Here, every new member has a new ID.
   *
   * @throws StatusError
   */
  add(peerUrls: readonly string[], isLearner: boolean): MemberMessage {
    if (this.#added.some((member) => !member.isLearner))
      throw isLearner ? serverError('Unhealthy') : notEnoughStarted();
    this.#checkUrls(undefined, peerUrls);
    const learners = this.#added.filter((member) => member.isLearner).length;
    if (isLearner && learners >= MAX_LEARNERS) throw serverError('TooManyLearners');
    const id = this.#newId();
    this.#added.push({ id, peerUrls, isLearner });
    return { id, name: '', peerUrls: [...peerUrls], clientUrls: [], isLearner };
  }

  /** @throws StatusError if the member does not exist, or if it is the member that runs */
  remove(id: bigint): void {
    if (id === this.#id) throw notEnoughStarted();
    this.#existing(id);
    this.#added = this.#added.filter((member) => member.id !== id);
  }

  /** Replaces the peer URLs of a member. Like etcd, does not check whether they are valid URLs. @throws StatusError */
  update(id: bigint, peerUrls: readonly string[]): void {
    this.#existing(id);
    this.#checkUrls(id, peerUrls);
    if (id === this.#id) this.#peerUrls = peerUrls;
    else this.#added = this.#added.map((member) => (member.id === id ? { ...member, peerUrls } : member));
  }

  /**
   * @throws StatusError always: the ID is unknown, or the added member has never started, or the running member votes
   * already.
   */
  promote(id: bigint): never {
    this.#existing(id);
    throw serverError(id === this.#id ? 'MemberNotLearner' : 'LearnerNotReady');
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
