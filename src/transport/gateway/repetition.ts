import {
  AlarmAction,
  type AlarmRequest,
  DowngradeAction,
  type DowngradeRequest,
  type RequestOp,
  type TxnRequest,
} from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';

/**
 * What a second copy of a request does when it reaches the server at any later time. Browsers and Deno send a POST
 * again by themselves when a kept-alive connection is reset before the headers of the answer.
 *
 * - `harmless`: It changes nothing that a client can rely on. A refusal proves that nothing was done.
 * - `spent`: The server refuses it, or it finds nothing to do, because the ID or the revision in it never comes back.
 *   A refusal may be the answer to the second copy, so it does not prove that nothing was done.
 * - `lease-grant`: The same, once the request bears an ID of the client's choice.
 * - `guarded`: It would write again. The client sends it as a transaction that applies only once: see `WriteGuards`.
 * - `harmful`: It would act again, and no condition of the server's can prevent that. The client refuses to send it
 *   unless the caller allows it.
 */
export type Repetition = 'harmless' | 'spent' | 'lease-grant' | 'guarded' | 'harmful';

/** Each RPC, and why. Some have more to say in their requests: see `repetitionOf`. */
const REPETITIONS: Readonly<Record<string, Repetition>> = {
  // A read.
  '/etcdserverpb.KV/Range': 'harmless',
  '/etcdserverpb.KV/RangeStream': 'harmless',
  // A write of keys.
  '/etcdserverpb.KV/Put': 'guarded',
  '/etcdserverpb.KV/DeleteRange': 'guarded',
  '/etcdserverpb.KV/Txn': 'guarded',
  // The history is compacted up to a revision once; the server refuses a second compaction at the same revision.
  '/etcdserverpb.KV/Compact': 'spent',
  // Reads the history.
  '/etcdserverpb.Watch/Watch': 'harmless',
  '/etcdserverpb.Lease/LeaseGrant': 'lease-grant',
  // Once revoked, the ID does not exist, and IDs that the client draws at random do not come back.
  '/etcdserverpb.Lease/LeaseRevoke': 'spent',
  // Renews a lease that exists, for its TTL and no longer; revives none.
  '/etcdserverpb.Lease/LeaseKeepAlive': 'harmless',
  '/etcdserverpb.Lease/LeaseTimeToLive': 'harmless',
  '/etcdserverpb.Lease/LeaseLeases': 'harmless',
  // Adds a member again that was removed meanwhile.
  '/etcdserverpb.Cluster/MemberAdd': 'harmful',
  // The ID of a removed member never comes back, and a voting member never becomes a learner again.
  '/etcdserverpb.Cluster/MemberRemove': 'spent',
  '/etcdserverpb.Cluster/MemberPromote': 'spent',
  // Restores URLs that were changed meanwhile.
  '/etcdserverpb.Cluster/MemberUpdate': 'harmful',
  '/etcdserverpb.Cluster/MemberList': 'harmless',
  // Raises an alarm that was cleared meanwhile, or clears one that was raised meanwhile. The list is a read.
  '/etcdserverpb.Maintenance/Alarm': 'harmful',
  '/etcdserverpb.Maintenance/Status': 'harmless',
  // Costs the member time, and changes no data.
  '/etcdserverpb.Maintenance/Defragment': 'harmless',
  '/etcdserverpb.Maintenance/Hash': 'harmless',
  '/etcdserverpb.Maintenance/HashKV': 'harmless',
  '/etcdserverpb.Maintenance/Snapshot': 'harmless',
  // Moves the leadership back after another move.
  '/etcdserverpb.Maintenance/MoveLeader': 'harmful',
  // Starts a downgrade that was canceled meanwhile, or cancels a new one. The validation is a read.
  '/etcdserverpb.Maintenance/Downgrade': 'harmful',
  // Reverts a later change of users, roles, passwords or permissions.
  '/etcdserverpb.Auth/AuthEnable': 'harmful',
  '/etcdserverpb.Auth/AuthDisable': 'harmful',
  '/etcdserverpb.Auth/UserAdd': 'harmful',
  '/etcdserverpb.Auth/UserDelete': 'harmful',
  '/etcdserverpb.Auth/UserChangePassword': 'harmful',
  '/etcdserverpb.Auth/UserGrantRole': 'harmful',
  '/etcdserverpb.Auth/UserRevokeRole': 'harmful',
  '/etcdserverpb.Auth/RoleAdd': 'harmful',
  '/etcdserverpb.Auth/RoleDelete': 'harmful',
  '/etcdserverpb.Auth/RoleGrantPermission': 'harmful',
  '/etcdserverpb.Auth/RoleRevokePermission': 'harmful',
  '/etcdserverpb.Auth/AuthStatus': 'harmless',
  '/etcdserverpb.Auth/UserGet': 'harmless',
  '/etcdserverpb.Auth/UserList': 'harmless',
  '/etcdserverpb.Auth/RoleGet': 'harmless',
  '/etcdserverpb.Auth/RoleList': 'harmless',
  // Makes one more token, which expires.
  '/etcdserverpb.Auth/Authenticate': 'harmless',
  // Takes a lock again that was released, or releases one that the same session took again.
  '/v3lockpb.Lock/Lock': 'harmful',
  '/v3lockpb.Lock/Unlock': 'harmful',
  // Stands for election again after a resignation, or restores an older value.
  '/v3electionpb.Election/Campaign': 'harmful',
  '/v3electionpb.Election/Proclaim': 'harmful',
  '/v3electionpb.Election/Leader': 'harmless',
  '/v3electionpb.Election/Observe': 'harmless',
  // The server compares the create revision of the leader's key, which never comes back.
  '/v3electionpb.Election/Resign': 'spent',
};

/** `request` is a whole message. An RPC that is not in the table counts as harmful. */
export function repetitionOf({ path }: { readonly path: string }, request: unknown): Repetition {
  switch (path) {
    case methods.kv.txn.path:
      return writes(request as TxnRequest) ? 'guarded' : 'harmless';
    case methods.maintenance.alarm.path:
      return (request as AlarmRequest).action === AlarmAction.GET ? 'harmless' : 'harmful';
    case methods.maintenance.downgrade.path:
      return (request as DowngradeRequest).action === DowngradeAction.VALIDATE ? 'harmless' : 'harmful';
    default:
      return REPETITIONS[path] ?? 'harmful';
  }
}

/** Whether a branch of the transaction, or of one nested in it, puts or deletes. */
function writes({ success, failure }: TxnRequest): boolean {
  return [...success, ...failure].some(({ request }: RequestOp) => {
    if (request?.case === 'requestTxn') return writes(request.value);
    return request?.case === 'requestPut' || request?.case === 'requestDeleteRange';
  });
}
