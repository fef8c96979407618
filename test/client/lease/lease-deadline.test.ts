import { describe, expect, test } from 'vitest';
import { Deadlines, monotonicMs, pause } from '../../../src/base/timers.js';
import { KeepAlive, leaseLost, Moment } from '../../../src/client/lease/keep-alive.js';
import type { LeaseKeepAliveRequest, LeaseKeepAliveResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { blockEventLoop } from '../../support/block.js';
import { openClient } from '../../support/client.js';
import { type ScriptedStream, scriptedServer, scriptedStream } from '../../support/scripted-server.js';

/** Number of the gRPC status `PermissionDenied`. */
const PERMISSION_DENIED = 7;

type Stream = ScriptedStream<LeaseKeepAliveRequest, LeaseKeepAliveResponse>;

describe('the deadline of a lease (S14)', () => {
  test('is counted from when the client sent the acknowledged request, not from when the client read the answer', () => {
    const alive = new KeepAlive(1n, new Deadlines());
    const sent = new Moment(5_000);
    alive.acknowledged(sent, 10);
    // The deadline is ten seconds after `sent`, less a margin of one second.
    expect(alive.remainingMs()).toBeLessThanOrEqual(4_000);
    expect(alive.remainingMs()).toBeGreaterThan(3_000);
    alive.lose(leaseLost(1n, 'KeepAliveClosed', 'done'));
  });

  test('does not become earlier when the server acknowledges an older request late', () => {
    const alive = new KeepAlive(1n, new Deadlines());
    alive.acknowledged(new Moment(), 10);
    const before = alive.remainingMs();
    alive.acknowledged(new Moment(8_000), 10);
    expect(alive.remainingMs()).toBeGreaterThan(before - 1_000);
    alive.lose(leaseLost(1n, 'KeepAliveClosed', 'done'));
  });

  test('takes effect before any timer runs when the event loop was blocked', async () => {
    const alive = new KeepAlive(1n, new Deadlines());
    alive.acknowledged(new Moment(), 1);
    const seen: string[] = [];
    const look = (when: string): void => void seen.push(`${when}: ${alive.valid()} ${alive.signal.aborted}`);
    const later = Promise.all([
      Promise.resolve().then(() => look('microtask')),
      new Promise<void>((resolve) => {
        setImmediate(() => {
          look('immediate');
          resolve();
        });
      }),
    ]);
    blockEventLoop(1_000);
    look('same turn');
    expect(() => alive.signal.throwIfAborted()).toThrow(/no server acknowledged a renewal in time/);
    await later;
    expect(seen).toEqual(['same turn: false true', 'microtask: false true', 'immediate: false true']);
  });

  test('aborts the signal of the keepalive, even if the program only listens for the abort event', async () => {
    const handles = Array.from({ length: 50 }, (_, index) => {
      const alive = new KeepAlive(BigInt(index + 1), new Deadlines());
      alive.acknowledged(new Moment(900 - index * 7), 1);
      return new Promise((resolve) => alive.signal.addEventListener('abort', resolve));
    });
    await Promise.all(handles);
  });

  test('ends the keepalive permanently, even if an answer arrives later', () => {
    const alive = new KeepAlive(1n, new Deadlines());
    alive.acknowledged(new Moment(), 1);
    blockEventLoop(1_000);
    // The client sent the request during the lease and reads its answer after the deadline, before the timer has fired.
    alive.acknowledged(new Moment(100), 10);
    expect(alive.valid()).toBe(false);
    expect(alive.signal.reason).toMatchObject({ reason: 'LeaseUnreachable' });
  });

  test('is computed from the granted TTL when the server answers a renewal with a longer TTL', async () => {
    let requests = 0;
    const etcd = await clientOf(async (stream) => {
      for (;;) {
        const { id } = await stream.receive();
        requests += 1;
        stream.send({ id, ttl: 600n });
      }
    });
    const alive = etcd.lease.keepAlive({ id: 5n, ttl: 3, sentAt: monotonicMs() - 1_000 });
    // The second request shows that the client still renews at a third of the granted TTL.
    await expect.poll(() => requests).toBe(2);
    expect(alive.ttl).toBe(3);
    expect(alive.remainingMs()).toBeLessThanOrEqual(3_000);
    const byId = etcd.lease.keepAlive(5n);
    await expect.poll(() => byId.ttl).toBe(3);
  });

  test('does not overflow a timer when the lease has the maximum TTL', () => {
    const alive = new KeepAlive(1n, new Deadlines());
    alive.acknowledged(new Moment(), 9_000_000_000);
    expect(alive.valid()).toBe(true);
    alive.lose(leaseLost(1n, 'KeepAliveClosed', 'done'));
  });
});

describe('the keepalive stream (S13)', () => {
  test('is shared by all leases, renews each lease after a third of its TTL, and requires a leader', async () => {
    const streams: Stream[] = [];
    const requests: bigint[] = [];
    const etcd = await clientOf(async (stream) => {
      streams.push(stream);
      for (;;) {
        const { id } = await stream.receive();
        requests.push(id);
        stream.send({ id, ttl: 3n });
      }
    });
    const handles = [1n, 2n, 3n].map((id) => etcd.lease.keepAlive(id));
    await expect.poll(() => requests.length).toBeGreaterThanOrEqual(6);
    // The client renews each lease once, and then once more, in the order in which the timers fire.
    expect(requests.slice(0, 3)).toEqual([1n, 2n, 3n]);
    expect(new Set(requests.slice(3, 6))).toEqual(new Set([1n, 2n, 3n]));
    expect(streams).toHaveLength(1);
    expect(streams[0]?.metadata).toMatchObject({ hasleader: 'true' });
    await Promise.all(handles.map((handle) => handle.close()));
    await streams[0]?.canceled;
  });

  test('is replaced when the server takes too long to answer', async () => {
    let streams = 0;
    const etcd = await clientOf(async (stream) => {
      streams += 1;
      const { id } = await stream.receive();
      if (streams > 1) stream.send({ id, ttl: 2n });
    });
    const alive = etcd.lease.keepAlive({ id: 5n, ttl: 3, sentAt: monotonicMs() });
    await expect.poll(() => alive.ttl).toBe(2);
    expect(streams).toBe(2);
    expect(alive.valid()).toBe(true);
  });

  test('is not replaced while slow answers arrive', async () => {
    let streams = 0;
    const etcd = await clientOf(async (stream) => {
      streams += 1;
      for (;;) {
        const { id } = await stream.receive();
        await pause(100);
        stream.send({ id, ttl: 8n });
      }
    });
    const ids = Array.from({ length: 30 }, (_, index) => BigInt(index + 1));
    const due = { ttl: 9, sentAt: monotonicMs() - 3_000 };
    const kept = ids.map((id) => etcd.lease.keepAlive({ id, ...due }));
    await expect.poll(() => kept.every(({ ttl }) => ttl === 8)).toBe(true);
    expect(streams).toBe(1);
  });

  test('is replaced when the server answers later requests but skips an earlier request', async () => {
    let streams = 0;
    const etcd = await clientOf(async (stream) => {
      streams += 1;
      const isFirst = streams === 1;
      for (;;) {
        const { id } = await stream.receive();
        if (!isFirst || id !== 2n) stream.send({ id, ttl: isFirst ? 1n : 2n });
      }
    });
    const due = { ttl: 3, sentAt: monotonicMs() - 1_000 };
    const [, passedOver] = [1n, 2n, 3n].map((id) => etcd.lease.keepAlive({ id, ...due }));
    await expect.poll(() => passedOver?.ttl).toBe(2);
    expect(streams).toBe(2);
  });

  test('does not renew a lease again when the answer to a renewal has come after the deadline of the lease', async () => {
    const requests: bigint[] = [];
    const etcd = await clientOf(async (stream) => {
      for (;;) {
        const { id } = await stream.receive();
        requests.push(id);
        if (id === 8n) blockEventLoop(1_100);
        stream.send({ id, ttl: id === 8n ? 1n : 2n });
      }
    });
    const late = etcd.lease.keepAlive({ id: 8n, ttl: 1, sentAt: monotonicMs() });
    await new Promise((resolve) => late.signal.addEventListener('abort', resolve));
    const other = etcd.lease.keepAlive(9n);
    await expect.poll(() => requests.filter((id) => id === 9n).length).toBeGreaterThanOrEqual(3);
    expect(requests.filter((id) => id === 8n)).toHaveLength(1);
    expect(other.valid()).toBe(true);
  });

  test('sends one request for two keepalives of the same lease when the second keepalive starts before the answer arrives', async () => {
    let streams = 0;
    const etcd = await clientOf(async (stream) => {
      streams += 1;
      const { id } = await stream.receive();
      await pause(200);
      stream.send({ id, ttl: 60n });
    });
    const first = etcd.lease.keepAlive(4n);
    await expect.poll(() => streams).toBe(1);
    const second = etcd.lease.keepAlive(4n);
    await expect.poll(() => [first.ttl, second.ttl]).toEqual([60, 60]);
    expect(streams).toBe(1);
  });

  test('ignores a late answer that belongs to a closed keepalive when a new keepalive of the same lease is open (S14)', async () => {
    const requests: bigint[] = [];
    let answer = (): void => {};
    const etcd = await clientOf(async (stream) => {
      for (;;) {
        const { id } = await stream.receive();
        requests.push(id);
        if (id === 6n) stream.send({ id, ttl: 600n });
        else if (requests.filter((request) => request === 5n).length === 1)
          answer = () => stream.send({ id, ttl: 60n });
        // The server never answers the second request for lease 5.
        if (id !== 7n) continue;
        answer();
        stream.send({ id, ttl: 60n });
      }
    });
    // This lease keeps the stream open.
    const other = etcd.lease.keepAlive(6n);
    await expect.poll(() => other.valid()).toBe(true);
    const first = etcd.lease.keepAlive({ id: 5n, ttl: 60, sentAt: monotonicMs() - 20_000 });
    await expect.poll(() => requests.length).toBe(2);
    await first.close();
    const second = etcd.lease.keepAlive(5n);
    await expect.poll(() => requests.length).toBe(3);
    // The server sends the late answer for lease 5 before the answer to this request.
    const third = etcd.lease.keepAlive(7n);
    await expect.poll(() => third.valid()).toBe(true);
    expect(second.valid()).toBe(false);
  });

  test('after a failure, renews the other leases when the caller closes the keepalive that the client retries alone', async () => {
    let streams = 0;
    let isTried = false;
    const etcd = await clientOf(async (stream) => {
      streams += 1;
      if (streams === 1) {
        for (let requests = 0; requests < 3; requests += 1) await stream.receive();
        return stream.fail(PERMISSION_DENIED, 'etcdserver: permission denied');
      }
      for (;;) {
        const { id } = await stream.receive();
        if (id === 1n) isTried = true;
        else stream.send({ id, ttl: 2n });
      }
    });
    const [first, ...others] = [1n, 2n, 3n].map((id) =>
      etcd.lease.keepAlive({ id, ttl: 3, sentAt: monotonicMs() }),
    ) as [KeepAlive, ...KeepAlive[]];
    await expect.poll(() => isTried).toBe(true);
    await first.close();
    await expect.poll(() => others.map(({ ttl }) => ttl)).toEqual([2, 2]);
    expect(others.every((alive) => alive.valid())).toBe(true);
  });

  test('continues for the other leases when the server refuses the request of a keepalive that was closed meanwhile', async () => {
    let refuse = (): void => {};
    const requests: bigint[] = [];
    const etcd = await clientOf(async (stream) => {
      refuse = () => stream.fail(PERMISSION_DENIED, 'etcdserver: permission denied');
      for (;;) {
        const { id } = await stream.receive();
        // The server answers no request on the first stream.
        if (requests.push(id) > 2) stream.send({ id, ttl: 60n });
      }
    });
    const closed = etcd.lease.keepAlive(1n);
    const kept = etcd.lease.keepAlive(2n);
    await expect.poll(() => requests).toEqual([1n, 2n]);
    await closed.close();
    refuse();
    await kept.renewed();
    expect(requests).toEqual([1n, 2n, 2n]);
  });

  test('ends only the refused lease when a request of a closed keepalive is unanswered on the same stream', async () => {
    let refuse = (): void => {};
    const requests: bigint[] = [];
    const etcd = await clientOf(async (stream) => {
      refuse = () => stream.fail(PERMISSION_DENIED, 'etcdserver: permission denied');
      for (;;) {
        const { id } = await stream.receive();
        requests.push(id);
        if (requests.length > 3 && id === 2n) refuse();
        if (requests.length > 3 && id === 3n) stream.send({ id, ttl: 60n });
      }
    });
    const closed = etcd.lease.keepAlive(1n);
    const [refused, kept] = [etcd.lease.keepAlive(2n), etcd.lease.keepAlive(3n)];
    await expect.poll(() => requests).toEqual([1n, 2n, 3n]);
    await closed.close();
    refuse();
    await kept.renewed();
    expect(refused.signal.reason).toMatchObject({ reason: 'PermissionDenied' });
    expect(requests).toEqual([1n, 2n, 3n, 2n, 3n]);
  });

  test('waits longer after each failure for the first answer when the caller has passed only the ID of the lease', async () => {
    const etcd = await clientOf(async (stream) => {
      const { id } = await stream.receive();
      await pause(1_500);
      stream.send({ id, ttl: 60n });
    });
    await etcd.lease.keepAlive(7n).renewed();
  });

  test('is not opened after the client has been closed', async () => {
    const etcd = openClient();
    await etcd.close();
    const alive = etcd.lease.keepAlive({ id: 3n, ttl: 60, sentAt: monotonicMs() });
    expect(alive.valid()).toBe(false);
    expect(alive.signal.reason).toMatchObject({ reason: 'ClientClosed' });
  });

  test('ignores answers for leases that have no unanswered request', async () => {
    const etcd = await clientOf(async (stream) => {
      const { id } = await stream.receive();
      stream.send({ id: 99n, ttl: 0n });
      stream.send({ id, ttl: 60n });
      stream.send({ id, ttl: 0n });
    });
    const alive = etcd.lease.keepAlive(7n);
    await expect.poll(() => alive.ttl).toBe(60);
    // The second answer for lease 7 follows no request, so the client ignores it.
    expect(alive.valid()).toBe(true);
  });
});

async function clientOf(play: (stream: Stream) => Promise<void>): Promise<ReturnType<typeof openClient>> {
  return openClient({ endpoints: [await scriptedServer(scriptedStream(methods.lease.leaseKeepAlive, play))] });
}
