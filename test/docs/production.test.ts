import { readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, inject, it, onTestFinished, test } from 'vitest';
import { type Client, prefix } from '../../src/index.js';
import {
  Election,
  lead,
  Mutex,
  ReentrantMutex,
  RWMutex,
  SelfHealingSession,
  Semaphore,
  Session,
  withLock,
  withLocks,
} from '../../src/locks.js';
import {
  Barrier,
  DoubleBarrier,
  Etcd3Mutex,
  ExpiringKeys,
  PriorityQueue,
  Queue,
  RateLimiter,
  reconcile,
  Service,
  Slots,
  schedule,
  shards,
  stm,
  WorkQueue,
} from '../../src/recipes.js';
import { freePorts } from '../../src/testing/etcd/free-ports.js';
import type { EtcdMember } from '../../src/testing/index.js';
import { authEtcd, ROOT, USER } from '../support/auth-etcd.js';
import { startChild } from '../support/child.js';
import { openClient } from '../support/client.js';
import { compiledSource } from '../support/compiled.js';
import { runEtcdctl } from '../support/etcdctl.js';
import { ownEtcd } from '../support/own-etcd.js';
import { importingSources, printedBy, programsOf, runProgram } from '../support/program.js';

// Runs the programs, the commands and the table of permissions of docs/production.md.

const PAGE = readFileSync(fileURLToPath(new URL('../../docs/production.md', import.meta.url)), 'utf8');
const [SERVER = '', ...OTHERS] = programsOf('docs/production.md');

/** Resolves with the status and the text of an answer. The status is 0 if nothing answers. */
async function ask(port: number, path: string): Promise<readonly [number, string]> {
  const response = await fetch(`http://127.0.0.1:${port}/${path}`).catch(() => undefined);
  return [response?.status ?? 0, (await response?.text()) ?? ''];
}

test('the server waits for etcd, is ready only while etcd answers, and answers running requests before it ends', async () => {
  const { endpoints, members } = await ownEtcd();
  const [member] = members as readonly [EtcdMember];
  const [port = 0] = await freePorts(1);
  await member.kill();
  const file = compiledSource(importingSources(SERVER), 'production-server');
  onTestFinished(() => rmSync(file, { force: true }));
  const environment = { ETCDCTL_ENDPOINTS: endpoints.join(), PORT: `${port}` };
  const child = startChild(process.execPath, [file], { environment });
  expect(await ask(port, 'live')).toEqual([0, '']);
  await member.start();
  await expect.poll(() => ask(port, 'ready'), { timeout: 10_000 }).toEqual([200, 'ready']);
  expect(await ask(port, '')).toEqual([200, 'hello']);
  await member.kill();
  await expect.poll(() => ask(port, 'ready'), { timeout: 10_000 }).toEqual([503, 'no etcd']);
  expect(await ask(port, 'live')).toEqual([200, 'live']);
  const running = ask(port, '');
  child.process.kill('SIGTERM');
  await member.start();
  expect(await running).toEqual([200, 'hello']);
  expect(await child.exited).toBe(0);
});

test.each(OTHERS)('a program prints what its comments say', async (program) => {
  const { endpoints } = await ownEtcd();
  expect(await runProgram(program.replace('http://127.0.0.1:2379', endpoints[0] ?? ''))).toEqual(printedBy(program));
});

describe('the manifest for Kubernetes', () => {
  const [, manifest = ''] = /^```yaml\n(.*?)^```$/ms.exec(PAGE) ?? [];
  const numberIn = (text: string, pattern: RegExp): number => Number(pattern.exec(text)?.[1]?.replaceAll('_', ''));

  it('gives the server more time than it takes to end', () => {
    const graceMs = numberIn(manifest, /terminationGracePeriodSeconds: (\d+)/) * 1_000;
    const preStopMs = numberIn(manifest, /preStop: \{ sleep: \{ seconds: (\d+) /) * 1_000;
    const requestMs = numberIn(SERVER, /greeting', \{ timeoutMs: ([\d_]+)/);
    const drainMs = numberIn(SERVER, /drainMs: ([\d_]+)/);
    expect(graceMs).toBeGreaterThan(preStopMs + requestMs + drainMs);
  });

  it('probes the paths and the port of the server, and waits longer than the check takes', () => {
    for (const [, path] of manifest.matchAll(/path: (\/\w+),/g)) expect(SERVER).toContain(`url === '${path}'`);
    expect(new Set([...manifest.matchAll(/ort: (\d+)/g)].map(([, port]) => port))).toEqual(new Set(['8080']));
    expect(SERVER).toContain('?? 8080');
    const probeMs = numberIn(manifest, /timeoutSeconds: (\d+)/) * 1_000;
    expect(probeMs).toBeGreaterThan(numberIn(SERVER, /health\(etcd, \{ timeoutMs: (\d+)/));
  });
});

test('the commands of etcdctl give a user the permissions that a lock needs', async (context) => {
  const etcdctl = inject('etcdctl');
  if (etcdctl === undefined) return context.skip('the server under test has no etcdctl');
  const { endpoints, root } = await authEtcd();
  await root.auth.userRevokeRole(USER.username, 'app');
  await root.auth.roleDelete('app');
  const [, commands = ''] = /^```sh\n(.*?)^```$/ms.exec(PAGE) ?? [];
  for (const command of commands.trim().split('\n')) {
    const [program, ...args] = command.split(' ');
    expect(program).toBe('etcdctl');
    await runEtcdctl(etcdctl, endpoints, `--user=${ROOT.username}:${ROOT.password}`, ...args);
  }
  const etcd = openClient({ endpoints, auth: { username: 'app', password: 'secret', allowPlaintext: true } });
  expect(await withLock(etcd, 'app/lock', () => 'done')).toBe('done');
});

/** Uses a part of the package with names under "app/". */
type Use = (etcd: Client, session: Session) => Promise<unknown>;
const stop = () => ({ signal: AbortSignal.timeout(1_000) });
const USES: Readonly<Record<string, Use>> = {
  withLock: (etcd) => withLock(etcd, 'app/with-lock', () => {}),
  withLocks: (etcd) => withLocks(etcd, ['app/a', 'app/b'], () => {}),
  lead: (etcd) => lead(etcd, 'app/lead', stop(), () => {}),
  Mutex: async (_, session) => (await new Mutex(session, 'app/mutex').lock()).release(),
  ReentrantMutex: async (_, session) => (await new ReentrantMutex(session, 'app/reentrant').lock('me')).release(),
  RWMutex: async (_, session) => (await new RWMutex(session, 'app/rw').lock()).release(),
  Election: async (_, session) => (await new Election(session, 'app/election').campaign('me')).resign(),
  Semaphore: async (_, session) => (await new Semaphore(session, 'app/semaphore', 2).acquire()).release(),
  Slots: async (_, session) => (await new Slots(session, 'app/numbers', 2).take()).release(),
  Barrier: async (etcd) => {
    await new Barrier(etcd, 'app/barrier').hold();
    await new Barrier(etcd, 'app/barrier').release();
  },
  DoubleBarrier: async (_, session) => {
    const barrier = new DoubleBarrier(session, 'app/double', 1);
    await barrier.enter();
    await barrier.leave();
  },
  Etcd3Mutex: async (_, session) => (await new Etcd3Mutex(session, 'app/etcd3').lock()).release(),
  'Service.register': (etcd, session) => new Service(etcd, 'app/service').register(session, 'a', { address: 'a:1' }),
  SelfHealingSession: async (etcd) => {
    const session = await SelfHealingSession.open(etcd);
    await session.register('app/self-healing', 'here').finally(() => session.close());
  },
  Queue: async (etcd, session) => {
    await new Queue(etcd, 'app/queue').enqueue('item');
    await new Queue(etcd, 'app/queue').dequeue(session);
  },
  PriorityQueue: async (etcd, session) => {
    await new PriorityQueue(etcd, 'app/priorities').enqueue('item', 1);
    await new PriorityQueue(etcd, 'app/priorities').dequeue(session);
  },
  WorkQueue: async (etcd) => {
    const queue = new WorkQueue(etcd, 'app/jobs');
    await queue.enqueue('job');
    await queue.work(stop(), () => {});
  },
  schedule: (etcd) => schedule(etcd, 'app/schedule', 200, stop(), (tick) => tick.complete()),
  shards: (etcd) => shards(etcd, 'app/parts', { count: 2, ...stop() }, () => {}),
  reconcile: (etcd) => reconcile(etcd, prefix('app/'), { lead: { name: 'app/controller' }, ...stop() }, () => {}),
  retryWrites: (etcd) => etcd.put('app/key', 'a', { retryWrites: true }),
  RateLimiter: (etcd) => new RateLimiter(etcd, 'app/rate', { perSecond: 10 }).take(),
  put: (etcd) => etcd.put('app/key', 'a'),
  stm: (etcd) => stm(etcd, async (txn) => txn.put('app/key', 'b')),
  ExpiringKeys: (etcd) => new ExpiringKeys(etcd).put('app/expiring', 'a', { ttl: 5 }),
};

describe('the table of permissions', () => {
  const rows = [...PAGE.matchAll(/^\| (.*) \| .* \| (yes|no) \|$/gm)];
  const needsGuards = new Map(
    rows.flatMap(([, names = '', guards]) =>
      [...names.matchAll(/`([\w.]+)`/g)].map(([, name = '']) => [name, guards === 'yes'] as const),
    ),
  );

  /** Resolves with the names of those parts of the table that reject for lack of a permission. */
  async function denied(etcd: Client): Promise<readonly string[]> {
    const session = await Session.open(etcd);
    const names: string[] = [];
    for (const [name, use] of Object.entries(USES))
      await use(etcd, session).catch((error) => {
        expect([name, error.reason]).toEqual([name, 'PermissionDenied']);
        names.push(name);
      });
    await session.close();
    return names.sort();
  }

  it('says which parts need permission for the guards, and that a PriorityQueue needs another prefix', async () => {
    const { endpoints, root } = await authEtcd();
    const etcd = openClient({ endpoints, auth: USER });
    expect(Object.keys(USES).filter((name) => !needsGuards.has(name))).toEqual([]);
    expect(await denied(etcd)).toEqual(['PriorityQueue']);
    await root.auth.roleGrantPermission('app', 'readwrite', prefix('__app/'));
    expect(await denied(etcd)).toEqual([]);
    await root.auth.roleRevokePermission('app', prefix('etcdwire/guards/'));
    const guarded = Object.keys(USES).filter((name) => needsGuards.get(name));
    expect(await denied(openClient({ endpoints, auth: USER }))).toEqual(guarded.sort());
    const others = openClient({ endpoints, auth: USER, guardPrefix: 'app/guards/' });
    expect(await denied(others)).toEqual([]);
    expect(await withLock(etcd.namespace('app/'), 'lock', () => 'done')).toBe('done');
  });
});
