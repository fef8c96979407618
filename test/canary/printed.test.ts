import { spawn } from 'node:child_process';
import { expect, inject, test } from 'vitest';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import { type ClientOptions, prefix } from '../../src/index.js';
import { Election, Mutex, ReentrantMutex, RWMutex, SelfHealingSession, Semaphore, Session } from '../../src/locks.js';
import { Barrier, Queue, Service } from '../../src/recipes.js';
import { canariesIn, canary, expectNoCanary, plant, watchOutput } from '../support/canaries.js';
import { openClient, unique } from '../support/client.js';

// Checks that Node.js prints no secret when a program inspects objects of this package, and that the debug output, the
// warnings and the uncaught errors of Node.js contain no secret. The names of locks, elections and services may be
// printed, because they are public fields.

watchOutput();

const KEY = canary('key');
const VALUE = canary('value');
const PASSWORD = canary('password');
const TOKEN = canary('token');
const ENDPOINT = inject('endpoints')[0] as string;

test('`util.inspect` shows no key, value or password of a client, session, lock, watch or other object of this package', async () => {
  const etcd = openClient();
  await etcd.put(KEY, VALUE);
  const session = await Session.open(etcd);
  const healing = await SelfHealingSession.open(etcd);
  await healing.register(KEY, VALUE);
  const held = await new Mutex(session, unique()).lock();
  const elected = await new Election(session, unique()).campaign(VALUE);
  const queue = new Queue(etcd, unique());
  await queue.enqueue(VALUE);
  const watch = etcd.watch(prefix(KEY), { startRevision: 1n, prevKv: true });
  await watch.created();
  const unread = watch.batches();
  await unread.next();
  await etcd.put(KEY, VALUE);
  const cached = await etcd.cachedRange(prefix(KEY));
  const lease = await etcd.lease.grant({ ttl: 60 });
  await etcd.put(KEY, VALUE, { lease: lease.id });
  const scan = etcd.scan(prefix(KEY));
  await scan.next();
  const stream = etcd.raw.watch.watch();
  stream.send({ requestUnion: { case: 'createRequest', value: { key: Buffer.from(KEY) } } });
  await stream.next();
  expectNoCanary(etcd, etcd.namespace(KEY), etcd.auth, etcd.lease, etcd.raw, etcd.maintenance);
  expectNoCanary(session, healing, held, elected, queue, watch, unread, cached, scan, stream);
  expectNoCanary(etcd.lease.keepAlive(lease), etcd.mirror(prefix(KEY)), etcd.maintenance.snapshot(ENDPOINT));
  expectNoCanary(new Barrier(etcd, 'b'), new RWMutex(session, 'rw'), new Semaphore(session, 's', 1));
  expectNoCanary(new ReentrantMutex(session, 'r'), new Service(etcd, 'services'));
  // The caller requested these values, so they may be printed.
  expect(canariesIn(await etcd.get(KEY))).not.toEqual([]);
  stream.cancel();
  await Promise.all([cached.close(), watch.close(), healing.close(), elected.resign(), session.close()]);
});

test('`util.inspect` shows no password, token or private key of a client with credentials', async () => {
  const https = ENDPOINT.replace('http:', 'https:');
  const { cert, key } = await (await Authority.create()).issue();
  for (const line of key.split('\n')) if (line.length === 64) plant(line);
  const options: readonly Partial<ClientOptions>[] = [
    { endpoints: [ENDPOINT], auth: { username: 'user', password: PASSWORD, allowPlaintext: true } },
    { endpoints: [ENDPOINT], auth: { token: TOKEN, allowPlaintext: true } },
    { endpoints: [https], tls: { key, cert, ca: cert }, auth: { token: TOKEN } },
  ];
  for (const each of options) {
    const etcd = openClient(each);
    const watch = etcd.watch(KEY);
    await etcd.put(KEY, VALUE, { timeoutMs: 300 }).catch((error: unknown) => expectNoCanary(error));
    expectNoCanary(etcd, watch, etcd.raw);
    watch.created().catch(() => {});
    await watch.close();
  }
});

test('the debug output, warnings and uncaught errors that Node.js prints contain no key, value or password', async () => {
  const program = new URL('../support/canary-program.ts', import.meta.url).pathname;
  const args = ['--import', 'tsx', program, ENDPOINT, inject('transport'), KEY, VALUE, PASSWORD];
  const child = spawn(process.execPath, args, {
    env: { ...process.env, NODE_DEBUG: 'net,tls,http,http2,stream,timer' },
  });
  const output: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(chunk));
  const code = await new Promise((resolve) => child.on('close', resolve));
  const printed = Buffer.concat(output).toString();
  expect(printed).toMatch(/NET \d+:/);
  expect(printed).toContain('the client was closed');
  expect(code).toBe(1);
  expectNoCanary(printed);
});
