import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, inject, test } from 'vitest';
import {
  Barrier,
  DoubleBarrier,
  Election,
  inspectLock,
  type Job,
  lead,
  Mutex,
  observe,
  PriorityQueue,
  Queue,
  RateLimiter,
  ReentrantMutex,
  RWMutex,
  SelfHealingSession,
  Semaphore,
  Session,
  type StmTransaction,
  stm,
  WorkQueue,
  withLock,
  withLocks,
} from '../src/concurrency/index.js';
import { Client as CoreClient } from '../src/core.js';
import { Service } from '../src/discovery/index.js';
import {
  Client,
  compare,
  connect,
  createKey,
  deleteKeyIf,
  EtcdError,
  getMany,
  health,
  hedgedReads,
  http2,
  type Interceptor,
  json,
  modifyKey,
  op,
  prefix,
  retryPolicy,
  typed,
  updateKey,
} from '../src/index.js';
import { discoverSrv, followDns, fromEnv, fromEnvWithDiscovery, resolveEndpoints, saveSnapshot } from '../src/node.js';
import { openTelemetry } from '../src/opentelemetry.js';
import { EtcdCluster, FaultProxy, GuardedResource, listen, MemoryEtcd, startEtcd } from '../src/testing/index.js';
import { gateway } from '../src/transport/gateway/index.js';
import { openClient, unique } from './support/client.js';
import { errorOf } from './support/errors.js';
import { publicFunctions } from './support/public-functions.js';

// Plain JavaScript has no compiler that refuses an unknown option, so the functions refuse it at run time.

/** Stores the list of the RPCs that the call under test sends, without RPCs that sessions send at the same time. */
const underTest = new AsyncLocalStorage<string[]>();
const counting: Interceptor = {
  unary: (call, next) => {
    underTest.getStore()?.push(call.method.path);
    return next(call);
  },
  stream: (call, handler, next) => {
    underTest.getStore()?.push(call.method.path);
    return next(call, handler);
  },
};

interface Subjects {
  readonly etcd: Client;
  readonly session: Session;
}
type Call = (options: never, subjects: Subjects) => unknown;

const numbers = (etcd: Client) => typed(etcd, 'n/', json(Number));
/** Takes a job of a new queue, and calls `use` with it. */
const withJob = (session: Session, use: (job: Job) => unknown): Promise<unknown> =>
  underTest
    .exit(async () => {
      const queue = new WorkQueue(session.client, unique());
      await queue.enqueue('x');
      return queue.take(session);
    })
    .then(use);
const ENDPOINT = inject('endpoints')[0] as string;
const LEADER = { name: Buffer.from('n'), key: Buffer.from('k'), rev: 1n, lease: 1n };

/** A call to every public function, method and constructor that accepts options. */
const CALLS: Readonly<Record<string, Call>> = {
  hedgedReads: (options) => hedgedReads(options),
  retryPolicy: (options) => retryPolicy(options),
  'new Client': (options) => new Client({ endpoints: [ENDPOINT], ...(options as object) }),
  'new CoreClient': (options) => new CoreClient({ endpoints: [ENDPOINT], ...(options as object) }),
  'Client.sync': (options, { etcd }) => etcd.sync(options),
  'Client.compact': (options, { etcd }) => etcd.compact(1n, options),
  'Keyspace.get': (options, { etcd }) => etcd.get('k', options),
  'Keyspace.range': (options, { etcd }) => etcd.range('k', options),
  'Keyspace.scan': (options, { etcd }) => etcd.scan('k', options),
  'Keyspace.put': (options, { etcd }) => etcd.put('k', 'x', options),
  'Keyspace.delete': (options, { etcd }) => etcd.delete('k', options),
  'Keyspace.txn': (options, { etcd }) => etcd.txn({}, options),
  'Keyspace.watch': (options, { etcd }) => etcd.watch('k', options),
  createKey: (options, { etcd }) => createKey(etcd, 'k', 'v', options),
  updateKey: (options, { etcd }) => updateKey(etcd, 'k', 'v', options),
  deleteKeyIf: (options, { etcd }) => deleteKeyIf(etcd, 'k', options),
  modifyKey: (options, { etcd }) => modifyKey(etcd, 'k', () => 'v', options),
  getMany: (options, { etcd }) => getMany(etcd, ['k'], options),
  'TypedKeys.get': (options, { etcd }) => numbers(etcd).get('k', options),
  'TypedKeys.range': (options, { etcd }) => numbers(etcd).range(options),
  'TypedKeys.put': (options, { etcd }) => numbers(etcd).put('k', 1, options),
  'TypedKeys.create': (options, { etcd }) => numbers(etcd).create('k', 1, options),
  'TypedKeys.modify': (options, { etcd }) => numbers(etcd).modify('k', () => 1, options),
  'TypedKeys.delete': (options, { etcd }) => numbers(etcd).delete('k', options),
  'TypedKeys.watch': (options, { etcd }) => numbers(etcd).watch(options),
  'TypedKeys.cachedRange': (options, { etcd }) => numbers(etcd).cachedRange(options),
  'TypedKeys.opGet': (options, { etcd }) => etcd.txn({ then: [numbers(etcd).opGet('k', options)] }),
  'TypedKeys.opPut': (options, { etcd }) => etcd.txn({ then: [numbers(etcd).opPut('k', 1, options)] }),
  'Client.mirror': (options, { etcd }) => etcd.mirror('k', options),
  'Client.cachedRange': (options, { etcd }) => etcd.cachedRange('k', options),
  'CachedRange.waitForRevision': async (options, { etcd }) => {
    await using cached = await underTest.exit(() => etcd.cachedRange(unique()));
    await cached.waitForRevision(0n, options);
  },
  'CachedRange.catchUp': async (options, { etcd }) => {
    await using cached = await underTest.exit(() => etcd.cachedRange(unique()));
    await cached.catchUp(options);
  },
  'CachedRange.changes': async (options, { etcd }) => {
    await using cached = await underTest.exit(() => etcd.cachedRange(unique()));
    cached.changes(options);
  },
  'op.get': (options, { etcd }) => etcd.txn({ then: [op.get('k', options)] }),
  'op.range': (options, { etcd }) => etcd.txn({ if: [], else: [op.range('k', options)] }),
  'op.put': (options, { etcd }) => etcd.txn({ then: [op.put('k', 'x', options)] }),
  'op.delete': (options, { etcd }) => etcd.txn({ then: [op.txn({ then: [op.delete('k', options)] })] }),
  'Leases.grant': (options, { etcd }) => etcd.lease.grant(options),
  'Leases.revoke': (options, { etcd }) => etcd.lease.revoke(1n, options),
  'Leases.timeToLive': (options, { etcd }) => etcd.lease.timeToLive(1n, options),
  'Leases.list': (options, { etcd }) => etcd.lease.list(options),
  'Leases.keepAliveOnce': (options, { etcd }) => etcd.lease.keepAliveOnce(1n, options),
  'Auth.enable': (options, { etcd }) => etcd.auth.enable(options),
  'Auth.disable': (options, { etcd }) => etcd.auth.disable(options),
  'Auth.status': (options, { etcd }) => etcd.auth.status(options),
  'Auth.authenticate': (options, { etcd }) => etcd.auth.authenticate('a', 'b', options),
  'Auth.userAdd': (options, { etcd }) => etcd.auth.userAdd('a', { noPassword: true }, options),
  'Auth.userGet': (options, { etcd }) => etcd.auth.userGet('a', options),
  'Auth.userList': (options, { etcd }) => etcd.auth.userList(options),
  'Auth.userDelete': (options, { etcd }) => etcd.auth.userDelete('a', options),
  'Auth.userChangePassword': (options, { etcd }) => etcd.auth.userChangePassword('a', 'b', options),
  'Auth.userGrantRole': (options, { etcd }) => etcd.auth.userGrantRole('a', 'b', options),
  'Auth.userRevokeRole': (options, { etcd }) => etcd.auth.userRevokeRole('a', 'b', options),
  'Auth.roleAdd': (options, { etcd }) => etcd.auth.roleAdd('a', options),
  'Auth.roleGet': (options, { etcd }) => etcd.auth.roleGet('a', options),
  'Auth.roleList': (options, { etcd }) => etcd.auth.roleList(options),
  'Auth.roleDelete': (options, { etcd }) => etcd.auth.roleDelete('a', options),
  'Auth.roleGrantPermission': (options, { etcd }) => etcd.auth.roleGrantPermission('a', 'read', 'k', options),
  'Auth.roleRevokePermission': (options, { etcd }) => etcd.auth.roleRevokePermission('a', 'k', options),
  'Cluster.memberList': (options, { etcd }) => etcd.cluster.memberList(options),
  'Cluster.memberAdd': (options, { etcd }) => etcd.cluster.memberAdd(['http://a:1'], options),
  'Cluster.memberPromote': (options, { etcd }) => etcd.cluster.memberPromote(1n, options),
  'Cluster.memberUpdate': (options, { etcd }) => etcd.cluster.memberUpdate(1n, ['http://a:1'], options),
  'Cluster.memberRemove': (options, { etcd }) => etcd.cluster.memberRemove(1n, options),
  'Maintenance.status': (options, { etcd }) => etcd.maintenance.status(ENDPOINT, options),
  'Maintenance.alarms': (options, { etcd }) => etcd.maintenance.alarms(options),
  'Maintenance.disarm': (options, { etcd }) => etcd.maintenance.disarm({ memberId: 1n, alarm: 'corrupt' }, options),
  'Maintenance.defragment': (options, { etcd }) => etcd.maintenance.defragment(ENDPOINT, options),
  'Maintenance.hash': (options, { etcd }) => etcd.maintenance.hash(ENDPOINT, options),
  'Maintenance.hashKV': (options, { etcd }) => etcd.maintenance.hashKV(ENDPOINT, 0n, options),
  'Maintenance.snapshot': (options, { etcd }) => etcd.maintenance.snapshot(ENDPOINT, options),
  'Maintenance.moveLeader': (options, { etcd }) => etcd.maintenance.moveLeader(1n, options),
  'Maintenance.downgrade': (options, { etcd }) => etcd.maintenance.downgrade('cancel', '', options),
  'LockService.lock': (options, { etcd }) => etcd.lockService.lock('a', 1n, options),
  'LockService.unlock': (options, { etcd }) => etcd.lockService.unlock('k', options),
  'ElectionService.campaign': (options, { etcd }) => etcd.electionService.campaign('a', 1n, 'x', options),
  'ElectionService.proclaim': (options, { etcd }) => etcd.electionService.proclaim(LEADER, 'x', options),
  'ElectionService.leader': (options, { etcd }) => etcd.electionService.leader('a', options),
  'ElectionService.observe': (options, { etcd }) => etcd.electionService.observe('a', options).next(),
  'ElectionService.resign': (options, { etcd }) => etcd.electionService.resign(LEADER, options),
  'Session.open': (options, { etcd }) => Session.open(etcd, options),
  'Mutex.lock': (options, { session }) => new Mutex(session, 'm').lock(options),
  'Mutex.tryLock': (options, { session }) => new Mutex(session, 'm').tryLock(options),
  'Held.txn': (options, subjects) => held(subjects, (lock) => lock.txn({}, options)),
  'Held.release': (options, subjects) => held(subjects, (lock) => lock.release(options)),
  'RWMutex.readLock': (options, { session }) => new RWMutex(session, 'm').readLock(options),
  'RWMutex.lock': (options, { session }) => new RWMutex(session, 'm').lock(options),
  'RWMutex.tryReadLock': (options, { session }) => new RWMutex(session, 'm').tryReadLock(options),
  'RWMutex.tryLock': (options, { session }) => new RWMutex(session, 'm').tryLock(options),
  'ReentrantMutex.lock': (options, { session }) => new ReentrantMutex(session, 'm').lock('me', options),
  'ReentrantMutex.tryLock': (options, { session }) => new ReentrantMutex(session, 'm').tryLock('me', options),
  'ReentrantHeld.txn': (options, subjects) => heldByOwner(subjects, (hold) => hold.txn({}, options)),
  'Semaphore.acquire': (options, { session }) => new Semaphore(session, 's', 1).acquire(options),
  'Semaphore.tryAcquire': (options, { session }) => new Semaphore(session, 's', 1).tryAcquire(options),
  'Election.campaign': (options, { session }) => new Election(session, 'e').campaign('x', options),
  'Election.resume': (options, { session }) => new Election(session, 'e').resume(1n, options),
  'Election.leader': (options, { session }) => new Election(session, 'e').leader(options),
  'Election.observe': (options, { session }) => new Election(session, 'e').observe(options).next(),
  'Leadership.proclaim': (options, subjects) => leading(subjects, (leader) => leader.proclaim('x', options)),
  'Leadership.resign': (options, subjects) => leading(subjects, (leader) => leader.resign(options)),
  'Barrier.hold': (options, { etcd }) => new Barrier(etcd, 'b').hold(options),
  'Barrier.release': (options, { etcd }) => new Barrier(etcd, 'b').release(options),
  'Barrier.wait': (options, { etcd }) => new Barrier(etcd, 'b').wait(options),
  'DoubleBarrier.enter': (options, { session }) => new DoubleBarrier(session, 'b', 1).enter(options),
  'DoubleBarrier.leave': async (options, { session }) => {
    const barrier = new DoubleBarrier(session, unique(), 1);
    await underTest.exit(() => barrier.enter());
    await barrier.leave(options);
  },
  'Queue.enqueue': (options, { etcd }) => new Queue(etcd, 'q').enqueue('x', options),
  'Queue.dequeue': (options, { etcd, session }) => new Queue(etcd, 'q').dequeue(session, options),
  'PriorityQueue.enqueue': (options, { etcd }) => new PriorityQueue(etcd, 'q').enqueue('x', 1, options),
  'PriorityQueue.dequeue': (options, { etcd, session }) => new PriorityQueue(etcd, 'q').dequeue(session, options),
  stm: (options, { etcd }) => stm(etcd, () => {}, options),
  'StmTransaction.put': (options, { etcd }) => stm(etcd, (tx: StmTransaction) => tx.put('k', 'x', options)),
  withLocks: (options, { etcd }) => withLocks(etcd, ['l'], () => {}, options),
  lead: (options, { etcd }) => lead(etcd, 'l', 'x', () => {}, options),
  'new WorkQueue': (options, { etcd }) => new WorkQueue(etcd, 'w', options),
  'WorkQueue.enqueue': (options, { etcd }) => new WorkQueue(etcd, 'w').enqueue('x', options),
  'WorkQueue.work': (options, { etcd }) => new WorkQueue(etcd, 'w').work(() => {}, options),
  'WorkQueue.take': (options, { etcd, session }) => new WorkQueue(etcd, 'w').take(session, options),
  'WorkQueue.counts': (options, { etcd }) => new WorkQueue(etcd, 'w').counts(options),
  'WorkQueue.dead': (options, { etcd }) => new WorkQueue(etcd, 'w').dead(options),
  'WorkQueue.requeue': (options, { etcd }) => new WorkQueue(etcd, 'w').requeue('1', options),
  'WorkQueue.discard': (options, { etcd }) => new WorkQueue(etcd, 'w').discard('1', options),
  'Job.retry': (options, { session }) => withJob(session, (job) => job.retry(options)),
  'new RateLimiter': (options, { etcd }) => new RateLimiter(etcd, 'r', options),
  'RateLimiter.take': (options, { etcd }) => new RateLimiter(etcd, 'r', { perSecond: 1 }).take(1, options),
  'RateLimiter.tryTake': (options, { etcd }) => new RateLimiter(etcd, 'r', { perSecond: 1 }).tryTake(1, options),
  observe: (options, { etcd }) => observe(etcd, 'l', options).next(),
  inspectLock: (options, { etcd }) => inspectLock(etcd, 'l', options),
  'new Mutex': (options, { session }) => new Mutex(session, 'l', options),
  withLock: (options, { etcd }) => withLock(etcd, 'm', () => {}, options),
  'SelfHealingSession.open': (options, { etcd }) => SelfHealingSession.open(etcd, options),
  'SelfHealingSession.register': (options, subjects) =>
    healing(subjects, (session) => session.register('k', 'x', options)),
  'SelfHealingSession.unregister': (options, subjects) =>
    healing(subjects, (session) => session.unregister('k', options)),
  'Service.register': (options, { etcd, session }) =>
    new Service(etcd, 's').register(session, 'id', { address: 'a' }, options),
  'Service.list': (options, { etcd }) => new Service(etcd, 's').list(options),
  'Service.watch': (options, { etcd }) => new Service(etcd, 's').watch(options).next(),
  'Service.view': (options, { etcd }) => new Service(etcd, 's').view(options),
  connect: (options) => connect(options),
  gateway: (options) => gateway(options),
  http2: (options) => http2(options),
  fromEnv: (options) => fromEnv(options),
  fromEnvWithDiscovery: (options) => fromEnvWithDiscovery(options),
  discoverSrv: (options) => discoverSrv('example.test', options),
  resolveEndpoints: (options) => resolveEndpoints(['http://127.0.0.1'], options),
  followDns: (options, { etcd }) => followDns(etcd, ['http://127.0.0.1'], options),
  health: (options, { etcd }) => health(etcd, options),
  openTelemetry: (options) => openTelemetry(options),
  saveSnapshot: (options, { etcd }) => saveSnapshot(etcd, ENDPOINT, '/nowhere/at/all', options),
  'EtcdCluster.start': (options) => EtcdCluster.start(options),
  'EtcdCluster.join': (options) => EtcdCluster.prototype.join.call(undefined as never, options),
  'EtcdCluster.leader': (options) => EtcdCluster.prototype.leader.call(undefined as never, options),
  'FaultProxy.start': (options) => FaultProxy.start('http://127.0.0.1:1', options),
  'new GuardedResource': (options) => new GuardedResource(options),
  listen: (options) => listen(new MemoryEtcd(), options),
  'new MemoryEtcd': (options) => new MemoryEtcd(options),
  startEtcd: (options) => startEtcd(options),
};

/** Functions that only this package calls, although they or their classes are exported. */
const INTERNAL = new Set([
  'new EtcdCluster',
  'new EtcdMember',
  'new FaultProxy',
  'new Mirror',
  'new Watch',
  'Keyspace.scanPages',
  'Leases.withDefaultTimeout',
  'new Keyspace',
]);

async function held<T>({ session }: Subjects, use: (held: Awaited<ReturnType<Mutex['lock']>>) => Promise<T>) {
  const lock = await underTest.exit(() => new Mutex(session, unique()).lock());
  return use(lock).finally(() => underTest.exit(() => lock.release()));
}

async function heldByOwner<T>(
  { session }: Subjects,
  use: (hold: Awaited<ReturnType<ReentrantMutex['lock']>>) => Promise<T>,
) {
  const hold = await underTest.exit(() => new ReentrantMutex(session, unique()).lock('me'));
  return use(hold).finally(() => underTest.exit(() => hold.release()));
}

async function leading<T>(
  { session }: Subjects,
  use: (leader: Awaited<ReturnType<Election['campaign']>>) => Promise<T>,
) {
  const leader = await underTest.exit(() => new Election(session, unique()).campaign('x'));
  return use(leader).finally(() => underTest.exit(() => leader.resign()));
}

async function healing<T>({ etcd }: Subjects, use: (session: SelfHealingSession) => Promise<T>) {
  const session = await underTest.exit(() => SelfHealingSession.open(etcd));
  return use(session).finally(() => underTest.exit(() => session.close()));
}

/** Makes a call that must fail. Returns its error, and the RPCs that it sent. */
async function refusalOf(call: Call, options: unknown): Promise<{ error: EtcdError; sent: readonly string[] }> {
  const etcd = openClient({ interceptors: [counting] });
  await using session = await Session.open(etcd);
  const sent: string[] = [];
  const error = await errorOf(() => underTest.run(sent, async () => call(options as never, { etcd, session })));
  return { error, sent };
}

const REFUSED = { code: 'InvalidArgument', reason: 'InvalidInput', outcome: 'not-sent' };

/** The functions whose names the errors of these methods contain, because the methods pass their options on. */
const DELEGATES: Readonly<Record<string, string>> = {
  'TypedKeys.create': 'createKey',
  'TypedKeys.modify': 'modifyKey',
  'TypedKeys.opGet': 'get',
  'TypedKeys.opPut': 'put',
};

test.each(Object.entries(CALLS))('%s refuses an unknown option, and sends nothing', async (name, call) => {
  const { error, sent } = await refusalOf(call, { frobnicate: true });
  expect(error).toMatchObject(REFUSED);
  // `etcdwire/core` exports the class CoreClient as Client.
  const method = DELEGATES[name] ?? name.replace(/^(?:new (?:Core)?|.*\.)/, '');
  expect(error.message).toMatch(
    // The error of a method that makes one RPC may name the RPC, such as etcdserverpb.Auth/AuthEnable.
    new RegExp(`^options: got the unknown option frobnicate for [\\w./]*${method}; allowed: \\w+`, 'i'),
  );
  expect(sent).toEqual([]);
});

test.each(Object.entries(CALLS).filter(([name]) => !name.endsWith('Client')))(
  '%s refuses options that are not an object, and sends nothing',
  async (_name, call) => {
    for (const [options, shown] of [
      [null, 'null'],
      ['text', 'a string'],
      [5, 'the number 5'],
      [7n, '7n'],
      [() => {}, 'a function'],
      [[], 'an object (Array)'],
      [new Map([['timeoutMs', 5]]), 'an object (Map)'],
    ] as const) {
      const { error, sent } = await refusalOf(call, options);
      expect(error).toMatchObject(REFUSED);
      expect(error.message.startsWith(`options: got ${shown} for `), error.message).toBe(true);
      expect(sent).toEqual([]);
    }
  },
);

test('the interceptor in these tests records the RPCs of the call under test', async () => {
  const etcd = openClient({ interceptors: [counting] });
  const sent: string[] = [];
  await underTest.run(sent, async () => {
    await etcd.get('k', { timeoutMs: 5_000 });
    await using watch = etcd.watch('k');
    await watch.created();
  });
  expect(sent).toEqual(['/etcdserverpb.KV/Range', '/etcdserverpb.Watch/Watch']);
});

test('every function of `Client.raw` refuses an unknown option, and sends nothing', async () => {
  const { raw } = openClient({ interceptors: [counting] });
  let called = 0;
  for (const [service, stubs] of Object.entries(raw)) {
    for (const [name, stub] of Object.entries(stubs) as [string, (...given: unknown[]) => unknown][]) {
      for (const given of [[{ frobnicate: true }], [{}, { frobnicate: true }]]) {
        // A function for a bidirectional stream accepts only options. Other functions accept a message first.
        if (given.length !== (/watch\.watch$|leaseKeepAlive$/.test(`${service}.${name}`) ? 1 : 2)) continue;
        const sent: string[] = [];
        const error = await errorOf(() => underTest.run(sent, async () => stub(...given)));
        expect(error).toMatchObject(REFUSED);
        expect(error.message).toContain(`the unknown option frobnicate for raw.${service}.${name};`);
        expect(sent).toEqual([]);
        called += 1;
      }
    }
  }
  expect(called).toBe(Object.values(raw).flatMap((stubs) => Object.values(stubs)).length);
});

test('the table `CALLS` contains every public function that accepts options', async () => {
  const found = [...(await publicFunctions())].filter(([, code]) => takesOptions(code)).map(([name]) => name);
  expect(found.filter((name) => !INTERNAL.has(name)).sort()).toEqual(Object.keys(CALLS).sort());
  expect([...INTERNAL].filter((name) => !found.includes(name))).toEqual([]);
});

/** Whether the function has a parameter called `options`, or a parameter that it destructures. */
function takesOptions(code: string): boolean {
  return /^[^(]*\((?:[^{)]*\boptions\b|[^)]*\{)/.test(code);
}

test.each<[string, (etcd: Client) => unknown, string]>([
  [
    'the option `ttl` for `put`',
    (etcd) => etcd.put('k', 'x', { ttl: 5 } as never),
    'options: got the unknown option ttl for put (to attach a lease, pass { lease: await etcd.lease.grant({ ttl: 5 }) }); ' +
      'allowed: lease, prevKv, ignoreValue, ignoreLease, signal, timeoutMs, endpoint',
  ],
  [
    'the option `ttl` for `op.put`',
    (etcd) => etcd.txn({ then: [op.put('k', 'x', { ttl: 5 } as never)] }),
    'pass { lease: await etcd.lease.grant({ ttl: 5 }) }',
  ],
  ...(['watch', 'range', 'scan', 'delete', 'mirror', 'cachedRange'] as const).map(
    (call): [string, (etcd: Client) => unknown, string] => [
      `the option \`prefix\` for \`${call}\``,
      (etcd) => etcd[call]('k', { prefix: true } as never),
      ' (to name all keys with a prefix, pass prefix(key) as the key); allowed: ',
    ],
  ),
  ['the option `prefix` for `get`', (etcd) => etcd.get('k', { prefix: true } as never), 'call range(prefix(key))'],
  [
    'the option `timeout` for `get`',
    (etcd) => etcd.get('k', { timeout: 5 } as never),
    ' (did you mean timeoutMs?); allowed: ',
  ],
  [
    'the option `timeoutMs` for `watch`',
    (etcd) => etcd.watch('k', { timeoutMs: 5 } as never),
    ' (to set a time limit, pass { signal: AbortSignal.timeout(ms) }); allowed: ',
  ],
  [
    'an option in snake case',
    (etcd) => etcd.get('k', { keys_only: true } as never),
    ' (did you mean keysOnly?); allowed: ',
  ],
  [
    'an option with swapped letters',
    (etcd) => etcd.get('k', { singal: undefined, sginal: 1 } as never),
    'did you mean signal?',
  ],
  [
    'the option `TTL` for `withLock`',
    (etcd) => withLock(etcd, 'm', () => {}, { TTL: 5 } as never),
    ' (did you mean ttl?); allowed: ',
  ],
  [
    'a signal in place of the options',
    (etcd) => etcd.get('k', AbortSignal.timeout(5_000) as never),
    'the unknown option aborted for get; allowed: revision',
  ],
  ['the option `limit` for `get`', (etcd) => etcd.get('k', { limit: 1 } as never), ' (range has this option'],
  [
    'a misspelled property of txn',
    (etcd) => etcd.txn({ than: [] } as never),
    'txn: got the unknown option than (did you mean then?); allowed: if, then',
  ],
  [
    'null as a nested txn',
    (etcd) => etcd.txn({ then: [op.txn(null as never)] }),
    'txn: got null; allowed: an object with only these properties: if',
  ],
  [
    'a lease outside of the options of an operation',
    (etcd) => etcd.txn({ then: [{ ...op.put('k', 'x'), lease: 5n } as never] }),
    'op.put: got the unknown option lease; allowed: type, key, options, value',
  ],
  [
    'an unknown property of a condition',
    (etcd) => etcd.txn({ if: [{ ...compare.exists('k'), rangeEnd: 'l' } as never] }),
    'if[0]: got the unknown option rangeEnd; allowed: target, keys, operator, operand',
  ],
])('the client refuses %s, and the error says what is allowed', async (_what, call, message) => {
  const etcd = openClient({ interceptors: [counting] });
  const sent: string[] = [];
  const error = await errorOf(() => underTest.run(sent, async () => call(etcd)));
  expect(error).toMatchObject(REFUSED);
  expect(error.message).toContain(message);
  expect(sent).toEqual([]);
});

test('`lease.grant` refuses a call without options', async () => {
  const error = await errorOf((openClient().lease.grant as () => Promise<unknown>).call(openClient().lease));
  expect(error).toMatchObject(REFUSED);
  expect(error.message).toMatch(/^ttl: got undefined; allowed: whole seconds/);
});

const NEW_CLIENT = 'options: got %; allowed: { endpoints: [...] }';
const DID_YOU_MEAN = " (did you mean new Client({ endpoints: ['http://host:2379'] })?)";

test.each<[string, unknown, string]>([
  ['undefined', undefined, NEW_CLIENT.replace('%', 'undefined')],
  ['null', null, NEW_CLIENT.replace('%', 'null')],
  ['a number', 5, NEW_CLIENT.replace('%', 'the number 5')],
  ['a URL', 'http://root:hunter2@a:1', NEW_CLIENT.replace('%', `a string${DID_YOU_MEAN}`)],
  ['an array', ['http://a:1'], NEW_CLIENT.replace('%', `an object (Array)${DID_YOU_MEAN}`)],
])(
  'the constructor of Client refuses %s, and the error names the allowed argument',
  async (_what, options, message) => {
    const error = await errorOf(() => new Client(options as never));
    expect(error).toMatchObject(REFUSED);
    expect(error.message).toBe(message);
  },
);

test.each<[string, object, RegExp]>([
  [
    'the option hosts',
    { hosts: ['http://a:1'] },
    /unknown option hosts for Client \(did you mean endpoints\?\); allowed: /,
  ],
  [
    'a TLS option of Node.js that the client does not have',
    { tls: { rejectUnauthorized: false } },
    /^tls: got the unknown option rejectUnauthorized; allowed: ca, cert, key, serverName$/,
  ],
  [
    'an option of `tls` in lower case',
    { tls: { servername: 'a' } },
    /^tls: .* \(did you mean serverName\?\); allowed: /,
  ],
  ['an array as `tls`', { tls: [] }, /^tls: got an object \(Array\)/],
  [
    'null as `auth`',
    { auth: null },
    /^auth: got null; allowed: an object with only these properties: username, password, token, allowPlaintext$/,
  ],
  [
    'a number as the password, without showing it,',
    { auth: { username: 'a', password: 1234, allowPlaintext: true } },
    /^auth\.password: got a number; allowed: a non-empty string$/,
  ],
  [
    'credentials without a password',
    { auth: { username: 'a', allowPlaintext: true } },
    /^auth\.password: missing; give username and password, or give token$/,
  ],
  [
    'the option `user` in `auth`',
    { auth: { user: 'a', password: 'b' } },
    /^auth: got the unknown option user \(did you mean username\?\); /,
  ],
])('the constructor of Client refuses %s', async (_what, options, message) => {
  const error = await errorOf(() => new Client({ endpoints: ['http://a:1'], ...options }));
  expect(error).toMatchObject(REFUSED);
  expect(error.message).toMatch(message);
});

test('a call fails when the option `tls` is a function that returns an object with an unknown property', async () => {
  const etcd = openClient({
    endpoints: [ENDPOINT.replace('http:', 'https:')],
    tls: () => ({ caFile: 'ca.pem' }) as never,
  });
  const error = await errorOf(etcd.get('k', { timeoutMs: 1_000 }));
  expect(`${error.message} ${(error.cause as Error | undefined)?.message}`).toContain('the unknown option caFile');
});

test('`EtcdCluster.start` refuses an unknown property of `tls`', async () => {
  const error = await errorOf(() => EtcdCluster.start({ tls: { cert: 'a' } as never }));
  expect(error.message).toMatch(
    /^tls: got the unknown option cert \(did you mean certFile\?\); allowed: certFile, keyFile, clientCaFile$/,
  );
});

test('`get` and `put` accept unknown options whose value is undefined and known options that are inherited', async () => {
  const etcd = openClient();
  const key = unique();
  await etcd.put(key, 'x', { ttl: undefined, lease: undefined } as never);
  expect((await etcd.get(key, Object.create({ serializable: true })))?.text()).toBe('x');
  expect(
    (
      await etcd.get(
        key,
        new (class {
          timeoutMs = 5_000;
          toJSON() {}
        })(),
      )
    )?.text(),
  ).toBe('x');
  expect((await etcd.get(key, Object.assign(Object.create(null), { keysOnly: true })))?.text()).toBe('');
  const error = await errorOf(etcd.put(key, 'x', Object.create({ ttl: 5 })));
  expect(error.message).toContain('the unknown option ttl for put');
});

test.each(['toString', 'constructor', '__proto__'])('`get` refuses an option called %s', async (name) => {
  const options: object = JSON.parse(`{ ${JSON.stringify(name)}: 1 }`);
  expect(await errorOf(openClient().get('k', options))).toMatchObject(REFUSED);
});

test('`get` accepts its own options when the program has extended Object.prototype', async () => {
  const extended = Object.prototype as { frobnicate?: string };
  extended.frobnicate = 'x';
  try {
    expect(await openClient().get(unique(), { serializable: true })).toBeUndefined();
    expect(await errorOf(openClient().get('k', { frobnicate: true } as never))).toMatchObject(REFUSED);
  } finally {
    delete extended.frobnicate;
  }
});

test('the error for an unknown option does not show the name of the option when the name may be a key or a secret', async () => {
  const names = ['app/users', 'geheim-1234', 'a'.repeat(33), 'S3CR3T', ' ', 'x\u001b[31m'];
  for (const name of names) {
    const error = await errorOf(openClient().range(prefix('a'), { [name]: 1 }));
    expect(error.message).toMatch(/^options: got an unknown option for range; allowed: limit, /);
    expect(error.message).not.toContain(name.length > 1 ? name : 'never');
    expect(error).toBeInstanceOf(EtcdError);
  }
});
