import { expect, inject, test } from 'vitest';
import { Client, type Compare, keyRange, op, prefix } from '../../src/index.js';
import {
  Election,
  Mutex,
  ReentrantMutex,
  RWMutex,
  SelfHealingSession,
  Semaphore,
  Session,
  withLock,
} from '../../src/locks.js';
import { Barrier, DoubleBarrier, PriorityQueue, Queue, Service, stm } from '../../src/recipes.js';
import { canary, expectNoCanary, watchOutput } from '../support/canaries.js';
import { openClient, unique } from '../support/client.js';

// A value that a caller passes as the wrong argument may be a secret or a key. The error may name the argument and the
// type of the value, but must not contain the value. The test passes canaries, which are unique secret texts.

watchOutput();

const SECRET = canary('secret');
const WRONG: readonly (readonly [what: string, value: unknown])[] = [
  ['text', SECRET],
  ['text that is not well-formed', `\ud800${SECRET}`],
  ['a URL with secrets', `http://root:${SECRET}@a:1?token=${SECRET}#${SECRET}`],
  ['bytes', Buffer.from(SECRET)],
  ['a list', [SECRET, [SECRET]]],
  ['an object', { [SECRET]: SECRET, nested: { [SECRET]: Buffer.from(SECRET) } }],
  ['an object of a class', new Map([[SECRET, SECRET]])],
  ['an object that describes itself', { constructor: { name: SECRET }, toString: () => SECRET, toJSON: () => SECRET }],
  ['a symbol', Symbol(SECRET)],
  ['a function', { [SECRET]: () => SECRET }[SECRET]],
];

type Call = (...given: never[]) => unknown;

const ENDPOINT = inject('endpoints')[0] as string;
/** Time limits for calls that would otherwise wait. */
const SOON = { timeoutMs: 500 } as const;
const WAIT = { maxWaitMs: 500 } as const;

/** Returns calls and their valid arguments. The test replaces one argument at a time with a value of a wrong type. */
function callsOf(etcd: Client, session: Session): Readonly<Record<string, readonly [call: Call, ...right: unknown[]]>> {
  const { auth, cluster, lease, maintenance, raw } = etcd;
  const key = unique();
  const condition = compare('value', '==', 'x');
  return {
    'new Client': [
      (endpoints, tls, credentials) => new Client({ endpoints, tls, auth: credentials }),
      [ENDPOINT],
      {},
      { username: 'u', password: 'p', allowPlaintext: true },
    ],
    'client options': [
      (ms, bytes, ops) =>
        new Client({
          endpoints: [ENDPOINT],
          timeoutMs: ms,
          connectTimeoutMs: ms,
          pingIntervalMs: ms,
          pingTimeoutMs: ms,
          maxRequestBytes: bytes,
          maxReceiveBytes: bytes,
          maxTxnOps: ops,
        }),
      6_000,
      1_000,
      5,
    ],
    credentials: [
      (name, password, token) =>
        new Client({ endpoints: [ENDPOINT], auth: { username: name, password, token, allowPlaintext: true } as never }),
      undefined,
      undefined,
      'token',
    ],
    get: [(...given) => etcd.get(...(given as [never])), key, SOON],
    range: [
      (keys, limit, target, order, revision) => etcd.range(keys, { limit, sort: { target, order }, revision, ...SOON }),
      prefix(key),
      1,
      'key',
      'desc',
      0n,
    ],
    'range of an interval': [(start, end) => etcd.range(keyRange(start, end), SOON), 'a', 'b'],
    'options of a range': [(options) => etcd.range(prefix(key), options), SOON],
    scan: [(keys, options) => etcd.scan(keys, options).next(), prefix(key), SOON],
    put: [
      (name, value, id, options) => etcd.put(name, value, { lease: id, ...(options as object) }),
      key,
      'x',
      undefined,
      SOON,
    ],
    delete: [(keys, options) => etcd.delete(keys, options), prefix(key), SOON],
    txn: [(txn, options) => etcd.txn(txn, options), { then: [op.get(key)] }, SOON],
    'lists of a txn': [
      (conditions, then, otherwise) => etcd.txn({ if: conditions, then, else: otherwise }, SOON),
      [condition],
      [op.get(key)],
      [op.put(key, 'x')],
    ],
    'operations of a txn': [
      (name, value, options) => etcd.txn({ then: [op.put(name, value, options)] }, SOON),
      key,
      'x',
      {},
    ],
    'conditions of a txn': [
      (target, operator, operand) => etcd.txn({ if: [compare(target, operator, operand)] }, SOON),
      'version',
      '==',
      1n,
    ],
    compact: [(revision, options) => etcd.compact(revision, options), 1n, SOON],
    watch: [
      (keys, startRevision, bufferBytes, only, signal) =>
        etcd.watch(keys, { startRevision, bufferBytes, only, signal }).close(),
      key,
      1n,
      100,
      'delete',
      undefined,
    ],
    mirror: [(keys, options) => etcd.mirror(keys, options)[Symbol.asyncIterator]().next(), prefix(key), {}],
    cachedRange: [
      (keys, options) => etcd.cachedRange(keys, options).then((cached) => cached.close()),
      prefix(key),
      SOON,
    ],
    namespace: [(name) => etcd.namespace(name).get('a', SOON), key],
    grant: [(ttl, id, options) => lease.grant({ ttl, id, ...(options as object) }), 60, undefined, SOON],
    revoke: [(id, options) => lease.revoke(id, options), { id: 1n }, SOON],
    timeToLive: [(id, keys, options) => lease.timeToLive(id, { keys, ...(options as object) }), 1n, true, SOON],
    keepAlive: [(kept) => lease.keepAlive(kept).close(), 1n],
    keepAliveOnce: [(id, options) => lease.keepAliveOnce(id, options), 1n, SOON],
    authenticate: [(name, password, options) => auth.authenticate(name, password, options), key, 'x', SOON],
    userAdd: [(name, login, options) => auth.userAdd(name, login, options), '', { noPassword: true }, SOON],
    'login of userAdd': [(password) => auth.userAdd('', { password }, SOON), 'x'],
    userChangePassword: [(name, password, options) => auth.userChangePassword(name, password, options), key, 'x', SOON],
    userGrantRole: [(user, role, options) => auth.userGrantRole(user, role, options), key, key, SOON],
    roleGrantPermission: [
      (role, access, keys, options) => auth.roleGrantPermission(role, access, keys, options),
      key,
      'read',
      key,
      SOON,
    ],
    roleRevokePermission: [(role, keys, options) => auth.roleRevokePermission(role, keys, options), key, key, SOON],
    memberAdd: [(urls) => cluster.memberAdd(urls, SOON), []],
    memberUpdate: [(id, urls, options) => cluster.memberUpdate(id, urls, options), 1n, ['http://a:1'], SOON],
    status: [(endpoint, options) => maintenance.status(endpoint, options), ENDPOINT, SOON],
    hashKV: [(endpoint, revision, options) => maintenance.hashKV(endpoint, revision, options), ENDPOINT, 0n, SOON],
    snapshot: [(endpoint, options) => maintenance.snapshot(endpoint, options), ENDPOINT, SOON],
    disarm: [(alarm, options) => maintenance.disarm(alarm, options), { memberId: 1n, alarm: 'corrupt' }, SOON],
    'alarm of disarm': [(memberId, alarm) => maintenance.disarm({ memberId, alarm }, SOON), 1n, 'corrupt'],
    downgrade: [(action, version, options) => maintenance.downgrade(action, version, options), 'cancel', '', SOON],
    moveLeader: [(id, options) => maintenance.moveLeader(id, options), 1n, SOON],
    'raw lock': [(name, id, options) => raw.lock.lock({ name, lease: id }, options), Buffer.from(key), 1n, SOON],
    'raw campaign': [
      (name, id, value, options) => raw.election.campaign({ name, lease: id, value }, options),
      Buffer.from(key),
      1n,
      Buffer.from('x'),
      SOON,
    ],
    'raw put': [
      (name, value, id, options) => raw.kv.put({ key: name, value, lease: id }, options),
      Buffer.from(key),
      Buffer.from('x'),
      0n,
      SOON,
    ],
    'raw message': [(message, options) => raw.kv.range(message, options), { key: Buffer.from(key) }, SOON],
    'raw stream': [
      (message) => raw.watch.watch().send(message),
      { requestUnion: { case: 'progressRequest', value: {} } },
    ],
    'Session.open': [
      (ttl, id, options) => Session.open(etcd, { ttl, lease: id, ...(options as object) }).then((each) => each.close()),
      60,
      undefined,
      SOON,
    ],
    Mutex: [(name, options) => new Mutex(session, name).lock(options).then((held) => held.release()), key, WAIT],
    release: [async (options) => (await new Mutex(session, unique()).lock(WAIT)).release(options), SOON],
    'held.txn': [async (txn, options) => (await new Mutex(session, unique()).lock(WAIT)).txn(txn, options), {}, SOON],
    ReentrantMutex: [
      (name = unique(), owner, options) =>
        new ReentrantMutex(session, name).lock(owner, options).then((held) => held.release()),
      undefined,
      'owner',
      WAIT,
    ],
    RWMutex: [
      (name = unique(), options) => new RWMutex(session, name).lock(options).then((held) => held.release()),
      undefined,
      WAIT,
    ],
    Semaphore: [
      (name = unique(), permits, options) =>
        new Semaphore(session, name, permits).acquire(options).then((held) => held.release()),
      undefined,
      2,
      WAIT,
    ],
    Election: [
      (name, value, options) => new Election(session, name).campaign(value, options).then((held) => held.resign()),
      key,
      'x',
      WAIT,
    ],
    resume: [(token, options) => new Election(session, unique()).resume(token, options), 1n, WAIT],
    Barrier: [(name = unique(), options) => new Barrier(etcd, name).wait(options), undefined, WAIT],
    DoubleBarrier: [
      (name = unique(), count, options) => new DoubleBarrier(session, name, count).enter(options),
      undefined,
      1,
      WAIT,
    ],
    Queue: [(name, value, options) => new Queue(etcd, name).enqueue(value, options), unique(), 'x', SOON],
    PriorityQueue: [
      (name, value, priority) => new PriorityQueue(etcd, name).enqueue(value, priority, SOON),
      unique(),
      'x',
      1,
    ],
    stm: [
      (apply, isolation, maxAttempts) => stm(etcd, { isolation, maxAttempts, ...WAIT }, apply),
      () => {},
      'serializable',
      1,
    ],
    'stm transaction': [(name, value) => stm(etcd, WAIT, (tx) => tx.put(name, value)), key, 'x'],
    withLock: [(name, action, ttl) => withLock(etcd, name, { ttl, ...WAIT }, action), key, () => {}, 60],
    SelfHealingSession: [
      async (ttl, name, value) => {
        const healing = await SelfHealingSession.open(etcd, { ttl, ...SOON });
        await healing.register(name, value, WAIT).finally(() => healing.close());
      },
      60,
      key,
      'x',
    ],
    Service: [
      (target, id, endpoint) => new Service(etcd, target).register(session, id, endpoint, SOON),
      unique(),
      'id',
      { address: 'a' },
    ],
  };
}

function compare(target: unknown, operator: unknown, operand: unknown): Compare {
  return { target, operator, operand, keys: 'k' } as never;
}

test('the error of a function that refuses an argument does not contain the value of the argument', {
  timeout: 300_000,
}, async () => {
  const etcd = openClient();
  const session = await Session.open(etcd, { ttl: 60 });
  let refused = 0;
  for (const [name, [call, ...right]] of Object.entries(callsOf(etcd, session))) {
    for (const [index] of right.entries()) {
      for (const [what, value] of WRONG) {
        const given = right.with(index, value) as never[];
        try {
          await within(1_000, async () => call(...given));
        } catch (error) {
          refused += 1;
          expect(error, `${name}, argument ${index}: ${what}`).toBeInstanceOf(Error);
          expectNoCanary(error);
        }
      }
    }
  }
  expectNoCanary(etcd);
  expect(refused).toBeGreaterThan(700);
});

/** Runs `action` and waits at most `ms` for it. A call that waits longer by design did not refuse its argument. */
async function within(ms: number, action: () => Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([action(), late]).finally(() => clearTimeout(timer));
}
