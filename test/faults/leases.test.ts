import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { FaultyCluster } from '../load/cluster.js';
import { between } from '../load/rounds.js';
import { faultRow } from '../load/row.js';
import { openClient } from '../support/client.js';

// One stream keeps thousands of leases alive, even if its connection is lost and opened again (rules S13 and S14 in
// docs/semantics.md).

const LEASES = 5_000;
const TTL = 10;
/** Maximum number of concurrent grants or revocations. */
const BATCH = 250;

faultRow(
  '5,000 leases across a reconnect',
  () => FaultyCluster.start({ members: 1 }),
  async (fixture, { random }) => {
    const [proxy] = fixture.proxies;
    const etcd = openClient({ endpoints: fixture.proxied });
    const kept: ReturnType<typeof etcd.lease.keepAlive>[] = [];
    while (kept.length < LEASES) {
      const granted = await Promise.all(Array.from({ length: BATCH }, () => etcd.lease.grant({ ttl: TTL })));
      kept.push(...granted.map((lease) => etcd.lease.keepAlive(lease)));
    }
    const startedAt = performance.now();
    await pause(between(0, TTL * 1_000, random));
    proxy?.dropConnections();
    while (performance.now() - startedAt < 3 * TTL * 1_000) {
      expect(kept.filter((lease) => !lease.valid())).toEqual([]);
      await pause(200);
    }
    const { ids } = await etcd.lease.list();
    expect(new Set(ids)).toEqual(new Set(kept.map(({ id }) => id)));
    // Revoking all leases takes so long that the last leases may expire first. Ignore failures of these revocations.
    for (let first = 0; first < LEASES; first += BATCH)
      await Promise.allSettled(kept.slice(first, first + BATCH).map(({ id }) => etcd.lease.revoke(id)));
    return { faults: 1 };
  },
);
