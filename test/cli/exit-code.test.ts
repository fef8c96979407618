import { expect, test } from 'vitest';
import { describeFailure, ExitCode } from '../../src/cli/exit-code.js';
import { methods } from '../../src/gen/methods.js';
import { EtcdError } from '../../src/index.js';

const REFUSED = { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent' } as const;
const LATE = { code: 'DeadlineExceeded', reason: 'DeadlineExceeded' } as const;

test('a write that one member did not take and another did not answer may have been applied', () => {
  const { path: method } = methods.kv.put;
  const cause = new EtcdError('cannot connect', { ...REFUSED, method });
  const failure = describeFailure(new EtcdError('not done in time', { ...LATE, outcome: 'unknown', method, cause }));
  expect(failure.exitCode).toBe(ExitCode.UNKNOWN);
  expect(failure.message).toContain('look at the key before doing it again');
  const neither = describeFailure(new EtcdError('not done in time', { ...LATE, outcome: 'not-sent', method, cause }));
  expect(neither.exitCode).toBe(ExitCode.UNAVAILABLE);
});

test('of a read that was not answered nothing is in doubt', () => {
  const where = { outcome: 'unknown', method: methods.kv.range.path } as const;
  expect(
    describeFailure(new EtcdError('gone', { code: 'Unavailable', reason: 'ConnectionLost', ...where })).exitCode,
  ).toBe(ExitCode.UNAVAILABLE);
  expect(describeFailure(new EtcdError('not done in time', { ...LATE, ...where })).exitCode).toBe(ExitCode.TRY_AGAIN);
});
