import { afterEach, beforeEach, expect, test } from 'vitest';
import { ClientEvents } from '../../../src/base/log.js';
import { Moment } from '../../../src/client/lease/keep-alive.js';
import { RenewalStream } from '../../../src/client/lease/renewal-stream.js';
import type { LeaseKeepAliveRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { Rpc } from '../../../src/rpc/rpc.js';
import type { StreamHandler, Transport } from '../../../src/wire/transport.js';
import { VirtualClock } from '../../support/virtual-clock.js';

const TTL_S = 10;
const INTERVAL_MS = (TTL_S * 1_000) / 3;

let clock: VirtualClock;
beforeEach(() => {
  clock = new VirtualClock();
});
afterEach(() => clock.restore());

/** The times at which each lease was renewed, in milliseconds on the monotonic clock. */
type Renewals = Map<bigint, number[]>;

/**
 * Returns renewals whose server answers each request at once. The server ends a stream after its first answer if
 * `endsStreams` returns true.
 */
function renewing(endsStreams = (): boolean => false): {
  readonly renewals: RenewalStream;
  readonly sent: Renewals;
  /** The times at which the client opened a stream, in milliseconds on the monotonic clock. */
  readonly opened: number[];
} {
  const sent: Renewals = new Map();
  const opened: number[] = [];
  const answering: Transport = {
    unary: () => new Promise<never>(() => {}),
    stream: (_, handler) => {
      let isOver = false;
      opened.push(clock.now);
      return {
        send: (request) => {
          const { id = 0n } = request as Partial<LeaseKeepAliveRequest>;
          sent.set(id, [...(sent.get(id) ?? []), clock.now]);
          queueMicrotask(() => {
            if (isOver) return;
            isOver = endsStreams();
            (handler as StreamHandler<unknown>).message({ id, ttl: BigInt(TTL_S) });
            if (isOver) handler.end(undefined);
          });
        },
        end: () => {},
        cancel: () => {},
        pause: () => {},
        resume: () => {},
      };
    },
    close: async () => {},
  };
  const settings = {
    timeoutMs: 1_000,
    renewsTokens: false,
    events: new ClientEvents(),
    closed: new AbortController().signal,
  };
  return { renewals: new RenewalStream(new Rpc(answering, settings)), sent, opened };
}

test('leases with the same TTL that were granted at different times are renewed together', async () => {
  const { renewals, sent } = renewing();
  for (let id = 1n; id <= 200n; id += 1n) {
    renewals.keepAlive(id, { sent: new Moment(), ttl: TTL_S });
    await clock.pass(17);
  }
  await clock.pass(10 * INTERVAL_MS);
  const times = new Set([...sent.values()].flatMap((all) => all.slice(1, 9)));
  // The client renews leases at no more than 16 times in each interval. The grants took about one interval.
  expect(times.size).toBeLessThanOrEqual(16 * 9 + 1);
  expect([...sent.values()].flat().length).toBeGreaterThan(200 * 9);
  renewals.close();
  expect(clock.timers).toBe(0);
});

test('a lease is renewed at most a sixteenth of the interval before a third of its TTL has passed, and never after', async () => {
  const { renewals, sent } = renewing();
  for (const startMs of [0, 1, 99, 208, 1_234]) {
    await clock.pass(startMs);
    const id = BigInt(startMs + 1);
    const grantedAt = clock.now;
    const keepAlive = renewals.keepAlive(id, { sent: new Moment(), ttl: TTL_S });
    await clock.pass(8 * INTERVAL_MS);
    const times = [grantedAt, ...(sent.get(id) ?? [])];
    for (const [index, time] of times.slice(1).entries()) {
      const passed = time - (times[index] as number);
      expect(passed).toBeLessThanOrEqual(INTERVAL_MS + 1);
      expect(passed).toBeGreaterThanOrEqual(INTERVAL_MS * (15 / 16) - 1);
    }
    expect(keepAlive.valid()).toBe(true);
  }
  renewals.close();
});

test('the backoff before a new keepalive stream grows while the server ends each stream after one answer, and is short again after a stream that lasted', async () => {
  let endsStreams = true;
  const { renewals, opened } = renewing(() => endsStreams);
  for (let id = 1n; id <= 6n; id += 1n) renewals.keepAlive(id);
  await clock.pass(1_000);
  expect(delays(opened)).toEqual([25, 50, 100, 200, 400]);
  endsStreams = false;
  await clock.pass(2 * INTERVAL_MS);
  endsStreams = true;
  const [before, brokenAt] = [opened.length, clock.now];
  renewals.keepAlive(7n);
  renewals.keepAlive(8n);
  await clock.pass(25);
  expect(opened.slice(before)).toEqual([brokenAt + 25]);
  renewals.close();
});

function delays(times: readonly number[]): number[] {
  return times.slice(1).map((time, index) => time - (times[index] as number));
}
