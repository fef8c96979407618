// Written by scripts/generate.ts from proto/. Do not edit.

import type { Method } from '../protobuf/schema.js';
import {
  AlarmRequest,
  AlarmResponse,
  AuthDisableRequest,
  AuthDisableResponse,
  AuthEnableRequest,
  AuthEnableResponse,
  AuthenticateRequest,
  AuthenticateResponse,
  AuthRoleAddRequest,
  AuthRoleAddResponse,
  AuthRoleDeleteRequest,
  AuthRoleDeleteResponse,
  AuthRoleGetRequest,
  AuthRoleGetResponse,
  AuthRoleGrantPermissionRequest,
  AuthRoleGrantPermissionResponse,
  AuthRoleListRequest,
  AuthRoleListResponse,
  AuthRoleRevokePermissionRequest,
  AuthRoleRevokePermissionResponse,
  AuthStatusRequest,
  AuthStatusResponse,
  AuthUserAddRequest,
  AuthUserAddResponse,
  AuthUserChangePasswordRequest,
  AuthUserChangePasswordResponse,
  AuthUserDeleteRequest,
  AuthUserDeleteResponse,
  AuthUserGetRequest,
  AuthUserGetResponse,
  AuthUserGrantRoleRequest,
  AuthUserGrantRoleResponse,
  AuthUserListRequest,
  AuthUserListResponse,
  AuthUserRevokeRoleRequest,
  AuthUserRevokeRoleResponse,
  CompactionRequest,
  CompactionResponse,
  DefragmentRequest,
  DefragmentResponse,
  DeleteRangeRequest,
  DeleteRangeResponse,
  DowngradeRequest,
  DowngradeResponse,
  HashKVRequest,
  HashKVResponse,
  HashRequest,
  HashResponse,
  LeaseGrantRequest,
  LeaseGrantResponse,
  LeaseKeepAliveRequest,
  LeaseKeepAliveResponse,
  LeaseLeasesRequest,
  LeaseLeasesResponse,
  LeaseRevokeRequest,
  LeaseRevokeResponse,
  LeaseTimeToLiveRequest,
  LeaseTimeToLiveResponse,
  MemberAddRequest,
  MemberAddResponse,
  MemberListRequest,
  MemberListResponse,
  MemberPromoteRequest,
  MemberPromoteResponse,
  MemberRemoveRequest,
  MemberRemoveResponse,
  MemberUpdateRequest,
  MemberUpdateResponse,
  MoveLeaderRequest,
  MoveLeaderResponse,
  PutRequest,
  PutResponse,
  RangeRequest,
  RangeResponse,
  RangeStreamResponse,
  SnapshotRequest,
  SnapshotResponse,
  StatusRequest,
  StatusResponse,
  TxnRequest,
  TxnResponse,
  WatchRequest,
  WatchResponse,
} from './etcdserverpb/rpc.js';
import {
  CampaignRequest,
  CampaignResponse,
  LeaderRequest,
  LeaderResponse,
  ProclaimRequest,
  ProclaimResponse,
  ResignRequest,
  ResignResponse,
} from './v3electionpb/v3election.js';
import { LockRequest, LockResponse, UnlockRequest, UnlockResponse } from './v3lockpb/v3lock.js';

/** The RPCs of each service. */
export const methods = {
  /** Keys and values. The key space is flat and ordered, and every change has a revision. */
  kv: {
    /**
     * Reads a key or a range of keys. By default the read is linearizable: the response reflects every write that the
     * cluster acknowledged before the read started.
     */
    range: {
      path: '/etcdserverpb.KV/Range',
      kind: 'unary',
      request: RangeRequest,
      response: RangeResponse,
      repeatable: true,
    } satisfies Method<RangeRequest, RangeResponse, 'unary'>,

    /**
     * Like Range, but streams the result in chunks, so that a large result needs neither a large message nor several
     * calls. Since etcd 3.7.
     */
    rangeStream: {
      path: '/etcdserverpb.KV/RangeStream',
      kind: 'server-streaming',
      request: RangeRequest,
      response: RangeStreamResponse,
      repeatable: true,
    } satisfies Method<RangeRequest, RangeStreamResponse, 'server-streaming'>,

    /** Writes a key. The revision of the store increases by one. */
    put: {
      path: '/etcdserverpb.KV/Put',
      kind: 'unary',
      request: PutRequest,
      response: PutResponse,
      repeatable: false,
    } satisfies Method<PutRequest, PutResponse, 'unary'>,

    /** Deletes a key or a range of keys in one revision. If no key is deleted, the revision does not change. */
    deleteRange: {
      path: '/etcdserverpb.KV/DeleteRange',
      kind: 'unary',
      request: DeleteRangeRequest,
      response: DeleteRangeResponse,
      repeatable: false,
    } satisfies Method<DeleteRangeRequest, DeleteRangeResponse, 'unary'>,

    /** Compares keys, and then runs one of two lists of operations. The transaction is atomic and uses one revision. */
    txn: {
      path: '/etcdserverpb.KV/Txn',
      kind: 'unary',
      request: TxnRequest,
      response: TxnResponse,
      repeatable: false,
    } satisfies Method<TxnRequest, TxnResponse, 'unary'>,

    /** Discards the history below a revision. Watches and reads that need that history fail afterwards. */
    compact: {
      path: '/etcdserverpb.KV/Compact',
      kind: 'unary',
      request: CompactionRequest,
      response: CompactionResponse,
      repeatable: false,
    } satisfies Method<CompactionRequest, CompactionResponse, 'unary'>,
  },

  /** Sends the changes to keys to the client, in revision order. */
  watch: {
    /** Opens a stream for any number of watches. The stream carries their control messages and their events. */
    watch: {
      path: '/etcdserverpb.Watch/Watch',
      kind: 'bidi-streaming',
      request: WatchRequest,
      response: WatchResponse,
      repeatable: false,
    } satisfies Method<WatchRequest, WatchResponse, 'bidi-streaming'>,
  },

  /** Leases limit the lifetime of keys. The owner of a lease has to renew it. */
  lease: {
    /** Creates a lease. When the lease expires or is revoked, the server deletes the keys that are attached to it. */
    leaseGrant: {
      path: '/etcdserverpb.Lease/LeaseGrant',
      kind: 'unary',
      request: LeaseGrantRequest,
      response: LeaseGrantResponse,
      repeatable: false,
    } satisfies Method<LeaseGrantRequest, LeaseGrantResponse, 'unary'>,

    /** Revokes a lease and deletes the keys that are attached to it. */
    leaseRevoke: {
      path: '/etcdserverpb.Lease/LeaseRevoke',
      kind: 'unary',
      request: LeaseRevokeRequest,
      response: LeaseRevokeResponse,
      repeatable: false,
    } satisfies Method<LeaseRevokeRequest, LeaseRevokeResponse, 'unary'>,

    /** Renews one lease per request. Responses arrive in the order of the requests. */
    leaseKeepAlive: {
      path: '/etcdserverpb.Lease/LeaseKeepAlive',
      kind: 'bidi-streaming',
      request: LeaseKeepAliveRequest,
      response: LeaseKeepAliveResponse,
      repeatable: false,
    } satisfies Method<LeaseKeepAliveRequest, LeaseKeepAliveResponse, 'bidi-streaming'>,

    /** Returns the remaining TTL of a lease. For an unknown lease, the call succeeds and the TTL is -1. Since etcd 3.1. */
    leaseTimeToLive: {
      path: '/etcdserverpb.Lease/LeaseTimeToLive',
      kind: 'unary',
      request: LeaseTimeToLiveRequest,
      response: LeaseTimeToLiveResponse,
      repeatable: true,
    } satisfies Method<LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, 'unary'>,

    /** Lists the leases. Since etcd 3.3. */
    leaseLeases: {
      path: '/etcdserverpb.Lease/LeaseLeases',
      kind: 'unary',
      request: LeaseLeasesRequest,
      response: LeaseLeasesResponse,
      repeatable: true,
    } satisfies Method<LeaseLeasesRequest, LeaseLeasesResponse, 'unary'>,
  },

  /** The members of the cluster. */
  cluster: {
    /** Adds a voting member or a learner. Call this method before the new member is started. */
    memberAdd: {
      path: '/etcdserverpb.Cluster/MemberAdd',
      kind: 'unary',
      request: MemberAddRequest,
      response: MemberAddResponse,
      repeatable: false,
    } satisfies Method<MemberAddRequest, MemberAddResponse, 'unary'>,

    /** Removes a member permanently. */
    memberRemove: {
      path: '/etcdserverpb.Cluster/MemberRemove',
      kind: 'unary',
      request: MemberRemoveRequest,
      response: MemberRemoveResponse,
      repeatable: false,
    } satisfies Method<MemberRemoveRequest, MemberRemoveResponse, 'unary'>,

    /** Replaces the peer URLs of a member. */
    memberUpdate: {
      path: '/etcdserverpb.Cluster/MemberUpdate',
      kind: 'unary',
      request: MemberUpdateRequest,
      response: MemberUpdateResponse,
      repeatable: false,
    } satisfies Method<MemberUpdateRequest, MemberUpdateResponse, 'unary'>,

    /** Lists the members. */
    memberList: {
      path: '/etcdserverpb.Cluster/MemberList',
      kind: 'unary',
      request: MemberListRequest,
      response: MemberListResponse,
      repeatable: true,
    } satisfies Method<MemberListRequest, MemberListResponse, 'unary'>,

    /** Makes a learner a voting member if it has caught up with the leader. Since etcd 3.4. */
    memberPromote: {
      path: '/etcdserverpb.Cluster/MemberPromote',
      kind: 'unary',
      request: MemberPromoteRequest,
      response: MemberPromoteResponse,
      repeatable: false,
    } satisfies Method<MemberPromoteRequest, MemberPromoteResponse, 'unary'>,
  },

  /**
   * Maintenance of the cluster and its members. Defragment, Hash, HashKV, Snapshot and Status concern the member that
   * receives the call.
   */
  maintenance: {
    /** Lists, raises or clears alarms. An alarm names one member and affects the whole cluster. */
    alarm: {
      path: '/etcdserverpb.Maintenance/Alarm',
      kind: 'unary',
      request: AlarmRequest,
      response: AlarmResponse,
      repeatable: false,
    } satisfies Method<AlarmRequest, AlarmResponse, 'unary'>,

    /** Returns the status of the member that receives the call. */
    status: {
      path: '/etcdserverpb.Maintenance/Status',
      kind: 'unary',
      request: StatusRequest,
      response: StatusResponse,
      repeatable: true,
    } satisfies Method<StatusRequest, StatusResponse, 'unary'>,

    /** Returns free pages of the member's database file to the file system. The member serves no other calls meanwhile. */
    defragment: {
      path: '/etcdserverpb.Maintenance/Defragment',
      kind: 'unary',
      request: DefragmentRequest,
      response: DefragmentResponse,
      repeatable: false,
    } satisfies Method<DefragmentRequest, DefragmentResponse, 'unary'>,

    /** Hashes the whole database file of the member. etcd's own tests use this method. */
    hash: {
      path: '/etcdserverpb.Maintenance/Hash',
      kind: 'unary',
      request: HashRequest,
      response: HashResponse,
      repeatable: true,
    } satisfies Method<HashRequest, HashResponse, 'unary'>,

    /** Hashes the keys of the member up to a revision, so that members can be compared. Since etcd 3.3. */
    hashKv: {
      path: '/etcdserverpb.Maintenance/HashKV',
      kind: 'unary',
      request: HashKVRequest,
      response: HashKVResponse,
      repeatable: true,
    } satisfies Method<HashKVRequest, HashKVResponse, 'unary'>,

    /** Streams the database of the member, followed by its SHA-256 digest. Since etcd 3.3. */
    snapshot: {
      path: '/etcdserverpb.Maintenance/Snapshot',
      kind: 'server-streaming',
      request: SnapshotRequest,
      response: SnapshotResponse,
      repeatable: false,
    } satisfies Method<SnapshotRequest, SnapshotResponse, 'server-streaming'>,

    /** Transfers the leadership to another member. Only the leader accepts this call. Since etcd 3.3. */
    moveLeader: {
      path: '/etcdserverpb.Maintenance/MoveLeader',
      kind: 'unary',
      request: MoveLeaderRequest,
      response: MoveLeaderResponse,
      repeatable: false,
    } satisfies Method<MoveLeaderRequest, MoveLeaderResponse, 'unary'>,

    /** Checks, starts or cancels a downgrade of the cluster by one minor version. Since etcd 3.5. */
    downgrade: {
      path: '/etcdserverpb.Maintenance/Downgrade',
      kind: 'unary',
      request: DowngradeRequest,
      response: DowngradeResponse,
      repeatable: false,
    } satisfies Method<DowngradeRequest, DowngradeResponse, 'unary'>,
  },

  /** Users, roles, and the permissions of roles. */
  auth: {
    /** Enables authentication. A user "root" with the role "root" must exist. */
    authEnable: {
      path: '/etcdserverpb.Auth/AuthEnable',
      kind: 'unary',
      request: AuthEnableRequest,
      response: AuthEnableResponse,
      repeatable: false,
    } satisfies Method<AuthEnableRequest, AuthEnableResponse, 'unary'>,

    /** Disables authentication. */
    authDisable: {
      path: '/etcdserverpb.Auth/AuthDisable',
      kind: 'unary',
      request: AuthDisableRequest,
      response: AuthDisableResponse,
      repeatable: false,
    } satisfies Method<AuthDisableRequest, AuthDisableResponse, 'unary'>,

    /** Returns whether authentication is enabled. Since etcd 3.5. */
    authStatus: {
      path: '/etcdserverpb.Auth/AuthStatus',
      kind: 'unary',
      request: AuthStatusRequest,
      response: AuthStatusResponse,
      repeatable: true,
    } satisfies Method<AuthStatusRequest, AuthStatusResponse, 'unary'>,

    /** Returns a token for a name and a password. Later calls send it in the metadata entry "token". */
    authenticate: {
      path: '/etcdserverpb.Auth/Authenticate',
      kind: 'unary',
      request: AuthenticateRequest,
      response: AuthenticateResponse,
      repeatable: true,
    } satisfies Method<AuthenticateRequest, AuthenticateResponse, 'unary'>,

    /** Adds a user. */
    userAdd: {
      path: '/etcdserverpb.Auth/UserAdd',
      kind: 'unary',
      request: AuthUserAddRequest,
      response: AuthUserAddResponse,
      repeatable: false,
    } satisfies Method<AuthUserAddRequest, AuthUserAddResponse, 'unary'>,

    /** Lists the roles of a user. */
    userGet: {
      path: '/etcdserverpb.Auth/UserGet',
      kind: 'unary',
      request: AuthUserGetRequest,
      response: AuthUserGetResponse,
      repeatable: true,
    } satisfies Method<AuthUserGetRequest, AuthUserGetResponse, 'unary'>,

    /** Lists the users. */
    userList: {
      path: '/etcdserverpb.Auth/UserList',
      kind: 'unary',
      request: AuthUserListRequest,
      response: AuthUserListResponse,
      repeatable: true,
    } satisfies Method<AuthUserListRequest, AuthUserListResponse, 'unary'>,

    /** Deletes a user. */
    userDelete: {
      path: '/etcdserverpb.Auth/UserDelete',
      kind: 'unary',
      request: AuthUserDeleteRequest,
      response: AuthUserDeleteResponse,
      repeatable: false,
    } satisfies Method<AuthUserDeleteRequest, AuthUserDeleteResponse, 'unary'>,

    /** Sets the password of a user. */
    userChangePassword: {
      path: '/etcdserverpb.Auth/UserChangePassword',
      kind: 'unary',
      request: AuthUserChangePasswordRequest,
      response: AuthUserChangePasswordResponse,
      repeatable: false,
    } satisfies Method<AuthUserChangePasswordRequest, AuthUserChangePasswordResponse, 'unary'>,

    /** Grants a role to a user. */
    userGrantRole: {
      path: '/etcdserverpb.Auth/UserGrantRole',
      kind: 'unary',
      request: AuthUserGrantRoleRequest,
      response: AuthUserGrantRoleResponse,
      repeatable: false,
    } satisfies Method<AuthUserGrantRoleRequest, AuthUserGrantRoleResponse, 'unary'>,

    /** Revokes a role from a user. */
    userRevokeRole: {
      path: '/etcdserverpb.Auth/UserRevokeRole',
      kind: 'unary',
      request: AuthUserRevokeRoleRequest,
      response: AuthUserRevokeRoleResponse,
      repeatable: false,
    } satisfies Method<AuthUserRevokeRoleRequest, AuthUserRevokeRoleResponse, 'unary'>,

    /** Adds a role without permissions. */
    roleAdd: {
      path: '/etcdserverpb.Auth/RoleAdd',
      kind: 'unary',
      request: AuthRoleAddRequest,
      response: AuthRoleAddResponse,
      repeatable: false,
    } satisfies Method<AuthRoleAddRequest, AuthRoleAddResponse, 'unary'>,

    /** Lists the permissions of a role. */
    roleGet: {
      path: '/etcdserverpb.Auth/RoleGet',
      kind: 'unary',
      request: AuthRoleGetRequest,
      response: AuthRoleGetResponse,
      repeatable: true,
    } satisfies Method<AuthRoleGetRequest, AuthRoleGetResponse, 'unary'>,

    /** Lists the roles. */
    roleList: {
      path: '/etcdserverpb.Auth/RoleList',
      kind: 'unary',
      request: AuthRoleListRequest,
      response: AuthRoleListResponse,
      repeatable: true,
    } satisfies Method<AuthRoleListRequest, AuthRoleListResponse, 'unary'>,

    /** Deletes a role, and revokes it from every user. */
    roleDelete: {
      path: '/etcdserverpb.Auth/RoleDelete',
      kind: 'unary',
      request: AuthRoleDeleteRequest,
      response: AuthRoleDeleteResponse,
      repeatable: false,
    } satisfies Method<AuthRoleDeleteRequest, AuthRoleDeleteResponse, 'unary'>,

    /** Grants a role a permission for a range of keys. */
    roleGrantPermission: {
      path: '/etcdserverpb.Auth/RoleGrantPermission',
      kind: 'unary',
      request: AuthRoleGrantPermissionRequest,
      response: AuthRoleGrantPermissionResponse,
      repeatable: false,
    } satisfies Method<AuthRoleGrantPermissionRequest, AuthRoleGrantPermissionResponse, 'unary'>,

    /** Revokes a permission from a role. The range must equal the range of a granted permission. */
    roleRevokePermission: {
      path: '/etcdserverpb.Auth/RoleRevokePermission',
      kind: 'unary',
      request: AuthRoleRevokePermissionRequest,
      response: AuthRoleRevokePermissionResponse,
      repeatable: false,
    } satisfies Method<AuthRoleRevokePermissionRequest, AuthRoleRevokePermissionResponse, 'unary'>,
  },

  /** Locks that the server acquires for the caller. The caller has to keep the lease alive. */
  lock: {
    /** Waits for the lock, and responds when the caller holds it. If the caller cancels the call, it leaves the queue. */
    lock: {
      path: '/v3lockpb.Lock/Lock',
      kind: 'unary',
      request: LockRequest,
      response: LockResponse,
      repeatable: false,
    } satisfies Method<LockRequest, LockResponse, 'unary'>,

    /** Releases a lock that Lock acquired. */
    unlock: {
      path: '/v3lockpb.Lock/Unlock',
      kind: 'unary',
      request: UnlockRequest,
      response: UnlockResponse,
      repeatable: false,
    } satisfies Method<UnlockRequest, UnlockResponse, 'unary'>,
  },

  /** Elections in which the server takes part for the caller. The caller has to keep the lease alive. */
  election: {
    /** Waits until the caller is elected, and then responds. */
    campaign: {
      path: '/v3electionpb.Election/Campaign',
      kind: 'unary',
      request: CampaignRequest,
      response: CampaignResponse,
      repeatable: false,
    } satisfies Method<CampaignRequest, CampaignResponse, 'unary'>,

    /** Replaces the leader's value without a new election. */
    proclaim: {
      path: '/v3electionpb.Election/Proclaim',
      kind: 'unary',
      request: ProclaimRequest,
      response: ProclaimResponse,
      repeatable: false,
    } satisfies Method<ProclaimRequest, ProclaimResponse, 'unary'>,

    /** Reads the current leader. */
    leader: {
      path: '/v3electionpb.Election/Leader',
      kind: 'unary',
      request: LeaderRequest,
      response: LeaderResponse,
      repeatable: true,
    } satisfies Method<LeaderRequest, LeaderResponse, 'unary'>,

    /** Streams every new leader and every new value that a leader proclaims. */
    observe: {
      path: '/v3electionpb.Election/Observe',
      kind: 'server-streaming',
      request: LeaderRequest,
      response: LeaderResponse,
      repeatable: false,
    } satisfies Method<LeaderRequest, LeaderResponse, 'server-streaming'>,

    /** Ends the caller's leadership. */
    resign: {
      path: '/v3electionpb.Election/Resign',
      kind: 'unary',
      request: ResignRequest,
      response: ResignResponse,
      repeatable: false,
    } satisfies Method<ResignRequest, ResignResponse, 'unary'>,
  },
} as const;
