import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { environment, replaceEnvironment } from '../../src/base/environment.js';
import { monotonicMs } from '../../src/base/timers.js';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { CallQueue } from '../../src/rpc/call-queue.js';
import { type Balance, EndpointPool, type PooledEndpoint } from '../../src/rpc/endpoint-pool.js';
import { randomNumbers } from '../load/rounds.js';
import { VirtualClock } from '../support/virtual-clock.js';

const [A, B, C] = ['http://a:1', 'http://b:1', 'http://c:1'] as const;

// The pool parks an endpoint that fails: until the parking ends, the pool picks another endpoint if one is available.
// A spare endpoint is a configured endpoint that is not in the latest list of preferred endpoints.
describe('the endpoint pool', () => {
  it('picks the same endpoint again while no call to that endpoint fails', () => {
    const pool = poolOf(A, B, C);
    expect(pool.pick()).toBe(pool.pick());
  });

  it('picks the third endpoint, not the first, after the first two endpoints have failed', () => {
    const pool = poolOf(A, B, C);
    const order = [0, 1, 2].map(() => {
      const endpoint = pool.pick();
      fail(pool, endpoint);
      return endpoint.url;
    });
    expect(order).toEqual([A, B, C]);
  });

  it('picks the endpoint with the least parking time left when all endpoints are parked after failures', () => {
    const pool = poolOf(A, B, C);
    const [a, b, c] = pool.all as [PooledEndpoint, PooledEndpoint, PooledEndpoint];
    for (const endpoint of [a, b, c]) fail(pool, endpoint);
    b.parkedUntil = 1 + Math.min(a.parkedUntil, c.parkedUntil) - 1_000;
    expect(pool.pick()).toBe(b);
  });

  it('counts one failure when many calls fail because one connection was lost', () => {
    const pool = poolOf(A, B, C);
    const endpoint = pool.pick();
    for (let call = 0; call < 200; call += 1) fail(pool, endpoint);
    expect(endpoint.failures).toBe(1);
    // A stream that ended because the endpoint failed must not be opened again at this endpoint at once.
    expect(endpoint.parkedUntil - monotonicMs()).toBeGreaterThan(500);
  });

  it('keeps an endpoint parked after the success of an attempt that started before the failure, and picks the endpoint after a later success', () => {
    const clock = new VirtualClock();
    onTestFinished(() => clock.restore());
    const pool = poolOf(A, B);
    const [a, b] = pool.all as [PooledEndpoint, PooledEndpoint];
    fail(pool, b);
    clock.block(10);
    const beforeFailure = clock.now;
    clock.block(10);
    fail(pool, a);
    pool.succeeded(a, beforeFailure);
    // Both endpoints are parked, and the parking of the other endpoint ends first.
    expect([pool.unavailable, pool.pick()]).toEqual([[A, B], b]);
    pool.succeeded(a, clock.now);
    expect([pool.unavailable, pool.pick()]).toEqual([[B], a]);
  });

  it('counts one failure when many calls cannot connect, and delays new connections longer after repeated failures', () => {
    const pool = poolOf(A, B, C);
    const endpoint = pool.pick();
    const waits = Array.from({ length: 12 }, () => {
      for (let call = 0; call < 200; call += 1) fail(pool, endpoint, 'ConnectFailed');
      const wait = endpoint.connectAt - monotonicMs();
      // Ends the wait, so that the next failure counts as the failure of a new connection attempt.
      endpoint.connectAt = monotonicMs();
      return wait;
    });
    expect(endpoint.connectFailures).toBeLessThan(30);
    expect(Math.max(...waits)).toBeGreaterThan(200);
    fail(pool, endpoint, 'ConnectFailed');
    endpoint.connectAt += 60_000;
    expect(pool.pauseMs(endpoint, 0)).toBeGreaterThan(50_000);
    pool.succeeded(endpoint, monotonicMs() + 1);
    expect(pool.pauseMs(endpoint, 0)).toBeLessThan(60);
  });

  it('lets all calls wait until the same time for an endpoint that has refused connections, although the delay before its next connection has passed', () => {
    const clock = new VirtualClock();
    onTestFinished(() => clock.restore());
    const pool = poolOf(A);
    const endpoint = pool.pick();
    fail(pool, endpoint, 'ConnectFailed');
    clock.block(60_000);
    const pauses = [0.2, 0.8, 0.4].map((random) => {
      clock.randomNumber = random;
      return pool.pauseMs(endpoint, 0);
    });
    expect(pauses).toEqual([10, 10, 10]);
  });

  it('picks a configured endpoint outside the latest list only while all listed endpoints are parked after failures', () => {
    const pool = poolOf(A, B, C);
    const [a, b, c] = pool.all as [PooledEndpoint, PooledEndpoint, PooledEndpoint];
    expect(pool.pick()).toBe(a);
    pool.replace([B, C].map((url) => parseEndpoint(url, 'endpoint')));
    expect(pool.pick()).toBe(b);
    fail(pool, b);
    expect(pool.pick()).toBe(c);
    fail(pool, c);
    expect(pool.pick()).toBe(a);
    b.parkedUntil = 0;
    expect(pool.pick()).toBe(b);
  });

  it('keeps picking the current endpoint when a new list of endpoints still contains that endpoint', () => {
    const pool = poolOf(A, B);
    const [a, b] = pool.all as [PooledEndpoint, PooledEndpoint];
    fail(pool, a);
    expect(pool.pick()).toBe(b);
    a.parkedUntil = 0;
    pool.replace([A, B].map((url) => parseEndpoint(url, 'endpoint')));
    expect(pool.pick()).toBe(b);
  });
});

describe('an endpoint pool with the balance', () => {
  let restore = (): void => {};
  beforeEach(() => {
    const random = randomNumbers(1);
    restore = replaceEnvironment(
      new Proxy(environment, { get: (target, name) => (name === 'Math' ? { random } : Reflect.get(target, name)) }),
    );
  });
  afterEach(() => restore());

  it.each(['sticky', 'round-robin'] as const)(
    '%s spreads the streams of many clients over all endpoints',
    (balance) => {
      const picks = Array.from({ length: 3_000 }, () => balanced(balance, A, B, C).pick().url);
      for (const url of [A, B, C]) expect(picks.filter((each) => each === url).length).toBeCloseTo(1_000, -2);
    },
  );

  it('sticky spreads the clients of a failed endpoint over the other endpoints', () => {
    const picks = Array.from({ length: 3_000 }, () => {
      const pool = balanced('sticky', A, B, C);
      fail(pool, pool.all[0] as PooledEndpoint);
      return pool.pick().url;
    });
    expect(picks).not.toContain(A);
    for (const url of [B, C]) expect(picks.filter((each) => each === url).length).toBeCloseTo(1_500, -2);
  });

  it('round-robin lets calls use all endpoints in turn, and all streams use one endpoint', () => {
    const pool = balanced('round-robin', A, B, C);
    const stream = pool.pick().url;
    const calls = Array.from({ length: 30 }, () => {
      expect(pool.pick().url).toBe(stream);
      return call(pool).url;
    });
    for (const url of [A, B, C]) expect(calls.filter((each) => each === url)).toHaveLength(10);
  });

  it('round-robin leaves out endpoints that are parked or have `maxInFlight` calls in flight, while another endpoint is available', () => {
    const pool = balanced('round-robin', A, B, C);
    const [a, b, c] = pool.all as [PooledEndpoint, PooledEndpoint, PooledEndpoint];
    fail(pool, a);
    expect(Array.from({ length: 4 }, () => call(pool).url).sort()).toEqual([B, B, C, C]);
    b.inFlight.normal = MAX_IN_FLIGHT;
    expect(Array.from({ length: 4 }, () => call(pool).url)).toEqual([C, C, C, C]);
    c.inFlight.normal = MAX_IN_FLIGHT;
    expect([b, c]).toContain(call(pool));
  });

  it('round-robin repeats a call at the same endpoint after a temporary refusal, unless the endpoint has failed (S39)', () => {
    const pool = balanced('round-robin', A, B, C);
    const queue = new CallQueue(pool, MAX_IN_FLIGHT);
    const sent = { method: methods.kv.range, request: {}, deadline: 0 } as never;
    const first = queue.enter(sent, 'normal') as PooledEndpoint;
    expect(queue.move(sent, 'normal', first, true)).toBe(first);
    expect(first.inFlight.normal).toBe(1);
    const second = queue.move(sent, 'normal', first, false);
    expect(second).not.toBe(first);
    fail(pool, second);
    expect(queue.move(sent, 'normal', second, true)).not.toBe(second);
    expect(second.inFlight.normal).toBe(0);
  });

  it('round-robin sends a call that names its endpoint to that endpoint', () => {
    const pool = balanced('round-robin', A, B, C);
    expect(Array.from({ length: 4 }, () => pool.pickForCall(B, 'normal', MAX_IN_FLIGHT).url)).toEqual([B, B, B, B]);
  });
});

/** The maximum number of calls in flight per endpoint in these tests. */
const MAX_IN_FLIGHT = 8;

function call(pool: EndpointPool): PooledEndpoint {
  return pool.pickForCall(undefined, 'normal', MAX_IN_FLIGHT);
}

function poolOf(...urls: readonly string[]): EndpointPool {
  return balanced('in-order', ...urls);
}

function balanced(balance: Balance, ...urls: readonly string[]): EndpointPool {
  const transport = { unary: () => Promise.reject(), stream: () => ({}) as never, close: async () => {} };
  return new EndpointPool(
    urls.map((url) => parseEndpoint(url, 'endpoint')),
    () => ({ ...transport }),
    { balance },
  );
}

function fail(
  pool: EndpointPool,
  endpoint: PooledEndpoint,
  reason: 'ConnectFailed' | 'ConnectionLost' = 'ConnectionLost',
): void {
  pool.failed(endpoint, reason, 'the test made it fail');
}
