import type { StatusCode } from './status.js';

/**
 * Every error that an etcd 3.7.1 server names: gRPC status and message as they stand on the wire. The status alone is
 * ambiguous, so the message decides; older servers send a subset.
 */
export const SERVER_ERRORS = {
  EmptyKey: ['InvalidArgument', 'etcdserver: key is not provided'],
  KeyNotFound: ['InvalidArgument', 'etcdserver: key not found'],
  ValueProvided: ['InvalidArgument', 'etcdserver: value is provided'],
  LeaseProvided: ['InvalidArgument', 'etcdserver: lease is provided'],
  TooManyOps: ['InvalidArgument', 'etcdserver: too many operations in txn request'],
  DuplicateKey: ['InvalidArgument', 'etcdserver: duplicate key given in txn request'],
  InvalidClientAPIVersion: ['InvalidArgument', 'etcdserver: invalid client api version'],
  InvalidSortOption: ['InvalidArgument', 'etcdserver: invalid sort option'],
  Compacted: ['OutOfRange', 'etcdserver: mvcc: required revision has been compacted'],
  FutureRev: ['OutOfRange', 'etcdserver: mvcc: required revision is a future revision'],
  NoSpace: ['ResourceExhausted', 'etcdserver: mvcc: database space exceeded'],
  LeaseNotFound: ['NotFound', 'etcdserver: requested lease not found'],
  LeaseExist: ['FailedPrecondition', 'etcdserver: lease already exists'],
  LeaseTTLTooLarge: ['OutOfRange', 'etcdserver: too large lease TTL'],
  WatchCanceled: ['Canceled', 'etcdserver: watch canceled'],
  MemberExist: ['FailedPrecondition', 'etcdserver: member ID already exist'],
  PeerURLExist: ['FailedPrecondition', 'etcdserver: Peer URLs already exists'],
  MemberNotEnoughStarted: [
    'FailedPrecondition',
    'etcdserver: re-configuration failed due to not enough started members',
  ],
  MemberBadURLs: ['InvalidArgument', 'etcdserver: given member URLs are invalid'],
  MemberNotFound: ['NotFound', 'etcdserver: member not found'],
  MemberNotLearner: ['FailedPrecondition', 'etcdserver: can only promote a learner member'],
  LearnerNotReady: ['FailedPrecondition', 'etcdserver: can only promote a learner member which is in sync with leader'],
  TooManyLearners: ['FailedPrecondition', 'etcdserver: too many learner members in cluster'],
  ClusterIDMismatch: ['FailedPrecondition', 'etcdserver: cluster ID mismatch'],
  RequestTooLarge: ['InvalidArgument', 'etcdserver: request is too large'],
  RequestTooManyRequests: ['ResourceExhausted', 'etcdserver: too many requests'],
  RootUserNotExist: ['FailedPrecondition', 'etcdserver: root user does not exist'],
  RootRoleNotExist: ['FailedPrecondition', 'etcdserver: root user does not have root role'],
  UserAlreadyExist: ['FailedPrecondition', 'etcdserver: user name already exists'],
  UserEmpty: ['InvalidArgument', 'etcdserver: user name is empty'],
  UserNotFound: ['FailedPrecondition', 'etcdserver: user name not found'],
  RoleAlreadyExist: ['FailedPrecondition', 'etcdserver: role name already exists'],
  RoleNotFound: ['FailedPrecondition', 'etcdserver: role name not found'],
  RoleEmpty: ['InvalidArgument', 'etcdserver: role name is empty'],
  AuthFailed: ['InvalidArgument', 'etcdserver: authentication failed, invalid user ID or password'],
  PermissionNotGiven: ['InvalidArgument', 'etcdserver: permission not given'],
  PermissionDenied: ['PermissionDenied', 'etcdserver: permission denied'],
  RoleNotGranted: ['FailedPrecondition', 'etcdserver: role is not granted to the user'],
  PermissionNotGranted: ['FailedPrecondition', 'etcdserver: permission is not granted to the role'],
  AuthNotEnabled: ['FailedPrecondition', 'etcdserver: authentication is not enabled'],
  InvalidAuthToken: ['Unauthenticated', 'etcdserver: invalid auth token'],
  InvalidAuthMgmt: ['InvalidArgument', 'etcdserver: invalid auth management'],
  AuthOldRevision: ['InvalidArgument', 'etcdserver: revision of auth store is old'],
  NoLeader: ['Unavailable', 'etcdserver: no leader'],
  NotLeader: ['FailedPrecondition', 'etcdserver: not leader'],
  LeaderChanged: ['Unavailable', 'etcdserver: leader changed'],
  NotCapable: ['FailedPrecondition', 'etcdserver: not capable'],
  Stopped: ['Unavailable', 'etcdserver: server stopped'],
  Timeout: ['Unavailable', 'etcdserver: request timed out'],
  TimeoutDueToLeaderFail: ['Unavailable', 'etcdserver: request timed out, possibly due to previous leader failure'],
  TimeoutDueToConnectionLost: ['Unavailable', 'etcdserver: request timed out, possibly due to connection lost'],
  TimeoutWaitAppliedIndex: [
    'Unavailable',
    'etcdserver: request timed out, waiting for the applied index took too long',
  ],
  Unhealthy: ['Unavailable', 'etcdserver: unhealthy cluster'],
  Corrupt: ['DataLoss', 'etcdserver: corrupt cluster'],
  NotSupportedForLearner: ['FailedPrecondition', 'etcdserver: rpc not supported for learner'],
  BadLeaderTransferee: ['FailedPrecondition', 'etcdserver: bad leader transferee'],
  WrongDowngradeVersionFormat: ['InvalidArgument', 'etcdserver: wrong downgrade target version format'],
  InvalidDowngradeTargetVersion: ['InvalidArgument', 'etcdserver: invalid downgrade target version'],
  ClusterVersionUnavailable: ['FailedPrecondition', 'etcdserver: cluster version not found during downgrade'],
  DowngradeInProcess: ['FailedPrecondition', 'etcdserver: cluster has a downgrade job in progress'],
  NoInflightDowngrade: ['FailedPrecondition', 'etcdserver: no inflight downgrade job'],
  Canceled: ['Canceled', 'etcdserver: request canceled'],
  DeadlineExceeded: ['DeadlineExceeded', 'etcdserver: context deadline exceeded'],
  // Go's `rpctypes` does not name it.
  ProposalDropped: ['Unknown', 'raft proposal dropped'],
} as const satisfies Record<string, readonly [StatusCode, string]>;

/**
 * The name of a server error, as in Go's `rpctypes` less the prefix `Err`; and `ProposalDropped`, which `rpctypes` does not
 * name: raft on the member that got the request dropped it, because there was no leader, the leader was being changed, or
 * too many proposals were waiting.
 */
export type ServerReason = keyof typeof SERVER_ERRORS;

const byMessage = new Map<string, ServerReason>(
  Object.entries(SERVER_ERRORS).map(([name, [, message]]) => [message, name as ServerReason]),
);

/** Messages without a name of their own in etcd, by what they amount to. */
const UNNAMED: ReadonlyMap<string, ServerReason> = new Map([
  ['auth: authentication failed, password was given for no password user', 'AuthFailed'],
]);

export function serverReason(message: string): ServerReason | undefined {
  return byMessage.get(message) ?? UNNAMED.get(message);
}

export function statusOfReason(reason: ServerReason): StatusCode {
  return SERVER_ERRORS[reason][0];
}
