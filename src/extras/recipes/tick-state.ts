import { EtcdError, environment, explained } from '../../base/index.js';
import { type CoreKeyspace, compare, type KeyValue, type Op, op } from '../../client/index.js';
import { type Leadership, untilAnswered, untilSpace } from '../../locks/index.js';
import type { CallOptions } from '../../rpc/index.js';

/** The latest tick that a leader has claimed, as JSON in the key `NAME/tick`. */
export interface TickState {
  /** The time of the tick, in milliseconds since 1970. */
  readonly timeMs: number;
  /** `running` from the claim of the tick until its run has ended. */
  readonly status: 'running' | 'done';
  /**
   * The number of runs of the tick that have begun. 0 if the tick was skipped before its first run, or if `timeMs` is
   * the beginning of the schedule.
   */
  readonly attempt: number;
}

/** The operations of the caller that take effect together with a change of the state. */
interface Together {
  readonly ops: readonly Op[];
  /** Called for each attempt of the transaction whose outcome is unknown. */
  readonly onUnknown: () => void;
}

/**
 * The state of a schedule, as one leader sees it. Each change is a transaction that has no effect unless the leader
 * still leads and the key is unchanged since the leader's last read or change. So a request that a server receives late
 * or twice does no harm.
 */
export class TickKey {
  readonly #client: CoreKeyspace;
  readonly #key: string;
  readonly #held: Leadership;
  /** Mod revision of the key, or 0n if it does not exist. */
  #revision = 0n;
  #state: TickState | undefined;
  /**
   * The latest time of the wall clock, in milliseconds since 1970, at which the key existed as far as this leader knows.
   * If the leader has never seen the key, the beginning of its term.
   */
  #seenMs = environment.Date.now();
  /** The number of changes that this leader has begun. It makes the values of all changes of one term different. */
  #changes = 0;

  constructor(client: CoreKeyspace, key: string, held: Leadership) {
    this.#client = client;
    this.#key = key;
    this.#held = held;
  }

  /**
   * The state of the last read or change: after a successful change, the object that was passed to `change`. Undefined
   * if the key does not exist.
   */
  get state(): TickState | undefined {
    return this.#state;
  }

  /**
   * Reads the state. Repeats the read until a server answers or `signal` aborts.
   *
   * @throws EtcdError with reason `InvalidJson` if the value of the key is not the state of a schedule.
   */
  async read(signal: AbortSignal): Promise<void> {
    const nowMs = environment.Date.now();
    const kv = await untilAnswered({ signal }, (call) => this.#client.get(this.#key, call));
    this.#revision = kv?.modRevision ?? 0n;
    this.#saw(stateOf(kv), nowMs);
  }

  /**
   * Begins the schedule, or begins it again after another client has deleted the key. The beginning is the latest time
   * at which the key existed, because the deletion was later, and ticks that are due after a deletion must not be lost.
   */
  async begin(signal: AbortSignal): Promise<void> {
    const timeMs = Math.min(this.#seenMs, environment.Date.now());
    await this.change({ timeMs, status: 'done', attempt: 0 }, signal);
  }

  /**
   * Changes the state, and runs the operations of `together` in the same transaction. Repeats the transaction until a
   * server answers or `signal` aborts; without `together`, also while the server is out of space. Resolves with false
   * if another client has changed the key. The transaction then has no effect, and `state` is the state in the key.
   */
  async change(to: TickState, signal: AbortSignal, together?: Together): Promise<boolean> {
    const held = this.#held;
    const nowMs = environment.Date.now();
    const { timeMs, status, attempt } = to;
    const [time, token, change] = [new Date(timeMs).toISOString(), String(held.token), ++this.#changes];
    const value = JSON.stringify({ time, status, attempt, token, change });
    const isUnchanged = [compare.modRevision(this.#key, '==', this.#revision)];
    const then = [op.put(this.#key, value), ...(together?.ops ?? [])];
    const send = (call: CallOptions) => held.txn({ if: isUnchanged, then, else: [op.get(this.#key)] }, call);
    const sending =
      together === undefined ? untilSpace({ signal }, send) : untilAnswered({ signal }, send, together.onUnknown);
    const { header, succeeded, responses } = await sending;
    const kv = responses[0] as KeyValue | undefined;
    // No other change writes this value, so this value shows that an earlier attempt has taken effect.
    const isOwn = succeeded || kv?.text() === value;
    this.#revision = (succeeded ? header.revision : kv?.modRevision) ?? 0n;
    this.#saw(isOwn ? to : stateOf(kv), nowMs);
    return isOwn;
  }

  /** `nowMs` is the time of the wall clock before the client sent the request that has shown the state. */
  #saw(state: TickState | undefined, nowMs: number): void {
    this.#state = state;
    if (state !== undefined) this.#seenMs = nowMs;
  }
}

function stateOf(kv: KeyValue | undefined): TickState | undefined {
  try {
    return kv?.json(parse);
  } catch (error) {
    const problem =
      'the value of the key "tick" under the name of the schedule is not the state of a schedule; ' +
      'delete the key to begin the schedule again';
    throw error instanceof EtcdError ? explained(error, problem) : error;
  }
}

function parse(json: unknown): TickState {
  const { time, status, attempt }: Partial<Record<string, unknown>> = Object(json);
  const timeMs = typeof time === 'string' ? Date.parse(time) : Number.NaN;
  const isCount = Number.isSafeInteger(attempt) && Number(attempt) >= 0;
  if (Number.isNaN(timeMs) || !isCount || (status !== 'running' && status !== 'done'))
    throw new TypeError('not the state of a schedule');
  return { timeMs, status, attempt: Number(attempt) };
}
