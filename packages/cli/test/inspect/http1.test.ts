import fc from 'fast-check';
import { expect, test } from 'vitest';
import { concatBytes } from '../../../../src/base/bytes.js';
import { ConnectionDecoder } from '../../src/inspect/connection-decoder.js';
import { type DecodedFrame, messagesIn } from '../../src/inspect/frames.js';

const PUT_BODY = '{"key":"Zm9v","value":"YmFy"}';
const PUT = `POST /v3/kv/put HTTP/1.1\r\nAuthorization: secret-token\r\nContent-Length: ${PUT_BODY.length}\r\n\r\n${PUT_BODY}`;
const PUT_BODY_OF_ANSWER = '{"header":{"revision":"5"}}';
const ANSWER = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${PUT_BODY_OF_ANSWER.length.toString(16)}\r\n${PUT_BODY_OF_ANSWER}\r\n0\r\n\r\n`;
const LOGIN_BODY = '{"name":"root","password":"very-secret"}';
const LOGIN = `POST /v3/auth/authenticate HTTP/1.1\r\nContent-Length: ${LOGIN_BODY.length}\r\n\r\n${LOGIN_BODY}`;
const LOGIN_ANSWER_BODY = '{"token":"a-token.123"}';
const LOGIN_ANSWER = `HTTP/1.1 200 OK\r\nContent-Length: ${LOGIN_ANSWER_BODY.length}\r\n\r\n${LOGIN_ANSWER_BODY}`;
const REFUSED_BODY = '{"code":5,"message":"etcdserver: requested lease not found"}';
const REFUSED = `HTTP/1.1 404 Not Found\r\nContent-Length: ${REFUSED_BODY.length}\r\n\r\n${REFUSED_BODY}`;
const WATCH_BODY = '{"create_request":{"key":"Zm9v"}}';
const WATCH = `POST /v3/watch HTTP/1.1\r\nContent-Length: ${WATCH_BODY.length}\r\n\r\n${WATCH_BODY}`;
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const WATCH_ANSWER = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('{"result":{"header":{},"created":true}}\n')}${chunk('{"result":{"header":{"revision":"7"},"events":[]}}\n')}`;

type Piece = readonly ['sent' | 'received', string];

/** Decodes the texts of a connection, each of them in pieces of this many bytes. An empty text ends its direction. */
function decode(texts: readonly Piece[], pieceBytes = 1_000): (DecodedFrame & { readonly direction: string })[] {
  const frames: (DecodedFrame & { readonly direction: string })[] = [];
  const decoder = new ConnectionDecoder((direction, frame) => void frames.push({ direction, ...frame }));
  for (const [direction, text] of texts) {
    const bytes = new TextEncoder().encode(text);
    if (bytes.length === 0) decoder.push(direction, bytes);
    for (let at = 0; at < bytes.length; at += pieceBytes) decoder.push(direction, bytes.subarray(at, at + pieceBytes));
  }
  return frames;
}

test('ConnectionDecoder finds the messages of the JSON gateway, without passwords and tokens, in pieces of any size', () => {
  const texts: readonly Piece[] = [
    ['sent', PUT],
    ['received', ANSWER],
    ['sent', LOGIN],
    ['received', LOGIN_ANSWER],
    ['sent', PUT],
    ['received', REFUSED],
    ['sent', WATCH],
    ['received', WATCH_ANSWER],
  ];
  fc.assert(
    fc.property(fc.integer({ min: 5, max: 200 }), (pieceBytes) => {
      const frames = decode(texts, pieceBytes);
      const types = frames.flatMap((frame) => messagesIn(frame).map(({ typeName }) => typeName.replace(/^.*\./, '')));
      expect(types).toEqual([
        ...['PutRequest', 'PutResponse', 'AuthenticateRequest', 'AuthenticateResponse', 'PutRequest'],
        ...['WatchRequest', 'WatchResponse', 'WatchResponse'],
      ]);
      const problems = frames.flatMap(({ detail }) => (detail.kind === 'http1' ? [detail.problem] : []));
      expect(problems.filter((problem) => problem !== '')).toEqual(['etcdserver: requested lease not found']);
      const shown = new TextDecoder().decode(concatBytes(...frames.map(({ bytes }) => bytes)));
      expect(shown).not.toMatch(/secret|a-token/);
      // The end of the last chunk of the watch waits for the next chunk.
      const lineEnd = 2;
      expect(shown).toHaveLength(texts.reduce((sum, [, text]) => sum + text.length, -lineEnd));
    }),
  );
});

test('ConnectionDecoder reports the bytes after malformed HTTP/1.1 as not decoded, and hides them', () => {
  const request = decode([['sent', `${PUT}nonsense\r\n\r\n${PUT}`]], 1_000);
  expect(typesIn(request)).toEqual(['PutRequest']);
  expect(request.map(({ undecoded }) => undecoded)).toEqual([undefined, 'it is not a request of HTTP/1.1']);
  expect(shownText(request.slice(1))).toBe('*'.repeat(`nonsense\r\n\r\n${PUT}`.length));
  const answer = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n';
  const frames = decode([
    ['sent', PUT],
    ['received', answer],
  ]);
  expect(frames.at(-1)?.undecoded).toBe('the size of a chunk is malformed');
  expect(shownText(frames.slice(1))).toHaveLength(answer.length);
});

const post = (path: string, body: string): string =>
  `POST ${path} HTTP/1.1\r\nContent-Length: ${new TextEncoder().encode(body).length}\r\n\r\n${body}`;
const postChunked = (path: string, chunks: readonly string[]): string =>
  `POST ${path} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n${[...chunks, ''].map(chunk).join('')}`;
const typesIn = (frames: readonly DecodedFrame[]): readonly string[] =>
  frames.flatMap((frame) => messagesIn(frame).map(({ typeName }) => typeName.replace(/^.*\./, '')));
const shownText = (frames: readonly DecodedFrame[]): string =>
  new TextDecoder().decode(concatBytes(...frames.map(({ bytes }) => bytes)));
/** The request line or the status line of each frame, and whether the request or its answer ends there. */
const linesIn = (frames: readonly DecodedFrame[]) =>
  frames.flatMap(({ detail }) => (detail.kind === 'http1' ? [[detail.line, detail.isEnd]] : []));

const PRETTY_PUT = JSON.stringify({ key: 'Zm9v', value: 'YmFy' }, null, 2);
const PRETTY_WATCH = JSON.stringify({ create_request: { key: 'Zm9v' } }, null, 2);

test.each<readonly [string, string, string]>([
  ['a put', post('/v3/kv/put', PRETTY_PUT), 'PutRequest'],
  ['a put in chunks', postChunked('/v3/kv/put', PRETTY_PUT.split(/(?<=\n)/)), 'PutRequest'],
  ['a watch', post('/v3/watch', PRETTY_WATCH), 'WatchRequest'],
  ['a watch in chunks', postChunked('/v3/watch', PRETTY_WATCH.split(/(?<=\n)/)), 'WatchRequest'],
])('ConnectionDecoder finds the message in %s whose JSON has line breaks', (_, request, type) => {
  const frames = decode([['sent', request]], 7);
  expect(typesIn(frames)).toEqual([type]);
  expect(linesIn(frames)).toEqual([[expect.stringMatching(/^POST /), true]]);
});

test('ConnectionDecoder finds the message in a put that is longer than a reported piece', () => {
  const body = `{\n"key":"Zm9v",\n"value":"${'YmFy'.repeat(600_000)}"}`;
  const frames = decode([['sent', post('/v3/kv/put', body)]], 100_000);
  expect(typesIn(frames)).toEqual(['PutRequest']);
  expect(linesIn(frames).map(([, isEnd]) => isEnd)).toEqual([...frames.slice(1).map(() => false), true]);
});

const OLD_ANSWER = `HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n${PUT_BODY_OF_ANSWER}`;
const BAD_REQUEST = 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request';

test.each<readonly [string, string, readonly string[], string, boolean]>([
  ['an answer of HTTP/1.0', OLD_ANSWER, ['PutResponse'], '200 OK', true],
  ['a refusal', BAD_REQUEST, [], '400 Bad Request', true],
  ['an answer that is cut off', OLD_ANSWER.slice(0, -4), [], '200 OK', false],
])('ConnectionDecoder reports %s when the end of the connection ends the answer', (_, answer, types, line, isEnd) => {
  const beginning: readonly Piece[] = [
    ['sent', PUT],
    ['received', answer],
  ];
  expect(decode(beginning)).toHaveLength(1);
  const answers = decode([...beginning, ['received', ''], ['received', '']]).slice(1);
  expect(typesIn(answers)).toEqual(types);
  expect(linesIn(answers)).toEqual([[line, isEnd]]);
  expect(shownText(answers)).toBe(answer);
});

test('ConnectionDecoder finds the answer after 100 Continue', () => {
  const frames = decode([
    ['sent', PUT],
    ['received', `HTTP/1.1 100 Continue\r\n\r\n${ANSWER}`],
  ]);
  expect(typesIn(frames)).toEqual(['PutRequest', 'PutResponse']);
  expect(linesIn(frames).slice(1)).toEqual([
    ['100 Continue', false],
    ['200 OK', true],
  ]);
});

const [HEAD_END, SECRET] = ['\r\n\r\n', 'very-secret'];

test.each<readonly [string, string]>([
  ['an escaped name', post('/v3/auth/user/add', `{"name":"bob","pass\\u0077ord":"${SECRET}"}`)],
  ['two fields', post('/v3/auth/user/add', `{"pass\\u0077ord":"${SECRET}","password":"${SECRET}"}`)],
  ['a number', post('/v3/auth/user/add', '{"name":"bob","password":774488}')],
  ['an array', post('/v3/auth/user/add', `{"name":"bob","password":["${SECRET}"]}`)],
  ['malformed JSON', post('/v3/auth/user/add', `{"name":"bob",password:"${SECRET}"}`)],
  ['two chunks', postChunked('/v3/auth/user/add', ['{"name":"bob","pass', 'word":"very-', 'secret"}'])],
  ['a query', `GET /v3/auth/user/add?password=${SECRET} HTTP/1.1${HEAD_END}`],
  ['a long piece', post('/v3/auth/user/add', `{"password":"${SECRET.repeat(200_000)}"}`)],
])('ConnectionDecoder shows no password in %s, and the rest of the connection can be decoded', (_, request) => {
  const frames = decode(
    [
      ['sent', request],
      ['received', ANSWER],
      ['sent', PUT],
    ],
    100_000,
  );
  const messages = frames.flatMap((frame) => messagesIn(frame).map(({ bytes }) => new TextDecoder().decode(bytes)));
  const shown = shownText(frames.filter(({ direction }) => direction === 'sent'));
  const texts = [shown, ...messages, ...linesIn(frames).flat()];
  expect(texts.some((text) => /secret|very|774488/.test(String(text)))).toBe(false);
  expect(shown).toHaveLength(request.length + PUT.length);
  expect(typesIn(decode([['sent', shown]]))).toContain('PutRequest');
});

test('ConnectionDecoder replaces a password with an escaped quotation mark, and leaves the user name', () => {
  const body = '{ "name": "bob \\"x\\"", "password" : "a\\"b\\\\", "options": {} }';
  const frames = decode([['sent', post('/v3/auth/user/add', body)]]);
  expect(typesIn(frames)).toEqual(['AuthUserAddRequest']);
  expect(shownText(frames).split(HEAD_END)[1]).toBe('{ "name": "bob \\"x\\"", "password" : "******", "options": {} }');
});

test.each<readonly [string, readonly Piece[], string]>([
  [
    'a WebSocket',
    [
      ['sent', `GET / HTTP/1.1\r\nUpgrade: websocket${HEAD_END}`],
      ['received', `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket${HEAD_END}`],
      ['sent', SECRET],
    ],
    'the connection has changed to websocket',
  ],
  [
    'half a head',
    [
      ['sent', `POST /${SECRET}`],
      ['sent', ''],
    ],
    'the connection ends before the end of the head or of the chunk',
  ],
  [
    'a path that the gateway does not have',
    [['sent', post('/v3/none', '{}')]],
    'the gateway has no method at this path',
  ],
  [
    'JSON of another type',
    [['sent', post('/v3/kv/put', `{"key":{"a":"${SECRET}"}}`)]],
    'it is not the JSON of a PutRequest',
  ],
])('ConnectionDecoder says why it has not decoded %s', (_, pieces, reason) => {
  expect(decode(pieces).at(-1)?.undecoded).toBe(reason);
});

test('ConnectionDecoder finds the message in an empty body, which is an empty message for etcd', () => {
  expect(typesIn(decode([['sent', post('/v3/cluster/member/list', '')]]))).toEqual(['MemberListRequest']);
});

test('ConnectionDecoder finds the message in a body of more chunks than a call can have arguments', () => {
  const frames = decode([['sent', postChunked('/v3/kv/put', [...PUT_BODY, ...' '.repeat(150_000)])]], 100_000);
  expect(typesIn(frames)).toEqual(['PutRequest']);
});

test('ConnectionDecoder leaves the query out of the request line', () => {
  const frames = decode([['sent', `GET /health?serializable=true HTTP/1.1${HEAD_END}`]]);
  expect(linesIn(frames)).toEqual([['GET /health', true]]);
  expect(shownText(frames)).toBe(`GET /health?${'*'.repeat(17)} HTTP/1.1${HEAD_END}`);
});
