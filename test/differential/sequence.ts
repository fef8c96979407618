import fc from 'fast-check';
import { hugeStep, hugeWatchSteps, kvStep, weighted } from './generate-kv.js';
import {
  AUTH_PRELUDE,
  authStep,
  clusterStep,
  downgradeSteps,
  expiringSteps,
  guardedKvStep,
  guardedWatchStep,
  leaseStep,
  maintenanceStep,
  queueStep,
  watchStep,
  withTokens,
} from './generate-services.js';
import type { Step } from './step.js';

// Generates sequences of steps. Each profile contains the steps of only a few services, so that the steps often use the
// same keys and leases.

/** Maximum number of steps that `steps` generates. */
const MAX_STEPS = 50;

function steps(...choices: readonly (readonly [number, fc.Arbitrary<Step>])[]): fc.Arbitrary<readonly Step[]> {
  return fc.array(weighted(...choices), { minLength: 1, maxLength: MAX_STEPS, size: 'max' });
}

function joined(...parts: readonly fc.Arbitrary<readonly Step[]>[]): fc.Arbitrary<readonly Step[]> {
  return fc.tuple(...parts).map((lists) => lists.flat());
}

/** The grants come first in many sequences, so that later steps find the leases. */
const grants: fc.Arbitrary<readonly Step[]> = fc.subarray<Step>(
  [1, 2, 3].map((id) => ({ rpc: 'lease.leaseGrant', request: { id, ttl: 100 * id } })),
);
const prelude = fc.oneof(
  { weight: 1, arbitrary: fc.subarray([...AUTH_PRELUDE]) },
  { weight: 6, arbitrary: fc.constant(AUTH_PRELUDE) },
);

/** The profiles, with the weight of each. */
const PROFILES: Readonly<Record<string, readonly [weight: number, sequences: fc.Arbitrary<readonly Step[]>]>> = {
  kv: [20, steps([1, kvStep])],
  watch: [16, steps([10, kvStep], [7, watchStep], [1, leaseStep])],
  lease: [14, joined(grants, steps([5, kvStep], [6, leaseStep], [1, watchStep]))],
  auth: [
    18,
    joined(
      prelude,
      steps(
        [6, withTokens(authStep)],
        [6, withTokens(guardedKvStep)],
        [2, withTokens(leaseStep)],
        [1, withTokens(guardedWatchStep)],
        [1, withTokens(maintenanceStep)],
        [2, withTokens(queueStep)],
      ),
    ),
  ],
  queue: [14, joined(grants, steps([8, queueStep], [2, leaseStep], [2, kvStep]))],
  maintenance: [10, steps([6, maintenanceStep], [3, kvStep], [1, leaseStep])],
  downgrade: [0.5, joined(downgradeSteps, fc.array(maintenanceStep, { maxLength: 4 }))],
  cluster: [3, steps([6, clusterStep], [1, kvStep])],
  huge: [0.3, fc.array(hugeStep, { minLength: 1, maxLength: 6 })],
  hugeWatch: [0.2, hugeWatchSteps],
  expiry: [0.2, joined(fc.array(watchStep, { maxLength: 3 }), expiringSteps)],
};

/** The names of all profiles. */
export const PROFILE_NAMES = Object.keys(PROFILES);

export interface SequenceOptions {
  readonly profiles?: readonly string[] | undefined;
  /**
   * Whether etcd 3.5 plays the sequences. Its process ends if a request contains an unknown sort target or an unknown
   * alarm.
   */
  readonly for35: boolean;
}

/** The largest known value of the enums whose unknown values end the process of etcd 3.5. */
const LARGEST_KNOWN: Readonly<Record<string, number>> = { sortTarget: 4, alarm: 2 };

/** Generates sequences. */
export function sequences({ profiles, for35 }: SequenceOptions): fc.Arbitrary<readonly Step[]> {
  const chosen = fc.oneof(
    ...Object.entries(PROFILES)
      .filter(([name]) => profiles?.includes(name) ?? true)
      .map(([, [weight, arbitrary]]) => ({ weight: Math.round(weight * 10), arbitrary })),
  );
  return for35 ? chosen.map(withKnownEnums) : chosen;
}

/** Removes the values of enums that end the process of etcd 3.5. */
export function withKnownEnums(steps: readonly Step[]): readonly Step[] {
  const isUnknown = (name: string, value: unknown): boolean =>
    name in LARGEST_KNOWN && typeof value === 'number' && (value < 0 || value > (LARGEST_KNOWN[name] as number));
  const text = JSON.stringify(steps, (name, value: unknown) => (isUnknown(name, value) ? undefined : value));
  return JSON.parse(text) as Step[];
}
