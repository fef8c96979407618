import { getEventListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Rpc } from '../../src/channel/rpc.js';
import { methods } from '../../src/gen/methods.js';
import type { Client } from '../../src/index.js';
import { Watch } from '../../src/watch/watch.js';
import { WatchStream } from '../../src/watch/watch-stream.js';
import { ROOT } from '../support/auth-etcd.js';
import { openClient } from '../support/client.js';
import { deafRpc } from '../support/deaf-rpc.js';
import { scriptedServer, scriptedStream, scriptedUnary } from '../support/scripted-server.js';
import { clientOf, createdId, creation, header, put, type WatchedStream } from '../support/scripted-watch.js';

const NO_LEADER = 'rpc error: code = Unavailable desc = etcdserver: no leader';
const INVALID_TOKEN = 'rpc error: code = Unauthenticated desc = etcdserver: invalid auth token';

test('created() tells the first revision, also after a reconnect', async () => {
  let streams = 0;
  const etcd = await clientOf(async (stream) => {
    streams += 1;
    const { watchId } = await creation(stream);
    stream.send({ ...header(streams === 1 ? 10n : 90n), watchId, created: true });
    if (streams === 1) stream.fail(14, 'gone');
    else stream.send({ ...header(91n), watchId, events: [put('a', 91n)] });
  });
  const watch = etcd.watch('a');
  await watch.batches().next();
  expect(await watch.created()).toBe(10n);
});

test('a watch that waits to be created again is created once by the stream that comes meanwhile', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(1);
  onTestFinished(() => void vi.restoreAllMocks());
  const created: unknown[] = [];
  const etcd = await clientOf(
    async (stream) => {
      const a = await creation(stream);
      stream.send({ ...header(10n), watchId: a.watchId, created: true });
      const b = await creation(stream);
      stream.send({ ...header(10n), watchId: b.watchId, created: true });
      created.push(a.watchId, b.watchId);
      if (created.length > 2) return void created.push((await creation(stream)).watchId);
      stream.send({ ...header(10n), watchId: a.watchId, canceled: true, cancelReason: NO_LEADER });
      // Ends the stream, and another one is opened at once.
      stream.send({
        ...header(11n),
        watchId: b.watchId,
        events: [{ kv: { ...put('b', 11n).kv, value: Buffer.alloc(2_000) } }],
      });
    },
    { maxReceiveBytes: 1_000 },
  );
  etcd.watch('a');
  etcd.watch('b');
  await expect.poll(() => created.length).toBe(4);
  await pause(200);
  expect(created).toHaveLength(4);
});

test('part of a revision is dropped when the server ends the watch for want of a leader', async () => {
  let creates = 0;
  const etcd = await clientOf(async (stream) => {
    for (;;) {
      const { watchId } = await creation(stream);
      creates += 1;
      stream.send({ ...header(10n), watchId, created: true });
      stream.send({ ...header(11n), watchId, events: [put('a', 11n)], fragment: creates === 1 });
      if (creates > 1) return;
      stream.send({ ...header(11n), watchId, canceled: true, cancelReason: NO_LEADER });
    }
  });
  expect((await etcd.watch('a').batches().next()).value).toMatchObject({ revision: 11n, events: { length: 1 } });
});

test('part of a revision is dropped when the stream is given up for its token', async () => {
  let streams = 0;
  const etcd = await loggedInClientOf(async (stream) => {
    streams += 1;
    const a = await creation(stream);
    stream.send({ ...header(10n), watchId: a.watchId, created: true });
    const b = await creation(stream);
    stream.send({ ...header(10n), watchId: b.watchId, created: true });
    stream.send({ ...header(11n), watchId: a.watchId, events: [put('a', 11n)], fragment: streams === 1 });
    if (streams === 1) stream.send({ ...header(11n), watchId: b.watchId, canceled: true, cancelReason: INVALID_TOKEN });
  });
  const batches = etcd.watch('a').batches();
  etcd.watch('b');
  expect((await batches.next()).value).toMatchObject({ revision: 11n, events: { length: 1 } });
});

test('a watch is refused for its token any number of times, as long as it is created in between', async () => {
  const etcd = await loggedInClientOf(
    refusing(7, (stream, watchId) =>
      stream.send({ ...header(10n), watchId, canceled: true, cancelReason: INVALID_TOKEN }),
    ),
  );
  expect((await etcd.watch('a').batches().next()).value).toMatchObject({ revision: 11n });
});

test('a stream ends for its token any number of times, as long as a watch is created in between', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0);
  onTestFinished(() => void vi.restoreAllMocks());
  const etcd = await loggedInClientOf(refusing(7, (stream) => stream.fail(16, 'etcdserver: invalid auth token')));
  expect((await etcd.watch('a').batches().next()).value).toMatchObject({ revision: 11n });
});

test('watches go on over a new stream after any number of ends by a peer that has enough for now', async () => {
  const etcd = await clientOf(refusing(5, (stream) => stream.fail(8, 'slow down')));
  expect((await etcd.watch('a').batches().next()).value).toMatchObject({ revision: 11n });
});

test('the watches of a namespace leave no listener on the life of the client', async () => {
  const { signal } = new AbortController();
  const stream = new WatchStream(deafRpc(signal));
  const watches = [new Watch(stream, 'a', {}), new Watch(stream, 'b', {})];
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  for (const watch of watches) await watch.close();
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
});

test('a finished watch keeps no process alive, and the next one on its stream does', async () => {
  const held: boolean[] = [];
  const stream = { send: () => {}, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} };
  const transport = {
    unary: () => new Promise<never>(() => {}),
    stream: () => ({ ...stream, hold: (busy: boolean) => void held.push(busy) }),
    close: async () => {},
  };
  const { signal } = new AbortController();
  const watches = new WatchStream(new Rpc(transport, { timeoutMs: 1_000, renewsTokens: false, closed: signal }));
  await new Watch(watches, 'a', {}).close();
  expect(held).toEqual([false]);
  const next = new Watch(watches, 'b', {});
  expect(held).toEqual([false, true]);
  await next.close();
  expect(held).toEqual([false, true, false]);
});

/** Creates the one watch of each stream; refuses it so on the first ones, and then has an event for it. */
function refusing(
  streams: number,
  refuse: (stream: WatchedStream, watchId: bigint) => void,
): (stream: WatchedStream) => Promise<void> {
  let left = streams;
  return async (stream) => {
    const watchId = await createdId(stream);
    stream.send({ ...header(10n), watchId, created: true });
    if (left-- > 0) refuse(stream, watchId);
    else stream.send({ ...header(11n), watchId, events: [put('a', 11n)] });
  };
}

/** The same as `clientOf`, with a password, for which the server gives a token. */
async function loggedInClientOf(play: (stream: WatchedStream) => Promise<void>): Promise<Client> {
  const endpoint = await scriptedServer(
    scriptedUnary(methods.auth.authenticate, () => ({ token: 't' })),
    scriptedStream(methods.watch.watch, play),
  );
  return openClient({ endpoints: [endpoint], auth: ROOT });
}
