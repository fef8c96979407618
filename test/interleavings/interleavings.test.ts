import { expect, test } from 'vitest';
import { type Party, type Scenario, unlessFailed } from './arena.js';
import { type Checkpoint, explore, replay } from './explorer.js';
import { SCENARIOS } from './scenarios.js';

/** B waits for a value that A puts once, so B never ends if the network loses the request of A. */
const STUCK: Scenario = {
  name: 'a lost put',
  prepare: async (arena) => {
    const [a, b] = (await arena.open(['A', 'B'])) as [Party, Party];
    // Without sessions, time stands still when no message is on its way.
    await Promise.all([a.session.close(), b.session.close()]);
    return new Map([
      ['A', async () => void (await unlessFailed(a.client.put('key', '')))],
      ['B', async () => void (await unlessFailed(b.client.watch('key', { startRevision: 1n }).batches().next()))],
    ]);
  },
};

/** The number of histories that each test plays. `npm run test:interleavings` plays all of them. */
const HISTORIES = 150;

test.each(SCENARIOS.map((scenario) => [scenario.name, scenario] as const))(
  'no order of events breaks a rule: %s',
  async (_, scenario) => {
    for (const faults of [0, 1]) {
      const { failure } = await explore(scenario, { faults, maxHistories: HISTORIES });
      expect(failure).toBeUndefined();
    }
  },
);

test('the explorer finds an order in which a party does not end, and plays this order again', async () => {
  const { failure } = await explore(STUCK, { faults: 1 });
  expect(failure?.problem).toMatch(/^B still waits/);
  expect(failure?.trace).toContainEqual(expect.stringMatching(/^messages are slower|is lost$|breaks$|^A is killed$/));
  expect(await replay(STUCK, failure?.trace ?? [])).toBe(failure?.problem);
});

test.each([
  ['lock beside tryLock', 0],
  ['a barrier', 0],
  ['a write with retryWrites', 1],
] as const)('the explorer leaves out no order that matters: %s with %i faults', async (name, faults) => {
  const scenario = SCENARIOS.find((each) => each.name === name) as Scenario;
  const all = await explore(scenario, { faults, isExhaustive: true });
  const found = await explore(scenario, { faults });
  expect(found.played).toBe(all.played);
  expect(found.pruned).toBeLessThan(all.pruned);
});

test('the explorer goes on where it stopped', async () => {
  const scenario = SCENARIOS.find(({ name }) => name === 'lock beside tryLock') as Scenario;
  const whole = await explore(scenario, { faults: 0 });
  let from: Checkpoint | undefined;
  const onHistory = (soFar: Checkpoint): void => {
    from = JSON.parse(JSON.stringify(soFar));
  };
  await explore(scenario, { faults: 0, maxHistories: 60, onHistory });
  const rest = await explore(scenario, { faults: 0, from });
  expect([rest.played, rest.isComplete]).toEqual([whole.played, true]);
});
