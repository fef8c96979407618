import type { CallOptions } from '../channel/rpc.js';
import { compare } from '../kv/compare.js';
import { prefix } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { op } from '../kv/op.js';
import { checkCount } from '../runtime/arguments.js';
import { onAbort } from '../runtime/signals.js';
import { settledWithin } from '../runtime/timers.js';
import { Held } from './held.js';
import { Line } from './line.js';
import { checkName, deleteLatePut, entryOf, uniqueKey } from './queue-entry.js';
import { checkSession, type Session } from './session.js';
import { untilAnswered, type WaitLimit, type WaitOptions, waitLimit } from './wait-limit.js';
import { watchUntil } from './watch-until.js';

/** How long an attempt that was given up stays for its permit to be deleted, before that goes on in the background. */
const CLEANUP_WAIT_MS = 1_000;

/**
 * A number of permits, given out in the order in which they were asked for. Whoever wants one stands in line at a gate;
 * who is at its head alone watches the permits, takes the first that is free, and opens the gate to the next. So a release wakes one, and nobody else can take what was counted as free. All who use a name must
 * agree on the number.
 */
export class Semaphore {
  readonly name: string;
  readonly permits: number;
  readonly #session: Session;
  readonly #gate: Line;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string, permits: number) {
    this.name = checkName(name);
    this.permits = Number(checkCount(permits, 'permits', 1n));
    this.#session = checkSession(session);
    this.#gate = new Line(session, `${name}/gate`);
  }

  /** Waits for a permit. A session may hold several. @throws EtcdError, see `WaitOptions`. */
  async acquire(options: WaitOptions = {}): Promise<Held> {
    const limit = waitLimit('acquire', options, this.#session.signal);
    try {
      const gate = await this.#gate.enter('acquire', { signal: limit.signal });
      return (await this.#enter(gate, limit, () => this.#room(limit.signal))) as Held;
    } catch (error) {
      throw limit.endedBy(error);
    } finally {
      limit.dispose();
    }
  }

  /** A permit if one is free; undefined otherwise. Waits for those who are about to take one, but for no release. */
  async tryAcquire(options: WaitOptions = {}): Promise<Held | undefined> {
    const limit = waitLimit('tryAcquire', options, this.#session.signal);
    try {
      const { signal } = limit;
      let gate = await this.#gate.tryEnter('tryAcquire', { signal });
      // Somebody at the gate waits for a release, or is just passing.
      if (gate === undefined && !(await this.#hasRoom({ signal }))) return undefined;
      gate ??= await this.#gate.enter('tryAcquire', { signal });
      return await this.#enter(gate, limit, () => this.#hasRoom({ signal }));
    } catch (error) {
      throw limit.endedBy(error);
    } finally {
      limit.dispose();
    }
  }

  /** Behind the gate, with room or without. Whatever comes of it, the gate is open again afterwards. */
  async #enter(gate: Held, limit: WaitLimit, hasRoom: () => Promise<boolean>): Promise<Held | undefined> {
    const { client, leaseId: lease, signal: lifetime } = this.#session;
    const permits = `${this.name}/permits/`;
    const key = uniqueKey(permits, lease);
    const offLost = onAbort(gate.signal, () => limit.end(gate.signal.reason));
    try {
      if (!(await hasRoom())) return undefined;
      let doubtful = false;
      const { header, responses } = await untilAnswered(
        limit.signal,
        (options) =>
          gate.txn(
            {
              if: [compare.missing(key)],
              then: [op.put(key, '', { lease }), op.get(key)],
              else: [op.get(key), op.get(key)],
            },
            options,
          ),
        () => {
          doubtful = true;
        },
      );
      // Without the gate's key no second put comes through, however late: not after the permit was given back either.
      if (doubtful) await gate.unlock({ timeoutMs: Number.POSITIVE_INFINITY });
      const entry = entryOf({ key, prefix: permits, lease }, responses[1] as KeyValue, header.revision);
      return Held.begin(this.#session, this.name, entry, () => {});
    } catch (error) {
      // First the gate: without its key a permit that is still on its way cannot come through.
      const withdrawn = gate
        .unlock({ timeoutMs: Number.POSITIVE_INFINITY })
        .then(() => deleteLatePut(client, key, lease, lifetime));
      await settledWithin(
        CLEANUP_WAIT_MS,
        withdrawn.catch(() => {}),
      );
      throw error;
    } finally {
      offLost();
      // Goes on in the background where it takes long.
      gate.unlock().catch(() => {});
    }
  }

  #room(signal: AbortSignal): Promise<true> {
    const releases = { keys: prefix(`${this.name}/permits/`), wake: 'delete' } as const;
    return watchUntil(this.#session.client, releases, signal, async (options) => {
      return (await this.#hasRoom(options)) || undefined;
    });
  }

  async #hasRoom(options: CallOptions): Promise<boolean> {
    const permits = prefix(`${this.name}/permits/`);
    return (await this.#session.client.range(permits, { ...options, countOnly: true })).count < this.permits;
  }
}
