import type { KeepAlive } from '../../../src/client/lease/leases.js';
import type { Client } from '../../../src/extras/full/client.js';
import { REQUEST_TIMEOUT_MS } from '../../../src/testing/memory/consensus.js';
import type { FaultKind } from '../faults.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A lease with a key that a process keeps alive for a time, or a number of puts at once. */
interface LeaseOp {
  readonly type: 'lease' | 'puts';
  readonly afterMs: number;
  readonly ttl: number;
  readonly lifeMs: number;
  readonly ends: 'close' | 'revoke' | 'never';
  readonly puts: number;
}

/** A lease that a process keeps alive. */
interface Kept {
  readonly id: bigint;
  readonly ttl: number;
  readonly process: number;
  /** When the process asked for the lease. */
  readonly startMs: number;
  readonly alive: KeepAlive;
  /** Whether the process itself has ended the lease. */
  isEnded: boolean;
}

const PREFIX = 'l/';
/**
 * The maximum time in milliseconds that a renewal takes in a cluster that works, apart from the backoffs of the client.
 */
const ROUND_TRIPS_MS = 250;
/** The maximum time in milliseconds that three members need to elect a leader, also if two elections have no winner. */
const ELECTION_MS = 6_000;
/** The faults that a client may notice only after all faults have ended. */
const OUTLASTING: ReadonlySet<FaultKind> = new Set([
  'isolate member for good',
  'stop member for good',
  'close one direction',
  'forget connections',
]);
/**
 * Matches the error of a lease that has ended because the wall clock or the boot clock gained on the monotonic clock.
 */
const LEAPED = /the machine was suspended or its wall clock was set forward/;
/** How long a process watches its leases after all faults have ended, in milliseconds. */
const OBSERVED_MS = 12_000;

/**
 * Leases with keepalives: a keepalive is valid only while its lease exists, and it keeps the lease alive if the faults
 * leave enough time for a renewal.
 */
export const leases: Workload<LeaseOp> = {
  name: 'leases',
  toleratesCopies: true,
  weight: 2,
  sizeOf: ({ type, puts: count }) => (type === 'puts' ? count : 1),
  generate: (random) =>
    Array.from({ length: random.between(1, 2) }, () => ({
      ops: Array.from({ length: random.between(1, 4) }, () => ({
        type: random.chance(0.85) ? ('lease' as const) : ('puts' as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 3_000)]),
        ttl: random.pick([2, 2, 5, 5, 10]),
        lifeMs: random.magnitude(1, 15_000),
        ends: random.pick(['close', 'revoke', 'never', 'never'] as const),
        puts: random.between(10, 30),
      })),
    })),
  begin: (context) => new LeasesPlayer(context),
};

class LeasesPlayer implements Player<LeaseOp> {
  readonly #context: Context<LeaseOp>;
  readonly #kept: Kept[] = [];

  constructor(context: Context<LeaseOp>) {
    this.#context = context;
    const { cluster, world } = context;
    cluster.onEvent(({ type, key }) => {
      if (type !== 'delete' || !key.startsWith(PREFIX)) return;
      for (const kept of this.#kept)
        if (key === keyOf(kept.id))
          world.soon(context.process(kept.process), 'compares a lease', () => this.#compare(kept));
    });
  }

  async play(index: number, { ops }: ProcessPlan<LeaseOp>): Promise<void> {
    const { world, waits, healed } = this.#context;
    const client = this.#context.client(index);
    const running: Promise<void>[] = [];
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      if (each.type === 'lease') running.push(this.#keep(client, index, each).catch(expected));
      else
        for (let puts = 0; puts < each.puts; puts += 1)
          running.push(client.put('p/put', 'v', { timeoutMs: 15_000 }).then(() => {}, expected));
    }
    await healed();
    const survivors = this.#kept.filter((kept) => kept.process === index && this.#mustSurvive(kept));
    await world.sleep(OBSERVED_MS);
    for (const { id, alive, isEnded } of survivors)
      if (!isEnded && !alive.valid())
        this.#context.violated('needlessly lost lease', `${id.toString(16)}: ${String(alive.signal.reason)}`);
    waits(index, 'its leases');
    await Promise.all(running);
  }

  async #keep(client: Client, process: number, { ttl, lifeMs, ends }: LeaseOp): Promise<void> {
    const { world, healed } = this.#context;
    const startMs = world.time;
    const lease = await client.lease.grant({ ttl });
    const alive = client.lease.keepAlive(lease);
    const kept: Kept = { id: lease.id, ttl: lease.ttl, process, startMs, alive, isEnded: false };
    this.#kept.push(kept);
    // Puts a key whose deletion shows when the lease ends.
    void client.put(keyOf(lease.id), '', { lease, timeoutMs: 10_000 }).catch(expected);
    await world.sleep(lifeMs);
    if (ends === 'never') {
      await healed();
      await world.sleep(OBSERVED_MS + 5_000);
    }
    this.#checkLeap(kept);
    kept.isEnded = true;
    if (ends === 'revoke') await client.lease.revoke(lease).catch(expected);
    else await kept.alive.close();
  }

  /** Checks that a process does not consider a lease valid that has ended. */
  #compare({ id, alive }: Kept): void {
    if (this.#context.cluster.server.member.leases.has(id)) return;
    if (alive.valid()) this.#context.violated('valid without a lease', `${id.toString(16)} has ended`);
  }

  /** Checks that a clock that has leaped ends only the leases that the process had at that time. */
  #checkLeap({ id, process, startMs, alive }: Kept): void {
    if (alive.valid() || !LEAPED.test(String(alive.signal.reason))) return;
    if (this.#context.process(process).leapedAt < startMs)
      this.#context.violated('lease lost without a leap', `${id.toString(16)}: ${String(alive.signal.reason)}`);
  }

  /**
   * Whether the lease has so much time left when the faults end that the client must renew it: the time for an
   * unanswered renewal, and two backoffs. If a clock has leaped since the latest renewal, the lease ends earlier, but
   * the timer of the next renewal does not fire earlier.
   */
  #mustSurvive({ alive, ttl, isEnded, process }: Kept): boolean {
    const { world, plan, cluster } = this.#context;
    const { delays, timerLagMs, faults } = plan;
    if (isEnded || delays === 'long' || faults.some(({ kind }) => OUTLASTING.has(kind))) return false;
    // A call that the old leader has received waits for its proposal to time out, also after the end of the fault.
    if (ttl * 1_000 < 2 * REQUEST_TIMEOUT_MS && faults.some(({ kind }) => kind === 'old leader')) return false;
    const intervalMs = (ttl * 1_000) / 3;
    const lagMs = this.#context.process(process).leapedAt > world.time - ttl * 1_000 ? intervalMs : 0;
    const neededMs = Math.max(intervalMs / 2, 500) + intervalMs / 4 + ROUND_TRIPS_MS + 4 * timerLagMs;
    // The members refuse renewals until they have a leader.
    const electionMs = cluster.server.members.some(({ isLeader }) => isLeader) ? 0 : ELECTION_MS;
    return alive.remainingMs() > neededMs + lagMs + electionMs;
  }

  check(): void {}

  mayStay(key: string): boolean {
    return key === 'p/put';
  }
}

function keyOf(id: bigint): string {
  return `${PREFIX}${id.toString(16)}`;
}
