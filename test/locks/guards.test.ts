import { describe, expect, test } from 'vitest';
import { NO_BYTES, toBytes } from '../../src/base/bytes.js';
import { GUARD_PREFIX } from '../../src/client/kv/keys.js';
import { preparedTxn } from '../../src/client/kv/txn.js';
import { type CallOptions, type Client, compare, type Interceptor, op, prefix } from '../../src/index.js';
import { Guards } from '../../src/locks/guards.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { TXN } from '../support/locks.js';
import { answerLost } from '../support/transactions.js';

// A guarded write is applied at most once, however often and however late the server receives it.

/** What happens to a transaction: it is sent, its answer is lost, or it is lost before the server receives it. */
type Fate = 'sent' | 'answer lost' | 'lost';

interface Bench {
  readonly etcd: Client;
  readonly reader: Client;
  readonly guards: Guards;
  readonly lease: bigint;
  readonly name: string;
  /** Sends all transactions so far again. Ignores refusals, because a refused copy changes nothing. */
  readonly sendCopies: () => Promise<void>;
}

/** Returns guards whose transactions have these fates, in order. Further transactions are sent. */
async function bench(...fates: readonly Fate[]): Promise<Bench> {
  const left = [...fates];
  const copies: (() => Promise<unknown>)[] = [];
  const staging: Interceptor = {
    unary: async (call, next) => {
      if (call.method.path !== TXN) return next(call);
      copies.push(() => next({ ...call, signal: undefined, deadline: Number.POSITIVE_INFINITY }));
      const fate = left.shift();
      if (fate === 'lost') throw answerLost();
      const response = await next(call);
      if (fate === 'answer lost') throw answerLost();
      return response;
    },
  };
  const [etcd, reader] = [openClient({ interceptors: [staging] }), openClient()];
  const { id: lease } = await reader.lease.grant({ ttl: 60 });
  const sendCopies = async (): Promise<void> => {
    for (const copy of copies) await copy().catch(() => {});
  };
  return {
    etcd,
    reader,
    guards: new Guards(etcd.rpc, lease, toBytes(GUARD_PREFIX, 'guardPrefix'), NO_BYTES),
    lease,
    name: unique('guarded'),
    sendCopies,
  };
}

const NO_OPTIONS: CallOptions = {};

describe('a guarded write', () => {
  test('is applied once, even if the key is deleted before each copy arrives', async () => {
    const { guards, name, reader, sendCopies } = await bench();
    for (let round = 0; round < 3; round += 1) {
      const write = guards.begin(preparedTxn({ if: [compare.missing(name)], then: [op.put(name, 'x')] }));
      expect(await write.send(NO_OPTIONS)).toMatchObject({ succeeded: true, result: { responses: [{}] } });
      await reader.delete(name);
      await sendCopies();
      expect(await reader.get(name)).toBeUndefined();
    }
  });

  test('changes nothing when a copy of its second branch arrives after the condition has become true', async () => {
    const { guards, name, reader, sendCopies } = await bench();
    await reader.put(name, 'before');
    const write = guards.begin(
      preparedTxn({ if: [compare.missing(name)], then: [op.put(name, 'x')], else: [op.get(name)] }),
    );
    const { succeeded, result } = await write.send(NO_OPTIONS);
    expect([succeeded, result?.responses.length]).toEqual([false, 1]);
    await reader.delete(name);
    await sendCopies();
    expect(await reader.get(name)).toBeUndefined();
  });

  test.for([
    ['then', undefined],
    ['else', 'before'],
  ] as const)('tells the revision and the branch `%s` when its answer was lost', async ([branch, value]) => {
    const { guards, name, reader } = await bench('answer lost');
    if (value !== undefined) await reader.put(name, value);
    const write = guards.begin(
      preparedTxn({
        if: [compare.missing(name)],
        then: [op.put(name, 'x')],
        else: [op.put(`${name}/else`, 'x')],
      }),
    );
    expect(await errorOf(write.send(NO_OPTIONS))).toMatchObject({ outcome: 'unknown' });
    const { revision, succeeded, result } = await write.send(NO_OPTIONS);
    expect([succeeded, result]).toEqual([branch === 'then', undefined]);
    const written = await reader.get(branch === 'then' ? name : `${name}/else`);
    expect(written).toMatchObject({ version: 1n, modRevision: revision });
  });

  test('is not applied any more after `settle`', async () => {
    const { guards, name, reader, sendCopies } = await bench('lost');
    const write = guards.begin(preparedTxn({ then: [op.put(name, 'x')] }));
    await errorOf(write.send(NO_OPTIONS));
    expect(await write.settle(NO_OPTIONS)).toBeUndefined();
    await sendCopies();
    expect(await reader.get(name)).toBeUndefined();
  });

  test('is not applied any more after a `settle` whose answer was lost and that is repeated', async () => {
    const { guards, name, reader, sendCopies } = await bench('lost', 'answer lost');
    const write = guards.begin(preparedTxn({ then: [op.put(name, 'x')] }));
    await errorOf(write.send(NO_OPTIONS));
    await errorOf(write.settle(NO_OPTIONS));
    expect(await write.settle(NO_OPTIONS)).toBeUndefined();
    await sendCopies();
    expect(await reader.get(name)).toBeUndefined();
  });

  test('tells its revision to `settle` when it was applied and its answer was lost', async () => {
    const { guards, name, reader } = await bench('answer lost');
    const write = guards.begin(preparedTxn({ then: [op.put(name, 'x')] }));
    await errorOf(write.send(NO_OPTIONS));
    const applied = await write.settle(NO_OPTIONS);
    expect((await reader.get(name))?.modRevision).toBe(applied?.revision);
  });

  test('is not applied any more after its lease has ended', async () => {
    const { guards, lease, name, reader, sendCopies } = await bench();
    await guards.begin(preparedTxn({ then: [op.put(name, 'x')] })).send(NO_OPTIONS);
    await reader.lease.revoke(lease);
    await reader.delete(name);
    await sendCopies();
    expect(await reader.get(name)).toBeUndefined();
  });

  test('takes another guard when another client has deleted its guard', async () => {
    const { guards, lease, name, reader } = await bench();
    await guards.begin(preparedTxn({ then: [op.put(name, '1')] })).send(NO_OPTIONS);
    await reader.delete(prefix(`etcdwire/guards/${lease.toString(16)}`));
    expect(await guards.begin(preparedTxn({ then: [op.put(name, '2')] })).send(NO_OPTIONS)).toMatchObject({
      succeeded: true,
    });
    expect((await reader.get(name))?.text()).toBe('2');
  });

  test.for(['deleted', 'put'] as const)(
    'is applied once, and rejects with outcome unknown, when its answer was lost and another client has %s its guard',
    async (change) => {
      const { guards, lease, name, reader } = await bench('sent', 'answer lost');
      await guards.begin(preparedTxn({ then: [op.put(name, '1')] })).send(NO_OPTIONS);
      const write = guards.begin(preparedTxn({ then: [op.put(name, '2')] }));
      await errorOf(write.send(NO_OPTIONS));
      const ofLease = prefix(`etcdwire/guards/${lease.toString(16)}`);
      const [guard] = (await reader.range(ofLease)).kvs;
      if (change === 'deleted') await reader.delete(ofLease);
      else await reader.put(guard?.key ?? '', 'not a guard', { lease });
      expect(await errorOf(write.send(NO_OPTIONS))).toMatchObject({ outcome: 'unknown' });
      expect(await reader.get(name)).toMatchObject({ version: 2n });
    },
  );

  test('reuses the guard of an earlier write, but uses a guard of its own when other writes are in flight', async () => {
    const { guards, lease, name, reader } = await bench();
    const count = async (): Promise<number> => {
      return (await reader.range(prefix(`etcdwire/guards/${lease.toString(16)}`), { countOnly: true })).count;
    };
    const put = (key: string) => guards.begin(preparedTxn({ then: [op.put(key, 'x')] })).send(NO_OPTIONS);
    for (let write = 0; write < 5; write += 1) await put(name);
    expect(await count()).toBe(1);
    await Promise.all(Array.from({ length: 5 }, (_, index) => put(`${name}/${index}`)));
    expect(await count()).toBe(5);
  });
});
