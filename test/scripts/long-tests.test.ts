import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { LongTests } from '../support/long-tests.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const file = { type: 'module', id: '1', relativeModuleId: 'test/client/kv/kv.test.ts', project: { name: 'http2' } };
const slow = { type: 'test', id: '1_0', fullName: 'a put > hangs', module: file } as never;
const fast = { type: 'test', id: '1_1', fullName: 'a put > ends', module: file } as never;

test('the reporter of long tests names the tests and hooks that have run for a minute, and no others', () => {
  const lines: string[] = [];
  const reporter = new LongTests((text) => void lines.push(text));
  reporter.onTestCaseReady(fast);
  reporter.onTestCaseReady(slow);
  reporter.onHookStart({ name: 'beforeAll', entity: file as never });
  vi.advanceTimersByTime(59_999);
  expect(lines).toEqual([]);
  reporter.onTestCaseResult(fast);
  vi.advanceTimersByTime(1);
  expect(lines).toEqual([
    'still running after 60 s: [http2] test/client/kv/kv.test.ts > a put > hangs\n',
    'still running after 60 s: beforeAll of [http2] test/client/kv/kv.test.ts\n',
  ]);
});

test('the reporter of long tests names nothing after the end of the run', () => {
  const lines: string[] = [];
  const reporter = new LongTests((text) => void lines.push(text));
  reporter.onTestCaseReady(slow);
  reporter.onTestRunEnd();
  vi.advanceTimersByTime(600_000);
  expect(lines).toEqual([]);
});
