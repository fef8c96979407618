import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject } from 'vitest';
import { prefix } from '../../src/index.js';
import { withLock } from '../../src/locks.js';
import { startChild } from './child.js';
import { RunningCli } from './cli.js';
import { openClient, unique } from './client.js';
import { goProgram } from './go-program.js';
import { temporaryFolder } from './temporary-folder.js';

const execute = promisify(execFile);

/** Starts a proxy in front of the shared etcd, and resolves with it and its URL. */
export async function startProxy(args: readonly string[] = [], environment: Readonly<Record<string, string>> = {}) {
  const proxy = new RunningCli(['proxy', ...args], { environment });
  const url = await proxy.stderrMatch(/export ETCDCTL_ENDPOINTS=(\S+)/);
  /** Ends the proxy, and resolves with what it has printed. */
  const stop = async () => {
    proxy.process.kill('SIGINT');
    return await proxy.done;
  };
  return { proxy, url, stop };
}

/** Runs programs at a proxy in front of the shared etcd. Resolves with the file of the recording. */
export async function recorded(
  program: (url: string, proxy: RunningCli) => Promise<unknown>,
  environment: Readonly<Record<string, string>> = {},
  flags: readonly string[] = [],
): Promise<string> {
  const file = join(temporaryFolder(), 'traffic.pcapng');
  const { proxy, url, stop } = await startProxy(['--record', file, ...flags], environment);
  await program(url, proxy);
  await stop();
  return file;
}

/** Runs a program with the URL of a proxy as the endpoint of etcdctl. Resolves with its standard output. */
export async function runAt(url: string, path: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, ETCDCTL_ENDPOINTS: url };
  return (await execute(path, args, { env, timeout: 30_000 })).stdout;
}

/** Calls etcd at the URL of a proxy. Resolves with the reason if the program is missing on this machine. */
type Program = (url: string, proxy: RunningCli) => Promise<string | undefined>;

async function etcdctl(url: string): Promise<string | undefined> {
  const path = inject('etcdctl') as string | undefined;
  if (path === undefined) return 'etcdctl is missing on this machine';
  const key = unique();
  const run = (...args: string[]): Promise<string> => runAt(url, path, ...args);
  await run('put', key, 'first');
  await run('put', key, 'second', '--prev-kv');
  await run('get', key, '--rev=1000000000').catch(() => {});
  await run('lease', 'timetolive', '1234');
  const lease = /lease (\w+) granted/.exec(await run('lease', 'grant', '60'))?.[1] as string;
  await run('put', `${key}/leased`, 'v', '--lease', lease);
  await run('lease', 'timetolive', lease, '--keys');
  await run('lock', `${key}-lock`, 'true');
  await run('lease', 'revoke', lease);
  await run('get', key, '--prefix');
  await run('del', key, '--prefix');
  return undefined;
}

/** Two contenders with clientv3 and concurrency: one waits until the other one leaves. */
async function go(url: string, proxy: RunningCli): Promise<string | undefined> {
  const program = await goProgram();
  if ('missing' in program) return program.missing;
  const name = unique();
  const first = startChild(program.path, [url, 'mutex', name], { stdin: 'pipe' });
  expect(await first.line()).toBe('in');
  const second = startChild(program.path, [url, 'mutex', name], { stdin: 'pipe' });
  await expect.poll(async () => (await openClient().range(prefix(`${name}/`))).kvs.length).toBe(2);
  // The second contender waits with a watch. Otherwise it may find the lock free, and its recording contains no deletion.
  await proxy.stdoutMatches(/ < watch created /);
  first.process.stdin?.write('\n');
  expect(await second.line()).toBe('in');
  second.process.stdin?.write('\n');
  await Promise.all([first.exited, second.exited]);
  return undefined;
}

async function etcd3(url: string): Promise<string | undefined> {
  const script = join(import.meta.dirname, 'etcd3-program.ts');
  const child = startChild(process.execPath, ['--import', 'tsx', script, url, unique()]);
  expect(await child.rest()).toEqual(['2 true false']);
  return undefined;
}

/** Puts and locks of one client of this package, many at once, and a watch. */
async function etcdwire(url: string): Promise<string | undefined> {
  const client = openClient({ endpoints: [url] });
  const name = unique();
  const watch = client.watch(prefix(`${name}/`), { prevKv: true });
  await watch.created();
  await Promise.all(Array.from({ length: 8 }, (_, index) => client.put(`${name}/${index}`, 'v')));
  await Promise.all(Array.from({ length: 3 }, () => withLock(client, `${name}-lock`, async () => {})));
  await client.delete(prefix(`${name}/`));
  let deleted = 0;
  for await (const { type } of watch) {
    if (type === 'delete') deleted += 1;
    if (deleted === 8) break;
  }
  await client.close();
  return undefined;
}

/** Programs whose recordings are replayed. */
export const PROGRAMS = { etcdctl, Go: go, etcd3, etcdwire } satisfies Record<string, Program>;
