import { describe, expect, test } from 'vitest';
import { createKey, deleteKeyIf, modifyKey, updateKey } from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

describe('createKey', () => {
  test('puts a key that does not exist, and reports the key if it exists', async () => {
    const etcd = openClient();
    const key = unique();
    const created = await createKey(etcd, key, 'first');
    expect(created.succeeded).toBe(true);
    const again = await createKey(etcd, key, 'second');
    expect(again).toMatchObject({ succeeded: false, reason: 'exists' });
    if (!again.succeeded) expect(again.current.text()).toBe('first');
    expect((await etcd.get(key))?.modRevision).toBe(created.header.revision);
  });

  test('attaches the key to the lease in its options', async () => {
    const etcd = openClient();
    const key = unique();
    const lease = await etcd.lease.grant({ ttl: 60 });
    await createKey(etcd, key, 'x', { lease });
    expect((await etcd.get(key))?.lease).toBe(lease.id);
    await etcd.lease.revoke(lease);
  });

  test('lets exactly one of many clients create the key', async () => {
    const key = unique();
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, index) => createKey(openClient(), key, `${index}`)),
    );
    expect(results.filter(({ succeeded }) => succeeded)).toHaveLength(1);
  });
});

describe('updateKey and deleteKeyIf', () => {
  test('write the key if its revision is the expected one', async () => {
    const etcd = openClient();
    const key = unique();
    const { header } = await etcd.put(key, 'a');
    const updated = await updateKey(etcd, key, 'b', { modRevision: header.revision });
    expect(updated.succeeded).toBe(true);
    const late = await updateKey(etcd, key, 'c', { modRevision: header.revision });
    expect(late).toMatchObject({ succeeded: false, reason: 'changed' });
    if (!late.succeeded && late.reason === 'changed') expect(late.current.text()).toBe('b');
    expect(await deleteKeyIf(etcd, key, { modRevision: header.revision })).toMatchObject({ reason: 'changed' });
    expect(await deleteKeyIf(etcd, key, { modRevision: updated.header.revision })).toMatchObject({ succeeded: true });
    expect(await etcd.get(key)).toBeUndefined();
  });

  test('keep the lease of the key, unless the options name another lease', async () => {
    const etcd = openClient();
    const key = unique();
    const lease = await etcd.lease.grant({ ttl: 60 });
    await etcd.put(key, 'a', { lease });
    await updateKey(etcd, key, 'b', { oldValue: 'a' });
    expect(await etcd.get(key)).toMatchObject({ lease: lease.id });
    await updateKey(etcd, key, 'c', { oldValue: 'b', lease: 0n });
    expect(await etcd.get(key)).toMatchObject({ lease: 0n });
    await etcd.lease.revoke(lease);
  });

  test('write the key if its value is the expected one, even if the value is empty', async () => {
    const etcd = openClient();
    const key = unique();
    await etcd.put(key, '');
    expect(await updateKey(etcd, key, 'b', { oldValue: 'a' })).toMatchObject({ reason: 'changed' });
    expect(await updateKey(etcd, key, 'b', { oldValue: '' })).toMatchObject({ succeeded: true });
    expect(await deleteKeyIf(etcd, key, { oldValue: 'b' })).toMatchObject({ succeeded: true });
  });

  test('report that the key does not exist, and do not create it', async () => {
    const etcd = openClient();
    const key = unique();
    expect(await updateKey(etcd, key, 'x', { oldValue: '' })).toMatchObject({ reason: 'missing', current: undefined });
    expect(await deleteKeyIf(etcd, key, { modRevision: 1n })).toMatchObject({ reason: 'missing', current: undefined });
    expect(await etcd.get(key)).toBeUndefined();
  });

  test('refuse options that name no version or two versions, and send nothing', async () => {
    const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
    for (const options of [{}, { modRevision: 1n, oldValue: 'x' }, { modRevision: 0n }]) {
      const refused = { reason: 'InvalidInput', outcome: 'not-sent' };
      expect(await errorOf(updateKey(etcd, 'k', 'x', options))).toMatchObject(refused);
      expect(await errorOf(deleteKeyIf(etcd, 'k', options))).toMatchObject(refused);
    }
  });
});

describe('modifyKey', () => {
  test('applies every change of many clients once', async () => {
    const key = unique();
    const increment = () => modifyKey(openClient(), key, (old) => String(Number(old?.text() ?? 0) + 1));
    const results = await Promise.all(Array.from({ length: 30 }, increment));
    expect((await openClient().get(key))?.text()).toBe('30');
    const before = results.map(({ old }) => Number(old?.text() ?? 0)).sort((x, y) => x - y);
    expect(before).toEqual(Array.from({ length: 30 }, (_, index) => index));
  });

  test('keeps the lease of the key, unless its options name another lease', async () => {
    const etcd = openClient();
    const key = unique();
    const lease = await etcd.lease.grant({ ttl: 60 });
    const other = await etcd.lease.grant({ ttl: 60 });
    await etcd.put(key, '1', { lease });
    await modifyKey(etcd, key, () => '2');
    expect(await etcd.get(key)).toMatchObject({ lease: lease.id });
    await modifyKey(etcd, key, { lease: other }, () => '3');
    expect(await etcd.get(key)).toMatchObject({ lease: other.id });
    await Promise.all([etcd.lease.revoke(lease), etcd.lease.revoke(other)]);
  });

  test('writes nothing if the function returns undefined or throws', async () => {
    const etcd = openClient();
    const key = unique();
    const { header } = await etcd.put(key, 'x');
    expect(await modifyKey(etcd, key, async () => undefined)).toMatchObject({ changed: false });
    const error = new Error('no');
    const failing = modifyKey(etcd, key, () => {
      throw error;
    });
    await expect(failing).rejects.toBe(error);
    expect((await etcd.get(key))?.modRevision).toBe(header.revision);
  });

  test('reads the key again after each pause', async () => {
    const etcd = openClient();
    const key = unique();
    let runs = 0;
    const { changed } = await modifyKey(etcd, key, async (old) => {
      runs += 1;
      expect(old?.text()).toBe((await etcd.get(key))?.text());
      // Another client is faster in the first six attempts.
      if (runs <= 6) await etcd.put(key, `other ${runs}`);
      return 'mine';
    });
    expect([changed, runs, (await etcd.get(key))?.text()]).toEqual([true, 7, 'mine']);
  });

  test('gives up after `maxAttempts`, and says that nothing was written', async () => {
    const etcd = openClient();
    const key = unique();
    let runs = 0;
    const contended = modifyKey(etcd, key, { maxAttempts: 3 }, async () => {
      runs += 1;
      await etcd.put(key, `other ${runs}`);
      return 'mine';
    });
    expect(await errorOf(contended)).toMatchObject({ reason: 'TxnConflict', outcome: 'rejected' });
    expect(runs).toBe(3);
    expect((await etcd.get(key))?.text()).toBe('other 3');
  });
});
