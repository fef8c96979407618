import { describe, expect, test } from 'vitest';
import { json, type TypedKeys, typed } from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

interface User {
  readonly name: string;
}

function userOf(value: unknown): User {
  if (typeof (value as Partial<User>).name !== 'string') throw new TypeError('a user has a name');
  return value as User;
}

function users(etcd = openClient()): {
  readonly etcd: typeof etcd;
  readonly root: string;
  readonly keys: TypedKeys<User>;
} {
  const root = `${unique('users')}/`;
  return { etcd, root, keys: typed(etcd, root, json(userOf)) };
}

describe('`typed`', () => {
  test('encodes the values that it puts and decodes the values that it reads', async () => {
    const { etcd, root, keys } = users();
    await keys.put('ada', { name: 'Ada' });
    expect((await etcd.get(`${root}ada`))?.text()).toBe('{"name":"Ada"}');
    const ada = await keys.get('ada');
    expect([ada?.name, ada?.value, ada?.error]).toEqual(['ada', { name: 'Ada' }, undefined]);
    await keys.put('bob', { name: 'Bob' });
    expect((await keys.range()).map(({ name, value }) => [name, value.name])).toEqual([
      ['ada', 'Ada'],
      ['bob', 'Bob'],
    ]);
    expect([await keys.delete('bob'), await keys.delete('bob')]).toEqual([true, false]);
    expect(await keys.get('bob')).toBeUndefined();
  });

  test('returns an entry with an error and its cause for each value that does not decode, and still returns the other keys', async () => {
    const { etcd, root, keys } = users();
    await etcd.put(`${root}bad`, '{"name":1}');
    await etcd.put(`${root}worse`, 'no JSON');
    await keys.put('good', { name: 'Good' });
    const [bad, good, worse] = await keys.range();
    expect(good?.value.name).toBe('Good');
    expect(bad?.name).toBe('bad');
    expect(bad?.error).toMatchObject({ reason: 'InvalidValue', cause: new TypeError('a user has a name') });
    // The error of `JSON.parse` would quote the value.
    expect(worse?.error?.cause).toEqual(new SyntaxError('the value is not JSON'));
    expect(await errorOf(() => bad?.value)).toBe(bad?.error);
    expect(bad?.kv.text()).toBe('{"name":1}');
    expect(bad?.error?.message).not.toContain('bad');
  });

  test('yields the changes that come between the call of `changes` or `watch` and the first call of `next`', async () => {
    const { keys } = users();
    await using cached = await keys.cachedRange();
    const changes = cached.changes();
    const watch = keys.watch();
    await watch.created();
    await keys.put('ada', { name: 'Ada' });
    for (const iterator of [changes, watch]) {
      expect((await iterator.next()).value?.kv?.value.name).toBe('Ada');
      await iterator.return?.();
      expect(await iterator.next()).toMatchObject({ done: true });
    }
  });

  test('continues to watch after a value that does not decode', async () => {
    const { etcd, root, keys } = users();
    const seen: unknown[] = [];
    const { header } = await etcd.put(`${root}a`, '{}');
    await etcd.put(`${root}a`, '{"name":"A"}');
    await etcd.delete(`${root}a`);
    for await (const { type, name, kv, old } of keys.watch({ startRevision: header.revision, prevKv: true })) {
      seen.push([type, name, kv?.error?.reason ?? kv?.value.name, old?.error?.reason ?? old?.value.name]);
      if (seen.length === 3) break;
    }
    expect(seen).toEqual([
      ['put', 'a', 'InvalidValue', undefined],
      ['put', 'a', 'A', 'InvalidValue'],
      ['delete', 'a', undefined, 'A'],
    ]);
  });

  test('holds decoded values in memory, and yields their changes', async () => {
    const { keys } = users();
    await keys.put('ada', { name: 'Ada' });
    await using cached = await keys.cachedRange();
    expect([cached.get('ada')?.value.name, cached.range().length]).toEqual(['Ada', 1]);
    const put = cached.changes().next();
    const { header } = await keys.put('ada', { name: 'Ada Lovelace' });
    const { value: change } = await put;
    expect([change?.name, change?.kv?.value.name, change?.old?.value.name]).toEqual(['ada', 'Ada Lovelace', 'Ada']);
    await cached.cached.waitForRevision(header.revision);
    const deletion = cached.changes().next();
    expect(await keys.delete('ada')).toBe(true);
    const { value } = await deletion;
    expect([value?.type, value?.name, value?.old?.value.name]).toEqual(['delete', 'ada', 'Ada Lovelace']);
  });

  test('creates and modifies values', async () => {
    const { keys } = users();
    expect(await keys.create('ada', { name: 'Ada' })).toMatchObject({ succeeded: true });
    expect(await keys.create('ada', { name: 'Eve' })).toMatchObject({ succeeded: false, reason: 'exists' });
    const { changed, old } = await keys.modify('ada', (user) => ({ name: `${user?.value.name} Lovelace` }));
    expect([changed, old?.value.name]).toEqual([true, 'Ada']);
    expect((await keys.get('ada'))?.value.name).toBe('Ada Lovelace');
    expect(await keys.modify('ada', () => undefined)).toMatchObject({ changed: false });
  });

  test('refuses to put a value that the codec does not encode', async () => {
    const { keys } = users();
    for (const call of [keys.put('a', (() => 1) as never), keys.modify('a', () => (() => 1) as never)])
      expect(await errorOf(call)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  });

  test('makes operations of transactions, and decodes their results', async () => {
    const { etcd, keys } = users();
    const { responses } = await etcd.txn({
      then: [keys.opPut('ada', { name: 'Ada' }), keys.opGet('ada'), keys.opDelete('bob')],
    });
    expect(keys.decode(responses[1])?.value).toEqual({ name: 'Ada' });
    expect(keys.decode(await etcd.get(keys.key('ada')))?.name).toBe('ada');
  });

  test('works in a namespace, with any codec', async () => {
    const etcd = openClient();
    const sizes = typed(etcd.namespace(`${unique()}/`), '', {
      encode: (size: number) => Uint8Array.of(size),
      decode: ([size = 0]) => size,
    });
    await sizes.put('small', 3);
    expect((await sizes.get('small'))?.value).toBe(3);
  });

  test('refuses wrong arguments, and sends nothing', async () => {
    const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
    const codec = json(userOf);
    const keys = typed(etcd, 'users/', codec);
    const wrong: (() => unknown)[] = [
      () => typed({} as never, '', codec),
      () => typed(etcd, 1 as never, codec),
      () => typed(etcd, '', {} as never),
      () => json(1 as never),
      () => keys.get(''),
      () => keys.modify('a', 1 as never),
    ];
    for (const call of wrong)
      expect(await errorOf(call)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  });
});
