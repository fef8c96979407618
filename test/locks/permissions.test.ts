import { expect, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { EtcdError, type Interceptor, prefix } from '../../src/index.js';
import { Election, Mutex, RWMutex, Semaphore, Session } from '../../src/locks.js';
import { Barrier, DoubleBarrier, PriorityQueue, Queue } from '../../src/recipes.js';
import { authEtcd, USER } from '../support/auth-etcd.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

// Locks, elections, queues and barriers store their keys under the folder of their name, such as "app/", and their
// guard keys under "etcdwire/guards/". A user with permission for both prefixes can use all of them, except a
// PriorityQueue.

test('a user with readwrite permission on "app/" and "etcdwire/guards/" can use every lock, election, queue and barrier with a name in "app/", except a PriorityQueue', async () => {
  const { endpoints, root } = await authEtcd();
  await root.auth.roleRevokePermission('app', prefix('etcdwire/guards/'));
  const etcd = openClient({ endpoints, auth: USER });
  const [session, other] = [await Session.open(etcd), await Session.open(etcd)];
  const refused = { reason: 'PermissionDenied', problem: expect.stringContaining('on the prefix "etcdwire/guards/"') };
  expect(await errorOf(new Mutex(session, 'app/lock').lock())).toMatchObject(refused);
  expect(await errorOf(new Queue(etcd, 'app/queue').enqueue('item'))).toMatchObject(refused);
  await root.auth.roleGrantPermission('app', 'readwrite', prefix('etcdwire/guards/'));

  await (await new Mutex(session, 'app/lock').lock()).release();
  await (await new RWMutex(session, 'app/rw').readLock()).release();
  await (await new Election(session, 'app/election').campaign('me')).resign();
  await (await new Semaphore(session, 'app/semaphore', 2).acquire()).release();

  const queue = new Queue(etcd, 'app/queue');
  await queue.enqueue('item');
  expect((await queue.dequeue(session)).text()).toBe('item');

  const barrier = new Barrier(etcd, 'app/barrier');
  expect([await barrier.hold(), await barrier.release()]).toEqual([true, true]);

  const both = [session, other].map((each) => new DoubleBarrier(each, 'app/double', 2));
  await Promise.all(both.map((each) => each.enter()));
  await Promise.all(both.map((each) => each.leave()));

  // In Go's key layout, one key of a priority queue is outside the folder "app/". The error message describes this key.
  const priorities = new PriorityQueue(etcd, 'app/priorities');
  expect(await errorOf(priorities.enqueue('item', 1))).toMatchObject({
    reason: 'PermissionDenied',
    outcome: 'rejected',
    problem: expect.stringContaining('"__app/jobs/"'),
  });
  await root.auth.roleGrantPermission('app', 'readwrite', prefix('__app/'));
  await priorities.enqueue('item', 1);
  expect((await priorities.dequeue(session)).text()).toBe('item');

  // The name "jobs" has no folder, so the queue's internal keys under "__jobs/" need a permission of their own.
  await root.auth.roleGrantPermission('app', 'readwrite', prefix('jobs'));
  const outside = new Queue(etcd, 'jobs');
  await outside.enqueue('item');
  const error = await errorOf(outside.dequeue(session));
  expect(error).toMatchObject({ reason: 'PermissionDenied' });
  expect(error.problem).toContain('a queue also uses keys under its name with "__" before the last part');
  await root.auth.roleGrantPermission('app', 'readwrite', prefix('__jobs/'));
  expect((await outside.dequeue(session)).text()).toBe('item');
});

test('each `lock` call rejects with PermissionDenied if the server refuses every call', async () => {
  const refusing: Interceptor = {
    unary: (call, next) =>
      call.method.path === methods.kv.txn.path || call.method.path === methods.kv.range.path
        ? Promise.reject(
            new EtcdError('denied', { code: 'PermissionDenied', reason: 'PermissionDenied', outcome: 'rejected' }),
          )
        : next(call),
  };
  const mutex = new Mutex(await Session.open(openClient({ interceptors: [refusing] })), unique('lock'));
  for (let call = 0; call < 3; call += 1)
    expect(await errorOf(mutex.lock({ maxWaitMs: 5_000 }))).toMatchObject({ reason: 'PermissionDenied' });
  expect(await errorOf(mutex.tryLock())).toMatchObject({ reason: 'PermissionDenied' });
});
