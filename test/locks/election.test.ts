import { expect, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { type Client, type Interceptor, type KeyValue, op, prefix } from '../../src/index.js';
import { Election, Mutex, Session } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { proxied } from '../support/locks.js';
import { ownEtcd } from '../support/own-etcd.js';
import { answerLost, puts, stagedTransport } from '../support/transactions.js';

async function election(etcd: Client, name: string): Promise<Election> {
  return new Election(await Session.open(etcd), name);
}

/** Observes the election and collects the values of the leaders in `told`, until `stop()` is called. */
function observed(of: Election): { readonly told: string[]; readonly stop: () => Promise<void> } {
  const told: string[] = [];
  const stop = new AbortController();
  const reading = (async () => {
    for await (const kv of of.observe({ signal: stop.signal })) told.push(kv.text());
  })().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    told,
    stop: async () => {
      stop.abort();
      await reading;
    },
  };
}

test('the first candidate becomes the leader, and its key holds the value that the leader proclaimed last (S17, S23)', async () => {
  const [etcd, name] = [openClient(), unique('election')];
  const [a, b] = [await election(etcd, name), await election(etcd, name)];
  expect(await a.leader()).toBeUndefined();
  const leadership = await a.campaign('a');
  const later = b.campaign('b');
  expect((await b.leader())?.text()).toBe('a');
  await leadership.proclaim('a, still');
  expect(await b.leader()).toMatchObject({ createRevision: leadership.token });
  expect((await b.leader())?.text()).toBe('a, still');
  await leadership.resign();
  const next = await later;
  expect((await a.leader())?.text()).toBe('b');
  expect(await errorOf(leadership.proclaim('too late'))).toMatchObject({ reason: 'LockReleased', outcome: 'rejected' });
  expect((await a.leader())?.text()).toBe('b');
  await next.resign();
  expect(await a.leader()).toBeUndefined();
});

test('a campaign replaces the value that an earlier campaign of the same session put', async () => {
  const [etcd, name] = [openClient(), unique('election')];
  const session = await Session.open(etcd);
  await etcd.put(`${name}/${session.leaseId.toString(16)}`, 'old', { lease: session.leaseId });
  const leadership = await new Election(session, name).campaign('new');
  expect((await etcd.get(leadership.key))?.text()).toBe('new');
});

test("candidates of one session wait for each other in the session's local queue (S22)", async () => {
  const [etcd, name] = [openClient(), unique('election')];
  const both = await election(etcd, name);
  const first = await both.campaign('1');
  expect(await errorOf(both.campaign('2', { maxWaitMs: 1_000 }))).toMatchObject({ reason: 'LockTaken' });
  expect((await both.leader())?.text()).toBe('1');
  await first.resign();
  expect((await both.campaign('3')).token).toBeGreaterThan(first.token);
});

test('an election observer receives every leader and every proclaimed value once and in order (S26)', async () => {
  const [etcd, name] = [openClient(), unique('election')];
  const candidates = await Promise.all(Array.from({ length: 5 }, () => election(etcd, name)));
  const { told, stop } = observed(await election(openClient(), name));
  const expected = ['first'];
  const first = await (candidates[0] as Election).campaign('first');
  await expect.poll(() => told).toEqual(expected);
  await first.resign();
  for (let round = 0; round < 4; round += 1) {
    for (const [index, candidate] of candidates.entries()) {
      const leadership = await candidate.campaign(`${round}.${index}`);
      await leadership.proclaim(`${round}.${index} again`);
      expected.push(`${round}.${index}`, `${round}.${index} again`);
      await leadership.resign();
    }
  }
  await expect.poll(() => told.length).toBe(expected.length);
  expect(told).toEqual(expected);
  await stop();
});

test('an election observer that starts while there is a leader receives that leader first', async () => {
  const [etcd, name] = [openClient(), unique('election')];
  const leadership = await (await election(etcd, name)).campaign('before');
  await leadership.proclaim('now');
  for await (const kv of (await election(etcd, name)).observe()) {
    expect(kv.text()).toBe('now');
    break;
  }
});

test('an election observer repeats no leader when the server compacts its history while the observer is disconnected (S26)', async () => {
  const { endpoints } = await ownEtcd();
  const { etcd, direct, proxy } = await proxied(endpoints);
  const name = unique('election');
  const candidate = await election(direct, name);
  const { told, stop } = observed(new Election(await Session.open(etcd, { ttl: 60 }), name));
  const first = await (await election(direct, name)).campaign('first');
  await expect.poll(() => told).toEqual(['first']);
  proxy.blackhole();
  await first.resign();
  await (await candidate.campaign('unseen')).resign();
  const last = await candidate.campaign('last');
  await direct.compact((await direct.put('other', 'x')).header.revision);
  proxy.heal();
  await expect.poll(() => told).toEqual(['first', 'last']);
  await last.proclaim('last again');
  await expect.poll(() => told).toEqual(['first', 'last', 'last again']);
  await stop();
});

test('an election observer yields no value when a waiting candidate withdraws or the server compacts its history (S26)', async () => {
  const { endpoints } = await ownEtcd();
  const { etcd, direct, proxy } = await proxied(endpoints);
  const name = unique('election');
  const leader = await (await election(direct, name)).campaign('leader');
  const { told, stop } = observed(new Election(await Session.open(etcd, { ttl: 60 }), name));
  await expect.poll(() => told).toEqual(['leader']);
  const behind = await election(direct, name);
  await errorOf(behind.campaign('behind', { maxWaitMs: 50 }));
  proxy.blackhole();
  await direct.compact((await direct.put('other', 'x')).header.revision);
  proxy.heal();
  proxy.dropConnections();
  await errorOf(behind.campaign('behind', { maxWaitMs: 50 }));
  await leader.proclaim('leader still');
  await expect.poll(() => told.at(-1)).toBe('leader still');
  expect(told).toEqual(['leader', 'leader still']);
  await stop();
});

test('an election observer neither loses nor repeats a leader when the observer reconnects (S26)', async () => {
  const { etcd, direct, proxy } = await proxied();
  const name = unique('election');
  const candidate = await election(direct, name);
  const { told, stop } = observed(new Election(await Session.open(etcd), name));
  const expected = ['first'];
  const first = await candidate.campaign('first');
  await expect.poll(() => told).toEqual(expected);
  await first.resign();
  for (let round = 0; round < 20; round += 1) {
    expected.push(String(round));
    await (await candidate.campaign(String(round))).resign();
    if (round % 4 === 0) proxy.dropConnections();
  }
  await expect.poll(() => told.length).toBe(21);
  expect(told).toEqual(expected);
  await stop();
});

test('a new session with the lease of an orphaned session resumes the leadership of the orphaned session', async () => {
  const [etcd, name] = [openClient(), unique('election')];
  const before = await Session.open(etcd, { ttl: 30 });
  const { token } = await new Election(before, name).campaign('me');
  await before.orphan();
  const after = await Session.open(etcd, { lease: before.leaseId });
  const resumed = await new Election(after, name).resume(token);
  expect(resumed.valid()).toBe(true);
  await resumed.proclaim('me again');
  expect((await new Election(after, name).leader())?.text()).toBe('me again');
  await resumed.resign();
  expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
});

test('a late copy of the put that has set the value of a campaign with an existing queue key changes nothing', async () => {
  const [direct, name] = [openClient(), unique('election')];
  const before = await Session.open(direct);
  await new Election(before, name).campaign('A');
  await before.orphan();
  let sendAgain: (() => Promise<unknown>) | undefined;
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      // The first transaction of the campaign reads the queue, and then puts the key if it does not exist.
      if (ops.length !== 1 || !puts(ops, `${name}/`) || sendAgain !== undefined) return send();
      sendAgain = send;
      await send();
      throw answerLost();
    },
  });
  const after = await Session.open(openClient({ transport }), { lease: before.leaseId });
  const leadership = await new Election(after, name).campaign('B');
  const read = async (): Promise<string | undefined> => (await direct.get(leadership.key))?.text();
  expect(await read()).toBe('B');
  const version = (await direct.get(leadership.key))?.version;
  // The attempt after the lost answer finds the value, and puts nothing.
  expect(version).toBe(2n);
  await leadership.proclaim('C');
  expect(await sendAgain?.()).toMatchObject({ succeeded: false });
  expect(await read()).toBe('C');
});

test('a proclamation is put once when its request arrives twice, also before its answer', async () => {
  const copying: Interceptor = {
    unary: async (call, next) => {
      if (call.method.path === methods.kv.txn.path && isCopied) await next(call);
      return next(call);
    },
  };
  let isCopied = false;
  const etcd = openClient({ interceptors: [copying] });
  const leadership = await (await election(etcd, unique('election'))).campaign('A');
  isCopied = true;
  await leadership.proclaim('B');
  isCopied = false;
  expect(await etcd.get(leadership.key)).toMatchObject({ version: 2n });
  // The leadership knows the revision of the copy, so its next transaction is the only one.
  await leadership.proclaim('C');
  expect(await etcd.get(leadership.key)).toMatchObject({ version: 3n });
  await leadership.resign();
});

test("a campaign sets its own value even if another client changes the campaign's queue key first", async () => {
  const [direct, name] = [openClient(), unique('election')];
  const before = await Session.open(direct);
  const { key } = await new Election(before, name).campaign('A');
  await before.orphan();
  let changes = 0;
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      if (ops[0]?.request?.case === 'requestPut' && puts(ops, key) && changes < 3)
        await direct.put(key, `change ${++changes}`, { lease: before.leaseId });
      return send();
    },
  });
  const after = await Session.open(openClient({ transport }), { lease: before.leaseId });
  const leadership = await new Election(after, name).campaign('B');
  expect((await direct.get(key))?.text()).toBe('B');
  await leadership.proclaim('C');
  expect((await direct.get(key))?.text()).toBe('C');
  expect(changes).toBe(3);
  // Delete the key and put it again while the campaign sets its value. The new key belongs to another contender.
  let isReplaced = false;
  const replacing = stagedTransport({
    onTransaction: async (ops, send) => {
      if (ops[0]?.request?.case === 'requestPut' && puts(ops, key) && !isReplaced) {
        isReplaced = true;
        await direct.delete(key);
        await direct.put(key, 'again', { lease: before.leaseId });
      }
      return send();
    },
  });
  await after.orphan();
  const last = await Session.open(openClient({ transport: replacing }), { lease: before.leaseId });
  expect(await errorOf(new Election(last, name).campaign('D'))).toMatchObject({ reason: 'LockLost' });
});

test('`Election.resume` rejects when the session does not hold the leadership with the given token', async () => {
  const [etcd, name] = [openClient(), unique('election')];
  const session = await Session.open(etcd);
  const own = new Election(session, name);
  expect(await errorOf(own.resume(5n))).toMatchObject({ reason: 'LockLost' });
  const leader = await (await election(etcd, name)).campaign('other');
  await etcd.put(`${name}/${session.leaseId.toString(16)}`, 'queued', { lease: session.leaseId });
  const queued = (await etcd.get(`${name}/${session.leaseId.toString(16)}`)) as KeyValue;
  expect(await errorOf(own.resume(queued.createRevision))).toMatchObject({ reason: 'LockLost' });
  await leader.resign();
  expect(await errorOf(own.resume(queued.createRevision + 1n))).toMatchObject({ reason: 'LockLost' });
  expect((await own.resume(queued.createRevision)).valid()).toBe(true);
});

test('a leader can write only while it leads, and a Mutex of the same name cannot be locked during the leadership', async () => {
  const [etcd, name, key] = [openClient(), unique('election'), unique()];
  const leadership = await (await election(etcd, name)).campaign('me');
  await leadership.txn({ then: [op.put(key, 'by the leader')] });
  expect(await new Mutex(await Session.open(etcd), name).tryLock()).toBeUndefined();
  await etcd.delete(leadership.key);
  expect(await errorOf(leadership.txn({ then: [op.put(key, 'stale')] }))).toMatchObject({ reason: 'LockLost' });
  expect((await etcd.get(key))?.text()).toBe('by the leader');
});
