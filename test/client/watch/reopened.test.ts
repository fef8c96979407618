import { getEventListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { ClientEvents } from '../../../src/base/log.js';
import { KeyWatch } from '../../../src/client/watch/watch.js';
import { WatchStream } from '../../../src/client/watch/watch-stream.js';
import { methods } from '../../../src/gen/methods.js';
import type { Client } from '../../../src/index.js';
import { Rpc } from '../../../src/rpc/rpc.js';
import { ROOT } from '../../support/auth-etcd.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { scriptedServer, scriptedStream, scriptedUnary } from '../../support/scripted-server.js';
import { clientOf, createdId, creation, header, put, type WatchedStream } from '../../support/scripted-watch.js';
import { silentRpc } from '../../support/silent-rpc.js';

const NO_LEADER = 'rpc error: code = Unavailable desc = etcdserver: no leader';
const INVALID_TOKEN = 'rpc error: code = Unauthenticated desc = etcdserver: invalid auth token';

test('`created()` of a watch resolves with the revision of the first creation even after a reconnect', async () => {
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

test('a watch that waits to be created again is created only once when a new stream opens during the wait', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(1 - Number.EPSILON);
  onTestFinished(() => void vi.restoreAllMocks());
  const created: unknown[] = [];
  const etcd = await clientOf(
    async (stream) => {
      const a = await creation(stream);
      stream.send({ ...header(10n), watchId: a.watchId, created: true });
      const b = await creation(stream);
      stream.send({ ...header(10n), watchId: b.watchId, created: true });
      created.push(a.watchId, b.watchId);
      if (created.length > 2) {
        const { requestUnion } = await stream.receive();
        if (requestUnion?.case === 'createRequest') created.push(requestUnion.value.watchId);
        return;
      }
      stream.send({ ...header(10n), watchId: a.watchId, canceled: true, cancelReason: NO_LEADER });
      // This response is too large, so the client ends the stream and opens another one at once.
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

test('a watch drops a partial revision when a server that has no leader cancels the watch', async () => {
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

test('a watch drops a partial revision when the client replaces the stream because of an invalid token', async () => {
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

test('a watch survives seven cancellations with an invalid-token error if the server creates the watch before each of them', async () => {
  const etcd = await loggedInClientOf(
    refusing(7, (stream, watchId) =>
      stream.send({ ...header(10n), watchId, canceled: true, cancelReason: INVALID_TOKEN }),
    ),
  );
  expect((await etcd.watch('a').batches().next()).value).toMatchObject({ revision: 11n });
});

test('a watch survives seven streams that end with an invalid-token error if the server creates the watch on each stream', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0);
  onTestFinished(() => void vi.restoreAllMocks());
  const etcd = await loggedInClientOf(refusing(7, (stream) => stream.fail(16, 'etcdserver: invalid auth token')));
  expect((await etcd.watch('a').batches().next()).value).toMatchObject({ revision: 11n });
});

test('a watch ends after four streams when the server refuses every token with status Unknown', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0);
  onTestFinished(() => void vi.restoreAllMocks());
  let streams = 0;
  const etcd = await loggedInClientOf(async (stream) => {
    streams += 1;
    if (streams < 6) return stream.fail(2, 'etcdserver: invalid auth token');
    stream.send({ ...header(10n), watchId: await createdId(stream), created: true });
  });
  expect(await errorOf(etcd.watch('a').created())).toMatchObject({ reason: 'InvalidAuthToken' });
  expect(streams).toBe(4);
  // The refusals of the ended watch do not count for another watch.
  expect(await etcd.watch('a').created()).toBe(10n);
  expect(streams).toBe(6);
});

test('a watch continues on a new stream each time an overloaded server ends the stream', async () => {
  const etcd = await clientOf(refusing(5, (stream) => stream.fail(8, 'slow down')));
  expect((await etcd.watch('a').batches().next()).value).toMatchObject({ revision: 11n });
});

test('a watch continues after an overloaded server has refused to authenticate the client', async () => {
  let refusals = 5;
  const endpoint = await scriptedServer(
    scriptedUnary(methods.auth.authenticate, () => {
      if (refusals-- > 0) throw { code: 8, details: 'etcdserver: too many requests' };
      return { token: 't' };
    }),
    scriptedStream(
      methods.watch.watch,
      refusing(0, () => {}),
    ),
  );
  const etcd = openClient({ endpoints: [endpoint], auth: ROOT });
  expect((await etcd.watch('a').batches().next()).value).toMatchObject({ revision: 11n });
  expect(refusals).toBe(-1);
});

test('the watches of a stream share one listener on the signal of the client, and remove the listener when they close', async () => {
  const { signal } = new AbortController();
  const stream = new WatchStream(silentRpc(signal));
  const watches = [new KeyWatch(stream, 'a', {}), new KeyWatch(stream, 'b', {})];
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  for (const watch of watches) await watch.close();
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
});

test('a watch stream keeps the process alive only while the stream has watches', async () => {
  const held: boolean[] = [];
  const stream = { send: () => {}, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} };
  const transport = {
    unary: () => new Promise<never>(() => {}),
    stream: () => ({ ...stream, keepProcessAlive: (busy: boolean) => void held.push(busy) }),
    close: async () => {},
  };
  const { signal } = new AbortController();
  const watches = new WatchStream(
    new Rpc(transport, { timeoutMs: 1_000, renewsTokens: false, events: new ClientEvents(), closed: signal }),
  );
  await new KeyWatch(watches, 'a', {}).close();
  expect(held).toEqual([false]);
  const next = new KeyWatch(watches, 'b', {});
  expect(held).toEqual([false, true]);
  await next.close();
  expect(held).toEqual([false, true, false]);
});

/**
 * Returns a server that answers the creation of the watch on each stream. The server then calls `refuse` for each of
 * the first `streams` streams, and sends an event on every later stream.
 */
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

/** Like `clientOf`, but with a client that logs in with a password and gets a token. */
async function loggedInClientOf(play: (stream: WatchedStream) => Promise<void>): Promise<Client> {
  const endpoint = await scriptedServer(
    scriptedUnary(methods.auth.authenticate, () => ({ token: 't' })),
    scriptedStream(methods.watch.watch, play),
  );
  return openClient({ endpoints: [endpoint], auth: ROOT });
}
