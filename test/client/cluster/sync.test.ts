import { describe, expect, onTestFinished, test } from 'vitest';
import { type Environment, replaceEnvironment } from '../../../src/base/environment.js';
import { eventLoopTurn } from '../../../src/base/timers.js';
import { Session } from '../../../src/locks.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { recordingTransport } from '../../support/recording-transport.js';
import { valueText } from '../../support/watch-events.js';

const UNREACHABLE = 'http://127.0.0.1:1';

const AUTO_SYNC_MS = 50;

describe('`sync`', () => {
  test("finds all members through one member's endpoint, so the client still works when that member is killed", async (context) => {
    const { endpoints, members } = await ownEtcd({ members: 3 });
    const [first] = members;
    if (first === undefined) return context.skip('the tests did not start the servers, so they cannot kill them');
    const etcd = openClient({ endpoints: [first.endpoint] });
    const session = await Session.open(etcd);
    const watch = etcd.watch('k');
    await watch.created();
    expect((await etcd.sync()).toSorted()).toEqual(endpoints.toSorted());
    expect(etcd.endpoints.toSorted()).toEqual(endpoints.toSorted());
    await first.kill();
    // The client repeats a read, but not a write, until the cluster has a leader again. So this read comes first.
    await etcd.get('k', { timeoutMs: 20_000 });
    await etcd.put('k', 'x');
    for await (const event of watch) {
      expect(valueText(event)).toBe('x');
      break;
    }
    expect(session.valid()).toBe(true);
  });

  test('runs every `autoSyncIntervalMs` after the first call of the client, until the client is closed', async () => {
    const { endpoints } = await ownEtcd({ members: 3 });
    const { transport, sent } = recordingTransport();
    const lists = (): number => sent.filter(({ path }) => path === '/etcdserverpb.Cluster/MemberList').length;
    const timers = runningTimers(AUTO_SYNC_MS);
    for (const isDuringSync of [false, true]) {
      sent.length = 0;
      const etcd = openClient({ endpoints: endpoints.slice(0, 1), autoSyncIntervalMs: AUTO_SYNC_MS, transport });
      expect(sent).toEqual([]);
      await etcd.get('k');
      await expect.poll(lists).toBeGreaterThan(3);
      expect(etcd.endpoints.toSorted()).toEqual(endpoints.toSorted());
      // Between two syncs, the timer of the next one runs. During a sync, its request has just been sent.
      const before = lists();
      while (isDuringSync ? lists() === before : timers() === 0) await eventLoopTurn();
      await etcd.close();
      const after = lists();
      await eventLoopTurn();
      // Without a timer for the interval, nothing can start another sync.
      expect([timers(), lists()]).toEqual([0, after]);
    }
  });

  test('leaves out endpoints that `allowEndpoint` refuses, and keeps the current endpoints when `allowEndpoint` refuses every endpoint', async () => {
    const { endpoints } = await ownEtcd({ members: 3 });
    const [first = '', second = ''] = endpoints;
    const one = openClient({ endpoints: [first], allowEndpoint: (url) => url === second });
    expect(await one.sync()).toEqual([second]);
    const none = openClient({ endpoints: [first], allowEndpoint: () => false });
    expect(await none.sync()).toEqual([first]);
    const broken = openClient({
      endpoints: [first],
      allowEndpoint: () => {
        throw new RangeError('a foreign URL');
      },
    });
    await expect(broken.sync()).rejects.toThrow('a foreign URL');
    expect((await broken.get('k'))?.text()).toBeUndefined();
  });

  test('keeps the configured endpoints as a fallback when no advertised endpoint answers', async () => {
    // Behind a load balancer, for example, the client cannot reach the URL that the member advertises.
    const { endpoints } = await ownEtcd({ args: [`--advertise-client-urls=${UNREACHABLE}`] });
    const etcd = openClient({ endpoints, connectTimeoutMs: 300 });
    expect(await etcd.sync()).toEqual([UNREACHABLE]);
    await etcd.put('k', 'x', { timeoutMs: 5_000 });
    expect((await etcd.get('k'))?.text()).toBe('x');
  });

  test('cannot be configured with an invalid `autoSyncIntervalMs` or `allowEndpoint`', async () => {
    for (const options of [{ autoSyncIntervalMs: 0 }, { autoSyncIntervalMs: '5' }, { allowEndpoint: 'https://a' }]) {
      const given = Promise.resolve().then(() => openClient(options as never));
      expect(await errorOf(given)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    }
  });
});

/**
 * Returns a function that counts the running timers of at most `maxMs` that `src/` has started since `runningTimers`
 * was called.
 */
function runningTimers(maxMs: number): () => number {
  const running = new Set<unknown>();
  const real = globalThis as unknown as Environment;
  const restore = replaceEnvironment({
    performance: real.performance,
    Date: real.Date,
    Math: real.Math,
    crypto: real.crypto,
    setImmediate: (action) => real.setImmediate(action),
    setTimeout: (action, delayMs) => {
      const timer = real.setTimeout(() => {
        running.delete(timer);
        action();
      }, delayMs);
      if (delayMs <= maxMs) running.add(timer);
      return timer;
    },
    clearTimeout: (timer) => {
      running.delete(timer);
      real.clearTimeout(timer);
    },
  });
  onTestFinished(restore);
  return () => running.size;
}
