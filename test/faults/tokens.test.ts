import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { Client, prefix } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { FaultyCluster } from '../load/cluster.js';
import { faultRow } from '../load/row.js';
import { enableAuth, USER } from '../support/auth-etcd.js';
import { openClient } from '../support/client.js';
import { queueLength } from '../support/locks.js';
import { recordingTransport } from '../support/recording-transport.js';
import { valueText } from '../support/watch-events.js';

/** The number of times that the tokens expire in one run of the test. */
const EXPIRIES = 10;
/** Lifetime of a token in seconds. It is long enough for the client to use a new token before that token expires. */
const TOKEN_TTL = 2;
/**
 * How long to wait until a token has expired, in milliseconds. The server removes expired tokens once a second, so a
 * token may live 1 s longer than `TOKEN_TTL`. The last 500 ms are a margin.
 */
const UNTIL_EXPIRED_MS = (TOKEN_TTL + 1) * 1_000 + 500;
/** TTL of a lease in seconds. The client renews the lease every 4 s, so the token has expired before each renewal. */
const KEPT_TTL = 12;
/** TTL of the sessions in seconds. It is so long that the client does not renew their leases during the test. */
const SESSION_TTL = 3_600;
/** The maximum number of puts after each expiry of the tokens. */
const PUTS = 20;

faultRow('expired auth tokens', openWithAuth, async ({ endpoints, proxied, proxies }, { seed, random }) => {
  const name = `app/${seed}`;
  const [writer, etcd, other, keeper] = [counted(endpoints), counted(proxied), counted(proxied), counted(proxied)];
  await writer.client.get(name);
  const watch = etcd.client.watch(prefix(`${name}/watched/`));
  const seen: string[] = [];
  const watching = (async () => {
    for await (const event of watch) seen.push(valueText(event));
  })();
  watching.catch(() => {});
  await watch.created();
  await using holder = await Session.open(etcd.client, { ttl: SESSION_TTL });
  await using waiter = await Session.open(other.client, { ttl: SESSION_TTL });
  await using kept = keeper.client.lease.keepAlive(await keeper.client.lease.grant({ ttl: KEPT_TTL }));
  const held = await new Mutex(holder, `${name}/lock`).lock();
  const queued = new Mutex(waiter, `${name}/lock`).lock();
  queued.catch(() => {});
  await queueLength(writer.client, `${name}/lock`, 2);
  const authentications = (): number[] => [writer, etcd, other].map((each) => each.authentications());
  const put: string[] = [];
  const recoveryMs: number[] = [];
  for (let expiry = 1; expiry <= EXPIRIES; expiry += 1) {
    await pause(UNTIL_EXPIRED_MS);
    const before = authentications();
    const values = Array.from({ length: 1 + Math.floor(PUTS * random()) }, (_, index) => `${expiry}.${index}`);
    const expiredAt = performance.now();
    // The clients `etcd`, `other` and `keeper` have to open their streams again with their expired tokens. The client
    // `writer` makes calls with its expired token.
    for (const proxy of proxies) proxy.dropConnections();
    await Promise.all(values.map((value) => writer.client.put(`${name}/watched/${value}`, value)));
    put.push(...values);
    await expect.poll(() => seen.length, { interval: 5 }).toBe(put.length);
    recoveryMs.push(performance.now() - expiredAt);
    const renewed = (): number[] => authentications().map((count, client) => count - (before[client] ?? 0));
    // The client `other` authenticates when it opens its watch again, which may follow a pause of 2 s.
    await expect.poll(() => Math.min(...renewed())).toBeGreaterThan(0);
    // Each client authenticates once, however many of its calls and streams fail because of the token. On a slow
    // machine the new token may expire as well, and the client authenticates once more.
    const lifetimes = Math.floor((performance.now() - expiredAt) / (TOKEN_TTL * 1_000));
    expect(Math.max(...renewed())).toBeLessThanOrEqual(1 + lifetimes);
  }
  expect(seen.toSorted()).toEqual(put.toSorted());
  expect([held, holder, waiter, kept].map((each) => each.valid())).toEqual([true, true, true, true]);
  await held.release();
  await (await queued).release();
  await watch.close();
  await watching;
  const { kvs } = await writer.client.range(prefix(`${name}/watched/`));
  expect(kvs.filter(({ version }) => version !== 1n)).toEqual([]);
  const renewals = { "authentications for a lease's renewals": keeper.authentications() - 1 };
  return { faults: EXPIRIES, events: seen.length, puts: put.length, recoveryMs, further: renewals };
});

/** Opens a client and counts its Authenticate calls. */
function counted(endpoints: readonly string[]): { readonly client: Client; readonly authentications: () => number } {
  const { transport, sent } = recordingTransport();
  const client = openClient({ endpoints: [...endpoints], auth: USER, transport });
  return { client, authentications: () => sent.filter(({ path }) => path.endsWith('/Authenticate')).length };
}

async function openWithAuth(): Promise<FaultyCluster | undefined> {
  const args = ['--auth-token=simple', `--auth-token-ttl=${TOKEN_TTL}`];
  const fixture = await FaultyCluster.start({ members: 1, args });
  if (fixture === undefined) return undefined;
  await using client = new Client({ endpoints: fixture.endpoints, auth: { allowPlaintext: true } });
  await enableAuth(client);
  return fixture;
}
