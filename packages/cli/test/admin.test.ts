import { describe, expect, inject, it, type TestContext } from 'vitest';
import { type CliResult, cli, cliJson, RunningCli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { runEtcdctl } from '../../../test/support/etcdctl.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { NO_TERMINAL, UNDER_TERMINAL } from '../../../test/support/terminal.js';

const IS_MEMORY = inject('server') === 'memory';

/**
 * Runs `etcdwire` with the simple output format at the endpoints, which have no TLS.
 *
 * @throws Error that contains stderr if the program fails.
 */
async function text(endpoints: readonly string[], ...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await cli([
    ...args,
    '-w',
    'simple',
    '--plaintext-auth',
    '--endpoints',
    endpoints.join(),
  ]);
  if (code !== 0) throw new Error(`etcdwire ${args.join(' ')} exited with ${code}: ${stderr}`);
  return stdout;
}

it('`user` and `role` print the same text as etcdctl', async (context) => {
  const etcdctl = inject('etcdctl');
  if (etcdctl === undefined) return context.skip('there is no etcdctl for the server under test');
  const { endpoints } = await ownEtcd();
  const { endpoints: others } = await ownEtcd();
  const commands = [
    ['role', 'add', 'reader'],
    ['role', 'grant-permission', 'reader', 'read', 'config/', '--prefix'],
    ['role', 'grant-permission', 'reader', 'readwrite', 'a', 'b'],
    ['role', 'grant-permission', 'reader', 'write', 'c'],
    ['role', 'grant-permission', 'reader', 'read', 'x', '--from-key'],
    ['role', 'get', 'reader'],
    ['role', 'revoke-permission', 'reader', 'c'],
    ['user', 'add', 'anne:secret'],
    ['user', 'add', 'ben', '--no-password'],
    ['user', 'grant-role', 'anne', 'reader'],
    ['user', 'get', 'anne'],
    ['user', 'revoke-role', 'anne', 'reader'],
    ['user', 'list'],
    ['user', 'delete', 'ben'],
    ['role', 'list'],
    ['role', 'delete', 'reader'],
    ['role', 'list'],
    ['auth', 'status'],
    ['alarm', 'list'],
    ['compaction', '1'],
  ];
  for (const args of commands)
    expect([args, await text(endpoints, ...args)]).toEqual([args, await runEtcdctl(etcdctl, others, ...args)]);
});

it('`auth enable` gives the user root the role root, and `auth disable` needs the password', async () => {
  const { endpoints } = await ownEtcd();
  await text(endpoints, 'user', 'add', 'root', '--new-user-password', 'secret');
  expect(await text(endpoints, 'auth', 'enable')).toBe('Authentication Enabled\n');
  expect(await cli(['auth', 'disable', '--endpoints', endpoints.join()])).toMatchObject({ code: 77 });
  const login = ['--user', 'root:secret', '--plaintext-auth'];
  expect(await text(endpoints, 'auth', 'status', ...login)).toMatch(
    /^Authentication Status: true\nAuthRevision: \d+\n$/,
  );
  const changing = ['user', 'passwd', 'root', '--endpoints', endpoints.join(), ...login];
  expect(await cli(changing, { stdin: 'other\n' })).toMatchObject({ code: 0 });
  expect(await text(endpoints, 'auth', 'disable', '--user', 'root:other', '--plaintext-auth')).toBe(
    'Authentication Disabled\n',
  );
});

it('`user add` reads the password from standard input, and refuses an empty password', async () => {
  const { endpoints } = await ownEtcd();
  const add = ['user', 'add', 'anne', '--plaintext-auth', '--endpoints', endpoints.join()];
  expect(await cli(add)).toMatchObject({ code: 64, stderr: expect.stringContaining('password: missing') });
  expect(await cli(add, { stdin: 'secret\n' })).toMatchObject({ code: 0 });
  await text(endpoints, 'user', 'add', 'root:x');
  await text(endpoints, 'auth', 'enable');
  const login = ['user', 'get', 'anne', '--user', 'anne:secret', '--plaintext-auth'];
  expect(await text(endpoints, ...login)).toBe('User: anne\nRoles:\n');
});

it.each([
  ['user add', ['user', 'add', 'anne:canary-1']],
  ['user add --new-user-password', ['user', 'add', 'anne', '--new-user-password', 'canary-1']],
  ['user passwd', ['user', 'passwd', 'anne', '--interactive=false']],
  ['call Authenticate', ['call', 'Authenticate', '{"name":"anne","password":"canary-1"}']],
])('`%s` sends no password to an http: endpoint without `--plaintext-auth`', async (_, args) => {
  const { endpoints } = await ownEtcd();
  const { code, stdout, stderr } = await cli([...args, '--endpoints', endpoints.join()], { stdin: 'canary-1\n' });
  expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
  expect(stderr).toContain(`${endpoints[0]}, which has no TLS; nothing was sent`);
  expect(stderr).toContain('--plaintext-auth');
  expect(stderr).not.toContain('canary-1');
  expect(await text(endpoints, 'user', 'list')).toBe('');
});

it('`user get --detail` prints the permissions of each role', async () => {
  const { endpoints } = await ownEtcd();
  const run = (...args: string[]): Promise<string> => text(endpoints, ...args);
  await run('user', 'add', 'anne:x');
  await run('role', 'add', 'reader');
  await run('role', 'grant-permission', 'reader', 'read', 'foo');
  await run('user', 'grant-role', 'anne', 'reader');
  expect(await run('user', 'get', 'anne', '--detail')).toBe(`User: anne\n\n${await run('role', 'get', 'reader')}`);
});

describe('at a terminal', () => {
  /** Runs the program at a terminal, and types the lines. */
  async function typed(
    { skip }: Pick<TestContext, 'skip'>,
    args: readonly string[],
    ...lines: string[]
  ): Promise<CliResult> {
    if (NO_TERMINAL !== undefined) return skip(NO_TERMINAL);
    const running = new RunningCli(args, { under: UNDER_TERMINAL });
    for (const line of lines) {
      await running.stdoutMatches(new RegExp(`(assword[^\\n]*: [^:]*){${lines.indexOf(line) + 1}}$`));
      running.process.stdin.write(line);
    }
    return running.done;
  }

  it('`user add` asks twice for a password, and does not show it', async (context) => {
    const { endpoints } = await ownEtcd();
    const add = ['user', 'add', 'anne', '--plaintext-auth', '--endpoints', endpoints.join()];
    expect(await typed(context, add, 'secret\r', 'other\r')).toMatchObject({
      code: 64,
      stdout: expect.stringContaining('got two different passwords'),
    });
    const { code, stdout } = await typed(context, add, 'secrex\x7ft\r', 'wrong\x15secret\r');
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^Password of anne: \r\nPassword of anne, again: \r\nUser anne created\r\n$/),
    });
    await text(endpoints, 'user', 'add', 'root:x');
    await text(endpoints, 'auth', 'enable');
    const get = ['user', 'get', 'anne', '--user', 'anne', '--plaintext-auth', '--endpoints', endpoints.join()];
    const { stdout: roles } = await typed(context, [...get, '-w', 'simple'], 'secret\r');
    expect(roles).toMatch(/^Password of anne: \r\nUser: anne\r\n/);
  });

  it('Ctrl-C ends a command that asks for a password, and the typed characters are not shown', async (context) => {
    const { code, stdout } = await typed(context, ['user', 'passwd', 'anne'], 'sec\x03');
    expect(code).toBe(130);
    expect(stdout).not.toContain('sec');
  });
});

it('`member` adds a learner, changes its peer URLs and removes it', async () => {
  const { endpoints } = await ownEtcd();
  const added = await text(endpoints, 'member', 'add', 'new', '--peer-urls', 'http://127.0.0.1:1', '--learner');
  const [, id = ''] = /^Learner ([0-9a-f]+) added to cluster [0-9a-f]+\n/.exec(added) ?? [];
  expect(added).toMatch(/\nETCD_NAME="new"\nETCD_INITIAL_CLUSTER="[^"]*new=http:\/\/127\.0\.0\.1:1[^"]*"\n/);
  expect(await cli(['member', 'promote', id, '--endpoints', endpoints.join()])).toMatchObject({ code: 74 });
  expect(await text(endpoints, 'member', 'update', id, '--peer-urls', 'http://127.0.0.1:2')).toMatch(
    `Member ${id} updated`,
  );
  expect(await text(endpoints, 'member', 'list')).toContain('http://127.0.0.1:2');
  expect(await text(endpoints, 'member', 'remove', id)).toMatch(`Member ${id} removed from cluster`);
  expect(await text(endpoints, 'member', 'list')).not.toContain(id);
});

it('`move-leader` makes another member the leader', async (context) => {
  if (IS_MEMORY) return context.skip('a MemoryEtcd has one member');
  const { endpoints } = await ownEtcd({ members: 3 });
  const [{ status: before } = { status: { leader: '' } }] = await statuses(endpoints);
  const { members } = await cliJson<{ members: { ID: string }[] }>(['member', 'list', '--endpoints', endpoints.join()]);
  const target = members.find(({ ID }) => ID !== before.leader)?.ID ?? '';
  await text(endpoints, 'move-leader', target);
  await expect
    .poll(async () => (await statuses(endpoints)).map(({ status }) => status.leader))
    .toEqual([target, target, target]);
});

function statuses(endpoints: readonly string[]): Promise<{ readonly status: { readonly leader: string } }[]> {
  return cliJson(['endpoint', 'status', '--cluster', '-w', 'json', '--endpoints', endpoints[0] ?? '']);
}

it('`endpoint health`, `endpoint hashkv` and `defrag` ask every member, and fail if a member is down', async (context) => {
  if (IS_MEMORY) return context.skip('a MemoryEtcd has one member');
  const { endpoints, members } = await ownEtcd({ members: 3 });
  await openClient({ endpoints }).put('a', 'x');
  const all = ['--endpoints', endpoints.join()];
  const health = await cliJson<{ health: boolean }[]>(['endpoint', 'health', ...all]);
  expect(health.map((each) => each.health)).toEqual([true, true, true]);
  const hashes = await cliJson<{ hashKV: { hash: number } }[]>(['endpoint', 'hashkv', ...all]);
  expect(new Set(hashes.map(({ hashKV }) => hashKV.hash)).size).toBe(1);
  expect(await text(endpoints, 'defrag', '--cluster')).toMatch(
    /^(Finished defragmenting etcd member\[.*\]\. took \d+ms\n){3}$/,
  );
  await members[2]?.kill();
  const short = [...all, '--command-timeout', '2s'];
  const { code, stdout } = await cli(['endpoint', 'health', '-w', 'simple', ...short]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/ is unhealthy: failed to commit proposal: .*ECONNREFUSED/);
});

it('`put --lease` and `lease revoke` accept the lease ID that `lease grant` prints as JSON', async () => {
  const { ID: id } = await cliJson<{ ID: string }>(['lease', 'grant', '60', '-w', 'json']);
  const key = unique();
  await cliJson(['put', key, 'x', '--lease', id]);
  expect((await openClient().get(key))?.lease).toBe(BigInt(id));
  await cliJson(['lease', 'revoke', id]);
  expect(await openClient().get(key)).toBeUndefined();
});

it('`lease keep-alive` prints each renewal', async () => {
  // On a busy machine, the command needs seconds to start.
  const { id } = await openClient().lease.grant({ ttl: 10 });
  const running = new RunningCli(['lease', 'keep-alive', id.toString(16), '-w', 'simple']);
  const line = `lease ${id.toString(16).padStart(16, '0')} keepalived with TTL(10)`;
  expect((await running.lines(2)).slice(0, 2)).toEqual([line, line]);
});

it('a command whose endpoint is the peer URL of a member fails, and says that this may be the port for other members', async (context) => {
  if (IS_MEMORY) return context.skip('a MemoryEtcd has no port for other members');
  const { endpoints } = await ownEtcd();
  const { members } = await openClient({ endpoints }).cluster.memberList();
  const [peer = ''] = members[0]?.peerUrls ?? [];
  const { code, stderr } = await cli(['get', 'a', '--endpoints', peer, '--command-timeout', '1s']);
  expect(code).toBe(69);
  expect(stderr).toContain('is this the port for other members, such as 2380?');
});

it('ETCDCTL_WRITE_OUT chooses the output format', async () => {
  const key = unique();
  const { stdout } = await cli(['put', key, 'x'], { environment: { ETCDCTL_WRITE_OUT: 'simple' } });
  expect(stdout).toBe('OK\n');
});

it('`alarm disarm` clears the alarms, which `endpoint health` reports', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints });
  const { header } = await etcd.put('a', 'x');
  await etcd.raw.maintenance.alarm({ action: 1, alarm: 1, memberId: header.memberId });
  expect(await text(endpoints, 'alarm', 'list')).toBe(`memberID:${header.memberId} alarm:NOSPACE\n`);
  const health = ['endpoint', '--cluster', 'health', '-w', 'simple', '--endpoints', endpoints.join()];
  expect(await cli(health)).toMatchObject({ code: 1, stdout: expect.stringContaining('Active Alarm(s): NOSPACE') });
  await text(endpoints, 'alarm', 'disarm');
  expect(await text(endpoints, 'alarm', 'list')).toBe('');
  expect(await cli(health)).toMatchObject({ code: 0 });
});

it('`user add` treats a colon as a part of the user name when a flag sets the password or omits it', async () => {
  const { endpoints } = await ownEtcd();
  await text(endpoints, 'user', 'add', 'a:b', '--new-user-password', 'secret');
  await text(endpoints, 'user', 'add', 'c:d', '--no-password');
  expect(await text(endpoints, 'user', 'list')).toBe('a:b\nc:d\n');
});
