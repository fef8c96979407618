import { afterEach, beforeEach, expect, test } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { ClientEvents } from '../../src/base/log.js';
import { KeyWatch } from '../../src/client/watch/watch.js';
import { WatchStream } from '../../src/client/watch/watch-stream.js';
import { Rpc } from '../../src/rpc/rpc.js';
import type { StreamHandler, Transport } from '../../src/wire/transport.js';
import { VirtualClock } from '../support/virtual-clock.js';

// A stream with users opens again after it ends. Here, the users are watches.

const LINGER_MS = 1_000;
/** More than the first backoff of a stream. */
const BACKOFF_MS = 100;

interface OpenedStream {
  readonly handler: StreamHandler<never>;
  requests: number;
  isCanceled: boolean;
}

let clock: VirtualClock;
let streams: OpenedStream[];
let events: ClientEvents;
let watches: WatchStream;

beforeEach(() => {
  clock = new VirtualClock();
  streams = [];
  events = new ClientEvents();
  const transport: Transport = {
    unary: () => new Promise<never>(() => {}),
    stream: (_call, handler) => {
      const stream: OpenedStream = { handler: handler as StreamHandler<never>, requests: 0, isCanceled: false };
      streams.push(stream);
      return {
        send: () => {
          stream.requests += 1;
        },
        cancel: () => {
          stream.isCanceled = true;
        },
        end: () => {},
        pause: () => {},
        resume: () => {},
      };
    },
    close: async () => {},
  };
  const { signal: closed } = new AbortController();
  const rpc = new Rpc(transport, { timeoutMs: 1_000, renewsTokens: false, closed, events });
  watches = new WatchStream(rpc, LINGER_MS);
});

afterEach(() => clock.restore());

test('a stream that has lingered without users stays open for a user that comes before the end of the linger time', async () => {
  await new KeyWatch(watches, 'first', {}).close();
  await clock.pass(LINGER_MS / 2);
  new KeyWatch(watches, 'second', {});
  await clock.pass(10 * LINGER_MS);
  expect(streams).toMatchObject([{ isCanceled: false }]);
});

test('a stream that could not connect opens again at once when an endpoint is available again', async () => {
  new KeyWatch(watches, 'key', {});
  end('ConnectFailed');
  expect(streams).toHaveLength(1);
  events.report({ type: 'endpoint available again', endpoint: 'http://a' });
  await clock.pass(0);
  expect(streams).toHaveLength(2);
});

test('a stream that the server has ended opens again only after its backoff, although an endpoint is available again', async () => {
  new KeyWatch(watches, 'key', {});
  end('ConnectionLost');
  events.report({ type: 'endpoint available again', endpoint: 'http://a' });
  await clock.pass(0);
  expect(streams).toHaveLength(1);
  await clock.pass(BACKOFF_MS);
  expect(streams).toHaveLength(2);
});

test('a stream whose last user leaves during the backoff does not open again', async () => {
  const watch = new KeyWatch(watches, 'key', {});
  end('ConnectionLost');
  await watch.close();
  await clock.pass(10 * LINGER_MS);
  expect([streams.length, clock.timers]).toEqual([1, 0]);
});

test('a stream without users leaves no listener of the events of the client', async () => {
  const listeners = new Set<unknown>();
  const { add } = events;
  events.add = (listener) => {
    const remove = add.call(events, listener);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      remove();
    };
  };
  const both = [new KeyWatch(watches, 'first', {}), new KeyWatch(watches, 'second', {})];
  expect(listeners.size).toBe(1);
  for (const watch of both) await watch.close();
  expect(listeners.size).toBe(0);
});

function end(reason: 'ConnectFailed' | 'ConnectionLost'): void {
  const outcome = reason === 'ConnectFailed' ? 'not-sent' : 'unknown';
  streams.at(-1)?.handler.end(new EtcdError('ended', { code: 'Unavailable', reason, outcome }));
}
