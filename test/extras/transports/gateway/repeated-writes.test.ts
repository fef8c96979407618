import { describe, expect, onTestFinished, test } from 'vitest';
import { repeatEffectOf } from '../../../../src/extras/transports/gateway/rpcs.js';
import { allMethods } from '../../../../src/extras/transports/json/method-table.js';
import { type GatewayOptions, gateway } from '../../../../src/gateway.js';
import { methods } from '../../../../src/gen/methods.js';
import { type Client, compare, EtcdError, type KeyRange, keyRange, op, prefix } from '../../../../src/index.js';
import { Election, Mutex, Session, withLock } from '../../../../src/locks.js';
import { stm } from '../../../../src/recipes.js';
import { authEtcd, USER } from '../../../support/auth-etcd.js';
import { openClient, unique } from '../../../support/client.js';
import { errorOf } from '../../../support/errors.js';
import { openGateway } from '../../../support/gateway.js';
import { ownEtcd } from '../../../support/own-etcd.js';
import { RESENDINGS, type Resending, ResendingFetch } from '../../../support/resending-fetch.js';

// Some runtimes resend HTTP requests by themselves. With the option `guardWrites`, the gateway transport guards each
// write: it sends the write in a transaction that checks and changes a guard key, so that a second copy of the
// transaction has no effect.

const GUARDS = prefix('etcdwire/guards/');

interface Opened {
  readonly etcd: Client;
  readonly host: ResendingFetch;
}

/** Opens a client with guarded writes on a simulated runtime (`host`) that resends requests. */
function resending(
  how: Resending,
  options: GatewayOptions = {},
  client: Parameters<typeof openGateway>[0] = {},
): Opened {
  const host = new ResendingFetch(how);
  const transport = gateway({ guardWrites: true, ...options, fetch: host.fetch });
  return { etcd: openGateway({ transport, ...client }), host };
}

/**
 * Returns the values that keys with the prefix had since revision `from`, in order. A deletion appears as undefined.
 */
async function history(name: string, from: bigint): Promise<(string | undefined)[]> {
  const etcd = openClient();
  const values: (string | undefined)[] = [];
  const last = `${name}~`;
  const watch = etcd.watch(prefix(name), { startRevision: from });
  await etcd.put(last, '');
  for await (const event of watch) {
    if (event.key === last) return values;
    values.push(event.type === 'put' ? event.kv.text() : undefined);
  }
  throw new Error('the watch ended');
}

async function revision(): Promise<bigint> {
  return (await openClient().range('k', { countOnly: true })).header.revision + 1n;
}

/** Resolves with the error of the write, whose outcome must be unknown, or with undefined if the write succeeds. */
async function attempted(writing: Promise<unknown>): Promise<EtcdError | undefined> {
  const error = await writing.then(
    () => undefined,
    (reason: EtcdError) => reason,
  );
  if (error !== undefined) expect(error).toMatchObject({ outcome: 'unknown', reason: 'ConnectionLost' });
  return error;
}

const WRITES: readonly [what: string, write: (etcd: Client, key: string) => Promise<unknown>, value?: string][] = [
  ['a put', (etcd, key) => etcd.put(key, 'mine'), 'mine'],
  ['a put that asks for the previous value', (etcd, key) => etcd.put(key, 'mine', { prevKv: true }), 'mine'],
  ['a deletion', (etcd, key) => etcd.delete(key)],
  ['a transaction', (etcd, key) => etcd.txn({ then: [op.put(key, 'mine')] }), 'mine'],
  [
    'a nested transaction',
    (etcd, key) =>
      etcd.txn({ if: [compare.version('none', '>', 0n)], else: [op.txn({ then: [op.put(key, 'mine')] })] }),
    'mine',
  ],
];

// Rule S42 (docs/semantics.md): a runtime that repeats requests does not cause a second write.
describe.each(RESENDINGS)('on a runtime that sends each request twice (%s)', (how) => {
  test.each(WRITES)('%s is applied once', async (_, write, value) => {
    const key = unique();
    await openClient().put(key, 'before');
    const from = await revision();
    const { etcd, host } = resending(how);
    let others = 0;
    host.key = key;
    host.meanwhile = async () => {
      others += 1;
      // A read of the key may follow, to find out the result.
      if (others === 1) await openClient().put(key, 'theirs');
    };
    await attempted(write(etcd, key));
    if (how === 'late') {
      await openClient().put(key, 'theirs');
      await host.sendLate();
    }
    const theirs = others > 0 || how === 'late' ? ['theirs'] : [];
    expect(await history(key, from)).toEqual([value, ...theirs]);
  });

  test('two increments of a counter with `stm` add 2', async () => {
    const key = unique();
    const { etcd, host } = resending(how);
    for (let count = 0; count < 2; count += 1)
      await attempted(stm(etcd, async (tx) => tx.put(key, String(Number((await tx.text(key)) ?? 0) + 1))));
    await host.sendLate();
    expect((await openClient().get(key))?.text()).toBe('2');
  });

  test('a lease with a random or a given ID is granted only once, and a revoked lease stays revoked', async () => {
    const { etcd, host } = resending(how);
    const granted = await etcd.lease.grant({ ttl: 60 });
    const raw = await etcd.raw.lease.leaseGrant({ ttl: 60n });
    expect(raw).toMatchObject({ ttl: 60n, error: '' });
    expect(raw.header?.revision).toBeGreaterThan(0n);
    const key = unique();
    await attempted(etcd.put(key, 'leased', { lease: granted.id }));
    const [existing, own] = [await openClient().lease.grant({ ttl: 60 }), 987_654_321n + (await revision())];
    // The refusal may be the response to a second copy of the grant request.
    expect(await errorOf(etcd.lease.grant({ ttl: 60, id: existing.id }))).toMatchObject({
      reason: 'LeaseExist',
      outcome: 'unknown',
    });
    const byOwnId = await etcd.lease.grant({ ttl: 60, id: own }).catch((error: EtcdError) => error);
    if (byOwnId instanceof EtcdError) expect(byOwnId).toMatchObject({ reason: 'LeaseExist', outcome: 'unknown' });
    else expect(how).toMatch(/late|both/);
    for (const id of [granted.id, raw.id, own]) {
      const revoked = await etcd.lease.revoke(id).catch((error: EtcdError) => error);
      // The refusal may be the response to a second copy of the revoke request.
      if (revoked instanceof EtcdError) expect(revoked).toMatchObject({ reason: 'LeaseNotFound', outcome: 'unknown' });
      else expect(how).toMatch(/late|both/);
      expect((await openClient().lease.timeToLive(id)).remainingTtl).toBeUndefined();
    }
    expect(await openClient().get(key)).toBeUndefined();
    await host.sendLate();
    expect(await openClient().get(key)).toBeUndefined();
  });
});

describe('without a guard, on a runtime that sends each request twice', () => {
  test('a put overwrites a value that another client wrote between the two copies of the request', async () => {
    const key = unique();
    const from = await revision();
    const { etcd, host } = resending('after another write', { guardWrites: false });
    host.key = key;
    host.meanwhile = () => openClient().put(key, 'theirs');
    await etcd.put(key, 'mine');
    expect(await history(key, from)).toEqual(['mine', 'theirs', 'mine']);
  });

  test('two increments of a counter add 3, because one increment is applied twice', async () => {
    const key = unique();
    const { etcd, host } = resending('at once', { guardWrites: false });
    host.resends = (url) => {
      const isFirst = url.endsWith('/kv/txn');
      if (isFirst) host.resends = () => false;
      return isFirst;
    };
    for (let count = 0; count < 2; count += 1)
      await stm(etcd, async (tx) => tx.put(key, String(Number((await tx.text(key)) ?? 0) + 1)));
    expect((await openClient().get(key))?.text()).toBe('3');
  });
});

describe('on a runtime that may resend requests', () => {
  const once = (): ResendingFetch => {
    const host = new ResendingFetch('at once');
    host.resends = () => false;
    return host;
  };
  const guarded = (options: GatewayOptions = {}, client: Parameters<typeof openGateway>[0] = {}): Client =>
    openGateway({ transport: gateway({ guardWrites: true, fetch: once().fetch, ...options }), ...client });

  test('a guarded write resolves with the same response as a write without a guard', async () => {
    const [etcd, plain] = [guarded(), openClient()];
    const [key, other] = [unique(), unique()];
    const run = async (client: Client, name: string): Promise<unknown> => {
      const answers = [
        await client.put(`${name}/a`, '1'),
        await client.put(`${name}/a`, '2', { prevKv: true }),
        await client.put(`${name}/b`, '3'),
        await client.delete(prefix(`${name}/`), { prevKv: true }),
        await client.delete(`${name}/a`),
        await client.txn({
          if: [compare.version(`${name}/a`, '==', 0n)],
          then: [op.put(`${name}/a`, '4'), op.get(`${name}/a`), op.txn({ then: [op.put(`${name}/c`, '5')] })],
        }),
        await client.txn({
          if: [compare.version(`${name}/a`, '==', 0n)],
          then: [op.put(`${name}/a`, '6')],
          else: [op.range(prefix(`${name}/`))],
        }),
      ];
      // Replace revisions and keys, because they differ from run to run.
      return JSON.parse(
        JSON.stringify(answers, (field, value) => {
          if (/[rR]evision$/.test(field) || field === 'raftTerm') return typeof value;
          return typeof value === 'bigint' ? String(value) : value instanceof Uint8Array ? 'bytes' : value;
        }).replaceAll(name, 'name'),
      );
    };
    expect(await run(etcd, key)).toEqual(await run(plain, other));
    const { header } = await etcd.put(key, 'v');
    expect((await plain.get(key))?.modRevision).toBe(header.revision);
  });

  test('a put whose first response is lost resolves with the revision at which etcd applied the put', async () => {
    const key = unique();
    const { etcd, host } = resending('after another write');
    host.key = key;
    host.meanwhile = () => openClient().put(key, 'theirs');
    const { header } = await etcd.put(key, 'mine');
    const { createRevision, modRevision } = (await openClient().get(key)) ?? {};
    expect(header.revision).toBe(createRevision);
    expect(modRevision).toBeGreaterThan(header.revision);
  });

  test.each(WRITES)(
    'when the first response to %s is lost, the call still resolves with its result',
    async (_, write) => {
      const key = unique();
      await openClient().put(key, 'before');
      const [lost, plain] = [resending('at once').etcd, openClient()];
      const withoutRevisions = (result: unknown): string =>
        JSON.stringify(result, (field, value) =>
          /^(?:header|.*[rR]evision|key)$/.test(field) ? undefined : String(value),
        );
      const result = await write(lost, key);
      await plain.put(key, 'before');
      expect(withoutRevisions(result)).toBe(withoutRevisions(await write(plain, key)));
    },
  );

  test('a lock has only one holder at a time', async () => {
    const name = unique('lock');
    let [inside, holds] = [0, 0];
    const contend = async (etcd: Client): Promise<void> => {
      for (let count = 0; count < 4; ) {
        const held = await withLock(etcd, name, async () => {
          expect(++inside).toBe(1);
          await openClient().get(name);
          inside -= 1;
          holds += 1;
        }).then(
          () => true,
          (error: EtcdError) => expect(error).toMatchObject({ outcome: 'unknown' }),
        );
        if (held !== undefined) count += 1;
      }
    };
    const late = Array.from({ length: 3 }, () => resending('late'));
    const replaying = setInterval(() => late.map(({ host }) => host.sendLate()), 20);
    onTestFinished(() => clearInterval(replaying));
    await Promise.all([...late.map(({ etcd }) => contend(etcd)), contend(openClient())]);
    expect(holds).toBe(16);
  });

  test("late copies of requests undo neither a leader's latest proclaimed value nor the leader's resignation", async () => {
    const name = unique('election');
    const { etcd, host } = resending('late');
    const session = await Session.open(etcd, { ttl: 10 });
    const election = new Election(session, name);
    const leadership = await election.campaign('first');
    await leadership.proclaim('second');
    await leadership.proclaim('third');
    await host.sendLate();
    expect((await election.leader())?.text()).toBe('third');
    await leadership.resign();
    await host.sendLate();
    expect(await election.leader()).toBeUndefined();
    await session.close();
  });

  test('a late copy of a request does not acquire a released lock again', async () => {
    const name = unique('lock');
    const { etcd, host } = resending('late');
    const session = await Session.open(etcd, { ttl: 10 });
    const held = await new Mutex(session, name).lock();
    await held.release();
    await host.sendLate();
    expect((await openClient().range(prefix(name))).kvs).toHaveLength(0);
    await session.close();
  });

  test.each([
    ['the second copy', false],
    ['all requests until the client has a new token', true],
  ])(
    'a write is applied once when, after the first copy, the server forgets the token and refuses %s',
    async (_, all) => {
      const { endpoints } = await authEtcd();
      let isArmed = false;
      let isForgotten = false;
      const transport = gateway({
        guardWrites: true,
        fetch: async (url, init) => {
          if (isArmed && url.endsWith('/kv/txn')) {
            isArmed = false;
            isForgotten = true;
            await (await fetch(url, init)).text();
          }
          const forgets = isForgotten && !url.endsWith('/auth/authenticate');
          if (!forgets || !all) isForgotten = false;
          const headers = forgets ? { ...(init.headers as object), authorization: 'forgotten.1' } : init.headers;
          return fetch(url, { ...init, headers: headers as Record<string, string> });
        },
      });
      const etcd = openGateway({ endpoints, auth: USER, transport, guardPrefix: 'app/guards/' });
      await etcd.put('app/k', 'first');
      isArmed = true;
      await etcd.put('app/k', 'second');
      expect(isArmed).toBe(false);
      expect((await openClient({ endpoints, auth: USER }).get('app/k'))?.version).toBe(2n);
    },
  );

  test('a write is applied with a new token when the previous token has expired', async () => {
    const { endpoints } = await authEtcd();
    const headers: { authorization?: string } = {};
    const transport = gateway({
      guardWrites: true,
      fetch: (url, init) => {
        if (url.endsWith('/auth/authenticate')) delete headers.authorization;
        const given = { ...(init.headers as Record<string, string>), ...headers };
        return fetch(url, { ...init, headers: given });
      },
    });
    const etcd = openGateway({ endpoints, auth: USER, transport, guardPrefix: 'app/guards/' });
    await etcd.put('app/k', 'first');
    headers.authorization = 'expired.1';
    await etcd.put('app/k', 'second');
    expect((await etcd.get('app/k'))?.version).toBe(2n);
  });

  test('a write rejects with outcome rejected when the server refuses it, and the next write reuses the same guard', async () => {
    const { endpoints, root } = await authEtcd();
    const etcd = guarded({}, { endpoints, auth: USER, guardPrefix: 'app/guards/' });
    for (let count = 0; count < 3; count += 1) {
      expect(await errorOf(etcd.put('other', ''))).toMatchObject({ reason: 'PermissionDenied', outcome: 'rejected' });
      expect(await errorOf(etcd.put('app/k', '', { lease: 5n }))).toMatchObject({
        reason: 'LeaseNotFound',
        outcome: 'rejected',
      });
      await etcd.put('app/k', '');
    }
    expect((await root.range(prefix('app/guards/'))).count).toBe(1);
  });

  test('a write rejects with an error that names the missing permission when the user may not write guard keys', async () => {
    const { endpoints } = await authEtcd();
    const etcd = guarded({}, { endpoints, auth: USER, guardPrefix: 'others/' });
    const error = await errorOf(etcd.put('app/k', 'v'));
    expect(error).toMatchObject({ reason: 'PermissionDenied', outcome: 'not-sent' });
    expect(error.message).toMatch(/grant readwrite on the prefix "others\/"/);
  });

  test('guards have a lease, are in the namespace of the write, and are reused', async () => {
    const { endpoints } = await ownEtcd();
    const plain = openClient({ endpoints });
    const etcd = guarded({}, { endpoints }).namespace('space/');
    for (let count = 0; count < 5; count += 1) await etcd.put('k', String(count));
    const { kvs } = await plain.range(prefix(''));
    expect(kvs.map((kv) => kv.key.replace(/[0-9a-z-]+\/0$/, '*'))).toEqual(['space/etcdwire/guards/*', 'space/k']);
    const { grantedTtl } = await plain.lease.timeToLive(kvs[0]?.lease ?? 0n);
    expect(grantedTtl).toBe(600);
  });

  test('a write that deletes the guard keys is applied once, and later writes succeed', async () => {
    const { endpoints } = await ownEtcd();
    const etcd = guarded({}, { endpoints });
    const all = prefix('');
    await Promise.all(['a', 'b', 'c'].map((key) => etcd.put(key, '')));
    // The deleted keys include the guard keys.
    expect((await etcd.delete(all)).deleted).toBeGreaterThan(3);
    await etcd.put('a', '');
    const result = await etcd
      .txn({
        if: [compare.version('a', '==', 1n)],
        then: [op.delete(all), op.put('z', '')],
        else: [op.put('x', '')],
      })
      .catch((error: EtcdError) => error);
    // The server refuses a transaction that puts a key in a range that it deletes.
    expect(result).toMatchObject({ reason: 'InvalidInput' });
    const removed = await etcd.txn({
      if: [compare.version('a', '==', 1n)],
      then: [op.delete(all)],
      else: [op.put('x', '')],
    });
    expect(removed.succeeded).toBe(true);
    expect(removed.responses).toHaveLength(1);
    const kept = await etcd.txn({
      if: [compare.version('a', '==', 1n)],
      then: [op.delete(all)],
      else: [op.put('x', '')],
    });
    expect(kept).toMatchObject({ succeeded: false });
    expect(kept.responses).toHaveLength(1);
    await etcd.put('b', '');
    expect((await etcd.range(keysBelow('e'))).count).toBe(1);
    await etcd.txn({ then: [op.txn({ then: [op.delete(all)] })] });
    expect((await etcd.range(all)).count).toBe(0);
    const nested = [op.txn({ then: [op.delete(all)] }), op.txn({ then: [op.delete('x')] })];
    expect(await errorOf(etcd.txn({ then: nested }))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  });

  test('writes use new guards when another client has deleted all guards', async () => {
    const { endpoints } = await ownEtcd();
    const etcd = guarded({}, { endpoints });
    await Promise.all(['a', 'b', 'c'].map((key) => etcd.put(key, '')));
    await openClient({ endpoints }).delete(GUARDS);
    for (const key of ['a', 'b', 'c', 'd']) await etcd.put(key, '');
  });

  test('a guarded transaction may have one operation fewer than `maxTxnOps`', async () => {
    const etcd = guarded();
    const puts = (count: number, name: string): ReturnType<typeof op.put>[] =>
      Array.from({ length: count }, (_, index) => op.put(`${name}/${index}`, ''));
    expect((await etcd.txn({ then: puts(127, unique()) })).succeeded).toBe(true);
    const error = await errorOf(etcd.txn({ then: puts(128, unique()) }));
    expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    expect(error.message).toMatch(/128 operations.*at most 127.*maxTxnOps/);
    const small = guarded({}, { maxTxnOps: 1 });
    expect(await errorOf(small.put(unique(), ''))).toMatchObject({ reason: 'InvalidInput' });
  });

  test('a cluster that has no space left refuses a guarded deletion, but applies a deletion without a guard', async () => {
    const { endpoints } = await ownEtcd();
    const [etcd, plain] = [guarded({}, { endpoints }), openClient({ endpoints })];
    await etcd.put('k', '');
    const { memberId = 0n } = (await plain.raw.maintenance.status({})).header ?? {};
    await plain.raw.maintenance.alarm({ action: 1, alarm: 1, memberId });
    expect(await errorOf(etcd.delete('k'))).toMatchObject({ reason: 'NoSpace', outcome: 'unknown' });
    expect((await plain.delete('k')).deleted).toBe(1);
  });

  test('a write rejects with outcome unknown when the connection is refused, because an earlier copy may have arrived', async () => {
    let refuses = false;
    const etcd = guarded({
      fetch: (url, init) => {
        const code = 'ECONNREFUSED';
        if (refuses) throw new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) });
        return fetch(url, init);
      },
    });
    await etcd.put(unique(), '');
    refuses = true;
    expect(await errorOf(etcd.put(unique(), '', { timeoutMs: 500 }))).toMatchObject({ outcome: 'unknown' });
  });

  test('a call whose second copy would take effect again rejects with NotInGateway unless `allowRepeatedWrites` is set', async () => {
    const { endpoints } = await ownEtcd();
    const etcd = guarded({}, { endpoints });
    const error = await errorOf(etcd.auth.userAdd('user', { password: 'secret' }));
    expect(error).toMatchObject({ reason: 'NotInGateway', outcome: 'not-sent', code: 'Unimplemented' });
    expect(error.message).toMatch(/allowRepeatedWrites/);
    expect((await etcd.auth.userList()).users).toEqual([]);
    const { etcd: allowed } = resending('at once', { allowRepeatedWrites: true }, { endpoints });
    expect(await errorOf(allowed.auth.userAdd('user', { password: 'secret' }))).toMatchObject({
      reason: 'UserAlreadyExist',
      outcome: 'unknown',
    });
    expect((await etcd.auth.userList()).users).toEqual(['user']);
    expect(await etcd.maintenance.alarms()).toBeDefined();
    expect(await errorOf(etcd.raw.maintenance.alarm({ action: 2 }))).toMatchObject({ reason: 'NotInGateway' });
  });
});

test('`repeatEffectOf` classifies, for the request of every RPC, the effect of a second copy', () => {
  const empty = { success: [], failure: [], action: 0 };
  const counts: Record<string, number> = {};
  for (const method of allMethods) {
    const repetition = repeatEffectOf(method, empty);
    counts[repetition] = (counts[repetition] ?? 0) + 1;
  }
  expect(allMethods).toHaveLength(49);
  // An empty transaction, a request for the list of alarms and the validation of a downgrade write nothing.
  expect(counts).toEqual({ harmless: 23, guarded: 2, spent: 6, harmful: 18 });
  for (const method of allMethods) if (method.repeatable) expect(repeatEffectOf(method, empty)).toBe('harmless');
  expect(repeatEffectOf({ path: '/etcdserverpb.KV/Future' }, {})).toBe('harmful');
  expect(repeatEffectOf(methods.maintenance.alarm, { action: 1 })).toBe('harmful');
});

function keysBelow(end: string): KeyRange {
  return keyRange('\u0000', end);
}
