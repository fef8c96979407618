import { expect, test, vi } from 'vitest';
import { CheckedSignal } from '../src/checked-signal.js';

test('a signal aborts once, also where the host reads it while it aborts, as Deno does', () => {
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
