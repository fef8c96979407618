/**
 * The names of the gRPC status codes, in Go's spelling. The index of a name is the number of the code:
 * https://grpc.github.io/grpc/core/md_doc_statuscodes.html
 */
export const STATUS_CODES = [
  'OK',
  'Canceled',
  'Unknown',
  'InvalidArgument',
  'DeadlineExceeded',
  'NotFound',
  'AlreadyExists',
  'PermissionDenied',
  'ResourceExhausted',
  'FailedPrecondition',
  'Aborted',
  'OutOfRange',
  'Unimplemented',
  'Internal',
  'Unavailable',
  'DataLoss',
  'Unauthenticated',
] as const;

/** The name of a gRPC status code, in Go's spelling. */
export type StatusCode = (typeof STATUS_CODES)[number];

/** Returns the name of a status code. gRPC requires clients to treat an unknown number as `Unknown`. */
export function statusCode(number: number): StatusCode {
  return STATUS_CODES[number] ?? 'Unknown';
}

/**
 * The errors that an etcd 3.7.1 server defines, each with its reason, its gRPC status and its message. Several
 * errors share a status, so the message identifies the error. Servers before 3.7 send a subset of these errors.
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
  // `ProposalDropped` is not in Go's `rpctypes`; see `ServerReason`.
  ProposalDropped: ['Unknown', 'raft proposal dropped'],
} as const satisfies Record<string, readonly [StatusCode, string]>;

/**
 * The name of an error that the server reports. The names come from Go's package `rpctypes`, without the prefix `Err`.
 * Only `ProposalDropped` is not in that package. It means that raft dropped the request, because the cluster had no
 * leader, the leader was changing, or too many proposals were waiting.
 */
export type ServerReason = keyof typeof SERVER_ERRORS;

const REASONS: ReadonlyMap<string, ServerReason> = new Map([
  ...Object.entries(SERVER_ERRORS).map(([name, [, message]]) => [message, name as ServerReason] as const),
  // This message is not in Go's `rpctypes`, but it means the same as `AuthFailed`.
  ['auth: authentication failed, password was given for no password user', 'AuthFailed'],
]);

/** Returns the reason whose error has this message, or undefined if etcd has no such error message. */
export function serverReason(message: string): ServerReason | undefined {
  return REASONS.get(message);
}

/** Returns the gRPC status that etcd sends with the reason. */
export function statusOfReason(reason: ServerReason): StatusCode {
  return SERVER_ERRORS[reason][0];
}
