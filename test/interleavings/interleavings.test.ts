import { expect, test } from 'vitest';
import { type Party, type Scenario, unlessFailed } from './arena.js';
import { explore, replay } from './explorer.js';
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
      ['B', async () => void (await b.client.watch('key', { startRevision: 1n }).batches().next())],
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
  expect(failure?.trace).toContain('A: Put, the request is lost');
  expect(await replay(STUCK, failure?.trace ?? [])).toBe(failure?.problem);
});
