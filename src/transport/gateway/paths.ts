/**
 * Where etcd's JSON gateway has each RPC: those of its .proto files, etcd 3.5 to 3.7. It has none for KV/RangeStream, and
 * etcd 3.4 none for HashKV, AuthStatus and Downgrade.
 */
const PATHS: Readonly<Record<string, string>> = {
  '/etcdserverpb.KV/Range': '/v3/kv/range',
  '/etcdserverpb.KV/Put': '/v3/kv/put',
  '/etcdserverpb.KV/DeleteRange': '/v3/kv/deleterange',
  '/etcdserverpb.KV/Txn': '/v3/kv/txn',
  '/etcdserverpb.KV/Compact': '/v3/kv/compaction',
  '/etcdserverpb.Watch/Watch': '/v3/watch',
  '/etcdserverpb.Lease/LeaseGrant': '/v3/lease/grant',
  '/etcdserverpb.Lease/LeaseRevoke': '/v3/lease/revoke',
  '/etcdserverpb.Lease/LeaseKeepAlive': '/v3/lease/keepalive',
  '/etcdserverpb.Lease/LeaseTimeToLive': '/v3/lease/timetolive',
  '/etcdserverpb.Lease/LeaseLeases': '/v3/lease/leases',
  '/etcdserverpb.Cluster/MemberAdd': '/v3/cluster/member/add',
  '/etcdserverpb.Cluster/MemberRemove': '/v3/cluster/member/remove',
  '/etcdserverpb.Cluster/MemberUpdate': '/v3/cluster/member/update',
  '/etcdserverpb.Cluster/MemberList': '/v3/cluster/member/list',
  '/etcdserverpb.Cluster/MemberPromote': '/v3/cluster/member/promote',
  '/etcdserverpb.Maintenance/Alarm': '/v3/maintenance/alarm',
  '/etcdserverpb.Maintenance/Status': '/v3/maintenance/status',
  '/etcdserverpb.Maintenance/Defragment': '/v3/maintenance/defragment',
  '/etcdserverpb.Maintenance/Hash': '/v3/maintenance/hash',
  '/etcdserverpb.Maintenance/HashKV': '/v3/maintenance/hashkv',
  '/etcdserverpb.Maintenance/Snapshot': '/v3/maintenance/snapshot',
  '/etcdserverpb.Maintenance/MoveLeader': '/v3/maintenance/transfer-leadership',
  '/etcdserverpb.Maintenance/Downgrade': '/v3/maintenance/downgrade',
  '/etcdserverpb.Auth/AuthEnable': '/v3/auth/enable',
  '/etcdserverpb.Auth/AuthDisable': '/v3/auth/disable',
  '/etcdserverpb.Auth/AuthStatus': '/v3/auth/status',
  '/etcdserverpb.Auth/Authenticate': '/v3/auth/authenticate',
  '/etcdserverpb.Auth/UserAdd': '/v3/auth/user/add',
  '/etcdserverpb.Auth/UserGet': '/v3/auth/user/get',
  '/etcdserverpb.Auth/UserList': '/v3/auth/user/list',
  '/etcdserverpb.Auth/UserDelete': '/v3/auth/user/delete',
  '/etcdserverpb.Auth/UserChangePassword': '/v3/auth/user/changepw',
  '/etcdserverpb.Auth/UserGrantRole': '/v3/auth/user/grant',
  '/etcdserverpb.Auth/UserRevokeRole': '/v3/auth/user/revoke',
  '/etcdserverpb.Auth/RoleAdd': '/v3/auth/role/add',
  '/etcdserverpb.Auth/RoleGet': '/v3/auth/role/get',
  '/etcdserverpb.Auth/RoleList': '/v3/auth/role/list',
  '/etcdserverpb.Auth/RoleDelete': '/v3/auth/role/delete',
  '/etcdserverpb.Auth/RoleGrantPermission': '/v3/auth/role/grant',
  '/etcdserverpb.Auth/RoleRevokePermission': '/v3/auth/role/revoke',
  '/v3lockpb.Lock/Lock': '/v3/lock/lock',
  '/v3lockpb.Lock/Unlock': '/v3/lock/unlock',
  '/v3electionpb.Election/Campaign': '/v3/election/campaign',
  '/v3electionpb.Election/Proclaim': '/v3/election/proclaim',
  '/v3electionpb.Election/Leader': '/v3/election/leader',
  '/v3electionpb.Election/Observe': '/v3/election/observe',
  '/v3electionpb.Election/Resign': '/v3/election/resign',
};

/** Undefined where the gateway has no such RPC. */
export function gatewayPath({ path }: { readonly path: string }): string | undefined {
  return PATHS[path];
}
