import { expect, test } from 'vitest';
import { health } from '../../../src/index.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';

test('`health` shows the leader, the version and the latency of each member', async () => {
  const { endpoints } = await ownEtcd({ members: 3 });
  const { canServe, allHealthy, endpoints: found } = await health(openClient({ endpoints }));
  expect({ canServe, allHealthy }).toEqual({ canServe: true, allHealthy: true });
  expect(found.map(({ endpoint }) => endpoint)).toEqual(endpoints);
  expect(found.filter(({ isLeader }) => isLeader)).toHaveLength(1);
  expect(new Set(found.map(({ memberId }) => memberId)).size).toBe(3);
  for (const each of found) {
    expect(each).toMatchObject({ isHealthy: true, error: undefined, isLearner: false, problems: [] });
    expect(each.version).toMatch(/^3\.\d+\.\d+/);
    expect(each.latencyMs).toBeGreaterThan(0);
    expect(each.dbSize).toBeGreaterThan(0n);
  }
});

test('`health` shows a member that is down, with the reason, and the other members', async (context) => {
  const { endpoints, members } = await ownEtcd({ members: 3 });
  const etcd = openClient({ endpoints });
  const { endpoints: before } = await health(etcd);
  const down = members[before.findIndex(({ isLeader }) => isLeader === false)];
  if (down === undefined) return context.skip('the tests did not start the servers, so they cannot kill them');
  await down.kill();
  const { canServe, allHealthy, endpoints: found } = await health(etcd, { timeoutMs: 1_000 });
  expect({ canServe, allHealthy }).toEqual({ canServe: true, allHealthy: false });
  for (const each of found) {
    expect(each.isHealthy).toBe(each.endpoint !== down.endpoint);
    if (each.isHealthy) continue;
    expect(each.error).toMatchObject({ reason: 'DeadlineExceeded', cause: { reason: 'ConnectFailed' } });
    expect(each).toMatchObject({ latencyMs: undefined, version: undefined, isLeader: undefined });
  }
});

test('`health` shows that a member without a quorum is not healthy, although it answers', async (context) => {
  const { endpoints, members } = await ownEtcd({ members: 3 });
  const [first, second, third] = members;
  if (first === undefined) return context.skip('the tests did not start the servers, so they cannot kill them');
  const etcd = openClient({ endpoints });
  await Promise.all([second?.kill(), third?.kill()]);
  const { canServe, endpoints: found } = await health(etcd, { timeoutMs: 1_000 });
  expect(canServe).toBe(false);
  const alive = found.find(({ endpoint }) => endpoint === first.endpoint);
  expect(alive?.isHealthy).toBe(false);
  expect(alive?.version).toMatch(/^3\./);
});

test('`health` resolves at once when its signal aborts', async () => {
  const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
  const { endpoints } = await health(etcd, { signal: AbortSignal.abort(), timeoutMs: 60_000 });
  expect(endpoints).toMatchObject([{ isHealthy: false, error: { reason: 'Canceled' } }]);
});

test('`health` refuses wrong arguments', async () => {
  for (const call of [() => health({} as never), () => health(openClient(), { timeoutMs: -1 })])
    expect(await errorOf(call)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
});
