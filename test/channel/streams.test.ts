import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ClusterIdentity } from '../../src/channel/cluster-identity.js';
import { OrderedReads } from '../../src/channel/ordered-reads.js';
import { Rpc } from '../../src/channel/rpc.js';
import { openStream, readStream } from '../../src/channel/streams.js';
import { methods } from '../../src/gen/methods.js';
import { monotonicMs } from '../../src/runtime/timers.js';
import type { StreamHandler, Transport, UnaryCall } from '../../src/transport/transport.js';

/**
 * Returns a transport with one stream, and the stream's handler. `calls` records the calls to `cancel`, `pause`,
 * `resume` and `close`.
 */
function scripted(): { rpc: Rpc; transport: Transport; calls: string[]; handler: () => StreamHandler<never> } {
  let known: StreamHandler<never> | undefined;
  const calls: string[] = [];
  const note = (what: string) => (): void => void calls.push(what);
  const stream = {
    send: () => {},
    end: () => {},
    cancel: note('cancel'),
    pause: note('pause'),
    resume: note('resume'),
  };
  const transport: Transport = {
    unary: () => new Promise<never>(() => {}),
    stream: (_call, handler) => {
      known = handler as StreamHandler<never>;
      return stream;
    },
    close: async () => void calls.push('close'),
  };
  const settings = { timeoutMs: 1_000, renewsTokens: false, closed: new AbortController().signal };
  return { rpc: new Rpc(transport, settings), transport, calls, handler: () => known as StreamHandler<never> };
}

test('openStream pauses the stream after 16 unread messages, and resumes the stream when the caller reads', async () => {
  const { rpc, calls, handler } = scripted();
  const stream = openStream(rpc, methods.watch.watch);
  for (let count = 0; count < 15; count += 1) handler().message({} as never);
  expect(calls).toEqual([]);
  handler().message({} as never);
  expect(calls).toEqual(['pause']);
  await stream.next();
  expect(calls).toEqual(['pause', 'resume']);
});

test("the time limit of readStream does not include the time between the caller's reads", async () => {
  const { rpc, handler } = scripted();
  const messages = readStream(rpc, methods.maintenance.snapshot, {}, { timeoutMs: 200 });
  const first = messages.next();
  for (let count = 0; count < 3; count += 1) handler().message({} as never);
  await first;
  await pause(400);
  expect((await messages.next()).done).toBe(false);
  await messages.return();
});

/**
 * Returns the transport of a member that answers one read with each of these revisions, in order, and never answers a
 * read whose revision is undefined. `signals` lists the abort signals of the reads.
 */
function member(revisions: readonly (bigint | undefined)[]): {
  transport: Transport;
  signals: (AbortSignal | undefined)[];
} {
  const signals: (AbortSignal | undefined)[] = [];
  const rest = [...revisions];
  const unary = async ({ signal }: UnaryCall<never, never>): Promise<never> => {
    signals.push(signal);
    const revision = rest.shift();
    return revision === undefined ? new Promise<never>(() => {}) : ({ header: { revision }, kvs: [] } as never);
  };
  const transport = { ...scripted().transport, unary: unary as unknown as Transport['unary'] };
  return { transport, signals };
}

const read = { method: methods.kv.range, request: { key: Buffer.from('k') }, timeoutMs: 1_000 } as const;

test('OrderedReads cancels the other reads when one endpoint returns a revision that is recent enough', async () => {
  const { transport, signals } = member([9n, 5n, undefined, 9n]);
  const reads = new OrderedReads(transport, () => ['http://a:1', 'http://b:1'], new ClusterIdentity());
  const call = { ...read, deadline: monotonicMs() + 1_000 };
  await reads.unary(call);
  expect((await reads.unary(call)).header?.revision).toBe(9n);
  // These are the signals of the reads at two endpoints and of the linearizable read that detects a restored cluster.
  expect(signals.slice(2).map((signal) => signal?.aborted)).toEqual([true, true, true]);
});
