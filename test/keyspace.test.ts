import { expect, test } from 'vitest';
import { Client } from '../src/index.js';
import type { Transport } from '../src/transport/transport.js';
import { errorOf } from './support/errors.js';

test('what was called off is not done when the client is closed', async () => {
  const etcd = new Client({ endpoints: ['http://127.0.0.1:1'] });
  let done = 0;
  etcd.beforeClose(async () => {
    done += 1;
  })();
  await etcd.close();
  expect(done).toBe(0);
});

test('what is to be done when the client is closed is done also where it comes meanwhile', async () => {
  const etcd = new Client({ endpoints: ['http://127.0.0.1:1'] });
  const done: string[] = [];
  etcd.beforeClose(async () => {
    await Promise.resolve();
    etcd.namespace('a').beforeClose(async () => void done.push('second'));
    done.push('first');
  });
  await etcd.close();
  expect(done).toEqual(['first', 'second']);
});

test('a cached range that does not come about in time asks for nothing more', async () => {
  const signals: (AbortSignal | undefined)[] = [];
  const transport = (): Transport => ({
    unary: (call) => {
      signals.push(call.signal);
      return new Promise<never>(() => {});
    },
    stream: () => ({ send: () => {}, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} }),
    close: async () => {},
  });
  const etcd = new Client({ endpoints: ['http://h:1'], transport });
  expect(await errorOf(etcd.cachedRange('k', { timeoutMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
  expect(signals.map((signal) => signal?.aborted)).toEqual([true]);
  await etcd.close();
});
