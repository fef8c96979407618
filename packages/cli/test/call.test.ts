import { describe, expect, it } from 'vitest';
import { cli, cliJson, RunningCli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';

describe('etcdwire', () => {
  it('`call` reads and prints keys and values as text by default, and in base64 with `--base64`', async () => {
    const key = unique();
    const base64 = Buffer.from(key).toString('base64');
    await cliJson(['call', '--base64', 'KV/Put', JSON.stringify({ key: base64, value: '/w==' })]);
    expect((await openClient().get(key))?.value).toEqual(Uint8Array.of(0xff));
    const text = await cliJson(['call', 'etcdserverpb.KV/Range', JSON.stringify({ key })]);
    expect(text).toMatchObject({ kvs: [{ key, value: 'base64:/w==' }] });
    await cliJson(['call', 'KV/Put', JSON.stringify({ key, value: 'base64:AAE=' })]);
    expect((await openClient().get(key))?.value).toEqual(Uint8Array.of(0, 1));
  });

  it('`call` reads a request with exact 64-bit integers from standard input', async () => {
    const key = unique();
    const { header } = await openClient().put(key, 'x');
    const request = `{"key": ${JSON.stringify(key)}, "min_mod_revision": ${header.revision}, "max_mod_revision": 9007199254740993}`;
    const { kvs } = await cliJson<{ kvs: object[] }>(['call', 'kv/range', '-'], { stdin: request });
    expect(kvs).toHaveLength(1);
  });

  it('`call` sends each line of standard input as a message of the stream, and prints each response as a JSON line', async () => {
    const key = unique();
    const watch = new RunningCli(['call', 'Watch/Watch']);
    watch.process.stdin.write(`${JSON.stringify({ create_request: { key, watch_id: 7 } })}\n`);
    expect(JSON.parse((await watch.lines(1))[0] ?? '')).toMatchObject({ watch_id: '7', created: true });
    await openClient().put(key, 'seen');
    const [, event = ''] = await watch.lines(2);
    expect(JSON.parse(event)).toMatchObject({ watch_id: '7', events: [{ kv: { key, value: 'seen' } }] });
    watch.process.stdin.write(`${JSON.stringify({ cancel_request: { watch_id: 7 } })}\n`);
    expect(JSON.parse((await watch.lines(3))[2] ?? '')).toMatchObject({ watch_id: '7', canceled: true });
    watch.process.kill('SIGINT');
    expect(await watch.done).toMatchObject({ code: 130 });
  });

  it('`call` fails with exit code 65 when a line of standard input is not JSON', async () => {
    const stdin = '{"create_request": {"key": "a"}}\nnot json\n';
    const { code, stderr } = await cli(['call', 'Watch/Watch', '-'], { stdin });
    expect(code).toBe(65);
    expect(stderr).toMatch(/^etcdwire: the request is not JSON: [^\n]*\n$/);
  });

  it('`call` prints all responses, and exits when the stream ends', async () => {
    const { id } = await openClient().lease.grant({ ttl: 60 });
    expect(await cliJson(['call', 'Lease/LeaseKeepAlive', `{"ID": ${id}}`])).toMatchObject({ TTL: '60' });
    const environment = { ETCDCTL_ENDPOINTS: (await ownEtcd()).endpoints.join() };
    const chunks = (await cli(['call', 'Maintenance/Snapshot'], { environment })).stdout.trimEnd().split('\n');
    expect(chunks.every((line) => 'blob' in JSON.parse(line))).toBe(true);
  });

  it.each([
    [['call', 'KV/Ranges'], 64, /unknown RPC KV\/Ranges; allowed: KV\/Range, /],
    [['call', 'KV/Range', '{'], 65, /the request is not JSON/],
    [
      ['call', 'KV/Range', '{"kee": "YQ=="}'],
      65,
      /kee: got a field that etcdserverpb.RangeRequest does not have; allowed: key, /,
    ],
    [['call', '--base64', 'KV/Range', '{"key": "a b"}'], 65, /key: got a string that is not base64/],
    [['call', 'KV/Range', '{}'], 1, /key is not provided/],
    [['call', 'Watch/Watch', '{"create": {}}'], 65, /create: got a field/],
    [
      ['get', 'a', '--endpoints', 'http://127.0.0.1:1', '--command-timeout', '1s'],
      69,
      /ECONNREFUSED.*is etcd running there/,
    ],
    [['get', 'a', '--endpoints', 'ftp://here'], 64, /endpoints\[0\]: got "ftp:\/\/here"/],
    [['get', 'a', '--limit', 'ten'], 64, /--limit.*Allowed: a whole number/],
    [['get', 'a', 'b', '--prefix'], 64, /got a range end together with --prefix; allowed: only one of the two/],
    [['put', 'a', 'b', '--ignore-value'], 64, /value: got a value together with --ignore-value/],
    [['get', 'a\uFFFD'], 64, /bytes that are not UTF-8/],
    [['lock', '--', 'true'], 64, /name: missing/],
    [['lock', 'x', '--', ''], 126, /cannot run ""/],
    [['elect', 'x', '--', 'true'], 64, /value: missing/],
    [['lock', 'x', '--try', '--timeout', '1s'], 64, /cannot be used with/],
    [['get', ''], 64, /key: got an empty key; allowed: .*\(to select every key, use --prefix\)/],
    [['lease', 'revoke', '1'], 1, /lease not found/],
    [['lease', 'grant', '0'], 64, /whole number of seconds/],
    [['lock', 'x', '--timeout', '5', '--', 'true'], 64, /a duration such as/],
    [['get', 'a', '--user', 'me'], 64, /password of --user: missing/],
    [
      ['get', 'a', '--user', 'me:secret'],
      64,
      /auth: got credentials together with the endpoint http:.*--plaintext-auth/,
    ],
    [['get', 'a', '--cacert', '/no/such/file'], 64, /cannot read \/no\/such\/file/],
    [['bogus'], 64, /unknown command 'bogus'/],
    [['decode', 'PutRequest', '0a05'], 65, /malformed etcdserverpb.PutRequest/],
    [
      ['decode', 'PutRequest', '00 00000003 0a0161'],
      65,
      /got a message with the gRPC prefix of 5 bytes; allowed: only the bytes after the prefix/,
    ],
    [['decode', 'PutRequest', 'xy'], 65, /pairs of hexadecimal digits/],
    [['describe', 'Nothing'], 64, /unknown RPC, service, message or enum Nothing/],
  ])(
    'with the arguments %j exits with exit code %i and prints one line on standard error',
    async (args, code, message) => {
      const result = await cli(args);
      expect(result).toMatchObject({ code, stderr: expect.stringMatching(message) });
      expect(result.stderr).toMatch(/^etcdwire: [^\n]+\n$/);
      expect(result.stderr).not.toContain('secret');
    },
  );
});

describe('etcdwire list', () => {
  it('prints all 49 RPCs with their comments', async () => {
    const rows = await cliJson<{ path: string; comment: string }[]>(['list', '-w', 'json']);
    expect(rows).toHaveLength(49);
    expect(rows.filter(({ comment }) => comment === '')).toEqual([]);
  });

  it('prints one name per line for a pipe', async () => {
    expect((await cli(['list'])).stdout).toMatch(/^(\w+\.\w+\/\w+\n){49}$/);
  });
});

describe('the name of an RPC', () => {
  it.each(['KV/Range', 'kv.range', '/etcdserverpb.KV/Range', 'etcdserverpb.KV.Range', 'Range'])(
    'may be given as %s',
    async (name) => {
      expect(await cliJson(['call', name, JSON.stringify({ key: unique() })])).toHaveProperty('header');
    },
  );
});

describe('etcdwire describe --template', () => {
  it('prints a request that `call` accepts when it is filled in', async () => {
    const { stdout } = await cli(['describe', '--template', 'Put']);
    const request = JSON.parse(stdout);
    expect(Object.keys(request)).toEqual(['key', 'value', 'lease', 'prev_kv', 'ignore_value', 'ignore_lease']);
    // "user" is also the base64 of three bytes.
    const key = `${unique()}user`;
    await cliJson(['call', 'Put', JSON.stringify({ ...request, key, value: 'user' })]);
    expect((await openClient().get(key))?.text()).toBe('user');
  });

  it('contains one field of each `oneof`, and leaves out a message inside itself', async () => {
    const template = await cliJson<Record<string, Record<string, unknown>[]>>(['describe', '--template', 'TxnRequest']);
    expect(Object.keys(template.success?.[0] ?? {})).toEqual(['request_range']);
    expect(Object.keys(template.compare?.[0] ?? {})).toEqual(['result', 'target', 'key', 'version', 'range_end']);
  });
});

describe('etcdwire describe', () => {
  it.each([
    ['KV/Txn', /^\/\/ .*\nrpc Txn\(etcdserverpb.TxnRequest\) returns \(etcdserverpb.TxnResponse\)\n$/],
    ['Watch/Watch', /rpc Watch\(stream etcdserverpb.WatchRequest\) returns \(stream etcdserverpb.WatchResponse\)/],
    ['Lease', /^\/\/ .*\nservice etcdserverpb.Lease \{\n(.*\n)* {2}rpc LeaseGrant/],
    ['Compare', /message etcdserverpb.Compare \{(.*\n)* {2}int64 version = 4 {2}\/\/ one of targetUnion/],
    ['mvccpb.KeyValue', /message mvccpb.KeyValue \{(.*\n)* {2}int64 create_revision = 2/],
    ['SortOrder', /enum etcdserverpb.RangeRequest.SortOrder \{(.*\n)* {2}DESCEND = 2/],
  ])('prints the definition of %s in the form of a .proto file', async (name, text) => {
    expect((await cli(['-w', 'table', 'describe', name])).stdout).toMatch(text);
  });
});

it('etcdwire decode explains each part of a message, as text or as JSON', async () => {
  const hex = ['0a07', '1001', '1a0161', '2001', '1200'];
  const { stdout } = await cli(['-w', 'table', 'decode', 'txnrequest', ...hex]);
  expect(stdout.split('\n')).toEqual([
    '    0  0a  field 1, length-delimited: compare: etcdserverpb.Compare',
    '    1    07  length 7',
    '    2      10  field 2, varint: target: etcdserverpb.Compare.CompareTarget',
    '    3        01  CREATE',
    '    4      1a  field 3, length-delimited: key: bytes',
    '    5        01  length 1',
    '    6        61  "a"',
    '    7      20  field 4, varint: version: int64',
    '    8        01  1',
    '    9  12  field 2, length-delimited: success: etcdserverpb.RequestOp',
    '   10    00  length 0',
    '',
  ]);
  const lines = (await cli(['decode', 'TxnRequest', ...hex])).stdout.trimEnd().split('\n');
  expect(lines).toHaveLength(11);
  expect(JSON.parse(lines[6] ?? '')).toMatchObject({
    offset: 6,
    hex: '61',
    depth: 1,
    part: 'value',
    field: 'key',
    value: 'YQ==',
  });
});
