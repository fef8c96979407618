import { expect, test } from 'vitest';
import type { Plan } from './plan.js';
import { shrink } from './shrink.js';

test('`shrink` reduces a plan to the only fault and the only operation that matter', async () => {
  const fault = { trigger: { on: 'time', ms: 5 }, process: 0, member: 0, ms: 500, variant: 0 } as const;
  const plan: Plan = {
    workload: 'none',
    seed: 1,
    members: 3,
    delays: 'uneven',
    timerLagMs: 40,
    balance: 'sticky',
    activeMs: 1_000,
    processes: [{ ops: [{ afterMs: 10 }, { afterMs: 7, isBad: true }] }, { ops: [{ afterMs: 3 }] }],
    faults: [
      { ...fault, kind: 'cut' },
      { ...fault, kind: 'stall' },
      { ...fault, kind: 'lag' },
    ],
  };
  const fails = async ({ faults, processes }: Plan): Promise<boolean> =>
    faults.some(({ kind }) => kind === 'stall') && processes.some(({ ops }) => JSON.stringify(ops).includes('isBad'));
  const { plan: smallest } = await shrink(plan, fails, 10_000);
  expect(smallest.faults.map(({ kind, ms }) => ({ kind, ms }))).toEqual([{ kind: 'stall', ms: 0 }]);
  expect(smallest.processes.map(({ ops }) => ops)).toEqual([[{ afterMs: 0, isBad: false }], []]);
  expect([smallest.members, smallest.delays, smallest.timerLagMs]).toEqual([1, 'none', 0]);
});
