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
 * The errors that an etcd 3.7.1 server defines: their reasons and messages by gRPC status. Several errors share a
 * status, so the message identifies the error. Servers before 3.7 send a subset of these errors. Each message begins
 * with `MESSAGE_PREFIX`, which the table leaves out.
 */
const MESSAGES = {
  InvalidArgument: {
    EmptyKey: 'key is not provided',
    KeyNotFound: 'key not found',
    ValueProvided: 'value is provided',
    LeaseProvided: 'lease is provided',
    TooManyOps: 'too many operations in txn request',
    DuplicateKey: 'duplicate key given in txn request',
    InvalidClientAPIVersion: 'invalid client api version',
    InvalidSortOption: 'invalid sort option',
    MemberBadURLs: 'given member URLs are invalid',
    RequestTooLarge: 'request is too large',
    UserEmpty: 'user name is empty',
    RoleEmpty: 'role name is empty',
    AuthFailed: 'authentication failed, invalid user ID or password',
    PermissionNotGiven: 'permission not given',
    InvalidAuthMgmt: 'invalid auth management',
    AuthOldRevision: 'revision of auth store is old',
    WrongDowngradeVersionFormat: 'wrong downgrade target version format',
    InvalidDowngradeTargetVersion: 'invalid downgrade target version',
  },
  OutOfRange: {
    Compacted: 'mvcc: required revision has been compacted',
    FutureRev: 'mvcc: required revision is a future revision',
    LeaseTTLTooLarge: 'too large lease TTL',
  },
  ResourceExhausted: {
    NoSpace: 'mvcc: database space exceeded',
    RequestTooManyRequests: 'too many requests',
  },
  NotFound: {
    LeaseNotFound: 'requested lease not found',
    MemberNotFound: 'member not found',
  },
  FailedPrecondition: {
    LeaseExist: 'lease already exists',
    MemberExist: 'member ID already exist',
    PeerURLExist: 'Peer URLs already exists',
    MemberNotEnoughStarted: 're-configuration failed due to not enough started members',
    MemberNotLearner: 'can only promote a learner member',
    LearnerNotReady: 'can only promote a learner member which is in sync with leader',
    TooManyLearners: 'too many learner members in cluster',
    ClusterIDMismatch: 'cluster ID mismatch',
    RootUserNotExist: 'root user does not exist',
    RootRoleNotExist: 'root user does not have root role',
    UserAlreadyExist: 'user name already exists',
    UserNotFound: 'user name not found',
    RoleAlreadyExist: 'role name already exists',
    RoleNotFound: 'role name not found',
    RoleNotGranted: 'role is not granted to the user',
    PermissionNotGranted: 'permission is not granted to the role',
    AuthNotEnabled: 'authentication is not enabled',
    NotLeader: 'not leader',
    NotCapable: 'not capable',
    NotSupportedForLearner: 'rpc not supported for learner',
    BadLeaderTransferee: 'bad leader transferee',
    ClusterVersionUnavailable: 'cluster version not found during downgrade',
    DowngradeInProcess: 'cluster has a downgrade job in progress',
    NoInflightDowngrade: 'no inflight downgrade job',
  },
  Canceled: {
    WatchCanceled: 'watch canceled',
    Canceled: 'request canceled',
  },
  PermissionDenied: {
    PermissionDenied: 'permission denied',
  },
  Unauthenticated: {
    InvalidAuthToken: 'invalid auth token',
  },
  Unavailable: {
    NoLeader: 'no leader',
    LeaderChanged: 'leader changed',
    Stopped: 'server stopped',
    Timeout: 'request timed out',
    TimeoutDueToLeaderFail: 'request timed out, possibly due to previous leader failure',
    TimeoutDueToConnectionLost: 'request timed out, possibly due to connection lost',
    TimeoutWaitAppliedIndex: 'request timed out, waiting for the applied index took too long',
    Unhealthy: 'unhealthy cluster',
  },
  DataLoss: {
    Corrupt: 'corrupt cluster',
  },
  DeadlineExceeded: {
    DeadlineExceeded: 'context deadline exceeded',
  },
} as const satisfies Partial<Record<StatusCode, Readonly<Record<string, string>>>>;

const MESSAGE_PREFIX = 'etcdserver: ';

/**
 * Errors of other Go packages, which etcd forwards with status Unknown: `ErrProposalDropped` of raft, and the errors of
 * the package `concurrency`, with which etcd implements its lock service and its election service.
 */
const FORWARDED = {
  ProposalDropped: 'raft proposal dropped',
  SessionExpired: 'mutex: session is expired',
  ElectionNoLeader: 'election: no leader',
  ElectionNotLeader: 'election: not leader',
} as const;

/**
 * The name of an error that the server reports. Most names come from Go's package `rpctypes`, without the prefix `Err`.
 * These names come from other packages:
 *
 * - `ProposalDropped`: Raft dropped the request, because the cluster had no leader, the leader was changing, or too
 *   many proposals were waiting.
 * - `SessionExpired`: The lease of a call to the lock service ended while the call waited.
 * - `ElectionNoLeader`, `ElectionNotLeader`: The election service found no leader, or another leader.
 */
export type ServerReason =
  | { [Code in keyof typeof MESSAGES]: keyof (typeof MESSAGES)[Code] }[keyof typeof MESSAGES]
  | keyof typeof FORWARDED;

/** The errors that a server reports, each with its reason, its gRPC status and its message. */
export const SERVER_ERRORS = Object.fromEntries([
  ...Object.entries(MESSAGES).flatMap(([code, messages]) =>
    Object.entries(messages).map(([reason, message]) => [reason, [code, MESSAGE_PREFIX + message]]),
  ),
  ...Object.entries(FORWARDED).map(([reason, message]) => [reason, ['Unknown', message]]),
]) as Readonly<Record<ServerReason, readonly [StatusCode, string]>>;

/**
 * Further messages that reach a client, and the reason that means the same. The comments name the source in etcd or in
 * a library of etcd.
 */
const ALIASES: Readonly<Record<string, ServerReason>> = {
  // `Propose` of raft waited for a leader until the member's own time limit (`ReqTimeout`) had passed.
  'context deadline exceeded': 'Timeout',
  // `ErrTimeoutLeaderTransfer` in server/etcdserver/errors.
  'etcdserver: request timed out, leader transfer took too long': 'Timeout',
  // `ErrStopped` of raft.
  'raft: stopped': 'Stopped',
  // A member or an `etcd grpc-proxy` that shuts down cancels its own calls (proxy/grpcproxy/adapter/chan_stream.go,
  // `ErrClientConnClosing` of grpc-go).
  'context canceled': 'Stopped',
  'the client connection is closing': 'Stopped',
  'grpc: the client connection is closing': 'Stopped',
  // `ErrNotPrimary` in server/lease: a former leader cannot confirm that it still leads, so it renews no lease.
  'not a primary lessor': 'NoLeader',
  // `ErrCanceled` in server/etcdserver/errors.
  'etcdserver: request cancelled': 'Canceled',
  // `ErrNoPasswordUser` in server/auth.
  'auth: authentication failed, password was given for no password user': 'AuthFailed',
};

const REASONS: ReadonlyMap<string, ServerReason> = new Map([
  ...Object.entries(SERVER_ERRORS).map(([name, [, message]]) => [message, name as ServerReason] as const),
  ...Object.entries(ALIASES),
]);

/** Returns the reason whose error has this message, or undefined if etcd has no such error message. */
export function serverReason(message: string): ServerReason | undefined {
  return REASONS.get(message);
}

/** Returns the gRPC status that etcd sends with the reason, or undefined if only the client uses this reason. */
export function statusOfReason(reason: ServerReason): StatusCode;
export function statusOfReason(reason: string): StatusCode | undefined;
export function statusOfReason(reason: string): StatusCode | undefined {
  return (SERVER_ERRORS as Readonly<Record<string, readonly [StatusCode, string]>>)[reason]?.[0];
}
