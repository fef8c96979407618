import {
  amended,
  backoffMs,
  canceled,
  checkDelay,
  checkMs,
  checkOptions,
  checkSignal,
  EtcdError,
  explained,
  type Logger,
  monotonicMs,
  pause,
  pauseUntil,
  type Reason,
  type SignalOption,
  withCallers,
  withoutFrames,
} from '../../base/index.js';
import { internally, isMomentaryRefusal, isOverloadRefusal } from '../../rpc/index.js';
import { CLIENT_OPTIONS, Client, type ClientOptions, type EmbeddedClientOptions } from './client.js';
import { HEALTH_KEY } from './health.js';

/** The limits of the wait of `connect`. */
export interface ConnectLimits {
  /**
   * Time limit in milliseconds for the first answer of a member. Default 5,000. `connect` rejects sooner if every
   * endpoint has failed. With `auth`, the check of the credentials follows, whose time limit is `timeoutMs`.
   */
  readonly failFastMs?: number | undefined;
  /**
   * Milliseconds for which `connect` tries again after every endpoint has failed, for example because etcd starts after
   * the program. An attempt that has begun by then may take another `failFastMs`. The `logger` of the client reports
   * the failures of this time. Default 0.
   */
  readonly waitMs?: number | undefined;
  /** Cancels `connect`. It has no effect on the client that `connect` has returned. */
  readonly signal?: SignalOption;
}

/**
 * Options of `connect`: those of a `Client`, and those of `ConnectLimits`.
 *
 * @example
 * const options: ConnectOptions = { endpoints: ['http://127.0.0.1:2379'], failFastMs: 3_000 };
 */
export type ConnectOptions = (ClientOptions | EmbeddedClientOptions) & ConnectLimits;

const CONNECT_OPTIONS = { ...CLIENT_OPTIONS, failFastMs: checkMs, waitMs: checkDelay, signal: checkSignal } as const;
const DEFAULT_FAIL_FAST_MS = 5_000;
/**
 * Maximum number of times within `failFastMs` that `connect` asks a member for its leader, while the member does not
 * answer the read.
 */
const STATUS_CALLS = 5;

const SILENT: Logger = { warn: () => {} };

/** No caller waits for the calls of a client that `connect` closes. */
const NO_DRAIN = { drainMs: 0 } as const;

/**
 * Error reasons, in addition to those of `isMomentaryRefusal`, of a member that may soon be able to answer, because its
 * cluster elects a leader.
 */
const WITHOUT_LEADER: ReadonlySet<Reason> = new Set([
  'NoLeader',
  'Timeout',
  'TimeoutDueToLeaderFail',
  'TimeoutDueToConnectionLost',
]);

/** Error reasons of a member that can answer, but does not allow the read. */
const REFUSALS: ReadonlySet<Reason> = new Set(['PermissionDenied', 'UserEmpty', 'InvalidAuthToken', 'AuthOldRevision']);

/**
 * Advice for the errors of `connect`. Errors of calls do not show it, because a running client may meet the same
 * failures in a correct setup. An error shows the advice of the first pattern that matches its text.
 */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /ECONNREFUSED/,
    'no program listens there: start etcd, or correct the host and the port (etcd serves clients at 2379)',
  ],
  [/ENOTFOUND|EAI_AGAIN/, 'correct the host name, or check the DNS of this machine'],
  [/EHOSTUNREACH|ENETUNREACH|ENETDOWN/, 'check the address, and the network of this machine'],
  [/ENOENT/, 'no program listens at this path: start etcd, or correct the path'],
  [
    /answers in HTTP\/1/,
    'if the URL is right, the port is not for clients of etcd, or a proxy in front of etcd lacks HTTP/2',
  ],
  [/connectTimeoutMs/, 'check the address, and whether a firewall drops the connection'],
  [/learner/, 'name a voting member, or promote this one'],
];

/**
 * Returns a client after a member has answered or refused a linearizable read, so that a program notices a wrong
 * configuration when it starts. With `auth`, also checks the credentials. `new Client` alone connects at the first
 * call, which waits for a member until its `timeoutMs` has passed.
 *
 * Asks all endpoints at the same time, and needs the answer of only one. Opens separate connections for this purpose,
 * and closes them again.
 *
 * @throws EtcdError as soon as every endpoint has failed, or when `failFastMs` has passed. With `waitMs`, tries again
 * until this time has passed. The message says for each endpoint what is wrong and, if the client knows a remedy, what
 * to do about it. If all endpoints have failed for the same reason, the error has this reason. Otherwise, its reason is `ConnectFailed`. If there are several endpoints, the
 * `cause` is an `AggregateError` of all failures. If a member refuses the credentials, or requires some, `connect`
 * rejects with the reason of the member. Reason `InvalidInput` means that an option is invalid. `connect` leaves no
 * client open when it rejects.
 *
 * @example
 * await using etcd = await connect({ endpoints: ['http://127.0.0.1:2379'], failFastMs: 3_000 });
 * await etcd.put('config/color', 'blue');
 */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  checkOptions(options, CONNECT_OPTIONS, 'connect');
  const { failFastMs = DEFAULT_FAIL_FAST_MS, waitMs = 0, signal, ...given } = options;
  // `new Client` checks these options.
  const clientOptions = given as ClientOptions;
  const client = new Client(clientOptions);
  try {
    const refusal = await firstAnswer(clientOptions, { failFastMs, waitMs, signal });
    const isLoggedIn = clientOptions.auth !== undefined;
    if (isLoggedIn) await client.get(HEALTH_KEY, { signal }).catch(throwUnlessPermission);
    else if (refusal !== undefined) throwUnlessPermission(refusal);
    return client;
  } catch (error) {
    await client.close(NO_DRAIN);
    throw withCallers(error, connect);
  }
}

function throwUnlessPermission(error: EtcdError): void {
  if (error.reason === 'PermissionDenied') return;
  if (error.reason !== 'UserEmpty') throw error;
  throw explained(error, `${error.problem}: the cluster requires authentication; set auth`);
}

interface Limits {
  readonly failFastMs: number;
  readonly waitMs: number;
  readonly signal: SignalOption;
}

/**
 * Asks all endpoints, until a member has answered or `waitMs` has passed. Resolves with the member's error if it has
 * refused the read.
 *
 * @throws EtcdError that describes the failures of all endpoints.
 */
async function firstAnswer(options: ClientOptions, limits: Limits): Promise<EtcdError | undefined> {
  // This client needs no token, because a refusal is an answer, too. To obtain a token, it would have to choose an
  // endpoint before it knows which one works.
  const { auth: _, autoSyncIntervalMs: __, logger, ...unauthenticated } = options;
  const { failFastMs, waitMs, signal } = limits;
  // Without `waitMs`, the error of `connect` says what is wrong.
  const client = new Client({ ...unauthenticated, logger: waitMs > 0 ? logger : SILENT, timeoutMs: failFastMs });
  const dueMs = monotonicMs() + waitMs;
  try {
    for (let attempt = 0; ; attempt += 1) {
      const answers = client.endpoints.map((endpoint) => answerOf(client, endpoint, limits));
      const result = await Promise.any(answers).catch(({ errors }: AggregateError) => ({ errors }));
      if (result === undefined || result instanceof EtcdError) return result;
      if (signal?.aborted) throw canceled(signal, 'not-sent');
      // An interceptor may throw other errors.
      for (const each of result.errors) if (!(each instanceof EtcdError)) throw each;
      if (monotonicMs() >= dueMs) throw unreachable(result.errors);
      await pauseUntil(Math.min(dueMs, monotonicMs() + backoffMs(attempt)), signal);
    }
  } finally {
    await client.close(NO_DRAIN);
  }
}

/** Resolves with undefined, or with the member's error if it has refused the read. */
async function answerOf(client: Client, endpoint: string, limits: Limits): Promise<EtcdError | undefined> {
  const { failFastMs, signal } = limits;
  const ended = new AbortController();
  /** Whether the member knows a leader. Undefined if the member does not answer at all. */
  let hasLeader: boolean | undefined;
  // Asks the member repeatedly, because a member needs some time to notice that it has lost its leader.
  const observe = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      const { leader } = await client.maintenance.status(endpoint, { signal: ended.signal });
      hasLeader = leader !== 0n;
      await pause(failFastMs / STATUS_CALLS, ended.signal);
    }
  };
  observe().catch(() => {});
  try {
    await new Promise<void>((resolve, reject) => {
      // The channel repeats a call until its deadline. Here, the first failed attempt is enough, unless the member may
      // soon recover.
      const retry = (error: EtcdError): void => {
        const mayRecover = isMomentaryRefusal(error) || isOverloadRefusal(error) || WITHOUT_LEADER.has(error.reason);
        if (!mayRecover) reject(error);
      };
      client.get(HEALTH_KEY, internally({ endpoint, signal }, { observer: { retry } })).then(() => resolve(), reject);
    });
    return undefined;
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
    if (REFUSALS.has(error.reason)) return error;
    throw described(error, endpoint, failFastMs, hasLeader);
  } finally {
    ended.abort();
  }
}

/** Returns the error of an endpoint with a text that says what is wrong and, if possible, what to do. */
function described(error: EtcdError, endpoint: string, failFastMs: number, hasLeader: boolean | undefined): EtcdError {
  const { reason, problem } = error;
  const where = { outcome: 'not-sent', method: undefined, endpoint } as const;
  // The cause is not `error`, because the new text replaces the text of `error`.
  const text = (what: string, status: Partial<Pick<EtcdError, 'code' | 'reason'>> = {}): EtcdError =>
    withoutFrames(amended(error, { ...where, ...status }, `${endpoint}: ${what}`));
  const limit = `failFastMs = ${failFastMs}`;
  if (reason === 'DeadlineExceeded' && hasLeader !== undefined) {
    const state = hasLeader ? 'answers, but it did not reach a quorum' : 'answers, but it had no leader';
    return text(`the member ${state} within ${limit}; start the other members, and check the network between them`, {
      code: 'Unavailable',
      reason: 'NoLeader',
    });
  }
  if (reason === 'DeadlineExceeded')
    return text(`no answer within ${limit}; check the address, the load of the member, and the network`);
  const what = problem.replace(`cannot connect to ${endpoint}: `, '');
  const advice = ADVICE.find(([pattern]) => pattern.test(what))?.[1];
  return text(advice === undefined ? what : `${what}; ${advice}`);
}

function unreachable(errors: readonly EtcdError[]): EtcdError {
  const [first, ...others] = errors as readonly [EtcdError, ...EtcdError[]];
  const isSame = others.every(({ reason }) => reason === first.reason);
  const { code, reason } = isSame ? first : { code: 'Unavailable' as const, reason: 'ConnectFailed' as const };
  if (others.length === 0) return amended(first, {}, `cannot connect to ${first.problem}`);
  const list = errors.map(({ problem }) => `\n- ${problem}`).join('');
  return new EtcdError(`cannot connect to any of ${errors.length} endpoints:${list}`, {
    code,
    reason,
    outcome: 'not-sent',
    cause: withoutFrames(new AggregateError(errors, 'every endpoint failed')),
  });
}
