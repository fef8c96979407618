import { getEventListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { AsyncQueue } from '../../src/base/queues.js';
import { onAbort } from '../../src/base/signals.js';
import { backoffMs, monotonicMs, pause, after as runAfter, settledWithin } from '../../src/base/timers.js';

describe('a timer', () => {
  test('never fires before it is due on the monotonic clock', async () => {
    const early = await Promise.all(
      Array.from({ length: 200 }, (_, index) => {
        const due = monotonicMs() + index / 7;
        return new Promise<boolean>((resolve) => runAfter(index / 7, () => resolve(monotonicMs() < due)));
      }),
    );
    expect(early).not.toContain(true);
  });

  test('can be infinite or longer than `setTimeout` allows, and can be canceled', () => {
    for (const delay of [2 ** 40, Number.POSITIVE_INFINITY]) runAfter(delay, () => expect.unreachable())();
  });

  test('of a backoff lasts at most 50 ms at first, and this limit doubles with each attempt up to 2 s', () => {
    for (let attempt = 0; attempt < 2_000; attempt += 1)
      expect(backoffMs(attempt)).toBeLessThanOrEqual(Math.min(2_000, 50 * 2 ** attempt));
  });

  test('of `pause` ends early when its signal aborts', async () => {
    const stop = new AbortController();
    const paused = pause(2 ** 30, undefined, stop.signal);
    stop.abort();
    await paused;
    await pause(2 ** 30, AbortSignal.abort());
  });
});

test('`settledWithin` leaves no timer behind when the promise settles in time', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  expect(await settledWithin(10_000, Promise.resolve())).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});

describe('`onAbort`', () => {
  test('adds one listener for any number of callbacks, and removes the listener with the last callback', () => {
    const { signal } = new AbortController();
    const undos = Array.from({ length: 20 }, () => onAbort(signal, () => {}));
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    for (const undo of undos) undo();
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  test('calls a callback twice if it was added twice, and does not call a removed callback', () => {
    const controller = new AbortController();
    const calls: string[] = [];
    const twice = (): void => void calls.push('twice');
    onAbort(controller.signal, twice);
    onAbort(controller.signal, twice);
    onAbort(controller.signal, () => calls.push('undone'))();
    controller.abort();
    expect(calls).toEqual(['twice', 'twice']);
  });
});

describe('AsyncQueue', () => {
  test('delivers items in order to waiting readers and to later readers', async () => {
    const queue = new AsyncQueue<number>();
    const early = [queue.next(), queue.next()];
    for (const item of [1, 2, 3]) queue.push(item);
    const taken = await Promise.all([...early, queue.next()]);
    expect(taken.map(({ value }) => value)).toEqual([1, 2, 3]);
  });

  test('delivers the remaining items after it has ended, and then the error once', async () => {
    const queue = new AsyncQueue<number>();
    queue.push(1);
    queue.end(new Error('ended'));
    queue.push(2);
    expect(await queue.next()).toEqual({ done: false, value: 1 });
    await expect(queue.next()).rejects.toThrow('ended');
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });

  test('adds up the sizes of its items, and calls `onTake` when an item is taken', async () => {
    let taken = 0;
    const queue = new AsyncQueue<string>(() => {
      taken += 1;
    });
    queue.push('a', 10);
    queue.push('b', 5);
    expect(queue.size).toBe(15);
    await queue.next();
    expect([queue.size, taken]).toEqual([5, 1]);
    queue.discard();
    expect([queue.size, queue.hasEnded]).toEqual([0, true]);
  });

  test('does not keep taken items in memory, even if the queue never becomes empty', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const queue = new AsyncQueue<object>();
    queue.push({});
    const taken: WeakRef<object>[] = [];
    for (let index = 0; index < 10; index += 1) {
      queue.push({});
      taken.push(new WeakRef((await queue.next()).value as object));
    }
    await expect
      .poll(() => {
        collect();
        return taken.filter((item) => item.deref() !== undefined).length;
      })
      .toBe(0);
    expect(queue.size).toBe(1);
  });
});
