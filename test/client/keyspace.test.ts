import { expect, test } from 'vitest';
import { keyspaceClientOf } from '../../src/client/keyspace.js';
import { Client, type Keyspace, prefix } from '../../src/index.js';
import { Session } from '../../src/locks.js';
import { Service } from '../../src/recipes.js';
import type { Transport } from '../../src/wire/transport.js';
import { errorOf } from '../support/errors.js';

test('`Client.close` does not run a `beforeClose` callback that has been removed', async () => {
  const etcd = new Client({ endpoints: ['http://127.0.0.1:1'] });
  let done = 0;
  etcd.beforeClose(async () => {
    done += 1;
  })();
  await etcd.close();
  expect(done).toBe(0);
});

test('`Client.close` runs a `beforeClose` callback that is added while the client closes', async () => {
  const etcd = new Client({ endpoints: ['http://127.0.0.1:1'] });
  const done: string[] = [];
  etcd.beforeClose(async () => {
    await Promise.resolve();
    keyspaceClientOf(etcd.namespace('a')).beforeClose(async () => void done.push('second'));
    done.push('first');
  });
  await etcd.close();
  expect(done).toEqual(['second', 'first']);
});

test('a cached range sends no more calls after its first read has timed out', async () => {
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
  await etcd.close({ drainMs: 50 });
});

test('functions that only read keys accept a test double of a client, but `Session.open` refuses a test double', async () => {
  const reads: unknown[] = [];
  const double = {
    cachedRange: () => {},
    range: async (keys: unknown) => {
      reads.push(keys);
      return { kvs: [] };
    },
  } as unknown as Keyspace;
  expect(await new Service(double, 'services').list()).toEqual(new Map());
  expect(reads).toEqual([prefix('services/')]);
  const error = await errorOf(Session.open(double));
  expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  expect(error.message).toBe('client: got an object (Object); allowed: a Client, or a namespace of one');
});
