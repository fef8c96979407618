import { describe, expect, it } from 'vitest';
import { EndpointPool, type PooledEndpoint } from '../../src/channel/endpoint-pool.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { monotonicMs } from '../../src/runtime/timers.js';

const [A, B, C] = ['http://a:1', 'http://b:1', 'http://c:1'] as const;

// The pool parks an endpoint that fails: until the parking ends, the pool picks another endpoint if one is available.
// A spare endpoint is a configured endpoint that is not in the latest list of preferred endpoints.
describe('the endpoint pool', () => {
  it('picks the same endpoint again while no call to that endpoint fails', () => {
    const pool = poolOf(A, B, C);
    expect(pool.pick()).toBe(pool.pick());
  });

  it('picks the third endpoint, and not the first one again, when the first and the second endpoint have failed', () => {
    const pool = poolOf(A, B, C);
    const order = [0, 1, 2].map(() => {
      const endpoint = pool.pick();
      fail(pool, endpoint);
      return endpoint.url;
    });
    expect(order).toEqual([A, B, C]);
  });

  it('picks the endpoint whose parking ends first when all endpoints are parked', () => {
    const pool = poolOf(A, B, C);
    const [a, b, c] = pool.all as [PooledEndpoint, PooledEndpoint, PooledEndpoint];
    for (const endpoint of [a, b, c]) fail(pool, endpoint);
    b.parkedUntil = 1 + Math.min(a.parkedUntil, c.parkedUntil) - 1_000;
    expect(pool.pick()).toBe(b);
  });

  it('counts all calls that fail when one connection is lost as one failure', () => {
    const pool = poolOf(A, B, C);
    const endpoint = pool.pick();
    for (let call = 0; call < 200; call += 1) fail(pool, endpoint);
    expect(endpoint.failures).toBe(1);
    // A stream that was moved to another endpoint must not return to this endpoint at once.
    expect(endpoint.parkedUntil - monotonicMs()).toBeGreaterThan(500);
    pool.succeeded(endpoint, endpoint.failedAt - 1);
    expect(pool.pick()).not.toBe(endpoint);
    pool.succeeded(endpoint, endpoint.failedAt + 1);
    expect(endpoint.parkedUntil).toBe(0);
  });

  it('makes all calls that could not connect wait until the same time, and lengthens the wait after repeated failures', () => {
    const pool = poolOf(A, B, C);
    const endpoint = pool.pick();
    const waits = Array.from({ length: 12 }, () => {
      for (let call = 0; call < 200; call += 1) fail(pool, endpoint, 'ConnectFailed');
      const wait = endpoint.connectAt - monotonicMs();
      // Ends the wait, so that the next failure counts as a new connection attempt.
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

  it('picks a spare endpoint only while all preferred endpoints are parked', () => {
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

  it('keeps the current endpoint when a new list still contains it', () => {
    const pool = poolOf(A, B);
    const [a, b] = pool.all as [PooledEndpoint, PooledEndpoint];
    fail(pool, a);
    expect(pool.pick()).toBe(b);
    a.parkedUntil = 0;
    pool.replace([A, B].map((url) => parseEndpoint(url, 'endpoint')));
    expect(pool.pick()).toBe(b);
  });
});

function poolOf(...urls: readonly string[]): EndpointPool {
  const transport = { unary: () => Promise.reject(), stream: () => ({}) as never, close: async () => {} };
  return new EndpointPool(
    urls.map((url) => parseEndpoint(url, 'endpoint')),
    () => ({ ...transport }),
  );
}

function fail(
  pool: EndpointPool,
  endpoint: PooledEndpoint,
  reason: 'ConnectFailed' | 'ConnectionLost' = 'ConnectionLost',
): void {
  pool.failed(endpoint, reason, 'the test made it fail');
}
