import { CALL_OPTIONS, type CallOptions } from '../channel/rpc.js';
import { EtcdError, invalidInput } from '../errors/etcd-error.js';
import { checkClient, type Keyspace } from '../keyspace.js';
import { prefix } from '../kv/key-range.js';
import type { KeepAlive } from '../lease/keep-alive.js';
import { lostWithClient } from '../lease/keeper.js';
import { checkCan, checkOptions } from '../runtime/arguments.js';
import { type BytesLike, idOf, toBytes } from '../runtime/bytes.js';
import { checkedSignalOf } from '../runtime/checked-signal.js';
import { onAbort, once } from '../runtime/signals.js';
import { FIRST_LOOK_MS, LatePuts } from './late-puts.js';
import { Seat } from './seat.js';
import { Strays } from './strays.js';
import { untilAnswered, waitLimit } from './wait-limit.js';

/** Short enough that the locks of a process that died are soon free. */
const DEFAULT_TTL = 10;
const CLOSE_TIMEOUT_MS = 10_000;

export interface SessionOptions extends CallOptions {
  /** Seconds after which the locks of a process that died are free: whole, 1 or more. Default 10. */
  readonly ttl?: number | undefined;
  /**
   * A lease that there is already, in place of one of the session's own. `ttl` is left out then. One session at a time:
   * two with one lease are one contender, and both would hold the same lock.
   */
  readonly lease?: bigint | undefined;
}

const SESSION_OPTIONS = { ttl: true, lease: true, ...CALL_OPTIONS } as const;

/**
 * A lease kept alive: the life of everything held under it. When it is lost, `signal` aborts with an `EtcdError` that
 * says why, before the server can end the lease by itself.
 */
export class Session implements AsyncDisposable {
  readonly client: Keyspace;
  readonly #keepAlive: KeepAlive;
  readonly #seats = new Map<string, Seat>();
  readonly #strays = new Map<string, Strays>();
  /** @internal Keys of this session that were released: a second copy of their put may yet arrive. */
  readonly latePuts: LatePuts;
  readonly #end: (loseLease: () => void) => Promise<void>;

  private constructor(client: Keyspace, keepAlive: KeepAlive) {
    this.client = client;
    this.#keepAlive = keepAlive;
    this.latePuts = new LatePuts(client, keepAlive.id, keepAlive.signal, FIRST_LOOK_MS);
    let ending = false;
    const offClose = client.beforeClose(() => this.#end(() => keepAlive.lose(lostWithClient(keepAlive.id))));
    this.#end = once((loseLease) => {
      ending = true;
      return this.#revoke(loseLease).finally(offClose);
    });
    // A client that is closed waits for the lease to be revoked, whoever began it.
    onAbort(this.signal, () => {
      if (!ending) offClose();
    });
  }

  /** Grants a lease, or takes the one given, and keeps it alive. @throws EtcdError */
  static async open(client: Keyspace, options: SessionOptions = {}): Promise<Session> {
    checkClient(client);
    checkOptions(options, SESSION_OPTIONS, 'Session.open');
    const { ttl, lease, ...callOptions } = options;
    if (lease !== undefined) {
      if (ttl !== undefined) throw invalidInput('ttl', 'a TTL together with a lease', 'one of the two');
      return new Session(client, await keptAlive(client, lease, callOptions));
    }
    const granted = await client.lease.grant({ ...callOptions, ttl: ttl ?? DEFAULT_TTL });
    const keepAlive = client.lease.keepAlive(granted);
    if (!keepAlive.signal.aborted) return new Session(client, keepAlive);
    // The client was closed meanwhile.
    await client.lease.revoke(granted.id, callOptions).catch(() => {});
    throw keepAlive.signal.reason;
  }

  /** The number of the lease. */
  get leaseId(): bigint {
    return this.#keepAlive.id;
  }

  /** Aborts when the session is over; `aborted` compares clocks when read. */
  get signal(): AbortSignal {
    return this.#keepAlive.signal;
  }

  /**
   * A signal that aborts when the session is over or one of `others` aborts. Its `aborted` compares clocks when read, as
   * `signal.aborted` does. `AbortSignal.any` does not: after a blocked event loop it is late.
   *
   * @example
   * await work({ signal: session.signalWith(stop.signal, AbortSignal.timeout(5_000)) });
   */
  signalWith(...others: readonly AbortSignal[]): AbortSignal {
    return checkedSignalOf(this.signal, others);
  }

  /** Whether the lease is certain to be alive now. Compares clocks. */
  valid(): boolean {
    return this.#keepAlive.valid();
  }

  /** @internal Milliseconds for which the lease is certain to be alive. Compares clocks. */
  remainingMs(): number {
    return this.#keepAlive.remainingMs();
  }

  /** @internal The seat of a key. Enter its queue in the same turn: a seat that nobody uses is forgotten. */
  seat(key: string): Seat {
    return remembered(this.#seats, key, (forget) => new Seat(this.client, key, this.leaseId, this.signal, forget));
  }

  /** @internal Keys under this prefix that a lost put may yet bring. */
  strays(own: BytesLike): Strays {
    const id = idOf(toBytes(own, 'own'));
    return remembered(
      this.#strays,
      id,
      (forget) => new Strays(this.client, prefix(own), this.leaseId, this.signal, forget),
    );
  }

  /** @internal Whether a call failed because the lease is gone: then the session is over. */
  losesWith(error: unknown): boolean {
    if (!(error instanceof EtcdError) || error.reason !== 'LeaseNotFound') return false;
    this.#keepAlive.lose(error);
    return true;
  }

  /**
   * Ends the session without revoking the lease, which runs out by itself unless somebody else keeps it alive, as
   * another session opened with it. Keys under it, locks included, stay meanwhile.
   */
  async orphan(): Promise<void> {
    await this.#keepAlive.close();
  }

  /**
   * Revokes the lease: everything held under it is free at once.
   *
   * @throws EtcdError, reason `DeadlineExceeded`, where no server answered in 10 s; the lease then runs out by itself.
   */
  close(): Promise<void> {
    return this.#end(() => void this.#keepAlive.close());
  }

  /** As `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #revoke(loseLease: () => void): Promise<void> {
    const { client, leaseId } = this;
    const lifetimeMs = this.#keepAlive.remainingMs();
    loseLease();
    if (lifetimeMs <= 0) return;
    const limit = waitLimit('session close', { timeoutMs: Math.min(lifetimeMs, CLOSE_TIMEOUT_MS) });
    try {
      // Safe to repeat: the lease's number is random, nobody else can have it.
      await untilAnswered(limit.signal, (options) => client.lease.revoke(leaseId, options));
    } catch (error) {
      if (!isOverAnyway(error, lifetimeMs)) throw limit.endedBy(error);
    } finally {
      limit.dispose();
    }
  }
}

/** What is there by that name, or is made now. It asks to be forgotten itself, and takes no later one with it. */
function remembered<T>(all: Map<string, T>, name: string, make: (forget: () => void) => T): T {
  const found = all.get(name);
  if (found !== undefined) return found;
  const made = make(() => {
    if (all.get(name) === made) all.delete(name);
  });
  all.set(name, made);
  return made;
}

async function keptAlive(client: Keyspace, lease: bigint, options: CallOptions): Promise<KeepAlive> {
  const { signal, timeoutMs } = client.lease.bounded(options);
  const limit = waitLimit('session open', { signal, timeoutMs });
  const keepAlive = client.lease.keepAlive(lease);
  const offAbort = onAbort(limit.signal, () => keepAlive.lose(limit.signal.reason));
  try {
    if (limit.signal.aborted) keepAlive.lose(limit.signal.reason);
    await keepAlive.renewed();
    return keepAlive;
  } finally {
    offAbort();
    limit.dispose();
  }
}

function isOverAnyway(error: unknown, lifetimeMs: number): boolean {
  if (!(error instanceof EtcdError)) return false;
  if (error.reason === 'DeadlineExceeded') return lifetimeMs <= CLOSE_TIMEOUT_MS;
  return error.reason === 'LeaseNotFound' || error.reason === 'ClientClosed';
}

/** @throws EtcdError, reason `InvalidInput`. */
export function checkSession(session: Session): Session {
  return checkCan(session, 'seat', 'session', 'a Session, as Session.open gives it');
}
