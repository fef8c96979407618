import { beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { type Client, prefix } from '../../src/index.js';
import { Election, type Held, Mutex, RWMutex, Session } from '../../src/locks.js';
import { Barrier, DoubleBarrier, PriorityQueue, Queue, Service } from '../../src/recipes.js';
import { type Child, startChild } from '../support/child.js';
import { openClient, unique } from '../support/client.js';
import { goProgram } from '../support/go-program.js';
import { queueLength } from '../support/locks.js';

// In these tests, this client shares locks, queues and other primitives with a Go program. The program, go/main.go,
// uses Go's clientv3, its concurrency package and its recipes.

let program: Awaited<ReturnType<typeof goProgram>>;

// The time limit is long, because the first run builds the Go program with all its dependencies.
beforeAll(async () => {
  program = await goProgram();
}, 600_000);

beforeEach((context) => {
  if ('missing' in program) context.skip(program.missing);
});

function go(primitive: string, name: string): Child {
  if ('missing' in program) throw new Error(program.missing);
  return startChild(program.path, [inject('endpoints')[0] as string, primitive, name], { stdin: 'pipe' });
}

/** Tells the Go program to go on: to release its lock or its leadership, or to leave its barrier. */
function cue(child: Child): void {
  child.process.stdin?.write('\n');
}

test.for([
  ['mutex', (session: Session, name: string): Promise<Held> => new Mutex(session, name).lock()],
  ['election', (session: Session, name: string): Promise<Held> => new Election(session, name).campaign('ours')],
  ['write', (session: Session, name: string): Promise<Held> => new RWMutex(session, name).lock()],
] as const)(
  'the Go program in mode "%s" waits while this client is the holder, and this client waits while the Go program is the holder',
  async ([primitive, take]) => {
    const [etcd, name] = [openClient(), unique('go')];
    const session = await Session.open(etcd);
    const ours = await take(session, name);
    const theirs = go(primitive, name);
    await queueLength(etcd, name, 2);
    await ours.release();
    expect(await theirs.line()).toBe('in');
    const waiting = take(session, name);
    await queueLength(etcd, name, 2);
    cue(theirs);
    expect((await waiting).token).toBeGreaterThan(ours.token);
  },
);

test('RWMutex: both clients hold a read lock at the same time, and `tryLock` fails until both clients have released', async () => {
  const [etcd, name] = [openClient(), unique('go')];
  const mutex = new RWMutex(await Session.open(etcd), name);
  const ours = await mutex.readLock();
  const theirs = go('read', name);
  expect(await theirs.line()).toBe('in');
  expect(await mutex.tryLock()).toBeUndefined();
  await ours.release();
  expect(await mutex.tryLock()).toBeUndefined();
  cue(theirs);
  expect(await theirs.line()).toBe('out');
  expect((await mutex.tryLock())?.valid()).toBe(true);
});

test('Election: this client sees that the Go client is the leader', async () => {
  const [etcd, name] = [openClient(), unique('go')];
  const theirs = go('election', name);
  expect(await theirs.line()).toBe('in');
  const election = new Election(await Session.open(etcd), name);
  expect((await election.leader())?.text()).toBe('go');
});

test('Barrier: each client waits until the other client releases the barrier', async () => {
  const [etcd, name] = [openClient(), unique('go')];
  const barrier = new Barrier(etcd, name);
  const theirs = go('barrier', name);
  expect(await theirs.line()).toBe('in');
  const waiting = barrier.wait();
  cue(theirs);
  await waiting;
  expect(await theirs.line()).toBe('out');
  await barrier.hold();
  const waiter = go('wait', name).line();
  await barrier.release();
  expect(await waiter).toBe('out');
});

test('DoubleBarrier: two Go clients and this client enter and leave together three times', async () => {
  const [etcd, name] = [openClient(), unique('go')];
  const barrier = new DoubleBarrier(await Session.open(etcd), name, 3);
  for (let round = 0; round < 3; round += 1) {
    const theirs = [go('double-barrier', name), go('double-barrier', name)];
    await waiters(etcd, name, 2);
    await barrier.enter();
    expect(await Promise.all(theirs.map((child) => child.line()))).toEqual(['in', 'in']);
    const leaving = barrier.leave();
    await waiters(etcd, name, 2);
    for (const child of theirs) cue(child);
    await leaving;
    expect(await Promise.all(theirs.map((child) => child.line()))).toEqual(['out', 'out']);
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
  }
});

test('Queue: each client dequeues the items that the other client enqueued', async () => {
  const [etcd, name] = [openClient(), unique('go')];
  const [session, queue] = [await Session.open(etcd), new Queue(etcd, name)];
  expect(await go('enqueue', name).line()).toBe('out');
  expect((await queue.dequeue(session)).text()).toBe('from Go');
  await queue.enqueue('from here');
  expect(await go('dequeue', name).line()).toBe('from here');
});

test('PriorityQueue: both clients dequeue items in the order of their priorities', async () => {
  const [etcd, name] = [openClient(), unique('go')];
  const [session, queue] = [await Session.open(etcd), new PriorityQueue(etcd, name)];
  expect(await go('enqueue-by-priority', name).line()).toBe('out');
  await queue.enqueue('ours 3', 3);
  await queue.enqueue('ours 5', 5);
  const order = [(await queue.dequeue(session)).text(), await go('dequeue-by-priority', name).line()];
  order.push((await queue.dequeue(session)).text(), await go('dequeue-by-priority', name).line());
  expect(order).toEqual(['Go 1', 'ours 3', 'Go 5', 'ours 5']);
});

test('Service: each client finds the service that the other client registered', async () => {
  const [etcd, name] = [openClient(), unique('go')];
  const service = new Service(etcd, name);
  await service.register(await Session.open(etcd), 'ts', { address: 'ts:1', metadata: 'n' });
  expect(await go('service', name).line()).toBe(`map[${name}/go:{go:1 m} ${name}/ts:{ts:1 n}]`);
  expect((await service.list()).get(`${name}/go`)).toEqual({ address: 'go:1', metadata: 'm' });
});

async function waiters(etcd: Client, name: string, count: number): Promise<void> {
  const there = async (): Promise<number> => (await etcd.range(prefix(`${name}/waiters/`))).count;
  await expect.poll(there).toBe(count);
}
