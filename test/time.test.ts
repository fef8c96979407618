import { expect, onTestFinished, test, vi } from 'vitest';
import { settledWithin } from '../src/runtime/timers.js';

test('what settles in time leaves no timer behind, which would keep the process', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  expect(await settledWithin(10_000, Promise.resolve())).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});
