import { once } from 'node:events';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { nodePeer, nodeStore } from '../support/peers/node-peer.js';
import { HERE, useSecureEtcd } from '../support/tls/secure-etcd.js';
import { refusalOf, relay, secure, tlsPeer } from '../support/tls/tls-peer.js';

// In these tests, peers violate TLS, and networks interrupt or damage TLS connections.

/** The timeout of calls that are expected to fail. It is long enough for a few attempts. */
const SOON = { timeoutMs: 1_000 };
/** Client options that shorten tests where the connection fails only after `connectTimeoutMs`. */
const QUICK = { connectTimeoutMs: 200 };
const CONNECT_FAILED = { reason: 'ConnectFailed', code: 'Unavailable', outcome: 'not-sent' };

const authority = await Authority.create();
const tls = { ca: authority.cert };
const etcd = useSecureEtcd(authority);

describe('a TLS handshake', () => {
  test.each([0, 1, 5, 100, 500])('that stalls after %i bytes fails after `connectTimeoutMs`', async (bytes) => {
    const { endpoint, clients } = await relay(etcd().port, (piece, before) =>
      before < bytes ? piece.subarray(0, bytes - before) : undefined,
    );
    const error = await refusalOf(openClient({ endpoints: [endpoint], tls, ...QUICK }));
    expect(error).toMatchObject(CONNECT_FAILED);
    expect(error.message).toContain('no answer within connectTimeoutMs = 200');
    // This client closes the connection itself. grpc-js keeps the connection open until the peer closes it.
    if (inject('transport') === 'grpc-js') return;
    for (const client of clients) if (!client.destroyed) await once(client, 'close');
  });

  test.each([1, 5, 100, 500])('that breaks off after %i bytes fails the connection', async (bytes) => {
    const { endpoint, clients } = await relay(etcd().port, (piece, before) => {
      if (before + piece.length < bytes) return piece;
      clients.at(-1)?.end(piece.subarray(0, bytes - before));
      return undefined;
    });
    expect(await refusalOf(openClient({ endpoints: [endpoint], tls }))).toMatchObject(CONNECT_FAILED);
  });

  test('succeeds when its bytes arrive one by one', async () => {
    const proxy = await faultProxy(etcd().endpoint);
    proxy.slice(1);
    const client = openClient({ endpoints: [secure(proxy.endpoint)], tls });
    const key = unique();
    await client.put(key, 'x'.repeat(1_000));
    expect((await client.get(key))?.text()).toHaveLength(1_000);
  });

  test.each(['stays silent', 'ends TLS', 'closes the socket', 'resets the socket'] as const)(
    'that succeeds does not connect the client when the peer then %s',
    async (what) => {
      const { endpoint } = await tlsPeer(await authority.issue(HERE), (socket, connection) => {
        if (what === 'ends TLS') socket.end();
        if (what === 'closes the socket') connection.destroy();
        if (what === 'resets the socket') connection.resetAndDestroy();
      });
      const error = await refusalOf(openClient({ endpoints: [endpoint], tls, ...QUICK }));
      expect(error).toMatchObject(CONNECT_FAILED);
    },
  );

  test('that does not select h2 through ALPN fails the connection', async () => {
    const peer = await tlsPeer({ ...(await authority.issue(HERE)), ALPNProtocols: undefined });
    const error = await refusalOf(openClient({ endpoints: [peer.endpoint], tls, connectTimeoutMs: 2_000 }));
    expect(error).toMatchObject(CONNECT_FAILED);
    // grpc-js uses HTTP/2 even without ALPN.
    if (inject('transport') === 'http2') {
      expect(error.message).toMatch(/it did not select h2 by ALPN/);
      expect(peer.heard()).toBe('');
    }
    const others = await tlsPeer({ ...(await authority.issue(HERE)), ALPNProtocols: ['http/1.1'] });
    const refused = await refusalOf(openClient({ endpoints: [others.endpoint], tls }));
    expect(refused.message).toMatch(/no application protocol/);
  });

  test('fails with TLS 1.1, and succeeds with TLS 1.2', async () => {
    const certificate = await authority.issue(HERE);
    const old = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    const { endpoint } = await tlsPeer({ ...certificate, ...old });
    const error = await refusalOf(openClient({ endpoints: [endpoint], tls }));
    expect(error).toMatchObject(CONNECT_FAILED);
    expect(error.message).toMatch(/protocol.*; the server must support TLS 1\.2 or newer/);
    const store = await nodeStore({ ...certificate, maxVersion: 'TLSv1.2' });
    const client = openClient({ endpoints: [store.endpoint], tls });
    await client.put('a', 'b');
    expect((await client.get('a'))?.text()).toBe('b');
  });
});

describe('a certificate', () => {
  test('is accepted at the end of a chain of 40 authorities, but refused at the end of a chain of 110 authorities', async () => {
    let chain = authority;
    for (let length = 1; length <= 40; length += 1) chain = await chain.intermediate(`authority ${length}`);
    const { endpoint } = await nodeStore({ ...(await chain.issue(HERE)) });
    await openClient({ endpoints: [endpoint], tls }).put('a', 'b');
    for (let length = 41; length <= 110; length += 1) chain = await chain.intermediate(`authority ${length}`);
    const { endpoint: further } = await tlsPeer(await chain.issue(HERE));
    expect(await refusalOf(openClient({ endpoints: [further], tls }))).toMatchObject(CONNECT_FAILED);
    const { cert, key } = await chain.issue(HERE);
    const { endpoint: huge } = await tlsPeer({ cert: `${cert}\n`.repeat(4), key });
    expect((await refusalOf(openClient({ endpoints: [huge], tls }))).message).toMatch(/excessive message size/);
  });

  test('that contains only 2,000 other names is refused with a short error', async () => {
    const names = Array.from({ length: 2_000 }, (_, index) => `host-${index}.example`);
    etcd().show(await authority.issue({ names }));
    const error = await refusalOf(openClient({ endpoints: [etcd().byName], tls }));
    expect(error.message).toMatch(/altnames: Host: localhost\. is not in/);
    expect(error.message.length).toBeLessThan(1_000);
    etcd().show(await authority.issue({ names: [...names, 'localhost'] }));
    await openClient({ endpoints: [etcd().byName], tls }).get('a');
  });

  test('that the client refuses prevents the client from sending its token or password', async () => {
    const peer = await tlsPeer(await authority.issue({ names: ['etcd.example'] }));
    const byPassword = { username: 'ann', password: 'the-secret-password' };
    for (const auth of [{ token: 'the-secret-token' }, byPassword]) {
      const error = await errorOf(openClient({ endpoints: [peer.endpoint], tls, auth }).put('a', 'b', SOON));
      expect(error).toMatchObject({ outcome: 'not-sent' });
      expect(error.message).toMatch(/altnames/);
      expect(error.message).not.toContain('secret');
    }
    await openClient({ endpoints: [peer.endpoint, etcd().endpoint], tls, auth: byPassword }).put(unique(), 'b');
    expect(peer.connections.length).toBeGreaterThan(3);
    expect(peer.heard()).toBe('');
  });
});

describe('a TLS connection', () => {
  test('fails its call with outcome "unknown" when the connection breaks off within a response', async () => {
    let cut = (): void => {};
    const { endpoint, sessions } = await nodePeer(
      (call) => {
        call.head();
        // The length prefix announces a message of 65,536 bytes, but the peer sends only three bytes of the message.
        call.stream.write(Buffer.from([0, 0, 1, 0, 0, 1, 2, 3]), () => cut());
      },
      { ...(await authority.issue(HERE)) },
    );
    const proxy = await faultProxy(endpoint);
    cut = () => proxy.dropConnections();
    const client = openClient({ endpoints: [secure(proxy.endpoint)], tls });
    expect(await errorOf(client.put('a', 'b'))).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
    expect(sessions).toHaveLength(1);
  });

  test('is closed when its bytes are changed in transit', async () => {
    let change = false;
    const { endpoint, clients } = await relay(etcd().port, (piece) => {
      if (change) piece[piece.length - 1] = 1 ^ (piece.at(-1) as number);
      return piece;
    });
    const client = openClient({ endpoints: [endpoint], tls });
    const key = unique();
    await client.put(key, 'x');
    change = true;
    const error = await errorOf(client.put(key, 'y'));
    expect(error).toMatchObject({ outcome: 'unknown' });
    if (inject('transport') === 'http2') expect(error.problem).toMatch(/^[a-z ]*bad record mac$/);
    change = false;
    expect(await client.get(key)).toMatchObject({
      version: expect.toSatisfy((version) => version === 1n || version === 2n),
    });
    expect(clients).toHaveLength(2);
  });
});

describe('an `https:` endpoint', () => {
  test('receives only TLS records from the client', async () => {
    const received: Buffer[] = [];
    const server = createServer((socket) => {
      socket
        .on('error', () => {})
        .on('data', (bytes) => {
          received.push(bytes);
          // Answer as an HTTP server answers invalid requests.
          socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
        });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const endpoint = `https://127.0.0.1:${(server.address() as { port: number }).port}`;
    const client = openClient({ endpoints: [endpoint], tls, auth: { token: 'the-secret-token' } });
    const error = await errorOf(client.put('the-secret-key', 'the-secret-value', SOON));
    expect(error.message).toMatch(/version number.*; check the URL: https: for a server with TLS/);
    expect(received.length).toBeGreaterThan(1);
    for (const bytes of received) {
      expect(bytes[0]).toBe(0x16);
      expect(bytes.toString('latin1')).not.toMatch(/secret|HTTP/);
    }
  });

  test('can have an IPv6 address as its host', async (context) => {
    const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
    if (!addresses.some(({ address }) => address === '::1')) return context.skip('this machine has no IPv6');
    const { endpoint } = await relay(etcd().port, (piece) => piece, '::1');
    await openClient({ endpoints: [endpoint], tls }).get('a');
    await openClient({ endpoints: [endpoint.replace('[::1]', '[0:0::0:1]')], tls }).get('a');
    etcd().show(await authority.issue({ names: ['127.0.0.1', '::2', 'localhost'] }));
    expect((await refusalOf(openClient({ endpoints: [endpoint], tls }))).message).toMatch(
      /IP: ::1 is not in the cert's list/,
    );
  });

  test.each(['LOCALHOST', 'LocalHost'])('can have its host in any capitalization, such as %s', async (host) => {
    await openClient({ endpoints: [etcd().byName.replace('localhost', host)], tls }).get('a');
  });
});

test('a thousand concurrent puts over TLS succeed when the server allows fewer open streams', async () => {
  const client = openClient({ endpoints: [etcd().endpoint], tls });
  const key = unique();
  const watch = client.watch(key);
  await watch.created();
  await Promise.all(Array.from({ length: 1_000 }, (_, index) => client.put(key, `${index}`)));
  expect(await client.get(key)).toMatchObject({ version: 1_000n });
  const revisions: bigint[] = [];
  for await (const { modRevision } of watch) if (revisions.push(modRevision) === 1_000) break;
  expect(revisions).toEqual([...new Set(revisions)].sort((a, b) => Number(a - b)));
});
