import { spawn } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import { prefix } from '../../../src/index.js';
import { authEtcd, ROOT } from '../../../test/support/auth-etcd.js';
import { cli, PROGRAM, RunningCli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';
import { NO_TERMINAL, UNDER_TERMINAL } from '../../../test/support/terminal.js';
import { HERE, useSecureEtcd } from '../../../test/support/tls/secure-etcd.js';
import { Authority, type Certificate } from '../src/proxy/authority.js';

// Tests what the command line took over from etcdctl for its normal mode, and how the mode of etcdctl is chosen.

const IS_MEMORY = inject('server') === 'memory';

describe('the mode of etcdctl', () => {
  it.each([
    [['--etcdctl', 'version'], {}],
    [['version'], { ETCDWIRE_ETCDCTL: '1' }],
  ])('is on with the arguments %j and the environment %j', async (args, environment) => {
    const { stdout } = await cli(args, { environment });
    expect(stdout).toContain('API version');
  });

  it('is on if the program has the name etcdctl', async () => {
    const name = join(temporaryFolder(), 'etcdctl');
    symlinkSync(PROGRAM, name);
    // Node.js must find the packages of the project from the file that the link names.
    const child = spawn(process.execPath, [name, 'version']);
    let stdout = '';
    for await (const text of child.stdout.setEncoding('utf8')) stdout += text;
    expect(stdout).toContain('API version');
  });

  it('is off otherwise', async () => {
    expect((await cli(['version'])).stdout).not.toContain('API version');
  });
});

it('`get` accepts names of sort orders and sort targets in lower case', async () => {
  const key = unique();
  const client = openClient();
  await client.put(`${key}/1`, 'old');
  await client.put(`${key}/2`, 'new');
  const args = ['get', '--prefix', key, '--order=descend', '--sort-by', 'create', '--print-value-only'];
  expect(await cli(args)).toMatchObject({ code: 0, stdout: 'new\nold\n' });
  expect(await cli(['get', key, '--order=upwards'])).toMatchObject({ code: 64 });
});

it('`txn` reads the text of etcdctl from standard input', async () => {
  const key = unique();
  const stdin = `mod("${key}") = "0"\n\nput ${key} "a \\"b\\"" \n\nget ${key}\n`;
  expect(await cli(['txn', '-w', 'simple'], { stdin })).toMatchObject({ code: 0, stdout: /^SUCCESS\n/ });
  expect((await cli(['get', key, '--print-value-only'])).stdout).toBe('a "b"\n');
  expect(await cli(['txn', '-w', 'simple'], { stdin: 'mod(x) = "0"\n' })).toMatchObject({
    code: 65,
    stderr: expect.stringContaining('malformed comparison: mod(x) = "0"'),
  });
});

it('a no-break space belongs to a word of `txn`, so `del` deletes no range', async () => {
  const key = unique();
  const client = openClient();
  await client.put(key, 'kept');
  await client.put(`${key}\u00a0z`, 'deleted');
  expect(await cli(['txn'], { stdin: `\ndel ${key}\u00a0z\n` })).toMatchObject({ code: 0 });
  expect((await client.range(prefix(key))).kvs.map((kv) => kv.text())).toEqual(['kept']);
});

it('`txn -i` says which part of the transaction comes next', async () => {
  const { stdout } = await cli(['txn', '-i', '-w', 'simple'], { stdin: '\n\n\n' });
  expect(stdout).toMatch(/^compares:\nsuccess requests.*\nfailure requests.*\nSUCCESS\n$/);
});

it('`watch -i` prints the events of all watches that it reads, and continues after the end of its input', async () => {
  const [one, other] = [unique(), unique()];
  const client = openClient();
  const { header } = await client.put(one, '1');
  await client.put(other, '2');
  const stdin = `watch ${one} --rev ${header.revision}\nwatch ${other} --rev ${header.revision}\nunknown\n`;
  const running = new RunningCli(['watch', '-i', '-w', 'simple'], { stdin });
  const lines = await running.lines(6);
  expect(lines.sort()).toEqual(['PUT', one, '1', 'PUT', other, '2'].sort());
  await running.stderrMatches(/Invalid command unknown/);
  running.process.kill('SIGTERM');
  expect((await running.done).code).toBe(143);
});

describe.each([[[]], [['--etcdctl']]])('`watch -i` with the flags %j', (flags) => {
  it.each([
    ['the command of another watch fails', '-- false'],
    ['a later line has an unknown flag', '--bogus'],
  ])('ends when %s', async (_, rest) => {
    const key = unique();
    const { header } = await openClient().put(key, '1');
    const running = new RunningCli([...flags, 'watch', '-i']);
    running.process.stdin.write(`watch ${unique()}\nwatch ${key} --rev ${header.revision} ${rest}\n`);
    expect((await running.done).code).toBeGreaterThan(0);
  });

  it('does not pass its input to the commands', async () => {
    const key = unique();
    const { header } = await openClient().put(key, '1');
    const running = new RunningCli([...flags, 'watch', '-i']);
    for (const word of ['first', 'second']) {
      running.process.stdin.write(`watch ${key} --rev ${header.revision} -- sh -c 'cat; echo ${word}'\n`);
      await running.stdoutMatches(new RegExp(`^${word}$`, 'm'));
    }
    running.process.kill('SIGTERM');
    await running.done;
  });
});

it('`--etcdctl watch -i` ends with its input even if a watch is open', async () => {
  expect(await cli(['--etcdctl', 'watch', '-i'], { stdin: `watch ${unique()}\n` })).toMatchObject({ code: 3 });
});

it('--debug prints the settings without passwords, and the events of the client', async () => {
  const args = ['get', 'a', '--debug', '--user', 'root:secret', '--password', 'other', '--command-timeout', '300ms'];
  const { stderr } = await cli([...args, '--endpoints', 'http://127.0.0.1:1', '--plaintext-auth']);
  expect(stderr).toContain('ETCDCTL_COMMAND_TIMEOUT=300');
  expect(stderr).toContain('endpoint unavailable');
  expect(stderr).not.toMatch(/secret|other/);
});

it.each([
  'http://root:secret@127.0.0.1:1',
  'root:secret@127.0.0.1:1',
  'http://127.0.0.1:1?password=secret',
  'http://127.0.0.1:1#secret',
  'http://127.0.0.1:1,http://root:secret@127.0.0.1:1',
])('--debug prints no password in --endpoints %s', async (endpoints) => {
  const given = await cli(['get', 'a', '--debug', '--endpoints', endpoints]);
  expect(given).toMatchObject({ code: 64, stdout: '' });
  const inherited = await cli(['get', 'a'], { environment: { ETCDCTL_ENDPOINTS: endpoints, ETCDCTL_DEBUG: 'true' } });
  expect(inherited).toMatchObject({ code: 64, stderr: expect.stringContaining('ETCDCTL_ENDPOINTS=(hidden)') });
  expect(given.stderr + inherited.stderr).not.toContain('secret');
});

it('`downgrade validate` checks the target version', async ({ skip }) => {
  if (IS_MEMORY) return skip('the server in memory has no versions to choose from');
  const { endpoints } = await ownEtcd({ version: '3.6' });
  const flags = ['--endpoints', endpoints.join(), '-w', 'simple'];
  expect(await cli(['downgrade', 'validate', '3.5', ...flags])).toMatchObject({
    code: 0,
    stdout: 'Downgrade validate success, cluster version 3.6\n',
  });
  expect(await cli(['downgrade', 'validate', '3.1', ...flags])).toMatchObject({ code: 1 });
});

it('`check datascale` prints the used memory, and deletes its keys', async ({ skip }) => {
  if (IS_MEMORY) return skip('the server in memory has no process whose memory grows');
  const { endpoints } = await ownEtcd();
  const { code, stdout } = await cli(['check', 'datascale', '-w', 'simple', '--endpoints', endpoints.join()]);
  expect(stdout).toMatch(/^Start data scale check .*\nPASS: Approximate system memory used : -?[\d.]+ MB\.\n$/);
  expect(code).toBe(0);
  expect(await openClient({ endpoints }).range(prefix(''), { countOnly: true })).toMatchObject({ count: 0 });
});

/** Writes a file for one test. */
function file(name: string, text: string): string {
  const path = join(temporaryFolder(), name);
  writeFileSync(path, text);
  return path;
}

describe('certificates', async () => {
  const authority = await Authority.create();
  const etcd = useSecureEtcd(authority, { clients: true });
  const flags = (certificate: Certificate): readonly string[] => [
    ...['--cert', file('cert.pem', certificate.cert)],
    ...['--key', file('key.pem', certificate.key)],
  ];

  it.each([[['get', 'a']], [['watch', 'a']], [['lock', 'a']], [['endpoint', 'health']]])(
    '%j ends at once if the server refuses the client certificate',
    async (command) => {
      const other = await Authority.create('other');
      const certificate = await other.issue({ usage: 'clients' });
      const server = ['--endpoints', etcd().endpoint, '--cacert', file('ca.pem', authority.cert)];
      // A command that tried again would go on for longer than a test may take.
      const args = [...server, '--command-timeout', '10m'];
      expect(await cli([...command, ...args, ...flags(certificate)])).toMatchObject({
        code: 77,
        stderr: expect.stringContaining('requires a client certificate that it accepts: set --cert, --key'),
      });
    },
  );

  it('--insecure-skip-tls-verify connects to a server with an unknown certificate, and prints a warning', async () => {
    const certificate = await authority.issue({ usage: 'clients' });
    const args = ['put', 'a', '1', '-w', 'simple', '--endpoints', etcd().endpoint, ...flags(certificate)];
    expect(await cli(args)).toMatchObject({ code: 69, stderr: expect.stringContaining('certificate') });
    expect(await cli([...args, '--insecure-skip-tls-verify'])).toMatchObject({
      code: 0,
      stdout: 'OK\n',
      stderr: expect.stringMatching(/^etcdwire: warning: --insecure-skip-tls-verify /),
    });
    etcd().show(await authority.issue({ ...HERE, untilMs: -1_000 }));
    expect(await cli([...args, '--insecure-skip-tls-verify'])).toMatchObject({ code: 0 });
  });
});

describe('a command at a terminal', () => {
  it('refuses to read a password if it cannot show the question', async (context) => {
    if (NO_TERMINAL !== undefined) return context.skip(NO_TERMINAL);
    const under = [...UNDER_TERMINAL, 'bash', '-c', '"$@" 2>&1 | cat; exit $PIPESTATUS', 'bash'];
    const { code, stdout } = await new RunningCli(['user', 'add', unique()], { under }).done;
    expect(stdout).toContain('cannot ask for it, because standard error is not a terminal');
    expect(code).toBe(64);
  });

  it('says that it reads standard input', async (context) => {
    if (NO_TERMINAL !== undefined) return context.skip(NO_TERMINAL);
    const running = new RunningCli(['put', unique(), '-w', 'simple'], { under: UNDER_TERMINAL });
    await running.stdoutMatches(/reading standard input; end it with Ctrl-D/);
    running.process.stdin.write('value\n\x04');
    expect((await running.done).stdout).toContain('OK');
  });
});

it('a command without a terminal fails at once if the password is missing', async () => {
  const etcd = await authEtcd();
  const args = ['get', 'a', '--user', ROOT.username, '--plaintext-auth', '--endpoints', etcd.endpoints.join()];
  expect(await cli(args)).toMatchObject({ code: 64, stderr: expect.stringContaining('password of --user: missing') });
});
