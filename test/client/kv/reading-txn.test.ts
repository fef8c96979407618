import { expect, test } from 'vitest';
import { compare, getMany, op } from '../../../src/index.js';
import { containing } from '../../../src/testing/index.js';
import { unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';

test('the client repeats a transaction that only reads when the answer from the server is lost', async () => {
  const { etcd, proxy } = await proxied();
  const key = unique();
  await etcd.put(key, '1');
  const lost = proxy.loseNextAnswer(containing(key));
  const { responses } = await etcd.txn({ if: [compare.exists(key)], then: [op.txn({ then: [op.get(key)] })] });
  await lost;
  expect(responses[0]?.responses?.[0]?.text()).toBe('1');
  const lostAgain = proxy.loseNextAnswer(containing(key));
  expect((await getMany(etcd, [key])).kvs[0]?.text()).toBe('1');
  await lostAgain;
});

test('the client does not repeat a transaction with a write in one of its branches when the answer is lost', async () => {
  const { etcd, proxy } = await proxied();
  const key = unique();
  const lost = proxy.loseNextAnswer(containing(key));
  const call = etcd.txn({ if: [compare.exists(key)], then: [op.get(key)], else: [op.put(key, '1')] });
  expect(await errorOf(call)).toMatchObject({ outcome: 'unknown' });
  await lost;
});
