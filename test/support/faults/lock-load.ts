import { setTimeout as pause } from 'node:timers/promises';
import { sharedClockMs } from '../../../scripts/shared-clock.js';
import { Mutex, Session } from '../../../src/concurrency/index.js';
import { Client, type ClientOptions, EtcdError, op } from '../../../src/index.js';
import { type Claim, checkLock, type Violation } from '../../../src/testing/index.js';
import { whatHappened } from '../truth.js';
import { between, branchOf } from './rounds.js';
import { proxiedFrom, type Target } from './target.js';
import { untilPut } from './until-put.js';

const CONTENDERS = 3;
/** Seconds: short, so that leases are lost now and then. */
const TTL = 3;
const HOLD_MS = 20;
/** Once the faults are over: a lost session's lease, extended by an election, and much more. */
const HELD_AGAIN_MS = 30_000;

export interface LockLoadOptions {
  readonly client?: Partial<ClientOptions> | undefined;
  readonly name: string;
  readonly random: () => number;
}

/**
 * Contenders for one lock through the proxies of a cluster, each with a client of its own, for as long as a round of
 * faults lasts; as the holder they write to a key.
 */
export class LockLoad implements AsyncDisposable {
  readonly #target: Target;
  readonly #options: LockLoadOptions;
  readonly #fromRevision: bigint;
  readonly #clients: Client[] = [];
  readonly #claims: Claim[] = [];
  readonly #contending: Promise<unknown>;
  readonly #over = new AbortController();

  private constructor(target: Target, options: LockLoadOptions, fromRevision: bigint) {
    this.#target = target;
    this.#options = options;
    this.#fromRevision = fromRevision;
    this.#contending = Promise.all(
      Array.from({ length: CONTENDERS }, (_, index) => this.#contend(index, branchOf(options.random))),
    );
    this.#contending.catch(() => {});
  }

  static async start(target: Target, options: LockLoadOptions): Promise<LockLoad> {
    await using etcd = new Client({ endpoints: target.endpoints });
    return new LockLoad(target, options, (await etcd.range(options.name, { timeoutMs: 30_000 })).header.revision);
  }

  /** Resolves when a contender has taken the lock after this call and has released it. */
  async heldAgain(): Promise<void> {
    const sinceMs = sharedClockMs();
    const deadline = performance.now() + HELD_AGAIN_MS;
    while (!this.#claims.some(({ fromMs }) => fromMs >= sinceMs)) {
      if (performance.now() > deadline) throw new Error(`the lock was not taken within ${HELD_AGAIN_MS} ms`);
      await pause(HOLD_MS);
    }
  }

  /** Ends the load; no two may have held at a time, or out of order, and no stale write may be there. */
  async judge(): Promise<{ readonly violations: readonly Violation[]; readonly holds: number }> {
    this.#over.abort();
    await this.#contending;
    const { etcdctl, endpoints } = this.#target;
    const [prefix, last, fromRevision] = [`${this.#options.name}/`, `${this.#options.name}/~last`, this.#fromRevision];
    await using etcd = new Client({ endpoints });
    await untilPut(etcd, last);
    const truth = await whatHappened({ etcdctl, endpoints, prefix, last, fromRevision });
    const line = truth.filter(({ key }) => key.startsWith(`${this.#lock}/`));
    const stale: Violation[] = [];
    let greatest = 0n;
    for (const { key, value } of truth) {
      if (key !== this.#guarded) continue;
      if (BigInt(value) < greatest) stale.push({ rule: 'stale write', detail: `token ${value} after ${greatest}` });
      else greatest = BigInt(value);
    }
    const violations = [...checkLock(this.#claims, line), ...stale];
    return { violations, holds: this.#claims.length };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await Promise.all(this.#clients.map((client) => client.close()));
  }

  get #lock(): string {
    return `${this.#options.name}/lock`;
  }

  get #guarded(): string {
    return `${this.#options.name}/value`;
  }

  /** A session after the other, as each is lost. */
  async #contend(index: number, random: () => number): Promise<void> {
    const etcd = new Client({ endpoints: proxiedFrom(this.#target, index), ...this.#options.client });
    this.#clients.push(etcd);
    while (!this.#over.signal.aborted) {
      try {
        await using session = await Session.open(etcd, { ttl: TTL });
        const mutex = new Mutex(session, this.#lock);
        while (!session.signal.aborted && !this.#over.signal.aborted)
          await this.#hold(mutex, `contender ${index}`, random);
      } catch (error) {
        if (!(error instanceof EtcdError)) throw error;
      }
    }
  }

  async #hold(mutex: Mutex, holder: string, random: () => number): Promise<void> {
    const held = await mutex.lock({ signal: this.#over.signal });
    const until = sharedClockMs() + between(0, HOLD_MS, random);
    let claim: { readonly fromMs: number; readonly untilMs: number } | undefined;
    try {
      for (;;) {
        // Read first: it was held at this time if it is so afterwards.
        const nowMs = sharedClockMs();
        if (!held.valid()) break;
        claim = { fromMs: claim?.fromMs ?? nowMs, untilMs: nowMs };
        if (nowMs > until) break;
        await pause(1);
      }
      await held.txn({ then: [op.put(this.#guarded, `${held.token}`)] });
    } finally {
      if (claim !== undefined) this.#claims.push({ holder, token: held.token, ...claim });
      await held.release();
    }
  }
}
