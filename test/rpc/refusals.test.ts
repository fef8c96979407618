import { expect, onTestFinished, test, vi } from 'vitest';
import { canceled, EtcdError } from '../../src/base/etcd-error.js';
import { ClientEvents } from '../../src/base/log.js';
import type { StatusCode } from '../../src/base/status.js';
import { errorFromStatus } from '../../src/base/status-error.js';
import { monotonicMs } from '../../src/base/timers.js';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { Channel } from '../../src/rpc/channel.js';
import { encode } from '../../src/wire/protobuf/writer.js';
import type { Transport } from '../../src/wire/transport.js';
import { errorOf } from '../support/errors.js';
import { VirtualClock } from '../support/virtual-clock.js';

const LEADER_CHANGED = ['Unavailable', 'etcdserver: leader changed'] as const;
const DROPPED = ['Unknown', 'raft proposal dropped'] as const;
const OVERLOADED = ['ResourceExhausted', 'etcdserver: too many requests'] as const;
const BEHIND = ['Unavailable', 'etcdserver: request timed out, waiting for the applied index took too long'] as const;

const [A, B] = ['http://a:1', 'http://b:1'] as const;
const put = { method: methods.kv.put, request: { key: Buffer.from('k') } };
const get = { method: methods.kv.range, request: { key: Buffer.from('k') } };

/**
 * Returns a channel over two endpoints, and the URLs of the endpoints that were called. The first endpoint refuses the
 * first `refusals` calls with the status `refusal`, and then accepts calls.
 */
function refusingChannel(refusal: readonly [StatusCode, string], refusals: number) {
  const asked: string[] = [];
  let left = refusals;
  const channel = new Channel(
    [A, B].map((url) => parseEndpoint(url, 'endpoints')),
    ({ url }): Transport => ({
      unary: async ({ method }) => {
        asked.push(url);
        if (url === A && left-- > 0) throw errorFromStatus(...refusal, { method: method.path });
        return {} as never;
      },
      stream: () => {
        throw new Error('no stream');
      },
      close: async () => {},
    }),
  );
  const call = (what: typeof put | typeof get): Promise<unknown> =>
    channel.unary<unknown, unknown>({ ...what, timeoutMs: 10_000, deadline: monotonicMs() + 10_000 });
  return { asked, call, channel };
}

// Rule S39 (docs/semantics.md): a temporary refusal does not make an endpoint unavailable.
test.each(
  (
    [
      ['a read', get, LEADER_CHANGED],
      ['a read', get, BEHIND],
      ['a read', get, DROPPED],
      ['a write', put, DROPPED],
      ['a read', get, OVERLOADED],
      ['a write', put, OVERLOADED],
    ] as const
  ).map(([name, what, refusal]) => [name, refusal[1], what, refusal] as const),
)(
  '%s is retried at the same endpoint when the member temporarily refuses the call with "%s"',
  async (_name, _problem, what, refusal) => {
    const { asked, call } = refusingChannel(refusal, 2);
    await call(what);
    expect(asked).toEqual([A, A, A]);
    // The pool has not put the endpoint aside (parked it), so the next call uses the same endpoint.
    await call(what);
    expect(asked.at(-1)).toBe(A);
  },
);

test('a read is retried at another endpoint when the first endpoint keeps refusing the read', async () => {
  const { asked, call } = refusingChannel(LEADER_CHANGED, Number.POSITIVE_INFINITY);
  await call(get);
  expect(asked.at(-1)).toBe(B);
  expect(asked.filter((url) => url === A).length).toBeGreaterThan(2);
});

test('a write is repeated at the same endpoint until its deadline while the member has too many requests', async () => {
  const { asked, channel } = refusingChannel(OVERLOADED, Number.POSITIVE_INFINITY);
  const deadline = monotonicMs() + 700;
  expect(await errorOf(channel.unary({ ...put, timeoutMs: 700, deadline }))).toMatchObject({
    reason: 'DeadlineExceeded',
    outcome: 'rejected',
    message: expect.stringContaining('too many requests'),
  });
  expect(asked.length).toBeGreaterThan(2);
  expect(new Set(asked)).toEqual(new Set([A]));
});

test('calls that an overloaded member has refused wait until the same time when the member then refuses connections', async () => {
  const clock = new VirtualClock();
  onTestFinished(() => clock.restore());
  const connectedAt = new Set<number>();
  let refusals = 100;
  const channel = new Channel(
    [parseEndpoint(A, 'endpoints')],
    (): Transport => ({
      unary: async () => {
        if (refusals-- > 0) throw errorFromStatus(...OVERLOADED);
        connectedAt.add(clock.now);
        throw new EtcdError('refused', { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent' });
      },
      stream: () => {
        throw new Error('no stream');
      },
      close: async () => {},
    }),
  );
  const deadline = clock.now + 1_000;
  const calls: Promise<unknown>[] = [];
  for (let call = 1; call <= 100; call += 1) {
    // A different random number for each call makes the calls wait for different times.
    clock.randomNumber = call / 100;
    calls.push(errorOf(channel.unary({ ...put, timeoutMs: 1_000, deadline })));
    await clock.pass(0);
  }
  await clock.pass(1_000);
  for (const error of await Promise.all(calls)) expect(error).toMatchObject({ reason: 'DeadlineExceeded' });
  // If all calls share one backoff with full jitter that starts at 50 ms, they make about ten attempts in a second.
  expect(connectedAt.size).toBeLessThan(20);
});

test('the only endpoint stays available, no matter how often it temporarily refuses a call', async () => {
  let refusals = 8;
  const events = new ClientEvents();
  const report = vi.fn();
  events.add(report);
  const channel = new Channel(
    [parseEndpoint(A, 'endpoints')],
    (): Transport => ({
      unary: async () => {
        if (refusals-- > 0) throw errorFromStatus(...BEHIND);
        return {} as never;
      },
      stream: () => {
        throw new Error('no stream');
      },
      close: async () => {},
    }),
    { events },
  );
  vi.spyOn(Math, 'random').mockReturnValue(0);
  onTestFinished(() => void vi.restoreAllMocks());
  await channel.unary<unknown, unknown>({ ...get, timeoutMs: 10_000, deadline: monotonicMs() + 10_000 });
  expect(report).not.toHaveBeenCalled();
});

test('a write is not retried when the member answers "leader changed", because the outcome of the write is unknown', async () => {
  const { asked, call } = refusingChannel(LEADER_CHANGED, 1);
  expect(await errorOf(call(put))).toMatchObject({ reason: 'LeaderChanged', outcome: 'unknown' });
  expect(asked).toEqual([A]);
});

test('the error "raft proposal dropped" has outcome rejected, because raft did not append the proposal', () => {
  expect(errorFromStatus(...DROPPED)).toMatchObject({
    reason: 'ProposalDropped',
    code: 'Unknown',
    outcome: 'rejected',
    message: 'raft proposal dropped',
  });
});

test("a timeout that the server reports has reason Timeout before the caller's deadline, and reason DeadlineExceeded after the deadline", async () => {
  const refusal = ['Unavailable', 'etcdserver: request timed out'] as const;
  for (const [leftMs, reason] of [
    [0, 'DeadlineExceeded'],
    [60_000, 'Timeout'],
  ] as const) {
    const channel = new Channel([parseEndpoint(A, 'endpoints')], () => ({
      unary: async ({ deadline }) => {
        // Block the event loop until the deadline has passed, so that the error arrives before the client's own timer
        // fires.
        while (leftMs === 0 && monotonicMs() < deadline);
        throw errorFromStatus(...refusal);
      },
      stream: () => {
        throw new Error('no stream');
      },
      close: async () => {},
    }));
    const call = { ...put, timeoutMs: 20, deadline: monotonicMs() + 20 + leftMs };
    expect(await errorOf(channel.unary(call))).toMatchObject({ reason, outcome: 'unknown' });
  }
});

test('a write has outcome rejected when the server refuses its first attempt, and the caller cancels it before the second attempt', async () => {
  const abort = new AbortController();
  let calls = 0;
  const channel = new Channel([parseEndpoint(A, 'endpoints')], () => ({
    unary: async () => {
      calls += 1;
      if (calls === 1) throw errorFromStatus(...DROPPED);
      abort.abort();
      throw canceled(abort.signal, 'not-sent');
    },
    stream: () => {
      throw new Error('no stream');
    },
    close: async () => {},
  }));
  const call = { ...put, signal: abort.signal, timeoutMs: 10_000, deadline: monotonicMs() + 10_000 };
  expect(await errorOf(channel.unary(call))).toMatchObject({ reason: 'Canceled', outcome: 'rejected' });
  expect(calls).toBe(2);
});

test.each([
  ['rejected', 'has the length of the request', 0],
  ['unknown', 'has another length than the request, because a proxy has refused the response', 1],
] as const)('a write has outcome %s when the message that gRPC refuses %s', async (outcome, _, difference) => {
  const { method, request } = put;
  const length = encode(method.request, request).length + difference;
  const { call } = refusingChannel(
    ['ResourceExhausted', `grpc: received message larger than max (${length} vs. 2)`],
    Number.POSITIVE_INFINITY,
  );
  expect(await errorOf(call(put))).toMatchObject({ reason: 'Other', outcome });
});

test('a candidacy is not repeated when a member refuses it because of too many requests, because its key may exist', async () => {
  const channel = refusingChannel(['ResourceExhausted', 'etcdserver: too many requests'], 1);
  const campaign = { method: methods.election.campaign, request: {} };
  const error = await errorOf(
    channel.channel.unary<unknown, unknown>({ ...campaign, timeoutMs: 10_000, deadline: monotonicMs() + 10_000 }),
  );
  expect(error).toMatchObject({ reason: 'RequestTooManyRequests' });
  expect(channel.asked).toEqual([A]);
});
