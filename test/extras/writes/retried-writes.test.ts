import { describe, expect, onTestFinished, test } from 'vitest';
import { errorFromStatus } from '../../../src/base/status-error.js';
import { CoreClient } from '../../../src/client/core-client.js';
import type { RequestOp } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import {
  type Client,
  type ClientOptions,
  compare,
  createKey,
  deleteKeyIf,
  EtcdError,
  json,
  modifyKey,
  op,
  prefix,
  typed,
  updateKey,
} from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { stm } from '../../../src/recipes.js';
import { defaultTransport } from '../../../src/wire/default-transport.js';
import type { Transport, TransportFactory } from '../../../src/wire/transport.js';
import { authEtcd, USER } from '../../support/auth-etcd.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { bytesInUse } from '../../support/measure.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { answerLost, type OnTransaction, puts, stagedTransport } from '../../support/transactions.js';

// With `retryWrites`, the client repeats a write until a server answers, and the write is applied exactly once
// (rule S45 in docs/semantics.md).

/**
 * What happens to an attempt: it is sent, its answer is lost, it is lost before the server receives it, or its answer
 * has no responses. A function runs after the server has answered, and the answer is then lost.
 */
type Fate = 'sent' | 'answer lost' | 'lost' | 'garbled' | (() => Promise<unknown>);

interface Bench {
  readonly etcd: Client;
  readonly reader: Client;
  readonly name: string;
  /** Sets the fates of the next transactions. Further transactions are sent. */
  readonly suffer: (...fates: readonly Fate[]) => void;
  /** Discards the remaining fates, so that all further transactions are sent. */
  readonly recover: () => void;
  /** Sends all transactions so far again. Ignores refusals, because a refused copy changes nothing. */
  readonly sendCopies: () => Promise<void>;
  /** The number of transactions so far. */
  readonly count: () => number;
}

/** Returns a client that has written already, so that it has a guard. */
async function bench(options: Pick<ClientOptions, 'guardPrefix'> = {}): Promise<Bench> {
  const left: Fate[] = [];
  const copies: (() => Promise<unknown>)[] = [];
  const reader = openClient();
  const onTransaction: OnTransaction = async (_, send, copyFrom) => {
    copies.push(() => copyFrom(reader));
    const fate = left.shift();
    if (fate === 'lost') throw answerLost();
    const response = await send();
    if (typeof fate === 'function') await fate();
    if (fate === 'answer lost' || typeof fate === 'function') throw answerLost();
    return fate === 'garbled' ? { ...(response as object), responses: [] } : response;
  };
  const etcd = openClient({ retryWrites: true, transport: stagedTransport({ onTransaction }), ...options });
  await etcd.put(unique('first'), '');
  return {
    etcd,
    reader,
    name: unique('retried'),
    suffer: (...fates) => void left.push(...fates),
    recover: () => void left.splice(0),
    sendCopies: async () => {
      for (const copy of [...copies]) await copy().catch(() => {});
    },
    count: () => copies.length,
  };
}

describe('a write with `retryWrites` whose answer is lost', () => {
  test.for(['answer lost', 'lost'] as const)('puts the key once and returns its revision (%s)', async (fate) => {
    const { etcd, reader, name, suffer, sendCopies } = await bench();
    suffer(fate, fate);
    const { header } = await etcd.put(name, 'new');
    await sendCopies();
    expect(await reader.get(name)).toMatchObject({ version: 1n, modRevision: header.revision });
  });

  test('returns the value that the put has replaced, also if the key was changed afterwards', async () => {
    const { etcd, reader, name, suffer } = await bench();
    await reader.put(name, 'old');
    suffer('answer lost', 'lost', 'sent');
    const put = etcd.put(name, 'new', { prevKv: true });
    expect((await put).prevKv?.text()).toBe('old');
  });

  test('returns the keys that a deletion has removed, and their number', async () => {
    const { etcd, reader, name, suffer } = await bench();
    for (const index of [1, 2, 3]) await reader.put(`${name}/${index}`, String(index));
    suffer('answer lost');
    const deleted = await etcd.delete(prefix(`${name}/`), { prevKv: true });
    expect([deleted.deleted, deleted.prevKvs.map((kv) => kv.text())]).toEqual([3, ['1', '2', '3']]);
    suffer('answer lost');
    expect((await etcd.delete(prefix(`${name}/`))).deleted).toBe(0);
  });

  test('tells which branch of a transaction ran, and what its operations returned', async () => {
    const { etcd, reader, name, suffer } = await bench();
    await reader.put(`${name}/read`, 'before');
    const txn = {
      if: [compare.missing(name)],
      then: [op.get(`${name}/read`), op.put(name, '1'), op.range(prefix(`${name}/`), { countOnly: true })],
      else: [op.get(name), op.put(`${name}/else`, '2', { prevKv: true })],
    } as const;
    suffer('answer lost');
    const first = await etcd.txn(txn);
    expect(first).toMatchObject({ succeeded: true, responses: [{}, {}, { count: 1 }] });
    expect(first.succeeded && first.responses[0]?.text()).toBe('before');
    suffer('answer lost');
    const second = await etcd.txn(txn);
    expect(second).toMatchObject({ succeeded: false, responses: [{}, { prevKv: undefined }] });
    expect(await reader.get(name)).toMatchObject({ version: 1n, modRevision: first.header.revision });
  });

  test('tells that its conditions were false, and what it then read, although the conditions have become true', async () => {
    const { etcd, reader, name, suffer, count } = await bench();
    await reader.put(name, 'before');
    const attempts = count();
    suffer(() => reader.put(name, 'after'));
    const result = await etcd.txn({
      if: [compare.value(name, '==', 'after')],
      then: [op.put(name, 'then')],
      else: [op.get(name)],
    });
    expect(result.succeeded ? undefined : result.responses[0]?.text()).toBe('before');
    // The transaction, its repetition, and the read of its result.
    expect(count() - attempts).toBe(3);
  });

  test('tells the branches of nested transactions', async () => {
    const { etcd, reader, name, suffer } = await bench();
    const txn = {
      then: [
        op.txn({
          if: [compare.missing(name)],
          then: [op.put(name, '1')],
          else: [op.txn({ if: [compare.version(name, '==', 1n)], then: [op.put(name, '2', { prevKv: true })] })],
        }),
      ],
    } as const;
    suffer('answer lost');
    expect(await etcd.txn(txn)).toMatchObject({ succeeded: true, responses: [{ succeeded: true }] });
    suffer('answer lost');
    expect(await etcd.txn(txn)).toMatchObject({ responses: [{ succeeded: false, responses: [{ succeeded: true }] }] });
    suffer('answer lost');
    expect(await etcd.txn(txn)).toMatchObject({ responses: [{ succeeded: false, responses: [{ succeeded: false }] }] });
    expect(await reader.get(name)).toMatchObject({ version: 2n });
  });

  test('is applied once by `createKey`, `updateKey`, `deleteKeyIf` and `modifyKey`', async () => {
    const { etcd, reader, name, suffer } = await bench();
    suffer('answer lost');
    expect(await createKey(etcd, name, '1')).toMatchObject({ succeeded: true });
    suffer('answer lost');
    expect(await createKey(etcd, name, '2')).toMatchObject({ succeeded: false, reason: 'exists' });
    suffer('answer lost');
    expect(await updateKey(etcd, name, '2', { oldValue: '1' })).toMatchObject({ succeeded: true });
    suffer('answer lost', 'sent', 'answer lost');
    await modifyKey(etcd, name, (kv) => `${kv?.text()}!`);
    expect((await reader.get(name))?.text()).toBe('2!');
    suffer('answer lost');
    expect(await deleteKeyIf(etcd, name, { oldValue: '2!' })).toMatchObject({ succeeded: true });
    expect(await reader.get(name)).toBeUndefined();
  });

  test('is applied once by typed keys and by `stm`', async () => {
    const { etcd, reader, name, suffer } = await bench();
    const counts = typed<number>(etcd, `${name}/`, json(Number));
    suffer('answer lost');
    expect(await counts.create('a', 1)).toMatchObject({ succeeded: true });
    suffer('answer lost');
    await stm(etcd, async (tx) => tx.put(`${name}/a`, String(Number(await tx.text(`${name}/a`)) + 1)));
    expect(await reader.get(`${name}/a`)).toMatchObject({ version: 2n });
    suffer('answer lost');
    expect(await counts.delete('a')).toBe(true);
  });

  test('is applied once by `held.txn`, whose condition is that the lock is held', async () => {
    const { etcd, reader, name, suffer } = await bench();
    await using session = await Session.open(etcd, { ttl: 10 });
    await using held = await new Mutex(session, name).lock();
    suffer('answer lost');
    const result = await held.txn({
      if: [compare.missing(`${name}-count`)],
      then: [op.put(`${name}-count`, '1')],
      else: [op.get(`${name}-count`)],
    });
    expect(result.succeeded).toBe(true);
    expect(await reader.get(`${name}-count`)).toMatchObject({ version: 1n });
  });

  test('rejects with outcome `applied` and its revision when it has read a key after changing it', async () => {
    const { etcd, reader, name, suffer } = await bench();
    suffer('answer lost');
    const error = await errorOf(etcd.txn({ then: [op.put(name, '1'), op.get(name)] }));
    const kv = await reader.get(name);
    expect(error).toMatchObject({ reason: 'ResultLost', outcome: 'applied', revision: kv?.modRevision });
    expect(error.toJSON()).toMatchObject({ revision: String(kv?.modRevision) });
    expect(kv?.version).toBe(1n);
  });

  test('rejects with outcome `applied` when the branches of several nested transactions are not known', async () => {
    const { etcd, reader, name, suffer } = await bench();
    const nested = (key: string) => op.txn({ if: [compare.missing(key)], then: [op.put(key, '1')] });
    suffer('answer lost');
    const error = await errorOf(etcd.txn({ then: [nested(`${name}/a`), nested(`${name}/b`)] }));
    expect(error).toMatchObject({ reason: 'ResultLost', outcome: 'applied' });
    expect((await reader.range(prefix(`${name}/`))).kvs.map(({ version }) => version)).toEqual([1n, 1n]);
  });

  test('rejects with outcome `applied` when the answer to the read of its result does not match the read', async () => {
    const { etcd, reader, name, suffer } = await bench();
    suffer('answer lost', 'sent', 'garbled');
    const error = await errorOf(etcd.put(name, 'new', { prevKv: true }));
    expect(error).toMatchObject({ reason: 'ResultLost', outcome: 'applied' });
    expect(error.revision).toBe((await reader.get(name))?.modRevision);
  });

  test('rejects with outcome `applied` when etcd has compacted the revision before it', async () => {
    const { endpoints } = await ownEtcd();
    const reader = openClient({ endpoints });
    let isFirst = true;
    const onTransaction: OnTransaction = async (ops, send) => {
      const response = await send();
      if (!isFirst || !puts(ops, 'key')) return response;
      isFirst = false;
      const { header } = await reader.put('other', '');
      await reader.compact(header.revision);
      throw answerLost();
    };
    const etcd = openClient({ endpoints, retryWrites: true, transport: stagedTransport({ onTransaction }) });
    const error = await errorOf(etcd.put('key', 'new', { prevKv: true }));
    expect(error).toMatchObject({ reason: 'ResultLost', outcome: 'applied' });
    expect(error.cause).toMatchObject({ reason: 'Compacted' });
    expect(error.revision).toBe((await reader.get('key'))?.modRevision);
  });
});

describe('a write with `retryWrites`', () => {
  test('rejects with outcome `unknown` at its deadline, and is not applied once the client has reached a server', async () => {
    const { etcd, reader, name, suffer, sendCopies, count } = await bench();
    await etcd.put(`${name}/first`, '');
    const before = count();
    suffer(...Array.from({ length: 10_000 }, () => 'lost' as const));
    const error = await errorOf(etcd.put(name, 'late', { timeoutMs: 100 }));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
    expect(error.message).toContain('until the client changes the guard or revokes its lease, and for 600 s at most');
    expect(count()).toBeGreaterThan(before);
    await etcd.close();
    await sendCopies();
    expect(await reader.get(name)).toBeUndefined();
  });

  test('takes no memory for its value after it has rejected, while the client cannot settle it', async () => {
    const [WRITES, VALUE_BYTES] = [20, 500_000];
    const name = unique('large');
    const isSettling = ({ request }: RequestOp): boolean =>
      request?.case === 'requestPut' && Buffer.from(request.value.value).toString().endsWith('settled');
    const sent = new Set<string>();
    const onTransaction: OnTransaction = async (ops, send) => {
      const [key] = Array.from({ length: WRITES }, (_, index) => `${name}/${index}/`).filter((each) => puts(ops, each));
      if (key !== undefined) sent.add(key);
      if (key !== undefined || ops.some(isSettling)) throw answerLost();
      return send();
    };
    const etcd = openClient({ retryWrites: true, transport: stagedTransport({ onTransaction }) });
    /** Cancels puts after the client has sent each of them. */
    const putAll = async (bytes: number): Promise<void> => {
      const canceling = new AbortController();
      const { signal } = canceling;
      const errors = Array.from({ length: WRITES }, (_, index) =>
        errorOf(etcd.put(`${name}/${index}/`, new Uint8Array(bytes), { signal, timeoutMs: Number.POSITIVE_INFINITY })),
      );
      await expect.poll(() => sent.size).toBe(WRITES);
      sent.clear();
      canceling.abort();
      expect((await Promise.all(errors)).map(({ outcome }) => outcome)).toEqual(Array(WRITES).fill('unknown'));
    };
    await putAll(1);
    const before = bytesInUse();
    await putAll(VALUE_BYTES);
    expect(bytesInUse() - before).toBeLessThan((WRITES * VALUE_BYTES) / 4);
  });

  test('is not applied by a late copy after the client has reached a server again', async () => {
    const guardPrefix = `${unique('guards')}/`;
    const { etcd, reader, name, suffer, recover, sendCopies } = await bench({ guardPrefix });
    await etcd.put(`${name}/first`, '');
    suffer(...Array.from({ length: 10_000 }, () => 'lost' as const));
    expect(await errorOf(etcd.put(name, 'late', { timeoutMs: 100 }))).toMatchObject({ outcome: 'unknown' });
    recover();
    const guard = async () => (await reader.range(prefix(guardPrefix))).kvs.map((kv) => kv.text());
    await expect.poll(guard).toEqual([expect.stringMatching(/ settled$/)]);
    await sendCopies();
    expect(await reader.get(name)).toBeUndefined();
  });

  test('is not applied by a late copy after its client was closed', async () => {
    const { etcd, reader, name, sendCopies } = await bench();
    await etcd.put(name, '1');
    await etcd.close();
    await reader.delete(name);
    await sendCopies();
    expect(await reader.get(name)).toBeUndefined();
    expect((await reader.range(prefix('etcdwire/guards/'))).kvs.filter(({ lease }) => lease === 0n)).toEqual([]);
  });

  test('rejects as without the option when the server refuses it, and then nothing was written', async () => {
    const { etcd, reader, name } = await bench();
    const { id } = await reader.lease.grant({ ttl: 60 });
    await reader.lease.revoke(id);
    const error = await errorOf(etcd.put(name, '', { lease: id }));
    expect(error).toMatchObject({ reason: 'LeaseNotFound', outcome: 'rejected' });
    expect(await reader.get(name)).toBeUndefined();
    await etcd.put(name, '');
  });

  test('uses another lease for its guards when another client has revoked the lease of its guards', async () => {
    const guardPrefix = `${unique('guards')}/`;
    const { etcd, reader, name } = await bench({ guardPrefix });
    await etcd.put(`${name}/1`, '');
    const [guard] = (await reader.range(prefix(guardPrefix))).kvs;
    await reader.lease.revoke(guard?.lease ?? 0n);
    await etcd.put(`${name}/2`, '');
    expect((await reader.range(prefix(`${name}/`))).count).toBe(2);
  });

  test('backs off while the server reports each new lease of its guards as missing, and names this failure at its deadline', async () => {
    let transactions = 0;
    const onTransaction: OnTransaction = async () => {
      transactions += 1;
      throw errorFromStatus('NotFound', 'etcdserver: requested lease not found');
    };
    const etcd = openClient({ retryWrites: true, transport: stagedTransport({ onTransaction }) });
    const error = await errorOf(etcd.put(unique('retried'), '', { timeoutMs: 3_000 }));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
    expect(error.message).toContain('requested lease not found');
    // Without a backoff, the client would send hundreds of transactions.
    expect(transactions).toBeGreaterThan(2);
    expect(transactions).toBeLessThan(60);
  });

  test('needs no more guards than there are writes in flight', async () => {
    const guardPrefix = `${unique('guards')}/`;
    const { etcd, reader, name } = await bench({ guardPrefix });
    for (let round = 0; round < 3; round += 1)
      await Promise.all(Array.from({ length: 20 }, (_, index) => etcd.put(`${name}/${index}`, '')));
    expect((await reader.range(prefix(guardPrefix))).count).toBeLessThanOrEqual(20);
    expect((await reader.range(prefix(`${name}/`))).kvs.map(({ version }) => version)).toEqual(Array(20).fill(3n));
  });

  test('keeps its guards in its namespace', async () => {
    const { etcd, reader, name } = await bench();
    await etcd.namespace(`${name}/`).put('key', 'x');
    expect((await reader.range(prefix(`${name}/etcdwire/guards/`))).count).toBe(1);
    expect((await reader.get(`${name}/key`))?.text()).toBe('x');
  });

  test('ends at its deadline, or when its signal aborts, while the client waits for the lease of its guards', async () => {
    let answer = (): void => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const transport: TransportFactory = (endpoint, options) => {
      const real = defaultTransport(endpoint, options);
      return {
        unary: async (call) => {
          if (call.method.path === methods.lease.leaseGrant.path) await answered;
          return real.unary(call);
        },
        stream: (call, handler) => real.stream(call, handler),
        close: () => real.close(),
      };
    };
    const etcd = openClient({ retryWrites: true, transport });
    const [name, stop] = [unique('retried'), new AbortController()];
    const canceled = errorOf(etcd.put(name, 'canceled', { signal: stop.signal }));
    stop.abort();
    expect(await canceled).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
    expect(await errorOf(etcd.put(name, 'late', { timeoutMs: 50 }))).toMatchObject({
      reason: 'DeadlineExceeded',
      outcome: 'not-sent',
    });
    answer();
    await etcd.put(name, 'in time');
    expect(await etcd.get(name)).toMatchObject({ version: 1n });
  });

  test('can delete a whole namespace, including the guards in this namespace', async () => {
    const { etcd, reader, name, sendCopies } = await bench();
    const namespace = etcd.namespace(`${name}/`);
    for (let round = 0; round < 2; round += 1) {
      await namespace.put('key', 'x');
      expect((await namespace.delete(prefix(''))).deleted).toBeGreaterThanOrEqual(1);
      expect((await reader.range(prefix(`${name}/`))).count).toBe(0);
    }
    await reader.put(`${name}/key`, 'later');
    await sendCopies();
    expect((await reader.get(`${name}/key`))?.text()).toBe('later');
  });

  test.for([127, 128] as const)(
    'accepts at most 127 operations, because its guard takes one of the 128 places (%d operations)',
    async (length) => {
      const { etcd, reader, name } = await bench();
      const then = Array.from({ length }, (_, index) => op.put(`${name}/${index}`, ''));
      const written = async () => (await reader.range(prefix(`${name}/`), { countOnly: true })).count;
      if (length === 127) {
        await etcd.txn({ then });
        expect(await written()).toBe(127);
        return;
      }
      const error = await errorOf(etcd.txn({ then }));
      expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
      expect(error.message).toContain('txn: got 128 operations; allowed: at most 127, because the guard of the write');
      await etcd.txn({ then }, { retryWrites: false });
      expect(await written()).toBe(128);
    },
  );

  // The guarded transaction has two conditions, and the operations of `else` are in a nested transaction. The server
  // adds the numbers of both.
  test('accepts at most 125 operations in `else`, because the guard takes three of the 128 places', async () => {
    const { etcd, reader, name } = await bench();
    const txn = (length: number) =>
      etcd.txn({
        if: [compare.exists(name)],
        else: Array.from({ length }, (_, index) => op.put(`${name}/${index}`, '')),
      });
    const error = await errorOf(txn(126));
    expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    expect(error.message).toContain('txn: got 126 operations; allowed: at most 125, because the guard of the write');
    await txn(125);
    expect((await reader.range(prefix(`${name}/`), { countOnly: true })).count).toBe(125);
  });
});

describe('a write with `retryWrites` whose guard is deleted', () => {
  test.for(['by another client', 'by a deletion in a namespace of the same client'] as const)(
    'is applied once, and has outcome unknown when its answer was lost (%s)',
    async (by) => {
      const [reader, name] = [openClient(), unique('retried')];
      let lose = false;
      const onTransaction: OnTransaction = async (_, send) => {
        const response = await send();
        if (!lose) return response;
        lose = false;
        if (by === 'by another client') await reader.delete(prefix(`${name}/guards/`));
        else await etcd.namespace(`${name}/`).delete(prefix(''));
        throw answerLost();
      };
      const transport = stagedTransport({ onTransaction });
      const etcd = openClient({ retryWrites: true, guardPrefix: `${name}/guards/`, transport });
      await etcd.put(`${name}-first`, '');
      lose = true;
      expect(await errorOf(etcd.put(name, '1'))).toMatchObject({ outcome: 'unknown' });
      expect((await reader.get(name))?.version).toBe(1n);
    },
  );

  test('is not applied again by a late copy of the first write with this guard', async () => {
    const { etcd, reader, name, sendCopies } = await bench();
    const namespace = etcd.namespace(`${name}/`);
    await namespace.put('key', '1');
    await reader.delete(prefix(`${name}/`));
    await sendCopies();
    expect(await reader.get(`${name}/key`)).toBeUndefined();
  });
});

test('a write that waits for a new token after its answer was lost has outcome unknown', async () => {
  let phase: 'ok' | 'answer lost' | 'token refused' = 'ok';
  let isSlow = false;
  const staging: TransportFactory = (endpoint, options) => {
    const real = defaultTransport(endpoint, options);
    const unary: Transport['unary'] = async (call) => {
      if (call.method.path === methods.auth.authenticate.path) {
        if (isSlow) await new Promise((resolve) => onTestFinished(() => resolve(undefined)));
        return { token: 'a.1' } as never;
      }
      const isTxn = call.method.path === methods.kv.txn.path;
      if (isTxn && phase === 'token refused') {
        [phase, isSlow] = ['ok', true];
        throw new EtcdError('refused', { code: 'Unauthenticated', reason: 'InvalidAuthToken', outcome: 'rejected' });
      }
      const response = await real.unary({ ...call, metadata: {} });
      if (!isTxn || phase === 'ok') return response;
      phase = 'token refused';
      throw answerLost();
    };
    return { unary, stream: (call, handler) => real.stream(call, handler), close: () => real.close() };
  };
  const auth = { username: 'u', password: 'p', allowPlaintext: true };
  const etcd = openClient({ retryWrites: true, transport: staging, auth });
  const [reader, name] = [openClient(), unique('retried')];
  await etcd.put(`${name}-first`, '');
  phase = 'answer lost';
  expect(await errorOf(etcd.put(name, 'A', { timeoutMs: 300 }))).toMatchObject({ outcome: 'unknown' });
  expect((await reader.get(name))?.text()).toBe('A');
});

describe('the option `retryWrites`', () => {
  test('of a call overrides that of the client', async () => {
    const paths: string[] = [];
    const noting = {
      unary: (call: never, next: (call: never) => never) => {
        paths.push((call as { readonly method: { readonly path: string } }).method.path.split('/')[2] as string);
        return next(call);
      },
    };
    const on = openClient({ retryWrites: true, interceptors: [noting as never] });
    const off = openClient({ interceptors: [noting as never] });
    await off.put(unique(), '');
    await on.put(unique(), '', { retryWrites: false });
    await on.txn({ then: [op.get(unique())] });
    expect(paths.splice(0)).toEqual(['Put', 'Put', 'Txn']);
    await off.put(unique(), '', { retryWrites: true });
    await on.put(unique(), '');
    // Each client grants the lease of its guards, creates a guard, and sends the write.
    expect(paths).toEqual(['LeaseGrant', 'Txn', 'Txn', 'LeaseGrant', 'Txn', 'Txn']);
  });

  test('is refused by CoreClient', async () => {
    const [{ endpoints }] = [openClient()];
    const etcd = new CoreClient({ endpoints });
    onTestFinished(() => etcd.close());
    const error = await errorOf(etcd.put(unique(), '', { retryWrites: true }));
    expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    expect(await errorOf(() => new CoreClient({ retryWrites: true } as never))).toMatchObject({
      reason: 'InvalidInput',
    });
  });
});

test('a retried transaction without conditions lets the server check its `else`, as one without retries does', async () => {
  const { endpoints, root } = await authEtcd();
  const user = openClient({ endpoints, auth: USER });
  const txn = { if: [], then: [op.put('app/a', '1')], else: [op.put('other', '1')] } as const;
  for (const retryWrites of [false, true]) {
    const error = await errorOf(user.txn(txn, { retryWrites }));
    expect(error).toMatchObject({ reason: 'PermissionDenied', outcome: 'rejected' });
  }
  expect(await root.get('app/a')).toBeUndefined();
  const allowed = { ...txn, else: [op.put('app/b', '1')] };
  expect(await user.txn(allowed, { retryWrites: true })).toMatchObject({ succeeded: true, responses: [{}] });
  expect((await root.get('app/a'))?.text()).toBe('1');
  expect(await root.get('app/b')).toBeUndefined();
});
