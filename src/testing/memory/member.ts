import type { ResponseHeader } from '../../gen/etcdserverpb/rpc.js';
import { Alarms } from './alarms.js';
import { Auth } from './auth.js';
import { Counters } from './counters.js';
import { Downgrade } from './downgrade.js';
import { KeyHashes } from './key-hashes.js';
import { Lessor } from './lessor.js';
import { Membership } from './membership.js';
import type { MemberSettings } from './settings.js';
import { Store } from './store.js';

/** The state that the services of a member share. */
export class Member {
  readonly settings: MemberSettings;
  readonly store = new Store();
  readonly leases: Lessor;
  readonly clusterId: bigint;
  readonly memberId: bigint;
  /** The raft index of the latest request that went through consensus. */
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
  readonly keyHashes = new KeyHashes(this.store);
  readonly counters = new Counters();

  constructor(settings: MemberSettings) {
    this.settings = settings;
    this.clusterId = this.randomId();
    this.memberId = this.randomId();
    this.alarms = new Alarms(this.memberId, settings.version);
    this.auth = new Auth(settings, this.store, this.alarms);
    this.membership = new Membership(this.memberId, settings, () => this.randomId());
    this.downgrade = new Downgrade(settings);
    this.leases = new Lessor(this);
  }

  /**
   * Returns a random unsigned 64-bit integer, but not 0. In etcd, the IDs of members and clusters are the first bytes
   * of a hash, so about half of them are above 2^63.
   */
  randomId(): bigint {
    const part = (): bigint => BigInt(Math.floor(this.settings.random() * 2 ** 32));
    return (part() << 32n) | part() || 1n;
  }

  /** Returns the header of a response, by default with the current revision of the store. */
  header(revision: bigint = this.store.revision): ResponseHeader {
    return { clusterId: this.clusterId, memberId: this.memberId, revision, raftTerm: this.raftTerm };
  }
}
