import fc from 'fast-check';
import { data, grpcMessage, headers, PREFACE, settings } from './http2-frames.js';
import { requestBlock } from './http2-raw-client.js';

// Requests that a listener of this package may get from anybody who can connect to it: malformed, half, slow, nested
// deeply, from web pages, and with secrets in all places where a client may have some.

/** Stands for a password or a token. */
export const SECRET = 'canary-of-a-secret';

/** JSON as a body may contain it. The first level of `nested` is an object. */
const BODIES = {
  request: (depth) => `{"key":"Zm9v","value":"${'YmFy'.repeat(depth)}"}`,
  login: () => `{"name":"bob","password":"${SECRET}"}`,
  'escaped login': () => `{"name":"bob","pass\\u0077ord":"${SECRET}"}`,
  'login and more': () => `{"name":"bob","password":"${SECRET}"} and more`,
  'lone surrogate': () => `{"name":"x\\ud800","password":"${SECRET}","key":"\\udc00"}`,
  'nested arrays': (depth) => `{"name":${'['.repeat(depth)}${']'.repeat(depth)},"password":"${SECRET}"}`,
  'nested objects': (depth) => `${'{"name":'.repeat(depth)}1${'}'.repeat(depth)}`,
  'nested transactions': (depth) => `${'{"success":[{"requestTxn":'.repeat(depth)}{}${'}]}'.repeat(depth)}`,
  'many values': (depth) => '{"createRequest":{"key":"Zm9v"}}\n'.repeat(depth % 300),
  'line breaks': (depth) => `{\n"key":${'\n'.repeat(depth)}"Zm9v"}`,
  'large number': () => '{"ID":9007199254740993,"TTL":1e999,"key":"Zm9v"}',
  'invalid UTF-8': () => '{"name":"\xff\xfe","key":"\xc0\x80"}',
  'other type': () => '[[],{},null,1,"x"]',
  'no JSON': () => '}{',
  empty: () => '',
} as const satisfies Record<string, (depth: number) => string>;

const PATHS = [
  ...['kv/put', 'kv/range', 'kv/txn', 'auth/user/add', 'auth/authenticate', 'watch', 'lease/grant'],
  ...['cluster/member/list', 'maintenance/status', 'none'],
] as const;
const TARGETS = {
  path: (path: string) => `/v3/${path}`,
  escaped: (path: string) => `/v3/${path.replace(/[a-z]/, (letter) => `%${letter.charCodeAt(0).toString(16)}`)}`,
  absolute: (path: string) => `http://127.0.0.1/v3/${path}`,
  'absolute with a password': (path: string) => `http://bob:${SECRET}@127.0.0.1/v3/${path}`,
  foreign: (path: string) => `http://page.example/v3/${path}`,
  query: (path: string) => `/v3/${path}?password=${SECRET}&method=POST`,
  malformed: (path: string) => `/v3/${path}%zz%ff`,
  page: () => '/secret/content?changed',
} as const;
const FIELDS = {
  own: 'Host: 127.0.0.1',
  'foreign host': 'Host: page.example',
  origin: 'Origin: https://page.example',
  'cross-site': 'Sec-Fetch-Site: cross-site',
  websocket: 'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA',
  authorization: `Authorization: ${SECRET}`,
  token: `Grpc-Metadata-Token: ${SECRET}`,
  cookie: `Cookie: ${SECRET}`,
  expect: 'Expect: 100-continue',
  deadline: 'Grpc-Timeout: 1n',
  odd: 'X\xff: \x00\x7f',
  folded: 'X: y\r\n z',
  long: `X-Long: ${'x'.repeat(70_000)}`,
  'no colon': 'nonsense',
} as const;
/** What only a web page sends. A listener that refuses web pages refuses it. */
const FOREIGN: ReadonlySet<string> = new Set(['foreign host', 'origin', 'cross-site', 'websocket']);
const FRAMINGS = [
  'length',
  'chunks',
  'bytes',
  'too long',
  'too short',
  'negative',
  'both',
  'none',
  'bad chunk',
] as const;

interface Http1Request {
  readonly kind: 'http1';
  readonly verb: string;
  readonly target: keyof typeof TARGETS;
  readonly path: (typeof PATHS)[number];
  readonly fields: readonly (keyof typeof FIELDS)[];
  readonly body: keyof typeof BODIES;
  readonly depth: number;
  readonly framing: (typeof FRAMINGS)[number];
  readonly version: string;
}

interface Http2Request {
  readonly kind: 'http2';
  readonly path: string;
  readonly fields: readonly (readonly [name: string, value: string])[];
  readonly message: 'put' | 'login' | 'nested' | 'compressed' | 'too short' | 'bytes';
  readonly depth: number;
}

/** Bytes on one connection. */
export interface Hostile {
  readonly listener: 'proxy' | 'proxy with a fault' | 'page' | 'memory';
  readonly requests: readonly (Http1Request | Http2Request | { readonly kind: 'bytes'; readonly text: string })[];
  /** The part of the bytes that the client sends before it leaves. */
  readonly sent: number;
  /** The number of pieces, which the client sends one after the other. */
  readonly pieces: number;
  /** How the client leaves. */
  readonly end: 'end' | 'reset';
}

const DEPTHS = [1, 3, 99, 101, 501, 1_000, 5_000] as const;
const http1: fc.Arbitrary<Http1Request> = fc.record({
  kind: fc.constant('http1' as const),
  verb: fc.oneof(
    { weight: 8, arbitrary: fc.constant('POST') },
    fc.constantFrom('GET', 'PUT', 'OPTIONS', 'CONNECT', 'x'),
  ),
  target: fc.oneof({ weight: 5, arbitrary: fc.constant('path' as const) }, fc.constantFrom(...keysOf(TARGETS))),
  path: fc.constantFrom(...PATHS),
  fields: fc
    .uniqueArray(fc.constantFrom(...keysOf(FIELDS)), { maxLength: 3 })
    .map((fields) => ['own' as const, ...fields.filter((each) => each !== 'own')]),
  body: fc.constantFrom(...keysOf(BODIES)),
  depth: fc.constantFrom(...DEPTHS),
  framing: fc.oneof({ weight: 8, arbitrary: fc.constant('length' as const) }, fc.constantFrom(...FRAMINGS)),
  version: fc.oneof({ weight: 8, arbitrary: fc.constant('1.1') }, fc.constantFrom('1.0', '1.2', '2.0')),
});
const http2: fc.Arbitrary<Http2Request> = fc.record({
  kind: fc.constant('http2' as const),
  path: fc.constantFrom(
    ...['/etcdserverpb.KV/Put', '/etcdserverpb.KV/Txn', '/etcdserverpb.KV/%50ut', '/etcdserverpb.Auth/Authenticate'],
    ...['http://page.example/etcdserverpb.KV/Range', '/v3/kv/put?a=b', '/none', ''],
    ...[`/v3/kv/put?password=${SECRET}`, `http://bob:${SECRET}@127.0.0.1/etcdserverpb.KV/Put`],
  ),
  fields: fc.uniqueArray(
    fc.constantFrom(
      ...([
        ['origin', 'https://page.example'],
        ['token', SECRET],
        ['authorization', SECRET],
      ] as const),
      ...([
        [':protocol', 'websocket'],
        ['sec-fetch-site', 'cross-site'],
        ['x', '\n'],
        ['host', 'page.example'],
      ] as const),
    ),
    { maxLength: 2 },
  ),
  message: fc.constantFrom('put', 'login', 'nested', 'compressed', 'too short', 'bytes'),
  depth: fc.constantFrom(1, 20, 99, 101, 150),
});
const bytes = fc.record({
  kind: fc.constant('bytes' as const),
  text: fc.oneof(
    fc.constantFrom('\r\n\r\n', '\x16\x03\x01\x02', PREFACE.slice(0, 9), PREFACE, 'HTTP/1.1 200 OK\r\n\r\n'),
    fc.uint8Array({ maxLength: 60 }).map((octets) => Buffer.from(octets).toString('latin1')),
  ),
});

export const HOSTILE: fc.Arbitrary<Hostile> = fc.record({
  listener: fc.constantFrom('proxy', 'proxy', 'proxy with a fault', 'page', 'memory'),
  requests: fc.oneof(
    { weight: 5, arbitrary: fc.array(http1, { minLength: 1, maxLength: 2 }) },
    { weight: 2, arbitrary: fc.tuple(http2) },
    { weight: 1, arbitrary: fc.tuple(bytes) },
    { weight: 1, arbitrary: fc.tuple(http1, bytes) },
  ),
  sent: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, fc.double({ min: 0, max: 1, noNaN: true })),
  pieces: fc.constantFrom(1, 1, 1, 2, 7, 40),
  end: fc.constantFrom('end', 'end', 'end', 'reset'),
});

/** Returns the bytes that the client sends. */
export function bytesOf({ requests, sent }: Hostile): Buffer {
  const all = Buffer.concat(
    requests.map((request) =>
      request.kind === 'http1'
        ? Buffer.from(http1Text(request), 'latin1')
        : request.kind === 'http2'
          ? http2Bytes(request)
          : Buffer.from(request.text, 'latin1'),
    ),
  );
  return all.subarray(0, Math.ceil(sent * all.length));
}

/** Whether the first request is one that only a web page sends. */
export function isForeign({ requests: [first] }: Hostile): boolean {
  if (first?.kind === 'http1') return first.target === 'foreign' || first.fields.some((field) => FOREIGN.has(field));
  return first?.kind === 'http2' && first.fields.some(([name]) => /^(origin|sec-fetch-site|:protocol)$/.test(name));
}

function http1Text({ verb, target, path, fields, body, depth, framing, version }: Http1Request): string {
  const text = BODIES[body](depth);
  const chunk = (part: string): string => `${part.length.toString(16)}\r\n${part}\r\n`;
  const [lines, content] = ((): readonly [readonly string[], string] => {
    switch (framing) {
      case 'chunks':
        return [['Transfer-Encoding: chunked'], chunk(text) + chunk('')];
      case 'bytes':
        return [['Transfer-Encoding: chunked'], [...text.slice(0, 2_000)].map(chunk).join('') + chunk('')];
      case 'bad chunk':
        return [['Transfer-Encoding: chunked'], `-5\r\n${text}\r\n`];
      case 'both':
        return [['Transfer-Encoding: chunked', `Content-Length: ${text.length}`], chunk(text) + chunk('')];
      case 'none':
        return [[], text];
      default: {
        const length = {
          length: text.length,
          'too long': text.length + 10,
          'too short': text.length >> 1,
          negative: -1,
        };
        return [[`Content-Length: ${length[framing]}`], text];
      }
    }
  })();
  const head = [`${verb} ${TARGETS[target](path)} HTTP/${version}`, ...fields.map((field) => FIELDS[field]), ...lines];
  return `${head.join('\r\n')}\r\n\r\n${content}`;
}

function http2Bytes({ path, fields, message, depth }: Http2Request): Buffer {
  const field = (tag: number, content: Buffer): Buffer =>
    Buffer.concat([Buffer.from([tag, ...varint(content.length)]), content]);
  const login = Buffer.concat([field(0x0a, Buffer.from('bob')), field(0x12, Buffer.from(SECRET))]);
  // A transaction in the field `request_txn` of an operation in the field `success`.
  let nested: Buffer = Buffer.alloc(0);
  for (let level = 0; level < depth; level += 1) nested = field(0x12, field(0x22, nested));
  const isLogin = path.endsWith('/Authenticate');
  const messages = {
    put: field(0x0a, Buffer.from('k')),
    login: isLogin ? login : nested,
    nested,
    bytes: Buffer.alloc(depth, 0xff),
  };
  const content =
    message === 'compressed'
      ? grpcMessage(messages.login, 1)
      : message === 'too short'
        ? grpcMessage(messages.login).subarray(0, -1)
        : grpcMessage(messages[message]);
  return Buffer.concat([
    Buffer.from(PREFACE),
    settings(),
    headers(1, requestBlock(fields, path)),
    data(1, content, { endStream: true }),
  ]);
}

function varint(value: number): readonly number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}

function keysOf<Name extends string>(table: Readonly<Record<Name, unknown>>): readonly Name[] {
  return Object.keys(table) as Name[];
}
