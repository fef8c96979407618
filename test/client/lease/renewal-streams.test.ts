import { afterEach, beforeEach, expect, test } from 'vitest';
import { EtcdError } from '../../../src/base/etcd-error.js';
import { ClientEvents } from '../../../src/base/log.js';
import type { KeepAlive } from '../../../src/client/lease/keep-alive.js';
import { Moment } from '../../../src/client/lease/keep-alive.js';
import { RenewalStream } from '../../../src/client/lease/renewal-stream.js';
import type { LeaseKeepAliveRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { Rpc } from '../../../src/rpc/rpc.js';
import type { StreamHandler, Transport } from '../../../src/wire/transport.js';
import { VirtualClock } from '../../support/virtual-clock.js';

// What the client sends again on the next stream when a stream of renewals ends (S13).

const TTL_S = 60;
const DUE_MS = (TTL_S * 1_000) / 3;

/** One stream of renewals, as the server sees it. */
class ServedStream {
  /** The IDs of the leases that the client has asked to renew, in order. */
  readonly requests: bigint[] = [];
  readonly #handler: StreamHandler<unknown>;

  constructor(handler: StreamHandler<unknown>) {
    this.#handler = handler;
  }

  answer(id: bigint): void {
    this.#handler.message({ id, ttl: BigInt(TTL_S) });
  }

  end(reason: 'PermissionDenied' | 'ConnectionLost'): void {
    const code = reason === 'PermissionDenied' ? reason : 'Unavailable';
    this.#handler.end(new EtcdError('ended', { code, reason, outcome: 'unknown' }));
  }
}

let clock: VirtualClock;
let streams: ServedStream[];
let renewals: RenewalStream;

beforeEach(() => {
  clock = new VirtualClock();
  streams = [];
  const transport: Transport = {
    unary: () => new Promise<never>(() => {}),
    stream: (_, handler) => {
      const stream = new ServedStream(handler as StreamHandler<unknown>);
      streams.push(stream);
      return {
        send: (request) => void stream.requests.push((request as Partial<LeaseKeepAliveRequest>).id ?? 0n),
        end: () => {},
        cancel: () => {},
        pause: () => {},
        resume: () => {},
      };
    },
    close: async () => {},
  };
  const { signal: closed } = new AbortController();
  const settings = { timeoutMs: 1_000, renewsTokens: false, events: new ClientEvents(), closed };
  renewals = new RenewalStream(new Rpc(transport, settings));
});

afterEach(() => clock.restore());

function kept(...ids: readonly bigint[]): readonly KeepAlive[] {
  const sent = new Moment();
  return ids.map((id) => renewals.keepAlive(id, { sent, ttl: TTL_S }));
}

function latest(): ServedStream {
  return streams.at(-1) as ServedStream;
}

test('after the refusal of one of three renewals, the client renews one lease at a time, and only the refused lease is lost', async () => {
  const leases = kept(1n, 2n, 3n);
  await clock.pass(DUE_MS);
  expect(latest().requests.toSorted()).toEqual([1n, 2n, 3n]);
  latest().end('PermissionDenied');
  await clock.pass(0);
  expect(latest().requests).toEqual([1n]);
  latest().answer(1n);
  expect(latest().requests).toEqual([1n, 2n]);
  latest().end('PermissionDenied');
  await clock.pass(0);
  expect(latest().requests).toEqual([3n]);
  latest().answer(3n);
  expect(streams).toHaveLength(3);
  expect(leases.map((lease) => lease.lostBy?.reason)).toEqual([undefined, 'PermissionDenied', undefined]);
});

test('after all renewals were answered one at a time, the client sends several renewals at once again', async () => {
  kept(1n, 2n, 3n);
  await clock.pass(DUE_MS);
  latest().end('PermissionDenied');
  await clock.pass(0);
  for (const id of [1n, 2n, 3n]) latest().answer(id);
  await clock.pass(DUE_MS);
  expect(latest().requests.slice(3).toSorted()).toEqual([1n, 2n, 3n]);
});

test('a lease is lost when the server refuses its renewal and no other renewal is unanswered', async () => {
  const leases = kept(1n, 2n);
  await clock.pass(DUE_MS);
  latest().answer(1n);
  latest().end('PermissionDenied');
  expect(leases.map((lease) => lease.lostBy?.reason)).toEqual([undefined, 'PermissionDenied']);
});

test('the client sends only the unanswered renewals again on the next stream', async () => {
  const leases = kept(1n, 2n, 3n);
  await clock.pass(DUE_MS);
  latest().answer(2n);
  latest().end('ConnectionLost');
  await clock.pass(1_000);
  expect([streams.length, latest().requests.toSorted()]).toEqual([2, [1n, 3n]]);
  for (const id of [1n, 3n]) latest().answer(id);
  // The answers count: without them, the leases would end after a minute.
  await clock.pass(TTL_S * 1_000 - DUE_MS);
  expect(leases.every((lease) => lease.valid())).toBe(true);
});

test('the first answer on the next stream counts for a new keepalive, although an earlier keepalive of the lease was closed unanswered', async () => {
  kept(6n);
  const [first] = kept(5n) as [KeepAlive];
  await clock.pass(DUE_MS);
  expect(latest().requests.toSorted()).toEqual([5n, 6n]);
  void first.close();
  latest().end('ConnectionLost');
  const second = renewals.keepAlive(5n);
  await clock.pass(1_000);
  expect(latest().requests).toContain(5n);
  latest().answer(5n);
  expect(second.valid()).toBe(true);
});
