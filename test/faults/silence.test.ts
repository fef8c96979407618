import { createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, inject, onTestFinished } from 'vitest';
import { Session } from '../../src/concurrency/index.js';
import type { Client, KeepAlive } from '../../src/index.js';
import type { EtcdMember } from '../../src/testing/index.js';
import { openClient } from '../support/client.js';
import { FaultyCluster } from '../support/faults/cluster.js';
import { pick, type Round, variant } from '../support/faults/rounds.js';
import { type Figures, faultRow } from '../support/faults/row.js';
import { underLoad } from '../support/faults/under-load.js';

// Members that do not answer, whose connections stay (S10, S16, S30).

/** The shortest interval that etcd allows, so that a round does not take long. */
const PINGS = { pingIntervalMs: 5_000, pingTimeoutMs: 1_000 } as const;
/**
 * The silence of a request after which the client probes, the timeout of the probe, and a second. The next renewal of a
 * lease may be due only later. grpc-js probes in intervals alone.
 */
const PROBED_AFTER_MS = inject('transport') === 'grpc-js' ? PINGS.pingIntervalMs : 1_000;
const LEFT_WITHIN_MS = PROBED_AFTER_MS + PINGS.pingTimeoutMs + 1_000;
const LEFT_MS = { watch: LEFT_WITHIN_MS, call: LEFT_WITHIN_MS, renewal: LEFT_WITHIN_MS + 1_500 } as const;
/**
 * From when a member has no leader: for its streams, watch and keepalive; and for a read, which etcd gives up after 7 s,
 * in a batch that may have had to wait for the one before.
 */
const NO_LEADER_MS = { watch: 5_000, call: 15_000, renewal: 5_000 } as const;
/** A bound for hangs. */
const GIVE_UP_MS = 60_000;
const CONNECT_TIMEOUT_MS = 500;
/** For all but the waits for silent endpoints: less than what these take longer where the limit above is not kept. */
const CONNECTED_MS = 1_000;
/** By which the client takes a lease for lost before the server does. */
const LEASE_MARGIN_MS = 1_000;
/** A third of it passes until the next renewal. */
const LEASE_TTL = 10;

faultRow(
  'member paused',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, () => leftBy(fixture, round, LEFT_MS, async (member) => member.pause()), PINGS),
);

faultRow(
  'half-open, one-way, black hole',
  () => FaultyCluster.start(),
  (fixture, round) => {
    const verb = variant(['blackhole', 'to-server', 'to-client', 'pause'] as const, round);
    const silence = async (member: EtcdMember): Promise<void> => {
      const proxy = fixture.proxyOf(member);
      if (verb === 'blackhole' || verb === 'pause') proxy[verb]();
      else proxy.oneWay(verb);
    };
    return underLoad(fixture, round, () => leftBy(fixture, round, LEFT_MS, silence), PINGS);
  },
);

faultRow(
  'member partitioned from its peers',
  () => FaultyCluster.start({ peerProxies: true }),
  (fixture, round) => {
    const cutOff = async (member: EtcdMember): Promise<void> => {
      await fixture.cluster.partition(member);
      const { maintenance } = openClient({ endpoints: [member.endpoint] });
      // Half a second to two, as it is the leader or follows one, and by chance.
      await expect.poll(async () => (await maintenance.status(member.endpoint)).leader).toBe(0n);
    };
    return underLoad(fixture, round, () => leftBy(fixture, round, NO_LEADER_MS, cutOff));
  },
);

faultRow(
  'accepts, never speaks',
  () => FaultyCluster.start({ members: 1 }),
  async ({ endpoints }, { seed }) => {
    const recoveryMs: number[] = [];
    for (const silent of [[await neverSpeaks()], [await neverSpeaks(), await neverSpeaks()]]) {
      const etcd = openClient({ endpoints: [...silent, ...endpoints], connectTimeoutMs: CONNECT_TIMEOUT_MS });
      const startedAt = performance.now();
      const watch = etcd.watch(`s-${seed}`);
      await etcd.put(`s-${seed}`, 'x');
      await watch.created();
      const connectedMs = performance.now() - startedAt;
      expect(connectedMs).toBeLessThan(silent.length * CONNECT_TIMEOUT_MS + CONNECTED_MS);
      recoveryMs.push(connectedMs);
      await using session = await Session.open(etcd);
      expect(session.valid()).toBe(true);
    }
    return { faults: recoveryMs.length, recoveryMs };
  },
);

/** Silences the member that a call, a watch and a keepalive are at, and tells how long they take to leave it for another. */
async function leftBy(
  fixture: FaultyCluster,
  { random }: Round,
  bounds: { readonly watch: number; readonly call: number; readonly renewal: number },
  silence: (member: EtcdMember) => Promise<void>,
): Promise<Pick<Figures, 'faults' | 'recoveryMs' | 'further'>> {
  const member = pick(fixture.members, random);
  const etcd = openClient({ endpoints: fixture.endpointsFromMember(member), ...PINGS });
  const others = openClient({ endpoints: fixture.endpoints.filter((endpoint) => endpoint !== member.endpoint) });
  const key = `left-${random()}`;
  await using alive = etcd.lease.keepAlive(await etcd.lease.grant({ ttl: LEASE_TTL }));
  await using watch = etcd.watch(key);
  await watch.created();
  await silence(member);
  const silentAt = performance.now();
  const leaving = Promise.all([
    timeOf(watch.batches().next(), silentAt),
    timeOf(renewedSince(alive, silentAt), silentAt),
    timeOf(etcd.get(key, { timeoutMs: GIVE_UP_MS }), silentAt),
  ]);
  leaving.catch(() => {});
  await putOnce(others, key);
  const [watchMs, renewedMs, callMs] = await leaving;
  expect(watchMs).toBeLessThan(bounds.watch);
  expect(renewedMs).toBeLessThan(bounds.renewal);
  expect(callMs).toBeLessThan(bounds.call);
  expect(alive.valid()).toBe(true);
  const further = { 'ms until a call was answered': callMs, 'ms until a lease was renewed': renewedMs };
  return { faults: 1, recoveryMs: [watchMs], further };
}

/** A read is repeated until there is a leader, then a write comes through. */
async function putOnce(etcd: Client, key: string): Promise<void> {
  await etcd.get(key, { timeoutMs: GIVE_UP_MS });
  await etcd.put(key, 'x', { timeoutMs: GIVE_UP_MS });
}

/** Until a renewal that was sent after `sinceMs` is acknowledged: only such a one lets the lease live for so long. */
async function renewedSince(alive: KeepAlive, sinceMs: number): Promise<void> {
  const least = sinceMs + LEASE_TTL * 1_000 - LEASE_MARGIN_MS;
  await expect
    .poll(() => performance.now() + alive.remainingMs(), { timeout: 30_000, interval: 10 })
    .toBeGreaterThan(least);
}

async function timeOf(work: Promise<unknown>, since: number): Promise<number> {
  const late = pause(GIVE_UP_MS, undefined, { ref: false }).then(() => {
    throw new Error(`what a silent member was asked is not answered by another within ${GIVE_UP_MS} ms`);
  });
  await Promise.race([work, late]);
  return performance.now() - since;
}

/** Takes connections, and that is all. */
async function neverSpeaks(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket.on('error', () => {})));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}
