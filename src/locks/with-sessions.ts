import {
  type ActionLast,
  actionLast,
  backoffMs,
  checkOptions,
  checkSignal,
  clientClosed,
  EtcdError,
  monotonicMs,
  pause,
  type Reason,
  type SignalOption,
} from '../base/index.js';
import { type CoreKeyspace, keyspaceClientOf } from '../client/index.js';
import { Ending } from './ending.js';
import { LEASE_OPTIONS, type LeaseOptions, Session } from './session.js';
import { cleanedUp, untilAnswered, untilSpace } from './waiting.js';

/** `useSession` of `sessionAfterSession` returns this symbol if the session was lost or `stop` has aborted. */
export const AGAIN = Symbol('again');

/** After a session that lasted longer than this time, in milliseconds, the backoff starts from the beginning. */
const STABLE_MS = 10_000;

/** Options of `withSessions`. */
export interface WithSessionsOptions extends LeaseOptions {
  /**
   * When this signal aborts, the wait for a session ends, and the signal of `action` aborts. `withSessions` resolves
   * after `action` has ended.
   */
  readonly signal?: SignalOption;
}

const WITH_SESSIONS_OPTIONS = { signal: checkSignal, ...LEASE_OPTIONS } as const;

/**
 * Runs `action` with a session. Each time the session is lost, runs `action` again with a new session, after a pause of
 * up to 2 s. Resolves with the result of `action`. The session ends when `action` ends.
 *
 * The signal that `action` gets aborts when the session is lost or the option `signal` aborts. `action` should then
 * return soon, because the next session opens only after that. If the session is lost, the result or the error of
 * `action` does not count. If the option `signal` aborts, `withSessions` resolves with the result of `action`, or with
 * undefined if `action` throws or no session is open.
 *
 * If the client closes, `withSessions` ends as if the option `signal` had aborted, and `close` waits for it.
 *
 * @throws the error of `action` if its session still lives, and EtcdError if the client was closed before the call or
 * the server refuses a lease.
 *
 * @example
 * const result = await withSessions(etcd, async (session, signal) => {
 *   await etcd.put('workers/7', 'here', { lease: session.leaseId });
 *   return signal.aborted ? 'lost' : 'done';
 * });
 * console.log(result); // done
 */
export async function withSessions<T>(
  client: CoreKeyspace,
  ...last: ActionLast<WithSessionsOptions, (session: Session, signal: AbortSignal) => Promise<T> | T>
): Promise<T | undefined> {
  const [options, action] = actionLast(last, 'action');
  checkOptions(options, WITH_SESSIONS_OPTIONS, 'withSessions');
  const { signal, ...lease } = options;
  return untilClosed(client, signal, (stop) =>
    sessionAfterSession(client, lease, stop, async (session) => {
      try {
        const result = await action(session, session.signalWith(stop));
        return isSessionLost(session) ? AGAIN : result;
      } catch (error) {
        if (stop.aborted || isSessionLost(session)) return AGAIN;
        throw error;
      }
    }),
  );
}

/**
 * Runs `run` with a signal that aborts when `signal` aborts or the client closes. The client then waits until `run` has
 * ended.
 */
export async function untilClosed<T>(
  client: CoreKeyspace,
  signal: SignalOption,
  run: (stop: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new Ending(signal);
  const stop = (): void => ending.stop(clientClosed());
  return delayingClose(client, () => run(ending.signal), stop).finally(() => ending.close());
}

/**
 * Runs `run`. If the client closes meanwhile, it calls `onClose` and waits until `run` has ended, because an action may
 * still use what only one process may use. @throws EtcdError with reason `ClientClosed` if the client closes already.
 */
export async function delayingClose<T>(
  client: CoreKeyspace,
  run: () => Promise<T>,
  onClose = (): void => {},
): Promise<T> {
  const keyspace = keyspaceClientOf(client);
  keyspace.rpc.checkOpen();
  const running = run();
  const offClose = keyspace.beforeClose(async () => {
    onClose();
    await running;
  });
  return running.finally(offClose);
}

/**
 * Runs `useSession` with one new session after the other, until its result is not `AGAIN`, or `stop` aborts. Resolves
 * with that result, or with undefined if `stop` has aborted before there is such a result. If `first` is given, it is
 * the first session. Without `first`, the sessions outlive the beginning of `client.close`, so `stop` must abort then.
 */
export async function sessionAfterSession<T>(
  client: CoreKeyspace,
  lease: LeaseOptions,
  stop: AbortSignal,
  useSession: (session: Session) => Promise<T | typeof AGAIN>,
  first?: Session,
): Promise<T | undefined> {
  let given = first;
  for (let failures = 0; ; ) {
    const session = given ?? (await opened(client, lease, stop));
    given = undefined;
    if (session === undefined) return undefined;
    if (first === undefined) session.leaveToOwner();
    const startedAt = monotonicMs();
    const outcome = await useSession(session).finally(() => cleanedUp(session.close()));
    if (outcome !== AGAIN) return outcome;
    if (stop.aborted) return undefined;
    void session.holders.empty().then(() => revokeLost(session, stop));
    failures = monotonicMs() - startedAt > STABLE_MS ? 0 : failures + 1;
    await pause(backoffMs(failures), stop);
  }
}

/**
 * Revokes the lease of a session whose client could not renew the lease in time. The lease may still live on the
 * server, and the next session would wait until it expires. The revocation runs in the background until a server
 * answers or `stop` aborts.
 */
function revokeLost({ client, leaseId, signal }: Session, stop: AbortSignal): void {
  if (signal.reason?.reason !== 'LeaseUnreachable') return;
  untilAnswered({ signal: stop }, (options) => client.lease.revoke(leaseId, options)).catch(() => {});
}

/** Opens a session. Resolves with undefined if `stop` aborts first. */
async function opened(client: CoreKeyspace, lease: LeaseOptions, stop: AbortSignal): Promise<Session | undefined> {
  try {
    return await untilSpace({ signal: stop }, (options) => Session.open(client, { ...options, ...lease }));
  } catch (error) {
    if (stop.aborted) return undefined;
    throw error;
  }
}

/** The reasons with which a session ends if this process has closed the session or the client. */
const ASKED_FOR: ReadonlySet<Reason> = new Set(['ClientClosed', 'KeepAliveClosed']);

/** Whether the session has ended although this process has not ended it, so that another one may be opened. */
export function isSessionLost({ signal }: Session): boolean {
  return signal.aborted && !ASKED_FOR.has(signal.reason.reason);
}

/** Whether the error means only that the session or the work has ended. */
export function isSessionOver(error: unknown, session: Session, stop: AbortSignal): boolean {
  if (stop.aborted) return true;
  if (!(error instanceof EtcdError)) return false;
  // The cluster was restored. The caller opens another session after a pause.
  return error.reason === 'ClusterChanged' || isSessionLost(session);
}
