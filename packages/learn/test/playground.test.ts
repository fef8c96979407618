import { describe, expect, onTestFinished, test } from 'vitest';
import { Random } from '../../../test/simulation/random.js';
import { CLIENT_ACTIONS, MEMBER_ACTIONS } from '../src/playground/actions.js';
import { addressOf, fragmentOf } from '../src/playground/address.js';
import { meaningHtml, spokenOf } from '../src/playground/caption.js';
import { cardsHtml } from '../src/playground/client-cards.js';
import type { PlayClient } from '../src/playground/play-client.js';
import { MAX_STEPS, Playground, type Step } from '../src/playground/playground.js';
import { changeOf, revisionsOf, storeHtml } from '../src/playground/store-panel.js';
import type { Story } from '../src/playground/stories/stage.js';
import { STORIES } from '../src/playground/stories.js';
import { Visit } from '../src/playground/visit.js';

function newPlayground(seed?: number): Playground {
  const playground = new Playground(setImmediate, 1, seed);
  onTestFinished(() => playground.close());
  return playground;
}

/** Returns the state that an address leads to. */
async function visited(fragment: string): Promise<Visit> {
  const address = addressOf(fragment);
  if (address === undefined) throw new Error(`${fragment} is not an address`);
  const visit = await Visit.at(address, setImmediate);
  onTestFinished(() => visit.close());
  return visit;
}

/** Returns what a visitor sees of a state: the messages, the store, the logs and the members. */
function seen({ playground }: Visit): unknown {
  const { steps, clients, server } = playground;
  return {
    nowMs: playground.nowMs,
    steps: steps.map(({ atMs, from, to, label }) => `${atMs} ${from} ${to} ${label}`),
    stores: server.members.map((_, index) => storeHtml(playground, index, undefined)),
    logs: clients.map(({ app }) => app.log),
    members: server.members.map(({ raft }) => raft),
  };
}

/** Returns an action several times, so that a random choice picks it more often. */
function repeated(times: number, press: (client: PlayClient) => void): readonly ((client: PlayClient) => void)[] {
  return Array.from({ length: times }, () => press);
}

/** Plays a story to its end. */
async function played(id: string): Promise<Visit> {
  const story = STORIES.find((each) => each.id === id) as Story;
  return visited(`#story/${id}/${story.scenes.length}`);
}

describe.each(STORIES.map((story) => [story.title, story] as const))('the story "%s"', (_, { id, scenes }) => {
  test('matches what the real client does, and ends without an unhandled error', async () => {
    const { player, playground } = await played(id);
    expect(player?.failure).toBeUndefined();
    expect(player?.told.length).toBe(scenes.length);
    expect(playground.world.unhandled).toEqual([]);
  });

  test('shows the step that each scene names', async () => {
    for (const [index, { shows }] of scenes.entries()) {
      const { presentStep } = await visited(`#story/${id}/${index + 1}`);
      expect(presentStep?.label, `scene ${index + 1}`).toMatch(new RegExp(`^${shows ?? ''}`));
    }
  });
});

test('a watch that connects again after many attempts checks the cluster at most three times', async () => {
  const { playground } = await played('resumed-watch');
  const checks = playground.steps.filter(({ client, label }) => client === 'B' && label === 'count ledger');
  // One check has waited for the connection, and one or two checks begin when a stream opens.
  expect(checks.length).toBeGreaterThan(0);
  expect(checks.length).toBeLessThanOrEqual(3);
});

test('the trace of the playground names the other contenders, also after they have left the queue', async () => {
  const { playground } = await played('fair');
  const labels = playground.steps.filter(({ client }) => client === 'B').map(({ label }) => label);
  expect(labels).toContain('applied: A is ahead');
  expect(labels).toContain('the queue key of A was deleted');
});

test('the caption names the client of a step at one place once', async () => {
  const { playground } = await played('fair');
  const held = playground.steps.find(({ kind }) => kind === 'held') as Step;
  expect(meaningHtml(held).replace(/<[^>]*>/g, '')).toMatch(/^ A HOLDS THE LOCK, token 2 /);
  expect(spokenOf(held)).toBe('A HOLDS THE LOCK, token 2.');
});

test('the trace of the playground shows an expired lease with its client, and without the guards', async () => {
  const { playground } = await played('dies');
  const [label] = playground.steps.flatMap(({ label }) => (label.includes('expired') ? [label] : []));
  expect(label).toMatch(/^the lease of A has expired; etcd deletes jobs\/…\w{4}$/);
});

test('the trace of the playground hides refused renewals with the other renewals', async () => {
  const { playground } = await visited('#story/minority/4');
  const refused = playground.steps.filter(({ label }) => label === 'refused: etcdserver: no leader');
  expect(refused.length).toBeGreaterThan(0);
  expect(new Set(refused.map(({ kind }) => kind))).toEqual(new Set(['renewal']));
  expect(playground.steps.filter(({ label }) => label.includes('NO_ERROR'))).not.toContainEqual(
    expect.objectContaining({ kind: 'failure' }),
  );
});

test('the trace of the playground shows how a put passes through the members, and no entry from before the put', async () => {
  const { playground } = await played('put');
  const between = playground.steps.filter(({ kind }) => kind === 'raft');
  expect(between.map(({ from, to, label }) => `${from} ${to} ${label}`).toSorted()).toEqual([
    ...['m0 m1 append entry 2', 'm0 m1 entry 2 is committed', 'm0 m2 append entry 2', 'm0 m2 entry 2 is committed'],
    ...['m1 m0 I have entry 2', 'm1 m0 a write for the leader', 'm2 m0 I have entry 2'],
  ]);
});

/** The status of each client. */
function statuses({ playground }: Visit): readonly string[] {
  return [...cardsHtml(playground, undefined).matchAll(/id="status-\w">([^<]*)</g)].map(
    ([, status]) => status as string,
  );
}

test.each<readonly [string, readonly string[]]>([
  ['#story/fair/2', ['holds the lock, token 2', 'waits, 1 ahead', 'idle']],
  ['#story/dies/2', ['killed', 'waits, 1 ahead', 'idle']],
  ['#story/stale/2', ['believes that it holds the lock, token 2, paused', 'holds the lock, token 4', 'idle']],
  ['#story/stale/5', ['lost the lock, old token 2', 'holds the lock, token 4', 'idle']],
  ['#story/put/1', ['idle', 'writing …', 'idle']],
])('the cards of the clients at %s say %j', async (fragment, expected) => {
  expect(statuses(await visited(fragment))).toEqual(expected);
});

test.each([
  ['#story/cut-off/2', 'm0'],
  ['#story/cut-off/3', 'm2'],
  ['#story/put/1', 'm1'],
  ['#story/minority/4', 'm2'],
])('the member that a client has called last at %s is %s', async (fragment, expected) => {
  expect((await visited(fragment)).playground.calledMember.name).toBe(expected);
});

test('the leader counts as the called member when the member that a client has called last does not run', async () => {
  const { playground } = await visited('#story/leader-dies/3');
  expect(playground.calledMember).toBe(playground.server.leader);
  expect(playground.calledMember.name).not.toBe('m0');
});

describe('an address of the playground', () => {
  test.each([
    '#story/fair/3',
    '#story/fair/3/try',
    '#story/minority/2/try/m0.cut@900,B.lock@1000,@9000',
    '#try/1',
    '#try/1/A.lock@0,B.lock@600,etcd.compact@700,@2000',
    '#try/3/m0.kill@0,C.read-local@20,@4000',
  ])('%s leads to the same state each time, and is the address of this state', async (fragment) => {
    const first = await visited(fragment);
    expect(first.fragment).toBe(fragment);
    const before = seen(first);
    first.close();
    expect(seen(await visited(fragment))).toEqual(before);
  });

  test.each([
    '',
    '#',
    '#story/unknown/1',
    '#story/fair/7',
    '#story/fair/-1',
    '#story/fair/1/other',
    '#try/2',
    '#try/1/A.lock@15',
    '#try/1/A.lock@100,B.lock@50',
    '#try/1/A.lock@600010',
  ])('%j is refused', (fragment) => {
    expect(addressOf(fragment)).toBeUndefined();
  });

  test('with more than 200 actions is refused', () => {
    const fragmentWith = (length: number): string => `#try/1/${Array.from({ length }, () => 'A.lock@0').join()}`;
    expect(addressOf(fragmentWith(200))?.actions).toHaveLength(200);
    expect(addressOf(fragmentWith(201))).toBeUndefined();
  });

  test('leaves out an action that does not exist', async () => {
    const visit = await visited('#try/1/A.lock@0,m0.kill@10,D.lock@20,A.fly@30,@500');
    expect(visit.fragment).toBe('#try/1/A.lock@0,@500');
  });

  test('is the same whether the visitor lets time pass in small or in large steps', async () => {
    const visit = await visited('#try/1');
    visit.act('A.lock');
    for (let slice = 0; slice < 60; slice += 1) await visit.advance(10);
    visit.act('B.lock');
    for (let slice = 0; slice < 140; slice += 1) await visit.advance(10);
    expect(visit.fragment).toBe('#try/1/A.lock@0,B.lock@600,@2000');
    const small = seen(visit);
    visit.close();
    expect(seen(await visited(fragmentOf(visit.address)))).toEqual(small);
  });
});

describe('the store of the playground', () => {
  test('has each of its revisions', async () => {
    const { playground } = await played('fair');
    expect(revisionsOf(playground, 0)).toEqual({ first: 1, last: 6 });
    const queues = [1, 2, 3, 4, 5, 6].map((revision) => {
      const rows = storeHtml(playground, 0, revision).matchAll(
        /title="jobs\/[^"]*">[^<]*(?:<small>[^<]*<\/small>)?<\/td><td>([ABC])<\/td>/g,
      );
      return [...rows].map(([, name]) => name).join('');
    });
    expect(queues).toEqual(['', 'A', 'AB', 'ABC', 'BC', 'C']);
    expect(changeOf(playground, 0, 5)).toMatch(/^Revision 5, at 1\.\d\d s: deleted jobs\//);
  });

  test('has no revision before a compaction', async () => {
    const { playground } = await visited('#story/compaction/2');
    expect(revisionsOf(playground, 0)).toEqual({ first: 5, last: 5 });
    expect(changeOf(playground, 0, undefined)).toContain('etcd has forgotten all revisions before 5');
  });

  test('of a member that is cut off is older than that of the others', async () => {
    const { playground } = await visited('#story/cut-off/4');
    expect([0, 1, 2].map((member) => revisionsOf(playground, member).last)).toEqual([3, 3, 2]);
    expect(storeHtml(playground, 0, undefined)).toContain('<td>A 2</td>');
    expect(storeHtml(playground, 2, undefined)).toContain('<td>A 1</td>');
  });
});

test('the queue of the playground has at most one holder and growing tokens, whatever the visitor presses', async () => {
  let locks = 0;
  for (let seed = 1; seed <= 40; seed += 1) {
    const random = new Random(seed);
    const playground = newPlayground(seed);
    const heal = (client: PlayClient): void => {
      client.restart();
      client.resume();
      client.mendWire();
    };
    const press: readonly ((client: PlayClient) => void)[] = [
      ...repeated(6, ({ app }) => app.lock()),
      ...repeated(4, ({ app }) => app.unlock()),
      ...repeated(4, heal),
      ({ app }) => app.write(),
      ({ app }) => app.watch(),
      (client) => client.kill(),
      (client) => client.pause(),
      (client) => client.block(8_000),
      (client) => client.cutWire(),
      (client) => client.toggleLostAnswer(),
      () => playground.compact(),
    ];
    for (let action = 0; action < 60; action += 1) {
      random.pick(press)(random.pick(playground.clients));
      await playground.advance(random.pick([1, 30, 400, 3_000]));
      // A client that is neither stalled nor killed learns in time that it may have lost the lock.
      const holders = playground.clients.filter(
        (client) => client.app.token !== undefined && !client.isStalled && !client.isKilled,
      );
      expect(holders.length, `holders with seed ${seed}`).toBeLessThanOrEqual(1);
    }
    expect(playground.world.unhandled, `unhandled errors with seed ${seed}`).toEqual([]);
    const tokens = playground.steps
      .filter(({ kind }) => kind === 'held')
      .map(({ label }) => Number(label.match(/\d+$/)?.[0]));
    expect(tokens, `tokens with seed ${seed}`).toEqual(tokens.toSorted((a, b) => a - b));
    locks += tokens.length;
  }
  expect(locks).toBeGreaterThan(100);
});

test('three members grant the lock to at most one client, whatever the visitor presses', async () => {
  const names = [
    ...['A', 'B', 'C'].flatMap((client) => CLIENT_ACTIONS.flatMap(({ id }) => [`${client}.${id}`, `${client}.lock`])),
    ...['m0', 'm1', 'm2'].flatMap((member) => MEMBER_ACTIONS.map(({ id }) => `${member}.${id}`)),
  ];
  let locks = 0;
  for (let seed = 1; seed <= 20; seed += 1) {
    const random = new Random(seed);
    const visit = await visited('#try/3');
    const { playground } = visit;
    for (let action = 0; action < 60; action += 1) {
      visit.act(random.pick(names));
      await visit.advance(random.pick([10, 30, 400, 3_000]));
      const holders = playground.clients.filter(
        (client) => client.app.token !== undefined && !client.isStalled && !client.isKilled,
      );
      expect(holders.length, visit.fragment).toBeLessThanOrEqual(1);
    }
    expect(playground.world.unhandled, visit.fragment).toEqual([]);
    locks += playground.steps.filter(({ kind }) => kind === 'held').length;
    visit.close();
  }
  expect(locks).toBeGreaterThan(20);
});

describe('a client of the playground', () => {
  /** Lets time pass until something is true. */
  async function until(playground: Playground, isTrue: () => boolean): Promise<void> {
    for (let times = 0; !isTrue(); times += 1) {
      expect(times).toBeLessThan(1_000);
      await playground.advance(20);
    }
  }

  test('sends nothing while it is paused, however far time moves', async () => {
    const playground = newPlayground();
    const [a, b] = playground.clients as [PlayClient, PlayClient];
    a.app.lock();
    await until(playground, () => a.app.token !== undefined);
    b.app.lock();
    await until(playground, () => playground.queue.length === 2);
    a.pause();
    const last = playground.steps.at(-1)?.id ?? 0;
    await playground.advance(20_000);
    const sent = playground.steps.filter(
      ({ id, client, from, to }) => id > last && client === 'A' && from === 'A' && to !== 'A',
    );
    expect(sent).toEqual([]);
    expect(b.app.token).toBe(3n);
    a.resume();
    await until(playground, () => a.app.token === undefined);
    expect(a.app.oldToken).toBe(2n);
  });

  test('stays blocked for the whole time, even if it is paused and continues in between', async () => {
    const playground = newPlayground();
    const [a] = playground.clients as [PlayClient];
    a.block(8_000);
    await playground.advance(1_000);
    a.pause();
    await playground.advance(1_000);
    a.resume();
    await playground.advance(1_000);
    expect(a.isStalled).toBe(true);
    await playground.advance(5_001);
    expect(a.isStalled).toBe(false);
  });

  test('loses only the answer of a write that etcd applied', async () => {
    const playground = newPlayground();
    const [a, b] = playground.clients as [PlayClient, PlayClient];
    a.app.lock();
    await until(playground, () => a.app.token !== undefined);
    playground.server.expireLease(BigInt(`0x${a.app.queueKey?.split('/')[1]}`));
    await until(playground, () => a.app.oldToken !== undefined);
    a.toggleLostAnswer();
    a.app.write();
    await until(playground, () => a.app.lastWrite === 'refused');
    expect([a.losesAnswer, playground.ledger]).toEqual([true, undefined]);
    b.toggleLostAnswer();
    b.app.write();
    await until(playground, () => b.app.lastWrite === 'unknown');
    expect([b.losesAnswer, playground.ledger]).toEqual([false, { value: 'B 1', version: 1n }]);
  });

  test('shows that it has left the queue, and can take the lock again', async () => {
    const playground = newPlayground();
    const [a, b] = playground.clients as [PlayClient, PlayClient];
    a.app.lock();
    await until(playground, () => a.app.token !== undefined);
    b.app.lock();
    await until(playground, () => playground.queue.length === 2);
    b.app.unlock();
    await until(playground, () => !b.app.isWaiting);
    expect(b.app.log.at(-1)).toMatchObject({ text: 'left the queue', kind: 'info' });
    b.app.lock();
    a.app.unlock();
    await until(playground, () => b.app.token !== undefined);
  });
});

test('the trace of the playground keeps its messages while renewals go on for an hour', async () => {
  const playground = newPlayground();
  const [a] = playground.clients as [PlayClient];
  a.app.lock();
  await playground.advance(3_600_000);
  expect(playground.steps[0]).toMatchObject({ label: 'grant a lease of 5 s' });
  expect(playground.steps.length).toBeLessThanOrEqual(2 * MAX_STEPS);
});
