// Written by scripts/generate.ts from proto/. Do not edit.

import * as auth from './methods/auth.js';
import * as cluster from './methods/cluster.js';
import * as election from './methods/election.js';
import * as kv from './methods/kv.js';
import * as lease from './methods/lease.js';
import * as lock from './methods/lock.js';
import * as maintenance from './methods/maintenance.js';
import * as watch from './methods/watch.js';

/** The RPCs of each service. A module that needs few RPCs imports the module of their service instead. */
export const methods = {
  /** Keys and values. The key space is flat and ordered, and every change has a revision. */
  kv: {
    /**
     * Reads a key or a range of keys. By default the read is linearizable: the response reflects every write that the
     * cluster acknowledged before the read started.
     */
    range: kv.range,
    /**
     * Like Range, but streams the result in chunks, so that a large result needs neither a large message nor several
     * calls. Since etcd 3.7.
     */
    rangeStream: kv.rangeStream,
    /** Writes a key. The revision of the store increases by one. */
    put: kv.put,
    /** Deletes a key or a range of keys in one revision. If no key is deleted, the revision does not change. */
    deleteRange: kv.deleteRange,
    /** Compares keys, and then runs one of two lists of operations. The transaction is atomic and uses one revision. */
    txn: kv.txn,
    /** Discards the history below a revision. Watches and reads that need that history fail afterwards. */
    compact: kv.compact,
  },
  /** Sends the changes to keys to the client, in revision order. */
  watch: {
    /** Opens a stream for any number of watches. The stream carries their control messages and their events. */
    watch: watch.watch,
  },
  /** Leases limit the lifetime of keys. The owner of a lease has to renew it. */
  lease: {
    /** Creates a lease. When the lease expires or is revoked, the server deletes the keys that are attached to it. */
    leaseGrant: lease.leaseGrant,
    /** Revokes a lease and deletes the keys that are attached to it. */
    leaseRevoke: lease.leaseRevoke,
    /** Renews one lease per request. Responses arrive in the order of the requests. */
    leaseKeepAlive: lease.leaseKeepAlive,
    /** Returns the remaining TTL of a lease. For an unknown lease, the call succeeds and the TTL is -1. Since etcd 3.1. */
    leaseTimeToLive: lease.leaseTimeToLive,
    /** Lists the leases. Since etcd 3.3. */
    leaseLeases: lease.leaseLeases,
  },
  /** The members of the cluster. */
  cluster: {
    /** Adds a voting member or a learner. Call this method before the new member is started. */
    memberAdd: cluster.memberAdd,
    /** Removes a member permanently. */
    memberRemove: cluster.memberRemove,
    /** Replaces the peer URLs of a member. */
    memberUpdate: cluster.memberUpdate,
    /** Lists the members. */
    memberList: cluster.memberList,
    /** Makes a learner a voting member if it has caught up with the leader. Since etcd 3.4. */
    memberPromote: cluster.memberPromote,
  },
  /**
   * Maintenance of the cluster and its members. Defragment, Hash, HashKV, Snapshot and Status concern the member that
   * receives the call.
   */
  maintenance: {
    /** Lists, raises or clears alarms. An alarm names one member and affects the whole cluster. */
    alarm: maintenance.alarm,
    /** Returns the status of the member that receives the call. */
    status: maintenance.status,
    /** Returns free pages of the member's database file to the file system. The member serves no other calls meanwhile. */
    defragment: maintenance.defragment,
    /** Hashes the whole database file of the member. etcd's own tests use this method. */
    hash: maintenance.hash,
    /** Hashes the keys of the member up to a revision, so that members can be compared. Since etcd 3.3. */
    hashKv: maintenance.hashKv,
    /** Streams the database of the member, followed by its SHA-256 digest. Since etcd 3.3. */
    snapshot: maintenance.snapshot,
    /** Transfers the leadership to another member. Only the leader accepts this call. Since etcd 3.3. */
    moveLeader: maintenance.moveLeader,
    /** Checks, starts or cancels a downgrade of the cluster by one minor version. Since etcd 3.5. */
    downgrade: maintenance.downgrade,
  },
  /** Users, roles, and the permissions of roles. */
  auth: {
    /** Enables authentication. A user "root" with the role "root" must exist. */
    authEnable: auth.authEnable,
    /** Disables authentication. */
    authDisable: auth.authDisable,
    /** Returns whether authentication is enabled. Since etcd 3.5. */
    authStatus: auth.authStatus,
    /** Returns a token for a name and a password. Later calls send it in the metadata entry "token". */
    authenticate: auth.authenticate,
    /** Adds a user. */
    userAdd: auth.userAdd,
    /** Lists the roles of a user. */
    userGet: auth.userGet,
    /** Lists the users. */
    userList: auth.userList,
    /** Deletes a user. */
    userDelete: auth.userDelete,
    /** Sets the password of a user. */
    userChangePassword: auth.userChangePassword,
    /** Grants a role to a user. */
    userGrantRole: auth.userGrantRole,
    /** Revokes a role from a user. */
    userRevokeRole: auth.userRevokeRole,
    /** Adds a role without permissions. */
    roleAdd: auth.roleAdd,
    /** Lists the permissions of a role. */
    roleGet: auth.roleGet,
    /** Lists the roles. */
    roleList: auth.roleList,
    /** Deletes a role, and revokes it from every user. */
    roleDelete: auth.roleDelete,
    /** Grants a role a permission for a range of keys. */
    roleGrantPermission: auth.roleGrantPermission,
    /** Revokes a permission from a role. The range must equal the range of a granted permission. */
    roleRevokePermission: auth.roleRevokePermission,
  },
  /** Locks that the server acquires for the caller. The caller has to keep the lease alive. */
  lock: {
    /** Waits for the lock, and responds when the caller holds it. If the caller cancels the call, it leaves the queue. */
    lock: lock.lock,
    /** Releases a lock that Lock acquired. */
    unlock: lock.unlock,
  },
  /** Elections in which the server takes part for the caller. The caller has to keep the lease alive. */
  election: {
    /** Waits until the caller is elected, and then responds. */
    campaign: election.campaign,
    /** Replaces the leader's value without a new election. */
    proclaim: election.proclaim,
    /** Reads the current leader. */
    leader: election.leader,
    /** Streams every new leader and every new value that a leader proclaims. */
    observe: election.observe,
    /** Ends the caller's leadership. */
    resign: election.resign,
  },
} as const;

/** All RPCs. The list is shorter than `methods` in a bundle, because it does not contain the names again. */
export const methodList = [
  kv.range,
  kv.rangeStream,
  kv.put,
  kv.deleteRange,
  kv.txn,
  kv.compact,
  watch.watch,
  lease.leaseGrant,
  lease.leaseRevoke,
  lease.leaseKeepAlive,
  lease.leaseTimeToLive,
  lease.leaseLeases,
  cluster.memberAdd,
  cluster.memberRemove,
  cluster.memberUpdate,
  cluster.memberList,
  cluster.memberPromote,
  maintenance.alarm,
  maintenance.status,
  maintenance.defragment,
  maintenance.hash,
  maintenance.hashKv,
  maintenance.snapshot,
  maintenance.moveLeader,
  maintenance.downgrade,
  auth.authEnable,
  auth.authDisable,
  auth.authStatus,
  auth.authenticate,
  auth.userAdd,
  auth.userGet,
  auth.userList,
  auth.userDelete,
  auth.userChangePassword,
  auth.userGrantRole,
  auth.userRevokeRole,
  auth.roleAdd,
  auth.roleGet,
  auth.roleList,
  auth.roleDelete,
  auth.roleGrantPermission,
  auth.roleRevokePermission,
  lock.lock,
  lock.unlock,
  election.campaign,
  election.proclaim,
  election.leader,
  election.observe,
  election.resign,
] as const;

/** The gRPC path of an RPC, such as `/etcdserverpb.KV/Put`. */
export type MethodPath = {
  [Service in keyof typeof methods]: (typeof methods)[Service][keyof (typeof methods)[Service]] extends {
    readonly path: infer Path;
  }
    ? Path
    : never;
}[keyof typeof methods];
