import { expect, inject, test } from 'vitest';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import { type Client, compare, EtcdError, op, prefix } from '../../src/index.js';
import { Election, type Held, Mutex, SelfHealingSession, Semaphore, Session, withLock } from '../../src/locks.js';
import { Barrier, DoubleBarrier, Queue, stm } from '../../src/recipes.js';
import type { FaultProxy } from '../../src/testing/index.js';
import { authEtcd, ROOT, USER } from '../support/auth-etcd.js';
import { canary, expectNoCanary, plant, watchOutput } from '../support/canaries.js';
import { openClient, unique } from '../support/client.js';
import { faultProxy } from '../support/fault-proxy.js';
import { ownEtcd } from '../support/own-etcd.js';

// These tests make calls fail, at the server or on the way to the server. No error may contain a value, a password or a
// token, and only an error with reason `PermissionDenied` may contain keys. The tests use canaries, which are unique
// secret texts, and search the errors for the canaries.

watchOutput();

plant(ROOT.password);
plant(USER.password);
const PASSWORD = canary('password');
const TOKEN = canary('token');
const VALUE = canary('value');
/** The only key that the user may read and write. */
const KEY = `app/${canary('key')}`;
const OTHER_KEY = canary('other-key');
/** The keys of calls that the server denies. The errors may contain them. */
const [FORBIDDEN, PERMITTED] = [unique(), `app/${unique()}`];
const LOCK = canary('lock');
const ENDPOINT = inject('endpoints')[0] as string;

const SOON = { timeoutMs: 1_000 } as const;
const WAIT = { maxWaitMs: 1_000 } as const;
const WRONG_LEADER = { name: Buffer.from(LOCK), key: Buffer.from(FORBIDDEN), rev: 1n, lease: 1n };

type Calls = Readonly<
  Record<string, (etcd: Client, context: { readonly root: Client; readonly lease: bigint }) => unknown>
>;

/** Calls that the user has no permission for. */
const FORBIDDEN_CALLS: Calls = {
  get: (etcd) => etcd.get(FORBIDDEN),
  range: (etcd) => etcd.range(prefix(FORBIDDEN)),
  scan: (etcd) => etcd.scan(prefix(FORBIDDEN)).next(),
  put: (etcd) => etcd.put(FORBIDDEN, VALUE),
  delete: (etcd) => etcd.delete(prefix(FORBIDDEN), { prevKv: true }),
  txn: (etcd) =>
    etcd.txn({ if: [compare.value(PERMITTED, '==', VALUE)], else: [op.put(FORBIDDEN, VALUE), op.get(PERMITTED)] }),
  compact: (etcd) => etcd.compact(1n),
  watch: (etcd) => etcd.watch(FORBIDDEN, { prevKv: true }).created(),
  mirror: (etcd) => etcd.mirror(prefix(FORBIDDEN))[Symbol.asyncIterator]().next(),
  cachedRange: (etcd) => etcd.cachedRange(prefix(FORBIDDEN)),
  namespace: (etcd) => etcd.namespace(FORBIDDEN).put(PERMITTED, VALUE),
  'watch of a namespace': (etcd) => etcd.namespace(FORBIDDEN).watch(PERMITTED).created(),
  'lease with keys': (etcd, { lease }) => etcd.lease.revoke(lease),
  'keys of a lease': (etcd, { lease }) => etcd.lease.timeToLive(lease, { keys: true }),
  'keepAlive of a lease with keys': (etcd, { lease }) => etcd.lease.keepAlive(lease).renewed(),
  'keepAliveOnce of a lease with keys': (etcd, { lease }) => etcd.lease.keepAliveOnce(lease),
  'put of an unknown lease': (etcd) => etcd.put(PERMITTED, VALUE, { lease: 12_345n }),
  userAdd: (etcd) => etcd.auth.userAdd('u', { password: PASSWORD }),
  userChangePassword: (etcd) => etcd.auth.userChangePassword('user', PASSWORD),
  roleGrantPermission: (etcd) => etcd.auth.roleGrantPermission('app', 'read', FORBIDDEN),
  roleRevokePermission: (etcd) => etcd.auth.roleRevokePermission('app', FORBIDDEN),
  'wrong password': (etcd) => etcd.auth.authenticate('user', PASSWORD),
  'password for a user without a password': (etcd) => etcd.auth.authenticate('nobody', PASSWORD),
  'user that already exists': (_, { root }) => root.auth.userAdd('user', { password: PASSWORD }),
  'password of a user that does not exist': (_, { root }) => root.auth.userChangePassword('u', PASSWORD),
  'permission of a role that does not exist': (_, { root }) => root.auth.roleGrantPermission('r', 'read', FORBIDDEN),
  'permission that was not granted': (_, { root }) => root.auth.roleRevokePermission('app', FORBIDDEN),
  'raw lock': (etcd, { lease }) => etcd.raw.lock.lock({ name: Buffer.from(FORBIDDEN), lease }, SOON),
  'raw unlock': (etcd) => etcd.raw.lock.unlock({ key: Buffer.from(FORBIDDEN) }),
  'raw campaign': (etcd, { lease }) =>
    etcd.raw.election.campaign({ name: Buffer.from(FORBIDDEN), lease, value: Buffer.from(VALUE) }, SOON),
  'raw proclaim': (etcd) => etcd.raw.election.proclaim({ leader: WRONG_LEADER, value: Buffer.from(VALUE) }),
  'raw resign': (etcd) => etcd.raw.election.resign({ leader: WRONG_LEADER }),
  'raw leader': (etcd) => etcd.raw.election.leader({ name: Buffer.from(FORBIDDEN) }),
  'raw put': (etcd) => etcd.raw.kv.put({ key: Buffer.from(FORBIDDEN), value: Buffer.from(VALUE) }),
  'raw put with wrong types': (etcd) => etcd.raw.kv.put({ key: FORBIDDEN as never, lease: VALUE as never }),
  'raw watch': (etcd) => {
    const stream = etcd.raw.watch.watch();
    stream.send({ requestUnion: { case: 'createRequest', value: { key: FORBIDDEN as never } } });
  },
  Mutex: async (etcd) => new Mutex(await Session.open(etcd), FORBIDDEN).lock(WAIT),
  Election: async (etcd) => new Election(await Session.open(etcd), FORBIDDEN).campaign(VALUE, WAIT),
  Queue: async (etcd) => new Queue(etcd, FORBIDDEN).enqueue(VALUE),
  Barrier: (etcd) => new Barrier(etcd, FORBIDDEN).wait(WAIT),
  stm: (etcd) => stm(etcd, (tx) => tx.put(FORBIDDEN, VALUE)),
  SelfHealingSession: async (etcd) => (await SelfHealingSession.open(etcd)).register(FORBIDDEN, VALUE, WAIT),
};

test('errors of denied or invalid calls contain no value, password or token', async () => {
  const { endpoints, root } = await authEtcd();
  await root.auth.userAdd('nobody', { noPassword: true });
  const { id: lease } = await root.lease.grant({ ttl: 600 });
  await root.put(FORBIDDEN, VALUE, { lease });
  const etcd = openClient({ endpoints, auth: USER });
  await expectFailures(FORBIDDEN_CALLS, etcd, { root, lease });
  for (const auth of [{ token: TOKEN }, { username: 'user', password: PASSWORD }] as const) {
    const stranger = openClient({ endpoints, auth: { ...auth, allowPlaintext: true } });
    await expectFailures(KEYED_CALLS, stranger, { root, lease });
  }
});

/** Calls with secret keys and values. They fail when the connection or the authentication fails. */
const KEYED_CALLS: Calls = {
  get: (etcd) => etcd.get(KEY, SOON),
  put: (etcd) => etcd.put(KEY, VALUE, SOON),
  txn: (etcd) => etcd.txn({ then: [op.put(KEY, VALUE), op.get(OTHER_KEY)] }, SOON),
  scan: (etcd) => etcd.scan(prefix(KEY), SOON).next(),
  grant: (etcd) => etcd.lease.grant({ ttl: 60, ...SOON }),
  authenticate: (etcd) => etcd.auth.authenticate('user', PASSWORD, SOON),
  'raw campaign': (etcd) =>
    etcd.raw.election.campaign({ name: Buffer.from(LOCK), lease: 1n, value: Buffer.from(VALUE) }, SOON),
  withLock: (etcd) => withLock(etcd, LOCK, WAIT, () => {}),
};

test('errors of failed connections contain no key, value, password or private key', async () => {
  const authority = await Authority.create();
  const [{ cert, key }, other] = [await authority.issue(), await authority.issue()];
  for (const line of `${key}${other.key}`.split('\n')) if (line.length === 64) plant(line);
  const swallowing = await faultProxy(ENDPOINT);
  swallowing.blackhole();
  // Drops each connection at the first bytes of the client.
  const dropping: FaultProxy = await faultProxy(ENDPOINT, { senderOf: () => void dropping.dropConnections() });
  const https = ENDPOINT.replace('http:', 'https:');
  const clients = [
    openClient({ endpoints: ['http://127.0.0.1:1'] }),
    openClient({ endpoints: [swallowing.endpoint], connectTimeoutMs: 500 }),
    openClient({ endpoints: [dropping.endpoint] }),
    openClient({ endpoints: [https], auth: { username: 'user', password: PASSWORD } }),
    openClient({ endpoints: [https], tls: { cert, key, ca: authority.cert } }),
    openClient({ endpoints: [https], tls: { cert, key: other.key } }),
  ];
  await Promise.all(
    clients.map(async (etcd) => {
      expectNoCanary(await failureOf(Session.open(etcd, SOON)));
      await expectFailures(KEYED_CALLS, etcd);
    }),
  );
  for (const tls of [{ cert, key: key.slice(0, 120) }, { cert: key, key: cert }, { ca: key }, { serverName: key }])
    expectNoCanary(await failureOf(Promise.resolve().then(() => openClient({ endpoints: [https], tls }))));
});

test('errors of rejected, timed-out and canceled calls, and of calls after `close()`, contain no key or value', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints });
  const large = VALUE.repeat(100_000);
  const { header } = await etcd.put(KEY, VALUE);
  await etcd.put(KEY, VALUE);
  await etcd.compact(header.revision + 1n);
  const closed = openClient({ endpoints });
  await closed.close();
  await expectFailures(
    {
      'a request that exceeds maxRequestBytes': () => etcd.put(KEY, large),
      "a request that exceeds the server's limit": () =>
        openClient({ endpoints, maxRequestBytes: 2 ** 30 }).put(KEY, large),
      'a response that exceeds maxReceiveBytes': () => openClient({ endpoints, maxReceiveBytes: 50 }).get(KEY),
      'a time limit that expires at once': () => etcd.put(KEY, VALUE, { timeoutMs: 1e-6 }),
      'a canceled call': () => etcd.put(KEY, VALUE, { signal: AbortSignal.abort() }),
      'a compacted revision': () => etcd.get(KEY, { revision: 1n }),
      'a watch of a compacted revision': () => etcd.watch(KEY, { startRevision: 1n }).batches().next(),
      'a future revision': () => etcd.get(KEY, { revision: 1_000_000n }),
      'a key that a transaction writes twice': () => etcd.txn({ then: [op.put(KEY, VALUE), op.put(KEY, VALUE)] }),
      'ignoreValue for a key that does not exist': () => etcd.put(OTHER_KEY, '', { ignoreValue: true }),
      'an unknown endpoint': () => etcd.get(KEY, { endpoint: 'http://127.0.0.1:1' }),
      'a closed cached range': async () => {
        const cached = await etcd.cachedRange(prefix(KEY));
        await cached.close();
        cached.get(KEY);
      },
      'a key outside a cached range': async () => (await etcd.cachedRange(prefix(KEY))).get(OTHER_KEY),
      'a closed client': () => closed.put(KEY, VALUE),
      'a watch of a closed client': () => closed.watch(KEY).created(),
    },
    etcd,
  );
  const notJson = await etcd.get(KEY);
  expect(() => notJson?.json()).toThrow(EtcdError);
  try {
    notJson?.json();
  } catch (error) {
    expectNoCanary(error);
  }
});

test('errors of locks, elections, semaphores, barriers and transactions contain no key or value', async () => {
  const etcd = openClient();
  const session = await Session.open(etcd, { ttl: 60 });
  const other = await Session.open(etcd, { ttl: 60 });
  const name = `${LOCK}/${unique()}`;
  const held = await new Mutex(session, name).lock();
  const elected = await new Election(session, `${name}/election`).campaign(VALUE);
  await new Semaphore(session, `${name}/semaphore`, 1).acquire();
  await expectFailures(
    {
      'a lock that another session holds': () => new Mutex(other, name).lock({ maxWaitMs: 1_000 }),
      'an election that another session has won': () =>
        new Election(other, `${name}/election`).campaign(VALUE, { maxWaitMs: 1_000 }),
      'resuming a leadership with another token': () =>
        new Election(session, `${name}/election`).resume(1n, { maxWaitMs: 1_000 }),
      'a semaphore without a permit': () => new Semaphore(other, `${name}/semaphore`, 1).acquire({ maxWaitMs: 1_000 }),
      'a barrier that is held': async () => {
        const barrier = new Barrier(etcd, `${name}/barrier`);
        await barrier.hold();
        await barrier.wait({ maxWaitMs: 1_000 });
      },
      'a double barrier without enough members': () =>
        new DoubleBarrier(other, `${name}/double`, 2).enter({ maxWaitMs: 1_000 }),
      'a transaction with a conflict': () =>
        stm(etcd, { maxAttempts: 2 }, async (tx) => {
          await tx.get(name);
          await etcd.put(name, VALUE);
          tx.put(name, VALUE);
        }),
      'a released lock': async () => {
        const released = await new Mutex(other, `${name}/released`).lock();
        await released.release();
        await released.txn({ then: [op.put(KEY, VALUE)] });
      },
    },
    etcd,
  );
  await etcd.delete(held.key);
  await expectLoss(held);
  expectNoCanary(await failureOf(held.txn({ then: [op.put(KEY, VALUE)] })));
  await etcd.lease.revoke(session.leaseId);
  await expect.poll(() => session.signal.aborted).toBe(true);
  expectNoCanary(session.signal.reason);
  await expectLoss(elected);
  expectNoCanary(await failureOf(elected.proclaim(VALUE)));
  expectNoCanary(await failureOf(new Mutex(session, name).lock()));
});

async function expectLoss(held: Held): Promise<void> {
  await expect.poll(() => held.signal.aborted).toBe(true);
  expect(held.signal.reason).toBeInstanceOf(EtcdError);
  expectNoCanary(held.signal.reason);
}

async function expectFailures(
  calls: Calls,
  etcd: Client,
  context: { readonly root: Client; readonly lease: bigint } = { root: etcd, lease: 1n },
): Promise<void> {
  for (const [what, call] of Object.entries(calls)) {
    const error = await failureOf((async () => call(etcd, context))(), what);
    expectNoCanary(error);
  }
  expectNoCanary(etcd);
}

/** Returns the error that the promise rejects with. Fails the test unless the promise rejects with an EtcdError. */
async function failureOf(call: Promise<unknown>, what = ''): Promise<EtcdError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error, what).toBeInstanceOf(EtcdError);
  return error as EtcdError;
}
