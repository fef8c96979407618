import { getEventListeners } from 'node:events';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Deadlines } from '../../../src/base/timers.js';
import { KeepAlive, Moment } from '../../../src/client/lease/keep-alive.js';
import { RenewalStream } from '../../../src/client/lease/renewal-stream.js';
import { methods } from '../../../src/gen/methods.js';
import { ROOT } from '../../support/auth-etcd.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { scriptedServer, scriptedStream, scriptedUnary } from '../../support/scripted-server.js';
import { silentRpc } from '../../support/silent-rpc.js';

test('`renewed` rejects with reason LeaseUnreachable when the server acknowledges the first renewal only after the lease may have expired (S14)', async () => {
  const kept = new KeepAlive(5n, new Deadlines());
  const renewed = kept.renewed();
  kept.acknowledged(new Moment(2_000), 1);
  expect(await errorOf(renewed)).toMatchObject({ reason: 'LeaseUnreachable' });
});

test('a lease with a TTL of 1 s stays alive when the server ends each stream after one answer', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(1 - Number.EPSILON);
  onTestFinished(() => void vi.restoreAllMocks());
  let answers = 0;
  const endpoint = await scriptedServer(
    scriptedStream(methods.lease.leaseKeepAlive, async (stream) => {
      const { id } = await stream.receive();
      answers += 1;
      stream.send({ id, ttl: 1n });
      stream.fail(14, 'gone');
    }),
  );
  const kept = openClient({ endpoints: [endpoint] }).lease.keepAlive(5n);
  await expect.poll(() => kept.signal.aborted || answers > 8).toBe(true);
  expect(kept.signal.aborted).toBe(false);
});

test('a keepalive is lost after four streams when the server refuses every token with status Unknown', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0);
  onTestFinished(() => void vi.restoreAllMocks());
  let streams = 0;
  const endpoint = await scriptedServer(
    scriptedUnary(methods.auth.authenticate, () => ({ token: 't' })),
    scriptedStream(methods.lease.leaseKeepAlive, async (stream) => {
      streams += 1;
      stream.fail(2, 'etcdserver: invalid auth token');
    }),
  );
  const kept = openClient({ endpoints: [endpoint], auth: ROOT }).lease.keepAlive(5n);
  expect(await errorOf(kept.renewed())).toMatchObject({ reason: 'InvalidAuthToken' });
  expect(streams).toBe(4);
});

test('a closed keepalive leaves no listener on the signal that aborts when the client closes', async () => {
  const { signal } = new AbortController();
  const renewals = new RenewalStream(silentRpc(signal));
  const kept = [renewals.keepAlive(5n), renewals.keepAlive(6n)];
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  for (const each of kept) await each.close();
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
});

test('the TTL of a granted lease counts from the first attempt to grant the lease, even if that attempt fails (S14, S15)', async () => {
  const attempts: number[] = [];
  const endpoint = await scriptedServer(
    scriptedUnary(methods.lease.leaseGrant, () => {
      attempts.push(performance.now());
      if (attempts.length === 1) throw { code: 14, details: 'gone' };
      return { header: { revision: 5n }, id: 7n, ttl: 10n };
    }),
  );
  vi.spyOn(Math, 'random').mockReturnValue(1 - Number.EPSILON);
  onTestFinished(() => void vi.restoreAllMocks());
  const { ttl, sentAt } = await openClient({ endpoints: [endpoint] }).lease.grant({ ttl: 10 });
  expect(ttl).toBe(10);
  expect(sentAt).toBeLessThanOrEqual(attempts[0] as number);
});

test('a grant rejects when `timeoutMs` has passed, even if each attempt fails immediately', async () => {
  const attempts: number[] = [];
  const endpoint = await scriptedServer(
    scriptedUnary(methods.lease.leaseGrant, () => {
      attempts.push(performance.now());
      throw { code: 14, details: 'no server is here' };
    }),
  );
  const etcd = openClient({ endpoints: [endpoint] });
  const startedAt = performance.now();
  expect(await errorOf(etcd.lease.grant({ ttl: 10, timeoutMs: 2_000 }))).toMatchObject({
    reason: 'DeadlineExceeded',
    outcome: 'unknown',
    problem: expect.stringMatching(/^call did not finish within timeoutMs = 2000; last failure: .*no server is here/),
  });
  expect(attempts.length).toBeGreaterThan(1);
  // One attempt may still be on its way to the server when `timeoutMs` has passed. No attempt starts afterwards.
  expect(attempts.filter((at) => at > startedAt + 2_000).length).toBeLessThanOrEqual(1);
});
