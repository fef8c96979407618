import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { REFUSALS } from '../../src/base/refusals.js';
import { SERVER_ERRORS } from '../../src/base/status.js';
import { GUARD_PREFIX } from '../../src/client/kv/keys.js';
import { Client } from '../../src/extras/full/client.js';
import {
  type Compare,
  CompareResult,
  CompareTarget,
  type RequestOp,
  type TxnRequest,
} from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { compare, EtcdError, type Outcome, op, prefix, type Txn } from '../../src/index.js';
import { ManualClock } from '../../src/testing/memory/clock.js';
import { MemoryEtcd } from '../../src/testing/memory/memory-etcd.js';
import { memory } from '../../src/testing/memory/transport.js';
import type { Init } from '../../src/wire/protobuf/writer.js';
import { errorOf } from '../support/errors.js';
import { iterations } from '../support/thorough.js';

// A refusal with outcome `rejected` proves that the request had no effect at any member. In these tests, one member of
// three receives a request, and the state of each member is compared before and after a refusal.

const SEED = 20_270;
/** A compacted revision, and a revision that the store does not reach. */
const [COMPACTED, FUTURE] = [2n, 1_000_000n];
const [LEASE, UNKNOWN_LEASE] = [7n, 99n];
const APP = { username: 'app', password: 'app-secret', allowPlaintext: true } as const;
const ROOT = { username: 'root', password: 'root-secret', allowPlaintext: true } as const;

type Version = NonNullable<ConstructorParameters<typeof MemoryEtcd>[0]>['version'];

/** Starts a cluster whose user `app` may read and write the keys under `rw/`, and only write the keys under `w/`. */
async function world(version: Version = '3.6') {
  const server = new MemoryEtcd({ members: 3, clock: new ManualClock(), version });
  onTestFinished(() => server.stop());
  const [receiver] = server.members;
  const open = (options: object): Client => {
    const client = new Client({ transport: memory(receiver as NonNullable<typeof receiver>), ...options });
    onTestFinished(() => client.close());
    return client;
  };
  const setUp = open({});
  for (const value of ['1', '2', '3']) await setUp.put('rw/a', value);
  await setUp.compact(COMPACTED + 1n);
  await setUp.auth.userAdd(ROOT.username, { password: ROOT.password });
  await setUp.auth.roleAdd('root');
  await setUp.auth.userGrantRole('root', 'root');
  await setUp.auth.roleAdd('app');
  await setUp.auth.roleGrantPermission('app', 'readwrite', prefix('rw/'));
  await setUp.auth.roleGrantPermission('app', 'readwrite', prefix(GUARD_PREFIX));
  await setUp.auth.roleGrantPermission('app', 'write', prefix('w/'));
  // The user may put one queue key, and read this key only.
  await setUp.auth.roleGrantPermission('app', 'readwrite', `queue/${LEASE.toString(16)}`);
  await setUp.auth.userAdd(APP.username, { password: APP.password });
  await setUp.auth.userGrantRole(APP.username, 'app');
  await setUp.auth.enable();
  /** Resolves when all members have applied the same entries of the log. */
  const settle = (): Promise<void> =>
    expect.poll(() => new Set(server.members.map(({ state }) => state.raftIndex)).size, { interval: 1 }).toBe(1);
  /** Returns what the requests of these tests can change at each member. */
  const states = async (): Promise<string[]> => {
    await settle();
    return server.members.map(({ state: { store, leases, auth, membership } }) =>
      [store.revision, store.compacted, leases.ids, auth.store.revision, membership.list().length].join(),
    );
  };
  return { server, app: open({ auth: APP }), root: open({ auth: ROOT }), open, states };
}

/** Makes a call. Returns the outcome of its refusal, and which members have changed their state. */
async function effectOf(
  { states }: Awaited<ReturnType<typeof world>>,
  action: () => Promise<unknown>,
): Promise<{ readonly refusal: EtcdError | undefined; readonly changed: readonly boolean[] }> {
  const before = await states();
  const refusal = await action().then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof EtcdError) return error;
      throw error;
    },
  );
  const after = await states();
  return { refusal, changed: after.map((state, index) => state !== before[index]) };
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const key = fc.constantFrom('rw/a', 'rw/b', 'w/a', 'w/b', 'none').map(bytes);
const condition: fc.Arbitrary<Init<Compare>> = fc.record({
  key,
  target: fc.constant(CompareTarget.VERSION),
  result: fc.constantFrom(CompareResult.GREATER, CompareResult.LESS),
  targetUnion: fc.constant({ case: 'version', value: -1n } as const),
});
const leaf: fc.Arbitrary<Init<RequestOp>> = fc.oneof(
  fc.record({ key, revision: fc.constantFrom(0n, 0n, COMPACTED, FUTURE) }).map(requestOf('requestRange')),
  fc.record({ key, lease: fc.constantFrom(0n, 0n, 0n, UNKNOWN_LEASE) }).map(requestOf('requestPut')),
  fc.record({ key, prevKv: fc.boolean() }).map(requestOf('requestDeleteRange')),
);
const txn = (operation: fc.Arbitrary<Init<RequestOp>>): fc.Arbitrary<Init<TxnRequest>> => {
  const operations = fc.array(operation, { maxLength: 3 });
  return fc.record({ compare: fc.array(condition, { maxLength: 1 }), success: operations, failure: operations });
};
const nested = txn(leaf).map(requestOf('requestTxn'));
const transactions = txn(fc.oneof({ weight: 4, arbitrary: leaf }, { weight: 1, arbitrary: nested }));

function requestOf<Case extends NonNullable<RequestOp['request']>['case']>(name: Case) {
  return (value: object): Init<RequestOp> => ({ request: { case: name, value } as never });
}

describe('a transaction that one member of three refuses', () => {
  test.for(['3.5', '3.6', '3.7'] as const)(
    'with outcome rejected has no effect at any member, at etcd %s',
    async (version) => {
      const bench = await world(version);
      const seen = { rejected: 0, appliedByOthers: 0 };
      const property = fc.asyncProperty(transactions, async (request) => {
        const { refusal, changed } = await effectOf(bench, () => bench.app.raw.kv.txn(request));
        if (refusal === undefined) return;
        if (refusal.outcome === 'rejected') {
          seen.rejected += 1;
          expect(changed, refusal.message).toEqual([false, false, false]);
        } else if (changed.includes(true)) {
          seen.appliedByOthers += 1;
          expect(changed, refusal.message).toEqual([false, true, true]);
        }
      });
      await fc.assert(property, { seed: SEED, numRuns: iterations(1_500) });
      expect(seen.rejected).toBeGreaterThan(50);
      // etcd 3.7 has mended issue 18667.
      if (version === '3.7') expect(seen.appliedByOthers).toBe(0);
      else expect(seen.appliedByOthers).toBeGreaterThan(10);
    },
  );

  test.for<[Outcome, string, Init<TxnRequest>]>([
    ['rejected', 'it may not write', { success: [put('none')] }],
    [
      'rejected',
      'it may not write beside a read of a key of a condition',
      conditional('w/a', [put('none'), get('w/a')]),
    ],
    ['rejected', 'it may not make a nested read', { success: [put('rw/a'), nestedGet('w/a')] }],
    ['unknown', 'it may not make a read beside a write', { success: [put('rw/a'), get('w/a')] }],
    ['unknown', 'it may not make a read in one branch beside a write in the other', conditional('rw/a', [get('w/a')])],
    ['rejected', 'it makes reads only', { success: [get('w/a')] }],
  ])('has the outcome %s because %s', async ([outcome, , request]) => {
    const { app } = await world();
    expect(await errorOf(app.raw.kv.txn(request))).toMatchObject({ reason: 'PermissionDenied', outcome });
  });

  test.for([
    ['put', { then: [op.put('w/b', '1'), op.get('w/a')] }],
    ['deletion', { then: [op.get('w/a'), op.delete('w/b')] }],
    ['put under a condition', { if: [compare.exists('rw/a')], then: [op.get('w/a'), op.put('w/b', '1')] }],
  ] as const)('has no effect at any member when a guard protects its %s', async ([, request]) => {
    const bench = await world();
    const guarding = bench.open({ auth: APP, retryWrites: true });
    await bench.root.put('w/b', 'before');
    expect(await errorOf(guarding.txn(request as Txn))).toMatchObject({
      reason: 'PermissionDenied',
      outcome: 'rejected',
    });
    await bench.states();
    // The hash of all keys, also of the guards.
    const hashes = bench.server.members.map(({ state }) => state.keyHashes.at(0n).hash);
    expect(new Set(hashes).size).toBe(1);
    expect((await bench.root.get('w/b'))?.text()).toBe('before');
  });
});

function get(name: string): Init<RequestOp> {
  return requestOf('requestRange')({ key: bytes(name) });
}

function put(name: string): Init<RequestOp> {
  return requestOf('requestPut')({ key: bytes(name) });
}

function nestedGet(name: string): Init<RequestOp> {
  return requestOf('requestTxn')({ success: [get(name)] });
}

function conditional(name: string, success: Init<RequestOp>[]): Init<TxnRequest> {
  const exists = { key: bytes(name), target: CompareTarget.VERSION, result: CompareResult.GREATER };
  return { compare: [exists], success, failure: [put('rw/b')] };
}

describe('a refusal by one member of three', () => {
  const [a, w, none, queue] = ['rw/a', 'w/a', 'none', 'queue'].map(bytes) as [
    Uint8Array,
    Uint8Array,
    Uint8Array,
    Uint8Array,
  ];
  test.for<[Outcome, string, (etcd: Client) => Promise<unknown>]>([
    ['rejected', 'a put of a forbidden key', ({ raw }) => raw.kv.put({ key: none })],
    ['rejected', 'a put that returns a forbidden value', ({ raw }) => raw.kv.put({ key: w, prevKv: true })],
    ['rejected', 'a put with an unknown lease', ({ raw }) => raw.kv.put({ key: a, lease: UNKNOWN_LEASE })],
    [
      'rejected',
      'a put without a value for a missing key',
      ({ raw }) => raw.kv.put({ key: bytes('rw/x'), ignoreValue: true }),
    ],
    ['rejected', 'a deletion that returns forbidden values', ({ raw }) => raw.kv.deleteRange({ key: w, prevKv: true })],
    ['rejected', 'a compaction of a compacted revision', ({ raw }) => raw.kv.compact({ revision: COMPACTED })],
    ['rejected', 'a compaction of a future revision', ({ raw }) => raw.kv.compact({ revision: FUTURE })],
    ['rejected', 'a grant with a TTL that is too large', ({ raw }) => raw.lease.leaseGrant({ ttl: 10_000_000_000n })],
    ['rejected', 'a revocation of an unknown lease', ({ raw }) => raw.lease.leaseRevoke({ id: UNKNOWN_LEASE })],
    [
      'rejected',
      'the creation of a user by another user than root',
      ({ raw }) => raw.auth.userAdd({ name: 'x', password: 'x' }),
    ],
    ['rejected', 'a lock with an unknown lease', ({ raw }) => raw.lock.lock({ name: a, lease: UNKNOWN_LEASE })],
    ['unknown', 'a lock that may not read its queue', ({ raw }) => raw.lock.lock({ name: queue, lease: LEASE })],
    [
      'rejected',
      'a candidacy with an unknown lease',
      ({ raw }) => raw.election.campaign({ name: a, lease: UNKNOWN_LEASE }),
    ],
    [
      'unknown',
      'a candidacy that may not read its queue',
      ({ raw }) => raw.election.campaign({ name: queue, lease: LEASE }),
    ],
    [
      'rejected',
      'a value of another leader',
      ({ raw }) => raw.election.proclaim({ leader: { name: a, key: a, rev: 1n, lease: LEASE } }),
    ],
  ])('has the outcome %s if it is the refusal of %s', async ([outcome, , call]) => {
    const bench = await world();
    await bench.root.lease.grant({ ttl: 60, id: LEASE });
    const { refusal, changed } = await effectOf(bench, () => call(bench.app));
    expect([refusal?.outcome, changed.includes(true)]).toEqual([outcome, outcome === 'unknown']);
  });
});

describe('the table of refusals that prove nothing', () => {
  const paths = Object.values(methods).flatMap((service) => Object.values(service).map(({ path }) => path as string));

  test.for(Object.entries(REFUSALS))('names an RPC and reasons of etcd: %s', ([path, proofs]) => {
    expect(paths).toContain(path);
    for (const reason of [...(proofs.inconclusive ?? []), ...(proofs.conclusive ?? [])])
      expect(SERVER_ERRORS).toHaveProperty(reason);
  });
});
