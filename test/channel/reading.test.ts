import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ClusterIdentity } from '../../src/channel/cluster-identity.js';
import { openStream } from '../../src/channel/message-stream.js';
import { OrderedReads } from '../../src/channel/ordered-reads.js';
import { type Peer, Peers } from '../../src/channel/peers.js';
import { readStream } from '../../src/channel/read-stream.js';
import { Rpc } from '../../src/channel/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { monotonicMs } from '../../src/runtime/timers.js';
import type { StreamHandler, Transport, UnaryCall } from '../../src/transport/transport.js';

/** A transport whose one stream a test plays itself. */
function played(): { rpc: Rpc; transport: Transport; told: string[]; handler: () => StreamHandler<never> } {
  let known: StreamHandler<never> | undefined;
  const told: string[] = [];
  const note = (what: string) => (): void => void told.push(what);
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
    close: async () => void told.push('close'),
  };
  const settings = { timeoutMs: 1_000, renewsTokens: false, closed: new AbortController().signal };
  return { rpc: new Rpc(transport, settings), transport, told, handler: () => known as StreamHandler<never> };
}

test('a stream that nobody reads is made to wait, and goes on when somebody does', async () => {
  const { rpc, told, handler } = played();
  const stream = openStream(rpc, methods.watch.watch);
  for (let count = 0; count < 15; count += 1) handler().message({} as never);
  expect(told).toEqual([]);
  handler().message({} as never);
  expect(told).toEqual(['pause']);
  await stream.next();
  expect(told).toEqual(['pause', 'resume']);
});

test('the time that the reader takes is not that of the server', async () => {
  const { rpc, handler } = played();
  const messages = readStream(rpc, methods.maintenance.snapshot, {}, { timeoutMs: 200 });
  const first = messages.next();
  for (let count = 0; count < 3; count += 1) handler().message({} as never);
  await first;
  await pause(400);
  expect((await messages.next()).done).toBe(false);
  await messages.return();
});

/** Answers each read with the revision given, or never. */
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
  const transport = { ...played().transport, unary: unary as unknown as Transport['unary'] };
  return { transport, signals };
}

const read = { method: methods.kv.range, request: { key: Buffer.from('k') }, timeoutMs: 1_000 } as const;

test('the other endpoints are asked no longer once one of them has come as far', async () => {
  const { transport, signals } = member([9n, 5n, undefined, 9n]);
  const reads = new OrderedReads(transport, () => ['http://a:1', 'http://b:1'], new ClusterIdentity());
  const call = { ...read, deadline: monotonicMs() + 1_000 };
  await reads.unary(call);
  expect((await reads.unary(call)).header?.revision).toBe(9n);
  // Two endpoints, and the linearizable read that looks whether the cluster went back.
  expect(signals.slice(2).map((signal) => signal?.aborted)).toEqual([true, true, true]);
});

test('the endpoint in use stays so when the list is given anew', () => {
  const [a, b] = ['a', 'b'].map((host) => ({
    endpoint: parseEndpoint(`http://${host}:1`, host),
    transport: played().transport,
    ...{ failures: 0, failedAt: 0, parkedUntil: 0, vainDials: 0, dialAt: 0, users: 0 },
  })) as [Peer, Peer];
  const peers = new Peers([a, b]);
  peers.failed(a);
  expect(peers.pick()).toBe(b);
  a.parkedUntil = 0;
  peers.replace([a, b], []);
  expect(peers.pick()).toBe(b);
});
