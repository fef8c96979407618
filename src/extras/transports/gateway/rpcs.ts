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
import { allMethods, methodByPath } from '../json/method-table.js';

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

const { auth, cluster, election, kv, lease, maintenance, watch } = methods;

/**
 * The HTTP paths that do not follow the rule of `httpPath`. They are those in the .proto files of etcd 3.5 to 3.7. The
 * gateway of etcd 3.4 lacks HashKV, AuthStatus and Downgrade. Undefined if the gateway does not offer the RPC.
 */
const OTHER_PATHS: ReadonlyMap<string, string | undefined> = new Map([
  [kv.rangeStream.path, undefined],
  [kv.compact.path, '/v3/kv/compaction'],
  [watch.watch.path, '/v3/watch'],
  [maintenance.moveLeader.path, '/v3/maintenance/transfer-leadership'],
  [auth.userChangePassword.path, '/v3/auth/user/changepw'],
  [auth.userGrantRole.path, '/v3/auth/user/grant'],
  [auth.userRevokeRole.path, '/v3/auth/user/revoke'],
  [auth.roleGrantPermission.path, '/v3/auth/role/grant'],
  [auth.roleRevokePermission.path, '/v3/auth/role/revoke'],
]);

/** The HTTP path of every RPC that the gateway offers, by the gRPC path of the RPC. */
const PATHS: ReadonlyMap<string, string | undefined> = new Map(
  allMethods.map(({ path }) => [path, OTHER_PATHS.has(path) ? OTHER_PATHS.get(path) : httpPath(path)]),
);

/**
 * Returns the HTTP path that etcd gives to most RPCs: `/v3/kv/put` for `/etcdserverpb.KV/Put`, `/v3/lease/grant` for
 * `/etcdserverpb.Lease/LeaseGrant`, and `/v3/auth/user/add` for `/etcdserverpb.Auth/UserAdd`.
 */
function httpPath(path: string): string {
  const [service = '', method = ''] = path.slice(path.lastIndexOf('.') + 1).split('/');
  const words = method.replace(/^(?:Auth|Lease)(?=[A-Z])/, '').replace(/^(?:Member|Role|User)/, '$&/');
  return `/v3/${service}/${words}`.toLowerCase();
}

/** Returns the HTTP path of an RPC, or undefined if the gateway does not offer the RPC. */
export function gatewayPath({ path }: { readonly path: string }): string | undefined {
  return PATHS.get(path);
}

/**
 * Returns the effect of a second copy of this request. `request` must have all its fields set, as `GatewayHttp.message`
 * returns it.
 */
export function repeatEffectOf({ path }: { readonly path: string }, request: unknown): RepeatEffect {
  switch (path) {
    case kv.put.path:
    case kv.deleteRange.path:
      return 'guarded';
    case kv.txn.path:
      return hasWrites(request as TxnRequest) ? 'guarded' : 'harmless';
    // The server refuses a second compaction at the same revision.
    case kv.compact.path:
    // A revoked lease no longer exists, and the server never chooses the same ID again.
    case lease.leaseRevoke.path:
    // The ID of a removed member is never used again, and a promoted member never becomes a learner again.
    case cluster.memberRemove.path:
    case cluster.memberPromote.path:
    // The server deletes the leader's key only if the key's create revision equals the revision in the request. No
    // later key has the same create revision.
    case election.resign.path:
      return 'spent';
    // The copy grants another lease, which stays without keys. If the caller has chosen the ID, the server refuses the
    // copy as long as the lease exists. After that, the copy grants a lease without keys.
    case lease.leaseGrant.path:
      return (request as LeaseGrantRequest).id === 0n ? 'harmless' : 'spent';
    // A keepalive renews a lease for its TTL, but only while the lease exists.
    case lease.leaseKeepAlive.path:
    // Defragmentation blocks the member for a while, but changes no data.
    case maintenance.defragment.path:
    // These streams only read.
    case watch.watch.path:
    case maintenance.snapshot.path:
    case election.observe.path:
      return 'harmless';
    // The copy may raise an alarm that has been cleared since, or clear a new one. The action GET only reads.
    case maintenance.alarm.path:
      return (request as AlarmRequest).action === AlarmAction.GET ? 'harmless' : 'harmful';
    // The copy may start a downgrade that has been canceled since, or cancel a new one. VALIDATE changes nothing.
    case maintenance.downgrade.path:
      return (request as DowngradeRequest).action === DowngradeAction.VALIDATE ? 'harmless' : 'harmful';
    // The other RPCs read, or issue one more token, which expires (Authenticate). Or their copy may revert a later change:
    // - It may add a member that has been removed since, restore URLs that have been changed since, or move the
    //   leadership back after another move.
    // - It may restore former users, roles, passwords or permissions.
    // - It may take a lock that has been released, release a lock that the same session has taken again, campaign again
    //   after a resignation, or restore an older value of an election.
    default:
      return methodByPath.get(path)?.repeatable ? 'harmless' : 'harmful';
  }
}

/** Whether a branch of the transaction, or of a nested transaction, puts or deletes a key. */
function hasWrites({ success, failure }: TxnRequest): boolean {
  return [...success, ...failure].some(({ request }: RequestOp) => {
    if (request?.case === 'requestTxn') return hasWrites(request.value);
    return request?.case === 'requestPut' || request?.case === 'requestDeleteRange';
  });
}
