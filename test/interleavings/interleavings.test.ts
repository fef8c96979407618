import { expect, test } from 'vitest';
import { pick, randomNumbers } from '../load/rounds.js';
import type { Party, Scenario } from './arena.js';
import { Exploration, type SavedPlans } from './exploration.js';
import { type Choice, explore, type Failure, replay, sample, shrink } from './explorer.js';
import { SCENARIOS } from './scenarios.js';
import { areIndependent, SLOWER } from './world.js';

/** B waits for a value that A puts once, so B never ends if the network loses the request of A. */
const STUCK: Scenario = {
  name: 'a lost put',
  prepare: async (arena) => {
    const [a, b] = (await arena.open(['A', 'B'])) as [Party, Party];
    // Without sessions, time stands still when no message is on its way.
    await Promise.all([a.session.close(), b.session.close()]);
    return new Map([
      ['A', async () => void (await arena.unlessFailed(a.client.put('key', '')))],
      ['B', async () => void (await arena.unlessFailed(b.client.watch('key', { startRevision: 1n }).batches().next()))],
    ]);
  },
};

/** The number of histories that each test plays at least. `npm run test:interleavings` plays all of them. */
const HISTORIES = 200;
/** The number of random histories of each scenario in which two events change places. */
const SAMPLES = 20;

/** Plays histories of a scenario with at most a number of faults, until a rule breaks. */
async function play(
  name: string,
  faults: number,
  { least = Number.POSITIVE_INFINITY, saved = undefined as SavedPlans | undefined } = {},
): Promise<Exploration> {
  const scenario = SCENARIOS.find((each) => each.name === name) as Scenario;
  const work = new Exploration(faults, saved);
  for (let next = work.next(); next !== undefined; next = work.next()) {
    work.note(next.plan, await explore(scenario, next));
    if (work.failure !== undefined || work.played >= least) break;
  }
  return work;
}

test.each(SCENARIOS.map(({ name }) => name))('no order of events breaks a rule: %s', async (name) => {
  expect((await play(name, 1, { least: HISTORIES })).failure).toBeUndefined();
});

test('the explorer finds an order in which a party does not end, shrinks it, and plays it again', async () => {
  const plan = ['A: Put, the request is lost'];
  const { failure } = (await explore(STUCK, { plan, samples: 1 })) as { readonly failure: Failure };
  const shrunk = await shrink(STUCK, failure);
  for (const { trace } of [failure, shrunk]) {
    const labels: string[] = [];
    const again = await replay(STUCK, { plan, trace }, ({ label }) => labels.push(label));
    expect(again.problem).toMatch(/^B still waits/);
    expect(labels).toEqual(trace);
    expect(trace).toContain(plan[0]);
  }
  // The first order has its events at their first opportunity.
  expect((await explore(STUCK, { plan, maxHistories: 1 })).failure?.trace).toEqual(shrunk.trace);
});

test.each([
  ['lock beside tryLock', []],
  ['a barrier', []],
  ['two creations of a key', ['A: Txn, the request is sent twice']],
  ['two creations of a key', ['A is killed']],
  ['a write with retryWrites', ['A stands still']],
  ['a write with retryWrites', ['messages are slower than A: timer, 1250 ms']],
  ['a transaction with retryWrites beside a key that comes and goes', ['lease A ends']],
  ['a transaction with retryWrites beside a key that comes and goes', ['B is killed']],
])('the explorer leaves out no order that matters: %s, with the plan %j', async (name, plan) => {
  const scenario = SCENARIOS.find((each) => each.name === name) as Scenario;
  const all = await explore(scenario, { plan, isExhaustive: true });
  const found = await explore(scenario, { plan });
  expect(found.played).toBeGreaterThan(0);
  expect(found.played).toBe(all.played);
  expect(found.pruned).toBeLessThan(all.pruned);
});

/**
 * Whether the explorer plays the two events, which follow each other in a history, in one order only, and the effect is
 * exactly the same. It is not the same if both events read or change keys of different folders, because of the revisions
 * in the headers, and if time passes for one party only.
 */
function mayChangePlaces(first: Choice, second: Choice): boolean {
  const both = [first, second];
  if (!first.labels.includes(second.chosen) || !areIndependent(first.touched, second.touched)) return false;
  if (both.some(({ chosen }) => chosen.startsWith(SLOWER))) return false;
  return !both.every(({ touched }) => Object.keys(touched).some((what) => what.startsWith('keys near')));
}

/** What can happen before each event, and what the event touches. */
function effectsOf(choices: readonly Choice[]): unknown {
  return choices.map(({ labels, touched }) => [labels.toSorted(), Object.entries(touched).toSorted()]);
}

test.each(SCENARIOS.map((scenario, index) => [scenario.name, index] as const))(
  'two events that the explorer plays in one order only have the same effect in the other: %s',
  async (_, index) => {
    const scenario = SCENARIOS[index] as Scenario;
    const random = randomNumbers(index);
    const { possible } = await explore(scenario, { plan: [], maxHistories: 1 });
    for (let count = 0; count < SAMPLES; count += 1) {
      const plan = pick([[], ...possible.map(({ label }) => [label])], random);
      const { trace } = await sample(scenario, plan, random).play();
      const { choices } = await replay(scenario, { plan, trace });
      const pairs = [...choices.keys()].filter(
        (at) => at > 0 && mayChangePlaces(choices[at - 1] as Choice, choices[at] as Choice),
      );
      if (pairs.length === 0) continue;
      const at = pick(pairs, random);
      const swapped = trace.with(at - 1, trace[at] as string).with(at, trace[at - 1] as string);
      const { problem, choices: others } = await replay(scenario, { plan, trace: swapped });
      expect(problem).toBeUndefined();
      expect(effectsOf(others.slice(at + 1)), `${plan}: ${trace[at - 1]} and ${trace[at]}`).toEqual(
        effectsOf(choices.slice(at + 1)),
      );
    }
  },
);

test('the explorer plays one of two plans that differ only in the names of parties that do the same', async () => {
  const plansOf = async (name: string): Promise<readonly string[]> => {
    const work = await play(name, 1, { least: 1 });
    return work.save().map(({ plan }) => `${plan}`);
  };
  const [same, different] = [await plansOf('two contenders of a mutex'), await plansOf('lock beside tryLock')];
  const mirrored = same.map((plan) => plan.replace(/\b[AB]\b/g, (name) => (name === 'A' ? 'B' : 'A')));
  expect(same.filter((plan) => /\b[AB]\b/.test(plan) && mirrored.includes(plan))).toEqual([]);
  expect(different).toEqual(expect.arrayContaining(['lease A ends', 'lease B ends']));
});

test('the explorer goes on where it stopped', async () => {
  const whole = await play('a job that a worker waits for', 0);
  const part = await play('a job that a worker waits for', 0, { least: 1 });
  expect(part.isComplete).toBe(false);
  const rest = await play('a job that a worker waits for', 0, { saved: JSON.parse(JSON.stringify(part.save())) });
  expect([rest.played, rest.isComplete]).toEqual([whole.played, true]);
});
