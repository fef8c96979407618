import { describe, expect, inject, test } from 'vitest';
import { gatewayPath } from '../../../../src/extras/transports/gateway/rpcs.js';
import { gateway } from '../../../../src/gateway.js';
import { methods } from '../../../../src/gen/methods.js';
import type { Event } from '../../../../src/gen/mvccpb/kv.js';
import { prefix } from '../../../../src/index.js';
import type { Method } from '../../../../src/wire/protobuf/schema.js';
import { authEtcd, USER } from '../../../support/auth-etcd.js';
import { unique } from '../../../support/client.js';
import { errorOf } from '../../../support/errors.js';
import { httpServer, openGateway } from '../../../support/gateway.js';
import { ownEtcd } from '../../../support/own-etcd.js';
import { valueText } from '../../../support/watch-events.js';

const allMethods = Object.values(methods).flatMap((service): Method<unknown, unknown>[] => Object.values(service));

describe('the JSON gateway', () => {
  test.each(allMethods.map((method) => [method.path, method] as const))(
    'serves %s at the path that `gatewayPath` returns, unless that path is undefined or the server is too old',
    async (_, method) => {
      const [endpoint = ''] = inject('endpoints');
      const path = gatewayPath(method);
      if (path === undefined) return expect(method.path).toBe('/etcdserverpb.KV/RangeStream');
      // The status of a GET shows whether the path exists. A GET has no effect, because the gateway accepts only POST.
      const { status } = await fetch(endpoint + path, { method: 'GET' });
      const missing = ['HashKV', 'AuthStatus', 'Downgrade'].some((name) => path.includes(name.toLowerCase()));
      if (inject('etcdVersion')?.startsWith('3.4.') && (missing || path === '/v3/auth/status'))
        expect(status).toBe(404);
      else expect([405, 501]).toContain(status);
    },
  );

  test('does not serve RangeStream, so the client rejects the call with NotInGateway and sends nothing', async () => {
    const stream = openGateway().raw.kv.rangeStream({ key: Buffer.from('a') });
    expect(await errorOf(stream.next())).toMatchObject({
      reason: 'NotInGateway',
      code: 'Unimplemented',
      outcome: 'not-sent',
      method: '/etcdserverpb.KV/RangeStream',
    });
  });

  test('cannot report the progress of a watch, so `requestProgress` throws, and the watch continues', async () => {
    const etcd = openGateway();
    const key = unique();
    const watch = etcd.watch(key);
    await watch.created();
    expect(await errorOf(() => watch.requestProgress())).toMatchObject({ reason: 'NotInGateway', outcome: 'not-sent' });
    await etcd.put(key, 'on');
    for await (const event of watch) {
      expect(valueText(event)).toBe('on');
      break;
    }
  });

  test('supports many concurrent watches, and each watch delivers its events once and in order', async () => {
    const etcd = openGateway();
    const name = unique();
    const watches = Array.from({ length: 20 }, (_, index) => etcd.watch(prefix(`${name}/${index % 4}/`)));
    await Promise.all(watches.map((watch) => watch.created()));
    await Promise.all(watches.slice(0, 10).map((watch) => watch.close()));
    for (let count = 0; count < 40; count += 1) await etcd.put(`${name}/${count % 4}/k`, String(count));
    for (const [index, watch] of watches.entries()) {
      if (index < 10) continue;
      const seen: string[] = [];
      for await (const event of watch) if (seen.push(valueText(event)) === 10) break;
      expect(seen).toEqual(Array.from({ length: 10 }, (_, count) => String(count * 4 + (index % 4))));
    }
  });

  test('delivers a complete snapshot', async () => {
    const { endpoints } = await ownEtcd();
    const [endpoint = ''] = endpoints;
    let bytes = 0;
    for await (const chunk of openGateway({ endpoints }).maintenance.snapshot(endpoint)) bytes += chunk.length;
    expect(bytes % 512).toBe(32);
  });

  test('returns server errors in a form from which the client derives their reasons', async () => {
    expect(await errorOf(openGateway().put(unique(), 'x', { lease: 99n }))).toMatchObject({
      reason: 'LeaseNotFound',
      outcome: 'rejected',
      endpoint: inject('endpoints')[0],
    });
    const compacted = await ownEtcd();
    const etcd = openGateway({ endpoints: compacted.endpoints });
    for (const value of ['a', 'b', 'c']) await etcd.put('k', value);
    await etcd.compact(3n);
    const watch = etcd.watch('k', { startRevision: 1n });
    expect(await errorOf(watch[Symbol.asyncIterator]().next())).toMatchObject({
      reason: 'Compacted',
      compactRevision: 3n,
    });
  });

  test("checks the client's token for calls and watches", async () => {
    const { endpoints } = await authEtcd();
    const etcd = openGateway({ endpoints, auth: USER });
    const watch = etcd.watch('app/k');
    await watch.created();
    await etcd.put('app/k', 'v');
    expect((await watch[Symbol.asyncIterator]().next()).value).toMatchObject({ type: 'put' });
    expect(await errorOf(etcd.put('k', 'v'))).toMatchObject({ reason: 'PermissionDenied' });
    expect(await errorOf(openGateway({ endpoints }).put('app/k', 'v'))).toMatchObject({ reason: 'UserEmpty' });
  });
});

test('a client requests a watch again when the gateway ends the response before the watch is created', async () => {
  let requests = 0;
  const url = await httpServer((request, response) => {
    requests += 1;
    request.resume();
    response.end();
  });
  const watch = openGateway({ endpoints: [url] }).watch('k');
  await expect.poll(() => requests).toBeGreaterThan(1);
  await watch.close();
});

test('a client reopens a silent watch at the revision that the watch has reached', async () => {
  const key = unique();
  let watches = 0;
  const transport = gateway({
    silenceMs: 100,
    fetch: (url, init) => {
      if (url.endsWith('/v3/watch')) watches += 1;
      return fetch(url, init);
    },
  });
  const watch = openGateway({ transport }).watch(key);
  await watch.created();
  const events = watch[Symbol.asyncIterator]();
  const values: string[] = [];
  for (const value of ['a', 'b', 'c']) {
    const before = watches;
    await expect.poll(() => watches).toBeGreaterThan(before + 1);
    await openGateway().put(key, value);
    const { value: event } = await events.next();
    values.push(event?.kv.text());
  }
  expect(values).toEqual(['a', 'b', 'c']);
  await watch.close();
});

test('a watch does not lose or repeat events when its caller reads no events for longer than `silenceMs`', async () => {
  const key = unique();
  const stream = openGateway({ transport: gateway({ silenceMs: 1_000 }) }).raw.watch.watch();
  stream.send({ requestUnion: { case: 'createRequest', value: { key: Buffer.from(key) } } });
  await stream.next();
  const count = 40;
  for (let index = 0; index < count; index += 1) await openGateway().put(key, String(index));
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  const values: string[] = [];
  while (values.length < count)
    values.push(...(await stream.next()).value.events.map(({ kv }: Event) => Buffer.from(kv?.value ?? []).toString()));
  expect(values).toEqual(Array.from({ length: count }, (_, index) => String(index)));
  stream.cancel();
});

test('a watch stream gives each watch a different ID, and confirms the cancellation of a watch', async () => {
  const stream = openGateway().raw.watch.watch();
  const created: bigint[] = [];
  for (const key of ['a', 'b']) {
    stream.send({ requestUnion: { case: 'createRequest', value: { key: Buffer.from(key) } } });
    created.push((await stream.next()).value.watchId);
  }
  expect(new Set(created).size).toBe(2);
  stream.send({ requestUnion: { case: 'cancelRequest', value: { watchId: created[1] } } });
  expect((await stream.next()).value).toMatchObject({ watchId: created[1], canceled: true });
  stream.cancel();
});
