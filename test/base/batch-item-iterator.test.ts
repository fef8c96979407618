import { expect, test } from 'vitest';
import { BatchItemIterator } from '../../src/base/async.js';

/** Returns an async iterator over the given batches, and a function that tells whether the iterator was closed. */
function batches(...given: readonly Iterable<number>[]): {
  source: AsyncGenerator<Iterable<number>>;
  closed: () => boolean;
} {
  let closed = false;
  async function* generate(): AsyncGenerator<Iterable<number>> {
    try {
      yield* given;
    } finally {
      closed = true;
    }
  }
  return { source: generate(), closed: () => closed };
}

test('BatchItemIterator returns the items of all batches in order, and skips empty batches', async () => {
  const { source } = batches([], [1, 2], [], [3], []);
  const seen: number[] = [];
  for await (const item of new BatchItemIterator(source, (batch) => batch)) seen.push(item);
  expect(seen).toEqual([1, 2, 3]);
});

test('BatchItemIterator returns one item to each concurrent `next()` call, in order, and `done` after the last item', async () => {
  const { source } = batches([1], [2, 3], [4]);
  const items = new BatchItemIterator(source, (batch) => batch);
  const results = await Promise.all(Array.from({ length: 6 }, () => items.next()));
  expect(results.map(({ value }) => value)).toEqual([1, 2, 3, 4, undefined, undefined]);
  expect(results.map(({ done }) => done)).toEqual([false, false, false, false, true, true]);
});

test('a `next()` call of BatchItemIterator does not overtake earlier `next()` calls that are still waiting', async () => {
  const { source } = batches([1], [2], [3], [4], [5], [6]);
  const items = new BatchItemIterator(source, (batch) => batch);
  const first = items.next();
  const waiting = [items.next(), items.next()];
  const eager = [first.then(() => items.next()), first.then(() => items.next())];
  const results = await Promise.all([first, ...waiting, ...eager]);
  expect(results.map(({ value }) => value)).toEqual([1, 2, 3, 4, 5]);
});

test('BatchItemIterator closes the iterator of the batches when the caller leaves a loop over the items with `break`', async () => {
  const { source, closed } = batches([1, 2], [3]);
  for await (const item of new BatchItemIterator(source, (batch) => batch)) if (item === 1) break;
  expect(closed()).toBe(true);
});

test('BatchItemIterator drops a batch that arrives after the caller has called `return()`', async () => {
  const end = { done: true, value: undefined } as const;
  let give: ((batch: IteratorResult<number[]>) => void) | undefined;
  const next = (): Promise<IteratorResult<number[]>> =>
    new Promise((resolve) => {
      give = resolve;
    });
  const items = new BatchItemIterator<number[], number>({ next, return: async () => end }, (batch) => batch);
  const first = items.next();
  await expect.poll(() => give).toBeDefined();
  await items.return();
  give?.({ done: false, value: [1, 2] });
  expect([await first, await items.next()]).toEqual([end, end]);
});

test('BatchItemIterator rejects the `next()` call and ends when reading an item of a batch throws', async () => {
  function* unreadable(): Generator<number> {
    yield 1;
    throw new Error('unreadable');
  }
  const { source, closed } = batches(unreadable(), [2]);
  const items = new BatchItemIterator(source, (batch) => batch);
  expect(await items.next()).toEqual({ done: false, value: 1 });
  await expect(items.next()).rejects.toThrow('unreadable');
  expect(closed()).toBe(true);
  expect(await items.next()).toEqual({ done: true, value: undefined });
});

test('BatchItemIterator rejects the `next()` call and ends when the iterator of the batches throws', async () => {
  async function* failing(): AsyncGenerator<readonly number[]> {
    yield [1];
    throw new Error('lost');
  }
  const items = new BatchItemIterator(failing(), (batch) => batch);
  const results = await Promise.allSettled([items.next(), items.next(), items.next()]);
  expect(results.map((result) => (result.status === 'fulfilled' ? result.value.value : result.reason.message))).toEqual(
    [1, 'lost', undefined],
  );
});
