import { expect, test } from 'vitest';
import { getMany } from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

test('`getMany` returns the keys in the order of the request, with undefined for a key that does not exist', async () => {
  const etcd = openClient();
  const [a, b] = [unique(), unique()];
  await etcd.put(a, '1');
  const { kvs, header } = await getMany(etcd, [b, a, a]);
  expect(kvs.map((kv) => kv?.text())).toEqual([undefined, '1', '1']);
  expect(header.revision).toBeGreaterThan(0n);
});

test.each([
  ['the latest revision', {}],
  ['revision 0n', { revision: 0n }],
])(
  '`getMany` reads more than 128 keys at one revision with %s, even if they change meanwhile',
  async (_what, options) => {
    const etcd = openClient();
    const root = unique();
    const keys = Array.from({ length: 300 }, (_, index) => `${root}/${index}`);
    await Promise.all(keys.map((key) => etcd.put(key, 'old')));
    const changing = openClient({
      interceptors: [
        {
          unary: async (call, next) => {
            const response = await next(call);
            await Promise.all(keys.map((key) => etcd.put(key, 'new')));
            return response;
          },
        },
      ],
    });
    const { kvs } = await getMany(changing, keys, options);
    expect(kvs).toHaveLength(300);
    expect(new Set(kvs.map((kv) => kv?.text()))).toEqual(new Set(['old']));
  },
);

test('`getMany` reads the revision in its options', async () => {
  const etcd = openClient();
  const key = unique();
  const { header } = await etcd.put(key, 'old');
  await etcd.put(key, 'new');
  const { kvs } = await getMany(etcd, [key], { revision: header.revision });
  expect(kvs[0]?.text()).toBe('old');
});

test('`getMany` of no keys returns an empty list', async () => {
  expect((await getMany(openClient(), [])).kvs).toEqual([]);
});

test('`getMany` refuses an argument that is not a list of keys, and sends nothing', async () => {
  const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
  for (const keys of ['key', [1], [''], [undefined]] as never[])
    expect(await errorOf(getMany(etcd, keys))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
});
