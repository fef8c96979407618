import type { ClientReason, Outcome, Reason, ServerReason } from './index.js';

// The texts of docs/errors.md, which the page of a trace shows, too. The types require an entry for every reason and
// forbid an entry for any other.

interface ReasonText {
  /** Why the call failed. */
  readonly cause: string;
  /** What the caller or the operator can do. */
  readonly remedy: string;
}

interface ClientReasonText extends ReasonText {
  /**
   * What the error says about a write: one outcome, `none` if the error does not concern a write, or a text if the
   * outcome differs from case to case.
   */
  readonly outcome: Outcome | 'none' | `${string} ${string}`;
}

export const CLIENT_REASONS: Readonly<Record<ClientReason, ClientReasonText>> = {
  InvalidInput: {
    cause: 'The client refused an argument. The message names the argument, what was given and what is allowed.',
    outcome: 'not-sent',
    remedy: 'Correct the argument.',
  },
  InvalidValue: {
    cause:
      'The codec that was passed to `typed` could not decode the value of a key. The `cause` is what the codec has thrown.',
    outcome: 'none',
    remedy: 'Read `TypedKeyValue.error` before `value`, or correct the value.',
  },
  InvalidJson: {
    cause:
      'The value of a key is not JSON, or the function passed to `KeyValue.json` refused it. The `cause` is a ' +
      '`SyntaxError`, or the error of that function.',
    outcome: 'none',
    remedy: 'Read the value with `text()`, or correct it.',
  },
  NotText: {
    cause:
      'The program has read `key` of a key that is not UTF-8. No text names this key, because malformed bytes would become ' +
      'U+FFFD, which names another key.',
    outcome: 'none',
    remedy: 'Read `keyBytes`.',
  },
  ResultLost: {
    cause:
      'A write with `retryWrites` was applied once, at the `revision` of the error, but its answer was lost, and the ' +
      'client cannot find out the result: a later read of the same transaction saw its own write, the revision is compacted, or ' +
      'the deadline has passed.',
    outcome: 'applied',
    remedy: 'Do not repeat the write. Read the keys, if the result matters.',
  },
  ConnectFailed: {
    cause:
      'The client could not connect: the server was not found, refused the connection, has a wrong certificate, or did not answer within `connectTimeoutMs`. The `cause` is the error of the runtime.',
    outcome: 'not-sent',
    remedy: 'Check the endpoint, its scheme and the certificates. Name all members as `endpoints`.',
  },
  ConnectionLost: {
    cause: 'The connection or the stream broke during the call.',
    outcome: '`not-sent` if no byte of the request had left, otherwise `unknown`',
    remedy: 'If `unknown`, check whether the write took effect, or repeat it if it is idempotent.',
  },
  StreamRefused: {
    cause: 'HTTP/2 refused the call: by GOAWAY, or by RST_STREAM with REFUSED_STREAM.',
    outcome: '`rejected` for GOAWAY; `unknown` for REFUSED_STREAM, which some proxies send for requests they passed on',
    remedy: 'If `rejected`, repeat the call. If `unknown`, proceed as for `ConnectionLost`.',
  },
  ProtocolError: {
    cause: 'The peer sent what HTTP/2 forbids (an HTTP/2 protocol error), and the client closed the connection.',
    outcome: 'unknown',
    remedy: 'Check that the endpoint is etcd or a proxy that speaks HTTP/2.',
  },
  NotEtcd: {
    cause:
      'The server that answered is not etcd: it answered over HTTP/2 without gRPC, for example with a page of HTML, or it has none of the services of etcd. The message names the HTTP status and what the server says about itself. A proxy in front of etcd can also send such an answer.',
    outcome: '`rejected` if a gRPC server does not know the service, otherwise `unknown`',
    remedy:
      'Correct the endpoint, or the rules of the proxy. The client uses another endpoint if there is one, and ends the call at once if there is none.',
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
    cause: 'No server acknowledged a renewal before the deadline of the lease on the monotonic clock.',
    outcome: 'none',
    remedy: 'Stop what depends on the lease, because it may already have expired on the server. Check the connection.',
  },
  KeepAliveClosed: {
    cause: 'The keepalive was closed, so this client no longer renews the lease.',
    outcome: 'none',
    remedy: 'None needed: this is the expected end of a keepalive.',
  },
  LockTaken: {
    cause:
      'Another contender held the lock, or waited for it in front of the caller, until `maxWaitMs` had passed, although the servers answered. Also set for the leadership of an election and for the permits of a semaphore.',
    outcome: '`rejected`; `unknown` if the deletion of the queue key was not acknowledged',
    remedy: 'Wait longer, try again later, or look up the holder with `inspectLock`.',
  },
  LockLost: {
    cause:
      "The caller no longer holds the lock. Either its queue key does not exist, because the lease ended or another client deleted the key, or the holder's `txn` found that the key has another create revision.",
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
    remedy: 'Discard the bytes and take the snapshot again. A persisted range makes a new copy itself.',
  },
  ClusterChanged: {
    cause: 'Another cluster answers at the endpoint, or the cluster was restored from an older backup.',
    outcome: 'unknown',
    remedy:
      'After a restore: read the state again, and open new watches, leases and locks. For another cluster: create a new `Client`.',
  },
  TxnConflict: {
    cause: '`stm` gave up, because in each attempt another client changed a key that the transaction had read.',
    outcome: 'rejected',
    remedy: 'Repeat the transaction, allow more attempts, or read fewer keys in one transaction.',
  },
  BarrierFull: {
    cause: 'The full number of participants has already entered the double barrier.',
    outcome: 'rejected',
    remedy: 'Give every participant the same count, or use a new name.',
  },
  NotInGateway: {
    cause:
      "etcd's JSON gateway does not have this call. Or the runtime may send the request twice, and no guard key can prevent a second effect.",
    outcome: 'not-sent',
    remedy: 'Use the default transport. See [the JSON gateway](runtimes.md#the-json-gateway).',
  },
  WatchClosed: {
    cause: 'The watch or the cached range was closed.',
    outcome: 'none',
    remedy: 'None needed: this is the expected end of a watch.',
  },
  Other: {
    cause: 'A failure that has no reason of its own. Its `code`, message and `cause` describe it.',
    outcome: 'unknown unless the error says otherwise',
    remedy: 'Read the message. A proxy between the client and etcd is a frequent source.',
  },
};

const REPEAT_READ = 'The client repeats reads on its own.';
const CHECK_WRITE = 'Before you repeat a write, read what it should have changed.';

export const SERVER_REASONS: Readonly<Record<ServerReason, ReasonText>> = {
  EmptyKey: { cause: 'The key is empty.', remedy: 'Give a key. `fromKey` and `prefix` name ranges.' },
  KeyNotFound: {
    cause: 'A put with `ignoreValue` or `ignoreLease` needs a key that exists.',
    remedy: 'Put the key with a value first.',
  },
  ValueProvided: { cause: 'A put with `ignoreValue` has a value.', remedy: 'Leave the value empty.' },
  LeaseProvided: { cause: 'A put with `ignoreLease` has a lease.', remedy: 'Leave the lease out.' },
  TooManyOps: {
    cause: "The transaction has more operations than the server's `--max-txn-ops`.",
    remedy: "Split the transaction, or raise the server's limit and the client's `maxTxnOps`.",
  },
  DuplicateKey: { cause: 'The transaction writes a key twice.', remedy: 'Write each key once in a transaction.' },
  InvalidClientAPIVersion: {
    cause: 'The server does not support the API version that the client names.',
    remedy: 'Use a supported etcd version.',
  },
  InvalidSortOption: { cause: 'The server does not know the sort target or order.', remedy: 'Use another `sort`.' },
  Compacted: {
    cause:
      'The requested revision was compacted. `compactRevision` is the oldest one available, if the server names it.',
    remedy: 'Read the current state, and watch from its revision. `mirror` and `cachedRange` do so on their own.',
  },
  FutureRev: {
    cause: 'The requested revision is greater than the current revision of the store.',
    remedy: 'Use a revision from a response of the same cluster.',
  },
  NoSpace: {
    cause:
      'The database has reached `--quota-backend-bytes`. etcd checks the quota before it proposes a write and again when it applies the write. In the second case it may apply the write in spite of this error.',
    remedy: 'Compact with `physical: true`, defragment every member, then `maintenance.disarm` the alarm.',
  },
  LeaseNotFound: {
    cause: 'The lease does not exist: it expired or was revoked.',
    remedy: 'Grant a new lease, or open a new session.',
  },
  LeaseExist: { cause: 'A lease with this id exists.', remedy: 'Choose another id, or let the client choose it.' },
  LeaseTTLTooLarge: { cause: 'The TTL is greater than 9,000,000,000 s.', remedy: 'Use a smaller TTL.' },
  WatchCanceled: { cause: 'The server canceled the watch.', remedy: 'Open a new watch.' },
  MemberExist: { cause: 'A member with this id exists.', remedy: 'Read `cluster.memberList` first.' },
  PeerURLExist: { cause: 'Another member has this peer URL.', remedy: 'Remove that member, or use another URL.' },
  MemberNotEnoughStarted: {
    cause: 'The change would leave too few started members for a quorum.',
    remedy: 'Start the stopped members first, or add the member as a learner.',
  },
  MemberBadURLs: { cause: 'A peer URL is invalid.', remedy: 'Give URLs such as `http://10.0.0.1:2380`.' },
  MemberNotFound: { cause: 'No member has this id.', remedy: 'Read `cluster.memberList` first.' },
  MemberNotLearner: { cause: 'The member is not a learner.', remedy: 'None needed: the member already votes.' },
  LearnerNotReady: {
    cause: 'The learner has not caught up with the leader.',
    remedy: 'Wait, then promote the learner again.',
  },
  TooManyLearners: {
    cause: 'The cluster has as many learners as it allows.',
    remedy: 'Promote or remove a learner first.',
  },
  ClusterIDMismatch: {
    cause: 'The member does not belong to the cluster that the request names.',
    remedy: "Check the member's configuration.",
  },
  RequestTooLarge: {
    cause: "The request is larger than the server's `--max-request-bytes`.",
    remedy: "Send smaller values, or raise the server's limit and the client's `maxRequestBytes`.",
  },
  RequestTooManyRequests: {
    cause: 'The member applies committed entries too slowly and refuses new proposals.',
    remedy: 'Raise `timeoutMs`, because the client repeats the call until then, or send fewer writes at a time.',
  },
  RootUserNotExist: { cause: 'Authentication needs a user `root`.', remedy: 'Add the user before `auth.enable`.' },
  RootRoleNotExist: { cause: 'The user `root` lacks the role `root`.', remedy: 'Grant the role before `auth.enable`.' },
  UserAlreadyExist: { cause: 'A user with this name exists.', remedy: 'Choose another name.' },
  UserEmpty: {
    cause: 'The user name is empty, or authentication is on and the call carries no token.',
    remedy: 'Give a name, or give the client `auth`.',
  },
  UserNotFound: { cause: 'No user has this name.', remedy: 'Read `auth.userList` first.' },
  RoleAlreadyExist: { cause: 'A role with this name exists.', remedy: 'Choose another name.' },
  RoleNotFound: { cause: 'No role has this name.', remedy: 'Read `auth.roleList` first.' },
  RoleEmpty: { cause: 'The role name is empty.', remedy: 'Give a name.' },
  AuthFailed: {
    cause: 'The user name or the password is wrong. The client does not try them again.',
    remedy: 'Correct `auth`.',
  },
  PermissionNotGiven: { cause: 'The request names no permission.', remedy: 'Give a permission.' },
  PermissionDenied: {
    cause: 'The user has no permission for the key or the call. The error names the user and the keys of the request.',
    remedy:
      'Grant a role with the permission. Locks, queues and the gateway also use keys that the caller does not name.',
  },
  RoleNotGranted: { cause: 'The user does not have the role.', remedy: 'Read `auth.userGet` first.' },
  PermissionNotGranted: { cause: 'The role does not have the permission.', remedy: 'Read `auth.roleGet` first.' },
  AuthNotEnabled: { cause: 'Authentication is off.', remedy: 'Call `auth.enable`, or leave `auth` out.' },
  InvalidAuthToken: {
    cause:
      'The token expired or is unknown. The client has already renewed it as often as it may, or the caller gave the token, so that the client cannot renew it.',
    remedy: 'Give a valid token, or `username` and `password`, which the client exchanges for tokens.',
  },
  InvalidAuthMgmt: { cause: 'The authentication request is invalid.', remedy: 'Check its arguments.' },
  AuthOldRevision: {
    cause:
      'Users or roles changed after the token was issued. The client has already renewed the token as often as it may.',
    remedy: 'Repeat the call.',
  },
  NoLeader: {
    cause: 'The member knows no leader, and has not processed the call.',
    remedy: 'The client repeats the call, at another member if there is one, until its time limit.',
  },
  NotLeader: {
    cause: 'The member is not the leader. From `moveLeader`: none of the endpoints is the leader.',
    remedy: 'Name all members as `endpoints`.',
  },
  LeaderChanged: { cause: 'The leader changed during the call.', remedy: `${REPEAT_READ} ${CHECK_WRITE}` },
  NotCapable: { cause: 'The cluster version does not support the call.', remedy: 'Upgrade all members.' },
  Stopped: { cause: 'The member is shutting down.', remedy: `${REPEAT_READ} ${CHECK_WRITE}` },
  Timeout: { cause: 'The server did not complete the request in time.', remedy: `${REPEAT_READ} ${CHECK_WRITE}` },
  TimeoutDueToLeaderFail: {
    cause: 'The server did not complete the request in time, probably because the leader failed.',
    remedy: `${REPEAT_READ} ${CHECK_WRITE}`,
  },
  TimeoutDueToConnectionLost: {
    cause: 'The server did not complete the request in time, probably because members lost their connections.',
    remedy: `Check the network between the members. ${CHECK_WRITE}`,
  },
  TimeoutWaitAppliedIndex: {
    cause: 'The member is too far behind to answer a linearizable read.',
    remedy: `${REPEAT_READ} Check the disk of the member.`,
  },
  Unhealthy: { cause: 'The cluster is unhealthy.', remedy: 'Check the members, then repeat the change.' },
  Corrupt: {
    cause: 'The members found different data, and the cluster raised an alarm.',
    remedy: 'Follow the etcd guide on data corruption before you write again.',
  },
  NotSupportedForLearner: {
    cause: 'The member is a learner and does not serve this call. The client uses another endpoint if there is one.',
    remedy: 'Name a voting member as endpoint.',
  },
  BadLeaderTransferee: { cause: 'The target cannot become the leader.', remedy: 'Choose a started, voting member.' },
  WrongDowngradeVersionFormat: { cause: 'The target version is malformed.', remedy: 'Give a version such as `3.6`.' },
  InvalidDowngradeTargetVersion: {
    cause: 'The target is not one minor version below the cluster.',
    remedy: 'Give the version that is one minor version below.',
  },
  ClusterVersionUnavailable: { cause: 'The cluster version is not known yet.', remedy: 'Repeat the call later.' },
  DowngradeInProcess: { cause: 'A downgrade is in progress.', remedy: 'Cancel the downgrade, or wait until it ends.' },
  NoInflightDowngrade: { cause: 'No downgrade is in progress.', remedy: 'None needed.' },
  Canceled: {
    cause:
      "The caller aborted the `signal`, or the server canceled the request. In the first case `cause` is the signal's reason.",
    remedy: CHECK_WRITE,
  },
  DeadlineExceeded: {
    cause:
      'The time limit passed: `timeoutMs` of a call, or `maxWaitMs` of a wait. The `cause` is the last failure, or an `AggregateError` of the last failures at several endpoints; without a `cause`, the servers answered but the wait was not over, for example because a queue was empty. A lock that another contender holds has the reason `LockTaken`.',
    remedy: `Allow more time, or check the \`cause\`. ${CHECK_WRITE}`,
  },
  SessionExpired: {
    cause: 'From `raw.lock.lock`: the lease ended while the call waited for the lock.',
    remedy: 'Grant a new lease, keep it alive, and call `lock` again.',
  },
  ElectionNoLeader: {
    cause: 'From the election service: the election has no leader.',
    remedy: 'Wait for a leader, for example with `observe`.',
  },
  ElectionNotLeader: {
    cause: 'From `raw.election.proclaim`: the candidate is no longer the leader.',
    remedy: 'Stop the work of the leader, and call `campaign` again.',
  },
  ProposalDropped: {
    cause:
      'Raft dropped the proposal, because there was no leader, the leader was changing, or too many proposals were waiting.',
    remedy: 'The client repeats the call within its time limit. If the call still fails, repeat it later.',
  },
};

const REASONS: Readonly<Record<Reason, ReasonText>> = { ...CLIENT_REASONS, ...SERVER_REASONS };

/** Returns what the caller or the operator can do after an error with this reason, in Markdown. */
export function remedyOf(reason: Reason): string {
  return REASONS[reason].remedy;
}
