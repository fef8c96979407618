import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import { cli, PROGRAM } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';
import { slugOf } from '../../learn/src/site/slug.js';
import { run } from '../src/program.js';

const PAGES = new Map(
  ['README.md', 'docs/guide.md', 'docs/traffic.md'].map((page) => [
    page,
    readFileSync(new URL(`../${page}`, import.meta.url), 'utf8'),
  ]),
);

const FLAG = /(?<![\w-])--[a-z][a-z-]*[a-z]\b/g;
/** The flags of other programs in the pages, a wrong flag, and the beginning of the flags `--dest-…`. */
const OTHER_FLAGS = new Set(['--global', '--etcd', '--nonsense', '--dest']);

/** Runs `--help` in this process, because it needs no server. */
async function helpOf(args: readonly string[]): Promise<string> {
  let stdout = '';
  const write = (text: string | Uint8Array): void => {
    stdout += String(text);
  };
  const { signal: interrupted } = new AbortController();
  const io = { stdin: process.stdin, stdout: { write }, stderr: { write }, interrupted };
  await run([...args, '--help'], io);
  return stdout;
}

/** Returns the completions that etcdwire offers for the last word. */
async function completed(...words: readonly string[]): Promise<readonly string[]> {
  const { stdout } = await cli(['__complete', '--', ...words]);
  return stdout.split('\n').filter((line) => line !== '');
}

describe('completion', () => {
  it('offers commands, subcommands, options, choices and RPCs', async () => {
    expect(await completed('lo')).toEqual(['lock']);
    expect(await completed('member', '')).toEqual(['list', 'add', 'remove', 'update', 'promote', 'help']);
    expect(await completed('lock', '--t')).toEqual(['--ttl', '--timeout', '--try']);
    expect(await completed('get', '-w', '')).toEqual(['table', 'json', 'simple']);
    expect(await completed('call', 'Lease/LeaseG')).toEqual(['Lease/LeaseGrant']);
    expect(await completed('--endpoints', 'x', 'sna')).toEqual(['snapshot']);
    expect(await completed('--endpoints=x', 'sna')).toEqual(['snapshot']);
    expect(await completed('get', '--write-out=js')).toEqual(['--write-out=json']);
  });

  it('offers neither hidden commands nor anything after --', async () => {
    expect(await completed('__')).toEqual([]);
    expect(await completed('lock', 'jobs', '--', 'lo')).toEqual([]);
  });

  it('works in bash', async (context) => {
    if (spawnSync('bash', ['--version']).status !== 0) return context.skip('this machine has no bash');
    const folder = temporaryFolder();
    const program = join(folder, 'etcdwire');
    writeFileSync(program, `#!/bin/sh\nexec ${process.execPath} ${PROGRAM} "$@"\n`);
    chmodSync(program, 0o755);
    const env = { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}` };
    const completedBy = (...words: string[]): string => {
      const set = `COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}`;
      const script = `source <(etcdwire completion bash); ${set}; _etcdwire; declare -p COMPREPLY`;
      return spawnSync('bash', ['-c', script], { encoding: 'utf8', env }).stdout;
    };
    expect(completedBy('etcdwire', 'lease', 'gr')).toBe('declare -a COMPREPLY=([0]="grant")\n');
    expect(completedBy('etcdwire', 'get', '--write-out', '=', 'js')).toBe('declare -a COMPREPLY=([0]="json")\n');
    expect(completedBy('etcdwire', '--endpoints', '=', 'x', 'lease', 'gr')).toBe(
      'declare -a COMPREPLY=([0]="grant")\n',
    );
  });

  it('works in bash with the path of a local installation, and with an alias', async (context) => {
    if (spawnSync('bash', ['--version']).status !== 0) return context.skip('this machine has no bash');
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true });
    const local = join(folder, 'node_modules/.bin/etcdwire');
    writeFileSync(local, `#!/bin/sh\nexec ${process.execPath} ${PROGRAM} "$@"\n`);
    chmodSync(local, 0o755);
    const completedBy = (typed: string): string => {
      const set = `COMP_WORDS=(${typed} lease gr); COMP_CWORD=2`;
      const script = `source <(${local} completion bash); ${set}; _etcdwire; declare -p COMPREPLY`;
      return spawnSync('bash', ['-c', script], { encoding: 'utf8', cwd: folder }).stdout;
    };
    expect(completedBy(local)).toBe('declare -a COMPREPLY=([0]="grant")\n');
    expect(completedBy('node_modules/.bin/etcdwire')).toBe('declare -a COMPREPLY=([0]="grant")\n');
    // The name of an alias is not the name of a program, so npx runs the program of the project.
    expect(completedBy('alias-of-etcdwire')).toBe('declare -a COMPREPLY=([0]="grant")\n');
  });

  it('refuses an unknown shell', async () => {
    expect(await cli(['completion', 'constructor'])).toMatchObject({
      code: 64,
      stderr: expect.stringContaining('bash, zsh, fish'),
    });
  });
});

it.each([
  [['make-mirror', '--dest-prefix', 'x'], 'use etcdwire mirror'],
  [['snapshot', 'restore', 'file'], 'use etcdutl snapshot restore'],
])('the etcdctl command %j fails with a message that names its replacement', async (args, advice) => {
  expect(await cli(args)).toMatchObject({ code: 64, stderr: expect.stringContaining(advice) });
});

it('the help of every command has an example, and names an existing part of the documentation', async () => {
  const anchors = [...PAGES].flatMap(([page, text]) =>
    [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = '']) => `${page}#${slugOf(title)}`),
  );
  const { stdout: names } = await cli(['__complete', '--', '']);
  const groups = ['member', 'alarm', 'downgrade', 'snapshot', 'user', 'role', 'auth', 'check', 'lease', 'endpoint'];
  const single = names.split('\n').filter((name) => name !== '' && !groups.includes(name));
  for (const args of [...single.map((name) => [name]), ['member', 'add']]) {
    const stdout = await helpOf(args);
    expect(stdout).toContain(`\nExamples:\n  `);
    expect(stdout).toContain(`etcdwire ${args.join(' ')}`);
    expect(anchors).toContain(/More in (\S+) of the package etcdwire-cli\./.exec(stdout)?.[1]);
  }
});

it('the pages name only flags that a command has', async () => {
  const { stdout: names } = await cli(['__complete', '--', '']);
  const helps = await Promise.all([[], ...names.split('\n').map((name) => [name])].map(helpOf));
  const known = new Set(helps.flatMap((help) => help.match(FLAG)));
  // The text of the pages, without the commands that build one executable, and without the flags of other programs.
  const text = [...PAGES.values()].join('\n').replace(/^```sh\nnpm install etcdwire-cli esbuild.*?^```$/ms, '');
  const named = new Set(text.match(FLAG));
  expect(named.size).toBeGreaterThan(50);
  expect([...named].filter((flag) => !known.has(flag) && !OTHER_FLAGS.has(flag))).toEqual([]);
});

it('`check perf` passes when the cluster is fast enough, and deletes its keys', async () => {
  const { endpoints } = await ownEtcd();
  const start = `${unique()}/`;
  const args = ['check', 'perf', '--duration', '500ms', '--prefix', start, '--endpoints', endpoints.join()];
  const { code, stdout } = await cli([...args, '-w', 'simple']);
  expect(stdout).toMatch(
    /^(PASS|FAIL): Throughput is \d+ writes\/s\n(PASS|FAIL): Slowest .*\n(PASS|FAIL): Stddev .*\n(PASS|FAIL)\n$/,
  );
  expect(code).toBe(stdout.includes('FAIL') ? 1 : 0);
  const left = await cli(['get', '--prefix', start, '--count-only', '-w', 'simple', '--endpoints', endpoints.join()]);
  expect(left.stdout).toBe('0\n');
});

it('`check perf` accepts the names of loads in etcdctl, and compacts and defragments afterwards', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints });
  const before = (await etcd.put('a', 'x')).header.revision;
  const args = ['check', 'perf', '--load', 'small', '--duration', '300ms', '--auto-compact', '--auto-defrag'];
  const { stderr } = await cli([...args, '--endpoints', endpoints.join()]);
  expect(stderr).toBe('');
  await expect(etcd.get('a', { revision: before })).rejects.toMatchObject({ reason: 'Compacted' });
  expect(await cli(['check', 'perf', '--load', 'toString'])).toMatchObject({
    code: 64,
    stderr: expect.stringContaining('Allowed: s, m, l, xl'),
  });
});

it('`check perf` refuses a prefix that has keys, because the command would delete these keys', async () => {
  const { endpoints } = await ownEtcd();
  await openClient({ endpoints }).put('app/a', 'x');
  for (const start of ['app/', ''])
    expect(await cli(['check', 'perf', '--prefix', start, '--endpoints', endpoints.join()])).toMatchObject({
      code: 64,
      stderr: expect.stringContaining('allowed: a prefix without keys'),
    });
  expect((await openClient({ endpoints }).get('app/a'))?.text()).toBe('x');
});

it('`check perf` fails when the server does not answer', async (context) => {
  if (inject('server') === 'memory') return context.skip('a MemoryEtcd is not a process that can be paused');
  const { endpoints, members } = await ownEtcd();
  const args = ['check', 'perf', '--duration', '1s', '--command-timeout', '300ms', '--endpoints', endpoints.join()];
  for (const member of members) member.pause();
  const { code } = await cli([...args, '-w', 'simple']);
  for (const member of members) member.resume();
  expect(code).not.toBe(0);
});
