import { randomInt } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { shownCommand, withoutShellSecrets } from '../../packages/cli/src/commands/shell-words.js';
import { frameJson, frameText } from '../../packages/cli/src/frames.js';
import { ConnectionDecoder } from '../../packages/cli/src/inspect/connection-decoder.js';
import { FrameDecoder, type WireFrame } from '../../packages/cli/src/inspect/frames.js';
import { tracePage } from '../../packages/cli/src/trace/page.js';
import { Recording } from '../../packages/cli/src/trace/recording.js';
import { methods } from '../../src/gen/methods.js';
import { encode } from '../../src/wire/protobuf/writer.js';
import { canary } from '../support/canaries.js';
import * as h2 from '../support/http2-frames.js';
import { block, type Field } from '../support/http2-hpack.js';

// Plants one secret in each place of a connection or of a command line where a program can have one, among random other
// traffic, and searches everything that a trace, a recording or a page shows for it. `CANARY_SEED` replays a failure.

const SEED = Number(process.env.CANARY_SEED ?? randomInt(2 ** 31));
const SECRET = canary('secret');
const BASIC = canary('basic-password');
const CODED = Buffer.from(`root:${BASIC}`).toString('base64');

type Direction = WireFrame['direction'];
type Piece = readonly [Direction, Uint8Array];
/** What a connection carries. Each place holds the secret. */
interface Place {
  readonly name: string;
  readonly pieces: readonly Piece[];
}

const SECRET_HEADERS: readonly Field[] = [
  ['token', SECRET],
  ['authorization', SECRET],
  ['authorization', `Bearer ${SECRET}`],
  ['authorization', `Basic ${CODED}`],
  ['proxy-authorization', `Basic ${CODED}`],
  ['cookie', `a=b; session=${SECRET}`],
  ['grpc-metadata-token', SECRET],
  ['grpc-metadata-authorization', SECRET],
  ['sec-websocket-protocol', `Bearer, ${SECRET}`],
  ['x-auth-token', SECRET],
  ['x-api-key', SECRET],
  ['x-vault-token', SECRET],
  ['referer', `http://root:${SECRET}@a/x`],
  ['referer', `http://a/x?token=${SECRET}`],
  ['referer', `http://a/x#${SECRET}`],
];
const TARGETS = [
  `/v3/kv/range?method=POST&password=${SECRET}`,
  `/v3/auth/user/add?password=${SECRET}`,
  `/v3/watch?Grpc-Metadata-Token=${SECRET}`,
  `/other?a@b=${SECRET}`,
  `/v3/kv/put#${SECRET}`,
];
const PASSWORD_BODIES = [
  `{"name":"a","password":"${SECRET}"}`,
  `{"name":"a","pass\\u0077ord":"${SECRET}"}`,
  `{"name":"a","hashed_password":"${SECRET}"}`,
  `{"name":"a","hashedPassword":"${SECRET}"}`,
  `{"name":"a","password":["${SECRET}"]}`,
  `{"name":"a","password":{"x":"${SECRET}"}}`,
  `{"name":"a",password:"${SECRET}"}`,
  `{"a":{"password":"${SECRET}"}}`,
  `{"name":"a","password":"x${SECRET}`,
  `name=a&password=${SECRET}`,
];
const PASSWORD_PATHS = [
  '/v3/auth/authenticate',
  '/v3/auth/user/add',
  '/v3/auth/user/changepw',
  '/v3beta/auth/user/add',
  '/v3alpha/auth/user/add',
  '/v3/auth/user/%61dd',
  '/prefix/v3/auth/user/add',
];

const bytes = (text: string): Uint8Array => Buffer.from(text, 'latin1');
const request = (target: string, body = '', fields: readonly string[] = []): Uint8Array =>
  bytes([`POST ${target} HTTP/1.1`, 'Host: a', `Content-Length: ${body.length}`, ...fields, '', body].join('\r\n'));
const response = (status: string, body: string, fields: readonly string[] = []): Uint8Array =>
  bytes([`HTTP/1.1 ${status}`, `Content-Length: ${body.length}`, ...fields, '', body].join('\r\n'));
const chunked = (target: string, body: string, trailer: string): Uint8Array =>
  bytes(
    `POST ${target} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n${trailer}\r\n\r\n`,
  );
const inChunks = (status: string, parts: readonly string[]): Uint8Array => {
  const chunks = [...parts, ''].map((part) => `${part.length.toString(16)}\r\n${part}\r\n`);
  return bytes(`HTTP/1.1 ${status}\r\nTransfer-Encoding: chunked\r\n\r\n${chunks.join('')}`);
};

const HTTP1: readonly Place[] = [
  ...SECRET_HEADERS.flatMap(([name, value]): Place[] => [
    { name, pieces: [['sent', request('/v3/kv/range', '{}', [`${name}: ${value}`])]] },
    { name: `${name} in capitals`, pieces: [['sent', request('/x', '', [`${name.toUpperCase()}:${value}`])]] },
    { name: `${name} on two lines`, pieces: [['sent', request('/x', '', [`${name}:`, ` ${value}`])]] },
    { name: `${name} as a trailer`, pieces: [['sent', chunked('/v3/kv/range', '{}', `${name}: ${value}`)]] },
  ]),
  {
    name: 'set-cookie',
    pieces: [
      ['sent', request('/x')],
      ['received', response('200 OK', '', [`Set-Cookie: a=${SECRET}`])],
    ],
  },
  {
    name: 'location',
    pieces: [
      ['sent', request('/x')],
      ['received', response('302 Found', '', [`Location: /x?t=${SECRET}`])],
    ],
  },
  { name: 'host', pieces: [['sent', request('/x', '', [`Host: root:${SECRET}@a`])]] },
  ...TARGETS.map((target): Place => ({ name: target, pieces: [['sent', request(target)]] })),
  ...TARGETS.map((target): Place => ({ name: `http:${target}`, pieces: [['sent', request(`http://a${target}`)]] })),
  { name: 'absolute target', pieces: [['sent', request(`http://root:${SECRET}@a/v3/kv/range`, '{}')]] },
  {
    name: 'absolute target with a slash in the password',
    pieces: [['sent', request(`http://root:x/${SECRET}@a/v3/kv/range`, '{}')]],
  },
  { name: 'CONNECT', pieces: [['sent', bytes(`CONNECT root:${SECRET}@a:443 HTTP/1.1\r\n\r\n`)]] },
  {
    name: 'WebSocket',
    pieces: [
      [
        'sent',
        request(`/v3/watch?token=${SECRET}`, '', [
          'Upgrade: websocket',
          'Connection: Upgrade',
          `Sec-WebSocket-Protocol: Bearer, ${SECRET}`,
        ]),
      ],
      ['received', bytes('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n')],
      ['sent', bytes(`\x81\x20{"password":"${SECRET}"}`)],
      ['received', bytes(`\x81\x20{"token":"${SECRET}"}`)],
    ],
  },
  ...PASSWORD_PATHS.flatMap((path) =>
    PASSWORD_BODIES.flatMap((body): Place[] => [
      { name: `${path} ${body}`, pieces: [['sent', request(path, body)]] },
      { name: `${path} ${body} in a chunk`, pieces: [['sent', chunked(path, body, 'a: b')]] },
    ]),
  ),
  {
    name: 'the token in an answer',
    pieces: [
      ['sent', request('/v3/auth/authenticate', '{}')],
      ['received', response('200 OK', `{"token":"${SECRET}"}`)],
    ],
  },
  {
    name: 'an error that quotes the request',
    pieces: [
      ['sent', request('/v3/auth/user/add', '{"name":"a","password":x}')],
      ['received', response('400 Bad Request', `{"code":3,"message":"proto: unexpected token ${SECRET}"}`)],
    ],
  },
  {
    name: 'an error in many chunks that quotes the request',
    pieces: [
      ['sent', request('/v3/auth/user/add', '{"name":"a","password":x}')],
      ['received', inChunks('400 Bad Request', [`{"code":3,"message":"${SECRET}`, ...'x'.repeat(4_000), '"}'])],
    ],
  },
];

const grpcHeaders = (path: string, more: readonly Field[] = []): readonly Field[] => [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', path],
  [':authority', 'a'],
  ['content-type', 'application/grpc'],
  ...more,
];
const open = (fields: readonly Field[]): Uint8Array => h2.headers(1, block(fields, 'with indexing'));
/** The same block in two frames. */
const openInParts = (fields: readonly Field[], at: number): Uint8Array => {
  const whole = block(fields);
  return Buffer.concat([h2.headers(1, whole.subarray(0, at), { open: true }), h2.continuation(1, whole.subarray(at))]);
};
const PUT = '/etcdserverpb.KV/Put';
const { auth } = methods;
const message = (content: Uint8Array): Uint8Array => h2.data(1, h2.grpcMessage(content));

const HTTP2: readonly Place[] = [
  ...SECRET_HEADERS.flatMap((field): Place[] => [
    { name: `:${field[0]}`, pieces: [['sent', open(grpcHeaders(PUT, [field]))]] },
    {
      name: `:${field[0]} never indexed`,
      pieces: [
        ['sent', h2.headers(1, block(grpcHeaders(PUT, [field]), 'never indexed'), { padding: 9, priority: true })],
      ],
    },
    { name: `:${field[0]} in parts`, pieces: [['sent', openInParts(grpcHeaders(PUT, [field]), 90)]] },
    {
      name: `:${field[0]} as a trailer`,
      pieces: [
        ['sent', open(grpcHeaders(PUT))],
        ['received', h2.headers(1, block([field]))],
      ],
    },
  ]),
  ...TARGETS.map((target): Place => ({ name: target, pieces: [['sent', open(grpcHeaders(target))]] })),
  { name: 'authority', pieces: [['sent', open([[':authority', `root:${SECRET}@a`], ...grpcHeaders(PUT)])]] },
  ...(
    [
      [auth.authenticate, encode(auth.authenticate.request, { name: 'a', password: SECRET })],
      [auth.userAdd, encode(auth.userAdd.request, { name: 'a', password: SECRET })],
      [auth.userAdd, encode(auth.userAdd.request, { name: 'a', hashedPassword: SECRET })],
      [auth.userChangePassword, encode(auth.userChangePassword.request, { name: 'a', password: SECRET })],
    ] as const
  ).flatMap(([{ path }, content]): Place[] => [
    {
      name: path,
      pieces: [
        ['sent', open(grpcHeaders(path))],
        ['sent', message(content)],
      ],
    },
    {
      name: `${path} on a stream that put before`,
      pieces: [
        ['sent', open(grpcHeaders(PUT))],
        ['sent', open(grpcHeaders('/other'))],
        ['sent', message(content)],
      ],
    },
    {
      name: `${path} in two frames`,
      pieces: [
        ['sent', open(grpcHeaders(path))],
        ['sent', h2.data(1, h2.grpcMessage(content).subarray(0, 20))],
        ['sent', h2.data(1, h2.grpcMessage(content).subarray(20))],
      ],
    },
  ]),
  {
    name: 'the token in an answer',
    pieces: [
      ['sent', open(grpcHeaders(auth.authenticate.path))],
      ['received', h2.headers(1, block([[':status', '200']]))],
      ['received', message(encode(auth.authenticate.response, { token: SECRET }))],
    ],
  },
  ...PASSWORD_BODIES.map(
    (body): Place => ({
      name: `gateway ${body}`,
      pieces: [
        ['sent', open(grpcHeaders('/v3/auth/user/add'))],
        ['sent', h2.data(1, bytes(body))],
      ],
    }),
  ),
];

const ORDINARY: readonly Piece[] = [
  ['sent', request('/v3/kv/put', '{"key":"YQ==","value":"Yg=="}')],
  ['received', response('200 OK', '{"header":{"revision":"5"}}')],
];

/** Decodes a connection in pieces of this many bytes. */
function framesOf(pieces: readonly Piece[], pieceBytes: number): readonly WireFrame[] {
  const frames: WireFrame[] = [];
  const endpoint = 'http://a:2379';
  const decoder = new ConnectionDecoder((direction, frame) =>
    frames.push({ atMs: 1, connection: 1, endpoint, direction, ...frame }),
  );
  for (const [direction, all] of pieces)
    for (let at = 0; at < all.length; at += pieceBytes) decoder.push(direction, all.subarray(at, at + pieceBytes));
  return frames;
}

/** Everything that `trace`, `show`, `proxy` and their files show of the frames. */
function shownOf(frames: readonly WireFrame[]): readonly string[] {
  const streams = new Map();
  const fields: unknown[] = [];
  // Whoever has the recording can decode its header blocks again.
  for (const side of ['client', 'server'] as const) {
    const decoder = new FrameDecoder(
      side,
      streams,
      () => {},
      (_, block) => fields.push(block),
    );
    const direction = side === 'client' ? 'sent' : 'received';
    for (const frame of frames)
      if (frame.direction === direction && frame.detail.kind !== 'http1') decoder.push(frame.bytes);
  }
  return [
    JSON.stringify(fields),
    ...frames.map((frame) => frameText(frame, 0)),
    ...frames.map((frame) => JSON.stringify(frameJson(frame, 0))),
    ...frames.map((frame) => Buffer.from(frame.bytes).toString('latin1')),
  ];
}

/** The beginnings of the secrets, in the forms in which a page, a line or a file may show them. */
const FORMS = [
  ...[SECRET, BASIC]
    .map((secret) => secret.slice(0, 10))
    .flatMap((text) => {
      const hex = Buffer.from(text).toString('hex');
      return [text, hex, hex.replaceAll(/..(?=.)/g, '$& '), Buffer.from(text).toString('base64').slice(0, 12)];
    }),
  CODED.slice(8, 20),
];

function pageOf(frames: readonly WireFrame[]): string {
  const recording = new Recording('a', { keepsAll: true });
  for (const frame of frames) recording.frame(frame);
  return tracePage([recording.trace]);
}

function leakIn(shown: readonly string[]): string | undefined {
  return FORMS.find((form) => shown.some((text) => text.includes(form)));
}

const PREFACE: Piece = ['sent', Buffer.concat([bytes(h2.PREFACE), h2.settings()])];

test.each([
  ['HTTP/1.1', HTTP1, ORDINARY, ORDINARY],
  ['HTTP/2', HTTP2, [PREFACE], []],
] as const)('a recording of %s shows no secret from any place of a connection', (_, places, before, after) => {
  const random = fc.sample(fc.integer({ min: 1, max: 400 }), { seed: SEED, numRuns: places.length });
  const all: WireFrame[] = [];
  const leaks = places.flatMap(({ name, pieces }, index) =>
    [random[index] as number, 100_000].flatMap((size) => {
      const frames = framesOf([...before, ...pieces, ...after], size);
      expect(frames.length, `${name}: nothing was decoded`).toBeGreaterThan(0);
      all.push(...frames.map((frame) => ({ ...frame, connection: all.length + 1 })));
      const leak = leakIn(shownOf(frames));
      return leak === undefined ? [] : [`${name}, pieces of ${size} bytes, seed ${SEED}: ${leak}`];
    }),
  );
  expect(leaks).toEqual([]);
  expect(leakIn([pageOf(all)])).toBeUndefined();
});

test('the frames of a request with a secret header show the rest of the request', () => {
  const [place] = HTTP1.filter(({ name }) => name === 'grpc-metadata-token');
  const shown = shownOf(framesOf([...ORDINARY, ...(place?.pieces ?? [])], 1_000)).join('\n');
  expect(shown).toContain('POST /v3/kv/range');
  expect(shown).toContain('Content-Length: 2');
  expect(shown).toContain('grpc-metadata-token: ***');
});

/** The places of a command line for a secret. */
const COMMAND_LINES: readonly (readonly string[])[] = [
  ['curl', '-u', `root:${SECRET}`],
  ['curl', `-uroot:${SECRET}`],
  ['curl', '--user', `root:${SECRET}`],
  ['curl', '--proxy-user', `root:${SECRET}`],
  ['curl', '-b', `a=${SECRET}`],
  ['curl', '--oauth2-bearer', SECRET],
  ...SECRET_HEADERS.map(([name, value]) => ['curl', '-H', `${name}: ${value.replace(CODED, SECRET)}`]),
  ...TARGETS.map((target) => ['curl', `http://a:2379${target}`]),
  ['curl', `http://root:${SECRET}@a:2379/health`],
  ['curl', `root:${SECRET}@a:2379/health`],
  ...PASSWORD_BODIES.filter((body) => !body.includes('\\u')).map((body) => ['curl', '-d', body]),
  ['env', `ETCDCTL_PASSWORD=${SECRET}`, 'etcdctl', 'get', 'a'],
  ['env', `ETCDCTL_USER=root:${SECRET}`, 'etcdctl', 'get', 'a'],
  ['env', `ETCDCTL_AUTH_JWT_TOKEN=${SECRET}`, 'etcdctl', 'get', 'a'],
  ['env', `ETCDCTL_ENDPOINTS=http://root:${SECRET}@a:2379`, 'etcdctl', 'get', 'a'],
  ['etcdctl', '--user', `root:${SECRET}`, 'get', 'a'],
  ['etcdctl', `--user=root:${SECRET}`, 'get', 'a'],
  ['etcdctl', '--user', 'root', '--password', SECRET, 'get', 'a'],
  ['etcdctl', `--password=${SECRET}`, 'get', 'a'],
  ['etcdctl', '--endpoints', `http://root:${SECRET}@a:2379,http://b:2379`, 'get', 'a'],
  ['etcdctl', 'user', 'add', `ann:${SECRET}`],
  ['etcdctl', 'user', 'add', 'ann', '--new-user-password', SECRET],
  ['etcdctl', 'user', 'add', 'ann', `--new-user-password=${SECRET}`],
  ['etcdctl', 'user', 'add', 'ann', `PASSWORD=${SECRET}`],
  ['etcdctl', 'make-mirror', '--dest-user', `a:${SECRET}`, 'b'],
  ['etcdctl', 'make-mirror', '--dest-password', SECRET, 'b'],
  ['lock', 'l', '--', 'env', `ETCDCTL_PASSWORD=${SECRET}`, 'true'],
  ['mysql', `-p${SECRET}`],
  ['redis-cli', '-a', SECRET],
  ['sshpass', '-p', SECRET, 'ssh', 'a'],
  ['prog', '--client-secret', SECRET],
  ['prog', '-passphrase', SECRET],
  ['prog', '--credentials', SECRET],
];

test('the title of a trace page shows no secret of a command line, at any depth of shells', () => {
  const quoted = (words: readonly string[]): string =>
    words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
  const leaks = COMMAND_LINES.flatMap((words) => {
    const inShell = ['sh', '-c', quoted(words)];
    const inShells = ['sh', '-c', quoted(inShell)];
    const shown = [
      ...[words, inShell, inShells, ['true', '&&', ...words]].map(shownCommand),
      ...[words, inShell].map((each) => withoutShellSecrets(`true; ${quoted(each)} | cat`)),
    ];
    return shown.filter((title) => leakIn([title]) !== undefined);
  });
  expect(leaks).toEqual([]);
});
