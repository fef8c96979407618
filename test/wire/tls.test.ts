import { describe, expect, inject, test, vi } from 'vitest';
import { Authority, type Certificate } from '../../packages/cli/src/proxy/authority.js';
import { prefix } from '../../src/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { HERE, SecureEtcd, useSecureEtcd } from '../support/tls/secure-etcd.js';
import { refusalOf, secure } from '../support/tls/tls-peer.js';

// These tests check how the client verifies the certificates of real servers. The tests of client certificates are in
// tls-client-certificates.test.ts.

const DAY_MS = 86_400_000;
/** Options of `vi.waitFor`: the maximum wait for a condition, and the interval between checks, in milliseconds. */
const POLL = { timeout: 20_000, interval: 50 };
/** The timeout of calls that are expected to fail. It is long enough for a few attempts. */
const SOON = { timeoutMs: 1_000 };
const CONNECT_FAILED = { reason: 'ConnectFailed', code: 'Unavailable', outcome: 'not-sent' };

const [authority, other] = [await Authority.create(), await Authority.create('another authority')];
const tls = { ca: authority.cert };
const etcd = useSecureEtcd(authority);

interface Refusal {
  readonly certificate: () => Promise<Certificate>;
  readonly says: RegExp;
}

const UNKNOWN_AUTHORITY = /(unable to .*|self.signed certificate.*); set tls\.ca to the authority that issued it/;
const WRONG_NAME =
  /altnames: IP: 127\.0\.0\.1 is not in .*; the server's certificate must contain this name; set tls\.serverName/;

const REFUSED: Record<string, Refusal> = {
  'has expired': {
    certificate: () => authority.issue({ ...HERE, untilMs: -1_000 }),
    says: /certificate has expired; renew the server's certificate, or correct the clock/,
  },
  'is not yet valid': {
    certificate: () => authority.issue({ ...HERE, fromMs: DAY_MS, untilMs: 2 * DAY_MS }),
    says: /certificate is not yet valid; renew the server's certificate, or correct the clock/,
  },
  'is for another name': { certificate: () => authority.issue({ names: ['etcd.example'] }), says: WRONG_NAME },
  'is for another address': { certificate: () => authority.issue({ names: ['127.0.0.2'] }), says: WRONG_NAME },
  'contains the address only as its common name': {
    certificate: () => authority.issue({ commonName: '127.0.0.1' }),
    says: WRONG_NAME,
  },
  'is from an unknown authority': { certificate: () => other.issue(HERE), says: UNKNOWN_AUTHORITY },
  'is from an unknown authority of the same name': {
    certificate: async () => (await Authority.create()).issue(HERE),
    says: /certificate signature failure|unable to/,
  },
  'is sent without the intermediate certificate': {
    certificate: async () => {
      const { cert, key } = await (await authority.intermediate('between')).issue(HERE);
      return { cert: cert.slice(0, cert.lastIndexOf('-----BEGIN')), key };
    },
    says: UNKNOWN_AUTHORITY,
  },
  'was issued by a certificate that is not an authority': {
    certificate: async () => (await authority.intermediate('a server', false)).issue(HERE),
    says: /invalid CA certificate|unsuitable certificate purpose/,
  },
  'is for clients only': {
    certificate: () => authority.issue({ ...HERE, usage: 'clients' }),
    says: /(unsupported|unsuitable) certificate purpose/,
  },
};

describe.each(Object.entries(REFUSED))('a server whose certificate %s', (_, { certificate, says }) => {
  test('receives no call, and the error names the reason', async () => {
    etcd().show(await certificate());
    const client = openClient({ endpoints: [etcd().endpoint], tls });
    const key = unique();
    const error = await errorOf(client.put(key, 'x', SOON));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent', cause: CONNECT_FAILED });
    expect(error.cause).toMatchObject({ endpoint: etcd().endpoint, message: expect.stringMatching(says) });
    expect(error.message).toMatch(says);
    etcd().show(await authority.issue(HERE));
    expect(await client.get(key)).toBeUndefined();
  });

  test('receives no streaming call, and the error names the reason', async () => {
    etcd().show(await certificate());
    const error = await refusalOf(openClient({ endpoints: [etcd().endpoint], tls }));
    expect(error).toMatchObject(CONNECT_FAILED);
    expect(error.message).toMatch(says);
  });
});

test('a hundred concurrent calls share TLS handshakes when the handshakes fail', async () => {
  etcd().show(await authority.issue({ ...HERE, untilMs: -1_000 }));
  const proxy = await faultProxy(etcd().endpoint);
  let dials = 0;
  const client = openClient({
    endpoints: [secure(proxy.endpoint)],
    tls: () => {
      dials += 1;
      return tls;
    },
  });
  const calls = Array.from({ length: 100 }, () => errorOf(client.get('a', { timeoutMs: 2_000 })));
  for (const error of await Promise.all(calls)) expect(error.cause).toMatchObject(CONNECT_FAILED);
  // A single call makes about eight handshakes within its time limit. If the calls did not share their handshakes, a
  // hundred calls would make hundreds of handshakes.
  expect(dials).toBeLessThan(40);
});

describe('a server whose certificate is valid', () => {
  test('is trusted only if the client trusts the authority of the certificate', async () => {
    const { endpoint } = etcd();
    await openClient({ endpoints: [endpoint], tls }).get('a');
    for (const options of [{}, { tls: {} }, { tls: { ca: other.cert } }]) {
      const error = await refusalOf(openClient({ endpoints: [endpoint], ...options }));
      expect(error).toMatchObject(CONNECT_FAILED);
      expect(error.message).toMatch(UNKNOWN_AUTHORITY);
    }
    await openClient({ endpoints: [endpoint], tls: { ca: `${other.cert}\n${authority.cert}` } }).get('a');
  });

  test('is trusted when it also sends the intermediate certificates', async () => {
    const between = await (await authority.intermediate('between')).intermediate('further between');
    etcd().show(await between.issue(HERE));
    await openClient({ endpoints: [etcd().endpoint], tls }).get('a');
  });

  test('is refused when the client does not know the authority, even if `NODE_TLS_REJECT_UNAUTHORIZED` is 0', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    try {
      const error = await refusalOf(openClient({ endpoints: [etcd().endpoint] }));
      expect(error.message).toMatch(UNKNOWN_AUTHORITY);
    } finally {
      vi.unstubAllEnvs();
    }
  });
});

describe('the name that a certificate must contain', () => {
  test.each([
    ['no alternative names', [], 'none'],
    ['an IP address as its only alternative name', ['127.0.0.1'], 'IP Address:127.0.0.1'],
  ])('is not the common name of a certificate with %s', async (_, names, shown) => {
    etcd().show(await authority.issue({ commonName: 'localhost', names }));
    for (const serverName of [undefined, 'localhost']) {
      const error = await refusalOf(openClient({ endpoints: [etcd().byName], tls: { ...tls, serverName } }));
      expect(error).toMatchObject(CONNECT_FAILED);
      expect(error.message).toContain(
        `Host: localhost. is not in the cert's altnames: ${shown}; the server's certificate must contain this name`,
      );
    }
  });

  test('is the host of the endpoint, even if the certificate contains the host of another endpoint', async () => {
    etcd().show(await authority.issue({ names: ['127.0.0.1'] }));
    const [wrong, right] = [etcd().byName, etcd().endpoint];
    const client = openClient({ endpoints: [wrong, right], tls });
    const key = unique();
    await client.put(key, 'through');
    expect((await errorOf(client.get(key, { ...SOON, endpoint: wrong }))).message).toMatch(
      /altnames: Host: localhost\./,
    );
    etcd().show(await authority.issue({ names: ['localhost'] }));
    expect((await openClient({ endpoints: [right, wrong], tls }).get(key))?.text()).toBe('through');
    expect((await refusalOf(openClient({ endpoints: [right], tls }))).message).toMatch(WRONG_NAME);
  });

  test('is the host of each endpoint when two servers have certificates for different hosts', async (context) => {
    const second = await SecureEtcd.start(await authority.issue({ names: ['localhost'] }));
    if (second === undefined) return context.skip('the tests cannot start servers');
    try {
      etcd().show(await authority.issue({ names: ['127.0.0.1'] }));
      const key = unique();
      await openClient({ endpoints: [etcd().endpoint], tls }).put(key, 'first');
      await openClient({ endpoints: [second.byName], tls }).put(key, 'second');
      const read = async (...endpoints: string[]): Promise<string | undefined> =>
        (await openClient({ endpoints, tls }).get(key))?.text();
      expect(await read(second.endpoint, etcd().endpoint)).toBe('first');
      expect(await read(etcd().byName, second.byName)).toBe('second');
      const error = await refusalOf(openClient({ endpoints: [second.endpoint, etcd().byName], tls }));
      expect(error).toMatchObject(CONNECT_FAILED);
    } finally {
      await second.stop();
    }
  });

  test('is the host of each advertised endpoint, but the client falls back to the given endpoints on a mismatch', async () => {
    etcd().show(await authority.issue({ names: ['localhost'] }));
    const client = openClient({ endpoints: [etcd().byName], tls });
    const key = unique();
    expect(await client.sync()).toEqual([etcd().endpoint]);
    await client.put(key, 'through');
    expect((await errorOf(client.get(key, { ...SOON, endpoint: etcd().endpoint }))).message).toMatch(WRONG_NAME);
    expect((await client.get(key))?.text()).toBe('through');
  });

  test.each([
    ['with the same spelling', 'etcd.example', 'other.example'],
    ['with different capitalization', 'ETCD.Example', 'ETCD.Examples'],
    ['with a trailing dot', 'etcd.example.', 'etcd.'],
    ['with letters beyond ASCII', 'Bücher.example', 'bucher.example'],
    ['matched by a wildcard', 'm1.members.example', 'm1.m2.members.example'],
    ['as an IPv4 address', '10.9.8.7', '10.9.8.70'],
    ['as an IPv6 address', 'FD00:0:0::17', 'fd00::18'],
  ])('can be set by `tls.serverName`, %s', async (_, serverName, unlike) => {
    const names = ['etcd.example', 'xn--bcher-kva.example', '*.members.example', '10.9.8.7', 'fd00::17'];
    etcd().show(await authority.issue({ names }));
    const { endpoint } = etcd();
    await openClient({ endpoints: [endpoint], tls: { ...tls, serverName } }).get('a');
    const refused = openClient({ endpoints: [endpoint], tls: { ...tls, serverName: unlike } });
    expect((await refusalOf(refused)).message).toMatch(/altnames/);
  });
});

describe('a certificate that changes', () => {
  test('is checked only at the next connection, so an open connection outlives its certificate', async () => {
    etcd().show(await authority.issue({ ...HERE, untilMs: 3_000 }));
    const proxy = await faultProxy(etcd().endpoint);
    const client = openClient({ endpoints: [secure(proxy.endpoint)], tls });
    const key = unique();
    await client.put(key, 'before');
    await vi.waitFor(async () => {
      const error = await refusalOf(openClient({ endpoints: [etcd().endpoint], tls }));
      expect(error.message).toMatch(/has expired/);
    }, POLL);
    await client.put(key, 'after');
    expect(proxy.connections).toBe(1);
    proxy.dropConnections();
    expect((await errorOf(client.get(key, SOON))).message).toMatch(/has expired/);
    etcd().show(await authority.issue(HERE));
    expect(await client.get(key)).toMatchObject({ version: 2n });
  });

  test('is accepted at the next connection when the client trusts the authority of the new certificate', async () => {
    const proxy = await faultProxy(etcd().endpoint);
    const client = openClient({ endpoints: [secure(proxy.endpoint)], tls: { ca: `${authority.cert}${other.cert}` } });
    await client.get('a');
    etcd().show(await other.issue(HERE));
    expect((await refusalOf(openClient({ endpoints: [etcd().endpoint], tls }))).message).toMatch(UNKNOWN_AUTHORITY);
    await client.get('a');
    proxy.dropConnections();
    await client.get('a');
  });

  test('to an invalid certificate and back leaves no gap in a watch', async () => {
    const proxy = await faultProxy(etcd().endpoint);
    const [pre, steady] = [`${unique()}/`, openClient({ endpoints: [etcd().endpoint], tls })];
    let dials = 0;
    const client = openClient({
      endpoints: [secure(proxy.endpoint)],
      tls: () => {
        dials += 1;
        return tls;
      },
    });
    const watch = client.watch(prefix(pre));
    await watch.created();
    await steady.put(`${pre}0`, '');
    for (const bad of [
      await authority.issue({ ...HERE, untilMs: -1_000 }),
      await authority.issue({ names: ['etcd.example'] }),
      await other.issue(HERE),
    ]) {
      etcd().show(bad);
      proxy.dropConnections();
      dials = 0;
      await steady.put(`${pre}${Math.random()}`, '');
      await vi.waitFor(() => expect(dials).toBeGreaterThan(1), POLL);
      await steady.put(`${pre}${Math.random()}`, '');
    }
    etcd().show(await authority.issue(HERE));
    await steady.put(`${pre}last`, '');
    const seen: string[] = [];
    for await (const event of watch) {
      seen.push(event.key);
      if (event.key === `${pre}last`) break;
    }
    const { kvs } = await steady.range(prefix(pre), { sort: { target: 'modRevision', order: 'asc' } });
    expect(seen).toEqual(kvs.map((kv) => kv.key));
    expect(seen).toHaveLength(8);
  });
});

describe('an endpoint', () => {
  test('with `https:` does not connect to a server without TLS', async () => {
    const endpoint = secure(inject('endpoints')[0] as string);
    const error = await refusalOf(openClient({ endpoints: [endpoint], tls }));
    expect(error).toMatchObject(CONNECT_FAILED);
    expect(error.message).toMatch(/check the URL: https: for a server with TLS, http: for a server without/);
  });

  test('with `http:` does not connect to a server with TLS', async () => {
    const endpoint = etcd().endpoint.replace('https:', 'http:');
    const error = await refusalOf(openClient({ endpoints: [endpoint], tls }));
    expect(error).toMatchObject(CONNECT_FAILED);
    expect(error.message).toMatch(/check the URL: https: for a server with TLS, http: for a server without/);
  });
});
