import { expect, test } from 'vitest';
import { EtcdError, prefix } from '../../../src/index.js';
import { reconcile, schedule, shards, WorkQueue } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

// The types of these callbacks accept asynchronous functions. The errors of such functions must reach the caller. As
// unhandled rejections, the errors would end the process.

const fails = async (): Promise<never> => {
  throw new Error('the callback fails');
};
const throws = (): never => {
  throw new Error('the handler fails');
};

test.each([
  ['shards', (name: string) => shards(openClient(), name, { count: 1, onFailure: fails }, throws)],
  ['schedule', (name: string) => schedule(openClient(), name, 50, { onFailure: fails }, throws)],
  [
    'reconcile',
    async (name: string) => {
      const etcd = openClient();
      await etcd.put(`${name}/a`, '');
      await reconcile(etcd, prefix(`${name}/`), { onRun: fails }, () => {});
    },
  ],
  [
    'WorkQueue.work',
    async (name: string) => {
      const queue = new WorkQueue(openClient(), name);
      await queue.enqueue('job');
      await queue.work({ onFailure: fails }, throws);
    },
  ],
])('`%s` rejects with the error of an asynchronous callback', async (_, run) => {
  await expect(run(unique())).rejects.toThrow('the callback fails');
});

test('`shards` rejects with an EtcdError that `onFailure` throws, also if its reason is NoSpace', async () => {
  const full = new EtcdError('full', { code: 'ResourceExhausted', reason: 'NoSpace', outcome: 'rejected' });
  const onFailure = (): never => {
    throw full;
  };
  expect(await errorOf(shards(openClient(), unique(), { count: 1, onFailure }, throws))).toBe(full);
});
