import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import type { Client, ClientOptions } from '../../src/index.js';
import type { FaultProxy } from '../../src/testing/index.js';
import { openClient } from '../support/client.js';
import type { FaultyCluster } from './cluster.js';
import { Load, LockLoad } from './load.js';
import { between, branchOf, type Round, rounds } from './rounds.js';

/**
 * The time limit in milliseconds of a round, which is one run of a fault test with one seed. A round usually takes
 * seconds, so only a round that hangs reaches the limit.
 */
const ROUND_TIMEOUT_MS = 240_000;

/**
 * The result of one round of a row, for the table of all rows. A row is a kind of fault, and a round is one run of its
 * test with a seed.
 */
export interface Figures {
  /** The number of faults that the round made. */
  readonly faults: number;
  /** The number of events that watches delivered and that the round compared with the history of etcd. */
  readonly events?: number | undefined;
  /** The number of puts that the round compared with the history of etcd. */
  readonly puts?: number | undefined;
  /**
   * For each fault, the time in milliseconds that the client took to recover. The time counts from the end of the fault
   * if the client cannot work during the fault.
   */
  readonly recoveryMs?: readonly number[] | undefined;
  /** Other figures. Their names contain the units. */
  readonly further?: Readonly<Record<string, number>> | undefined;
}

declare module 'vitest' {
  interface TaskMeta {
    row?: string;
    seed?: number;
    figures?: Figures;
  }
}

/** The servers that all rounds of a row share. */
export interface Fixture extends AsyncDisposable {
  /** Ends every fault. */
  heal(): Promise<void>;
}

/**
 * Defines the tests for one row, which is one kind of fault. Each round is a test with its own seed, and all rounds use
 * the same servers. If `open` resolves with undefined, because the servers are not available, the rounds are skipped.
 */
export function faultRow<Opened extends Fixture>(
  name: string,
  open: () => Promise<Opened | undefined>,
  round: (fixture: Opened, round: Round, context: TestContext) => Promise<Figures>,
): void {
  describe(`under the fault "${name}"`, () => {
    let fixture: Opened | undefined;
    beforeAll(async () => {
      fixture = await open();
    });
    afterAll(() => fixture?.[Symbol.asyncDispose]());
    test.for(rounds())(
      'the client keeps its guarantees (seed $seed)',
      { timeout: ROUND_TIMEOUT_MS },
      async (seeded, context) => {
        const { meta } = context.task;
        meta.row = name;
        meta.seed = seeded.seed;
        if (fixture === undefined)
          return context.skip(
            'etcd members cannot be started as processes, or a program that this fault needs is missing',
          );
        try {
          meta.figures = await round(fixture, seeded, context);
          expect(meta.figures.faults, 'faults injected').toBeGreaterThan(0);
        } catch (error) {
          // An error in `heal` may be a consequence of this error, so it must not hide the original error.
          await fixture.heal().catch(() => {});
          throw error;
        }
        await fixture.heal();
      },
    );
  });
}

/**
 * The minimum and the maximum length in milliseconds of the periods without faults: one before the first fault, and one
 * after the last fault.
 */
const CALM_MS = [100, 500] as const;

/**
 * Injects faults while clients write, read, watch and contend for a lock. Expects, among other things, that no watch
 * lost, repeated or reordered an event or delivered the events of one revision in two batches, that etcd applied no put
 * twice, that no read returned an older state than a previous read, and that no two clients held the lock at the same
 * time (rules S2, S4, S5, S14, S27 and S28 in docs/semantics.md).
 */
export async function underLoad(
  fixture: FaultyCluster,
  { seed, random }: Round,
  injectFaults: () => Promise<Pick<Figures, 'faults' | 'recoveryMs' | 'further'>>,
  client?: Partial<ClientOptions>,
): Promise<Figures> {
  // Only the faults draw from the generator of the round, because the order in which the loads draw numbers is not
  // deterministic.
  const [loadRandom, locksRandom] = [branchOf(random), branchOf(random)];
  await using load = await Load.start(fixture, { name: `n-${seed}`, random: loadRandom, client });
  await using locks = await LockLoad.start(fixture, { name: `g-${seed}`, random: locksRandom, client });
  await pause(between(...CALM_MS, random));
  const figures = await injectFaults();
  await fixture.heal();
  await pause(between(...CALM_MS, random));
  await locks.heldAgain();
  const [{ violations, events, puts, succeeded, registers }, held] = [await load.verify(), await locks.verify()];
  expect([...violations, ...held.violations]).toEqual([]);
  expect(succeeded).toBeGreaterThan(0);
  const further = { ...figures.further, 'holds of a lock': held.holds, 'registers searched': registers };
  return { ...figures, events, puts, further };
}

/** Opens a client that connects to the only member directly, and a client that connects through the member's proxy. */
export function directAndProxied({ endpoints, proxies }: FaultyCluster): {
  readonly direct: Client;
  readonly proxied: Client;
  readonly proxy: FaultProxy;
} {
  const [proxy] = proxies as [FaultProxy];
  return { direct: openClient({ endpoints }), proxied: openClient({ endpoints: [proxy.endpoint] }), proxy };
}
