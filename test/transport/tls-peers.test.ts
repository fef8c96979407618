import { once } from 'node:events';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { nodePeer, nodeStore } from '../support/peers/node-peer.js';
import { Authority } from '../support/tls/authority.js';
import { HERE, useSecureEtcd } from '../support/tls/secure-etcd.js';
import { refusalOf, relay, secure, tlsPeer } from '../support/tls/tls-peer.js';

// Peers, and ways to them, that do with TLS what no good server does.

/** For calls that are to be refused: some attempts. */
const SOON = { timeoutMs: 2_000 };
/** For those that end with the time for a connection: two of them. */
const QUICK = { connectTimeoutMs: 200 };
const CONNECT_FAILED = { reason: 'ConnectFailed', code: 'Unavailable', outcome: 'not-sent' };

const authority = await Authority.create();
const tls = { ca: authority.cert };
const etcd = useSecureEtcd(authority);

describe('a handshake', () => {
  test.each([0, 1, 5, 100, 500])(
    'of which %i bytes come is waited for no longer than connectTimeoutMs',
    async (bytes) => {
      const { endpoint, clients } = await relay(etcd().port, (piece, before) =>
        before < bytes ? piece.subarray(0, bytes - before) : undefined,
      );
      const error = await refusalOf(openClient({ endpoints: [endpoint], tls, ...QUICK }));
      expect(error).toMatchObject(CONNECT_FAILED);
      expect(error.message).toContain('no answer within connectTimeoutMs = 200');
      // The client has let go of it; grpc-js keeps it for as long as the peer does.
      if (inject('transport') === 'grpc-js') return;
      for (const client of clients) if (!client.destroyed) await once(client, 'close');
    },
  );

  test.each([1, 5, 100, 500])('that breaks off after %i bytes is none', async (bytes) => {
    const { endpoint, clients } = await relay(etcd().port, (piece, before) => {
      if (before + piece.length < bytes) return piece;
      clients.at(-1)?.end(piece.subarray(0, bytes - before));
      return undefined;
    });
    expect(await refusalOf(openClient({ endpoints: [endpoint], tls }))).toMatchObject(CONNECT_FAILED);
  });

  test('whose bytes come one by one is one', async () => {
    const proxy = await faultProxy(etcd().endpoint);
    proxy.slice(1);
    const client = openClient({ endpoints: [secure(proxy.endpoint)], tls });
    const key = unique();
    await client.put(key, 'x'.repeat(1_000));
    expect((await client.get(key))?.text()).toHaveLength(1_000);
  });

  test.each(['is silent', 'ends', 'breaks off', 'resets'] as const)(
    'after which the peer %s is no connection',
    async (what) => {
      const { endpoint } = await tlsPeer(await authority.issue(HERE), (socket, connection) => {
        if (what === 'ends') socket.end();
        if (what === 'breaks off') connection.destroy();
        if (what === 'resets') connection.resetAndDestroy();
      });
      const error = await refusalOf(openClient({ endpoints: [endpoint], tls, ...QUICK }));
      expect(error).toMatchObject(CONNECT_FAILED);
    },
  );

  test('that does not choose h2 is none', async () => {
    const peer = await tlsPeer({ ...(await authority.issue(HERE)), ALPNProtocols: undefined });
    const error = await refusalOf(openClient({ endpoints: [peer.endpoint], tls, connectTimeoutMs: 2_000 }));
    expect(error).toMatchObject(CONNECT_FAILED);
    // grpc-js speaks HTTP/2 all the same.
    if (inject('transport') === 'http2') {
      expect(error.message).toMatch(/it did not choose h2 by ALPN/);
      expect(peer.heard()).toBe('');
    }
    const others = await tlsPeer({ ...(await authority.issue(HERE)), ALPNProtocols: ['http/1.1'] });
    const refused = await refusalOf(openClient({ endpoints: [others.endpoint], tls }));
    expect(refused.message).toMatch(/no application protocol/);
  });

  test('of TLS 1.1 is none, and of TLS 1.2 one', async () => {
    const certificate = await authority.issue(HERE);
    const old = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    const { endpoint } = await tlsPeer({ ...certificate, ...old });
    const error = await refusalOf(openClient({ endpoints: [endpoint], tls }));
    expect(error).toMatchObject(CONNECT_FAILED);
    expect(error.message).toMatch(/protocol.*; TLS 1\.2 or newer is needed/);
    const store = await nodeStore({ ...certificate, maxVersion: 'TLSv1.2' });
    const client = openClient({ endpoints: [store.endpoint], tls });
    await client.put('a', 'b');
    expect((await client.get('a'))?.text()).toBe('b');
  });
});

describe('a certificate', () => {
  test('at the end of a long chain is good, of one too long it is not', async () => {
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

  test('for two thousand others is refused in a few words', async () => {
    const names = Array.from({ length: 2_000 }, (_, index) => `host-${index}.example`);
    etcd().show(await authority.issue({ names }));
    const error = await refusalOf(openClient({ endpoints: [etcd().byName], tls }));
    expect(error.message).toMatch(/altnames: Host: localhost\. is not in/);
    expect(error.message.length).toBeLessThan(1_000);
    etcd().show(await authority.issue({ names: [...names, 'localhost'] }));
    await openClient({ endpoints: [etcd().byName], tls }).get('a');
  });

  test('that is refused keeps token and password from the peer, and the next one gets them', async () => {
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

describe('a connection', () => {
  test('that breaks off in the middle of an answer loses the answer', async () => {
    let cut = (): void => {};
    const { endpoint, sessions } = await nodePeer(
      (call) => {
        call.head();
        // More of a message is to come: its prefix says so.
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

  test('whose bytes were changed on the way is over', async () => {
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

describe('an https endpoint', () => {
  test('hears nothing that is not TLS', async () => {
    const heard: Buffer[] = [];
    const server = createServer((socket) => {
      socket
        .on('error', () => {})
        .on('data', (bytes) => {
          heard.push(bytes);
          // As a server of HTTP does that hears nonsense.
          socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
        });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const endpoint = `https://127.0.0.1:${(server.address() as { port: number }).port}`;
    const client = openClient({ endpoints: [endpoint], tls, auth: { token: 'the-secret-token' } });
    const error = await errorOf(client.put('the-secret-key', 'the-secret-value', SOON));
    expect(error.message).toMatch(
      /version number.*; does the peer speak TLS\? Then the URL begins with https:, and else/,
    );
    expect(heard.length).toBeGreaterThan(1);
    for (const bytes of heard) {
      expect(bytes[0]).toBe(0x16);
      expect(bytes.toString('latin1')).not.toMatch(/secret|HTTP/);
    }
  });

  test('may be an address of IPv6', async (context) => {
    const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
    if (!addresses.some(({ address }) => address === '::1')) return context.skip('no IPv6 here');
    const { endpoint } = await relay(etcd().port, (piece) => piece, '::1');
    await openClient({ endpoints: [endpoint], tls }).get('a');
    await openClient({ endpoints: [endpoint.replace('[::1]', '[0:0::0:1]')], tls }).get('a');
    etcd().show(await authority.issue({ names: ['127.0.0.1', '::2', 'localhost'] }));
    expect((await refusalOf(openClient({ endpoints: [endpoint], tls }))).message).toMatch(
      /IP: ::1 is not in the cert's list/,
    );
  });

  test.each(['LOCALHOST', 'LocalHost'])('may be written %s', async (host) => {
    await openClient({ endpoints: [etcd().byName.replace('localhost', host)], tls }).get('a');
  });
});

test('a thousand calls at once, of which a server takes some at a time, all get their answers', async () => {
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
