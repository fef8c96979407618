import { ok } from 'node:assert/strict';
import fc from 'fast-check';
import { expect } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { ClientEvents } from '../../src/base/log.js';
import { errorFromStatus } from '../../src/base/status-error.js';
import type { KeepAlive } from '../../src/client/lease/keep-alive.js';
import { leaseLost, Moment } from '../../src/client/lease/keep-alive.js';
import { RenewalStream } from '../../src/client/lease/renewal-stream.js';
import { LeaseKeepAliveRequest, type LeaseKeepAliveResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { Rpc } from '../../src/rpc/rpc.js';
import { decode } from '../../src/wire/protobuf/reader.js';
import { encode } from '../../src/wire/protobuf/writer.js';
import type { OutgoingStream, StreamHandler } from '../../src/wire/transport.js';
import { fuzz } from '../support/fuzz.js';
import { type Play, playing, script } from '../support/script.js';
import type { VirtualClock } from '../support/virtual-clock.js';

// The server counts TTLs correctly, streams break, the server refuses to renew some leases, and the event loop is
// blocked at times. No keepalive may be valid after its lease has expired or was revoked on the server. A lost keepalive
// must stay lost. No keepalive may be lost while the streams work, unless the server has refused to renew its lease.

const LEASES = 3;
const TTLS = [1, 2, 5, 60] as const;
/** The time, in milliseconds, between two rounds of answers from the server at the end of a run. */
const ROUND_MS = 80;

type Step =
  /** The server grants the lease `delayMs` after the client sent the request. */
  | { readonly do: 'grant'; readonly lease: number; readonly ttl: number; readonly delayMs: number }
  /** If `known` is set, the client passes the granted lease with its TTL. Otherwise, the client passes only the ID. */
  | { readonly do: 'keep'; readonly lease: number; readonly known: boolean }
  | { readonly do: 'close'; readonly handle: number }
  /** Revokes the lease. This client revokes it if `own` is set, and otherwise another client. */
  | { readonly do: 'revoke'; readonly lease: number; readonly own: boolean }
  /** The user may no longer write a key of the lease, or may write all its keys again. */
  | { readonly do: 'forbid' | 'permit'; readonly lease: number }
  /**
   * `serve`: the server answers `count` requests. `ignore`: it drops them. `deliver`: `count` answers reach the client.
   */
  | { readonly do: 'serve' | 'ignore' | 'deliver'; readonly count: number }
  | { readonly do: 'break'; readonly how: number }
  /** Breaks the stream, and each new stream as soon as it opens, while the time passes. */
  | { readonly do: 'outage'; readonly ms: number }
  /** Lets time pass. `pass`: timers run during this time. `block`: the event loop is blocked, so that no timer runs. */
  | { readonly do: 'pass' | 'block'; readonly ms: number };

const BREAKS = [
  undefined,
  errorFromStatus('Unavailable', 'gone'),
  errorFromStatus('Unavailable', 'etcdserver: no leader'),
  errorFromStatus('Internal', 'reset'),
] as const;

const few = fc.nat({ max: 3 });
const ms = fc.oneof(fc.constantFrom(1, 49, 60, 333, 500, 700, 900, 1_000, 1_700, 2_500), fc.nat({ max: 3_000 }));
const STEPS: readonly fc.Arbitrary<Step>[] = [
  fc.record({ do: fc.constant('grant'), lease: few, ttl: few, delayMs: fc.constantFrom(0, 10, 400, 1_500) }),
  fc.record({ do: fc.constant('keep'), lease: few, known: fc.boolean() }),
  fc.record({ do: fc.constant('close'), handle: few }),
  fc.record({ do: fc.constant('revoke'), lease: few, own: fc.boolean() }),
  fc.record({ do: fc.constantFrom('forbid', 'permit'), lease: few }),
  fc.record({ do: fc.constantFrom('serve', 'serve', 'ignore'), count: fc.constantFrom(1, 9) }),
  fc.record({ do: fc.constant('deliver'), count: fc.constantFrom(1, 9) }),
  fc.record({ do: fc.constant('break'), how: few }),
  fc.record({ do: fc.constant('outage'), ms }),
  fc.record({ do: fc.constant('pass'), ms }),
  fc.record({ do: fc.constant('block'), ms }),
];
const beginning = fc.tuple(few, fc.boolean()).map(([ttl, known]): Step[] => [
  { do: 'grant', lease: 0, ttl, delayMs: 0 },
  { do: 'keep', lease: 0, known },
]);

fuzz<readonly Step[]>({
  target: 'lease',
  property:
    'no keepalive is valid after its lease has ended, a lost keepalive stays lost, and no keepalive is lost while streams work',
  inputs: fc.tuple(beginning, script(STEPS, 40)).map(([first, rest]) => [...first, ...rest]),
  runs: 2_000,
  parts: { kept: 0.1, lost: 0.1 },
  check: playing((clock) => new Keeping(clock)),
});

interface Granted {
  readonly ttl: number;
  readonly sentAt: number;
  /** When the lease expires on the server. */
  expiresAt: number;
}

class Keeping implements Play<Step> {
  readonly #clock: VirtualClock;
  readonly #server = new Map<bigint, Granted>();
  readonly #renewals: RenewalStream;
  readonly #handles: KeepAlive[] = [];
  readonly #lost = new Map<KeepAlive, unknown>();
  /**
   * The IDs of leases that another client revoked. The client learns of the revocation from the next renewal, unless
   * the ID has been granted again by then.
   */
  readonly #revoked = new Set<bigint>();
  /** The IDs of the leases that the server refuses to renew. */
  readonly #forbidden = new Set<bigint>();
  /** The IDs of the leases that the server has ever refused to renew. */
  readonly #refused = new Set<bigint>();
  #requests: bigint[] = [];
  /** The answers that have not reached the client. The last one may be a refusal, which ends the stream. */
  #responses: (LeaseKeepAliveResponse | EtcdError)[] = [];
  #handler: StreamHandler<LeaseKeepAliveResponse> | undefined;
  #isOutage = false;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
    // Make every backoff as long as possible, because a long backoff leaves the least time to renew a short lease.
    clock.randomNumber = 0.999;
    const transport = {
      unary: () => Promise.reject(new Error('not called')),
      stream: (_call: unknown, handler: unknown): never => this.#open(handler as never) as never,
      close: async () => {},
    };
    const settings = {
      timeoutMs: 1_000,
      renewsTokens: false,
      events: new ClientEvents(),
      closed: new AbortController().signal,
    };
    this.#renewals = new RenewalStream(new Rpc(transport, settings));
  }

  async step(step: Step): Promise<void> {
    switch (step.do) {
      case 'grant':
        await this.#grant(step);
        break;
      case 'keep': {
        const id = idOf(step.lease);
        const granted = this.#server.get(id);
        const sent = new Moment(this.#clock.now - (granted?.sentAt ?? 0));
        this.#handles.push(
          this.#renewals.keepAlive(id, step.known && granted ? { sent, ttl: granted.ttl } : undefined),
        );
        break;
      }
      case 'close':
        await this.#handles[step.handle % this.#handles.length]?.close();
        break;
      case 'revoke':
        this.#server.delete(idOf(step.lease));
        if (step.own) this.#renewals.lose(idOf(step.lease), leaseLost(idOf(step.lease), 'LeaseRevoked', 'revoked'));
        else this.#revoked.add(idOf(step.lease));
        break;
      case 'forbid':
        this.#forbidden.add(idOf(step.lease));
        break;
      case 'permit':
        this.#forbidden.delete(idOf(step.lease));
        break;
      case 'serve':
        this.#serve(step.count);
        break;
      case 'ignore':
        this.#requests.splice(0, step.count);
        break;
      case 'deliver':
        this.#deliver(step.count);
        break;
      case 'break':
        this.#handler?.end(BREAKS[step.how % BREAKS.length]);
        break;
      case 'outage':
        this.#isOutage = true;
        this.#handler?.end(BREAKS[1]);
        await this.#clock.pass(step.ms);
        this.#isOutage = false;
        break;
      case 'pass':
        await this.#clock.pass(step.ms);
        break;
      case 'block':
        this.#clock.block(step.ms);
        // Check before any timer runs, because validity must not depend on timers.
        this.#check();
        break;
    }
    await this.#clock.pass(0);
    this.#check();
  }

  /** Lets the streams work and expects that valid keepalives stay valid. */
  async end(): Promise<string> {
    const safe = this.#handles.filter((handle) => handle.remainingMs() > this.#neededMs(handle));
    for (let round = 0; round < 80; round += 1) {
      // After 25 rounds, the client has opened its stream again, because its longest backoff is shorter. So any valid
      // keepalive must stay valid.
      const alive = this.#handles.filter((handle) => round > 25 && handle.valid() && !this.#isDoomed(handle));
      this.#serve(100);
      this.#deliver(100);
      await this.#clock.pass(ROUND_MS);
      this.#check();
      for (const handle of alive) ok(handle.valid(), 'a keepalive was lost although the streams work');
      for (const handle of safe) ok(!isUnanswered(handle), 'a keepalive was lost although there was time to renew it');
    }
    const kept = this.#handles.filter((handle) => handle.valid());
    for (const handle of this.#handles) await handle.close();
    this.#check();
    expect([this.#clock.timers, this.#handler]).toEqual([0, undefined]);
    return kept.length > 0 ? 'kept' : 'lost';
  }

  /**
   * The time in milliseconds that the client may need to renew a lease once the streams work. An open stream may have
   * an unanswered request, for whose answer the client waits first.
   */
  #neededMs({ id, ttl = 0 }: KeepAlive): number {
    if (this.#revoked.has(id)) return Number.POSITIVE_INFINITY;
    // After a refusal, the client renews one lease in each round.
    const refusalsMs = this.#forbidden.size > 0 ? 2 * LEASES * ROUND_MS : 0;
    const answerMs = this.#handler === undefined ? 0 : Math.max(500, (ttl * 1_000) / 6) + 50;
    return answerMs + refusalsMs + (ttl * 1_000) / 12 + 3 * ROUND_MS;
  }

  /** Whether the client will lose the keepalive although the streams work. */
  #isDoomed({ id }: KeepAlive): boolean {
    return this.#revoked.has(id) || this.#forbidden.has(id);
  }

  async #grant({ lease, ttl, delayMs }: Extract<Step, { do: 'grant' }>): Promise<void> {
    const id = idOf(lease);
    // Skip this step if the lease exists, because the server refuses to grant an ID that is in use.
    if (this.#isAlive(id)) return;
    const sentAt = this.#clock.now;
    await this.#clock.pass(delayMs);
    const seconds = TTLS[ttl % TTLS.length] as number;
    this.#server.set(id, { ttl: seconds, sentAt, expiresAt: this.#clock.now + seconds * 1_000 });
  }

  #serve(count: number): void {
    for (const id of this.#requests.splice(0, count)) {
      if (this.#forbidden.has(id)) {
        // etcd ends the stream, and does not read the later requests.
        this.#refused.add(id);
        this.#requests = [];
        return void this.#responses.push(errorFromStatus('PermissionDenied', 'etcdserver: permission denied'));
      }
      const lease = this.#server.get(id);
      const isAlive = this.#isAlive(id);
      if (lease !== undefined && isAlive) lease.expiresAt = this.#clock.now + lease.ttl * 1_000;
      this.#responses.push({ header: undefined, id, ttl: isAlive ? BigInt(lease?.ttl ?? 0) : 0n });
    }
  }

  #deliver(count: number): void {
    for (const response of this.#responses.splice(0, count)) {
      if (response instanceof EtcdError) return this.#handler?.end(response);
      this.#handler?.message(response);
    }
  }

  #isAlive(id: bigint): boolean {
    return (this.#server.get(id)?.expiresAt ?? 0) > this.#clock.now;
  }

  #check(): void {
    for (const handle of this.#handles) {
      const { signal } = handle;
      const [isValid, isLost] = [handle.valid(), signal.aborted];
      if (isValid && !this.#revoked.has(handle.id))
        ok(this.#isAlive(handle.id), 'a keepalive is valid although its lease has ended on the server');
      ok(!(isValid && isLost), 'a keepalive is valid although its signal is aborted');
      ok(handle.remainingMs() > 0 === isValid, 'valid() and remainingMs() of a keepalive contradict each other');
      if (this.#lost.has(handle))
        ok(signal.reason === this.#lost.get(handle), 'the reason of a lost keepalive has changed');
      if (!isLost) continue;
      ok(signal.reason instanceof EtcdError, 'the reason of a lost keepalive is not an EtcdError');
      if (signal.reason.reason === 'PermissionDenied')
        ok(this.#refused.has(handle.id), 'a keepalive ended because the server refused the renewal of another lease');
      this.#lost.set(handle, signal.reason);
    }
  }

  #open(handler: StreamHandler<LeaseKeepAliveResponse>): OutgoingStream<LeaseKeepAliveRequest> {
    expect(this.#handler, 'one stream at a time').toBeUndefined();
    const forget = (): void => {
      if (this.#handler !== own) return;
      this.#handler = undefined;
      this.#requests = [];
      this.#responses = [];
    };
    const own: StreamHandler<LeaseKeepAliveResponse> = {
      message: (message) => handler.message(message),
      end: (error) => {
        forget();
        handler.end(error);
      },
    };
    this.#handler = own;
    if (this.#isOutage) queueMicrotask(() => own.end(BREAKS[1]));
    return {
      send: (message) =>
        void this.#requests.push(decode(LeaseKeepAliveRequest, encode(LeaseKeepAliveRequest, message)).id),
      cancel: forget,
      end: () => {},
      pause: () => {},
      resume: () => {},
    };
  }
}

/** Whether the keepalive was lost because the client received no answer in time. */
function isUnanswered({ signal }: KeepAlive): boolean {
  return signal.aborted && (signal.reason as EtcdError).reason === 'LeaseUnreachable';
}

function idOf(lease: number): bigint {
  return BigInt(lease % LEASES) + 1n;
}
