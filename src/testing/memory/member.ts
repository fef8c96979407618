import {
  AlarmAction,
  type AlarmMember,
  AlarmRequest,
  AlarmType,
  LeaseRevokeRequest,
  type ResponseHeader,
} from '../../gen/etcdserverpb/rpc.js';
import { Alarms } from './alarms.js';
import { Auth } from './auth.js';
import { Alone, type Consensus } from './consensus.js';
import { Counters } from './counters.js';
import { Downgrade } from './downgrade.js';
import { KeyHashes } from './key-hashes.js';
import { Lessor } from './lessor.js';
import { Membership, type Site } from './membership.js';
import { Proposals, type Propose } from './proposals.js';
import type { MemberSettings } from './settings.js';
import { Store } from './store.js';

/** etcd's default of `--initial-advertise-peer-urls`. No member listens there. */
const PEER_URL = 'http://localhost:2380';

/** The place of a member in a cluster of several members. */
export interface Place {
  readonly clusterId: bigint;
  readonly memberId: bigint;
  /** The members with which the cluster starts, including this one. */
  readonly sites: readonly Site[];
}

/**
 * The state that the services of a member share: the state machine of one member. This is the way of a put through a
 * member:
 *
 * 1. `MemoryTransport.unary` passes the message, or a `ServerConnection` receives its HTTP/2 frames, or a `Gateway` its
 *    JSON. `Router.find` finds the handler of the method.
 * 2. The handler in `registerKv` checks the request in etcd's order: quota, fields, token, size, alarms, permissions and
 *    lease. A failed check throws a `StatusError` with etcd's code and message.
 * 3. The handler proposes the write that `Proposals.define` has defined. A member that is alone applies it at once: `Alone`.
 * 4. In a cluster, `Replica.propose` gives the command a number and passes it to `Raft.propose`, which forwards it to the
 *    leader. The command contains all random choices, such as the ID of a lease. When a majority has the entry, each
 *    member applies it with `Proposals.apply`. At the member that proposed the command, the result is the response.
 * 5. `Store.write` starts a `WriteTransaction`, whose commit makes the change visible at the next revision and passes
 *    it to the `WatchHub`. Watches that have caught up get the event before the put returns.
 *
 * A linearizable read proposes nothing: see `ReadLoop`. Renewals of leases go to the leader, whose `Lessor` is the only
 * one with running TTLs.
 */
export class Member {
  readonly settings: MemberSettings;
  readonly store: Store = new Store();
  readonly leases: Lessor;
  readonly clusterId: bigint;
  readonly memberId: bigint;
  /** How the member agrees with the other members. */
  consensus: Consensus = new Alone(this);
  readonly proposals: Proposals = new Proposals(this);
  /** The raft index of the latest request that the member has applied. */
  raftIndex = 4n;
  raftTerm = 2n;
  /**
   * How many times the member has stopped. By this number, a call of Lock or Election recognizes that the member has
   * stopped since the call began. The call must then not clean up.
   */
  epoch = 0;
  readonly alarms: Alarms;
  readonly auth: Auth;
  readonly membership: Membership;
  readonly downgrade: Downgrade;
  readonly keyHashes: KeyHashes = new KeyHashes(this.store);
  readonly counters: Counters = new Counters();

  /** Reads or changes the alarms of the cluster. */
  readonly changeAlarms: Propose<AlarmRequest, AlarmMember[]>;
  readonly #revokeExpired: Propose<LeaseRevokeRequest, void>;

  /** @param place the place in a cluster. Default: a cluster of its own. */
  constructor(settings: MemberSettings, place?: Place) {
    this.settings = settings;
    this.clusterId = place?.clusterId ?? this.randomId();
    this.memberId = place?.memberId ?? this.randomId();
    this.alarms = new Alarms(this.memberId, settings.version);
    this.auth = new Auth(settings, this.store, this.alarms);
    this.membership = new Membership(this.memberId, place?.sites ?? [siteOf(this.memberId, settings, PEER_URL)]);
    this.downgrade = new Downgrade(settings);
    this.leases = new Lessor(this);
    this.changeAlarms = this.proposals.define('alarm', AlarmRequest, (request) => this.alarms.change(request));
    this.#revokeExpired = this.proposals.define('leaseExpire', LeaseRevokeRequest, ({ id }) => {
      // With the alarm `CORRUPT`, no lease is revoked.
      if (this.leases.has(id) && !this.alarms.isInEffect('CORRUPT')) this.leases.revoke(id);
    });
  }

  /** Proposes to revoke a lease that has expired. If the proposal fails, the lessor tries again later. */
  revokeExpired(id: bigint): void {
    ignoreFailure(this.#revokeExpired({ id }));
  }

  /** Raises the alarm `NOSPACE` for this member. */
  raiseNoSpace(): void {
    const { memberId } = this;
    ignoreFailure(this.changeAlarms({ action: AlarmAction.ACTIVATE, memberId, alarm: AlarmType.NOSPACE }));
  }

  /** Returns a random ID: see the function `randomId`. */
  randomId(): bigint {
    return randomId(this.settings.random);
  }

  /** Returns the header of a response, by default with the current revision of the store. */
  header(revision: bigint = this.store.revision): ResponseHeader {
    return { clusterId: this.clusterId, memberId: this.memberId, revision, raftTerm: this.raftTerm };
  }
}

/**
 * Returns a random unsigned 64-bit integer, but not 0. In etcd, the IDs of members and clusters are the first bytes of a
 * hash, so about half of them are above 2^63.
 */
export function randomId(random: () => number): bigint {
  const part = (): bigint => BigInt(Math.floor(random() * 2 ** 32));
  return (part() << 32n) | part() || 1n;
}

/** Returns the entry of a member in the member list of a cluster that starts. */
export function siteOf(id: bigint, { name, endpoint }: MemberSettings, peerUrl: string): Site {
  return { id, name, endpoint, listenUrls: new Set(), peerUrls: [peerUrl] };
}

function ignoreFailure(result: unknown): void {
  if (result instanceof Promise) result.catch(() => {});
}
