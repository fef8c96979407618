import { getEventListeners } from 'node:events';
import { describe, expect, test, vi } from 'vitest';
import { CheckedSignal, onAbort } from '../../src/base/signals.js';
import { Mutex, Session } from '../../src/locks.js';
import { blockEventLoop } from '../support/block.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

test('the signal of a CheckedSignal fires only one `abort` event even if the runtime reads `aborted` while aborting the signal, as Deno does', () => {
  const { abort } = AbortController.prototype;
  const spy = vi.spyOn(AbortController.prototype, 'abort').mockImplementation(function (this: AbortController, reason) {
    if (!this.signal.aborted) abort.call(this, reason);
  });
  try {
    const lost = new Error('lost');
    const checked = new CheckedSignal(() => lost);
    const listener = vi.fn();
    checked.signal.addEventListener('abort', listener);
    expect(checked.signal.aborted).toBe(true);
    expect(checked.signal.reason).toBe(lost);
    expect(listener).toHaveBeenCalledTimes(1);
  } finally {
    spy.mockRestore();
  }
});

describe('`onAbort` with the signal of a CheckedSignal', () => {
  test('calls each callback once, after the signal has aborted, and adds no listener to the signal', () => {
    const checked = new CheckedSignal(() => undefined);
    const seen: unknown[] = [];
    onAbort(checked.signal, () => seen.push(checked.signal.reason));
    const off = onAbort(checked.signal, () => seen.push('removed'));
    off();
    expect(getEventListeners(checked.signal, 'abort')).toEqual([]);
    checked.abort('first');
    checked.abort('second');
    expect(seen).toEqual(['first']);
  });

  test('calls a callback that is registered after all earlier ones were removed', () => {
    const checked = new CheckedSignal(() => undefined);
    const callback = vi.fn();
    onAbort(checked.signal, callback)();
    onAbort(checked.signal, callback);
    checked.abort('end');
    expect(callback).toHaveBeenCalledTimes(1);
  });

  test('never calls a callback that is registered after the signal has aborted', () => {
    const checked = new CheckedSignal(() => undefined);
    const callback = vi.fn();
    checked.signal.addEventListener('abort', () => onAbort(checked.signal, callback));
    checked.abort('end');
    onAbort(checked.signal, callback);
    checked.abort('again');
    expect(callback).not.toHaveBeenCalled();
  });
});

test('`onAbort` calls its callback for a signal that calls listeners without `this` and without an event', () => {
  const listeners: (() => void)[] = [];
  const signal = { aborted: false, addEventListener: (_: string, listener: () => void) => listeners.push(listener) };
  const callback = vi.fn();
  onAbort(signal as unknown as AbortSignal, callback);
  for (const listener of listeners) listener();
  expect(callback).toHaveBeenCalledTimes(1);
});

describe('`signalWith`', () => {
  test('returns a signal that is already aborted when a blocked event loop resumes after the lease has expired, unlike `AbortSignal.any`', async () => {
    const session = await Session.open(openClient(), { ttl: 1 });
    const held = await new Mutex(session, unique('lock')).lock();
    const stop = new AbortController();
    const [checked, unchecked] = [held.signalWith(stop.signal), AbortSignal.any([held.signal, stop.signal])];
    expect([checked.aborted, unchecked.aborted]).toEqual([false, false]);
    blockEventLoop(session.remainingMs() + 100);
    // Reads `unchecked.aborted` first, because a read of `checked.aborted` aborts the lock's signal, from which both
    // signals derive.
    expect([unchecked.aborted, checked.aborted]).toEqual([false, true]);
    expect(checked.reason).toBe(held.signal.reason);
    expect(() => checked.throwIfAborted()).toThrow(expect.objectContaining({ reason: 'LeaseUnreachable' }));
  });

  test('returns a signal that aborts and calls its listeners when the given signal aborts', async () => {
    const session = await Session.open(openClient());
    const stop = new AbortController();
    const combined = session.signalWith(stop.signal);
    const listener = vi.fn();
    combined.addEventListener('abort', listener);
    stop.abort(new Error('stop'));
    expect(listener).toHaveBeenCalledTimes(1);
    expect(combined.reason).toMatchObject({ message: 'stop' });
    expect(session.signal.aborted).toBe(false);
  });

  test('removes its listener from the given signal when the lock is released', async () => {
    const session = await Session.open(openClient());
    const stop = new AbortController();
    for (let round = 0; round < 3; round += 1) {
      const held = await new Mutex(session, unique('lock')).lock();
      held.signalWith(stop.signal);
      await held.release();
    }
    expect(getEventListeners(stop.signal, 'abort')).toHaveLength(0);
  });

  test('refuses a value that is not an AbortSignal', async () => {
    const session = await Session.open(openClient());
    for (const other of [undefined, null, {}, 'stop'])
      expect(await errorOf(() => session.signalWith(other as never))).toMatchObject({ reason: 'InvalidInput' });
  });
});
