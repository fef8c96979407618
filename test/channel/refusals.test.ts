import { expect, test } from 'vitest';
import { Channel } from '../../src/channel/channel.js';
import type { StatusCode } from '../../src/errors/status.js';
import { errorFromStatus } from '../../src/errors/status-error.js';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { monotonicMs } from '../../src/runtime/timers.js';
import type { Transport } from '../../src/transport/transport.js';
import { errorOf } from '../support/errors.js';

const LEADER_CHANGED = ['Unavailable', 'etcdserver: leader changed'] as const;
const DROPPED = ['Unknown', 'raft proposal dropped'] as const;
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
      unary: async () => {
        asked.push(url);
        if (url === A && left-- > 0) throw errorFromStatus(...refusal);
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
  return { asked, call };
}

// Rule S39 (docs/semantics.md): a temporary refusal does not make an endpoint unavailable.
test.each([
  ['a read', get, LEADER_CHANGED],
  ['a read', get, BEHIND],
  ['a read', get, DROPPED],
  ['a write', put, DROPPED],
] as const)(
  '%s is retried at the same endpoint when the member refuses it temporarily with %3$s',
  async (_, what, refusal) => {
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

test('a write is not retried after LeaderChanged, because the outcome of the write is unknown', async () => {
  const { asked, call } = refusingChannel(LEADER_CHANGED, 1);
  expect(await errorOf(call(put))).toMatchObject({ reason: 'LeaderChanged', outcome: 'unknown' });
  expect(asked).toEqual([A]);
});

test('a dropped proposal has outcome rejected, because raft did not append it', () => {
  expect(errorFromStatus(...DROPPED)).toMatchObject({
    reason: 'ProposalDropped',
    code: 'Unknown',
    outcome: 'rejected',
    message: 'raft proposal dropped',
  });
});

test("a timeout reported by the server has reason Timeout before the caller's deadline, and DeadlineExceeded after it", async () => {
  const refusal = ['Unavailable', 'etcdserver: request timed out'] as const;
  for (const [leftMs, reason] of [
    [0, 'DeadlineExceeded'],
    [60_000, 'Timeout'],
  ] as const) {
    const channel = new Channel([parseEndpoint(A, 'endpoints')], () => ({
      unary: async ({ deadline }) => {
        // The deadline passes before the response is read. The client's own timer has not fired yet.
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
