import { expect } from 'vitest';
import { type Client, EtcdError, type Logger, op } from '../../src/index.js';
import { Session } from '../../src/locks.js';
import type { EtcdMember } from '../../src/testing/index.js';
import { FaultyCluster } from '../load/cluster.js';
import { pick } from '../load/rounds.js';
import { faultRow } from '../load/row.js';
import { openClient } from '../support/client.js';

// In these tests, each client makes calls of only one kind. So the client can learn of a fault only from these calls,
// and not from another call or stream (rule S30 in docs/semantics.md).

const PINGS = { pingIntervalMs: 5_000, pingTimeoutMs: 1_000 } as const;
/** The time after which a member without a leader refuses a write (`ReqTimeout` in etcd's server/config). */
const REFUSED_AFTER_MS = 7_000;
/**
 * The maximum time until a client uses another member. A call may have to wait until a member refuses an earlier batch
 * of reads. With grpc-js, the client notices a silent member only by pings at fixed intervals.
 */
const LEFT_WITHIN_MS = 2 * REFUSED_AFTER_MS + PINGS.pingIntervalMs + PINGS.pingTimeoutMs;
/** Time limits of calls: longer than the time after which a member refuses a write, and much shorter. */
const LONG_MS = 12_000;
const SHORT_MS = 300;
/** After at least this many failed calls in a row, the test fails, because the client does not seem to leave the member. */
const MAX_CALLS = 8;

/** The kinds of calls. `name` is a key that no other caller uses. */
const CALLS: Readonly<Record<string, (etcd: Client, name: string) => Promise<unknown>>> = {
  get: (etcd, name) => etcd.get(name),
  put: (etcd, name) => etcd.put(name, 'x'),
  delete: (etcd, name) => etcd.delete(name),
  txn: (etcd, name) => etcd.txn({ then: [op.put(name, 'x')] }),
  grant: (etcd) => etcd.lease.grant({ ttl: 60 }),
  revoke: (etcd) => etcd.lease.revoke(UNKNOWN_LEASE).catch(unlessLeaseNotFound),
  'time to live': (etcd) => etcd.lease.timeToLive(UNKNOWN_LEASE),
  'member list': (etcd) => etcd.cluster.memberList(),
  'user list': (etcd) => etcd.auth.userList(),
  session: async (etcd) => (await Session.open(etcd)).close(),
};
const UNKNOWN_LEASE = 1n;

function unlessLeaseNotFound(error: unknown): void {
  if (!(error instanceof EtcdError) || error.reason !== 'LeaseNotFound') throw error;
}

/** The faults of a member. Each function resolves when the fault has begun. */
const FAULTS: Readonly<Record<string, (fixture: FaultyCluster, member: EtcdMember) => Promise<void>>> = {
  'cut off from its peers': async ({ cluster }, member) => {
    await cluster.partition(member);
    const { maintenance } = openClient({ endpoints: [member.endpoint] });
    await expect.poll(async () => (await maintenance.status(member.endpoint)).leader).toBe(0n);
  },
  paused: async (_, member) => member.pause(),
  'whose connections are silent': async (fixture, member) => fixture.proxyOf(member).blackhole(),
};

for (const [fault, injectFault] of Object.entries(FAULTS))
  faultRow(
    `each kind of call alone, at a member ${fault}`,
    () => FaultyCluster.start({ peerProxies: true }),
    async (fixture, { seed, random }) => {
      const member = pick(fixture.members, random);
      const endpoints = fixture.endpointsFromMember(member);
      const callers = [LONG_MS, SHORT_MS].flatMap((timeoutMs) =>
        Object.entries(CALLS).map(
          ([kind, call]) =>
            new Caller(
              `${kind} within ${timeoutMs} ms`,
              call,
              endpoints,
              timeoutMs,
              `alone-${kind}-${timeoutMs}-${seed}`,
            ),
        ),
      );
      await Promise.all(callers.map((caller) => caller.untilSuccess()));
      await injectFault(fixture, member);
      const recoveryMs = await Promise.all(callers.map((caller) => caller.untilSuccess()));
      for (const caller of callers) {
        // On a busy machine, and while the members elect a leader, short calls may time out at other members too.
        const left = caller.timeoutMs === LONG_MS ? caller.leftEndpoints : caller.leftEndpoints.slice(0, 1);
        expect(left, caller.kind).toEqual([endpoints[0]]);
      }
      return { faults: 1, recoveryMs };
    },
  );

/** Makes calls of one kind with a client of its own, one call after the other. */
class Caller {
  readonly kind: string;
  readonly timeoutMs: number;
  /** The endpoints that the client has logged as unavailable. */
  readonly leftEndpoints: unknown[] = [];
  readonly #make: () => Promise<unknown>;

  constructor(
    kind: string,
    call: (etcd: Client, name: string) => Promise<unknown>,
    endpoints: readonly string[],
    timeoutMs: number,
    name: string,
  ) {
    this.kind = kind;
    this.timeoutMs = timeoutMs;
    const logger: Logger = {
      warn: (message, details) => {
        if (message === 'endpoint unavailable') this.leftEndpoints.push(details?.endpoint);
      },
    };
    const etcd = openClient({ endpoints, balance: 'in-order', timeoutMs, logger, ...PINGS });
    this.#make = () => call(etcd, name);
  }

  /** Makes calls until one succeeds. Returns how long this takes, in milliseconds. */
  async untilSuccess(): Promise<number> {
    const startedAt = performance.now();
    const maxCalls = Math.max(MAX_CALLS, LEFT_WITHIN_MS / this.timeoutMs);
    for (let calls = 1; ; calls += 1) {
      try {
        await this.#make();
        break;
      } catch (error) {
        expect(error).toBeInstanceOf(EtcdError);
        if (calls >= maxCalls) throw new Error(`${this.kind}: ${calls} calls failed`, { cause: error });
      }
    }
    const tookMs = performance.now() - startedAt;
    expect(tookMs, this.kind).toBeLessThan(LEFT_WITHIN_MS);
    return tookMs;
  }
}
