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

test('a watch that ends leaves nothing in doubt either, and who says not who it is lacks permission', () => {
  const lost = { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' } as const;
  const watch = describeFailure(new EtcdError('gone', { ...lost, method: methods.watch.watch.path }));
  expect(watch.exitCode).toBe(ExitCode.UNAVAILABLE);
  const nobody = { code: 'InvalidArgument', reason: 'UserEmpty', outcome: 'rejected' } as const;
  expect(describeFailure(new EtcdError('etcdserver: user name is empty', nobody)).exitCode).toBe(
    ExitCode.NO_PERMISSION,
  );
});

test('options are called as the program calls them, and who does not trust a server is told of no other', () => {
  const problem = 'unable to verify the first certificate; no authority in tls.ca signed it; connectTimeoutMs = 2000';
  const { message } = describeFailure(new EtcdError(problem, REFUSED));
  expect(message).toContain('no authority in --cacert signed it; --dial-timeout, 2000 ms');
  expect(message).not.toContain('is etcd running');
});
