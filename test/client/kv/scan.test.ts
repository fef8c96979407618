import { describe, expect, inject, test } from 'vitest';
import type { RangeRequest, RangeResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { type Client, EtcdError, type Interceptor, type KeyValue, keyRange, op, prefix } from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { type Recording, recordingTransport } from '../../support/recording-transport.js';

const PAGE = methods.kv.range.path;
const STREAM = methods.kv.rangeStream.path;

/** The etcd version under test. Undefined if ETCD_ENDPOINTS names servers that already run. */
const version = inject('etcdVersion');
const streams = version === undefined ? undefined : Number(version.split('.')[1]) >= 7;

describe('a scan', () => {
  test('reads a small range or an empty range with one request', async () => {
    const { etcd, sent } = recorded();
    const start = `${unique('scan')}/`;
    await fill(openClient(), start, 32, () => 'x');
    expect(await names(etcd.scan(prefix(start)), start)).toEqual(numbers(32));
    expect(await names(etcd.scan(keyRange(`${start}nothing`, `${start}o`)), start)).toEqual([]);
    expect(sent.map(({ path }) => path)).toEqual([PAGE, PAGE]);
  });

  test('reads at one revision, and streams all keys after the first page when the server supports RangeStream', async (context) => {
    if (streams === undefined) return context.skip('the version of the server is not known');
    const { etcd, sent } = recorded();
    const [writer, start] = [openClient(), `${unique('scan')}/`];
    await fill(writer, start, 500, () => 'x'.repeat(10_000));
    const seen: string[] = [];
    for await (const kv of etcd.scan(prefix(start))) {
      seen.push(kv.key.slice(start.length));
      if (seen.length % 100 === 1) await writer.delete(`${start}${String(seen.length + 50).padStart(4, '0')}`);
      if (seen.length % 100 === 2) await writer.put(`${start}${String(seen.length + 60).padStart(4, '0')}x`, 'new');
    }
    expect(seen).toEqual(numbers(500));
    const requests = sent.map(({ request }) => request as RangeRequest);
    expect(new Set(requests.slice(1).map(({ revision }) => revision)).size).toBe(1);
    expect(requests[1]?.revision).toBeGreaterThan(0n);
    const paths = sent.map(({ path }) => path);
    if (streams) expect(paths).toEqual([PAGE, STREAM]);
    // The client tries the stream once, and remembers that the server does not support streams.
    else expect(paths).toEqual([PAGE, STREAM, PAGE, PAGE]);
    sent.length = 0;
    await names(etcd.scan(prefix(start)), start);
    expect(sent.map(({ path }) => path).includes(STREAM)).toBe(streams);
  });

  test.each([10, 40, 400])('rejects with reason Canceled at the key after which its signal aborts (%i)', async (at) => {
    const [etcd, start, stop] = [openClient(), `${unique('scan')}/`, new AbortController()];
    await fill(etcd, start, 500, () => 'x');
    let seen = 0;
    const reading = (async () => {
      for await (const _ of etcd.scan(prefix(start), { signal: stop.signal })) if (++seen === at) stop.abort();
    })();
    expect(await errorOf(reading)).toMatchObject({ reason: 'Canceled' });
    expect(seen).toBe(at);
  });

  test('reads a page again linearizably when a serializable read goes to a member that is behind the first page', async () => {
    const refused: unknown[] = [];
    const behind: Interceptor = {
      unary: (call, next) => {
        const { serializable, revision } = call.request as unknown as RangeRequest;
        if (call.method.path !== PAGE || !revision || !serializable) return next(call);
        refused.push(revision);
        throw futureRevision();
      },
      stream: (call, handler, next) => {
        const stream = next(call, { ...handler, message: () => {}, end: () => {} });
        if (call.method.path !== STREAM) return next(call, handler);
        stream.cancel();
        queueMicrotask(() => handler.end(futureRevision()));
        return stream;
      },
    };
    const [etcd, start] = [openClient({ interceptors: [behind] }), `${unique('scan')}/`];
    await fill(openClient(), start, 100, () => 'x');
    expect(await names(etcd.scan(prefix(start), { serializable: true }), start)).toEqual(numbers(100));
    expect(refused.length).toBeLessThanOrEqual(1);
    const { revision } = (await etcd.put(start, 'x')).header;
    refused.length = 0;
    const ofRevision = errorOf(names(etcd.scan(prefix(start), { serializable: true, revision }), start));
    expect(await ofRevision).toMatchObject({ reason: 'FutureRev' });
    expect(refused).toHaveLength(1);
  });

  test('lets an interceptor inspect, change and answer its pages as those of `range`', async () => {
    const start = `${unique('scan')}/`;
    await fill(openClient(), start, 100, (index) => String(index));
    const bytes: number[] = [];
    const changing = (change: (response: RangeResponse) => RangeResponse): Interceptor => ({
      unary: async (call, next) => {
        const response = await next(call);
        return call.method.path === PAGE ? (change(response as RangeResponse) as typeof response) : response;
      },
      stream: (call, handler, next) => {
        const stream = next(call, handler);
        // A server without this RPC.
        if (call.method.path === STREAM) {
          stream.cancel();
          queueMicrotask(() =>
            handler.end(new EtcdError('none', { code: 'Unimplemented', reason: 'Other', outcome: 'rejected' })),
          );
        }
        return stream;
      },
    });
    const inspecting = changing((response) => {
      bytes.push(response.kvs.reduce((sum, { value }) => sum + value.length, 0));
      return response;
    });
    expect(await names(openClient({ interceptors: [inspecting] }).scan(prefix(start)), start)).toEqual(numbers(100));
    expect(bytes.reduce((sum, length) => sum + length, 0)).toBe(190);
    const hiding = changing((response) => ({ ...response, kvs: response.kvs.filter(({ value }) => value.length > 1) }));
    const inside = openClient({ interceptors: [hiding] }).namespace(start);
    expect(await names(inside.scan(prefix('')), '')).toEqual(numbers(100).slice(10));
    const answering = changing(({ header }) => ({ header, kvs: [], more: false, count: 0n }));
    expect(await names(openClient({ interceptors: [answering] }).scan(prefix(start)), start)).toEqual([]);
  });

  test('reads at the revision in its options', async () => {
    const [etcd, start] = [openClient(), `${unique('scan')}/`];
    await fill(etcd, start, 100, () => 'old');
    const { revision } = (await etcd.put(`${start}0050`, 'of this revision')).header;
    await etcd.delete(prefix(start));
    const values: string[] = [];
    for await (const kv of etcd.scan(prefix(start), { revision })) values.push(kv.text());
    expect(values).toEqual(numbers(100).map((_, index) => (index === 50 ? 'of this revision' : 'old')));
  });

  test('skips no key when each key is the previous key with a zero byte appended', async () => {
    const [etcd, start] = [openClient({ maxReceiveBytes: 1_000 }), `${unique('scan')}/`];
    const keys = Array.from({ length: 100 }, (_, index) => `${start}${'\0'.repeat(index)}`);
    await openClient().txn({ then: keys.map((key) => op.put(key, 'x')) });
    const seen: string[] = [];
    for await (const kv of etcd.scan(prefix(start))) seen.push(kv.key);
    expect(seen).toEqual(keys);
  });

  test('leaves out the values when `keysOnly` is set', async () => {
    const [etcd, start] = [openClient(), `${unique('scan')}/`];
    await fill(etcd, start, 100, () => 'x');
    const kvs: KeyValue[] = [];
    for await (const kv of etcd.scan(prefix(start), { keysOnly: true })) kvs.push(kv);
    expect(kvs.map((kv) => kv.key.slice(start.length))).toEqual(numbers(100));
    expect(kvs.every((kv) => kv.value.length === 0)).toBe(true);
  });

  test('reads pages instead of a stream when its options contain revision bounds, because streams do not support these', async () => {
    const { etcd, sent } = recorded();
    const [writer, start] = [openClient(), `${unique('scan')}/`];
    await fill(writer, start, 200, () => 'x');
    const { revision } = (await writer.put('between', 'x')).header;
    for (let index = 0; index < 200; index += 2) await writer.put(`${start}${numbers(200)[index]}`, 'y');
    const [even, odd] = [0, 1].map((rest) => numbers(200).filter((_, index) => index % 2 === rest));
    expect(await names(etcd.scan(prefix(start), { minModRevision: revision }), start)).toEqual(even);
    expect(await names(etcd.scan(prefix(start), { maxModRevision: revision }), start)).toEqual(odd);
    expect(await names(etcd.scan(prefix(start), { minCreateRevision: revision }), start)).toEqual([]);
    expect(await names(etcd.scan(prefix(start), { maxCreateRevision: revision }), start)).toEqual(numbers(200));
    expect(sent.map(({ path }) => path)).not.toContain(STREAM);
  });
});

describe('a scan with a small `maxReceiveBytes`', () => {
  test('requests smaller pages where the values are large, and yields every key once', async () => {
    const start = `${unique('scan')}/`;
    await fill(openClient(), start, 300, (index) => 'x'.repeat(index % 50 < 10 ? 60_000 : 10));
    const etcd = openClient({ maxReceiveBytes: 100_000 });
    expect(await names(etcd.scan(prefix(start)), start)).toEqual(numbers(300));
  });

  test('yields every key before the key with a value that is too large, and then rejects with ResponseTooLarge', async () => {
    const start = `${unique('scan')}/`;
    await fill(openClient(), start, 100, (index) => 'x'.repeat(index === 70 ? 200_000 : 10));
    const etcd = openClient({ maxReceiveBytes: 100_000 });
    const seen: string[] = [];
    const error = await errorOf(async () => {
      for await (const kv of etcd.scan(prefix(start))) seen.push(kv.key.slice(start.length));
    });
    expect(error).toMatchObject({ code: 'ResourceExhausted', reason: 'ResponseTooLarge' });
    expect(seen).toEqual(numbers(70));
  });
});

describe('a scan over a connection that breaks', () => {
  test.each(['dropConnections', 'reset'] as const)('continues after the last received key (%s)', async (fault) => {
    const { direct, proxy } = await proxied();
    const start = `${unique('scan')}/`;
    // This is more data than the buffers of the proxy and the client can hold. So the connection breaks before all data
    // has arrived.
    await fill(direct, start, 1_000, () => 'x'.repeat(20_000));
    const { etcd, sent } = recorded([proxy.endpoint]);
    expect(await names(etcd.scan(prefix(start)), start)).toEqual(numbers(1_000));
    const undisturbed = sent.splice(0).length;
    const seen: string[] = [];
    for await (const kv of etcd.scan(prefix(start))) {
      seen.push(kv.key.slice(start.length));
      if ([40, 400, 410, 800].includes(seen.length)) proxy[fault]();
    }
    expect(seen).toEqual(numbers(1_000));
    // The faults struck requests under way, which the client sent again.
    expect(sent.length).toBeGreaterThan(undisturbed);
    if (streams) expect(sent.filter(({ path }) => path === STREAM).length).toBeGreaterThan(1);
  });

  test('rejects with Compacted when its revision is compacted before the connection breaks', async () => {
    const { etcd, direct, proxy } = await proxied((await ownEtcd()).endpoints);
    await fill(direct, 'a/', 1_000, () => 'x'.repeat(20_000));
    const seen: string[] = [];
    const error = await errorOf(async () => {
      for await (const kv of etcd.scan(prefix('a/'))) {
        seen.push(kv.key.slice(2));
        if (seen.length !== 40) continue;
        await direct.compact((await direct.put('b', 'x')).header.revision);
        proxy.dropConnections();
      }
    });
    expect(error).toMatchObject({ reason: 'Compacted', code: 'OutOfRange' });
    expect(seen).toEqual(numbers(1_000).slice(0, seen.length));
  });
});

test('a scan at a compacted revision rejects with Compacted before it yields a key', async () => {
  const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
  const { revision } = (await etcd.put('a', 'x')).header;
  await etcd.compact((await etcd.put('a', 'y')).header.revision);
  expect(await errorOf(etcd.scan(prefix('a'), { revision }).next())).toMatchObject({ reason: 'Compacted' });
});

describe('a scan', () => {
  test('sends no more requests and cancels its stream when the consumer breaks out of the loop', async () => {
    let canceled = 0;
    const { transport, sent } = recordingTransport();
    const etcd = openClient({
      transport: (endpoint, options) => {
        const inner = transport(endpoint, options);
        const stream: typeof inner.stream = (call, handler) => {
          const opened = inner.stream(call, handler) as ReturnType<typeof inner.stream>;
          const cancel = (): void => {
            canceled += 1;
            opened.cancel();
          };
          return { ...opened, cancel } as never;
        };
        return { ...inner, stream };
      },
    });
    const start = `${unique('scan')}/`;
    await fill(openClient(), start, 1_000, () => 'x'.repeat(20_000));
    for await (const kv of etcd.scan(prefix(start))) if (kv.key.endsWith('0100')) break;
    if (streams !== undefined) expect(canceled).toBe(streams ? 1 : 0);
    expect(sent.length).toBeLessThan(5);
  });

  test('rejects with Canceled when its signal aborts, with the reason of the signal as the cause', async () => {
    const [etcd, start, stop] = [openClient(), `${unique('scan')}/`, new AbortController()];
    await fill(etcd, start, 1_000, () => 'x'.repeat(5_000));
    const error = await errorOf(async () => {
      for await (const kv of etcd.scan(prefix(start), { signal: stop.signal }))
        if (kv.key.endsWith('0100')) stop.abort(new Error('enough'));
    });
    expect(error).toMatchObject({ reason: 'Canceled', cause: { message: 'enough' } });
  });
});

function recorded(endpoints = inject('endpoints')): { etcd: Client; sent: Recording['sent'] } {
  const { transport, sent } = recordingTransport();
  return { etcd: openClient({ endpoints, transport }), sent };
}

async function fill(etcd: Client, start: string, count: number, value: (index: number) => string): Promise<void> {
  for (let at = 0; at < count; at += 25) {
    const indices = numbers(count).slice(at, at + 25);
    await etcd.txn({ then: indices.map((name) => op.put(start + name, value(Number(name)))) });
  }
}

function futureRevision(): EtcdError {
  return new EtcdError('future', { code: 'OutOfRange', reason: 'FutureRev', outcome: 'rejected' });
}

function numbers(count: number): string[] {
  return Array.from({ length: count }, (_, index) => String(index).padStart(4, '0'));
}

async function names(kvs: AsyncIterable<KeyValue>, start: string): Promise<string[]> {
  const seen: string[] = [];
  for await (const kv of kvs) seen.push(kv.key.slice(start.length));
  return seen;
}

test.each([
  ['sort', { sort: { target: 'key', order: 'desc' } }],
  ['limit', { limit: 5 }],
  ['countOnly', { countOnly: true }],
])('`scan` and `get` refuse the option `%s`, which only `range` accepts', async (name, option) => {
  const etcd = openClient();
  const error = await errorOf(() => etcd.scan(prefix('a'), option as never));
  expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  expect(error.message).toMatch(
    new RegExp(`^options: got the unknown option ${name} for scan \\(range has this option\\); allowed: `),
  );
  expect(await errorOf(etcd.get('a', option as never))).toMatchObject({ reason: 'InvalidInput' });
});
