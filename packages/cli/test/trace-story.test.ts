import { expect, test } from 'vitest';
import { toBytes } from '../../../src/base/bytes.js';
import { remedyOf } from '../../../src/base/reason-texts.js';
import { fromJson, type JsonObject } from '../../../src/extras/transports/json/json.js';
import { allMethods } from '../../../src/extras/transports/json/method-table.js';
import { encode } from '../../../src/wire/protobuf/writer.js';
import { ConnectionDecoder } from '../src/inspect/connection-decoder.js';
import type { WireFrame } from '../src/inspect/frames.js';
import { type FilterFlags, FrameFilter } from '../src/proxy/frame-filter.js';
import { lineWriter } from '../src/proxy/tap.js';
import { aligned } from '../src/trace/alignment.js';
import { Lanes } from '../src/trace/lanes.js';
import type { ShownChange } from '../src/trace/shown-state.js';
import { FrameDescriber, type Story, storyOf, withFields } from '../src/trace/story.js';

let clock = 0;
const FRAME = { connection: 1, endpoint: 'http://etcd', streamId: 1, flags: [], bytes: new Uint8Array(9) } as const;

function pathOf(name: string): string {
  return allMethods.find(({ path }) => path.endsWith(`/${name}`))?.path as string;
}

/** A request or a response of a method, in a frame of a stream. */
function message(direction: WireFrame['direction'], streamId: number, name: string, fields: JsonObject): WireFrame {
  const method = pathOf(name);
  const found = allMethods.find(({ path }) => path === method) as (typeof allMethods)[number];
  const codec = direction === 'sent' ? found.request : found.response;
  const bytes = encode<unknown>(
    codec,
    fromJson(codec, fields, { bytesFromJson: (text) => toBytes(text, 'bytes') }) as never,
  );
  const messages = [{ method, typeName: codec.typeName, bytes }];
  return { ...FRAME, atMs: clock++, streamId, direction, type: 'DATA', detail: { kind: 'data', messages } };
}

function headers(
  direction: WireFrame['direction'],
  streamId: number,
  fields: Readonly<Record<string, string>>,
): WireFrame {
  const isLast = 'grpc-status' in fields;
  const flags = isLast ? ['END_STREAM'] : [];
  const detail = { kind: 'headers', headers: Object.entries(fields), table: [] } as const;
  return { ...FRAME, atMs: clock++, streamId, direction, type: 'HEADERS', flags, detail };
}

function reset(direction: WireFrame['direction'], streamId: number, code: string, atMs = clock++): WireFrame {
  return { ...FRAME, atMs, streamId, direction, type: 'RST_STREAM', detail: { kind: 'reset', code } };
}

function story(frames: readonly WireFrame[], closedAtMs?: number): Story {
  const closings = new Map(closedAtMs === undefined ? [] : [[1, closedAtMs]]);
  return storyOf(frames, [], 'lock', { closings });
}

function verdicts(frames: readonly WireFrame[], closedAtMs?: number) {
  return story(frames, closedAtMs).steps.flatMap(({ verdict }) => (verdict === undefined ? [] : [verdict]));
}

/** The lines that `proxy` and `show` print for the frames and the end of their connection. */
function lines(flags: FilterFlags, frames: readonly WireFrame[], lanes = new Lanes()): readonly string[] {
  const written: string[] = [];
  const shown = lineWriter(lanes, false, 0, (line) => written.push(line.replace(/^.*? [<>] /, '')));
  const filter = new FrameFilter(flags, lanes, shown);
  for (const frame of frames) filter.frame(frame);
  filter.closed(1, clock);
  return written.map((line) => line.replace(/ · [\d.]+ ms/, ''));
}

const PUT = { key: 'a', value: '1' };
const at = (streamId: number, frames: readonly WireFrame[]) => frames.map((frame) => ({ ...frame, streamId }));
const begin = (name: string, more = {}) => headers('sent', 1, { ':path': pathOf(name), ...more });
const put = () => [begin('Put'), message('sent', 1, 'Put', PUT)];
const refusal = (status: string, text: string) =>
  headers('received', 1, { 'grpc-status': status, 'grpc-message': text });
const GOAWAY = {
  ...FRAME,
  atMs: 0,
  streamId: 0,
  direction: 'received',
  type: 'GOAWAY',
  detail: { kind: 'goAway', lastStream: 0, code: 'NO_ERROR', debug: '' },
} as const;

test.each<readonly [string, readonly WireFrame[], boolean, string, string | undefined]>([
  [
    'etcd refuses a put',
    [...put(), refusal('5', 'etcdserver: requested lease not found')],
    false,
    'LeaseNotFound',
    'rejected',
  ],
  [
    'etcd does not complete a put in time',
    [...put(), refusal('14', 'etcdserver: request timed out')],
    false,
    'Timeout',
    'unknown',
  ],
  [
    'a read fails',
    [
      begin('Range'),
      message('sent', 1, 'Range', { key: 'a' }),
      refusal('11', 'etcdserver: mvcc: required revision is a future revision'),
    ],
    false,
    'FutureRev',
    undefined,
  ],
  ['the connection closes after a whole request', put(), true, 'ConnectionLost', 'unknown'],
  ['the connection closes before the whole request', [begin('Put')], true, 'ConnectionLost', 'not-sent'],
  ['GOAWAY excludes the stream', [...put(), GOAWAY], true, 'StreamRefused', 'rejected'],
  ['etcd resets the stream', [...put(), reset('received', 1, 'INTERNAL_ERROR')], false, 'ConnectionLost', 'unknown'],
  ['the client cancels a put', [...put(), reset('sent', 1, 'CANCEL')], true, 'Canceled', 'unknown'],
  [
    'the client cancels before the whole request',
    [begin('Put'), reset('sent', 1, 'CANCEL')],
    false,
    'Canceled',
    'not-sent',
  ],
  [
    'the time limit of a put passes',
    [begin('Put', { 'grpc-timeout': '100m' }), message('sent', 1, 'Put', PUT), reset('sent', 1, 'CANCEL', 1e6)],
    false,
    'DeadlineExceeded',
    'unknown',
  ],
  [
    'etcd cancels a watch',
    [begin('Watch'), message('received', 1, 'Watch', { canceled: true, compact_revision: '5' })],
    false,
    'Compacted',
    undefined,
  ],
])('when %s, the trace says the outcome, and the remedy of docs/errors.md', (_, frames, closes, reason, outcome) => {
  expect(verdicts(frames, closes ? 1e7 : undefined)).toEqual([
    expect.objectContaining({ reason, outcome, remedy: remedyOf(reason as never) }),
  ]);
});

const ANSWER_BEGINS = headers('received', 1, { ':status': '200' });
const txn = (fields: JsonObject) => [begin('Txn'), message('sent', 1, 'Txn', fields)];

test.each<readonly [string, readonly WireFrame[], string, RegExp]>([
  ['a put', [...put(), ANSWER_BEGINS], 'applied', /has applied the request/],
  ['a put that the client gives up', [...put(), ANSWER_BEGINS, reset('sent', 1, 'CANCEL')], 'applied', /has applied/],
  ['a put that etcd resets', [...put(), ANSWER_BEGINS, reset('received', 1, 'INTERNAL_ERROR')], 'applied', /applied/],
  ['a transaction', [...txn({}), ANSWER_BEGINS], 'unknown', /has processed the transaction.* conditions held/],
  ['a put at a proxy without etcd', [...put(), headers('received', 1, { ':status': '502' })], 'unknown', /may have/],
  ['a put whose answer ends with an error', [...put(), ANSWER_BEGINS, refusal('14', 'x')], 'unknown', /may have/],
])(
  'when the answer to %s is cut off after its HEADERS, the trace says what etcd has done',
  (_, frames, outcome, why) => {
    expect(verdicts(frames, 1e7)).toEqual([
      expect.objectContaining({ outcome, conclusion: expect.stringMatching(why) }),
    ]);
  },
);

test('the line of a call whose connection closes within the answer says so', () => {
  expect(lines({}, [...put(), ANSWER_BEGINS]).at(-1)).toBe(
    'the connection closes within the answer  · Put · stream 1 · outcome applied',
  );
});

test('a call with an answer, a watch that the client ends, and a closed connection without calls have no verdict', () => {
  const answered = [...put(), message('received', 1, 'Put', {}), headers('received', 1, { 'grpc-status': '0' })];
  expect(verdicts(answered, 1e7)).toEqual([]);
  expect(verdicts([begin('Watch'), message('sent', 1, 'Watch', {}), reset('sent', 1, 'CANCEL')], 1e7)).toEqual([]);
});

/** Returns the changes of the steps, without those that change nothing. */
function changes(frames: readonly WireFrame[]): readonly ShownChange[] {
  return story(frames).steps.flatMap((step) => step.changes);
}

test('the trace follows keys, leases and watches as far as the messages show them', () => {
  const header = (revision: number) => ({ header: { revision: `${revision}` } });
  const frames = [
    message('sent', 1, 'LeaseGrant', { TTL: '10' }),
    message('received', 1, 'LeaseGrant', { ...header(1), ID: '171', TTL: '10' }),
    message('sent', 3, 'Watch', { create_request: { key: 'a', range_end: 'b' } }),
    message('received', 3, 'Watch', { ...header(1), created: true }),
    message('sent', 5, 'Txn', {
      compare: [{ key: 'a', target: 'CREATE', create_revision: '0' }],
      success: [{ request_put: { key: 'a', value: '1', lease: '171' } }],
    }),
    message('received', 5, 'Txn', { ...header(2), succeeded: true, responses: [{ response_put: {} }] }),
    message('received', 3, 'Watch', {
      ...header(2),
      events: [{ kv: { key: 'a', value: '1', mod_revision: '2', version: '1', lease: '171' } }],
    }),
    // A read of an earlier revision changes nothing.
    message('sent', 7, 'Range', { key: 'a', revision: '1' }),
    message('received', 7, 'Range', header(2)),
    message('sent', 9, 'LeaseRevoke', { ID: '171' }),
    message('received', 9, 'LeaseRevoke', header(3)),
    reset('sent', 3, 'CANCEL'),
  ];
  const key = { key: 'a', name: 'a', value: '1', mod: '2', version: '1', lease: 'ab' };
  const id = '1:3 watch 0';
  expect(changes(frames)).toEqual([
    { kind: 'lease', id: 'ab', ttl: 10 },
    { kind: 'watch', id, range: 'all keys that begin with a' },
    { kind: 'key', key },
    { kind: 'event', id, text: 'a = 1' },
    { kind: 'key', key },
    { kind: 'lease gone', id: 'ab' },
    { kind: 'key gone', key: 'a' },
    { kind: 'watch gone', id },
  ]);
});

test('two traces are aligned by their calls, and differ where a call or its answer differs', () => {
  const call = (streamId: number, key: string, found: boolean) => [
    message('sent', streamId, 'Range', { key }),
    message('received', streamId, 'Range', found ? { kvs: [{ key, value: '1' }] } : {}),
  ];
  const first = story([...call(1, 'a', true), ...call(3, 'b', true), ...call(5, 'c', true)]);
  const second = story([...call(1, 'a', true), ...call(3, 'x', true), ...call(5, 'b', false), ...call(7, 'c', true)]);
  const pairs = aligned(first, second);
  expect(pairs.map(({ units: [left, right], differs }) => [left?.what, right?.what, differs])).toEqual([
    ['get a', 'get a', false],
    [undefined, 'get x', true],
    ['get b', 'get b', true],
    ['get c', 'get c', false],
  ]);
  expect(aligned(first, first).some(({ differs }) => differs)).toBe(false);
});

test.each<readonly [string, FilterFlags]>([
  ['all calls', {}],
  ['the calls of an RPC', { rpc: 'Put' }],
  ['the calls with a key', { prefix: 'a' }],
])(
  'the lines of %s say which calls a GOAWAY has excluded, and which have an unknown outcome when the connection closes',
  (_, flags) => {
    const answered = headers('received', 5, { 'grpc-status': '0' });
    const frames = [
      ...put(),
      ...at(3, put()),
      ...at(5, put()),
      answered,
      { ...GOAWAY, detail: { ...GOAWAY.detail, lastStream: 1 } },
    ];
    expect(lines(flags, frames)).toEqual([
      ...['put a = 1  · Put · stream 1', 'put a = 1  · Put · stream 3', 'put a = 1  · Put · stream 5'],
      'the connection is ended: NO_ERROR  · GOAWAY · stream 0',
      'the connection closes before the answer  · Put · stream 1 · outcome unknown',
      'the connection closes before the answer  · Put · stream 3 · outcome rejected',
    ]);
  },
);

test.each<readonly [string, FilterFlags]>([
  ['RPC', { rpc: 'Range' }],
  ['key', { prefix: 'b' }],
  ['connection', { connection: '2' }],
])('the lines that a filter of one %s shows are silent on the end of a connection without such calls', (_, flags) => {
  expect(lines(flags, [...put(), GOAWAY])).toEqual([]);
});

test('the line of a refused call shows its message without percent-encoding', () => {
  expect(lines({}, [...put(), refusal('5', 'caf%C3%A9 100%25')]).at(-1)).toBe(
    'refused: café 100%  · Put · stream 1 · outcome unknown',
  );
});

test('the lines show no late refusal after the client has reset the stream', () => {
  const late = [refusal('1', 'context canceled'), reset('received', 1, 'NO_ERROR')];
  const shown = lines({}, [...put(), reset('sent', 1, 'CANCEL'), ...late, ...at(3, [...put(), refusal('5', 'no')])]);
  expect(shown).toEqual([
    'put a = 1  · Put · stream 1',
    'the client gives up after 1 ms: CANCEL  · Put · stream 1 · outcome unknown',
    'put a = 1  · Put · stream 3',
    'refused: no  · Put · stream 3 · outcome unknown',
  ]);
});

test('the lines show no failure when the server resets a stream with NO_ERROR after a whole answer', () => {
  expect(lines({}, [...put(), refusal('14', 'no leader'), reset('received', 1, 'NO_ERROR')])).toEqual([
    'put a = 1  · Put · stream 1',
    'refused: no leader  · Put · stream 1 · outcome unknown',
  ]);
});

test('FrameDescriber forgets a call that the client has reset', () => {
  const describer = new FrameDescriber({ contenderOf: () => undefined, isPrefix: () => false }, false);
  for (const frame of [...put(), reset('sent', 1, 'CANCEL')]) describer.describe(withFields(frame));
  // The duration of a call would follow the name of its stream.
  const [late] = describer.describe(withFields(message('received', 1, 'Put', {})));
  expect(late?.protocol).toBe('Put · stream 1');
});

/** The frames of a connection of HTTP/1.1. */
function http1(...texts: readonly (readonly [WireFrame['direction'], string])[]): readonly WireFrame[] {
  const frames: WireFrame[] = [];
  const decoder = new ConnectionDecoder(
    (direction, frame) => void frames.push({ ...FRAME, atMs: clock++, direction, ...frame }),
  );
  for (const [direction, text] of texts) decoder.push(direction, new TextEncoder().encode(text));
  return frames;
}

const withBody = (firstLine: string, body: string): string =>
  `${firstLine}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const PUT_OF_GATEWAY = ['sent', withBody('POST /v3/kv/put HTTP/1.1', '{"key":"YQ==","value":"MQ=="}')] as const;
const ANSWER_OF_GATEWAY = ['received', withBody('HTTP/1.1 200 OK', '{"header":{"revision":"5"}}')] as const;

test('the line of a failed HTTP/1.1 request that is no call shows the request line without its query', () => {
  const health = ['sent', 'GET /health?serializable=true HTTP/1.1\r\n\r\n'] as const;
  const answer = ['received', withBody('HTTP/1.1 503 Service Unavailable', '{"health":"false"}')] as const;
  expect(lines({}, http1(health, answer))).toEqual(['refused: 503 Service Unavailable  · GET /health · stream 1']);
});

test('the lines show a call of the gateway as answered when the end of the connection ends its answer', () => {
  const answer = ['received', 'HTTP/1.0 200 OK\r\n\r\n{"header":{"revision":"5"}}'] as const;
  const put = 'put a = 1  · Put · stream 1';
  expect(lines({}, http1(PUT_OF_GATEWAY, answer))).toEqual([
    put,
    'the connection closes before the answer  · Put · stream 1 · outcome unknown',
  ]);
  expect(lines({}, http1(PUT_OF_GATEWAY, answer, ['received', '']))).toEqual([
    put,
    'put applied  · Put · stream 1 · revision 5',
  ]);
});

/** Whether a filter shows the end of the connection after the frames. */
function showsClosing(flags: FilterFlags, frames: readonly WireFrame[]): boolean {
  let isShown = false;
  const closed = (): void => {
    isShown = true;
  };
  const filter = new FrameFilter(flags, new Lanes(), { frame: () => {}, closed });
  for (const frame of frames) filter.frame(frame);
  filter.closed(1, clock);
  return isShown;
}

test('a filter shows the end of a connection only if a call of the gateway has no answer', () => {
  expect(showsClosing({ rpc: 'Put' }, http1(PUT_OF_GATEWAY))).toBe(true);
  expect(showsClosing({ rpc: 'Put' }, http1(PUT_OF_GATEWAY, ANSWER_OF_GATEWAY))).toBe(false);
  expect(showsClosing({ rpc: 'Put' }, http1(PUT_OF_GATEWAY, ANSWER_OF_GATEWAY, PUT_OF_GATEWAY))).toBe(true);
});

test.each<readonly [string, boolean]>([
  ['1', true],
  ['2', false],
  ['127', false],
  ['127.0.0.1', true],
  [':4000', true],
  ['orders', true],
])('--connection %s compares a number only with the number of the connection', (connection, isShown) => {
  const lanes = new Lanes();
  const client = { host: '127.0.0.1', port: 40_002 };
  lanes.opened({ connection: 1, client, certificateName: 'orders-2' });
  expect(lines({ connection }, put(), lanes).length > 0).toBe(isShown);
});
