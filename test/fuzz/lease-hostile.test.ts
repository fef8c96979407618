import { ok } from 'node:assert/strict';
import fc from 'fast-check';
import { EtcdError } from '../../src/base/etcd-error.js';
import { ClientEvents } from '../../src/base/log.js';
import { STATUS_CODES } from '../../src/base/status.js';
import { errorFromStatus } from '../../src/base/status-error.js';
import type { KeepAlive } from '../../src/client/lease/keep-alive.js';
import { Moment } from '../../src/client/lease/keep-alive.js';
import { RenewalStream } from '../../src/client/lease/renewal-stream.js';
import { LeaseKeepAliveResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { Rpc } from '../../src/rpc/rpc.js';
import { encodeRequest } from '../../src/wire/messages.js';
import type { StreamHandler } from '../../src/wire/transport.js';
import { fuzz } from '../support/fuzz.js';
import { type Play, playing, script } from '../support/script.js';
import type { VirtualClock } from '../support/virtual-clock.js';

// The server sends arbitrary answers to keepalives. The client must throw nothing. Each answer contains a TTL. No
// keepalive may be valid for longer than the TTL in the latest answer, or than the TTL that was granted, counted from
// the time when the client sent the answered request.

type Step =
  | { readonly do: 'keep'; readonly lease: number; readonly ttl: number }
  | { readonly do: 'close'; readonly handle: number }
  | { readonly do: 'answer'; readonly id: string; readonly ttl: string }
  | { readonly do: 'break'; readonly code: number; readonly message: string }
  | { readonly do: 'pass' | 'block'; readonly ms: number };

const LONG_AGO = -1;
const LARGEST = String(2n ** 63n - 1n);
const SMALLEST = String(-(2n ** 63n));

const ms = fc.oneof(fc.constantFrom(1, 49, 60, 333, 500, 700, 900, 1_000, 1_700, 100_000), fc.nat({ max: 3_000 }));
const STEPS: readonly fc.Arbitrary<Step>[] = [
  // A `ttl` of 0 means that the client knows only the ID of the lease, and not its TTL.
  fc.record({ do: fc.constant('keep'), lease: fc.integer({ min: 1, max: 3 }), ttl: fc.constantFrom(0, 1, 2, 60) }),
  fc.record({ do: fc.constant('close'), handle: fc.nat({ max: 3 }) }),
  ...[0, 1].map(() =>
    fc.record({
      do: fc.constant('answer' as const),
      id: fc.constantFrom('1', '1', '1', '2', '3', '0', '-1', LARGEST),
      ttl: fc.constantFrom('1', '2', '3', '60', '9000000000', '0', '-1', LARGEST, SMALLEST),
    }),
  ),
  fc.record({
    do: fc.constant('break'),
    code: fc.nat({ max: STATUS_CODES.length }),
    message: fc.constantFrom(
      '',
      'etcdserver: permission denied',
      'etcdserver: invalid auth token',
      'etcdserver: no leader',
    ),
  }),
  fc.record({ do: fc.constant('pass'), ms }),
  fc.record({ do: fc.constant('block'), ms }),
];

fuzz<readonly Step[]>({
  target: 'lease-hostile',
  property:
    'no keepalive is valid for longer than the granted TTL or the TTL in the last answer when the server answers arbitrarily',
  inputs: script(STEPS, 40),
  runs: 5_000,
  parts: { valid: 0.05, lost: 0.1 },
  check: playing((clock) => new Keeping(clock)),
});

interface Kept {
  readonly handle: KeepAlive;
  /**
   * `sentAt` is when the client sent the last request that the server answered. `until` is the end of the time for
   * which that answer allows the keepalive to be valid.
   */
  sentAt: number;
  until: number;
  isLost: boolean;
}

class Keeping implements Play<Step> {
  readonly #clock: VirtualClock;
  readonly #renewals: RenewalStream;
  readonly #kept: Kept[] = [];
  /** For each lease: when the client sent each request that the server has not answered. */
  readonly #unanswered = new Map<bigint, number[]>();
  /** For each lease: the TTL in seconds that the latest keepalive with a known TTL was given. */
  readonly #granted = new Map<bigint, number>();
  #handler: StreamHandler<LeaseKeepAliveResponse> | undefined;
  #streams = 0;
  #valid = false;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
    const transport = {
      unary: () => Promise.reject(new Error('not called')),
      stream: (_call: unknown, handler: unknown): never => this.#open(handler as never) as never,
      close: async () => {},
    };
    const settings = {
      timeoutMs: 1_000,
      renewsTokens: true,
      events: new ClientEvents(),
      closed: new AbortController().signal,
    };
    this.#renewals = new RenewalStream(new Rpc(transport, settings));
  }

  async step(step: Step): Promise<void> {
    switch (step.do) {
      case 'keep': {
        const [id, sentAt] = [BigInt(step.lease), this.#clock.now];
        const granted = step.ttl === 0 ? undefined : { sent: new Moment(), ttl: step.ttl };
        const until = sentAt + step.ttl * 1_000;
        const handle = this.#renewals.keepAlive(id, granted);
        if (granted !== undefined) this.#granted.set(id, granted.ttl);
        this.#kept.push({ handle, sentAt: granted?.sent.monotonic ?? 0, until, isLost: false });
        break;
      }
      case 'close':
        await this.#kept[step.handle % this.#kept.length]?.handle.close();
        break;
      case 'answer':
        this.#answer(BigInt(step.id), BigInt(step.ttl));
        break;
      case 'break':
        this.#break(STATUS_CODES[step.code] ?? 'OK', step.message);
        break;
      case 'pass':
        await this.#clock.pass(step.ms);
        break;
      case 'block':
        this.#clock.block(step.ms);
        this.#check();
        break;
    }
    await this.#clock.pass(0);
    this.#check();
  }

  async end(): Promise<string> {
    const before = this.#streams;
    for (let seconds = 0; seconds < 10; seconds += 1) {
      await this.#clock.pass(1_000);
      this.#check();
    }
    // Expect at most two streams per second, because the client waits at least half a second for an answer before it
    // replaces the stream.
    ok(this.#streams - before <= 20, `${this.#streams - before} streams in 10 s`);
    this.#renewals.close();
    this.#check();
    ok(this.#kept.every(({ isLost }) => isLost));
    ok(this.#clock.timers === 0 && this.#handler === undefined, 'a timer or a stream is left after close()');
    return this.#valid ? 'valid' : 'lost';
  }

  #answer(id: bigint, ttl: bigint): void {
    if (this.#handler === undefined) return;
    const sentAt = this.#unanswered.get(id)?.shift() ?? LONG_AGO;
    for (const kept of this.#kept) {
      // The client ignores an answer that belongs to no request, and an answer to a request that is older than the
      // latest answered request.
      if (kept.handle.id !== id || sentAt < kept.sentAt) continue;
      kept.sentAt = sentAt;
      kept.until = sentAt + Math.min(Number(ttl), this.#granted.get(id) ?? Number.POSITIVE_INFINITY) * 1_000;
    }
    this.#handler.message({ ...LeaseKeepAliveResponse.create(), id, ttl });
  }

  #break(code: (typeof STATUS_CODES)[number], message: string): void {
    const handler = this.#handler;
    this.#forget();
    handler?.end(code === 'OK' ? undefined : errorFromStatus(code, message));
  }

  #check(): void {
    for (const kept of this.#kept) {
      const { handle } = kept;
      const isValid = handle.valid();
      this.#valid ||= isValid;
      ok(!isValid || this.#clock.now < kept.until, 'a keepalive is valid for longer than the last answer allows');
      ok(!(isValid && kept.isLost), 'a lost keepalive is valid');
      kept.isLost ||= handle.signal.aborted;
      ok(kept.isLost === handle.signal.aborted, 'the signal of a lost keepalive is not aborted');
      if (kept.isLost) ok(handle.signal.reason instanceof EtcdError);
    }
    // Answers to requests for keepalives that have ended do not count for later keepalives of the same lease.
    for (const [id, sentAt] of this.#unanswered) {
      if (!this.#kept.some((each) => each.handle.id === id && !each.isLost)) sentAt.fill(LONG_AGO);
    }
    // Forget the granted TTL, because the renewal stream forgets a lease when the lease's last keepalive ends.
    for (const id of this.#granted.keys()) {
      if (!this.#kept.some((each) => each.handle.id === id && !each.isLost)) this.#granted.delete(id);
    }
  }

  #forget(): void {
    this.#handler = undefined;
    this.#unanswered.clear();
  }

  #open(handler: StreamHandler<LeaseKeepAliveResponse>): object {
    ok(this.#handler === undefined, 'two streams at a time');
    this.#streams += 1;
    this.#handler = handler;
    return {
      send: (message: { readonly id: bigint }) => {
        encodeRequest(methods.lease.leaseKeepAlive, message, Number.POSITIVE_INFINITY);
        this.#unanswered.set(message.id, [...(this.#unanswered.get(message.id) ?? []), this.#clock.now]);
      },
      cancel: () => {
        if (this.#handler === handler) this.#forget();
      },
      end: () => {},
      pause: () => {},
      resume: () => {},
    };
  }
}
