import fc from 'fast-check';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import type { EtcdError } from '../../src/base/etcd-error.js';
import { errorFromStatus } from '../../src/base/status-error.js';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { Channel } from '../../src/rpc/channel.js';
import type { Transport, UnaryCall } from '../../src/wire/transport.js';
import { errorOf } from '../support/errors.js';
import { VirtualClock } from '../support/virtual-clock.js';

const [A, B] = ['http://a:2379', 'http://b:2379'] as const;

let clock: VirtualClock;
beforeEach(() => {
  clock = new VirtualClock();
});
afterEach(() => clock.restore());

/** A call that a server has received and not answered yet. */
interface Received {
  readonly key: string;
  answer(error?: EtcdError): void;
}

/** A server that answers a call when the test calls `answer`. */
class Server implements Transport {
  readonly received: Received[] = [];
  suspect = false;

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    return new Promise((resolve, reject) => {
      const received: Received = {
        key: keyOf(call),
        answer: (error) => {
          this.received.splice(this.received.indexOf(received), 1);
          if (error === undefined) resolve({} as Response);
          else reject(error);
        },
      };
      this.received.push(received);
    });
  }

  stream(): never {
    throw new Error('no stream');
  }

  async close(): Promise<void> {
    for (const { answer } of [...this.received]) answer();
  }

  get keys(): string[] {
    return this.received.map(({ key }) => key);
  }
}

function keyOf(call: UnaryCall<never, never> | UnaryCall<unknown, unknown>): string {
  return (call.request as { readonly key: string }).key;
}

function start(maxInFlight: number, urls: readonly string[] = [A]) {
  const servers = new Map(urls.map((url) => [url, new Server()]));
  const endpoints = urls.map((url) => parseEndpoint(url, 'endpoints'));
  const channel = new Channel(endpoints, ({ url }) => servers.get(url) as Server, { maxInFlight });
  const call = (key: string, options: Partial<UnaryCall<unknown, unknown>> = {}): Promise<unknown> => {
    const deadline = clock.now + (options.timeoutMs ?? 60_000);
    const method = methods.kv.put as UnaryCall<unknown, unknown>['method'];
    return channel.unary<unknown, unknown>({ method, request: { key }, timeoutMs: 60_000, deadline, ...options });
  };
  return { channel, call, servers, server: servers.get(A) as Server };
}

/** Lets all pending promise callbacks run. */
const settled = (): Promise<void> => clock.pass(0);

test('calls above `maxInFlight` wait, and are sent in the order in which they were made', async () => {
  const { call, server } = start(2);
  const calls = ['1', '2', '3', '4', '5'].map((key) => call(key));
  await settled();
  expect(server.keys).toEqual(['1', '2']);
  server.received[0]?.answer();
  await settled();
  expect(server.keys).toEqual(['2', '3']);
  const late = call('6');
  for (const next of ['4', '5', '6']) {
    server.received[0]?.answer();
    await settled();
    expect(server.keys.at(-1)).toBe(next);
  }
  for (const { answer } of [...server.received]) answer();
  await Promise.all([...calls, late]);
});

test('a waiting call times out without being sent, and its error names `maxInFlight`', async () => {
  const { call, server } = start(1);
  void call('1');
  const error = errorOf(call('2', { timeoutMs: 500 }));
  await clock.pass(500);
  expect(await error).toMatchObject({
    reason: 'DeadlineExceeded',
    outcome: 'not-sent',
    problem:
      'call did not finish within timeoutMs = 500; it was never sent, because maxInFlight = 1 earlier calls were in flight',
  });
  server.received[0]?.answer();
  await settled();
  expect(server.keys).toEqual([]);
});

test('a call whose deadline has passed rejects at once instead of waiting in the queue', async () => {
  const { call } = start(1);
  void call('1');
  const error = errorOf(call('2', { deadline: clock.now - 1 }));
  // The virtual clock stands still, so no timer fires.
  expect(await error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
});

test('a waiting call that is canceled is never sent', async () => {
  const { call, server } = start(1);
  void call('1');
  const stop = new AbortController();
  const error = errorOf(call('2', { signal: stop.signal }));
  const last = call('3');
  stop.abort();
  expect(await error).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
  server.received[0]?.answer();
  await settled();
  expect(server.keys).toEqual(['3']);
  server.received[0]?.answer();
  await last;
});

test('closing the channel ends all waiting calls with outcome `not-sent`, and leaves no timer', async () => {
  const { call, channel } = start(1);
  void call('1');
  const errors = ['2', '3'].map((key) => errorOf(call(key)));
  await channel.close();
  for (const error of errors) expect(await error).toMatchObject({ reason: 'ClientClosed', outcome: 'not-sent' });
  expect(clock.timers).toBe(0);
});

test('no timer remains after the last waiting call was sent', async () => {
  const { call, server } = start(1);
  const calls = [call('1'), call('2', { timeoutMs: 1_000 })];
  await settled();
  server.received[0]?.answer();
  await settled();
  server.received[0]?.answer();
  await Promise.all(calls);
  await clock.pass(1_000);
  expect(clock.timers).toBe(0);
});

// The queue would otherwise reject a promise that nobody awaits, which ends a process of Node.js.
test.each(['its deadline passes', 'its signal aborts'] as const)(
  'the queue does not end a call that it has let through, when %s while the server has the call',
  async (end) => {
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', note);
    onTestFinished(() => void process.off('unhandledRejection', note));
    const { call, server } = start(1);
    const stop = new AbortController();
    const calls = [call('1'), call('2', { timeoutMs: 500, signal: stop.signal })];
    await settled();
    server.received[0]?.answer();
    await settled();
    expect(server.keys).toEqual(['2']);
    if (end === 'its signal aborts') stop.abort();
    else await clock.pass(500);
    // Node.js reports unhandled rejections before it runs the next immediate.
    await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
    server.received[0]?.answer();
    await Promise.all(calls);
  },
);

test.each([
  ['a revocation', { method: methods.lease.leaseRevoke }],
  ['an unlock', { method: methods.lock.unlock }],
  ['a resignation', { method: methods.election.resign }],
  ['an `Authenticate` call', { method: methods.auth.authenticate }],
  ['a call marked as urgent', { urgent: true }],
] as const)('%s does not wait behind other calls', async (_, options) => {
  const { call, server } = start(1);
  for (const key of ['1', '2', '3']) void call(key);
  void call('urgent', options as Partial<UnaryCall<unknown, unknown>>);
  await settled();
  expect(server.keys).toEqual(['1', 'urgent']);
});

test('`maxInFlight` also limits the urgent calls in flight', async () => {
  const { call, server } = start(2);
  for (const key of ['1', '2', '3']) void call(key, { urgent: true });
  await settled();
  expect(server.keys).toEqual(['1', '2']);
});

// If these calls counted, many waiting calls could reach `maxInFlight`, and the holder's calls would wait for them.
test.each([
  ['Lock', methods.lock.lock],
  ['Campaign', methods.election.campaign],
])('calls of %s, which wait at the server, do not count toward `maxInFlight`', async (_, method) => {
  const { call, server } = start(1);
  for (const key of ['1', '2', '3']) void call(key, { method } as Partial<UnaryCall<unknown, unknown>>);
  void call('4');
  await settled();
  expect(server.keys).toEqual(['1', '2', '3', '4']);
});

test('a call that names an endpoint does not wait for the calls in flight at another endpoint', async () => {
  const { call, servers } = start(1, [A, B]);
  for (const key of ['1', '2']) void call(key);
  for (const key of ['3', '4']) void call(key, { endpoint: B });
  await settled();
  expect(servers.get(A)?.keys).toEqual(['1']);
  expect(servers.get(B)?.keys).toEqual(['3']);
  servers.get(B)?.received[0]?.answer();
  await settled();
  expect(servers.get(B)?.keys).toEqual(['4']);
});

test('the queue sends calls that name an endpoint and other calls alternately', async () => {
  const { call, server } = start(1);
  for (const key of ['1', '2', '3']) void call(key);
  for (const key of ['a', 'b', 'c']) void call(key, { endpoint: A });
  const order: string[] = [];
  for (let sent = 0; sent < 6; sent += 1) {
    await settled();
    order.push(...server.keys);
    server.received[0]?.answer();
  }
  expect(order.filter((key) => '123'.includes(key))).toEqual(['1', '2', '3']);
  expect(order.filter((key) => 'abc'.includes(key))).toEqual(['a', 'b', 'c']);
  expect(order.slice(1).join('')).toMatch(/^(\d[abc]|[abc]\d)+/);
});

test('waiting calls go to another endpoint as soon as their endpoint is suspected to be silent, although no call ends', async () => {
  const { call, servers } = start(1, [A, B]);
  for (const key of ['1', '2']) void call(key);
  await settled();
  (servers.get(A) as Server).suspect = true;
  await clock.pass(300);
  expect(servers.get(A)?.keys).toEqual(['1']);
  expect(servers.get(B)?.keys).toEqual(['2']);
});

test('a call that the server temporarily refuses still counts toward `maxInFlight`, so that the server does not receive further calls meanwhile', async () => {
  const { call, server } = start(1);
  const calls = [call('1'), call('2')];
  for (let refusals = 0; refusals < 3; refusals += 1) {
    await settled();
    expect(server.keys).toEqual(['1']);
    server.received[0]?.answer(errorFromStatus('ResourceExhausted', 'etcdserver: too many requests'));
    await clock.pass(2_000);
  }
  expect(server.keys).toEqual(['1']);
  server.received[0]?.answer();
  await settled();
  server.received[0]?.answer();
  await Promise.all(calls);
});

// The test makes random calls, answers, failures, timeouts and cancellations.
test('every call settles once, calls are sent in order, and no endpoint has more calls in flight than `maxInFlight`', async () => {
  const step = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        type: fc.constant('call' as const),
        timeoutMs: fc.integer({ min: 1, max: 900 }),
        kind: fc.constantFrom('normal', 'urgent', 'named'),
        canceledAfter: fc.option(fc.nat(5)),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ type: fc.constant('answer' as const), at: fc.constantFrom(A, B), index: fc.nat(3) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ type: fc.constant('suspect' as const), at: fc.constantFrom(A, B), is: fc.boolean() }),
    },
    { weight: 2, arbitrary: fc.record({ type: fc.constant('pass' as const), ms: fc.nat(400) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 3 }), async (steps, maxInFlight) => {
      const { call, channel, servers } = start(maxInFlight, [A, B]);
      const settledCalls: string[] = [];
      const made: string[] = [];
      const sent: string[] = [];
      const stops = new Map<number, AbortController[]>();
      const note = (): void => {
        for (const server of servers.values()) {
          for (const kind of ['normal', 'urgent'])
            expect(server.keys.filter((key) => key.startsWith(kind)).length).toBeLessThanOrEqual(maxInFlight);
          for (const key of server.keys) if (!sent.includes(key)) sent.push(key);
        }
      };
      for (const [index, action] of steps.entries()) {
        for (const stop of stops.get(index) ?? []) stop.abort();
        if (action.type === 'call') {
          const { kind, timeoutMs, canceledAfter } = action;
          // A call that names an endpoint counts as a normal call, so its key also begins with "normal".
          const key = `${kind === 'named' ? 'normal at b' : kind} ${made.length}`;
          made.push(key);
          const stop = new AbortController();
          if (canceledAfter !== null)
            stops.set(index + canceledAfter, [...(stops.get(index + canceledAfter) ?? []), stop]);
          const options = { urgent: kind === 'urgent', endpoint: kind === 'named' ? B : undefined };
          const settle = (): void => void settledCalls.push(key);
          call(key, { ...options, timeoutMs, signal: stop.signal }).then(settle, settle);
        } else if (action.type === 'answer') servers.get(action.at)?.received[action.index]?.answer();
        else if (action.type === 'suspect') (servers.get(action.at) as Server).suspect = action.is;
        else await clock.pass(action.ms);
        await settled();
        note();
      }
      await channel.close();
      await settled();
      expect(settledCalls.toSorted()).toEqual(made.toSorted());
      const order = (keys: readonly string[], kind: string): number[] =>
        keys.filter((key) => key.startsWith(kind)).map((key) => Number(key.split(' ').at(-1)));
      for (const kind of ['normal at b', 'urgent']) {
        const numbers = order(sent, kind);
        expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
      }
    }),
    { seed: 18, numRuns: 300 },
  );
});
