import { createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, inject, onTestFinished } from 'vitest';
import type { Client, KeepAlive } from '../../src/index.js';
import { Session } from '../../src/locks.js';
import type { EtcdMember } from '../../src/testing/index.js';
import { FaultyCluster } from '../load/cluster.js';
import { pick, type Round, variant } from '../load/rounds.js';
import { type Figures, faultRow, underLoad } from '../load/row.js';
import { openClient } from '../support/client.js';

// Members stop responding while their connections stay open (rules S10, S16 and S30 in docs/semantics.md). The client
// must move to another member in time.

/** Ping options for the client under test. The interval is the minimum that etcd allows, to keep the tests short. */
const PINGS = { pingIntervalMs: 5_000, pingTimeoutMs: 1_000 } as const;
/**
 * The maximum time that a request waits for a response before the client sends a ping. With grpc-js, the client sends
 * pings only at fixed intervals.
 */
const PROBED_AFTER_MS = inject('transport') === 'grpc-js' ? PINGS.pingIntervalMs : 1_000;
/**
 * The maximum time until the client uses another member: the time for a ping, and 2.5 s for everything else, because the
 * machine may be busy. Without the ping before the ping interval, a client would need 6 s.
 */
const LEFT_WITHIN_MS = PROBED_AFTER_MS + PINGS.pingTimeoutMs + 2_500;
/**
 * The maximum times until a watch, a call and a lease renewal use another member. A renewal has 1.5 s more, because the
 * next renewal may not be due yet.
 */
const LEFT_MS = { watch: LEFT_WITHIN_MS, call: LEFT_WITHIN_MS, renewal: LEFT_WITHIN_MS + 1_500 } as const;
/**
 * The maximum times until the client uses another member, after the client's member has lost contact with the leader. A
 * call takes longest, because etcd fails a read after 7 s, and the read may first wait for an earlier batch of reads.
 */
const NO_LEADER_MS = { watch: 5_000, call: 15_000, renewal: 5_000 } as const;
/** Time limit of each measured step. If the client never moves to another member, the test fails instead of hanging. */
const GIVE_UP_MS = 60_000;
const CONNECT_TIMEOUT_MS = 500;
/** The maximum time to connect to the endpoint that works, not counting the timeouts of the silent endpoints. */
const CONNECTED_MS = 1_000;
/** The client considers a lease expired this many milliseconds before the server does. */
const LEASE_MARGIN_MS = 1_000;
/** TTL of the lease in seconds. The client renews the lease after a third of the TTL. */
const LEASE_TTL = 10;

faultRow(
  'paused member',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, () => leftBy(fixture, round, LEFT_MS, async (member) => member.pause()), PINGS),
);

faultRow(
  'connections to a member silent in one or both directions',
  () => FaultyCluster.start(),
  (fixture, round) => {
    const kind = variant(['blackhole', 'to-server', 'to-client', 'pause'] as const, round);
    const silence = async (member: EtcdMember): Promise<void> => {
      const proxy = fixture.proxyOf(member);
      if (kind === 'blackhole' || kind === 'pause') proxy[kind]();
      else proxy.oneWay(kind);
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
      // The member notices the partition after 0.5 to 2 s, and then reports that it has no leader.
      await expect.poll(async () => (await maintenance.status(member.endpoint)).leader).toBe(0n);
    };
    return underLoad(fixture, round, () => leftBy(fixture, round, NO_LEADER_MS, cutOff));
  },
);

faultRow(
  'endpoint that accepts connections and never responds',
  () => FaultyCluster.start({ members: 1 }),
  async ({ endpoints }, { seed }) => {
    const recoveryMs: number[] = [];
    for (const silent of [[await silentServer()], [await silentServer(), await silentServer()]]) {
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

/**
 * Silences the member that a call, a watch and a keepalive use. Measures how long each of the three takes to move to
 * another member.
 */
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
  const further = { 'ms until a call succeeded': callMs, 'ms until a lease was renewed': renewedMs };
  return { faults: 1, recoveryMs: [watchMs], further };
}

/**
 * Puts the key once. First reads the key: the client repeats a read, but not a put, until the cluster has a leader.
 */
async function putOnce(etcd: Client, key: string): Promise<void> {
  await etcd.get(key, { timeoutMs: GIVE_UP_MS });
  await etcd.put(key, 'x', { timeoutMs: GIVE_UP_MS });
}

/**
 * Resolves when the server has acknowledged a renewal that was sent after `sinceMs`. Only such a renewal extends the
 * lease to a full TTL after `sinceMs`.
 */
async function renewedSince(alive: KeepAlive, sinceMs: number): Promise<void> {
  const least = sinceMs + LEASE_TTL * 1_000 - LEASE_MARGIN_MS;
  await expect
    .poll(() => performance.now() + alive.remainingMs(), { timeout: 30_000, interval: 10 })
    .toBeGreaterThan(least);
}

async function timeOf(work: Promise<unknown>, since: number): Promise<number> {
  const late = pause(GIVE_UP_MS, undefined, { ref: false }).then(() => {
    throw new Error(`no other member responded within ${GIVE_UP_MS} ms`);
  });
  await Promise.race([work, late]);
  return performance.now() - since;
}

/** Starts a server that accepts connections and sends nothing. Resolves with its endpoint. */
async function silentServer(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket.on('error', () => {})));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}
