import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { canceled, EtcdError, invalidInput, type Outcome, timedOut } from '../src/errors/etcd-error.js';
import { serverReason, statusOfReason } from '../src/errors/server-errors.js';
import { STATUS_CODES, type StatusCode } from '../src/errors/status.js';
import { errorFromStatus, errorFromText } from '../src/errors/status-error.js';

interface ErrorFact {
  readonly name: string;
  readonly code: StatusCode;
  readonly message: string;
}

const { errors }: { errors: readonly ErrorFact[] } = JSON.parse(
  readFileSync(new URL('./facts/etcd-v3-errors.json', import.meta.url), 'utf8'),
);
const OPEN: readonly StatusCode[] = ['Canceled', 'DeadlineExceeded', 'Unavailable', 'DataLoss'];
const where = { method: '/etcdserverpb.KV/Put', endpoint: 'http://127.0.0.1:2379' };

describe('the table of server errors', () => {
  it.each(errors)('knows $name by its message and gives its status', ({ name, code, message }) => {
    const reason = serverReason(message);
    expect(reason).toBe(name);
    expect(reason && statusOfReason(reason)).toBe(code);
  });

  it('has as many entries as the server names errors', () => {
    const source = readFileSync(new URL('../src/errors/server-errors.ts', import.meta.url), 'utf8');
    const messages = [...source.matchAll(/'(etcdserver: [^']*)'/g)].map(([, message]) => message);
    expect(messages.sort()).toStrictEqual(errors.map(({ message }) => message).sort());
  });

  it('knows no other text, be it only slightly different', () => {
    for (const { message } of errors) {
      expect(serverReason(`${message} `)).toBeUndefined();
      expect(serverReason(message.replace('etcdserver: ', ''))).toBeUndefined();
    }
    expect(serverReason('')).toBeUndefined();
    expect(serverReason('constructor')).toBeUndefined();
  });
});

describe('an error from a gRPC status', () => {
  it.each(errors)('is named $name by the text, with the outcome its status proves', ({ name, code, message }) => {
    const error = errorFromStatus(code, message, where);
    expect(error).toMatchObject({ code, reason: name, problem: message, ...where });
    // A write that goes beyond the quota is done, and refused: test/kv/no-space.test.ts.
    expect(error.outcome).toBe(OPEN.includes(code) || name === 'NoSpace' ? 'unknown' : 'rejected');
  });

  it.each(STATUS_CODES.slice(1))(
    'leaves the outcome open when %s comes with a text that etcd does not have',
    (code) => {
      const error = errorFromStatus(code, 'no healthy upstream', where);
      expect(error).toMatchObject({
        code,
        outcome: 'unknown',
        reason: code === 'Unavailable' ? 'ConnectionLost' : 'Other',
      });
    },
  );

  it('takes the word of a learner that it did nothing, whatever code it comes with', () => {
    for (const code of ['FailedPrecondition', 'Unavailable'] as const)
      expect(errorFromStatus(code, 'etcdserver: rpc not supported for learner')).toMatchObject({
        reason: 'NotSupportedForLearner',
        outcome: 'rejected',
      });
  });

  it('leaves the outcome of ResourceExhausted open unless etcd itself says what is exhausted, and it is not space', () => {
    const tooLong = 'grpc: received message larger than max (2097200 vs. 2097152)';
    expect(errorFromStatus('ResourceExhausted', tooLong)).toMatchObject({ reason: 'Other', outcome: 'unknown' });
    expect(errorFromStatus('ResourceExhausted', 'etcdserver: too many requests')).toMatchObject({
      reason: 'RequestTooManyRequests',
      outcome: 'rejected',
    });
    expect(errorFromStatus('ResourceExhausted', 'etcdserver: mvcc: database space exceeded')).toMatchObject({
      reason: 'NoSpace',
      outcome: 'unknown',
    });
  });

  it('is a rejection when the server does not know the method or the service', () => {
    const outcomes = [
      errorFromStatus('Unimplemented', 'unknown method RangeStream for service etcdserverpb.KV').outcome,
      errorFromStatus('Unimplemented', 'unknown service v3lockpb.Lock').outcome,
      errorFromStatus('Unknown', 'unknown method RangeStream for service etcdserverpb.KV').outcome,
      errorFromStatus('Unimplemented', 'an unknown method Range').outcome,
    ];
    expect(outcomes).toStrictEqual<Outcome[]>(['rejected', 'rejected', 'unknown', 'unknown']);
  });

  it('says which status it was when there is no text', () => {
    expect(errorFromStatus('Internal', '')).toMatchObject({ message: 'gRPC status Internal', outcome: 'unknown' });
  });
});

describe('an error from text', () => {
  it.each(errors)('recovers $name from what Go prints and from the bare text', ({ name, code, message }) => {
    for (const text of [`rpc error: code = ${code} desc = ${message}`, message, message.replace('etcdserver: ', '')]) {
      expect(errorFromText(text)).toMatchObject({ reason: name, code, outcome: 'rejected' });
    }
  });

  it('recovers a denied watch', () => {
    const text = 'rpc error: code = PermissionDenied desc = etcdserver: permission denied';
    const error = errorFromText(text, { method: '/etcdserverpb.Watch/Watch' });
    expect(error).toMatchObject({
      reason: 'PermissionDenied',
      code: 'PermissionDenied',
      problem: 'etcdserver: permission denied',
      method: '/etcdserverpb.Watch/Watch',
    });
  });

  it('keeps text that etcd does not have, over several lines too', () => {
    const error = errorFromText('rpc error: code = Internal desc = one\ntwo');
    expect(error).toMatchObject({ reason: 'Other', code: 'Internal', problem: 'one\ntwo' });
    expect(errorFromText('who knows')).toMatchObject({ reason: 'Other', code: 'Unknown', problem: 'who knows' });
  });
});

describe('a named error under another status', () => {
  it('is inconclusive where either of the two is: the lock service passes errors on with status Unknown', () => {
    expect(errorFromStatus('Unknown', 'etcdserver: request timed out')).toMatchObject({
      reason: 'Timeout',
      outcome: 'unknown',
    });
    expect(errorFromStatus('Unavailable', 'etcdserver: key is not provided').outcome).toBe('unknown');
    expect(errorFromStatus('Unknown', 'etcdserver: key is not provided').outcome).toBe('rejected');
  });
});

describe('the message of an error', () => {
  const details = { code: 'Unavailable', reason: 'ConnectionLost' } as const;

  it.each([
    ['not-sent', 'not sent'],
    ['rejected', 'rejected, nothing was done'],
    ['unknown', 'outcome unknown, it may have been done'],
  ] as const)('names method, endpoint and outcome: %s', (outcome, text) => {
    const error = new EtcdError('it broke', { ...details, ...where, outcome });
    expect(error.message).toBe(`it broke (etcdserverpb.KV/Put at http://127.0.0.1:2379: ${text})`);
    expect(error.problem).toBe('it broke');
  });

  it('leaves out what is not known', () => {
    const { method } = where;
    expect(new EtcdError('it broke', { ...details, outcome: 'not-sent', method }).message).toBe(
      'it broke (etcdserverpb.KV/Put: not sent)',
    );
    expect(new EtcdError('it broke', { ...details, outcome: 'not-sent' }).message).toBe('it broke');
  });
});

describe('an error of this side', () => {
  it('is an Error with a name and, only where there is one, a cause', () => {
    const cause = new Error('below');
    const details = { code: 'Internal', reason: 'Other', outcome: 'unknown' } as const;
    expect(new EtcdError('above', { ...details, cause })).toMatchObject({ name: 'EtcdError', cause });
    expect(new EtcdError('above', details)).toBeInstanceOf(Error);
    expect('cause' in new EtcdError('above', details)).toBe(false);
  });

  it('names the argument refused, what was given and what is allowed', () => {
    const error = invalidInput('ttl', '0', 'at least 1');
    expect(error).toMatchObject({ reason: 'InvalidInput', code: 'InvalidArgument', outcome: 'not-sent' });
    expect(error.message).toBe('ttl: got 0; allowed: at least 1');
  });

  it('tells the caller’s own signal from the caller’s own timeout', () => {
    const byCaller = canceled(AbortSignal.abort('enough'), 'unknown', where.method);
    expect(byCaller).toMatchObject({ reason: 'Canceled', code: 'Canceled', outcome: 'unknown', cause: 'enough' });
    const late = timedOut('put', 5, 'not-sent', where.method);
    expect(late).toMatchObject({ reason: 'DeadlineExceeded', code: 'DeadlineExceeded', outcome: 'not-sent' });
    expect(late.message).toBe('put not done within timeoutMs = 5 (etcdserverpb.KV/Put: not sent)');
  });
});
