import { expect, test } from 'vitest';
import { Client, type ClientOptions, connect } from '../../src/index.js';
import { lead, SelfHealingSession, Session, withLock } from '../../src/locks.js';
import { ExpiringKeys, WorkQueue } from '../../src/recipes.js';
import { MemoryEtcd, memory } from '../../src/testing/index.js';
import { errorOf } from '../support/errors.js';

// These tests make the mistakes of programmers who know other libraries, and check the errors of the client.

function memoryClient(): Client {
  return new Client({ transport: memory(new MemoryEtcd()) });
}

test.each<
  [string, (etcd: Client, options: { ttl: number; allowLongTtl?: boolean; signal: AbortSignal }) => Promise<unknown>]
>([
  ['lease.grant', (etcd, options) => etcd.lease.grant(options)],
  ['ExpiringKeys.put', (etcd, options) => new ExpiringKeys(etcd).put('k', '', options)],
  ['ExpiringKeys.touch', (etcd, options) => new ExpiringKeys(etcd).touch('k', options)],
  ['Session.open', (etcd, options) => Session.open(etcd, options)],
  ['SelfHealingSession.open', (etcd, options) => SelfHealingSession.open(etcd, options)],
  ['withLock', (etcd, options) => withLock(etcd, 'lock', options, () => {})],
  ['lead', (etcd, options) => lead(etcd, 'election', { value: 'me', ...options }, () => {})],
  ['WorkQueue.work', (etcd, options) => new WorkQueue(etcd, 'jobs').work(options, () => {})],
])('%s refuses a `ttl` in milliseconds, unless `allowLongTtl` is true', async (_name, open) => {
  await using etcd = memoryClient();
  const stop = new AbortController();
  const { signal } = stop;
  const error = await errorOf(open(etcd, { ttl: 30_000, signal }));
  expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  expect(error.message).toBe(
    'ttl: got 30000 seconds (did you mean ttl: 30?); allowed: whole seconds from 1 to 3600, or more with allowLongTtl: true',
  );
  expect((await etcd.lease.list()).ids).toEqual([]);
  const opened = open(etcd, { ttl: 30_000, allowLongTtl: true, signal });
  await expect.poll(async () => (await etcd.lease.list()).ids.length > 0 || (await settled(opened))).toBe(true);
  stop.abort();
  await opened.catch((reason: unknown) => expect(reason).toMatchObject({ reason: 'Canceled' }));
});

async function settled(promise: Promise<unknown>): Promise<boolean> {
  return Promise.race([promise.then(() => true), Promise.resolve(false)]);
}

test('`Client` and `connect` use the endpoint 127.0.0.1:2379 by default, with TLS if `tls` is given', async () => {
  await using plain = new Client();
  await using secure = new Client({ tls: {} });
  expect([plain.endpoints, secure.endpoints]).toEqual([['http://127.0.0.1:2379'], ['https://127.0.0.1:2379']]);
  const stopped = { interceptors: [{ unary: () => Promise.reject(new Error('no server is here')) }] };
  await expect(connect(stopped)).rejects.toThrow('no server is here');
});

test.each<[string, unknown, string]>([
  ['credentials', { credentials: {} }, 'pass certificates as tls, and a user name and password as auth'],
  ['tls.servername', { tls: { servername: 'etcd' } }, 'did you mean serverName?'],
  ['username', { username: 'app', password: 'x' }, 'pass auth: { username, password }'],
  ['hosts', { hosts: '127.0.0.1:2379' }, 'did you mean endpoints?'],
])('`Client` refuses the option `%s`, and the error names the right option', (_name, options, hint) => {
  expect(() => new Client(options as ClientOptions)).toThrow(`(${hint})`);
});
