import { expect, test } from 'vitest';
import { LocalQueue } from '../../src/locks/local-queue.js';

// The callers that lock the same name in one session (lockers) wait in a local queue, because they share one queue key.

test('LocalQueue admits only one waiter when the same caller leaves the queue twice', async () => {
  const queue = new LocalQueue();
  const { signal } = new AbortController();
  const [first, second] = [await queue.enter(signal), queue.enter(signal)];
  first();
  await second;
  first();
  expect(queue.tryEnter()).toBeUndefined();
});
