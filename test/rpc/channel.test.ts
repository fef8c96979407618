import { describe, expect, onTestFinished, test } from 'vitest';
import { callTimedOut, EtcdError, type Outcome, type Reason } from '../../src/base/etcd-error.js';
import { pauseUntil } from '../../src/base/timers.js';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { Channel } from '../../src/rpc/channel.js';
import type { StreamHandler, Transport, UnaryCall } from '../../src/wire/transport.js';
import { errorOf } from '../support/errors.js';
import { VirtualClock } from '../support/virtual-clock.js';

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
  // The channel keeps the transport of the endpoint that the constructor received (`given`), and of its current
  // endpoint (`other`), until the channel itself is closed.
  expect(closed.slice(100).toSorted()).toEqual(['http://given:1', 'http://other:1']);
});

describe('a learner that refuses a call after `setEndpoints` has moved the client to one other endpoint', () => {
  test('does not end a unary call, because the other endpoint may serve it (S30)', async () => {
    const { channel, tried } = movedWhileRefused();
    await channel.unary({ method: methods.kv.put, request: {}, ...UNTIMED });
    expect(tried).toEqual(['http://learner:1', 'http://voter:1']);
  });

  test('ends a stream with a status after which the client opens the stream at the other endpoint (S30)', () => {
    const { channel } = movedWhileRefused();
    const codes: unknown[] = [];
    channel.stream(WATCH, { message: () => {}, end: (error) => void codes.push(error?.code) });
    expect(codes).toEqual(['Unavailable']);
  });
});

describe('a call that the channel repeats until its deadline', () => {
  test.each([0.1, 0.5, 0.999])(
    'ends at the deadline while it waits for its next attempt (random number %d)',
    async (random) => {
      for (const timeoutMs of [50, 700, 5_000]) {
        const { call, clock } = failing(['ConnectFailed', 'not-sent']);
        clock.randomNumber = random;
        const startedAt = clock.now;
        const endedAt = call({ timeoutMs }).then((error) => [error.reason, clock.now - startedAt]);
        await clock.pass(10 * timeoutMs);
        expect(await endedAt).toEqual(['DeadlineExceeded', timeoutMs]);
      }
    },
  );

  test('ends at the deadline when its retry policy asks for a longer wait', async () => {
    const { call, clock } = failing(['ConnectFailed', 'not-sent']);
    const startedAt = clock.now;
    const endedAt = call({ timeoutMs: 700, retryAfter: () => 60_000 }).then(() => clock.now - startedAt);
    await clock.pass(120_000);
    expect(await endedAt).toBe(700);
  });

  test('has the outcome `unknown` if one attempt had this outcome, even if all later attempts were not sent', async () => {
    const { call, clock } = failing(['ConnectionLost', 'unknown'], ['ConnectFailed', 'not-sent']);
    const error = call({ timeoutMs: 700 });
    await clock.pass(700);
    expect(await error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
  });

  test('ends at once, without a timer, when an attempt fails after the deadline because the event loop was blocked', async () => {
    const { call, attempt } = failing(['ConnectionLost', 'unknown']);
    attempt.blocksMs = 800;
    // The clock does not pass on, so no timer can end the call.
    expect(await call({ timeoutMs: 700 })).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
  });

  test('has the outcome `not-sent` if no attempt was sent', async () => {
    const { call, clock } = failing(['ConnectFailed', 'not-sent']);
    const error = call({ timeoutMs: 700 });
    await clock.pass(700);
    expect(await error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
  });
});

describe('a call that names an endpoint', () => {
  const method = { ...methods.lease.leaseGrant, repeatable: true };

  test.each([undefined, () => 0])(
    'ends with the error and the outcome of its last attempt if `setEndpoints` has removed the endpoint (retryAfter: %s)',
    async (retryAfter) => {
      const channel = new Channel(
        endpoints('http://named:1', 'http://other:1'),
        (): Transport => ({
          unary: async () => {
            channel.reset(endpoints('http://other:1'));
            throw new EtcdError('lost', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
          },
          stream: () => {
            throw new Error('no stream');
          },
          close: async () => {},
        }),
      );
      const call = { method, request: {}, endpoint: 'http://named:1', retryAfter, ...UNTIMED };
      expect(await errorOf(channel.unary(call))).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
    },
  );
});

describe('an endpoint that accepts calls and answers none of them (S30)', () => {
  test('loses a client whose calls have time limits below a second', async () => {
    const { tried, read } = unanswering();
    for (let calls = 0; calls < 6; calls += 1) await read(300);
    expect(tried).toEqual([SILENT, SILENT, SILENT, SILENT, ANSWERING, ANSWERING]);
  });

  test('loses a client whose next call comes a minute after a call that timed out', async () => {
    const { tried, read, clock } = unanswering();
    await read(2_000);
    await clock.pass(60_000);
    await read(2_000);
    expect(tried).toEqual([SILENT, ANSWERING]);
  });

  test('loses a client although it answers serializable reads', async () => {
    const { tried, read } = unanswering();
    for (let calls = 0; calls < 5; calls += 1) {
      await read(300);
      await read(300, { serializable: true });
    }
    expect(tried.slice(-2)).toEqual([ANSWERING, ANSWERING]);
  });

  test('keeps a client whose other calls it answers', async () => {
    const { tried, read, state } = unanswering();
    for (let calls = 0; calls < 10; calls += 1) {
      state.answers = calls % 2 === 0;
      await read(900);
    }
    expect(new Set(tried)).toEqual(new Set([SILENT]));
  });
});

const SILENT = 'http://silent:1';
const ANSWERING = 'http://answering:1';
const TIMED_OUT = { code: 'DeadlineExceeded', reason: 'DeadlineExceeded', outcome: 'unknown' } as const;

/**
 * Returns a function that reads over a channel with two endpoints, on a virtual clock. The first endpoint lets each
 * linearizable read time out, unless `state.answers` is true.
 */
function unanswering() {
  const clock = new VirtualClock();
  onTestFinished(() => clock.restore());
  const tried: string[] = [];
  const state = { answers: false };
  const channel = new Channel(
    endpoints(SILENT, ANSWERING),
    ({ url }): Transport => ({
      unary: async ({ request, deadline, method }) => {
        tried.push(url);
        if (url === ANSWERING || state.answers || (request as { serializable?: boolean }).serializable)
          return {} as never;
        await pauseUntil(deadline);
        throw new EtcdError('timed out', { ...TIMED_OUT, method: method.path });
      },
      stream: () => {
        throw new Error('no stream');
      },
      close: async () => {},
    }),
    { balance: 'in-order' },
  );
  const read = async (timeoutMs: number, request: { readonly serializable?: boolean } = {}): Promise<void> => {
    const call = { method: methods.kv.range, request, timeoutMs, deadline: clock.now + timeoutMs };
    const ended = channel.unary(call).catch(() => {});
    await clock.pass(timeoutMs);
    await ended;
  };
  return { tried, read, clock, state };
}

/**
 * Returns a function that reads over a channel with one endpoint, on a virtual clock. The attempts fail with these
 * errors in turn, and all further attempts with the last of them.
 */
function failing(...failures: readonly (readonly [Reason, Outcome])[]) {
  const clock = new VirtualClock();
  onTestFinished(() => clock.restore());
  let attempts = 0;
  const attempt = { blocksMs: 0 };
  const channel = new Channel(
    endpoints('http://failing:1'),
    (): Transport => ({
      unary: async () => {
        clock.block(attempt.blocksMs);
        const [reason, outcome] = failures[Math.min(attempts++, failures.length - 1)] as [Reason, Outcome];
        throw new EtcdError('failed', { code: 'Unavailable', reason, outcome });
      },
      stream: () => {
        throw new Error('no stream');
      },
      close: async () => {},
    }),
  );
  const call = (options: Pick<UnaryCall<never, never>, 'timeoutMs' | 'retryAfter'>): Promise<EtcdError> =>
    errorOf(
      channel.unary({ method: methods.kv.range, request: {}, deadline: clock.now + options.timeoutMs, ...options }),
    );
  return { call, clock, attempt };
}

test('a call that waits for other clients until its deadline does not make its endpoint unavailable', async () => {
  const clock = new VirtualClock();
  onTestFinished(() => clock.restore());
  const channel = new Channel(
    endpoints('http://a:1'),
    (): Transport => ({
      unary: async (call) => {
        await pauseUntil(call.deadline);
        throw callTimedOut(call, 'unknown');
      },
      stream: () => {
        throw new Error('no stream');
      },
      close: async () => {},
    }),
  );
  const timeoutMs = 2_000;
  for (const [method, unavailable] of [
    [methods.lock.lock, []],
    [methods.kv.range, ['http://a:1']],
  ] as const) {
    const call = channel.unary({ method: method as never, request: {}, timeoutMs, deadline: clock.now + timeoutMs });
    const error = errorOf(call);
    await clock.pass(timeoutMs);
    expect(await error).toMatchObject({ reason: 'DeadlineExceeded' });
    expect(channel.unavailable).toEqual(unavailable);
  }
});

/** Returns a channel with a learner that replaces the channel's endpoints by a voter, and then refuses the call. */
function movedWhileRefused(): { readonly channel: Channel; readonly tried: string[] } {
  const tried: string[] = [];
  const refuse = (): EtcdError => {
    channel.reset(endpoints('http://voter:1'));
    return new EtcdError('not for a learner', {
      code: 'Unavailable',
      reason: 'NotSupportedForLearner',
      outcome: 'rejected',
    });
  };
  const channel = new Channel(
    endpoints('http://learner:1'),
    ({ url }): Transport => ({
      unary: async () => {
        tried.push(url);
        if (url === 'http://learner:1') throw refuse();
        return {} as never;
      },
      stream: (_, { end }) => {
        end(refuse());
        return {} as never;
      },
      close: async () => {},
    }),
  );
  return { channel, tried };
}

function endpoints(...urls: readonly string[]) {
  return urls.map((url) => parseEndpoint(url, 'endpoints'));
}
