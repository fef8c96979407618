import { describe, expect, test } from 'vitest';
import { type Client, type KeyValue, prefix } from '../../../src/index.js';
import { Session, type WaitOptions } from '../../../src/locks.js';
import { PriorityQueue, Queue } from '../../../src/recipes.js';
import { containing } from '../../../src/testing/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { eventsSent } from '../../support/metrics.js';
import { ownEtcd } from '../../support/own-etcd.js';

interface Consumer {
  readonly enqueue: (value: string) => Promise<string>;
  readonly dequeue: (options?: WaitOptions) => Promise<KeyValue>;
}

/** Returns the methods `enqueue` and `dequeue` of a queue. `dequeue` uses a session that this function opens. */
async function queue(etcd: Client, name: string): Promise<Consumer> {
  const [session, items] = [await Session.open(etcd), new Queue(etcd, name)];
  return { enqueue: (value) => items.enqueue(value), dequeue: (options) => items.dequeue(session, options) };
}

describe('Queue', () => {
  test('returns items in the order of their puts, and returns each item to only one consumer', async () => {
    const [etcd, name] = [openClient(), unique('queue')];
    const producer = await queue(etcd, name);
    const items = Array.from({ length: 40 }, (_, index) => String(index));
    const taken: string[] = [];
    const consuming = Array.from({ length: 4 }, async () => {
      const consumer = await queue(etcd, name);
      for (let count = 0; count < 10; count += 1) taken.push((await consumer.dequeue()).text());
    });
    for (const item of items) await producer.enqueue(item);
    await Promise.all(consuming);
    expect([...taken].sort()).toEqual([...items].sort());
    for (const item of ['a', 'b', 'c']) await producer.enqueue(item);
    const order = [];
    for (let count = 0; count < 3; count += 1) order.push((await producer.dequeue()).text());
    expect(order).toEqual(['a', 'b', 'c']);
  });

  test('returns items that a Go program put under NAME/, in the order of their mod revisions', async () => {
    const [etcd, name] = [openClient(), unique('queue')];
    await etcd.put(`${name}/1700000000000000002`, 'first');
    await etcd.put(`${name}/1700000000000000001`, 'second');
    const consumer = await queue(etcd, name);
    expect([(await consumer.dequeue()).text(), (await consumer.dequeue()).text()]).toEqual(['first', 'second']);
    expect(await consumer.enqueue('x')).toMatch(new RegExp(`^${name}/\\d{19}$`));
  });

  test('wakes only one of 20 consumers for each item, and deletes the queue key of a `dequeue` call that times out (S21)', async () => {
    const { endpoints } = await ownEtcd();
    const [etcd, name] = [openClient({ endpoints }), unique('queue')];
    const waiting = [];
    for (let index = 0; index < 20; index += 1) {
      waiting.push((await queue(etcd, name)).dequeue());
      await expect.poll(async () => (await etcd.range(prefix(`__${name}/consumers/`))).count).toBe(index + 1);
    }
    const before = await eventsSent(endpoints);
    const producer = await queue(etcd, name);
    for (let index = 0; index < 20; index += 1) {
      await producer.enqueue(String(index));
      expect((await waiting[index])?.text()).toBe(String(index));
    }
    // For each item, the server sends events for the item, for the next consumer and perhaps for the consumer's own
    // key. If each item woke all waiting consumers, the server would send the first item to 20 consumers, the second
    // item to 19, and so on: 210 events in total.
    expect((await eventsSent(endpoints)) - before).toBeLessThanOrEqual(20 * 4);
    expect(await errorOf(producer.dequeue({ maxWaitMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
    await expect.poll(async () => (await etcd.range(prefix(`__${name}/consumers/`))).count).toBe(0);
  });

  test('does not lose an item when the answer to the deletion of the item is lost', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('queue');
    await (await queue(direct, name)).enqueue('precious');
    const consumer = await queue(etcd, name);
    const lost = proxy.loseNextAnswer(containing(`__${name}/consumers/`, `${name}/1`));
    expect((await consumer.dequeue()).text()).toBe('precious');
    await lost;
    expect((await direct.range(prefix(`${name}/`))).count).toBe(0);
  });

  test('rejects a waiting `dequeue` call with outcome rejected when the queue key of the call is deleted or its session ends', async () => {
    const [etcd, name] = [openClient(), unique('queue')];
    const waiting = errorOf((await queue(etcd, name)).dequeue());
    await expect.poll(async () => (await etcd.range(prefix(`__${name}/consumers/`))).count).toBe(1);
    await etcd.delete(prefix(`__${name}/`));
    expect(await waiting).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
    const session = await Session.open(etcd);
    const ending = errorOf(new Queue(etcd, name).dequeue(session));
    await expect.poll(async () => (await etcd.range(prefix(`__${name}/consumers/`))).count).toBe(1);
    await session.close();
    expect((await ending).outcome).toBe('rejected');
  });

  test('delivers an item to the next waiting consumer when the session of the first consumer has ended', async () => {
    const [etcd, name] = [openClient(), unique('queue')];
    const dying = await Session.open(etcd);
    const dead = errorOf(new Queue(etcd, name).dequeue(dying));
    const next = (await queue(etcd, name)).dequeue();
    await expect.poll(async () => (await etcd.range(prefix(`__${name}/consumers/`))).count).toBe(2);
    await dying.close();
    await dead;
    await (await queue(etcd, name)).enqueue('x');
    expect((await next).text()).toBe('x');
  });
});

describe('PriorityQueue', () => {
  test('returns the item with the lowest number first, and items with equal priority in the order of their puts', async () => {
    const [etcd, name] = [openClient(), unique('queue')];
    const priorities = new PriorityQueue(etcd, name);
    for (const [value, priority] of [
      ['b1', 5],
      ['c', 65_535],
      ['b2', 5],
      ['a', 0],
      ['b3', 5],
    ] as const) {
      await priorities.enqueue(value, priority);
    }
    const order = [];
    const session = await Session.open(etcd);
    for (let count = 0; count < 5; count += 1) order.push((await priorities.dequeue(session)).text());
    expect(order).toEqual(['a', 'b1', 'b2', 'b3', 'c']);
  });

  test("numbers the items of one priority consecutively, as Go's priority queue does", async () => {
    const [etcd, name] = [openClient(), unique('queue')];
    const priorities = new PriorityQueue(etcd, name);
    const keys = await Promise.all(Array.from({ length: 20 }, (_, index) => priorities.enqueue(String(index), 1)));
    expect([...keys].sort()).toEqual(
      Array.from({ length: 20 }, (_, index) => `${name}/00001/${String(index).padStart(16, '0')}`),
    );
    expect(await etcd.get(`__${name}/00001`)).toBeDefined();
  });

  test('refuses an invalid priority', async () => {
    const priorities = new PriorityQueue(openClient(), unique('queue'));
    for (const priority of [-1, 65_536, 0.5, Number.NaN]) {
      expect(await errorOf(priorities.enqueue('x', priority))).toMatchObject({ reason: 'InvalidInput' });
    }
  });
});
