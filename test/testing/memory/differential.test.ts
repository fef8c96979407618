import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { MemoryVersion } from '../../../src/testing/memory/settings.js';
import { memoryCluster, realCluster } from '../../differential/cluster-control.js';
import { compareClusters } from '../../differential/cluster-run.js';
import { type ClusterStep, clusterSequence, kindsOf } from '../../differential/cluster-steps.js';
import { compare, showMismatch } from '../../differential/compare.js';
import { memoryTarget } from '../../differential/memory-target.js';
import { rpcs } from '../../differential/methods.js';
import { Player } from '../../differential/player.js';
import { run } from '../../differential/run.js';
import { sequences } from '../../differential/sequence.js';
import { rpcOf, type Step } from '../../differential/step.js';
import { realTarget, type Target } from '../../differential/target.js';
import { iterations, testedVersions } from '../../support/thorough.js';

// `npm run test:differential` plays as many requests as its arguments say, at all versions of etcd.

const SEED = 20_260;
/** The number of requests for each version in `npm run test:all`. */
const REQUESTS = 8_000;
/** The number of sequences for three members. Each takes about 5 s, because etcd needs seconds for an election. */
const CLUSTER_SEQUENCES = 6;
const TIMEOUT_MS = 300_000;
const SAVED = join(import.meta.dirname, 'differential');

const versions = (await testedVersions()).filter((version): version is MemoryVersion => version !== '3.4');

async function opened(target: Target | Promise<Target>): Promise<Target> {
  const open = await target;
  onTestFinished(() => open.close());
  return open;
}

describe.each(versions)('MemoryEtcd %s', (version) => {
  test('answers generated sequences like a real etcd', { timeout: TIMEOUT_MS }, async () => {
    const [left, right] = [memoryTarget(version), await opened(realTarget(version))];
    const failure = await run({ left, right, requests: iterations(REQUESTS), seed: SEED });
    if (failure !== undefined)
      throw new Error(`the answers differ:\n${showMismatch(failure.steps, failure.mismatch, [left.name, right.name])}`);
  });

  test('answers the saved sequences like a real etcd', { timeout: TIMEOUT_MS }, async () => {
    const [left, right] = [memoryTarget(version), await opened(realTarget(version))];
    for (const file of readdirSync(SAVED)) {
      const steps = JSON.parse(readFileSync(join(SAVED, file), 'utf8')) as Step[];
      const players = [new Player([await left.next()]), new Player([await right.next()])] as const;
      const mismatch = await compare(steps, players);
      if (mismatch !== undefined)
        throw new Error(`${file}: the answers differ:\n${showMismatch(steps, mismatch, [left.name, right.name])}`);
    }
  });
});

describe.each(versions)('MemoryEtcd %s with three members', (version) => {
  test('answers like a real cluster, with elections, cuts, kills, new members and authentication', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const real = await realCluster(version);
    onTestFinished(() => real.close());
    for (let seed = SEED; seed < SEED + iterations(CLUSTER_SEQUENCES); seed += 1) {
      const memory = memoryCluster(version);
      onTestFinished(() => memory.close());
      const { steps, mismatch } = await compareClusters(seed, [memory, real]);
      if (mismatch !== undefined)
        throw new Error(
          `seed ${seed}: the answers differ:\n${showMismatch(steps, mismatch, [memory.name, real.name])}`,
        );
    }
  });
});

describe('the differential test', () => {
  test('finds differences between two versions, and makes the sequence smaller', async () => {
    const failure = await run({
      left: memoryTarget('3.7'),
      right: memoryTarget('3.6'),
      requests: 2_000,
      seed: SEED,
      profiles: ['kv'],
    });
    expect(failure?.confirmed).toBeGreaterThan(0);
    expect(failure?.steps.length).toBeLessThanOrEqual(2);
  });

  test('generates every kind of change and watch for clusters, and enables authentication in half of the sequences', () => {
    const sequences = Array.from({ length: 40 }, (_, index) => clusterSequence(SEED + index));
    const kinds = new Set(sequences.flatMap((steps) => steps.flatMap(kindsOf)));
    for (const kind of ['cut', 'kill', 'heal', 'move', 'member change', 'filters', 'fragment', 'prevKv'])
      expect(kinds).toContain(kind);
    const enables = (step: ClusterStep): boolean => 'rpc' in step && step.rpc === 'auth.authEnable';
    expect(sequences.filter((steps) => steps.some(enables))).toHaveLength(20);
    for (const steps of sequences) expect(steps.length).toBeGreaterThanOrEqual(30);
  });

  test('generates requests of all RPCs', () => {
    const called = new Set(
      fc
        .sample(sequences({ for35: false }), { seed: SEED, numRuns: 400 })
        .flat()
        .map(rpcOf),
    );
    expect([...rpcs.keys()].filter((name) => !called.has(name))).toEqual([]);
  });
});
