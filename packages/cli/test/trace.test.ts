import { readFileSync, statSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { cli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { scriptedServer } from '../../../test/support/scripted-server.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';

const ENDPOINTS = inject('endpoints').join(',');

interface Line {
  readonly direction: string;
  readonly stream: number;
  readonly type: string;
  readonly hex: string;
  readonly messages?: readonly { readonly type: string; readonly message: Readonly<Record<string, unknown>> }[];
}

test("etcdwire trace prints a command's frames to standard error, and the command's output to standard output", async () => {
  const key = unique();
  const { code, stdout, stderr } = await cli(['trace', '--', 'put', key, 'seen', '-w', 'simple']);
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'OK\n' });
  const lines = stderr.trimEnd().split('\n');
  expect(lines[0]).toMatch(/^ +\d+\.\d ms {2}> {2}1 +PREFACE$/);
  expect(lines.find((line) => line.includes('DATA END_STREAM'))).toMatch(
    new RegExp(`> {2}1:1 +DATA END_STREAM +PutRequest \\{"key":"${key}","value":"seen"\\}$`),
  );
  expect(lines.find((line) => line.includes('PutResponse'))).toMatch(/< {2}1:1 +DATA +PutResponse/);
});

test('etcdwire trace --out writes one line of JSON for each frame and each closed connection to a file that only the owner may read', async () => {
  const file = join(temporaryFolder(), 'trace.jsonl');
  const name = unique('lock');
  const { code } = await cli(['trace', '--out', file, '--', 'lock', name, '--', 'sh', '-c', 'exit 3']);
  expect(code).toBe(3);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const lines = readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line): Line => JSON.parse(line));
  const types = lines.flatMap(({ messages = [] }) => messages.map(({ type }) => type));
  expect(types).toEqual(expect.arrayContaining(['etcdserverpb.LeaseGrantRequest', 'etcdserverpb.TxnRequest']));
  const closed = lines.filter(({ type }) => type === 'CLOSED');
  expect(closed).toEqual([{ ms: expect.any(Number), connection: 1, type: 'CLOSED' }]);
  for (const { hex } of lines.slice(0, -1)) expect(hex).toMatch(/^([0-9a-f]{2})+$/);
});

test('etcdwire trace runs the command, and exits with exit code 73 when etcdwire cannot write the whole trace', async () => {
  const key = unique();
  const file = join(temporaryFolder(), 'trace');
  // The system lets the program write at most one block of 512 bytes to a file.
  const under = ['sh', '-c', 'ulimit -f 1; exec "$@"', 'sh'];
  const { code, stderr } = await cli(['trace', '--out', file, '--', 'put', key, 'v'], { under });
  expect(stderr).toMatch(/^etcdwire: the trace is incomplete: EFBIG[^\n]*\n$/);
  expect(code).toBe(73);
  expect(await openClient().get(key)).toBeDefined();
});

test('etcdwire accepts connection flags before and after `trace`, and prefers the connection flags of the traced command', async () => {
  const key = unique();
  const nowhere = ['--endpoints', 'http://127.0.0.1:1', '--command-timeout', '300ms'];
  for (const args of [
    [...nowhere, 'trace', '--', 'put', key, 'v'],
    ['trace', ...nowhere, '--', 'put', key, 'v'],
  ])
    expect((await cli(args)).code).not.toBe(0);
  expect(await openClient().get(key)).toBeUndefined();
  expect(await cli([...nowhere, 'trace', '--', 'put', key, 'v', '--endpoints', ENDPOINTS])).toMatchObject({ code: 0 });
});

test('etcdwire trace exits with the exit code of the traced command when the server does not speak HTTP/2', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { code, stderr } = await cli([
    'trace',
    '--',
    'get',
    'a',
    '--endpoints',
    endpoint,
    '--command-timeout',
    '500ms',
  ]);
  expect(code).toBe(69);
  expect(stderr).toMatch(/\netcdwire: [^\n]*the peer answers in HTTP\/1[^\n]*\n$/);
});

test('etcdwire trace --html writes a page that marks a malformed response, and exits with exit code 65', async () => {
  const answer = { path: methods.kv.range.path, requestStream: false, responseStream: false };
  const definition = {
    call: {
      ...answer,
      requestSerialize: Buffer.from,
      requestDeserialize: Buffer.from,
      responseSerialize: Buffer.from,
      responseDeserialize: Buffer.from,
    },
  };
  const handlers = { call: (_: unknown, reply: (error: null, bytes: number[]) => void) => reply(null, [0x0a, 5]) };
  const endpoint = await scriptedServer({ definition, handlers });
  const file = join(temporaryFolder(), 'trace.html');
  const { code } = await cli(['trace', '--html', file, '--', 'get', 'a', '--endpoints', endpoint]);
  expect(code).toBe(65);
  expect(readFileSync(file, 'utf8')).toContain('malformed');
});

test('etcdwire trace exits with exit code 65 when the response to an Authenticate call is malformed', async () => {
  const answer = { path: methods.auth.authenticate.path, requestStream: false, responseStream: false };
  const raw = { requestSerialize: Buffer.from, requestDeserialize: Buffer.from };
  const definition = {
    call: { ...answer, ...raw, responseSerialize: Buffer.from, responseDeserialize: Buffer.from },
  };
  const handlers = { call: (_: unknown, reply: (error: null, bytes: number[]) => void) => reply(null, [0x12, 5]) };
  const endpoint = await scriptedServer({ definition, handlers });
  const login = ['--user', 'u:p', '--plaintext-auth', '--endpoints', endpoint];
  const { code, stderr } = await cli(['trace', '--', 'get', 'a', ...login]);
  expect(code).toBe(65);
  expect(stderr).toMatch(/\netcdwire: [^\n]*malformed[^\n]*\n$/);
});

test.each([
  [['trace', '--', 'trace', '--', 'status'], 64, 'got trace'],
  [['trace', '--out', '/no/such/folder/file', '--', 'status'], 73, 'ENOENT'],
  [['trace'], 64, 'missing required argument'],
])('etcdwire with the arguments %j exits with exit code %i', async (args, code, words) => {
  expect(await cli(args)).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(words) });
});
