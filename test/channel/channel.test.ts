import { expect, test } from 'vitest';
import { Channel } from '../../src/channel/channel.js';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import type { StreamHandler, Transport } from '../../src/transport/transport.js';

const UNTIMED = { timeoutMs: Number.POSITIVE_INFINITY, deadline: Number.POSITIVE_INFINITY };
const WATCH = { method: methods.watch.watch, ...UNTIMED };
const IGNORE = { message: () => {}, end: () => {} };

test('the channel closes the transport of a removed endpoint when the last call or stream on that transport has ended', async () => {
  const closed: string[] = [];
  const handlers = new Map<string, StreamHandler<never>>();
  const channel = new Channel(
    endpoints('http://given:1'),
    ({ url }): Transport => ({
      unary: async () => ({}) as never,
      stream: (_, handler) => {
        handlers.set(url, handler as StreamHandler<never>);
        return { send: () => {}, cancel: () => {} } as never;
      },
      close: async () => void closed.push(url),
    }),
  );
  for (let change = 0; change < 100; change += 1) {
    channel.follow(endpoints(`http://changing:${change + 1}`));
    await channel.unary({ method: methods.kv.range, request: {}, ...UNTIMED });
  }
  expect(closed).toHaveLength(99);
  const canceled = channel.stream(WATCH, IGNORE);
  channel.stream(WATCH, IGNORE);
  channel.follow(endpoints('http://other:1'));
  canceled.cancel();
  canceled.cancel();
  expect(closed).toHaveLength(99);
  handlers.get('http://changing:100')?.end(undefined);
  expect(closed.at(-1)).toBe('http://changing:100');
  await channel.close();
  // The channel keeps the transport of the endpoint it was constructed with (`given`), and of the endpoint it follows
  // now (`other`), until the channel itself is closed.
  expect(closed.slice(100).toSorted()).toEqual(['http://given:1', 'http://other:1']);
});

function endpoints(...urls: readonly string[]) {
  return urls.map((url) => parseEndpoint(url, 'endpoints'));
}
