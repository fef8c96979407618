import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { Authority, type Certificate } from '../../packages/cli/src/proxy/authority.js';
import { GUARD_PREFIX } from '../../src/client/kv/keys.js';
import { type Client, prefix, type TlsOptions } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { queueLength } from '../support/locks.js';
import { HERE, SecureEtcd, useSecureEtcd } from '../support/tls/secure-etcd.js';
import { refusalOf, relay, secure } from '../support/tls/tls-peer.js';

// These tests use client certificates, including certificates that change. The servers are real etcd servers that
// require client certificates.

const DAY_MS = 86_400_000;
/** The timeout of calls that are expected to fail. It is long enough for a few attempts. */
const SOON = { timeoutMs: 1_000 };
const NOTHING = new Uint8Array();
const CONNECT_FAILED = { reason: 'ConnectFailed', code: 'Unavailable', outcome: 'not-sent' };

const [authority, other] = [await Authority.create(), await Authority.create('another authority')];
const tls = { ca: authority.cert };
const etcd = useSecureEtcd(authority, { clients: true });

describe('a client whose certificate', () => {
  test('is from an authority that the server trusts can make calls and open streams', async () => {
    const client = openClient({ endpoints: [etcd().endpoint], tls: { ...tls, ...(await authority.issue()) } });
    const [key, value] = [unique(), randomBytes(1_000_000)];
    const watch = client.watch(key);
    await watch.created();
    await client.put(key, value);
    expect(value.equals((await client.get(key))?.value ?? NOTHING)).toBe(true);
    const { value: event } = await watch[Symbol.asyncIterator]().next();
    expect(value.equals(event?.kv.value ?? NOTHING)).toBe(true);
  });

  test('has an intermediate issuer is accepted only if the client also sends the intermediate certificate', async () => {
    const { cert, key } = await (await authority.intermediate('between')).issue();
    const [withIt, alone] = [cert, cert.slice(0, cert.lastIndexOf('-----BEGIN'))];
    const as = (cert: string): Client => openClient({ endpoints: [etcd().endpoint], tls: { ...tls, cert, key } });
    await as(withIt).get('a');
    expect(await refusalOf(as(alone))).toMatchObject(CONNECT_FAILED);
  });

  test.each<[string, () => Promise<Certificate | undefined>]>([
    ['is missing', async () => undefined],
    ['has expired', () => authority.issue({ untilMs: -1_000 })],
    ['is not yet valid', () => authority.issue({ fromMs: DAY_MS, untilMs: 2 * DAY_MS })],
    ['is from another authority', () => other.issue()],
    [
      'was issued by a certificate that is not an authority',
      async () => (await authority.intermediate('a client', false)).issue(),
    ],
  ])('%s is refused, and the error says which option to set', async (_, certificate) => {
    const shown = await certificate();
    const client = openClient({ endpoints: [etcd().endpoint], tls: { ...tls, ...shown } });
    const key = unique();
    const error = await errorOf(client.put(key, 'x', SOON));
    expect(error).toMatchObject({ outcome: 'not-sent', cause: CONNECT_FAILED });
    expect(error.message).toMatch(/alert .*; the server requires a client certificate that it accepts: set tls\.cert/);
    if (shown !== undefined) expect(inspect(error, { depth: 9 })).not.toContain(shown.key.slice(60, 80));
    expect(await refusalOf(client)).toMatchObject(CONNECT_FAILED);
    const served = openClient({ endpoints: [etcd().endpoint], tls: { ...tls, ...(await authority.issue()) } });
    expect(await served.get(key)).toBeUndefined();
  });

  test('does not match its key cannot connect, and the error names the mismatch', async () => {
    const [{ cert }, { key }] = [await authority.issue(), await authority.issue()];
    const client = openClient({ endpoints: [etcd().endpoint], tls: { ...tls, cert, key } });
    const error = await refusalOf(client);
    expect(error).toMatchObject(CONNECT_FAILED);
    expect(error.message).toMatch(/key values mismatch; tls\.key does not belong to tls\.cert/);
    expect(await errorOf(client.get('a', SOON))).toMatchObject({ outcome: 'not-sent', cause: CONNECT_FAILED });
  });
});

describe('the option `tls` as a function', () => {
  test('is called once for each connection', async () => {
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

  test('is not called for an endpoint without TLS', async () => {
    const source = vi.fn(() => tls);
    await openClient({ endpoints: inject('endpoints'), tls: source }).get('a');
    expect(source).toHaveBeenCalledTimes(0);
  });

  test('fails the connection when it takes longer than `connectTimeoutMs`', async () => {
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
  ])(
    'that %s fails the connection with the error as the cause, and is called again for the next connection',
    async (_, fail) => {
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
    },
  );

  test('that returns an invalid option fails the connection, and the error names the option', async () => {
    const { cert, key } = await authority.issue();
    const client = openClient({ endpoints: [etcd().endpoint], tls: async () => ({ cert, key: key.slice(0, 99) }) });
    const error = await refusalOf(client);
    expect(error).toMatchObject({ ...CONNECT_FAILED, cause: { reason: 'InvalidInput' } });
    expect(error.message).toMatch(/tls\.key: got damaged PEM/);
    expect(inspect(error, { depth: 9 })).not.toContain(key.slice(60, 80));
  });

  test('that returns options only after the client has been closed opens no connection', async () => {
    const { endpoint, clients } = await relay(etcd().port, (piece) => piece);
    let give = (_: TlsOptions): void => {};
    const given = new Promise<TlsOptions>((resolve) => {
      give = resolve;
    });
    const client = openClient({ endpoints: [endpoint], tls: () => given });
    const reading = errorOf(client.get('a'));
    await client.close({ drainMs: 50 });
    expect(await reading).toMatchObject({ reason: 'ClientClosed' });
    give(tls);
    await given;
    await openClient({ endpoints: [etcd().endpoint], tls: { ...tls, ...(await authority.issue()) } }).get('a');
    expect(clients).toEqual([]);
  });
});

describe('a server with authentication', () => {
  test('identifies a client by the certificate of its connection, and again at each reconnect', async (context) => {
    const { endpoint, as } = (await withUsers()) ?? context.skip('the tests cannot start servers');
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

  test('identifies a client by its certificate on the streams of locks, leases and watches', async (context) => {
    const { endpoint } = (await withUsers()) ?? context.skip('the tests cannot start servers');
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
    // The client reconnects because of its streams, without a new call.
    await expect.poll(() => source.mock.calls.length).toBe(2);
    await first.release();
    const second = await waiting;
    expect(second.token).toBeGreaterThan(first.token);
    await second.release();
  });

  test('identifies a client by its password, even if the certificate names another user', async (context) => {
    const { endpoint } = (await withUsers()) ?? context.skip('the tests cannot start servers');
    const certificate = await authority.issue({ commonName: 'ann' });
    const source = vi.fn(() => ({ ...tls, ...certificate }));
    const auth = { username: 'carl', password: 'carls-secret' };
    const client = openClient({ endpoints: [endpoint], tls: source, auth });
    // The first call is a watch, for which the client has no token yet.
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

/**
 * Starts a server with authentication. The users `ann` and `bob` have certificates, and `carl` has a password. Each
 * user can read and write the keys that begin with the user's name and a slash. `as` opens a client whose certificate
 * contains the given name. Resolves with undefined if the tests cannot start servers.
 */
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
    await auth.roleGrantPermission(name, 'readwrite', prefix(GUARD_PREFIX));
    await auth.userGrantRole(name, name);
  }
  await auth.enable();
  return { endpoint, as };
}
