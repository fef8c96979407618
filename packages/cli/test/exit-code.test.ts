import { expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { EtcdError } from '../../../src/index.js';
import { describeFailure, ExitCode } from '../src/exit-code.js';

const REFUSED = { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent' } as const;
const LATE = { code: 'DeadlineExceeded', reason: 'DeadlineExceeded' } as const;

test('`describeFailure` returns the exit code UNKNOWN for a write that one member refused and another member did not answer', () => {
  const { path: method } = methods.kv.put;
  const cause = new EtcdError('cannot connect', { ...REFUSED, method });
  const failure = describeFailure(new EtcdError('not done in time', { ...LATE, outcome: 'unknown', method, cause }));
  expect(failure.exitCode).toBe(ExitCode.UNKNOWN);
  expect(failure.message).toContain('read the key before you repeat the write');
  const neither = describeFailure(new EtcdError('not done in time', { ...LATE, outcome: 'not-sent', method, cause }));
  expect(neither.exitCode).toBe(ExitCode.UNAVAILABLE);
});

test('`describeFailure` never returns the exit code UNKNOWN for a read, even when the outcome of the read is unknown', () => {
  const read = { outcome: 'unknown', method: methods.kv.range.path } as const;
  expect(
    describeFailure(new EtcdError('gone', { code: 'Unavailable', reason: 'ConnectionLost', ...read })).exitCode,
  ).toBe(ExitCode.UNAVAILABLE);
  expect(describeFailure(new EtcdError('not done in time', { ...LATE, ...read })).exitCode).toBe(ExitCode.TRY_AGAIN);
});

test('`describeFailure` returns the exit code UNAVAILABLE for a watch that lost its connection, and NO_PERMISSION for an empty user name', () => {
  const lost = { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' } as const;
  const watch = describeFailure(new EtcdError('gone', { ...lost, method: methods.watch.watch.path }));
  expect(watch.exitCode).toBe(ExitCode.UNAVAILABLE);
  const nobody = { code: 'InvalidArgument', reason: 'UserEmpty', outcome: 'rejected' } as const;
  expect(describeFailure(new EtcdError('etcdserver: user name is empty', nobody)).exitCode).toBe(
    ExitCode.NO_PERMISSION,
  );
});

test('after a TLS failure, `describeFailure` names command-line flags instead of client options, and does not ask whether etcd is running', () => {
  const problem = 'unable to verify the first certificate; no authority in tls.ca signed it; connectTimeoutMs = 2000';
  const { message } = describeFailure(new EtcdError(problem, REFUSED));
  expect(message).toContain('no authority in --cacert signed it; --dial-timeout, 2000 ms');
  expect(message).not.toContain('is etcd running');
});
