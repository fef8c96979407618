import { describe, expect, test } from 'vitest';
import { type Client, op, prefix } from '../../../src/index.js';
import { Session } from '../../../src/locks.js';
import { type Isolation, stm } from '../../../src/recipes.js';
import { containing } from '../../../src/testing/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';

/** The isolation levels under which a commit checks that no key that the transaction read has changed. */
const CHECKED: readonly Isolation[] = ['serializableSnapshot', 'serializable', 'repeatableReads'];
const ALL: readonly Isolation[] = [...CHECKED, 'readCommitted'];

describe.for(CHECKED)('`stm` with isolation `%s`', (isolation) => {
  test('keeps the sum of all account balances constant under concurrent transfers', async () => {
    const [etcd, bank] = [openClient(), unique('bank')];
    const accounts = Array.from({ length: 5 }, (_, index) => `${bank}/${index}`);
    for (const account of accounts) await etcd.put(account, '100');
    const transfers = Array.from({ length: 40 }, (_, index) => {
      const [from, to] = [accounts[index % 5], accounts[(index * 3 + 1) % 5]] as [string, string];
      return stm(etcd, { isolation }, async (tx) => {
        const balance = Number(await tx.text(from));
        tx.put(from, String(balance - index));
        tx.put(to, String(Number(await tx.text(to)) + index));
      });
    });
    await Promise.all(transfers);
    const balances = await Promise.all(accounts.map(async (account) => Number((await etcd.get(account))?.text())));
    expect(balances.reduce((sum, balance) => sum + balance, 0)).toBe(500);
    expect(balances).not.toEqual([100, 100, 100, 100, 100]);
  });

  test('prevents write skew, so that only one of two doctors on call can leave', async () => {
    const etcd = openClient();
    for (let round = 0; round < 10; round += 1) {
      const ward = unique('ward');
      const doctors = [`${ward}/a`, `${ward}/b`];
      for (const doctor of doctors) await etcd.put(doctor, 'on');
      await Promise.all(
        doctors.map((doctor) =>
          stm(etcd, { isolation }, async (tx) => {
            const on = await Promise.all(doctors.map((key) => tx.text(key)));
            if (on.every((state) => state === 'on')) tx.put(doctor, 'off');
          }),
        ),
      );
      const states = await Promise.all(doctors.map(async (doctor) => (await etcd.get(doctor))?.text()));
      expect(states.filter((state) => state === 'on')).toHaveLength(1);
    }
  });

  test('runs the function again with current values after a conflict, and rejects after `maxAttempts` conflicts', async () => {
    const [etcd, key] = [openClient(), unique()];
    await etcd.put(key, '0');
    let runs = 0;
    const conflicting = stm(etcd, { isolation, maxAttempts: 4 }, async (tx) => {
      runs += 1;
      const seen = await tx.text(key);
      await etcd.put(key, `${seen}x`);
      tx.put(key, 'never');
    });
    expect(await errorOf(conflicting)).toMatchObject({ reason: 'TxnConflict', code: 'Aborted', outcome: 'rejected' });
    expect([runs, (await etcd.get(key))?.text()]).toEqual([4, '0xxxx']);
  });
});

describe.for(ALL)('`stm` with isolation `%s`', (isolation) => {
  test("commits all writes together, shows the function its own writes, and returns the function's result", async () => {
    const [etcd, name] = [openClient(), unique()];
    const lease = (await Session.open(etcd)).leaseId;
    await etcd.put(`${name}/gone`, 'x');
    const result = await stm(etcd, { isolation }, async (tx) => {
      expect(await tx.get(`${name}/a`)).toBeUndefined();
      tx.put(`${name}/a`, '1', { lease });
      tx.delete(`${name}/gone`);
      return [await tx.text(`${name}/a`), await tx.text(`${name}/gone`), await tx.revision(`${name}/a`)];
    });
    expect(result).toEqual(['1', undefined, 0n]);
    expect((await etcd.get(`${name}/a`))?.lease).toBe(lease);
    expect(await etcd.get(`${name}/gone`)).toBeUndefined();
  });

  test("rejects with the function's error and writes nothing when the function throws", async () => {
    const [etcd, key] = [openClient(), unique()];
    const failing = stm(etcd, { isolation }, (tx) => {
      tx.put(key, 'x');
      throw new Error('thought better of it');
    });
    await expect(failing).rejects.toThrow('thought better of it');
    expect(await etcd.get(key)).toBeUndefined();
  });
});

test('`stm` reads all keys at one revision under both serializable levels, and returns the first value of a key again under `repeatableReads`', async () => {
  const [etcd, name] = [openClient(), unique()];
  const [a, b] = [`${name}/a`, `${name}/b`];
  const read = async (isolation: Isolation): Promise<unknown[]> => {
    await etcd.put(a, '1');
    await etcd.put(b, '1');
    const seen: unknown[] = [];
    await stm(etcd, { isolation }, async (tx) => {
      seen.length = 0;
      seen.push(await tx.text(a));
      if ((await etcd.get(b))?.text() === '1') {
        await etcd.put(a, '2');
        await etcd.put(b, '2');
      }
      seen.push(await tx.text(b), await tx.text(a));
    });
    return seen;
  };
  expect(await read('serializableSnapshot')).toEqual(['1', '1', '1']);
  expect(await read('serializable')).toEqual(['1', '1', '1']);
  // The first run read a = 1 and b = 2, a state that never existed. Its commit found that a had changed, so the
  // transaction ran again.
  expect(await read('repeatableReads')).toEqual(['2', '2', '2']);
  expect(await read('readCommitted')).toEqual(['1', '2', '2']);
});

test('`stm` reads all keys at one revision when the first reads of a run start at the same time', async () => {
  const direct = openClient();
  const name = unique();
  const [a, b] = [`${name}/a`, `${name}/b`];
  const put = (value: string) => direct.txn({ then: [op.put(a, value), op.put(b, value)] });
  await put('1');
  let reads = 0;
  const etcd = openClient({
    interceptors: [
      {
        unary: async (call, next) => {
          reads += 1;
          // The second read arrives after a change.
          if (reads === 2) await put('2');
          return next(call);
        },
      },
    ],
  });
  expect(await stm(etcd, (tx) => Promise.all([tx.text(a), tx.text(b)]))).toEqual(['1', '1']);
});

test('when another client changes a key that the function only writes, `stm` detects a conflict under `serializableSnapshot` but not under `serializable`', async () => {
  const [etcd, name] = [openClient(), unique()];
  const runsOf = async (isolation: Isolation): Promise<number> => {
    let runs = 0;
    await stm(etcd, { isolation }, async (tx) => {
      await tx.get(`${name}/read`);
      runs += 1;
      if (runs === 1) await etcd.put(`${name}/written`, 'theirs');
      tx.put(`${name}/written`, 'mine');
    });
    return runs;
  };
  expect(await runsOf('serializableSnapshot')).toBe(2);
  expect(await runsOf('serializable')).toBe(1);
});

test('`stm` runs the function again when the server compacts the revision at which the function reads', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints });
  await etcd.put('a', '1');
  let runs = 0;
  const result = await stm(etcd, async (tx) => {
    const a = await tx.text('a');
    runs += 1;
    if (runs === 1) {
      await etcd.put('a', '2');
      await etcd.compact((await etcd.put('b', '2')).header.revision);
    }
    return [a, await tx.text('b')];
  });
  expect([result, runs]).toEqual([['2', '2'], 2]);
});

test('`stm` does not repeat a commit whose answer is lost, and rejects with outcome unknown', async () => {
  const { etcd, direct, proxy } = await proxied();
  const key = unique();
  let runs = 0;
  const lost = proxy.loseNextAnswer(containing(`${key}-written`));
  const error = await errorOf(
    stm(etcd, (tx) => {
      runs += 1;
      tx.put(`${key}-written`, 'x');
    }),
  );
  await lost;
  expect(error.outcome).toBe('unknown');
  expect([runs, (await direct.get(`${key}-written`))?.version]).toEqual([1, 1n]);
});

test('`stm` copies a Buffer when the function passes the Buffer to `put`, and distinguishes keys by their bytes', async () => {
  const [etcd, name] = [openClient(), unique()];
  const key = (byte: number): Buffer => Buffer.concat([Buffer.from(name), Buffer.from([byte])]);
  const value = Buffer.from('one');
  const seen = await stm(etcd, async (tx) => {
    tx.put(key(0xfe), value);
    tx.put(key(0xff), 'two');
    value.write('xxx');
    return [await tx.text(key(0xfe)), await tx.text(Uint8Array.from(key(0xff)))];
  });
  expect(seen).toEqual(['one', 'two']);
  expect((await etcd.range(prefix(name))).kvs.map((kv) => kv.text())).toEqual(['one', 'two']);
  await etcd.txn({ then: [op.put(key(0xf1), 'a'), op.put(key(0xf2), 'b')] });
});

test('`stm` rejects with outcome rejected when the time limit passes during a read', async () => {
  const { etcd, proxy } = await proxied();
  await etcd.get('k');
  proxy.blackhole();
  const error = await errorOf(stm(etcd, { maxWaitMs: 100 }, (tx) => tx.get('k')));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'rejected' });
});

test('`stm` rejects with outcome unknown when the time limit passes during a commit', async () => {
  const { etcd, proxy } = await proxied();
  await etcd.get('k');
  proxy.blackhole();
  const error = await errorOf(stm(etcd, { maxWaitMs: 100 }, (tx) => tx.put(unique(), 'x')));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
});

test('`stm` rejects when the isolation level, the number of attempts or a key is invalid, or when the signal has aborted', async () => {
  const etcd = openClient();
  expect(await errorOf(stm(etcd, { isolation: 'none' as Isolation }, () => {}))).toMatchObject({
    reason: 'InvalidInput',
  });
  expect(await errorOf(stm(etcd, { maxAttempts: 0 }, () => {}))).toMatchObject({ reason: 'InvalidInput' });
  expect(await errorOf(stm(etcd, (tx) => tx.put('', 'x')))).toMatchObject({ reason: 'InvalidInput' });
  expect(await errorOf(stm(etcd, { signal: AbortSignal.abort() }, () => {}))).toMatchObject({ reason: 'Canceled' });
});

describe('`StmTransaction.range`', () => {
  /**
   * Runs a transaction that reads a range and writes a key outside of the range. In the first run, calls `disturb`
   * between the read and the write.
   */
  async function runsWith(
    etcd: Client,
    name: string,
    isolation: Isolation,
    disturb: () => Promise<unknown>,
  ): Promise<{ readonly runs: number; readonly seen: readonly string[] }> {
    let runs = 0;
    const seen = await stm(etcd, { isolation }, async (tx) => {
      const { kvs } = await tx.range(prefix(`${name}/`));
      runs += 1;
      if (runs === 1) await disturb();
      tx.put(`${name}-sum`, String(kvs.length));
      return kvs.map((kv) => kv.text());
    });
    return { runs, seen };
  }

  test.for(ALL)(
    'sees the writes of its transaction, in the order of the keys, with isolation `%s`',
    async (isolation) => {
      const [etcd, name] = [openClient(), unique()];
      for (const key of ['b', 'c', 'd']) await etcd.put(`${name}/${key}`, key);
      const lease = (await Session.open(etcd)).leaseId;
      const seen = await stm(etcd, { isolation }, async (tx) => {
        tx.put(`${name}/a`, 'new', { lease });
        tx.put(`${name}/c`, 'changed');
        tx.delete(`${name}/d`);
        tx.put(`${name}-outside`, 'x');
        const { kvs, count } = await tx.range(prefix(`${name}/`));
        expect(count).toBe(kvs.length);
        return kvs.map((kv) => [kv.key.slice(name.length), kv.text(), kv.lease, kv.modRevision > 0n]);
      });
      expect(seen).toEqual([
        ['/a', 'new', lease, false],
        ['/b', 'b', 0n, true],
        ['/c', 'changed', 0n, false],
      ]);
    },
  );

  test.for(['serializableSnapshot', 'serializable', 'repeatableReads'] as const)(
    'makes the transaction run again when a key of the range appears, changes or disappears, with isolation `%s`',
    async (isolation) => {
      const [etcd, name] = [openClient(), unique()];
      await etcd.put(`${name}/b`, '1');
      const added = await runsWith(etcd, name, isolation, () => etcd.put(`${name}/a`, '0'));
      expect(added).toEqual({ runs: 2, seen: ['0', '1'] });
      const changed = await runsWith(etcd, name, isolation, () => etcd.put(`${name}/a`, '2'));
      expect(changed).toEqual({ runs: 2, seen: ['2', '1'] });
      const deleted = await runsWith(etcd, name, isolation, () => etcd.delete(`${name}/a`));
      expect(deleted).toEqual({ runs: 2, seen: ['1'] });
      const beside = await runsWith(etcd, name, isolation, () => etcd.put(`${name}-beside`, '1'));
      expect(beside).toEqual({ runs: 1, seen: ['1'] });
    },
  );

  test('does not make the transaction run again with isolation `readCommitted`', async () => {
    const [etcd, name] = [openClient(), unique()];
    expect(await runsWith(etcd, name, 'readCommitted', () => etcd.put(`${name}/a`, '0'))).toEqual({
      runs: 1,
      seen: [],
    });
  });

  test('makes the commit fail when a read of the range and a read of one of its keys saw different values', async () => {
    const [etcd, name] = [openClient(), unique()];
    await etcd.put(`${name}/a`, '1');
    let runs = 0;
    const seen = await stm(etcd, { isolation: 'repeatableReads' }, async (tx) => {
      runs += 1;
      const alone = await tx.text(`${name}/a`);
      if (runs === 1) await etcd.put(`${name}/a`, '2');
      const { kvs } = await tx.range(prefix(`${name}/`));
      tx.put(`${name}-sum`, 'x');
      return [alone, kvs[0]?.text()];
    });
    expect([seen, runs]).toEqual([['2', '2'], 2]);
  });

  test('keeps the sum of all accounts constant while many transactions move money between them', async () => {
    const [etcd, name] = [openClient(), unique()];
    for (let index = 0; index < 5; index += 1) await etcd.put(`${name}/${index}`, '100');
    const move = (step: number): Promise<number> =>
      stm(etcd, async (tx) => {
        const { kvs } = await tx.range(prefix(`${name}/`));
        const [from, to] = [kvs[step % 5], kvs[(step * 3 + 1) % 5]];
        if (from !== undefined && to !== undefined && from !== to) {
          tx.put(from.key, String(Number(from.text()) - 1));
          tx.put(to.key, String(Number(to.text()) + 1));
        }
        return kvs.reduce((sum, kv) => sum + Number(kv.text()), 0);
      });
    expect(await Promise.all(Array.from({ length: 20 }, (_, step) => move(step)))).toEqual(new Array(20).fill(500));
  });
});
