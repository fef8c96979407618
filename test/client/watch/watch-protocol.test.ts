import { expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { encode } from '../../../src/wire/protobuf/writer.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { answerHeaders } from '../../support/http2-calls.js';
import { data, grpcMessage } from '../../support/http2-frames.js';
import { ENDPOINT, Http2Peer, turn } from '../../support/http2-peer.js';
import { scriptedServer, scriptedStream, scriptedUnary } from '../../support/scripted-server.js';
import { clientOf, createdId, creation, header, put } from '../../support/scripted-watch.js';
import { batchesOf } from '../../support/watch-events.js';

// These tests use a scripted server, because real servers behave like this only rarely or only in some versions. Codes
// such as S1 are rules in docs/semantics.md.

test('a refusal without a watch ID ends the watch that the server refused to create (S1)', async () => {
  const etcd = await clientOf(async (stream) => {
    stream.send({ ...header(10n), watchId: await createdId(stream), created: true });
    const ids = [await createdId(stream), await createdId(stream)];
    stream.send({
      ...header(10n),
      watchId: -1n,
      created: true,
      canceled: true,
      cancelReason: 'etcdserver: permission denied',
    });
    stream.send({ ...header(10n), watchId: ids[1], created: true });
    stream.send({ ...header(11n), watchId: ids[1], events: [put('c', 11n)] });
  });
  const [a, b, c] = [etcd.watch('a'), etcd.watch('b'), etcd.watch('c')];
  expect(await errorOf(b.created())).toMatchObject({ reason: 'PermissionDenied', code: 'PermissionDenied' });
  expect(await a.created()).toBe(10n);
  expect((await c.batches().next()).value).toMatchObject({ revision: 11n });
});

test.each([
  ['3.4.24', 11n],
  ['3.4.25', 51n],
  ['3.5.7', 11n],
  ['3.5.8', 51n],
  ['3.6.0', 51n],
  ['3.10.1', 51n],
  ['', 11n],
])(
  'after a progress reply of etcd %j, a watch without events resumes at revision %d, but a watch with a partial revision does not advance (S2, S8)',
  async (version, expected) => {
    const resumed: bigint[] = [];
    let streams = 0;
    const endpoint = await scriptedServer(
      scriptedUnary(methods.maintenance.status, () => ({ version })),
      scriptedStream(methods.watch.watch, async (stream) => {
        streams += 1;
        const first = await creation(stream);
        stream.send({ ...header(10n), watchId: first.watchId, created: true });
        const second = await creation(stream);
        if (streams === 2) return void resumed.push(first.startRevision, second.startRevision);
        stream.send({ ...header(10n), watchId: second.watchId, created: true });
        stream.send({ ...header(12n), watchId: second.watchId, events: [put('b', 12n)], fragment: true });
        const { requestUnion } = await stream.receive();
        if (requestUnion?.case !== 'progressRequest')
          throw new Error(`expected a progress request, got ${requestUnion?.case}`);
        stream.send({ ...header(50n), watchId: -1n });
        // The client asks the member for its version. The stream ends after the client has received the version.
        await expect.poll(() => toldProgress).toBe(true);
        stream.fail(14, 'gone');
      }),
    );
    const statusAnswered: string[] = [];
    const etcd = openClient({
      endpoints: [endpoint],
      interceptors: [
        {
          unary: async (call, next) => {
            const response = await next(call);
            statusAnswered.push(call.method.path);
            return response;
          },
        },
      ],
    });
    let toldProgress = false;
    const quiet = etcd.watch('a', { progress: true });
    const torn = etcd.watch('b');
    await Promise.all([quiet.created(), torn.created()]);
    quiet.requestProgress();
    expect((await batchesOf(quiet).next()).value).toMatchObject({ revision: 50n, events: [] });
    await expect.poll(() => statusAnswered).toEqual([methods.maintenance.status.path]);
    toldProgress = true;
    await expect.poll(() => resumed).toEqual([expected, 11n]);
  },
);

test('a progress reply does not advance a watch that is created after the progress request (S8)', async () => {
  const resumed: bigint[] = [];
  const endpoint = await scriptedServer(
    scriptedUnary(methods.maintenance.status, () => ({ version: '3.6.0' })),
    scriptedStream(methods.watch.watch, async (stream) => {
      const first = await creation(stream);
      stream.send({ ...header(30n), watchId: first.watchId, created: true });
      if (resumed.length === 0) await stream.receive();
      const second = await creation(stream);
      resumed.push(second.startRevision);
      stream.send({ ...header(30n), watchId: second.watchId, created: true });
      // etcd sends creation answers and progress replies over separate channels, so this progress reply may follow the
      // answer to a later creation.
      stream.send({ ...header(30n), watchId: -1n });
      stream.send({ ...header(31n), watchId: first.watchId, events: [put('a', 31n)] });
      await expect.poll(() => isDelivered).toBe(true);
      if (resumed.length === 1) stream.fail(14, 'gone');
      else stream.send({ ...header(32n), watchId: second.watchId, events: [put('b', 5n)] });
    }),
  );
  let isDelivered = false;
  const etcd = openClient({ endpoints: [endpoint] });
  const asking = etcd.watch('a', { progress: true });
  await asking.created();
  asking.requestProgress();
  const later = etcd.watch('b', { startRevision: 5n, progress: true });
  const [reply, event] = [await batchesOf(asking).next(), await batchesOf(asking).next()];
  expect([reply.value, event.value]).toMatchObject([{ events: [] }, { revision: 31n }]);
  isDelivered = true;
  expect((await batchesOf(later).next()).value).toMatchObject({ revision: 5n, events: { length: 1 } });
  expect(resumed).toEqual([5n, 5n]);
});

test('a slow consumer gets only the latest of several progress notifications in a row', async () => {
  const etcd = await clientOf(async (stream) => {
    const slow = await createdId(stream);
    stream.send({ ...header(10n), watchId: slow, created: true });
    const other = await createdId(stream);
    stream.send({ ...header(10n), watchId: other, created: true });
    for (const revision of [11n, 12n, 13n]) stream.send({ ...header(revision), watchId: slow });
    stream.send({ ...header(14n), watchId: slow, events: [put('a', 14n)] });
    for (const revision of [15n, 16n]) stream.send({ ...header(revision), watchId: slow });
    stream.send({ ...header(17n), watchId: other, events: [put('b', 17n)] });
  });
  const slow = etcd.watch('a', { progress: true }).batches();
  await etcd.watch('b').batches().next();
  const seen: unknown[] = [];
  while (seen.length < 3) {
    const { value } = await slow.next();
    seen.push([value.revision, value.events.length]);
  }
  expect(seen).toEqual([
    [13n, 0],
    [14n, 1],
    [16n, 0],
  ]);
});

test('a response that stays too large although the client asks for fragments ends the watch after four streams (S4)', async () => {
  const large = (revision: bigint) => ({
    ...put('a', revision),
    kv: { ...put('a', revision).kv, value: Buffer.alloc(2_000) },
  });
  const asked: unknown[] = [];
  const etcd = await clientOf(
    async (stream) => {
      const { watchId, fragment } = await creation(stream);
      asked.push(fragment);
      stream.send({ ...header(9n), watchId, created: true });
      const isCut = asked.length === 3;
      stream.send({ ...header(11n), watchId, events: [isCut ? put('a', 10n) : large(10n)] });
      stream.send({ ...header(11n), watchId, events: [large(11n)] });
    },
    { maxReceiveBytes: 1_000 },
  );
  const batches = etcd.watch('a', { startRevision: 10n }).batches();
  expect((await batches.next()).value?.revision).toBe(10n);
  expect(await errorOf(batches.next())).toMatchObject({ code: 'ResourceExhausted', reason: 'ResponseTooLarge' });
  expect(asked).toEqual([false, true, true, true]);
});

test('a watch does not resume from the header revision of a response with events (S2)', async () => {
  const resumed: bigint[] = [];
  const etcd = await clientOf(async (stream) => {
    const { watchId, startRevision } = await creation(stream);
    resumed.push(startRevision as bigint);
    stream.send({ ...header(9n), watchId, created: true });
    if (resumed.length > 1) return;
    stream.send({ ...header(9n), watchId, events: [put('a', 5n), put('a', 6n)] });
    stream.fail(14, 'gone');
  });
  etcd.watch('a', { startRevision: 5n });
  await expect.poll(() => resumed).toEqual([5n, 7n]);
});

test('an event that the server sends twice is delivered once (S5)', async () => {
  const etcd = await clientOf(async (stream) => {
    const { watchId } = await creation(stream);
    stream.send({ ...header(10n), watchId, created: true });
    stream.send({ ...header(11n), watchId, events: [put('a', 11n)] });
    stream.send({ ...header(12n), watchId, events: [put('a', 11n), put('a', 12n)] });
  });
  const batches = etcd.watch('a').batches();
  expect([(await batches.next()).value?.revision, (await batches.next()).value?.revision]).toEqual([11n, 12n]);
});

test('a partial revision is dropped when the stream breaks, and is delivered whole from the next stream (S4)', async () => {
  let streams = 0;
  const etcd = await clientOf(async (stream) => {
    streams += 1;
    const { watchId } = await creation(stream);
    stream.send({ ...header(10n), watchId, created: true });
    stream.send({ ...header(11n), watchId, events: [put('a', 11n)], fragment: streams === 1 });
    if (streams === 1) stream.fail(14, 'gone');
    else stream.send({ ...header(12n), watchId, events: [put('a', 12n)] });
  });
  const batches = etcd.watch('a').batches();
  expect((await batches.next()).value).toMatchObject({ revision: 11n, events: { length: 1 } });
  expect((await batches.next()).value).toMatchObject({ revision: 12n });
  expect(streams).toBe(2);
});

test('a watch that is closed twice sends one cancel request and ignores later events for its watch ID (S9)', async () => {
  const canceled: bigint[] = [];
  const etcd = await clientOf(async (stream) => {
    const a = await createdId(stream);
    stream.send({ ...header(10n), watchId: a, created: true });
    const b = await createdId(stream);
    stream.send({ ...header(10n), watchId: b, created: true });
    const { requestUnion } = await stream.receive();
    if (requestUnion?.case === 'cancelRequest') canceled.push(requestUnion.value.watchId);
    stream.send({ ...header(11n), watchId: a, events: [put('a', 11n)] });
    stream.send({ ...header(11n), watchId: a, canceled: true });
    stream.send({ ...header(12n), watchId: b, events: [put('b', 12n)] });
    void stream.receive().then(() => canceled.push(-1n));
  });
  const [a, b] = [etcd.watch('a'), etcd.watch('b')];
  await Promise.all([a.created(), b.created()]);
  await a.close();
  await a.close();
  expect((await b.batches().next()).value).toMatchObject({ revision: 12n });
  expect(await a.batches().next()).toMatchObject({ done: true });
  expect(canceled).toEqual([1n]);
});

test('a watch that is closed before the server has created it is canceled on the server when it is created (S9)', async () => {
  let onRequested = (): void => {};
  const requested = new Promise<void>((resolve) => {
    onRequested = resolve;
  });
  let create = (): void => {};
  const next: unknown[] = [];
  const etcd = await clientOf(async (stream) => {
    const a = await createdId(stream);
    stream.send({ ...header(10n), watchId: a, created: true });
    const b = await createdId(stream);
    create = () => {
      stream.send({ ...header(10n), watchId: b, created: true });
      stream.send({ ...header(11n), watchId: a, events: [put('a', 11n)] });
    };
    onRequested();
    next.push((await stream.receive()).requestUnion);
    next.push((await stream.receive()).requestUnion);
    stream.send({ ...header(12n), watchId: a, events: [put('a', 12n)] });
  });
  const a = etcd.watch('a');
  await a.created();
  const b = etcd.watch('b');
  await requested;
  await b.close();
  create();
  const batches = a.batches();
  expect((await batches.next()).value).toMatchObject({ revision: 11n });
  // The server receives these requests after a cancel request, if there is one.
  a.requestProgress();
  a.requestProgress();
  expect((await batches.next()).value).toMatchObject({ revision: 12n });
  expect(next[0]).toMatchObject({ case: 'cancelRequest', value: { watchId: 2n } });
});

test('the client ends the watch stream with RST_STREAM, and only then, when no watch is left on the stream (S9)', async () => {
  const peer = new Http2Peer();
  const etcd = openClient({ endpoints: [ENDPOINT], transport: () => peer.transport });
  const watches = [etcd.watch('a'), etcd.watch('b')] as const;
  await turn();
  const { connection } = peer;
  connection.send(answerHeaders(1));
  const resets = (): readonly number[][] =>
    connection.sent('RST_STREAM').map(({ streamId, payload }) => [streamId, payload.readUInt32BE(0)]);
  for (const [index, watch] of watches.entries()) {
    const created = { header: { revision: 10n }, watchId: BigInt(index + 1), created: true };
    connection.send(data(1, grpcMessage(encode(methods.watch.watch.response, created))));
    await watch.created();
  }
  await watches[0].close();
  await turn();
  expect(resets()).toEqual([]);
  await watches[1].close();
  // On stream 1, the client sends RST_STREAM with code 8, which is CANCEL.
  await expect.poll(resets).toEqual([[1, 8]]);
});

test('the client opens a watch stream with `hasleader`, so that a member without a leader ends the stream (S10)', async () => {
  let metadata: unknown;
  const etcd = await clientOf(async (stream) => {
    metadata = stream.metadata;
    stream.send({ ...header(10n), watchId: await createdId(stream), created: true });
  });
  await etcd.watch('a').created();
  expect(metadata).toMatchObject({ hasleader: 'true' });
});

test('a watch is created again when the server cancels the watch with a "no leader" error in Go’s format (S7)', async () => {
  const starts: bigint[] = [];
  const etcd = await clientOf(async (stream) => {
    for (;;) {
      const { watchId, startRevision } = await creation(stream);
      starts.push(startRevision as bigint);
      stream.send({ ...header(10n), watchId, created: true });
      if (starts.length > 1) return;
      const cancelReason = 'rpc error: code = Unavailable desc = etcdserver: no leader';
      stream.send({ ...header(10n), watchId, canceled: true, cancelReason });
    }
  });
  etcd.watch('a');
  await expect.poll(() => starts).toEqual([0n, 11n]);
});

test('a watch ends with `PermissionDenied` when the server ends the watch stream with that error', async () => {
  const etcd = await clientOf(async (stream) => {
    await creation(stream);
    stream.fail(7, 'etcdserver: permission denied');
  });
  expect(await errorOf(etcd.watch('a').batches().next())).toMatchObject({ reason: 'PermissionDenied' });
});

test('each watch gets its own events when a proxy answers creations out of order with IDs that the proxy chose (S1)', async () => {
  const keys = ['config', 'jobs-1', 'jobs-2', 'jobs-3', 'jobs-4'];
  let streams = 0;
  const etcd = await clientOf(async (stream) => {
    streams += 1;
    const pending: { readonly id: bigint; readonly key: string }[] = [];
    let answered = 0;
    // The proxy numbers the watches from 0, and answers the creations that it has received in reverse order.
    for (let id = 0n; answered < keys.length; id += 1n) {
      const { key } = (await creation(stream)) as { key?: Uint8Array };
      pending.push({ id, key: new TextDecoder().decode(key) });
      await new Promise((resolve) => setImmediate(resolve));
      for (const watch of pending.splice(0).reverse()) {
        answered += 1;
        stream.send({ ...header(10n), watchId: watch.id, created: true });
        stream.send({ ...header(11n), watchId: watch.id, events: [put(watch.key, BigInt(10 + streams))] });
      }
    }
    if (streams === 1) stream.fail(14, 'gone');
  });
  const batches = keys.map((key) => etcd.watch(key).batches());
  for (const revision of [11n, 12n]) {
    const delivered = await Promise.all(batches.map((each) => each.next()));
    expect(delivered.map(({ value }) => [value?.revision, value?.events[0]?.kv.key])).toEqual(
      keys.map((key) => [revision, key]),
    );
  }
});

test('two refusals without watch IDs end the right watches even if the answers to other creations arrive later (S1)', async () => {
  const refused = { created: true, canceled: true, watchId: -1n };
  const etcd = await clientOf(async (stream) => {
    stream.send({ ...header(10n), watchId: await createdId(stream), created: true });
    const ids = [await createdId(stream), await createdId(stream), await createdId(stream), await createdId(stream)];
    // The server refuses the second and the third of these four creations for different reasons. The answers do not
    // show to which creation they belong.
    stream.send({ ...header(10n), ...refused, cancelReason: 'etcdserver: permission denied' });
    stream.send({ ...header(10n), ...refused, cancelReason: 'etcdserver: mvcc: required revision has been compacted' });
    stream.send({ ...header(10n), watchId: ids[3] as bigint, created: true });
    stream.send({ ...header(10n), watchId: ids[0] as bigint, created: true });
    for (const cancelReason of [
      'etcdserver: permission denied',
      'etcdserver: mvcc: required revision has been compacted',
    ]) {
      await createdId(stream);
      stream.send({ ...header(10n), ...refused, cancelReason });
    }
    stream.send({ ...header(10n), watchId: await createdId(stream), created: true });
  });
  const [first, a, b, c, d] = ['first', 'a', 'b', 'c', 'd'].map((key) => etcd.watch(key));
  expect(await Promise.all([first, a, d].map((watch) => watch?.created()))).toEqual([10n, 10n, 10n]);
  expect(await errorOf(b?.created() as Promise<bigint>)).toMatchObject({ reason: 'PermissionDenied' });
  expect(await errorOf(c?.created() as Promise<bigint>)).toMatchObject({ reason: 'Compacted' });
  // The stream still creates later watches.
  expect(await etcd.watch('later').created()).toBe(10n);
});
