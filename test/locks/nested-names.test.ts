import { expect, test } from 'vitest';
import type { Client } from '../../src/index.js';
import { Mutex, Semaphore, Session, type WaitOptions } from '../../src/locks.js';
import { DoubleBarrier, PriorityQueue, Queue, WorkQueue } from '../../src/recipes.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

/** The classes that read all keys of some folders below their name, with the names of these folders. */
const LISTING: Readonly<
  Record<string, readonly [folders: readonly string[], open: (name: string) => Promise<object>]>
> = {
  WorkQueue: [['todo', 'held', 'dead'], async (name) => new WorkQueue(openClient(), name)],
  Semaphore: [['gate', 'permits'], async (name) => new Semaphore(await Session.open(openClient()), name, 1)],
  DoubleBarrier: [['waiters'], async (name) => new DoubleBarrier(await Session.open(openClient()), name, 1)],
};

test.for(Object.entries(LISTING))(
  '%s refuses a name with a part that is one of its folders',
  async ([, [folders, open]]) => {
    for (const folder of folders) {
      for (const name of [`mail/${folder}`, `mail/${folder}/ready`, `a/b/${folder}/c/d`, folder, `${folder}/mail`]) {
        const error = await errorOf(() => open(name));
        expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
        expect(error.message).toContain(`"${folder}"`);
      }
      for (const name of [
        `mail/${folder}s`,
        `mail/my-${folder}`,
        `${folder.toUpperCase()}/x`,
        'mail/jobs',
        'mail/done',
      ])
        await open(name);
    }
  },
);

test('a contender for a lock waits for an ordinary key under the name of the lock until the key is deleted (S38)', async () => {
  const [etcd, name] = [openClient(), unique('nested')];
  await using session = await Session.open(etcd);
  const mutex = new Mutex(session, name);
  await etcd.put(`${name}/last`, 'today');
  expect(await errorOf(mutex.lock({ maxWaitMs: 100 }))).toMatchObject({ reason: 'LockTaken' });
  const locking = mutex.lock();
  await etcd.delete(`${name}/last`);
  await (await locking).release();
});

test('a work queue neither counts nor takes the jobs of a queue whose name begins with its own name and "/"', async () => {
  const [etcd, name] = [openClient(), unique('nested')];
  await using session = await Session.open(etcd);
  const outer = new WorkQueue(etcd, name);
  for (const part of ['jobs', 'done', 'mail']) {
    const inner = new WorkQueue(etcd, `${name}/${part}`);
    await inner.enqueue('inner', { id: 'same' });
    await outer.enqueue('outer', { id: `${part}-outer` });
    await (await inner.take(session)).bury('inner');
    expect(await outer.counts()).toEqual({ ready: 1, delayed: 0, running: 0, dead: 0 });
    const job = await outer.take(session);
    expect(job.text()).toBe('outer');
    await job.complete();
    expect(await inner.counts()).toEqual({ ready: 0, delayed: 0, running: 0, dead: 1 });
    expect((await inner.dead()).map(({ id }) => id)).toEqual(['same']);
  }
});

const QUEUES = {
  Queue: (etcd: Client, name: string) => new Queue(etcd, name),
  PriorityQueue: (etcd: Client, name: string) => {
    const queue = new PriorityQueue(etcd, name);
    return {
      enqueue: (value: string) => queue.enqueue(value, 1),
      dequeue: (session: Session, options?: WaitOptions) => queue.dequeue(session, options),
    };
  },
};

test.for(Object.entries(QUEUES))(
  'a consumer of a %s takes no item of a queue whose name begins with its own name and "/"',
  async ([, open]) => {
    const [etcd, name] = [openClient(), unique('nested')];
    await using session = await Session.open(etcd);
    const [outer, inner] = [open(etcd, name), open(etcd, `${name}/jobs`)];
    await inner.enqueue('first');
    expect((await inner.dequeue(session)).text()).toBe('first');
    await inner.enqueue('second');
    expect(await errorOf(outer.dequeue(session, { maxWaitMs: 100 }))).toMatchObject({ reason: 'DeadlineExceeded' });
    await outer.enqueue('outer');
    expect((await outer.dequeue(session)).text()).toBe('outer');
    expect((await inner.dequeue(session)).text()).toBe('second');
  },
);
