import { describe, expect, test } from 'vitest';
import type { EtcdError } from '../../../src/base/etcd-error.js';
import { STATUS_CODES } from '../../../src/base/status.js';
import { errorOf } from '../../support/errors.js';
import {
  ANSWER_FIELDS,
  answerHeaders,
  CREATE_WATCH,
  range,
  rangeMessage,
  trailers,
  watch,
} from '../../support/http2-calls.js';
import { data } from '../../support/http2-frames.js';
import type { Field } from '../../support/http2-hpack.js';
import { Http2Peer, turn } from '../../support/http2-peer.js';

// These tests check how the client derives the status of a call from the headers and trailers of the response.
// gRPC defines these rules in https://grpc.github.io/grpc/core/md_doc__p_r_o_t_o_c_o_l-_h_t_t_p2.html.

const TYPE: Field = ['content-type', 'application/grpc'];

describe('`grpc-status`', () => {
  test.for([...STATUS_CODES.entries()].slice(1))('%i in trailers fails the call with %s', async ([number, code]) => {
    expect(await errorAfter(trailing(['grpc-status', `${number}`], ['grpc-message', 'no luck']))).toMatchObject({
      code,
      outcome: 'unknown',
      problem: code === 'Unimplemented' ? 'no luck: the server speaks gRPC, but it is not etcd' : 'no luck',
    });
  });

  test.for([...STATUS_CODES.entries()].slice(1))(
    '%i in headers that end the stream fails the call with %s',
    async ([number, code]) => {
      expect(await errorAfter([last(...ANSWER_FIELDS, ['grpc-status', `${number}`])])).toMatchObject({ code });
    },
  );

  test.for(['17', '99', '4294967296', '-1', '1.5', '', 'ok', '0x0', ' 0', '00000000000'])(
    '%j, which is invalid, fails the call with Unknown',
    async (status) => {
      expect((await errorAfter(trailing(['grpc-status', status]))).code).toBe('Unknown');
    },
  );

  test('OK in headers that end the stream ends a streaming call without an error', async () => {
    const peer = new Http2Peer();
    const open = watch(peer);
    open.stream.send(CREATE_WATCH);
    await turn();
    peer.connection.send(last(...ANSWER_FIELDS, ['grpc-status', '0']));
    expect(open.end).toEqual({ error: undefined });
  });

  test('OK in headers that end the stream fails a unary call, because the response message is missing', async () => {
    expect(await errorAfter([last(...ANSWER_FIELDS, ['grpc-status', '0'])])).toMatchObject({
      code: 'Internal',
      reason: 'MalformedMessage',
    });
  });

  test('Internal in trailers fails the call even if a message has arrived', async () => {
    expect((await errorAfter(trailing(['grpc-status', '13']))).code).toBe('Internal');
  });

  test('with an error message from etcd fails the call with etcd’s reason and outcome "rejected"', async () => {
    const words: Field = ['grpc-message', 'etcdserver: requested lease not found'];
    expect(await errorAfter([last(...ANSWER_FIELDS, ['grpc-status', '5'], words)])).toMatchObject({
      code: 'NotFound',
      reason: 'LeaseNotFound',
      outcome: 'rejected',
    });
  });

  test('Unavailable fails the call with outcome "unknown"', async () => {
    expect(await errorAfter([last(...ANSWER_FIELDS, ['grpc-status', '14'])])).toMatchObject({
      code: 'Unavailable',
      reason: 'ConnectionLost',
      outcome: 'unknown',
    });
  });
});

test('a call fails with Unknown when the trailers contain no `grpc-status`', async () => {
  expect(await errorAfter(trailing(['x', 'y']))).toMatchObject({
    code: 'Unknown',
    reason: 'Other',
    outcome: 'unknown',
    problem: 'the response ended without grpc-status',
  });
});

test('a call fails with Unknown when headers that end the stream contain no `grpc-status`', async () => {
  expect((await errorAfter([last(...ANSWER_FIELDS)])).code).toBe('Unknown');
});

test('a call fails with Internal when DATA ends the stream, because no trailers with a `grpc-status` can follow', async () => {
  const error = await errorAfter([answerHeaders(1), data(1, rangeMessage(), { endStream: true })]);
  expect(error).toMatchObject({ code: 'Internal', outcome: 'unknown' });
  expect(error.problem).toContain('without trailers');
});

describe('`grpc-message`', () => {
  test.for([
    ['plain words', 'plain words'],
    ['', 'gRPC status Aborted'],
    ['100%25 sure', '100% sure'],
    ['a%0Ab%09c', 'a\nb\tc'],
    ['%C3%A9%e2%82%ac%F0%9F%98%80', 'é€😀'],
    ['50% off', '50% off'],
    ['%', '%'],
    ['%4', '%4'],
    ['%zz%41', '%zzA'],
    ['%%41', '%A'],
    ['%4%31', '%41'],
    ['%FF%41', '\ufffdA'],
    ['%E2%82', '\ufffd'],
    ['%00', '\0'],
  ] as const)('%j becomes the error text %j', async ([encoded, text]) => {
    expect((await errorAfter(trailing(['grpc-status', '10'], ['grpc-message', encoded]))).problem).toBe(text);
  });

  test('of 8 KB is not truncated', async () => {
    const text = 'very '.repeat(1_600).trimEnd();
    expect((await errorAfter(trailing(['grpc-status', '10'], ['grpc-message', text]))).problem).toBe(text);
  });
});

describe('an HTTP status', () => {
  // gRPC defines this mapping in https://grpc.github.io/grpc/core/md_doc_http-grpc-status-mapping.html.
  const CASES = [
    [400, 'Internal'],
    [401, 'Unauthenticated'],
    [403, 'PermissionDenied'],
    [404, 'Unimplemented'],
    [429, 'Unavailable'],
    [502, 'Unavailable'],
    [503, 'Unavailable'],
    [504, 'Unavailable'],
    ...[204, 206, 301, 302, 304, 402, 405, 408, 413, 431, 500, 501, 505, 599].map(
      (status) => [status, 'Unknown'] as const,
    ),
  ] as const;

  test.for(CASES)('%i without other header fields fails the call with %s', async ([status, code]) => {
    const error = await errorAfter([last([':status', `${status}`])]);
    expect(error).toMatchObject({ code, outcome: 'unknown' });
    expect(error.problem).toContain(`HTTP status ${status}`);
    const isAboutRequest = [408, 413, 431].includes(status);
    expect(error.reason).toBe(code === 'Unavailable' ? 'ConnectionLost' : isAboutRequest ? 'Other' : 'NotEtcd');
  });

  test.for(CASES)('%i with an HTML page fails the call with %s before the page arrives', async ([status, code]) => {
    const peer = new Http2Peer();
    const call = range(peer);
    await turn();
    peer.connection.send(
      answerHeaders(1, [
        [':status', `${status}`],
        ['content-type', 'text/html'],
      ]),
    );
    expect(await errorOf(call)).toMatchObject({ code, outcome: 'unknown' });
    await turn();
    expect(peer.connection.request().reset).toBe('CANCEL');
    peer.connection.send(data(1, Buffer.from('<h1>Sorry</h1>'), { endStream: true }));
    await turn();
    expect(peer.connection.closed).toBe(false);
  });

  test('has no effect when `grpc-status` is present', async () => {
    const fields: readonly Field[] = [[':status', '503'], TYPE, ['grpc-status', '7'], ['grpc-message', 'no']];
    expect(await errorAfter([last(...fields)])).toMatchObject({ code: 'PermissionDenied', problem: 'no' });
  });

  test('of 100, 103 or 199 in interim responses does not end the call (RFC 9113, 8.1)', async () => {
    const peer = new Http2Peer();
    const call = range(peer);
    await turn();
    for (const status of ['100', '103', '199']) peer.connection.send(answerHeaders(1, [[':status', status]]));
    peer.connection.send(answerHeaders(1), data(1, rangeMessage(4)), last(['grpc-status', '0']));
    expect((await call).count).toBe(4n);
  });
});

describe('`content-type`', () => {
  test.for(['application/grpc', 'application/grpc+proto', 'application/grpc;charset=utf-8'])(
    '%s is accepted',
    async (type) => {
      const peer = new Http2Peer();
      const call = range(peer);
      await turn();
      peer.connection.send(
        answerHeaders(1, [
          [':status', '200'],
          ['content-type', type],
        ]),
      );
      peer.connection.send(data(1, rangeMessage(4)), last(['grpc-status', '0']));
      expect((await call).count).toBe(4n);
    },
  );

  test.for(['text/html', 'application/json', 'application/grpc-web', 'application/grpcx', 'x application/grpc', ''])(
    '%j fails the call, because the server is not etcd',
    async (type) => {
      const error = await errorAfter([
        answerHeaders(1, [
          [':status', '200'],
          ['content-type', type],
        ]),
      ]);
      expect(error).toMatchObject({ code: 'Unknown', reason: 'NotEtcd', outcome: 'unknown' });
      expect(error.problem).toContain('content-type');
    },
  );
});

test('a missing `content-type` fails the call', async () => {
  expect((await errorAfter([answerHeaders(1, [[':status', '200']])])).problem).toContain('content-type');
});

/** Returns a whole response with these trailers. */
function trailing(...fields: readonly Field[]): Buffer[] {
  return [answerHeaders(1), data(1, rangeMessage()), last(...fields)];
}

function last(...fields: readonly Field[]): Buffer {
  return trailers(1, fields);
}

async function errorAfter(frames: readonly Buffer[]): Promise<EtcdError> {
  const peer = new Http2Peer();
  const call = range(peer);
  await turn();
  peer.connection.send(...frames);
  const error = await errorOf(call);
  await turn();
  expect(peer.connection.closed).toBe(false);
  return error;
}
