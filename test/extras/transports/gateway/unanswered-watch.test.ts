import { expect, inject, onTestFinished, test } from 'vitest';
import type { EtcdError } from '../../../../src/base/etcd-error.js';
import { gateway } from '../../../../src/gateway.js';
import { methods } from '../../../../src/gen/methods.js';
import { parseEndpoint } from '../../../../src/host/endpoint.js';
import { withLock } from '../../../../src/locks.js';
import type { TransportOptions } from '../../../../src/wire/transport.js';
import { openClient, unique } from '../../../support/client.js';
import { errorOf } from '../../../support/errors.js';
import { openGateway } from '../../../support/gateway.js';
import { VirtualClock } from '../../../support/virtual-clock.js';

/**
 * Returns a `fetch` that, like a proxy that buffers responses, never answers the first `creations` requests to create a
 * watch. `count` returns the number of such requests so far.
 */
function buffering(creations: number): { readonly fetch: typeof fetch; readonly count: () => number } {
  let count = 0;
  return {
    count: () => count,
    fetch: (url, init) => {
      if (!String(url).endsWith('/v3/watch') || ++count > creations) return fetch(url, init);
      return new Promise((_, reject) => {
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason));
      });
    },
  };
}

test('a watch stream ends with an error that suggests a buffering proxy when no watch creation is answered within 10 s', async () => {
  const clock = new VirtualClock();
  onTestFinished(() => clock.restore());
  const options = { maxRequestBytes: 1_000, maxReceiveBytes: 1_000 } as TransportOptions;
  const transport = gateway({ fetch: () => new Promise(() => {}) })(
    parseEndpoint('http://127.0.0.1:1', 'endpoint'),
    options,
  );
  const ends: (EtcdError | undefined)[] = [];
  const stream = transport.stream(
    { method: methods.watch.watch },
    { message: () => {}, end: (error) => ends.push(error) },
  );
  for (const key of ['a', 'b'])
    stream.send({ requestUnion: { case: 'createRequest', value: { key: new TextEncoder().encode(key) } } });
  await clock.pass(9_999);
  expect(ends).toEqual([]);
  await clock.pass(1);
  expect(ends).toMatchObject([{ code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' }]);
  expect(ends[0]?.problem).toMatch(/within 10000 ms.*proxy_buffering off/);
  expect(clock.timers).toBe(0);
});

test('a canceled watch does not end the stream of the other watches when `fetch` ignores the signal', async () => {
  const clock = new VirtualClock();
  onTestFinished(() => clock.restore());
  const answers: ((response: Response) => void)[] = [];
  const transport = gateway({ fetch: () => new Promise((resolve) => void answers.push(resolve)) })(
    parseEndpoint('http://127.0.0.1:1', 'endpoint'),
    { maxRequestBytes: 1_000, maxReceiveBytes: 1_000 } as TransportOptions,
  );
  const [created, ends]: [bigint[], unknown[]] = [[], []];
  const stream = transport.stream(
    { method: methods.watch.watch },
    { message: ({ watchId }) => void created.push(watchId), end: (error) => void ends.push(error) },
  );
  const create = (watchId: bigint): void =>
    stream.send({ requestUnion: { case: 'createRequest', value: { key: new Uint8Array([97]), watchId } } });
  for (const watchId of [1n, 2n]) create(watchId);
  await expect.poll(() => answers.length).toBe(2);
  const body = new ReadableStream({
    start: (controller) =>
      controller.enqueue(new TextEncoder().encode('{"result":{"header":{},"watch_id":"2","created":true}}\n')),
  });
  answers[1]?.(new Response(body, { headers: { 'content-type': 'application/json' } }));
  await expect.poll(() => created).toEqual([2n]);
  stream.send({ requestUnion: { case: 'cancelRequest', value: { watchId: 1n } } });
  await clock.pass(20_000);
  expect(ends).toEqual([]);
  // The canceled creation has made room for others.
  for (const watchId of [3n, 4n]) create(watchId);
  await expect.poll(() => answers.length).toBe(4);
  stream.cancel();
});

test('a client creates its watches when a proxy buffers the first responses but passes on later responses', async () => {
  const proxy = buffering(2);
  const lines: string[] = [];
  const etcd = openGateway({
    transport: gateway({ fetch: proxy.fetch, silenceMs: 200 }),
    logger: { warn: (message, { problem }) => void lines.push(`${message}: ${problem}`) },
  });
  const name = unique();
  const watches = ['a', 'b', 'c'].map((key) => etcd.watch(`${name}/${key}`));
  await Promise.all(watches.map((watch) => watch.created()));
  expect(proxy.count()).toBeGreaterThanOrEqual(5);
  expect(lines).toContainEqual(expect.stringMatching(/^watches wait for a server: .*proxy_buffering off/));
  await openClient().put(`${name}/c`, 'v');
  expect((await watches[2]?.[Symbol.asyncIterator]().next())?.value).toMatchObject({ type: 'put' });
});

test('a watch that is canceled before its creation rejects with an error that contains the last failure', async () => {
  const giveUp = new AbortController();
  const proxy = buffering(Number.POSITIVE_INFINITY);
  const etcd = openGateway({ transport: gateway({ fetch: proxy.fetch, silenceMs: 100 }) });
  const watch = etcd.watch('k', { signal: giveUp.signal });
  const created = errorOf(watch.created());
  await expect.poll(() => proxy.count()).toBeGreaterThanOrEqual(2);
  giveUp.abort();
  const error = await created;
  expect(error).toMatchObject({ reason: 'Canceled' });
  expect(error.message).toMatch(/caller's signal; last failure: .*proxy_buffering off/);
});

test('`withLock` rejects with an error that contains the last failure of its watch when the wait for the lock times out', async () => {
  const name = unique('lock');
  const { fetch } = buffering(Number.POSITIVE_INFINITY);
  const etcd = openGateway({ transport: gateway({ fetch, silenceMs: 100 }) });
  await withLock(openClient(), name, async () => {
    const error = await errorOf(withLock(etcd, name, { maxWaitMs: 1_500 }, () => {}));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', cause: { reason: 'ConnectionLost' } });
    expect(error.message).toMatch(/last failure: .*proxy_buffering off/);
  });
});

test('a watch that is canceled after its creation rejects with an error that omits failures before the creation', async () => {
  const giveUp = new AbortController();
  const proxy = buffering(1);
  const watch = openGateway({
    endpoints: inject('endpoints'),
    transport: gateway({ fetch: proxy.fetch, silenceMs: 200 }),
  }).watch(unique(), { signal: giveUp.signal });
  await watch.created();
  giveUp.abort();
  expect((await errorOf(watch.batches().next())).message).not.toMatch(/proxy_buffering/);
});
