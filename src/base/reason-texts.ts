import type { ClientReason, Outcome, Reason, ServerReason } from './index.js';

// The texts of docs/errors.md, which the page of a trace shows, too. The types require an entry for every reason and
// forbid an entry for any other.

interface ReasonText {
  /** Why the call failed. Undefined if the server's message says it. */
  readonly cause?: string;
  /** What the caller or the operator can do. */
  readonly remedy: string;
}

interface ClientReasonText extends ReasonText {
  readonly cause: string;
  /**
   * What the error says about a write: one outcome, `none` if the error does not concern a write, or a text if the
   * outcome differs from case to case.
   */
  readonly outcome: Outcome | 'none' | `${string} ${string}`;
}

export const CLIENT_REASONS: Readonly<Record<ClientReason, ClientReasonText>> = {
  InvalidInput: {
    cause: 'The client refused an argument. The message says what is allowed.',
    outcome: 'not-sent',
    remedy: 'Correct the argument.',
  },
  InvalidValue: {
    cause: 'The codec of `typed` could not decode a value. `cause` is what the codec has thrown.',
    outcome: 'none',
    remedy: 'Read `TypedKeyValue.error` before `value`, or correct the value.',
  },
  InvalidJson: {
    cause:
      'A value is not JSON, or the function passed to `KeyValue.json` refused it. `cause` is the error of the parser or of the function.',
    outcome: 'none',
    remedy: 'Read the value with `text()`, or correct it.',
  },
  NotText: {
    cause: 'The program has read `key` of a key that is not UTF-8.',
    outcome: 'none',
    remedy: 'Read `keyBytes`.',
  },
  ResultLost: {
    cause:
      'A write with `retryWrites` was applied once, at `revision`, but its answer was lost, and the client cannot find out the result.',
    outcome: 'applied',
    remedy: 'Do not repeat the write. Read the keys, if the result matters.',
  },
  ConnectFailed: {
    cause:
      'The client could not connect: unknown host, refused connection, wrong certificate, or no answer within `connectTimeoutMs`. `connect` rejects with this reason. Other calls try again, and have this error as the `cause` of `DeadlineExceeded`.',
    outcome: 'not-sent',
    remedy: 'Check the endpoint, its scheme and the certificates.',
  },
  ConnectionLost: {
    cause: 'The connection or the stream broke during the call.',
    outcome: '`not-sent` if no byte of the request had left, otherwise `unknown`',
    remedy: 'If `unknown`, check whether the write took effect, or repeat it if it is idempotent.',
  },
  StreamRefused: {
    cause: 'HTTP/2 refused the call: by GOAWAY, or by RST_STREAM with REFUSED_STREAM.',
    outcome: '`rejected` for GOAWAY, `unknown` for REFUSED_STREAM',
    remedy: 'If `rejected`, repeat the call. If `unknown`, proceed as for `ConnectionLost`.',
  },
  ProtocolError: {
    cause: 'The peer has violated the HTTP/2 protocol.',
    outcome: 'unknown',
    remedy: 'Check that the endpoint is etcd or a proxy that speaks HTTP/2.',
  },
  NotEtcd: {
    cause:
      'The server answered without gRPC, for example with HTML, or has no service of etcd. The message says what answered.',
    outcome: '`rejected` if a gRPC server does not know the service, otherwise `unknown`',
    remedy: 'Correct the endpoint, or the rules of the proxy.',
  },
  MalformedMessage: {
    cause: 'The bytes of the response are not a valid message.',
    outcome: 'unknown',
    remedy: 'Check the endpoint and the proxies in front of it. If they are correct, report a bug.',
  },
  ResponseTooLarge: {
    cause: 'The response is longer than `maxReceiveBytes`.',
    outcome: 'unknown',
    remedy: 'Raise `maxReceiveBytes`, read fewer keys with `limit`, or use `scan`.',
  },
  HeadersTooLarge: {
    cause: 'The headers of the request, such as a token, are larger than the server allows.',
    outcome: 'not-sent',
    remedy: 'Use a shorter token, or raise the limit of the server or proxy.',
  },
  ClientClosed: {
    cause: 'The client was closed before the call ended.',
    outcome: '`not-sent` if the request had not left, otherwise `unknown`',
    remedy: 'Close the client after the last call. It cannot be opened again.',
  },
  LeaseExpired: {
    cause: 'The server no longer knows the lease: it expired, or another client revoked it.',
    outcome: 'none',
    remedy: 'Stop what depends on the lease. Grant a new one, or open a new session.',
  },
  LeaseRevoked: {
    cause: 'This client revoked the lease.',
    outcome: 'none',
    remedy: 'None needed: this is the expected end of a lease.',
  },
  LeaseUnreachable: {
    cause: 'No server acknowledged a renewal before the deadline of the lease.',
    outcome: 'none',
    remedy: 'Stop what depends on the lease, because it may have expired. Check the connection.',
  },
  KeepAliveClosed: {
    cause: 'The keepalive was closed, so this client no longer renews the lease.',
    outcome: 'none',
    remedy: 'None needed: this is the expected end of a keepalive.',
  },
  LockTaken: {
    cause: 'Another contender held the lock, leadership or permit until `maxWaitMs` had passed.',
    outcome: '`rejected`; `unknown` if the deletion of the queue key was not acknowledged',
    remedy: 'Wait longer, try again later, or look up the holder with `inspectLock`.',
  },
  LockLost: {
    cause: 'The caller no longer holds the lock: its queue key is gone or has another create revision.',
    outcome: 'rejected',
    remedy: 'Stop the work, and acquire the lock again.',
  },
  LockReleased: {
    cause: 'The holder released the lock or resigned the leadership.',
    outcome: 'rejected',
    remedy: 'Do not use a lock after its release.',
  },
  SnapshotCorrupt: {
    cause: 'The snapshot, or the copy of a persisted range, is incomplete, or its SHA-256 does not match.',
    outcome: 'none',
    remedy: 'Discard the bytes and take the snapshot again. A persisted range does so itself.',
  },
  ClusterChanged: {
    cause: 'The endpoint belongs to another cluster, or the cluster was restored from an older backup.',
    outcome: 'unknown',
    remedy:
      'After a restore, read the state again, and open new watches, leases and locks. For another cluster, create a new `Client`.',
  },
  TxnConflict: {
    cause: 'In each attempt of `stm`, another client changed a key that the transaction had read.',
    outcome: 'rejected',
    remedy: 'Repeat the transaction, allow more attempts, or read fewer keys.',
  },
  BarrierFull: {
    cause: 'All participants have already entered the double barrier.',
    outcome: 'rejected',
    remedy: 'Give every participant the same count, or use a new name.',
  },
  NotInGateway: {
    cause:
      "etcd's JSON gateway does not have this call, or the runtime may send the request twice, and etcd could apply it twice.",
    outcome: 'not-sent',
    remedy: 'Use the default transport. See [Runtimes](runtimes.md).',
  },
  WatchClosed: {
    cause: 'The watch or the cached range was closed.',
    outcome: 'none',
    remedy: 'None needed: this is the expected end of a watch.',
  },
  Other: {
    cause: 'A failure that has no other reason: see `code`, the message and `cause`.',
    outcome: 'unknown unless the error says otherwise',
    remedy: 'Read the message. A proxy between the client and etcd is a frequent source.',
  },
};

const REPEAT_READ = 'The client repeats reads on its own.';
const CHECK_WRITE = 'Before you repeat a write, read what it should have changed.';

export const SERVER_REASONS: Readonly<Record<ServerReason, ReasonText>> = {
  EmptyKey: { remedy: 'Give a key. `fromKey` and `prefix` name ranges.' },
  KeyNotFound: {
    cause: 'A put with `ignoreValue` or `ignoreLease` needs a key that exists.',
    remedy: 'Put the key with a value first.',
  },
  ValueProvided: { cause: 'A put with `ignoreValue` has a value.', remedy: 'Leave the value empty.' },
  LeaseProvided: { cause: 'A put with `ignoreLease` has a lease.', remedy: 'Leave the lease out.' },
  TooManyOps: {
    cause: 'Above `--max-txn-ops`.',
    remedy: "Split the transaction, or raise the server's limit and the client's `maxTxnOps`.",
  },
  DuplicateKey: { remedy: 'Write each key once in a transaction.' },
  InvalidClientAPIVersion: { remedy: 'Use a supported etcd version.' },
  InvalidSortOption: { remedy: 'Use another `sort`.' },
  Compacted: {
    cause: 'The revision was compacted. `compactRevision` is the oldest one available.',
    remedy: 'Read the current state, and watch from its revision. `mirror` and `cachedRange` do so themselves.',
  },
  FutureRev: { remedy: 'Use a revision from a response of the same cluster.' },
  NoSpace: {
    cause: 'The database has reached `--quota-backend-bytes`. etcd may apply a write in spite of this error.',
    remedy: 'Compact with `physical: true`, defragment every member, then `maintenance.disarm` the alarm.',
  },
  LeaseNotFound: { cause: 'The lease expired or was revoked.', remedy: 'Grant a new lease, or open a new session.' },
  LeaseExist: { remedy: 'Choose another id, or let the client choose it.' },
  LeaseTTLTooLarge: { cause: 'The TTL is above 9,000,000,000 s.', remedy: 'Use a smaller TTL.' },
  WatchCanceled: { remedy: 'Open a new watch.' },
  MemberExist: { remedy: 'Read `cluster.memberList` first.' },
  PeerURLExist: { remedy: 'Remove that member, or use another URL.' },
  MemberNotEnoughStarted: {
    remedy: 'Start the stopped members first, so that a quorum remains, or add the member as a learner.',
  },
  MemberBadURLs: { remedy: 'Give URLs such as `http://10.0.0.1:2380`.' },
  MemberNotFound: { remedy: 'Read `cluster.memberList` first.' },
  MemberNotLearner: { remedy: 'None needed: the member already votes.' },
  LearnerNotReady: { remedy: 'Wait, then promote the learner again.' },
  TooManyLearners: { remedy: 'Promote or remove a learner first.' },
  ClusterIDMismatch: { remedy: "Check the member's configuration." },
  RequestTooLarge: {
    cause: 'Above `--max-request-bytes`.',
    remedy: "Send smaller values, or raise the server's limit and the client's `maxRequestBytes`.",
  },
  RequestTooManyRequests: {
    cause: 'The member applies entries too slowly.',
    remedy: 'Raise `timeoutMs`, because the client repeats the call until then, or send fewer writes at a time.',
  },
  RootUserNotExist: { remedy: 'Add the user before `auth.enable`.' },
  RootRoleNotExist: { remedy: 'Grant the role before `auth.enable`.' },
  UserAlreadyExist: { remedy: 'Choose another name.' },
  UserEmpty: {
    cause: 'Also if authentication is on and the call has no token.',
    remedy: 'Give a name, or give the client `auth`.',
  },
  UserNotFound: { remedy: 'Read `auth.userList` first.' },
  RoleAlreadyExist: { remedy: 'Choose another name.' },
  RoleNotFound: { remedy: 'Read `auth.roleList` first.' },
  RoleEmpty: { remedy: 'Give a name.' },
  AuthFailed: { remedy: 'Correct `auth`. The client does not try the same password again.' },
  PermissionNotGiven: { remedy: 'Give a permission.' },
  PermissionDenied: {
    cause: 'The error names the user and the keys of the request.',
    remedy:
      'Grant a role with the permission. Locks, queues and the gateway also use keys that the caller does not name.',
  },
  RoleNotGranted: { remedy: 'Read `auth.userGet` first.' },
  PermissionNotGranted: { remedy: 'Read `auth.roleGet` first.' },
  AuthNotEnabled: { remedy: 'Call `auth.enable`, or leave `auth` out.' },
  InvalidAuthToken: {
    cause:
      'The token is unknown or expired, and the client cannot renew it: the caller gave it, or three new ones were refused.',
    remedy: 'Give a valid token, or `username` and `password`, which the client exchanges for tokens.',
  },
  InvalidAuthMgmt: { remedy: 'Check its arguments.' },
  AuthOldRevision: {
    cause: 'Users or roles have changed since, and new tokens were refused, too.',
    remedy: 'Repeat the call.',
  },
  NoLeader: {
    cause: 'The member has not processed the call.',
    remedy: 'The client repeats the call, also at another member, until its time limit.',
  },
  NotLeader: { cause: 'From `moveLeader`: no endpoint is the leader.', remedy: 'Name all members as `endpoints`.' },
  LeaderChanged: { remedy: `${REPEAT_READ} ${CHECK_WRITE}` },
  NotCapable: { remedy: 'Upgrade all members.' },
  Stopped: { remedy: `${REPEAT_READ} ${CHECK_WRITE}` },
  Timeout: { remedy: `${REPEAT_READ} ${CHECK_WRITE}` },
  TimeoutDueToLeaderFail: { remedy: `${REPEAT_READ} ${CHECK_WRITE}` },
  TimeoutDueToConnectionLost: { remedy: `Check the network between the members. ${CHECK_WRITE}` },
  TimeoutWaitAppliedIndex: {
    cause: 'The member is too far behind for a linearizable read.',
    remedy: `${REPEAT_READ} Check the disk of the member.`,
  },
  Unhealthy: { remedy: 'Check the members, then repeat the change.' },
  Corrupt: {
    cause: 'The members found different data.',
    remedy: 'Follow the etcd guide on data corruption before you write again.',
  },
  NotSupportedForLearner: {
    cause: 'The client uses another endpoint if there is one.',
    remedy: 'Name a voting member as endpoint.',
  },
  BadLeaderTransferee: { remedy: 'Choose a started, voting member.' },
  WrongDowngradeVersionFormat: { remedy: 'Give a version such as `3.6`.' },
  InvalidDowngradeTargetVersion: { remedy: 'Give the version that is one minor version below the cluster.' },
  ClusterVersionUnavailable: { remedy: 'Repeat the call later.' },
  DowngradeInProcess: { remedy: 'Cancel the downgrade, or wait until it ends.' },
  NoInflightDowngrade: { remedy: 'None needed.' },
  Canceled: {
    cause: 'The caller aborted the `signal`, whose reason is the `cause`, or the server canceled the request.',
    remedy: CHECK_WRITE,
  },
  DeadlineExceeded: {
    cause:
      '`timeoutMs` or `maxWaitMs` has passed. `cause` is the last failure, or an `AggregateError` of the failures at several endpoints. Without a `cause`, the servers answered, but the wait was not over. For a lock that another contender holds, the reason is `LockTaken`.',
    remedy: `Allow more time, or check the \`cause\`. ${CHECK_WRITE}`,
  },
  SessionExpired: {
    cause: 'From `raw.lock.lock`: the lease ended during the wait.',
    remedy: 'Grant a new lease, keep it alive, and call `lock` again.',
  },
  ElectionNoLeader: { remedy: 'Wait for a leader, for example with `observe`.' },
  ElectionNotLeader: {
    cause: 'From `raw.election.proclaim`.',
    remedy: 'Stop the work of the leader, and call `campaign` again.',
  },
  ProposalDropped: {
    cause: 'There was no leader, the leader was changing, or too many proposals were waiting.',
    remedy: 'The client repeats the call within its time limit. After that, repeat it later.',
  },
};

const REASONS: Readonly<Record<Reason, ReasonText>> = { ...CLIENT_REASONS, ...SERVER_REASONS };

/** Returns what the caller or the operator can do after an error with this reason, in Markdown. */
export function remedyOf(reason: Reason): string {
  return REASONS[reason].remedy;
}
