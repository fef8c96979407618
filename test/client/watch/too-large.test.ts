import { afterEach, beforeEach, expect, test } from 'vitest';
import { EtcdError } from '../../../src/base/etcd-error.js';
import { ClientEvents } from '../../../src/base/log.js';
import { KeyWatch } from '../../../src/client/watch/watch.js';
import { WatchStream } from '../../../src/client/watch/watch-stream.js';
import { ResponseHeader, type WatchRequest, WatchResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import { Rpc } from '../../../src/rpc/rpc.js';
import type { Init } from '../../../src/wire/protobuf/writer.js';
import type { StreamHandler, Transport } from '../../../src/wire/transport.js';
import { errorOf } from '../../support/errors.js';
import { VirtualClock } from '../../support/virtual-clock.js';

// A server may send a response that is too large for the client, although the client asks for fragments, because etcd
// notes the wish for fragments only after it has created the watch (rule S4 in docs/semantics.md).

const MINUTE_MS = 60_000;
const TOO_LARGE = { code: 'ResourceExhausted', reason: 'ResponseTooLarge', outcome: 'unknown' } as const;
const LOST = { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' } as const;

let clock: VirtualClock;
let watches: WatchStream;
/** For each creation request, in order: whether it asks for fragments. */
let asked: boolean[];
/** The server's side of the newest stream. */
let handler: StreamHandler<WatchResponse>;

beforeEach(() => {
  clock = new VirtualClock();
  asked = [];
  const transport: Transport = {
    unary: () => new Promise<never>(() => {}),
    stream: (_call, given) => {
      handler = given as never;
      const send = ({ requestUnion }: Init<WatchRequest>): void => {
        if (requestUnion?.case !== 'createRequest') return;
        const { watchId = 0n, fragment = false } = requestUnion.value;
        asked.push(fragment);
        const header = { ...ResponseHeader.create(), revision: 1n };
        queueMicrotask(() => handler.message({ ...WatchResponse.create(), header, watchId, created: true }));
      };
      return { send: send as never, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} };
    },
    close: async () => {},
  };
  const { signal: closed } = new AbortController();
  const settings = { timeoutMs: 1_000, renewsTokens: false, closed, events: new ClientEvents() };
  watches = new WatchStream(new Rpc(transport, settings));
});

afterEach(() => clock.restore());

test('a watch survives any number of responses that are too large if each stream lasts for a minute', async () => {
  const watch = new KeyWatch(watches, 'a', {});
  const next = errorOf(watch.batches().next());
  for (let streams = 1; streams <= 6; streams += 1) {
    await clock.pass(MINUTE_MS);
    expect(asked).toHaveLength(streams);
    handler.end(new EtcdError('too large', TOO_LARGE));
  }
  await clock.pass(1);
  expect(asked).toEqual([false, true, true, true, true, true, true]);
  for (let streams = 2; streams <= 4; streams += 1) handler.end(new EtcdError('too large', TOO_LARGE));
  expect(await next).toMatchObject({ reason: 'ResponseTooLarge' });
});

test('the watches of a stream ask for fragments until a stream has lasted for a minute', async () => {
  const first = new KeyWatch(watches, 'a', {});
  await clock.pass(1);
  handler.end(new EtcdError('too large', TOO_LARGE));
  await clock.pass(MINUTE_MS - 1);
  const early = new KeyWatch(watches, 'b', {});
  await clock.pass(1);
  const late = new KeyWatch(watches, 'c', {});
  await clock.pass(1);
  expect(asked).toEqual([false, true, true, false]);
  handler.end(new EtcdError('lost', LOST));
  await clock.pass(100);
  expect(asked.slice(4)).toEqual([false, false, false]);
  for (const watch of [first, early, late]) await watch.close();
});
