import { drawBytes } from './bytes/network.js';
import { drawOptions } from './clients.js';
import { drawFaults, FAULT_KINDS, type FaultKind, STORE_FAULTS, STRANGE_COPIES } from './faults.js';
import type { Plan } from './plan.js';
import { RAFT_MEMBERS } from './raft-cluster.js';
import { Random } from './random.js';
import { type ClusterTraits, PLAIN_CLUSTER } from './traits.js';
import type { Workload } from './workload.js';

/**
 * The rates of the slowest and the fastest clock. A lease with a TTL of up to 10 s is safe if the quotient of the rates
 * is below 10/9.
 */
export const MIN_RATE = 0.96;
const MAX_RATE = 1.06;

/** Draws the plan of the history with this seed. */
export function planOf<Op>(workload: Workload<Op>, seed: number): Plan<Op> {
  const random = new Random(seed);
  const drawnMembers = random.pick([1, 1, 2, 3]);
  const members = workload.hasRaft ? RAFT_MEMBERS : drawnMembers;
  const processes = workload.generate(random);
  const activeMs = random.pick([500, 3_000, 10_000, 20_000]);
  const { without = [], hasStates = false, isRestored = false, isUnary = false, toleratesCopies = false } = workload;
  const unwanted: readonly FaultKind[] = toleratesCopies ? without : [...without, ...STRANGE_COPIES];
  const kinds: FaultKind[] = FAULT_KINDS.filter((kind) => !unwanted.includes(kind));
  if (!isRestored) kinds.splice(-STORE_FAULTS.length);
  // Draws these faults often, because a workload with `isRestored` exists to test them.
  else kinds.push(...STORE_FAULTS, ...STORE_FAULTS, ...STORE_FAULTS, ...STORE_FAULTS);
  return {
    workload: workload.name,
    seed,
    members,
    delays: random.pick(['none', 'short', 'short', 'long', 'uneven'] as const),
    timerLagMs: random.pick([0, 0, 2, 40]),
    rates: workload.hasOneRate ? undefined : drawRates(new Random(seed, 12), processes.length),
    bytes: drawBytes(new Random(seed, 9), isUnary),
    maxInFlight: new Random(seed, 10).pick([undefined, undefined, undefined, 1, 2]),
    balance: new Random(seed, 11).pick(['in-order', 'sticky', 'round-robin'] as const),
    options: drawOptions(new Random(seed, 13)),
    activeMs,
    processes,
    faults: drawFaults(random, { processes: processes.length, members, activeMs, kinds, hasStates }),
    // A store that replaces another store has other users, so the clients could not authenticate.
    traits: isRestored || workload.hasRaft ? PLAIN_CLUSTER : drawTraits(random, members),
  };
}

/** Draws rates of clocks that differ by less than the margin of a lease allows (S14). */
function drawRates(random: Random, processes: number): readonly number[] | undefined {
  if (random.chance(0.4)) return undefined;
  return Array.from({ length: 1 + processes }, () => {
    if (random.chance(0.3)) return random.pick([MIN_RATE, MAX_RATE]);
    return MIN_RATE + random.fraction() * (MAX_RATE - MIN_RATE);
  });
}

function drawTraits(random: Random, members: number): ClusterTraits {
  const isProxy = random.chance(0.12);
  return {
    isProxy,
    progressOvertakes: !isProxy && random.chance(0.12),
    splitsEvents: !isProxy && random.chance(0.3),
    hasLearner: members > 1 && random.chance(0.12),
    hasAuth: random.chance(0.12),
  };
}
