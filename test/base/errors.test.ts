import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { canceled, EtcdError, invalidInput, type Outcome, type Reason, timedOut } from '../../src/base/etcd-error.js';
import { SERVER_ERRORS, STATUS_CODES, type StatusCode, serverReason, statusOfReason } from '../../src/base/status.js';
import { errorFromStatus, errorFromText } from '../../src/base/status-error.js';
import { allMethods } from '../../src/extras/transports/json/method-table.js';
import { isEndpointFailure } from '../../src/rpc/attempts.js';
import { responseTooLarge } from '../../src/wire/messages.js';

interface ErrorFact {
  readonly name: string;
  readonly code: StatusCode;
  readonly message: string;
}

const { errors }: { errors: readonly ErrorFact[] } = JSON.parse(
  readFileSync(new URL('../facts/etcd-v3-errors.json', import.meta.url), 'utf8'),
);

/**
 * The errors that etcd forwards from its own parts and from its libraries, and that Go's `rpctypes` does not contain:
 * message, status, reason, outcome, and whether the client should use another endpoint. The messages come from
 * `parseProposeCtxErr`, `Propose` and `LeaseRenew` in server/etcdserver/v3_server.go, from errors.go beside it, from
 * raft's node.go, from server/proxy/grpcproxy/adapter, and from client/v3/concurrency, each in etcd 3.5 to 3.7.
 */
const FORWARDED: readonly (readonly [string, StatusCode, Reason, Outcome, boolean])[] = [
  ['context deadline exceeded', 'DeadlineExceeded', 'Timeout', 'unknown', true],
  ['context deadline exceeded', 'Unknown', 'Timeout', 'unknown', true],
  ['etcdserver: request timed out, leader transfer took too long', 'Unknown', 'Timeout', 'unknown', true],
  ['raft: stopped', 'Unknown', 'Stopped', 'unknown', true],
  ['context canceled', 'Canceled', 'Stopped', 'unknown', true],
  ['the client connection is closing', 'Canceled', 'Stopped', 'unknown', true],
  ['grpc: the client connection is closing', 'Canceled', 'Stopped', 'unknown', true],
  ['not a primary lessor', 'Unknown', 'NoLeader', 'rejected', true],
  ['etcdserver: no leader', 'Unknown', 'NoLeader', 'rejected', true],
  ['raft proposal dropped', 'Unknown', 'ProposalDropped', 'rejected', true],
  ['etcdserver: request cancelled', 'Unknown', 'Canceled', 'unknown', false],
  ['mutex: session is expired', 'Unknown', 'SessionExpired', 'rejected', false],
  ['election: no leader', 'Unknown', 'ElectionNoLeader', 'rejected', false],
  ['election: not leader', 'Unknown', 'ElectionNotLeader', 'rejected', false],
];

const OPEN: readonly StatusCode[] = ['Canceled', 'DeadlineExceeded', 'Unavailable', 'DataLoss'];
const where = { method: '/etcdserverpb.KV/Put', endpoint: 'http://127.0.0.1:2379' };

describe('the table of server errors', () => {
  it.each(errors)('maps the message of $name to the reason $name and the status $code', ({ name, code, message }) => {
    const reason = serverReason(message);
    expect(reason).toBe(name);
    expect(reason && statusOfReason(reason)).toBe(code);
  });

  it('contains exactly the errors that facts/etcd-v3-errors.json lists', () => {
    const messages = Object.values(SERVER_ERRORS).map(([, message]) => message);
    const listed = messages.filter((message) => message.startsWith('etcdserver: '));
    expect(listed.sort()).toStrictEqual(errors.map(({ message }) => message).sort());
  });

  it('maps only texts that equal the message of an etcd error', () => {
    for (const { message } of errors) {
      expect(serverReason(`${message} `)).toBeUndefined();
      const withoutPrefix = message.replace('etcdserver: ', '');
      if (!FORWARDED.some(([text]) => text === withoutPrefix)) expect(serverReason(withoutPrefix)).toBeUndefined();
    }
    expect(serverReason('')).toBeUndefined();
    expect(serverReason('constructor')).toBeUndefined();
  });
});

describe('an error that etcd forwards', () => {
  it.each(FORWARDED)('%j with status %s has reason %s and outcome %s', (message, code, reason, outcome, isEndpoint) => {
    const error = errorFromStatus(code, message, where);
    expect(error).toMatchObject({ code, reason, outcome, problem: message });
    expect(isEndpointFailure(error)).toBe(isEndpoint);
  });

  it('is not a failure of the endpoint if an unhealthy cluster refuses a change of its membership', () => {
    const error = errorFromStatus('Unavailable', 'etcdserver: unhealthy cluster', where);
    expect(error).toMatchObject({ reason: 'Unhealthy', outcome: 'rejected' });
    expect(isEndpointFailure(error)).toBe(false);
  });
});

describe('`errorFromStatus`', () => {
  it.each(errors)(
    'returns an error with reason $name and the right outcome for the message of $name',
    ({ name, code, message }) => {
      const error = errorFromStatus(code, message, where);
      expect(error).toMatchObject({ code, reason: name, problem: expect.stringContaining(message), ...where });
      // The server may apply a write that exceeds the quota, although it refuses the write: see
      // test/client/kv/no-space.test.ts. Without a leader, and in a corrupt or unhealthy cluster, it refuses a write before
      // it does anything.
      const isRefusedFirst = ['NoLeader', 'Corrupt', 'Unhealthy'].includes(name);
      const isOpen = name === 'NoSpace' || (OPEN.includes(code) && !isRefusedFirst);
      expect(error.outcome).toBe(isOpen ? 'unknown' : 'rejected');
    },
  );

  it.each(STATUS_CODES.slice(1))(
    'returns an error with outcome unknown when status %s comes with a text that is not the message of an etcd error',
    (code) => {
      const error = errorFromStatus(code, 'no healthy upstream', { ...where, method: '/v3lockpb.Lock/Unlock' });
      expect(error).toMatchObject({
        code,
        outcome: 'unknown',
        reason: code === 'Unavailable' ? 'ConnectionLost' : 'Other',
      });
    },
  );

  it('returns an error with reason NotEtcd if the server lacks a service that every etcd has', () => {
    const reasonFor = (method: string, message: string): Reason =>
      errorFromStatus('Unimplemented', message, { method }).reason;
    expect(reasonFor('/etcdserverpb.KV/Range', 'unknown service etcdserverpb.KV')).toBe('NotEtcd');
    expect(reasonFor('/etcdserverpb.Watch/Watch', '')).toBe('NotEtcd');
    expect(reasonFor('/etcdserverpb.Lease/LeaseGrant', 'Method not found!')).toBe('NotEtcd');
    expect(reasonFor('/etcdserverpb.KV/RangeStream', 'unknown method RangeStream for service etcdserverpb.KV')).toBe(
      'Other',
    );
    // etcd 3.7 refuses some requests of this method with the same status.
    expect(reasonFor('/etcdserverpb.KV/RangeStream', 'RangeStream does not support custom sort orders')).toBe('Other');
    expect(reasonFor('/v3lockpb.Lock/Lock', 'unknown service v3lockpb.Lock')).toBe('Other');
  });

  it('returns an error with outcome rejected when a learner refuses a call, whatever the status', () => {
    for (const code of ['FailedPrecondition', 'Unavailable'] as const)
      expect(errorFromStatus(code, 'etcdserver: rpc not supported for learner')).toMatchObject({
        reason: 'NotSupportedForLearner',
        outcome: 'rejected',
      });
  });

  it('returns an error with outcome unknown for status ResourceExhausted, unless the message says that etcd has too many requests', () => {
    const tooLong = 'grpc: received message larger than max (2097200 vs. 2097152)';
    expect(errorFromStatus('ResourceExhausted', tooLong)).toMatchObject({ reason: 'Other', outcome: 'unknown' });
    expect(errorFromStatus('ResourceExhausted', 'etcdserver: too many requests')).toMatchObject({
      reason: 'RequestTooManyRequests',
      outcome: 'rejected',
    });
    expect(errorFromStatus('ResourceExhausted', 'etcdserver: mvcc: database space exceeded')).toMatchObject({
      reason: 'NoSpace',
      outcome: 'unknown',
      problem: expect.stringContaining('; compact with physical: true'),
    });
  });

  it('returns an error with outcome unknown for a refusal that another attempt of the same request may have caused', () => {
    const promote = { ...where, method: '/etcdserverpb.Cluster/MemberPromote' };
    const outcomeOf = (message: string, method: string): Outcome =>
      errorFromStatus('FailedPrecondition', `etcdserver: ${message}`, { ...where, method }).outcome;
    const messages = [
      'can only promote a learner member',
      'can only promote a learner member which is in sync with leader',
      'member not found',
    ];
    for (const message of messages) {
      expect(outcomeOf(message, promote.method)).toBe('unknown');
      expect(outcomeOf(message, '/etcdserverpb.Cluster/MemberRemove')).toBe('rejected');
    }
    expect(outcomeOf('re-configuration failed due to not enough started members', promote.method)).toBe('rejected');
    const tooMany = 'too many learner members in cluster';
    expect(outcomeOf(tooMany, '/etcdserverpb.Cluster/MemberAdd')).toBe('unknown');
  });

  it('returns an error with outcome rejected only if both status and message say that the server lacks the method or service', () => {
    const outcomes = [
      errorFromStatus('Unimplemented', 'unknown method RangeStream for service etcdserverpb.KV').outcome,
      errorFromStatus('Unimplemented', 'unknown service v3lockpb.Lock').outcome,
      errorFromStatus('Unknown', 'unknown method RangeStream for service etcdserverpb.KV').outcome,
      errorFromStatus('Unimplemented', 'an unknown method Range').outcome,
    ];
    expect(outcomes).toStrictEqual<Outcome[]>(['rejected', 'rejected', 'unknown', 'unknown']);
  });

  it('returns an error that names the status when the message is empty', () => {
    expect(errorFromStatus('Internal', '')).toMatchObject({ message: 'gRPC status Internal', outcome: 'unknown' });
  });
});

describe('`errorFromText`', () => {
  it.each(errors)(
    'returns an error with reason $name for the message of $name, with or without the prefixes that gRPC and etcd add',
    ({ name, code, message }) => {
      const withoutPrefix = message.replace('etcdserver: ', '');
      for (const text of [`rpc error: code = ${code} desc = ${message}`, message, withoutPrefix]) {
        if (text === 'context deadline exceeded') continue;
        expect(errorFromText(text)).toMatchObject({ reason: name, code, outcome: 'rejected' });
      }
    },
  );

  it('returns an error with reason PermissionDenied for the `cancel_reason` of a watch that the server denies', () => {
    const text = 'rpc error: code = PermissionDenied desc = etcdserver: permission denied';
    const error = errorFromText(text, { method: '/etcdserverpb.Watch/Watch' });
    expect(error).toMatchObject({
      reason: 'PermissionDenied',
      code: 'PermissionDenied',
      problem: 'etcdserver: permission denied',
      method: '/etcdserverpb.Watch/Watch',
    });
  });

  it('returns an error with reason Other and every line of the message when the message belongs to no etcd error', () => {
    const error = errorFromText('rpc error: code = Internal desc = one\ntwo');
    expect(error).toMatchObject({ reason: 'Other', code: 'Internal', problem: 'one\ntwo' });
    expect(errorFromText('who knows')).toMatchObject({ reason: 'Other', code: 'Unknown', problem: 'who knows' });
  });
});

// etcd's lock service, for example, forwards the errors of other services with status Unknown.
describe('`errorFromStatus` for an etcd error that arrives with an unusual status', () => {
  it('returns an error with outcome unknown if the usual status or the received status leaves the outcome open', () => {
    expect(errorFromStatus('Unknown', 'etcdserver: request timed out')).toMatchObject({
      reason: 'Timeout',
      outcome: 'unknown',
    });
    expect(errorFromStatus('Unavailable', 'etcdserver: key is not provided').outcome).toBe('unknown');
    expect(errorFromStatus('Unknown', 'etcdserver: key is not provided').outcome).toBe('rejected');
  });
});

describe('the message of an EtcdError', () => {
  /** Methods that only read, and that the client does not repeat without knowing what the caller has received. */
  const READ_ONCE = ['Watch/Watch', 'Maintenance/Snapshot', 'Election/Observe'];
  const details = { code: 'Unavailable', reason: 'ConnectionLost' } as const;

  it.each([
    ['not-sent', 'not sent'],
    ['rejected', 'rejected, nothing was done'],
    ['unknown', 'outcome unknown, it may have been done'],
  ] as const)('contains the method, the endpoint and the outcome %s', (outcome, text) => {
    const error = new EtcdError('it broke', { ...details, ...where, outcome });
    expect(error.message).toBe(`it broke (etcdserverpb.KV/Put at http://127.0.0.1:2379: ${text})`);
    expect(error.problem).toBe('it broke');
  });

  it('contains no outcome if the method only reads, and contains an outcome if the method may write', () => {
    for (const { path, repeatable } of allMethods) {
      const error = new EtcdError('it broke', { ...details, method: path, outcome: 'unknown' });
      const readsOnly = repeatable === true || READ_ONCE.some((name) => path.endsWith(name));
      expect(error.message.includes('it may have been done'), path).toBe(!readsOnly);
    }
  });

  it('omits the endpoint when only the method is known, and contains only the problem when neither is known', () => {
    const { method } = where;
    expect(new EtcdError('it broke', { ...details, outcome: 'not-sent', method }).message).toBe(
      'it broke (etcdserverpb.KV/Put: not sent)',
    );
    expect(new EtcdError('it broke', { ...details, outcome: 'not-sent' }).message).toBe('it broke');
  });
});

it('tells the caller of a range to use `scan` if the response is too large', () => {
  const where = { endpoint: 'http://127.0.0.1:2379' };
  expect(responseTooLarge(9, 8, { ...where, method: '/etcdserverpb.KV/Range' }).problem).toContain('use scan');
  expect(responseTooLarge(9, 8, { ...where, method: '/etcdserverpb.KV/Txn' }).problem).not.toContain('scan');
});

describe('an EtcdError', () => {
  it('is an Error with the name EtcdError, and has a `cause` only if the constructor received a cause', () => {
    const cause = new Error('below');
    const details = { code: 'Internal', reason: 'Other', outcome: 'unknown' } as const;
    expect(new EtcdError('above', { ...details, cause })).toMatchObject({ name: 'EtcdError', cause });
    expect(new EtcdError('above', details)).toBeInstanceOf(Error);
    expect('cause' in new EtcdError('above', details)).toBe(false);
  });

  it('is converted to JSON with its `cause`, and with `compactRevision` as a decimal string', () => {
    const cause = new EtcdError('below', {
      code: 'Internal',
      reason: 'Other',
      outcome: 'unknown',
      compactRevision: 1n,
    });
    const error = new EtcdError('above', {
      ...{ code: 'OutOfRange', reason: 'Compacted', outcome: 'rejected', ...where },
      ...{ compactRevision: 2n ** 60n, cause },
    });
    expect(JSON.parse(JSON.stringify(error))).toStrictEqual({
      name: 'EtcdError',
      message: error.message,
      code: 'OutOfRange',
      reason: 'Compacted',
      outcome: 'rejected',
      ...where,
      compactRevision: '1152921504606846976',
      cause: { name: 'EtcdError', message: 'below' },
    });
  });

  it('is converted to JSON without its `cause` when the cause is not an error', () => {
    const error = canceled(AbortSignal.abort({ secret: 's3cret' }), 'unknown', where.method);
    expect(JSON.stringify(error)).not.toContain('s3cret');
  });

  it('has a message that names the argument, the given value and the allowed values when the input is invalid', () => {
    const error = invalidInput('ttl', '0', 'at least 1');
    expect(error).toMatchObject({ reason: 'InvalidInput', code: 'InvalidArgument', outcome: 'not-sent' });
    expect(error.message).toBe('ttl: got 0; allowed: at least 1');
  });

  it("has reason Canceled if the caller's signal aborted, and reason DeadlineExceeded if the time limit passed", () => {
    const byCaller = canceled(AbortSignal.abort('enough'), 'unknown', where.method);
    expect(byCaller).toMatchObject({ reason: 'Canceled', code: 'Canceled', outcome: 'unknown', cause: 'enough' });
    const late = timedOut('put', 5, 'not-sent', where.method);
    expect(late).toMatchObject({ reason: 'DeadlineExceeded', code: 'DeadlineExceeded', outcome: 'not-sent' });
    expect(late.message).toBe('put did not finish within timeoutMs = 5 (etcdserverpb.KV/Put: not sent)');
  });
});
