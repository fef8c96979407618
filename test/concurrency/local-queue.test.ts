import { expect, test } from 'vitest';
import { LocalQueue } from '../../src/concurrency/local-queue.js';

// The callers that lock the same name in one session (lockers) wait in a local queue, because they share one queue key.

test('a locker that leaves the local queue of its session twice admits only one waiter', async () => {
  const queue = new LocalQueue();
  const { signal } = new AbortController();
  const [first, second] = [await queue.enter(signal), queue.enter(signal)];
  first();
  await second;
  first();
  expect(queue.tryEnter()).toBeUndefined();
});
