import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { Mutex, Session } from '../../src/concurrency/index.js';
import { type Client, prefix, type TlsOptions } from '../../src/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { queueLength } from '../support/locks.js';
import { Authority, type Certificate } from '../support/tls/authority.js';
import { HERE, SecureEtcd, useSecureEtcd } from '../support/tls/secure-etcd.js';
import { refusalOf, relay, secure } from '../support/tls/tls-peer.js';

// What certificates of clients are worth to real servers that ask for them, and what becomes of those that change.

const DAY_MS = 86_400_000;
/** For calls that are to be refused: some attempts. */
const SOON = { timeoutMs: 2_000 };
const NOTHING = new Uint8Array();
const CONNECT_FAILED = { reason: 'ConnectFailed', code: 'Unavailable', outcome: 'not-sent' };

const [authority, other] = [await Authority.create(), await Authority.create('another authority')];
const tls = { ca: authority.cert };
const etcd = useSecureEtcd(authority, { clients: true });

describe('a client whose certificate', () => {
  test('is from the authority that the server asks for is served, by calls and streams', async () => {
    const client = openClient({ endpoints: [etcd().endpoint], tls: { ...tls, ...(await authority.issue()) } });
    const [key, value] = [unique(), randomBytes(1_000_000)];
    const watch = client.watch(key);
    await watch.created();
    await client.put(key, value);
    expect(value.equals((await client.get(key))?.value ?? NOTHING)).toBe(true);
    const { value: event } = await watch[Symbol.asyncIterator]().next();
    expect(value.equals(event?.kv.value ?? NOTHING)).toBe(true);
  });

  test('comes with an authority between is served, and not without it', async () => {
    const { cert, key } = await (await authority.intermediate('between')).issue();
    const [withIt, alone] = [cert, cert.slice(0, cert.lastIndexOf('-----BEGIN'))];
    const as = (cert: string): Client => openClient({ endpoints: [etcd().endpoint], tls: { ...tls, cert, key } });
    await as(withIt).get('a');
    expect(await refusalOf(as(alone))).toMatchObject(CONNECT_FAILED);
  });

  test.each<[string, () => Promise<Certificate | undefined>]>([
    ['is not there', async () => undefined],
    ['has expired', () => authority.issue({ untilMs: -1_000 })],
    ['is not yet valid', () => authority.issue({ fromMs: DAY_MS, untilMs: 2 * DAY_MS })],
    ['is from another authority', () => other.issue()],
    ['was issued by one that is no authority', async () => (await authority.intermediate('a client', false)).issue()],
  ])('%s is refused, with what to do about it', async (_, certificate) => {
    const shown = await certificate();
    const client = openClient({ endpoints: [etcd().endpoint], tls: { ...tls, ...shown } });
    const key = unique();
    const error = await errorOf(client.put(key, 'x', SOON));
    expect(error).toMatchObject({ outcome: 'not-sent', cause: CONNECT_FAILED });
    expect(error.message).toMatch(/alert .*; the server asks for a certificate that it accepts: tls\.cert/);
    if (shown !== undefined) expect(inspect(error, { depth: 9 })).not.toContain(shown.key.slice(60, 80));
    expect(await refusalOf(client)).toMatchObject(CONNECT_FAILED);
    const served = openClient({ endpoints: [etcd().endpoint], tls: { ...tls, ...(await authority.issue()) } });
    expect(await served.get(key)).toBeUndefined();
  });

  test('has the key of another is told so', async () => {
    const [{ cert }, { key }] = [await authority.issue(), await authority.issue()];
    const client = openClient({ endpoints: [etcd().endpoint], tls: { ...tls, cert, key } });
    const error = await refusalOf(client);
    expect(error).toMatchObject(CONNECT_FAILED);
    expect(error.message).toMatch(/key values mismatch; tls\.key is not the key of tls\.cert/);
    expect(await errorOf(client.get('a', SOON))).toMatchObject({ outcome: 'not-sent', cause: CONNECT_FAILED });
  });
});

describe('tls as a function', () => {
  test('is asked for each connection, and for nothing else', async () => {
    const proxy = await faultProxy(etcd().endpoint);
    const certificate = await authority.issue();
    const source = vi.fn(() => ({ ...tls, ...certificate }));
    const client = openClient({ endpoints: [secure(proxy.endpoint)], tls: source });
    expect(source).toHaveBeenCalledTimes(0);
    await Promise.all(Array.from({ length: 50 }, () => client.get('a')));
    expect(source).toHaveBeenCalledTimes(1);
    const watch = client.watch('a');
    await watch.created();
    expect(source).toHaveBeenCalledTimes(1);
    await watch.close();
    proxy.dropConnections();
    await Promise.all(Array.from({ length: 50 }, () => client.get('a')));
    expect(source).toHaveBeenCalledTimes(2);
  });

  test('is not asked where no TLS is spoken', async () => {
    const source = vi.fn(() => tls);
    await openClient({ endpoints: inject('endpoints'), tls: source }).get('a');
    expect(source).toHaveBeenCalledTimes(0);
  });

  test('may take its time, within that of the connection', async () => {
    const certificate = await authority.issue();
    let give = (_: TlsOptions): void => {};
    const given = new Promise<TlsOptions>((resolve) => {
      give = resolve;
    });
    const client = openClient({ endpoints: [etcd().endpoint], tls: () => given, connectTimeoutMs: 200 });
    const error = await errorOf(client.get('a', { timeoutMs: 350 }));
    expect(error).toMatchObject({ outcome: 'not-sent', cause: CONNECT_FAILED });
    expect(error.message).toContain('no answer within connectTimeoutMs = 200');
    give({ ...tls, ...certificate });
    await client.get('a');
  });

  test.each<[string, () => TlsOptions | Promise<TlsOptions>]>([
    [
      'throws',
      () => {
        throw new Error('the secret word');
      },
    ],
    ['rejects', () => Promise.reject(new Error('the secret word'))],
  ])('that %s is no connection, whose cause that is; the next time it may do better', async (_, fail) => {
    const certificate = await authority.issue();
    let tell: () => TlsOptions | Promise<TlsOptions> = fail;
    const client = openClient({ endpoints: [etcd().endpoint], tls: () => tell() });
    const error = await refusalOf(client);
    expect(error).toMatchObject({ ...CONNECT_FAILED, cause: new Error('the secret word') });
    expect(error.message).toMatch(/cannot connect to https:.*: the function given as tls failed/);
    expect(error.message).not.toContain('secret');
    const late = await errorOf(client.get('a', SOON));
    expect(late).toMatchObject({ outcome: 'not-sent', cause: CONNECT_FAILED });
    expect(late.message).not.toContain('secret');
    tell = () => ({ ...tls, ...certificate });
    await client.get('a');
  });

  test('that gives what cannot be used is no connection, and the error names it', async () => {
    const { cert, key } = await authority.issue();
    const client = openClient({ endpoints: [etcd().endpoint], tls: async () => ({ cert, key: key.slice(0, 99) }) });
    const error = await refusalOf(client);
    expect(error).toMatchObject({ ...CONNECT_FAILED, cause: { reason: 'InvalidInput' } });
    expect(error.message).toMatch(/tls\.key: got PEM that is damaged/);
    expect(inspect(error, { depth: 9 })).not.toContain(key.slice(60, 80));
  });

  test('that is asked still when the client is closed opens nothing', async () => {
    const { endpoint, clients } = await relay(etcd().port, (piece) => piece);
    let give = (_: TlsOptions): void => {};
    const given = new Promise<TlsOptions>((resolve) => {
      give = resolve;
    });
    const client = openClient({ endpoints: [endpoint], tls: () => given });
    const reading = errorOf(client.get('a'));
    await client.close();
    expect(await reading).toMatchObject({ reason: 'ClientClosed' });
    give(tls);
    await given;
    await openClient({ endpoints: [etcd().endpoint], tls: { ...tls, ...(await authority.issue()) } }).get('a');
    expect(clients).toEqual([]);
  });
});

describe('a server with authentication', () => {
  test('knows a client by its certificate, without a password, and as another once that is another', async (context) => {
    const { endpoint, as } = (await withUsers()) ?? context.skip('the servers are not ours');
    const proxy = await faultProxy(endpoint);
    let certificate = await authority.issue({ commonName: 'ann' });
    const client = openClient({ endpoints: [secure(proxy.endpoint)], tls: () => ({ ...tls, ...certificate }) });
    await client.put('ann/a', 'hers');
    expect(await errorOf(client.put('bob/a', 'hers'))).toMatchObject({ reason: 'PermissionDenied' });
    const watch = client.watch(prefix('ann/'), { startRevision: 1n });
    expect((await watch[Symbol.asyncIterator]().next()).value?.kv.text()).toBe('hers');
    certificate = await authority.issue({ commonName: 'bob' });
    expect(await errorOf(client.put('bob/a', 'his'))).toMatchObject({ reason: 'PermissionDenied' });
    await watch.close();
    proxy.dropConnections();
    await vi.waitFor(() => client.put('bob/a', 'his'), { timeout: 10_000 });
    expect(await errorOf(client.put('ann/a', 'his'))).toMatchObject({ reason: 'PermissionDenied' });
    expect((await (await as('ann')).get('ann/a'))?.text()).toBe('hers');
    expect((await errorOf((await as('nobody')).get('ann/a'))).outcome).toBe('rejected');
  });

  test('knows one by its certificate that waits for a lock, keeps a lease alive and watches', async (context) => {
    const { endpoint } = (await withUsers()) ?? context.skip('the servers are not ours');
    const proxy = await faultProxy(endpoint);
    const source = vi.fn(async () => ({ ...tls, ...(await authority.issue({ commonName: 'ann' })) }));
    const client = openClient({ endpoints: [secure(proxy.endpoint)], tls: source });
    await using session = await Session.open(client, { ttl: 5 });
    const first = await new Mutex(session, 'ann/lock').lock();
    await using another = await Session.open(client, { ttl: 5 });
    const waiting = new Mutex(another, 'ann/lock').lock();
    await queueLength(client, 'ann/lock', 2);
    expect(source).toHaveBeenCalledTimes(1);
    proxy.dropConnections();
    // By itself, for its streams: nobody calls.
    await expect.poll(() => source.mock.calls.length).toBe(2);
    await first.release();
    const second = await waiting;
    expect(second.token).toBeGreaterThan(first.token);
    await second.release();
  });

  test('knows a client by its password, over https, whoever its certificate is', async (context) => {
    const { endpoint } = (await withUsers()) ?? context.skip('the servers are not ours');
    const certificate = await authority.issue({ commonName: 'ann' });
    const source = vi.fn(() => ({ ...tls, ...certificate }));
    const auth = { username: 'carl', password: 'carls-secret' };
    const client = openClient({ endpoints: [endpoint], tls: source, auth });
    // Before there is a token.
    await client.watch('carl/a').created();
    await client.put('carl/a', 'his');
    expect(source).toHaveBeenCalledTimes(1);
    expect(await errorOf(client.put('ann/a', 'his'))).toMatchObject({ reason: 'PermissionDenied' });
  });
});

interface Users {
  readonly endpoint: string;
  readonly as: (commonName: string) => Promise<Client>;
}

/** A server with authentication: `ann` and `bob` have certificates, `carl` a password, and each a prefix of their own. */
async function withUsers(): Promise<Users | undefined> {
  const secured = await SecureEtcd.start(await authority.issue(HERE), authority);
  if (secured === undefined) return undefined;
  onTestFinished(() => secured.stop());
  const { endpoint } = secured;
  const as = async (commonName: string): Promise<Client> =>
    openClient({ endpoints: [endpoint], tls: { ...tls, ...(await authority.issue({ commonName })) } });
  const { auth } = await as('root');
  await auth.userAdd('root', { noPassword: true });
  await auth.roleAdd('root');
  await auth.userGrantRole('root', 'root');
  for (const name of ['ann', 'bob', 'carl']) {
    await auth.userAdd(name, name === 'carl' ? { password: 'carls-secret' } : { noPassword: true });
    await auth.roleAdd(name);
    await auth.roleGrantPermission(name, 'readwrite', prefix(`${name}/`));
    await auth.userGrantRole(name, name);
  }
  await auth.enable();
  return { endpoint, as };
}
