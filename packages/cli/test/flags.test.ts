import { describe, expect, it } from 'vitest';
import { authEtcd, ROOT } from '../../../test/support/auth-etcd.js';
import { cli, RunningCli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';

// Tests how the normal mode reads the values of flags and of environment variables. etcdctl-flags.test.ts compares the
// mode of etcdctl with etcdctl itself.

const BOOLEANS = 'allowed: 1, t, T, TRUE, true, True, 0, f, F, FALSE, false and False';

describe('a boolean', () => {
  it.each([
    [['--hex=F'], {}],
    [['--hex', '--hex=0'], {}],
    [['--hex=false'], { ETCDCTL_HEX: 'true' }],
    [[], { ETCDCTL_HEX: 'False' }],
    [[], { ETCDCTL_HEX: '0' }],
    [[], { ETCDCTL_HEX: '' }],
  ])('is off with the arguments %j and the environment %j', async (flags, environment) => {
    const key = unique();
    await openClient().put(key, 'value');
    const { code, stdout } = await cli(['get', key, '--print-value-only', ...flags], { environment });
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'value\n' });
  });

  it.each([
    [['--hex=T'], {}],
    [['--hex=0', '--hex'], {}],
    [['--hex=True'], { ETCDCTL_HEX: 'false' }],
    [[], { ETCDCTL_HEX: 't' }],
  ])('is on with the arguments %j and the environment %j', async (flags, environment) => {
    const key = unique();
    await openClient().put(key, 'a');
    const { code, stdout } = await cli(['get', key, '--print-value-only', ...flags], { environment });
    expect({ code, stdout }).toEqual({ code: 0, stdout: '\\x61\n' });
  });

  it.each([
    [['--hex=yes'], {}, `--hex: got "yes"; ${BOOLEANS}`],
    [['--prefix=on'], {}, `--prefix: got "on"; ${BOOLEANS}`],
    [['--insecure-transport=no'], {}, `--insecure-transport: got "no"; ${BOOLEANS}`],
    [[], { ETCDCTL_HEX: 'yes' }, `ETCDCTL_HEX: got "yes"; ${BOOLEANS}`],
    [[], { ETCDCTL_INSECURE_SKIP_TLS_VERIFY: 'no' }, `ETCDCTL_INSECURE_SKIP_TLS_VERIFY: got "no"; ${BOOLEANS}`],
    [[], { ETCDCTL_INSECURE_TRANSPORT: ' false' }, "from env 'ETCDCTL_INSECURE_TRANSPORT' is invalid. Allowed: 1, t,"],
  ])('is refused with the arguments %j and the environment %j', async (flags, environment, message) => {
    const result = await cli(['get', unique(), ...flags], { environment });
    expect(result).toMatchObject({ code: 64, stdout: '', stderr: expect.stringContaining(message) });
  });

  it.each([
    [['--insecure-transport=F'], {}],
    [['--insecure-transport', 'false'], {}],
    [[], { ETCDCTL_INSECURE_TRANSPORT: '0' }],
  ])('asks for TLS with the arguments %j and the environment %j', async (flags, environment) => {
    const [endpoint = ''] = openClient().endpoints;
    const args = ['get', unique(), '--endpoints', new URL(endpoint).host, '--command-timeout=1s', ...flags];
    const result = await cli(args, { environment });
    expect(result).toMatchObject({ code: 69, stderr: expect.stringContaining('https://') });
  });

  it.each([[['--insecure-transport']], [['--insecure-transport=1']], [['--insecure-transport', 'true']]])(
    'asks for no TLS with the arguments %j before the command',
    async (flags) => {
      const [endpoint = ''] = openClient().endpoints;
      const args = [...flags, 'get', unique(), '--endpoints', new URL(endpoint).host];
      expect(await cli(args)).toMatchObject({ code: 0 });
    },
  );

  it.each(['T', 'true', '1'])('ETCDWIRE_ETCDCTL=%s turns the mode of etcdctl on', async (ETCDWIRE_ETCDCTL) => {
    const { stdout } = await cli(['version'], { environment: { ETCDWIRE_ETCDCTL } });
    expect(stdout).toContain('API version');
  });
});

describe('credentials', () => {
  it('with --password, the whole of --user is the name', async () => {
    const etcd = await authEtcd();
    const { raw } = openClient({ endpoints: etcd.endpoints, auth: { ...ROOT, allowPlaintext: true } });
    await raw.auth.userAdd({ name: 'a:b', password: 'p' });
    const endpoints = ['--endpoints', etcd.endpoints.join(), '--plaintext-auth'];
    // The user has no permission, so the answer shows who has logged in.
    expect(await cli(['get', 'k', ...endpoints, '--user', 'a:b', '--password', 'p'])).toMatchObject({
      code: 77,
      stderr: expect.stringContaining('permission denied'),
    });
    expect(await cli(['get', 'k', ...endpoints, '--user', 'root:root-secret', '--password', ''])).toMatchObject({
      code: 0,
    });
  });

  it.each([
    [['--user', 'root:'], 'password of --user: missing'],
    [['--user', 'root', '--password', ''], 'password of --user: missing'],
    [['--user', ':secret'], 'name of --user: missing'],
  ])('%j are refused', async (flags, message) => {
    const result = await cli(['get', unique(), '--plaintext-auth', ...flags]);
    expect(result).toMatchObject({ code: 64, stderr: expect.stringContaining(message) });
  });

  it.each([[['--new-user-password', '']], [['--new-user-password=']]])(
    '`user add` with %j reads the password from standard input',
    async (flags) => {
      const [name, other] = [unique(), unique()];
      const refused = await cli(['user', 'add', name, '--plaintext-auth', ...flags]);
      expect(refused).toMatchObject({ code: 64, stderr: expect.stringContaining('password: missing') });
      const added = await cli(['user', 'add', other, '--plaintext-auth', ...flags], { stdin: 'secret\n' });
      expect(added).toMatchObject({ code: 0 });
      const { users } = await openClient().raw.auth.userList({});
      expect(users).toContain(other);
      expect(users).not.toContain(name);
    },
  );

  it.each([[[]], [['--etcdctl']]])('`user add NAME:` with the flags %j creates no user', async (flags) => {
    const name = unique();
    const { code, stderr } = await cli([...flags, 'user', 'add', `${name}:`]);
    expect(code).toBe(flags.length === 0 ? 64 : 128);
    expect(stderr).toContain('empty password');
    expect((await openClient().raw.auth.userList({})).users).not.toContain(name);
  });
});

describe('an empty or zero value', () => {
  it.each([
    ['--user', ''],
    ['--password', ''],
    ['--dial-timeout', '0s'],
    ['--dial-timeout', '-5s'],
    ['--keepalive-time', '0'],
    ['--discovery-srv', ''],
  ])('of %s means the same as no flag: %j', async (flag, value) => {
    expect(await cli(['get', unique(), flag, value])).toMatchObject({ code: 0 });
  });

  it.each([
    ['--cacert', '', '--cacert: got an empty text; allowed: the path of a PEM file, or no --cacert'],
    ['--cert', '', '--cert: got an empty text'],
    ['--key', '', '--key: got an empty text'],
    ['--command-timeout', '0s', 'Allowed: a duration longer than 0'],
    ['--endpoints', '', 'got an empty list'],
  ])('of %s is refused: %j', async (flag, value, message) => {
    const result = await cli(['get', unique(), flag, value], { environment: { ETCDCTL_ENDPOINTS: '' } });
    expect(result).toMatchObject({ code: 64, stderr: expect.stringContaining(message) });
  });

  it('of a range end means none in `get`, `del` and `watch`', async () => {
    const key = unique();
    const client = openClient();
    const { header } = await client.put(key, 'value');
    await client.put(`${key}/child`, 'other');
    expect(await cli(['get', key, '', '--print-value-only'])).toMatchObject({ code: 0, stdout: 'value\n' });
    const watch = new RunningCli(['watch', key, '', '--rev', String(header.revision), '-w', 'simple']);
    expect(await watch.lines(3)).toEqual(['PUT', key, 'value']);
    watch.process.kill('SIGTERM');
    await watch.done;
    expect(await cli(['del', key, '', '-w', 'simple'])).toMatchObject({ code: 0, stdout: '1\n' });
    expect(await client.get(key)).toBeUndefined();
    expect((await client.get(`${key}/child`))?.text()).toBe('other');
  });
});

it.each([' {} ', '\n{}\r\n', '"{}"', '127.0.0.1:1, {}', '127.0.0.1:1\n{}\n', ',{},,{}'])(
  '--endpoints and ETCDCTL_ENDPOINTS take the list %j',
  async (list) => {
    const [endpoint = ''] = openClient().endpoints;
    const given = list.replaceAll('{}', new URL(endpoint).host);
    expect(await cli(['get', unique(), '--endpoints', given])).toMatchObject({ code: 0 });
    expect(await cli(['get', unique()], { environment: { ETCDCTL_ENDPOINTS: given } })).toMatchObject({ code: 0 });
  },
);

it('several --endpoints add up', async () => {
  const [endpoint = ''] = openClient().endpoints;
  const flags = ['--endpoints', '127.0.0.1:1', '--endpoints', new URL(endpoint).host];
  expect(await cli(['get', unique(), ...flags])).toMatchObject({ code: 0 });
});

it('a comparison of a lease in the text of `txn` takes the hexadecimal ID that other commands print', async () => {
  const key = unique();
  const client = openClient();
  const { id } = await client.lease.grant({ ttl: 60 });
  await client.put(key, 'value', { lease: id });
  const compare = async (text: string): Promise<string> =>
    (await cli(['txn', '-w', 'simple'], { stdin: `lease("${key}") = "${text}"\n\n\n\n` })).stdout.trim();
  expect(await compare(id.toString(16))).toBe('SUCCESS');
  expect(await compare(`0x${id.toString(16)}`)).toBe('SUCCESS');
  expect(await compare(String(id))).toBe('SUCCESS');
  expect(await compare('1')).toBe('FAILURE');
  expect(await compare('0')).toBe('FAILURE');
  expect(await cli(['txn'], { stdin: `lease("${key}") = "zz"\n\n\n\n` })).toMatchObject({
    code: 65,
    stderr: expect.stringContaining('invalid lease ID, expecting hexadecimal'),
  });
  await client.lease.revoke(id);
});

it.each([
  [['help'], 'Usage: etcdwire [options] [command]'],
  [['help', 'get'], 'Usage: etcdwire get [options] <key>'],
  [['help', 'lease', 'grant'], 'Usage: etcdwire lease grant [options] <ttl>'],
  [['lease', 'help', 'grant'], 'Usage: etcdwire lease grant [options] <ttl>'],
  [['lease', 'help'], 'Usage: etcdwire lease [options] [command]'],
])('%j prints the help of that command, and succeeds', async (args, usage) => {
  expect(await cli(args)).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining(usage) });
});

it('`help` refuses the name of a command that does not exist', async () => {
  const result = await cli(['help', 'lease', 'nonsense']);
  expect(result).toMatchObject({ code: 64, stdout: '', stderr: expect.stringContaining('got "lease nonsense"') });
});
