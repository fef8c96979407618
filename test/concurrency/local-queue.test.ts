import { expect, test } from 'vitest';
import { LocalQueue } from '../../src/concurrency/local-queue.js';

test('a locker that leaves the local queue twice admits one waiter', async () => {
  const queue = new LocalQueue();
  const { signal } = new AbortController();
  const [first, second] = [await queue.enter(signal), queue.enter(signal)];
  first();
  await second;
  first();
  expect(queue.tryEnter()).toBeUndefined();
});
