import { expect, test } from 'vitest';
import { FlatIterator } from '../src/runtime/iterators.js';

/** Batches of numbers; notes whether they were given up. */
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

test('items come in order over all batches, empty ones among them', async () => {
  const { source } = batches([], [1, 2], [], [3], []);
  const seen: number[] = [];
  for await (const item of new FlatIterator(source, (batch) => batch)) seen.push(item);
  expect(seen).toEqual([1, 2, 3]);
});

test('who asks several times at once gets an item each, in order, and then the end', async () => {
  const { source } = batches([1], [2, 3], [4]);
  const items = new FlatIterator(source, (batch) => batch);
  const results = await Promise.all(Array.from({ length: 6 }, () => items.next()));
  expect(results.map(({ value }) => value)).toEqual([1, 2, 3, 4, undefined, undefined]);
  expect(results.map(({ done }) => done)).toEqual([false, false, false, false, true, true]);
});

test('who asks as soon as one has come gets none ahead of those who wait', async () => {
  const { source } = batches([1], [2], [3], [4], [5], [6]);
  const items = new FlatIterator(source, (batch) => batch);
  const first = items.next();
  const waiting = [items.next(), items.next()];
  const eager = [first.then(() => items.next()), first.then(() => items.next())];
  const results = await Promise.all([first, ...waiting, ...eager]);
  expect(results.map(({ value }) => value)).toEqual([1, 2, 3, 4, 5]);
});

test('a loop that is left gives up the batches', async () => {
  const { source, closed } = batches([1, 2], [3]);
  for await (const item of new FlatIterator(source, (batch) => batch)) if (item === 1) break;
  expect(closed()).toBe(true);
});

test('a loop that is left while a batch is on its way gets none of it', async () => {
  const end = { done: true, value: undefined } as const;
  let give: ((batch: IteratorResult<number[]>) => void) | undefined;
  const next = (): Promise<IteratorResult<number[]>> =>
    new Promise((resolve) => {
      give = resolve;
    });
  const items = new FlatIterator<number[], number>({ next, return: async () => end }, (batch) => batch);
  const first = items.next();
  await expect.poll(() => give).toBeDefined();
  await items.return();
  give?.({ done: false, value: [1, 2] });
  expect([await first, await items.next()]).toEqual([end, end]);
});

test('an item that cannot be read is an error, after which there are no more', async () => {
  function* unreadable(): Generator<number> {
    yield 1;
    throw new Error('unreadable');
  }
  const { source, closed } = batches(unreadable(), [2]);
  const items = new FlatIterator(source, (batch) => batch);
  expect(await items.next()).toEqual({ done: false, value: 1 });
  await expect(items.next()).rejects.toThrow('unreadable');
  expect(closed()).toBe(true);
  expect(await items.next()).toEqual({ done: true, value: undefined });
});

test('a batch that fails is an error, after which there are no more', async () => {
  async function* failing(): AsyncGenerator<readonly number[]> {
    yield [1];
    throw new Error('lost');
  }
  const items = new FlatIterator(failing(), (batch) => batch);
  const results = await Promise.allSettled([items.next(), items.next(), items.next()]);
  expect(results.map((result) => (result.status === 'fulfilled' ? result.value.value : result.reason.message))).toEqual(
    [1, 'lost', undefined],
  );
});
