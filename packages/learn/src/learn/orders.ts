import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '../../../../src/index.js';
import { inspectLock } from '../../../../src/locks.js';
import { listen, MemoryEtcd } from '../../../../src/testing/index.js';
import { randomNumbers } from '../../../../test/load/rounds.js';

// Lets clients of a lock ask for it, release it and lose their leases in random orders, and looks for two holders.

interface Held {
  readonly token: bigint;
  unlock(): Promise<unknown>;
}

export type Lock = (address: string, name: string, ttl: number) => Promise<Held>;

/** A client that has asked for the lock. */
interface Contender {
  readonly name: string;
  readonly key: string;
  readonly leaseId: bigint;
  /** `over`: its lease has ended, or it has released the lock. */
  state: 'waits' | 'holds' | 'over';
  held: Held | undefined;
}

const NAMES = ['Anne', 'Ben', 'Carla', 'Dan', 'Eve', 'Fred'];
const LOCK = 'jobs';
/** Long enough that no lease ends by itself. */
const TTL_S = 60;
/** Time limit in milliseconds for what the lock must do after an action. */
const PATIENCE_MS = 5_000;
/**
 * How often the event loop turns after each action, so that a client with a mistake takes the lock. A few turns are
 * enough, because the clients and etcd are in this process. A time would not be enough on a slow machine.
 */
const SETTLE_TURNS = 15;
const POLL_MS = 2;
/** The number of actions of the first order. Later orders are longer, so that the first mistake is in a short one. */
const SHORTEST = 4;
const ORDERS_OF_ONE_LENGTH = 10;

/** Returns a function that returns the next random integer from 0 to `count` - 1. */
function randomOf(seed: number): (count: number) => number {
  const random = randomNumbers(seed);
  return (count) => (random() * 2 ** 32) % count;
}

/** One order of actions, with an etcd in memory. */
class Order {
  readonly #etcd: Client;
  readonly #address: string;
  readonly #lock: Lock;
  readonly #contenders: Contender[] = [];
  /** What has happened, line by line. */
  readonly lines: string[] = [];
  mistake: string | undefined;

  constructor(etcd: Client, address: string, lock: Lock) {
    [this.#etcd, this.#address, this.#lock] = [etcd, address, lock];
  }

  /** The actions that are possible now. A random choice picks an action more often that is in the list more often. */
  get actions(): (() => Promise<void>)[] {
    const name = NAMES[this.#contenders.length];
    const asks = name === undefined ? [] : [() => this.#ask(name)];
    const [holder] = this.#in('holds');
    if (holder === undefined) return asks;
    const waiters = this.#in('waits');
    const ends = [holder, ...waiters, ...waiters].map((each) => () => this.#endLease(each));
    // Mistakes show when three clients or more are in the queue.
    const often = waiters.length < 2 ? [...asks, ...asks, ...asks] : [];
    return [...asks, ...often, ...ends, () => this.release()];
  }

  #in(state: Contender['state']): Contender[] {
    return this.#contenders.filter((each) => each.state === state);
  }

  async #queue() {
    const { holder, waiters } = await inspectLock(this.#etcd, LOCK);
    return holder === undefined ? [] : [holder, ...waiters];
  }

  async #ask(name: string): Promise<void> {
    this.lines.push(`${name} asks for the lock`);
    const asked = this.#lock(this.#address, LOCK, TTL_S);
    asked.catch(() => {});
    const known = new Set(this.#contenders.map(({ key }) => key));
    let contender: Contender | undefined;
    await this.#until(`${name} puts no key into the queue`, async () => {
      const entry = (await this.#queue()).find(({ kv }) => !known.has(kv.key));
      if (entry !== undefined)
        contender = { name, key: entry.kv.key, leaseId: entry.leaseId, state: 'waits', held: undefined };
      return entry !== undefined;
    });
    if (contender === undefined) return;
    this.#contenders.push(contender);
    const added = contender;
    asked.then(
      (held) => this.#onHeld(added, held),
      (error) => this.#onError(added, error),
    );
  }

  async #endLease(contender: Contender): Promise<void> {
    this.lines.push(
      `the lease of ${contender.name} ends, who ${contender.state === 'holds' ? 'has the lock' : 'waits'}`,
    );
    contender.state = 'over';
    await this.#etcd.lease.revoke(contender.leaseId);
  }

  /** Lets the holder release the lock, if there is one. */
  async release(): Promise<void> {
    const [holder] = this.#in('holds');
    if (holder === undefined) return;
    this.lines.push(`${holder.name} releases the lock`);
    holder.state = 'over';
    await holder.held?.unlock();
  }

  #onHeld(contender: Contender, held: Held): void {
    const [other] = this.#in('holds');
    [contender.state, contender.held] = ['holds', held];
    if (this.mistake !== undefined) return;
    this.lines.push(`${contender.name} has the lock, token ${held.token}`);
    if (other !== undefined) this.mistake = `two holders: ${other.name} and ${contender.name}`;
  }

  #onError({ name, state }: Contender, error: unknown): void {
    if (state !== 'over') this.mistake ??= `lock of ${name} throws "${error}"`;
  }

  /** Waits until the first client in the queue has the lock, and then for mistakes. */
  async settle(): Promise<void> {
    const [first] = await this.#queue();
    const contender = this.#contenders.find(({ key }) => key === first?.kv.key);
    const waits = `${contender?.name} does not get the lock, although its key is the first one`;
    await this.#until(waits, () => contender === undefined || contender.state !== 'waits');
    for (let turn = 0; turn < SETTLE_TURNS; turn += 1) await pause(1);
    const keys = (await this.#queue()).map(({ kv }) => kv.key);
    for (const { name, key } of this.#in('holds'))
      if (!keys.includes(key)) this.mistake ??= `${name} has the lock, although the lease of ${name} has ended`;
  }

  async #until(mistake: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
    for (const endMs = performance.now() + PATIENCE_MS; this.mistake === undefined && !(await isTrue()); ) {
      if (performance.now() > endMs) this.mistake = `${mistake} after ${PATIENCE_MS / 1_000} s`;
      await pause(POLL_MS);
    }
  }

  /** Ends the renewals of the clients whose leases have ended. */
  async close(): Promise<void> {
    for (const { held } of this.#contenders) await held?.unlock().catch(() => {});
  }
}

/** Plays the order with a number. Returns what happened, line by line, if the lock made a mistake. */
export async function mistakeIn(lock: Lock, number: number): Promise<string | undefined> {
  await using listener = await listen(new MemoryEtcd());
  await using etcd = new Client({ endpoints: [listener.endpoint] });
  const order = new Order(etcd, new URL(listener.endpoint).host, lock);
  const random = randomOf(number);
  const length = SHORTEST + Math.floor(number / ORDERS_OF_ONE_LENGTH);
  for (let played = 0; played < length && order.mistake === undefined; played += 1) {
    const { actions } = order;
    await actions[random(actions.length)]?.();
    await order.settle();
  }
  for (let left = NAMES.length; left > 0 && order.mistake === undefined; left -= 1) {
    await order.release();
    await order.settle();
  }
  await order.close();
  return order.mistake === undefined ? undefined : [...order.lines, order.mistake].join('\n');
}
