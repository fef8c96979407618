import { afterEach, beforeEach, expect, test } from 'vitest';
import { Deadlines, type Expiring } from '../../src/base/timers.js';
import { methods } from '../../src/gen/methods.js';
import { type Client, EtcdError, type Interceptor } from '../../src/index.js';
import type { OutgoingStream, StreamHandler, Transport } from '../../src/wire/transport.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { VirtualClock } from '../support/virtual-clock.js';

// Listeners and interceptors may call methods of the client, which is then in the middle of a change of its streams.

const ENDPOINT = 'http://127.0.0.1:1';
const BROKEN = new EtcdError('broken', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });

interface Opened {
  readonly path: string;
  readonly handler: StreamHandler<never>;
  readonly sent: unknown[];
  isOpen: boolean;
}

let clock: VirtualClock;
let streams: Opened[];
/** The revision in the answers to calls. With 0n, calls have no answer. */
let storeRevision: bigint;

beforeEach(() => {
  clock = new VirtualClock();
  streams = [];
  storeRevision = 0n;
});

afterEach(() => clock.restore());

/** Returns a client whose streams are in `streams`. */
function client(interceptors: readonly Interceptor[] = []): Client {
  const transport: Transport = {
    unary: () =>
      storeRevision === 0n
        ? new Promise<never>(() => {})
        : Promise.resolve({ header: { clusterId: 1n, revision: storeRevision }, kvs: [] } as never),
    stream: ({ method }, handler) => {
      const stream: Opened = { path: method.path, handler: handler as StreamHandler<never>, sent: [], isOpen: true };
      streams.push(stream);
      const cancel = (): void => {
        stream.isOpen = false;
      };
      const outgoing: OutgoingStream<unknown> = {
        send: (message) => void stream.sent.push(message),
        end: () => {},
        cancel,
        pause: () => {},
        resume: () => {},
      };
      return outgoing as never;
    },
    close: async () => {},
  };
  return openClient({ endpoints: [ENDPOINT], transport: () => transport, interceptors });
}

function breakStream(stream = streams.at(-1) as Opened): void {
  stream.isOpen = false;
  stream.handler.end(BROKEN);
}

const open = (): Opened[] => streams.filter(({ isOpen }) => isOpen);

/** Returns an interceptor that calls `action` once, while a stream opens. */
function whileOpening(action: () => void): Interceptor {
  let hasRun = false;
  return {
    stream: (call, handler, next) => {
      if (!hasRun) {
        hasRun = true;
        action();
      }
      return next(call, handler);
    },
  };
}

test('a watch that an interceptor opens while the watch stream opens shares the stream', async () => {
  const etcd: Client = client([whileOpening(() => void etcd.watch('b'))]);
  etcd.watch('a');
  expect(streams.map(({ path, isOpen }) => [path, isOpen])).toEqual([[methods.watch.watch.path, true]]);
  const [stream] = streams as [Opened];
  // The client sends the first creation on a stream alone.
  expect(stream.sent).toHaveLength(1);
  stream.handler.message({ header: undefined, watchId: 1n, created: true, events: [] } as never);
  expect(stream.sent).toHaveLength(2);
});

test('a watch stream that opens while an interceptor closes all watches is canceled', () => {
  const etcd: Client = client([whileOpening(() => void watch.close())]);
  const stop = new AbortController();
  const watch = { close: () => stop.abort() };
  etcd.watch('a', { signal: stop.signal });
  expect(streams).toHaveLength(1);
  expect(streams[0]?.sent).toEqual([]);
  etcd.watch('b');
  expect(streams.at(-1)?.sent).toHaveLength(1);
});

test('a renewal stream that opens while an interceptor closes the keepalive is canceled', async () => {
  const etcd: Client = client([whileOpening(() => void alive.close())]);
  const alive = etcd.lease.keepAlive(7n);
  await clock.pass(1_000);
  expect(streams).toHaveLength(1);
  expect([open(), streams[0]?.sent]).toEqual([[], []]);
  expect(clock.timers).toBe(0);
});

test('a watch that a listener opens when the watches begin to wait is created on the next stream, and no stream is lost', async () => {
  const etcd = client();
  const off = etcd.onEvent(({ type }) => {
    if (type !== 'watches wait for a server') return;
    off();
    etcd.watch('b');
  });
  etcd.watch('a');
  breakStream();
  await clock.pass(3_000);
  expect(open()).toHaveLength(1);
  expect(streams).toHaveLength(2);
});

test('a client that a listener closes when the watches begin to wait leaves no timer', async () => {
  const etcd = client();
  let closing: Promise<void> | undefined;
  etcd.onEvent(({ type }) => {
    if (type === 'watches wait for a server') closing = etcd.close();
  });
  etcd.watch('a');
  breakStream();
  await closing;
  expect(clock.timers).toBe(0);
});

test('a watch that an interceptor opens while the client cancels a broken stream is created on the next stream', async () => {
  let onCancel = (): void => {};
  const canceling: Interceptor = {
    stream: (call, handler, next) => {
      const stream = next(call, handler);
      return {
        ...stream,
        cancel: (why) => {
          stream.cancel(why);
          onCancel();
        },
      };
    },
  };
  const etcd = client([canceling]);
  etcd.watch('a');
  onCancel = () => {
    onCancel = () => {};
    etcd.watch('b');
  };
  streams[0]?.handler.leaving?.();
  await clock.pass(3_000);
  expect(open()).toHaveLength(1);
  expect(streams).toHaveLength(2);
});

test('a listener of "endpoints changed" sees the new endpoints, and the endpoints that it sets stay', () => {
  const etcd = client();
  const seen: (readonly string[])[] = [];
  const off = etcd.onEvent(({ type }) => {
    if (type !== 'endpoints changed') return;
    off();
    seen.push(etcd.endpoints);
    etcd.setEndpoints(['http://127.0.0.1:3']);
  });
  etcd.setEndpoints(['http://127.0.0.1:2']);
  expect(seen).toEqual([['http://127.0.0.1:2']]);
  expect(etcd.endpoints).toEqual(['http://127.0.0.1:3']);
});

test('a listener of "endpoint unavailable" sees that the endpoint is unavailable', () => {
  const etcd = client();
  const seen: unknown[] = [];
  etcd.onEvent(({ type }) => {
    if (type === 'endpoint unavailable') seen.push(etcd.toJSON().unavailable);
  });
  etcd.watch('a');
  breakStream();
  expect(seen).toEqual([[ENDPOINT]]);
});

test('a watch that a listener of "cluster restored" opens goes on', async () => {
  const etcd = client();
  storeRevision = 10n;
  await etcd.get('k');
  const former = etcd.watch('a');
  let later: Promise<unknown> | undefined;
  etcd.onEvent(({ type }) => {
    if (type === 'cluster restored') later = etcd.watch('b').created();
  });
  storeRevision = 5n;
  await etcd.get('k');
  expect(await errorOf(former.created())).toMatchObject({ reason: 'ClusterChanged' });
  streams.at(-1)?.handler.message({ header: undefined, watchId: 2n, created: true, events: [] } as never);
  expect(await later).toBe(0n);
});

/** Returns an interceptor that throws each time that a stream opens, from the time when the returned function is called. */
function throwingLater(thrown: unknown): { readonly interceptor: Interceptor; readonly start: () => void } {
  let throws = false;
  const interceptor: Interceptor = {
    stream: (call, handler, next) => {
      if (throws) throw thrown;
      return next(call, handler);
    },
  };
  return {
    interceptor,
    start: () => {
      throws = true;
    },
  };
}

test('an interceptor that throws when a watch stream opens ends the watches with its error as the cause', async () => {
  const thrown = new Error('from the interceptor');
  const { interceptor, start } = throwingLater(thrown);
  const etcd = client([interceptor]);
  const former = etcd.watch('a');
  start();
  const first = errorOf(etcd.watch('b').created());
  breakStream();
  await clock.pass(3_000);
  for (const error of [errorOf(former.created()), first, errorOf(etcd.watch('c').created())])
    expect(await error).toMatchObject({ reason: 'Other', outcome: 'not-sent', cause: thrown });
  expect(clock.timers).toBe(0);
});

test('a client that cannot open its renewal stream, because an interceptor throws, reports for each lease that keepalives wait', async () => {
  const { interceptor, start } = throwingLater(new Error('from the interceptor'));
  const etcd = client([interceptor]);
  start();
  for (const id of [7n, 8n]) {
    const alive = etcd.lease.keepAlive(id);
    const [first, waits] = [errorOf(alive.renewed()), []] as [Promise<unknown>, unknown[]];
    const off = etcd.onEvent((event) => void waits.push(event));
    await clock.pass(1_000);
    off();
    expect(waits).toMatchObject([{ type: 'keepalives wait for a server', problem: 'an interceptor failed' }]);
    await alive.close();
    expect(await first).toMatchObject({ reason: 'KeepAliveClosed' });
  }
});

test('a renewal stream that an interceptor refuses with reason PermissionDenied is opened again after a backoff', async () => {
  let opened = 0;
  const refusing: Interceptor = {
    stream: (call, handler, next) => {
      opened += 1;
      handler.end(
        new EtcdError('denied', { code: 'PermissionDenied', reason: 'PermissionDenied', outcome: 'rejected' }),
      );
      return next(call, handler);
    },
  };
  const alive = client([refusing]).lease.keepAlive(7n);
  await clock.pass(1);
  expect([opened, alive.signal.aborted]).toEqual([1, false]);
  await clock.pass(1_000);
  expect(opened).toBeGreaterThan(1);
});

test('a deadline that passes after a callback of another deadline has thrown is not missed', async () => {
  const deadlines = new Deadlines<Expiring>();
  const expired: string[] = [];
  const failing = new Error('from the callback');
  deadlines.add({
    slot: -1,
    deadline: 1_500,
    expire: () => {
      throw failing;
    },
  });
  deadlines.add({ slot: -1, deadline: 2_000, expire: () => void expired.push('later') });
  await expect(clock.pass(600)).rejects.toBe(failing);
  await clock.pass(600);
  expect(expired).toEqual(['later']);
});
