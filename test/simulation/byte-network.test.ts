import { expect, inject, test } from 'vitest';
import { ErrorCode, FrameType } from '../../src/wire/http2/frame.js';
import { FrameWriter } from '../../src/wire/http2/frame-writer.js';
import { STREAM_WINDOW_BYTES } from '../../src/wire/http2/settings.js';
import { FrameLog } from './bytes/frames.js';
import { planOf } from './draw-plan.js';
import { runHistory } from './history.js';
import type { Plan } from './plan.js';
import { PLAIN_CLUSTER } from './traits.js';
import type { Workload } from './workload.js';
import { WORKLOADS } from './workloads/all.js';

/** The number of histories of each workload in one run of the tests. */
const HISTORIES = inject('thorough') ? 30 : 6;

test.for(WORKLOADS.map((workload) => [workload.name, workload] as const))(
  'simulated histories of the workload "%s" over HTTP/2 break no rule, and are the same each time they are played',
  async ([, workload], { signal }) => {
    for (let seed = 1; seed <= HISTORIES; seed += 1) {
      // The histories of the next test wait only for the one that is being played after this test has timed out.
      signal.throwIfAborted();
      const bytesPerMs = seed % 4 === 0 ? 1 : undefined;
      const bytes = { isSplit: seed % 2 === 0, slowOpenings: seed % 3 === 0 ? 0.1 : 0, bytesPerMs };
      const plan: Plan = { ...planOf(workload, seed), bytes };
      const first = await runHistory(workload, plan);
      expect({ seed, violations: first.violations }).toEqual({ seed, violations: [] });
      const second = await runHistory(workload, plan, { isTraced: true });
      expect([second.hash, second.events]).toEqual([first.hash, first.events]);
    }
  },
);

test('a simulated client gets and puts a large value over a slow link in the time that its bytes take', async () => {
  const bytes = 1_200_000;
  for (const bytesPerMs of [64, 400]) {
    const tookMs: number[] = [];
    const isValid: boolean[] = [];
    const workload: Workload<undefined> = {
      name: 'large value',
      weight: 0,
      generate: () => [{ ops: [] }],
      begin: ({ world, client }) => ({
        play: async () => {
          const etcd = client(0);
          await using alive = etcd.lease.keepAlive(await etcd.lease.grant({ ttl: 10 }));
          for (const call of [
            () => etcd.put('large', 'x'.repeat(bytes), { timeoutMs: 120_000 }),
            () => etcd.get('large', { timeoutMs: 120_000 }),
          ]) {
            const startedAt = world.now;
            await call();
            tookMs.push(world.now - startedAt);
            isValid.push(alive.valid());
          }
        },
        check: () => {},
        mayStay: () => true,
        mayLeasesStay: () => true,
      }),
    };
    const plan: Plan<undefined> = {
      ...planOf(workload, 1),
      ...{ members: 1, delays: 'short', traits: PLAIN_CLUSTER, maxInFlight: undefined, faults: [], activeMs: 300_000 },
      bytes: { isSplit: false, slowOpenings: 0, bytesPerMs },
    };
    const { violations } = await runHistory(workload, plan);
    expect(violations).toEqual([]);
    expect(isValid).toEqual([true, true]);
    for (const ms of tookMs) {
      expect(ms).toBeGreaterThan(bytes / bytesPerMs);
      expect(ms).toBeLessThan(bytes / bytesPerMs + 2_000);
    }
  }
});

test('about one plan in ten uses HTTP/2 over byte streams', () => {
  const [workload] = WORKLOADS;
  if (workload === undefined) throw new Error('no workload');
  let overBytes = 0;
  for (let seed = 0; seed < 10_000; seed += 1) if (planOf(workload, seed).bytes !== undefined) overBytes += 1;
  expect(overBytes).toBeGreaterThan(800);
  expect(overBytes).toBeLessThan(1_200);
});

test('`FrameLog` describes the frames in split bytes, and reports those that carry an error code', async () => {
  const written: Uint8Array[] = [];
  const writer = new FrameWriter((parts) => written.push(...parts));
  writer.preface(STREAM_WINDOW_BYTES);
  writer.rstStream(1, ErrorCode.CANCEL);
  writer.rstStream(3, ErrorCode.FLOW_CONTROL_ERROR);
  writer.frame(FrameType.GOAWAY, 0, 0, new Uint8Array([0, 0, 0, 0, 0, 0, 0, ErrorCode.NO_ERROR]));
  writer.goAway(ErrorCode.PROTOCOL_ERROR);
  writer.flush();
  const problems: string[] = [];
  const log = new FrameLog(true, (problem) => problems.push(problem));
  const frames: string[] = [];
  for (const part of written)
    for (const byte of part)
      frames.push(
        ...log
          .push([new Uint8Array([byte])])
          .split(', ')
          .slice(1),
      );
  expect(frames).toEqual([
    'SETTINGS 0',
    'WINDOW_UPDATE 0',
    'RST_STREAM 1 CANCEL',
    'RST_STREAM 3 FLOW_CONTROL_ERROR',
    'GOAWAY 0 NO_ERROR',
    'GOAWAY 0 PROTOCOL_ERROR',
  ]);
  expect(problems).toEqual(['RST_STREAM 3 FLOW_CONTROL_ERROR', 'GOAWAY 0 PROTOCOL_ERROR']);
});
