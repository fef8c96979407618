import {
  type ActionLast,
  actionLast,
  type BytesLike,
  checkOptions,
  checkSignal,
  EtcdError,
  type SignalOption,
  toBytes,
} from '../base/index.js';
import type { CoreKeyspace } from '../client/index.js';
import { checkTimeout } from '../rpc/index.js';
import { Election, type Leadership } from './election.js';
import { checkName } from './lock-queue.js';
import { LEASE_OPTIONS, type Session, type SessionOptions } from './session.js';
import type { LockOptions } from './waiting.js';
import { AGAIN, isSessionLost, sessionAfterSession, untilClosed } from './with-sessions.js';

/** Options of `lead`. */
export interface LeadOptions extends Pick<SessionOptions, 'allowLongTtl'> {
  /** The value that observers of the election see while this process leads, such as a host name. Default: empty. */
  readonly value?: BytesLike | undefined;
  /**
   * If this signal aborts, `lead` stops waiting for the leadership. If this process already leads, the signal of
   * `action` aborts, and `lead` resigns after `action` has ended. `lead` then resolves with undefined.
   */
  readonly signal?: SignalOption;
  /**
   * Maximum time in milliseconds of one term. After this time, the signal of `action` aborts as if the leadership was
   * lost. The next candidate leads when `action` has ended, but at the latest when `ttl` has passed since the abort.
   * Default: no limit.
   */
  readonly maxHoldMs?: number | undefined;
  /** TTL of the lease in seconds. If this process dies, another candidate leads after this time. Default 10. */
  readonly ttl?: number | undefined;
}

/** The argument of the action of `lead`. */
export interface Term {
  /**
   * Aborts when this process is no longer the leader, or when the signal in the options aborts. Reading `aborted`
   * compares the lease's deadline with the clocks of the machine.
   */
  readonly signal: AbortSignal;
  /**
   * The leadership, with its fencing token. `held.txn` makes writes that have no effect after the leadership is lost.
   */
  readonly held: Leadership;
}

const LEAD_OPTIONS = { value: toBytes, signal: checkSignal, maxHoldMs: checkTimeout, ...LEASE_OPTIONS } as const;

/**
 * Campaigns in an election, and runs `action` while this process is the leader. If the leadership is lost, waits until
 * `action` has ended, and then campaigns again. So one call of `lead` never runs `action` twice at once, but may run it
 * many times.
 *
 * If `action` returns while this process leads, `lead` resigns and resolves with the result. If `action` throws while
 * this process leads, `lead` resigns and rejects with the error. `lead` ignores a result or an error of `action` after
 * the leadership was lost, or after the signal in the options has aborted. An action that does not end when its signal
 * aborts delays the next campaign, and its writes are only safe through `held.txn`.
 *
 * If the client closes, `lead` ends as if the signal in the options had aborted, and `close` waits for it.
 *
 * @throws EtcdError with reason `InvalidInput` or `PermissionDenied`, with reason `ClientClosed` if the client was
 * closed before the call, or with another reason for which the server refuses the lease or the campaign. While no
 * server answers, `lead` waits.
 *
 * @example
 * const stop = new AbortController();
 * process.once('SIGTERM', () => stop.abort());
 * await lead(etcd, 'leaders/cron', { value: 'host-1', signal: stop.signal }, async ({ signal, held }) => {
 *   for (let run = 1; run <= 3 && !signal.aborted; run += 1)
 *     await held.txn({ then: [op.put('cron/runs', String(run))] });
 * });
 */
export async function lead<T>(
  client: CoreKeyspace,
  name: string,
  ...last: ActionLast<LeadOptions, (term: Term) => Promise<T> | T>
): Promise<T | undefined> {
  const [options, action] = actionLast(last, 'action');
  checkName(name);
  checkOptions(options, LEAD_OPTIONS, 'lead');
  const { signal, maxHoldMs, value = '', ...lease } = options;
  const own = toBytes(value, 'value');
  return untilClosed(client, signal, (stop) =>
    sessionAfterSession(client, lease, stop, async (session) => {
      const held = await campaign(session, name, own, { signal: stop, maxHoldMs });
      return held === undefined ? AGAIN : runTerm(held, action, stop);
    }),
  );
}

/** Returns undefined if the signal aborts, the session is lost or the queue key is deleted. */
async function campaign(
  session: Session,
  name: string,
  value: Uint8Array,
  options: LockOptions & { readonly signal: AbortSignal },
): Promise<Leadership | undefined> {
  try {
    return await new Election(session, name).campaign(value, options);
  } catch (error) {
    if (options.signal.aborted || isSessionLost(session) || (error instanceof EtcdError && error.reason === 'LockLost'))
      return undefined;
    throw error;
  }
}

/** Returns `AGAIN` if the leadership was lost or `stop` has aborted. */
async function runTerm<T>(
  held: Leadership,
  action: (term: Term) => Promise<T> | T,
  stop: AbortSignal,
): Promise<T | typeof AGAIN> {
  const isLost = (): boolean => stop.aborted || held.loss() !== undefined;
  try {
    const result = await action({ signal: held.signalWith(stop), held });
    return isLost() ? AGAIN : result;
  } catch (error) {
    if (isLost()) return AGAIN;
    throw error;
  } finally {
    await held.release().catch(() => {});
  }
}
