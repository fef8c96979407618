import {
  AlarmAction,
  type AlarmRequest,
  DowngradeAction,
  type DowngradeRequest,
  type LeaseGrantRequest,
  type RequestOp,
  type TxnRequest,
} from '../../../gen/etcdserverpb/rpc.js';
import { methods } from '../../../gen/methods.js';

/**
 * The effect of a second copy of a request, however late the copy reaches the server. Browsers and Deno resend a POST
 * when a kept-alive connection is reset before the response headers arrive.
 *
 * - `harmless`: The copy changes nothing that a client relies on. If the server refuses the request, no copy of the
 *   request had an effect.
 * - `spent`: The server refuses the copy, or the copy finds nothing to do, because the ID or the revision in the
 *   request is never used again. A refusal may be the answer to the copy, so it does not prove that the first request
 *   had no effect.
 * - `guarded`: The copy would write again. The client guards the write: see src/locks/guards.ts. The gateway transport
 *   refuses a write without a guard unless the caller allows it.
 * - `harmful`: The copy would take effect again, and no condition that the server checks can prevent this second
 *   effect. The client refuses to send the request unless the caller allows it.
 */
export type RepeatEffect = 'harmless' | 'spent' | 'guarded' | 'harmful';

interface GatewayRpc {
  /** HTTP path. Undefined if the gateway does not offer the RPC. */
  readonly path: string | undefined;
  /** Effect of a second copy. Some requests of the RPC have another effect: see `repeatEffectOf`. */
  readonly repeat: RepeatEffect;
}

/**
 * Every RPC by its gRPC path. The HTTP paths are those in the .proto files of etcd 3.5 to 3.7. The gateway of etcd 3.4
 * lacks HashKV, AuthStatus and Downgrade.
 */
const RPCS: Readonly<Record<string, GatewayRpc>> = {
  // Reads.
  '/etcdserverpb.KV/Range': { path: '/v3/kv/range', repeat: 'harmless' },
  '/etcdserverpb.KV/RangeStream': { path: undefined, repeat: 'harmless' },
  // Writes.
  '/etcdserverpb.KV/Put': { path: '/v3/kv/put', repeat: 'guarded' },
  '/etcdserverpb.KV/DeleteRange': { path: '/v3/kv/deleterange', repeat: 'guarded' },
  '/etcdserverpb.KV/Txn': { path: '/v3/kv/txn', repeat: 'guarded' },
  // The server refuses a second compaction at the same revision.
  '/etcdserverpb.KV/Compact': { path: '/v3/kv/compaction', repeat: 'spent' },
  // A watch only reads the history.
  '/etcdserverpb.Watch/Watch': { path: '/v3/watch', repeat: 'harmless' },
  // The copy grants another lease, which stays without keys. If the caller has chosen the ID, the effect is `spent`:
  // the server refuses the copy as long as the lease exists. After that, the copy grants a lease without keys.
  '/etcdserverpb.Lease/LeaseGrant': { path: '/v3/lease/grant', repeat: 'harmless' },
  // A revoked lease no longer exists, and the server never chooses the same ID again.
  '/etcdserverpb.Lease/LeaseRevoke': { path: '/v3/lease/revoke', repeat: 'spent' },
  // A keepalive renews a lease for its TTL, but only while the lease exists.
  '/etcdserverpb.Lease/LeaseKeepAlive': { path: '/v3/lease/keepalive', repeat: 'harmless' },
  '/etcdserverpb.Lease/LeaseTimeToLive': { path: '/v3/lease/timetolive', repeat: 'harmless' },
  '/etcdserverpb.Lease/LeaseLeases': { path: '/v3/lease/leases', repeat: 'harmless' },
  // The copy may add a member that has been removed since.
  '/etcdserverpb.Cluster/MemberAdd': { path: '/v3/cluster/member/add', repeat: 'harmful' },
  // The ID of a removed member is never used again, and a promoted member never becomes a learner again.
  '/etcdserverpb.Cluster/MemberRemove': { path: '/v3/cluster/member/remove', repeat: 'spent' },
  '/etcdserverpb.Cluster/MemberPromote': { path: '/v3/cluster/member/promote', repeat: 'spent' },
  // The copy may restore URLs that have been changed since.
  '/etcdserverpb.Cluster/MemberUpdate': { path: '/v3/cluster/member/update', repeat: 'harmful' },
  '/etcdserverpb.Cluster/MemberList': { path: '/v3/cluster/member/list', repeat: 'harmless' },
  // The copy may raise an alarm that has been cleared since, or clear a new one. The action GET only reads.
  '/etcdserverpb.Maintenance/Alarm': { path: '/v3/maintenance/alarm', repeat: 'harmful' },
  '/etcdserverpb.Maintenance/Status': { path: '/v3/maintenance/status', repeat: 'harmless' },
  // Defragmentation blocks the member for a while, but changes no data.
  '/etcdserverpb.Maintenance/Defragment': { path: '/v3/maintenance/defragment', repeat: 'harmless' },
  '/etcdserverpb.Maintenance/Hash': { path: '/v3/maintenance/hash', repeat: 'harmless' },
  '/etcdserverpb.Maintenance/HashKV': { path: '/v3/maintenance/hashkv', repeat: 'harmless' },
  '/etcdserverpb.Maintenance/Snapshot': { path: '/v3/maintenance/snapshot', repeat: 'harmless' },
  // The copy may move the leadership back after another move.
  '/etcdserverpb.Maintenance/MoveLeader': { path: '/v3/maintenance/transfer-leadership', repeat: 'harmful' },
  // The copy may start a downgrade that has been canceled since, or cancel a new one. VALIDATE changes nothing.
  '/etcdserverpb.Maintenance/Downgrade': { path: '/v3/maintenance/downgrade', repeat: 'harmful' },
  // The copy may revert a later change of users, roles, passwords or permissions.
  '/etcdserverpb.Auth/AuthEnable': { path: '/v3/auth/enable', repeat: 'harmful' },
  '/etcdserverpb.Auth/AuthDisable': { path: '/v3/auth/disable', repeat: 'harmful' },
  '/etcdserverpb.Auth/UserAdd': { path: '/v3/auth/user/add', repeat: 'harmful' },
  '/etcdserverpb.Auth/UserDelete': { path: '/v3/auth/user/delete', repeat: 'harmful' },
  '/etcdserverpb.Auth/UserChangePassword': { path: '/v3/auth/user/changepw', repeat: 'harmful' },
  '/etcdserverpb.Auth/UserGrantRole': { path: '/v3/auth/user/grant', repeat: 'harmful' },
  '/etcdserverpb.Auth/UserRevokeRole': { path: '/v3/auth/user/revoke', repeat: 'harmful' },
  '/etcdserverpb.Auth/RoleAdd': { path: '/v3/auth/role/add', repeat: 'harmful' },
  '/etcdserverpb.Auth/RoleDelete': { path: '/v3/auth/role/delete', repeat: 'harmful' },
  '/etcdserverpb.Auth/RoleGrantPermission': { path: '/v3/auth/role/grant', repeat: 'harmful' },
  '/etcdserverpb.Auth/RoleRevokePermission': { path: '/v3/auth/role/revoke', repeat: 'harmful' },
  '/etcdserverpb.Auth/AuthStatus': { path: '/v3/auth/status', repeat: 'harmless' },
  '/etcdserverpb.Auth/UserGet': { path: '/v3/auth/user/get', repeat: 'harmless' },
  '/etcdserverpb.Auth/UserList': { path: '/v3/auth/user/list', repeat: 'harmless' },
  '/etcdserverpb.Auth/RoleGet': { path: '/v3/auth/role/get', repeat: 'harmless' },
  '/etcdserverpb.Auth/RoleList': { path: '/v3/auth/role/list', repeat: 'harmless' },
  // The copy makes the server issue one more token, which expires.
  '/etcdserverpb.Auth/Authenticate': { path: '/v3/auth/authenticate', repeat: 'harmless' },
  // The copy may take a lock that has been released, or release a lock that the same session has taken again.
  '/v3lockpb.Lock/Lock': { path: '/v3/lock/lock', repeat: 'harmful' },
  '/v3lockpb.Lock/Unlock': { path: '/v3/lock/unlock', repeat: 'harmful' },
  // The copy may campaign again after a resignation, or restore an older value.
  '/v3electionpb.Election/Campaign': { path: '/v3/election/campaign', repeat: 'harmful' },
  '/v3electionpb.Election/Proclaim': { path: '/v3/election/proclaim', repeat: 'harmful' },
  '/v3electionpb.Election/Leader': { path: '/v3/election/leader', repeat: 'harmless' },
  '/v3electionpb.Election/Observe': { path: '/v3/election/observe', repeat: 'harmless' },
  // The server deletes the leader's key only if the key's create revision equals the revision in the request. No later
  // key has the same create revision.
  '/v3electionpb.Election/Resign': { path: '/v3/election/resign', repeat: 'spent' },
};

/** Returns the HTTP path of an RPC, or undefined if the gateway does not offer the RPC. */
export function gatewayPath({ path }: { readonly path: string }): string | undefined {
  return RPCS[path]?.path;
}

/**
 * Returns the effect of a second copy of this request. `request` must have all its fields set, as `GatewayHttp.message`
 * returns it. An RPC that is not in the table counts as `harmful`.
 */
export function repeatEffectOf({ path }: { readonly path: string }, request: unknown): RepeatEffect {
  switch (path) {
    case methods.kv.txn.path:
      return hasWrites(request as TxnRequest) ? 'guarded' : 'harmless';
    case methods.lease.leaseGrant.path:
      return (request as LeaseGrantRequest).id === 0n ? 'harmless' : 'spent';
    case methods.maintenance.alarm.path:
      return (request as AlarmRequest).action === AlarmAction.GET ? 'harmless' : 'harmful';
    case methods.maintenance.downgrade.path:
      return (request as DowngradeRequest).action === DowngradeAction.VALIDATE ? 'harmless' : 'harmful';
    default:
      return RPCS[path]?.repeat ?? 'harmful';
  }
}

/** Whether a branch of the transaction, or of a nested transaction, puts or deletes a key. */
function hasWrites({ success, failure }: TxnRequest): boolean {
  return [...success, ...failure].some(({ request }: RequestOp) => {
    if (request?.case === 'requestTxn') return hasWrites(request.value);
    return request?.case === 'requestPut' || request?.case === 'requestDeleteRange';
  });
}
