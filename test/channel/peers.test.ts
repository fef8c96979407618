import { describe, expect, test } from 'vitest';
import { type Peer, Peers } from '../../src/channel/peers.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { monotonicMs } from '../../src/runtime/timers.js';

describe('the choice among endpoints', () => {
  test('stays with the one that works', () => {
    const peers = three();
    expect(peers.pick()).toBe(peers.pick());
  });

  test('leaves one that fails, and does not come straight back when the next fails too', () => {
    const peers = three();
    const order = [0, 1, 2].map(() => {
      const peer = peers.pick();
      peers.failed(peer);
      return peer.endpoint.url;
    });
    expect(order).toEqual(['http://a:1', 'http://b:1', 'http://c:1']);
  });

  test('takes the one that is parked for the shortest time yet where all are', () => {
    const peers = three();
    const [a, b, c] = peers.all() as [Peer, Peer, Peer];
    for (const peer of [a, b, c]) peers.failed(peer);
    b.parkedUntil = 1 + Math.min(a.parkedUntil, c.parkedUntil) - 1_000;
    expect(peers.pick()).toBe(b);
  });

  test('counts the calls that fail with one connection as one failure', () => {
    const peers = three();
    const peer = peers.pick();
    for (let call = 0; call < 200; call += 1) peers.failed(peer);
    expect(peer.failures).toBe(1);
    // Long enough for a stream that was moved away not to come straight back.
    expect(peer.parkedUntil - monotonicMs()).toBeGreaterThan(500);
    peers.succeeded(peer, peer.failedAt - 1);
    expect(peers.pick()).not.toBe(peer);
    peers.succeeded(peer, peer.failedAt + 1);
    expect(peer.parkedUntil).toBe(0);
  });

  test('lets calls that found no connection wait for the same moment, and longer each time', () => {
    const peers = three();
    const peer = peers.pick();
    const waits = Array.from({ length: 12 }, () => {
      for (let call = 0; call < 200; call += 1) peers.failed(peer, 'ConnectFailed');
      const wait = peer.dialAt - monotonicMs();
      // Its moment has come.
      peer.dialAt = monotonicMs();
      return wait;
    });
    expect(peer.vainDials).toBeLessThan(30);
    expect(Math.max(...waits)).toBeGreaterThan(200);
    peers.failed(peer, 'ConnectFailed');
    peer.dialAt += 60_000;
    expect(peers.pauseMs(peer, 0)).toBeGreaterThan(50_000);
    peers.succeeded(peer, monotonicMs() + 1);
    expect(peers.pauseMs(peer, 0)).toBeLessThan(60);
  });

  test('takes spare ones only while all others are parked', () => {
    const peers = three();
    const [a, b, c] = peers.all() as [Peer, Peer, Peer];
    expect(peers.pick()).toBe(a);
    peers.replace([b, c], [a]);
    expect(peers.pick()).toBe(b);
    peers.failed(b);
    expect(peers.pick()).toBe(c);
    peers.failed(c);
    expect(peers.pick()).toBe(a);
    b.parkedUntil = 0;
    expect(peers.pick()).toBe(b);
  });
});

function three(): Peers {
  const transport = { unary: () => Promise.reject(), stream: () => ({}) as never, close: async () => {} };
  const peer = (url: string): Peer => ({
    endpoint: parseEndpoint(url, 'endpoint'),
    transport,
    failures: 0,
    failedAt: 0,
    parkedUntil: 0,
    vainDials: 0,
    dialAt: 0,
    users: 0,
  });
  return new Peers([peer('http://a:1'), peer('http://b:1'), peer('http://c:1')]);
}
