import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { Mutex, Session } from '../../src/concurrency/index.js';
import { Client, prefix } from '../../src/index.js';
import { enableAuth, USER } from '../support/auth-etcd.js';
import { openClient } from '../support/client.js';
import { FaultyCluster } from '../support/faults/cluster.js';
import { between } from '../support/faults/rounds.js';
import { faultRow } from '../support/faults/row.js';
import { callsReceived } from '../support/metrics.js';

const EXPIRIES = 10;
/** A token lives a second after its last use, and the server looks once a second. */
const UNTIL_EXPIRED_MS = 2_200;
const PUTS = 20;

faultRow('token expires', openWithAuth, async ({ endpoints }, { seed, random }) => {
  const name = `app/${seed}`;
  const [etcd, other] = [openClient({ endpoints, auth: USER }), openClient({ endpoints, auth: USER })];
  const watch = etcd.watch(prefix(`${name}/watched/`));
  const seen: string[] = [];
  const watching = (async () => {
    for await (const { kv } of watch) seen.push(kv.text());
  })();
  await watch.created();
  await using holder = await Session.open(etcd, { ttl: 5 });
  await using waiter = await Session.open(other, { ttl: 5 });
  const held = await new Mutex(holder, `${name}/lock`).lock();
  const queued = new Mutex(waiter, `${name}/lock`).lock();
  const put: string[] = [];
  const recoveryMs: number[] = [];
  for (let expiry = 0; expiry < EXPIRIES; expiry += 1) {
    await pause(UNTIL_EXPIRED_MS);
    const before = await callsReceived(endpoints, 'Authenticate');
    const values = Array.from({ length: Math.ceil(between(0, PUTS, random)) }, (_, index) => `${expiry}.${index}`);
    const expiredAt = performance.now();
    await Promise.all(values.map((value) => other.put(`${name}/watched/${value}`, value)));
    recoveryMs.push(performance.now() - expiredAt);
    put.push(...values);
    // Each client at most once, however many calls, streams and keepalives hear that the token is refused.
    expect((await callsReceived(endpoints, 'Authenticate')) - before).toBeLessThanOrEqual(2);
  }
  await expect.poll(() => seen.length).toBe(put.length);
  expect(seen.toSorted()).toEqual(put.toSorted());
  expect([held.valid(), holder.valid(), waiter.valid()]).toEqual([true, true, true]);
  await held.unlock();
  await (await queued).unlock();
  await watch.close();
  await watching;
  const { kvs } = await etcd.range(prefix(`${name}/watched/`));
  expect(kvs.filter(({ version }) => version !== 1n)).toEqual([]);
  return { faults: EXPIRIES, events: seen.length, puts: put.length, recoveryMs };
});

async function openWithAuth(): Promise<FaultyCluster | undefined> {
  const fixture = await FaultyCluster.start({ members: 1, args: ['--auth-token=simple', '--auth-token-ttl=1'] });
  if (fixture === undefined) return undefined;
  await using client = new Client({ endpoints: fixture.endpoints });
  await enableAuth(client);
  return fixture;
}
