import { describe, expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { errorOf } from '../../support/errors.js';
import {
  answerHeaders,
  CREATE_WATCH,
  range,
  rangeAnswer,
  rangeMessage,
  TRAILER_FIELDS,
  trailers,
  watch,
  watchMessage,
} from '../../support/http2-calls.js';
import { data, type ErrorName, frame, windowUpdate } from '../../support/http2-frames.js';
import type { Field } from '../../support/http2-hpack.js';
import { ENDPOINT, Http2Peer, turn } from '../../support/http2-peer.js';

// In these tests, the peer violates the protocol in ways that end one stream, but not the connection: RFC 9113,
// sections 5.4.2 and 8.1.1.

const STATUS: Field = [':status', '200'];
const TYPE: Field = ['content-type', 'application/grpc'];

type Case = readonly [what: string, code: ErrorName, ...frames: readonly Buffer[]];

const FRAMES: readonly Case[] = [
  ['WINDOW_UPDATE with increment 0 (6.9)', 'PROTOCOL_ERROR', windowUpdate(1, 0)],
  [
    'a WINDOW_UPDATE that raises the stream window above 2^31 - 1 (6.9.1)',
    'FLOW_CONTROL_ERROR',
    windowUpdate(1, 2 ** 31 - 1),
  ],
  ['PRIORITY of 4 bytes (6.3)', 'FRAME_SIZE_ERROR', frame('PRIORITY', 0, 1, new Uint8Array(4))],
  ['DATA before HEADERS (8.1)', 'PROTOCOL_ERROR', data(1, rangeMessage())],
  ['DATA after an interim response (8.1)', 'PROTOCOL_ERROR', head([':status', '100']), data(1, rangeMessage())],
  ['trailers that do not end the stream (8.1)', 'PROTOCOL_ERROR', answerHeaders(1), head(...TRAILER_FIELDS)],
  ['an interim response that ends the stream (8.1)', 'PROTOCOL_ERROR', last([':status', '103'])],
];

const FIELDS: readonly Case[] = [
  ['without :status (8.3.2)', 'PROTOCOL_ERROR', head(TYPE)],
  ['without any field', 'PROTOCOL_ERROR', head()],
  ['that end the stream without :status', 'PROTOCOL_ERROR', last(['grpc-status', '0'])],
  ['with two :status fields (8.3)', 'PROTOCOL_ERROR', head(STATUS, STATUS)],
  ['with :status after another field (8.3)', 'PROTOCOL_ERROR', head(TYPE, STATUS)],
  ['with a pseudo-header of requests (8.3)', 'PROTOCOL_ERROR', head(STATUS, [':path', '/'])],
  ['with an unknown pseudo-header (8.3)', 'PROTOCOL_ERROR', head(STATUS, [':new', '1'])],
  ...['', '20', '2000', '2x0', '-20', ' 200'].map(
    (status): Case => [
      `with the invalid :status ${JSON.stringify(status)} (8.3.2)`,
      'PROTOCOL_ERROR',
      head([':status', status], TYPE),
    ],
  ),
  ...['A', 'Content-Type', 'grpc-statuS'].map(
    (name): Case => [`with upper case in the name ${name} (8.2.1)`, 'PROTOCOL_ERROR', head(STATUS, TYPE, [name, 'x'])],
  ),
  ...['', 'a b', 'a\x00', 'a\x7f', 'a\x80', 'a:b', '\ta'].map(
    (name): Case => [
      `with the invalid name ${JSON.stringify(name)} (8.2.1)`,
      'PROTOCOL_ERROR',
      head(STATUS, TYPE, [name, 'x']),
    ],
  ),
  ...['\x00', 'a\rb', 'a\nb', 'a\r\nx: y'].map(
    (value): Case => [
      `with the invalid value ${JSON.stringify(value)} (8.2.1)`,
      'PROTOCOL_ERROR',
      head(STATUS, TYPE, ['x', value]),
    ],
  ),
  ...['connection', 'proxy-connection', 'keep-alive', 'transfer-encoding', 'upgrade'].map(
    (name): Case => [`with the HTTP/1.1 field ${name} (8.2.2)`, 'PROTOCOL_ERROR', head(STATUS, TYPE, [name, 'x'])],
  ),
];

const TRAILERS: readonly Case[] = (
  [
    ['with :status (8.1)', STATUS],
    ['with another pseudo-header (8.1)', [':path', '/']],
    ['with a name in upper case (8.2.1)', ['Grpc-Message', 'x']],
    ['with a value of two lines (8.2.1)', ['grpc-message', 'a\nb']],
    ['with the field connection (8.2.2)', ['connection', 'close']],
  ] as const
).map(([what, field]) => [
  what,
  'PROTOCOL_ERROR',
  answerHeaders(1),
  data(1, rangeMessage()),
  last(...TRAILER_FIELDS, field),
]);

const LENGTHS: readonly Case[] = [
  [
    'shorter than the data (8.1.1)',
    'PROTOCOL_ERROR',
    head(STATUS, TYPE, ['content-length', '3']),
    data(1, rangeMessage()),
    trailers(1),
  ],
  [
    'longer than the data (8.1.1)',
    'PROTOCOL_ERROR',
    head(STATUS, TYPE, ['content-length', '99']),
    data(1, rangeMessage()),
    trailers(1),
  ],
];

describe.for([
  ['the client resets the stream on', FRAMES],
  ['the client resets the stream on headers', FIELDS],
  ['the client resets the stream on trailers', TRAILERS],
  ['the client resets the stream on a content-length', LENGTHS],
] as const)('%s', ([, cases]) => {
  test.for(cases)('%s, with %s', async ([, code, ...frames]) => {
    const peer = new Http2Peer();
    const call = range(peer);
    await turn();
    const { connection } = peer;
    connection.send(...frames);
    // Frames that the peer sends before it receives the RST_STREAM must not change the result.
    connection.send(data(1, rangeMessage()), trailers(1));
    expect(await errorOf(call)).toMatchObject({
      reason: 'ProtocolError',
      code: 'Internal',
      outcome: 'unknown',
      method: methods.kv.range.path,
      endpoint: ENDPOINT,
    });
    await turn();
    expect(connection.request(1).reset).toBe(code);
    await expectToGoOn(peer);
  });
});

test('a protocol violation on one stream ends only that stream, and ends it only once', async () => {
  const peer = new Http2Peer();
  const [broken, whole] = [watch(peer), watch(peer)];
  for (const { stream } of [broken, whole]) stream.send(CREATE_WATCH);
  await turn();
  const { connection } = peer;
  connection.send(answerHeaders(1), answerHeaders(3), data(1, watchMessage(1)), windowUpdate(1, 0));
  connection.send(data(1, watchMessage(2)), trailers(1), data(3, watchMessage(3)));
  expect([broken.messages, broken.end?.error?.reason]).toEqual([[1n], 'ProtocolError']);
  expect([whole.messages, whole.end]).toEqual([[3n], undefined]);
  await turn();
  expect(connection.sent('RST_STREAM').map(({ streamId }) => streamId)).toEqual([1]);
});

/** Expects that another call succeeds on the same connection. */
async function expectToGoOn(peer: Http2Peer): Promise<void> {
  const next = range(peer);
  await turn();
  peer.connection.send(rangeAnswer(3, 9));
  expect((await next).count).toBe(9n);
  expect([peer.connections.length, peer.connection.goAwayCode]).toEqual([1, undefined]);
}

function head(...fields: readonly Field[]): Buffer {
  return answerHeaders(1, fields);
}

function last(...fields: readonly Field[]): Buffer {
  return trailers(1, fields);
}
