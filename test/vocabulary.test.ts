import { getEventListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { AsyncQueue } from '../src/runtime/queues.js';
import { onAbort } from '../src/runtime/signals.js';
import { backoffMs, monotonicMs, pause, after as runAfter } from '../src/runtime/timers.js';

describe('a timer', () => {
  test('never fires before its time on the monotonic clock', async () => {
    const early = await Promise.all(
      Array.from({ length: 200 }, (_, index) => {
        const due = monotonicMs() + index / 7;
        return new Promise<boolean>((resolve) => runAfter(index / 7, () => resolve(monotonicMs() < due)));
      }),
    );
    expect(early).not.toContain(true);
  });

  test('may be for ever, or longer than the host’s timers go, and be called off', () => {
    for (const delay of [2 ** 40, Number.POSITIVE_INFINITY]) runAfter(delay, () => expect.unreachable())();
  });

  test('of a backoff stays within its bounds', () => {
    for (let attempt = 0; attempt < 2_000; attempt += 1)
      expect(backoffMs(attempt)).toBeLessThanOrEqual(Math.min(2_000, 50 * 2 ** attempt));
  });

  test('ends early when a signal aborts', async () => {
    const stop = new AbortController();
    const paused = pause(2 ** 30, undefined, stop.signal);
    stop.abort();
    await paused;
    await pause(2 ** 30, AbortSignal.abort());
  });
});

describe('waiting for a signal', () => {
  test('takes one listener, however many wait, and gives it back with the last', () => {
    const { signal } = new AbortController();
    const undos = Array.from({ length: 20 }, () => onAbort(signal, () => {}));
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    for (const undo of undos) undo();
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  test('calls back whoever still waits, each once, also the same callback given twice', () => {
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

describe('an asynchronous queue', () => {
  test('hands over in order, to those who wait and to those who come later', async () => {
    const queue = new AsyncQueue<number>();
    const early = [queue.next(), queue.next()];
    for (const item of [1, 2, 3]) queue.push(item);
    const taken = await Promise.all([...early, queue.next()]);
    expect(taken.map(({ value }) => value)).toEqual([1, 2, 3]);
  });

  test('gives what lies there before its end, and the error once', async () => {
    const queue = new AsyncQueue<number>();
    queue.push(1);
    queue.end(new Error('over'));
    queue.push(2);
    expect(await queue.next()).toEqual({ done: false, value: 1 });
    await expect(queue.next()).rejects.toThrow('over');
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });

  test('knows what lies there, and tells when it becomes less', async () => {
    let told = 0;
    const queue = new AsyncQueue<string>(() => {
      told += 1;
    });
    queue.push('a', 10);
    queue.push('b', 5);
    expect(queue.size).toBe(15);
    await queue.next();
    expect([queue.size, told]).toEqual([5, 1]);
    queue.discard();
    expect([queue.size, queue.ended]).toEqual([0, true]);
  });

  test('does not hold what was taken, though it is never empty', async () => {
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
