import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { parseEndpoint } from '../../../src/host/endpoint.js';
import { Channel } from '../../../src/rpc/channel.js';
import type { Transport } from '../../../src/wire/transport.js';
import { TRANSPORT_DEFAULTS } from '../../../src/wire/transport.js';
import { errorOf } from '../../support/errors.js';
import {
  answerAll,
  answerHeaders,
  CREATE_WATCH,
  type OpenWatch,
  range,
  rangeAnswer,
  watch,
  watchMessage,
} from '../../support/http2-calls.js';
import { data, FLAG, ping } from '../../support/http2-frames.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';
import { probes } from '../../support/http2-pings.js';
import { VirtualClock } from '../../support/virtual-clock.js';

// In most of these tests, the peer has gone silent, as if a network dropped its packets: it accepts connections, and
// then sends nothing. The client detects such a peer with probes: it sends a PING and waits for the answer. If a probe
// stays unanswered, the client first regards the connection as suspect and sends new calls elsewhere, and later closes
// the connection. Every scripted peer in these tests also checks that the client's pings stay within etcd's limit.

const { pingIntervalMs, pingTimeoutMs } = TRANSPORT_DEFAULTS;
const PINGING = { pingIntervalMs, pingTimeoutMs };
/** How long the peer may stay silent after a request before the client sends a probe. */
const SILENCE_MS = 1_000;
/** How long the peer may stay silent after a probe before the client regards the connection as suspect. */
const SUSPECT_MS = 1_000;
/**
 * After a probe has timed out, the client waits a little longer for bytes that have arrived but that it has not read
 * yet. This time is longer than that wait.
 */
const GRACE_MS = 100;

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});
afterEach(() => clock.restore());

describe('a client whose only connection has gone silent', () => {
  test.for([
    ['a call with a timeout of 2 s every 8 s', 2_000, 8_000, 2],
    ['a call with a timeout of 500 ms every 8 s', 500, 8_000, 2],
    ['a call with a timeout of 200 ms every 8 s', 200, 8_000, 2],
    ['calls with a timeout of 2 s, one after another', 2_000, 2_000, 3],
    ['calls with a timeout of 500 ms, one after another', 500, 500, 5],
    ['calls with a timeout of 100 ms, one after another', 100, 100, 13],
  ] as const)('connects again after a few failed calls when it makes %s', async ([, timeoutMs, everyMs, within]) => {
    const peer = deadThenAlive();
    let calls = 1;
    for (; calls < 30; calls += 1) {
      const call = range(peer, { timeoutMs, deadline: clock.now + timeoutMs });
      call.catch(() => {});
      await clock.pass(everyMs);
      if (await answered(call)) break;
    }
    expect(calls).toBeLessThanOrEqual(within);
  });

  test('fails the open calls when the peer does not answer a PING', async () => {
    const peer = deadThenAlive();
    const call = range(peer);
    await clock.pass(SILENCE_MS + pingTimeoutMs - 1);
    expect(peer.connection.closed).toBe(false);
    await clock.pass(GRACE_MS);
    expect(await errorOf(call)).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
    expect(peer.connection.closed).toBe(true);
  });

  test('sends new calls over a new connection before the PING times out', async () => {
    const peer = deadThenAlive();
    void range(peer);
    await clock.pass(SILENCE_MS + SUSPECT_MS + GRACE_MS);
    expect((await range(peer)).count).toBe(9n);
    expect(peer.connections.map(({ closed }) => closed)).toEqual([false, false]);
  });

  test('sends the calls that wait for a free stream over a new connection', async () => {
    const peer = new Http2Peer({
      ...PINGING,
      greeting: { MAX_CONCURRENT_STREAMS: 1 },
      play: (each, index) => index > 0 && answerAll(each, 9),
    });
    void range(peer);
    const waiting = range(peer);
    await clock.pass(SILENCE_MS + SUSPECT_MS + GRACE_MS);
    expect((await waiting).count).toBe(9n);
  });

  test('sends a PING one second after a call even if the caller aborted an earlier unanswered call', async () => {
    const peer = new Http2Peer(PINGING);
    const aborting = new AbortController();
    void range(peer, { signal: aborting.signal });
    await clock.pass(SILENCE_MS / 2);
    aborting.abort();
    await clock.pass(SILENCE_MS);
    void range(peer);
    await clock.pass(SILENCE_MS - 1);
    expect(probes(peer.connection)).toBe(0);
    await clock.pass(1);
    expect(probes(peer.connection)).toBe(1);
  });

  test('closes the connection when the peer does not answer a message on an open stream', async () => {
    const { peer, open, connection } = await answeredWatch();
    await clock.pass(500);
    open.stream.send(CREATE_WATCH);
    await clock.pass(SILENCE_MS + pingTimeoutMs + GRACE_MS);
    expect([connection.closed, open.end?.error?.reason]).toEqual([true, 'ConnectionLost']);
    expect(peer.connections.length).toBe(1);
  });

  test('fails the open calls even if the peer sent a watch event between the request and the silence', async () => {
    const { peer, connection } = await answeredWatch();
    const call = range(peer);
    await clock.pass(10);
    connection.send(data(1, watchMessage(1)));
    await clock.pass(SILENCE_MS + pingTimeoutMs + GRACE_MS);
    expect(await errorOf(call)).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
  });

  test('closes the connection when the peer answers no PING, even if the peer still sends watch events', async () => {
    const { peer, connection } = await answeredWatch();
    const call = range(peer);
    call.catch(() => {});
    for (let passed = 0; passed < pingIntervalMs + 3 * pingTimeoutMs + GRACE_MS; passed += 500) {
      connection.send(data(1, watchMessage(1)));
      await clock.pass(500);
    }
    expect(connection.closed).toBe(true);
  });
});

describe('a client with several endpoints', () => {
  test('sends new calls to another endpoint while one peer is silent', async () => {
    const [silent, healthy] = [
      new Http2Peer(PINGING),
      new Http2Peer({ ...PINGING, play: (each) => answerAll(each, 9) }),
    ];
    const channel = over(silent, healthy);
    const first = get(channel);
    first.catch(() => {});
    await clock.pass(SILENCE_MS + SUSPECT_MS + GRACE_MS);
    expect((await get(channel)).count).toBe(9n);
    expect(silent.connections.length).toBe(1);
    await clock.pass(pingTimeoutMs);
    // The channel repeats the first call at another endpoint, because the call is a read.
    expect((await first).count).toBe(9n);
  });

  test('sends new calls to another endpoint when a peer never sends its first SETTINGS', async () => {
    const [silent, healthy] = [
      new Http2Peer({ ...PINGING, greeting: false, connectTimeoutMs: 3_000 }),
      new Http2Peer({ ...PINGING, play: (each) => answerAll(each, 9) }),
    ];
    const channel = over(silent, healthy);
    const failed: string[] = [];
    for (let calls = 0; calls < 4; calls += 1) {
      const call = get(channel, 500);
      await clock.pass(500);
      if (await answered(call)) break;
      failed.push((await errorOf(call)).outcome);
    }
    expect(failed).toEqual(['not-sent', 'not-sent']);
  });
});

describe('a peer that answers calls late', () => {
  test('keeps its connection as long as it answers every PING, no matter how long a call takes', async () => {
    const { peer, connection } = alive();
    const call = range(peer);
    await clock.pass(120_000);
    expect([peer.connections.length, connection().closed]).toEqual([1, false]);
    connection().send(rangeAnswer(1, 5));
    expect((await call).count).toBe(5n);
  });

  test('receives one early PING during a long call, and then at most one PING per ping interval', async () => {
    const { peer, connection } = alive();
    void range(peer);
    await clock.pass(SILENCE_MS + 1);
    expect(probes(connection())).toBe(1);
    await clock.pass(10 * pingIntervalMs);
    expect(probes(connection())).toBeLessThanOrEqual(11);
  });

  test('receives at most one PING per ping interval during a watch without events', async () => {
    const { connection } = await answeredWatch();
    connection.onPing = (payload) => connection.send(ping(payload, FLAG.ACK));
    await clock.pass(10 * pingIntervalMs);
    expect(probes(connection)).toBeLessThanOrEqual(10);
  });

  test('sees at most one new connection per ping interval when every call times out', async () => {
    const { peer } = alive();
    for (let calls = 0; calls < 100; calls += 1) {
      const call = range(peer, { timeoutMs: 1_500, deadline: clock.now + 1_500 });
      await clock.pass(1_500);
      expect(await errorOf(call)).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
    }
    expect(peer.breaches).toEqual([]);
    // The client suspects a connection without a probe only if etcd's limit on pings does not allow a probe yet.
    expect(peer.connections.length).toBeLessThanOrEqual(1 + (100 * 1_500) / pingIntervalMs);
  });

  test('is never pinged more often than etcd allows while some calls succeed and other calls time out', async () => {
    const { peer } = alive();
    const lengths = [90, 700, 1_400, 20, 2_300, 5_100, 400];
    for (let calls = 0; calls < 300; calls += 1) {
      const ms = lengths[calls % lengths.length] as number;
      const call = range(peer, { timeoutMs: ms, deadline: clock.now + ms });
      call.catch(() => {});
      await clock.pass((calls % 3) * 0.4 * ms);
      const { connection } = peer;
      if (calls % 4 === 0 && connection.rules.requests.size > 0)
        connection.send(rangeAnswer(connection.streamIds.at(-1) as number, 1));
      await clock.pass(ms);
    }
    expect(peer.breaches).toEqual([]);
  });

  test('keeps its connection when its answers arrive while the client’s event loop is blocked', async () => {
    for (const blockedMs of [2_000, 4_000, 60_000]) {
      const { peer, connection } = alive();
      const call = range(peer, { timeoutMs: 100_000, deadline: clock.now + 100_000 });
      await clock.pass(SILENCE_MS - 1);
      const hold = connection();
      // From here on, the peer's answers stay unread in the socket.
      const unread: Buffer[] = [];
      hold.onPing = (payload) => void unread.push(ping(payload, FLAG.ACK));
      await clock.pass(2);
      expect(unread.length).toBe(1);
      clock.block(blockedMs);
      // The event loop runs all timers that are due before it reads the socket.
      await clock.pass(0);
      hold.send(...unread, rangeAnswer(1, 5));
      await clock.pass(GRACE_MS);
      expect((await call).count).toBe(5n);
      expect([peer.connections.length, hold.closed]).toEqual([1, false]);
    }
  });

  test('keeps its connection when it sends a long response before the answer to a PING', async () => {
    const { peer, connection } = alive();
    const open = watch(peer);
    open.stream.send(CREATE_WATCH);
    await clock.pass(SILENCE_MS - 1);
    let late: Buffer | undefined;
    connection().onPing = (payload) => {
      late = ping(payload, FLAG.ACK);
    };
    await clock.pass(2);
    connection().send(answerHeaders(1));
    for (let passed = 0; passed < 2.5 * pingTimeoutMs; passed += 500) {
      connection().send(data(1, watchMessage(1)));
      await clock.pass(500);
    }
    connection().send(late as Buffer);
    await clock.pass(pingTimeoutMs);
    expect([connection().closed, peer.connections.length]).toEqual([false, 1]);
  });

  test('receives no new calls on a connection on which it answered a PING late, but finishes the open calls there', async () => {
    const { peer, connection } = alive();
    const call = range(peer);
    await turn();
    const first = connection();
    let late: Buffer | undefined;
    first.onPing = (payload) => {
      late = ping(payload, FLAG.ACK);
    };
    await clock.pass(SILENCE_MS + SUSPECT_MS + GRACE_MS);
    first.send(late as Buffer);
    first.onPing = (payload) => first.send(ping(payload, FLAG.ACK));
    void range(peer);
    await turn();
    expect(peer.connections.length).toBe(2);
    await clock.pass(10_000);
    expect(first.closed).toBe(false);
    first.send(rangeAnswer(1, 5));
    expect((await call).count).toBe(5n);
    await turn();
    expect(first.closed).toBe(true);
  });

  test('has its connection closed when it answers a PING late and the connection has no open calls', async () => {
    const { peer, connection } = alive();
    const call = range(peer, { timeoutMs: 500, deadline: clock.now + 500 });
    await turn();
    const first = connection();
    let late: Buffer | undefined;
    first.onPing = (payload) => {
      late = ping(payload, FLAG.ACK);
    };
    await clock.pass(500 + SUSPECT_MS + GRACE_MS);
    expect([(await errorOf(call)).reason, first.closed, first.held]).toEqual(['DeadlineExceeded', false, false]);
    first.send(late as Buffer);
    await turn();
    expect(first.closed).toBe(true);
  });
});

test('a PING that the client sends when a call times out precedes the RST_STREAM of the call', async () => {
  const peer = deadThenAlive();
  range(peer, { timeoutMs: 500, deadline: clock.now + 500 }).catch(() => {});
  await clock.pass(500);
  const names = peer.connection.frames.map(({ name }) => name);
  expect(names.slice(-2)).toEqual(['PING', 'RST_STREAM']);
});

test('calls that time out one after another on a new connection cause at most two PING frames', async () => {
  const { peer, connection } = alive();
  for (let calls = 0; calls < 5; calls += 1) {
    range(peer, { timeoutMs: 100, deadline: clock.now + 100 }).catch(() => {});
    await clock.pass(150);
  }
  expect(probes(connection())).toBeLessThanOrEqual(2);
});

/** Returns a peer whose first connection goes silent as soon as it is open. The peer answers on later connections. */
function deadThenAlive(): Http2Peer {
  return new Http2Peer({ ...PINGING, play: (each, index) => index > 0 && answerAll(each, 9) });
}

/** Returns a peer that answers no call, but answers every probe at once. */
function alive(): { peer: Http2Peer; connection: () => PeerConnection } {
  const peer = new Http2Peer({
    ...PINGING,
    play: (each) => {
      each.onPing = (payload) => each.send(ping(payload, FLAG.ACK));
    },
  });
  return { peer, connection: () => peer.connection };
}

/** Opens a watch. The peer answers the watch request, so that the client no longer waits for a response. */
async function answeredWatch(): Promise<{ peer: Http2Peer; connection: PeerConnection; open: OpenWatch }> {
  const peer = new Http2Peer(PINGING);
  const open = watch(peer);
  open.stream.send(CREATE_WATCH);
  await turn();
  peer.connection.send(answerHeaders(1), data(1, watchMessage(0)));
  return { peer, connection: peer.connection, open };
}

function over(...peers: readonly Http2Peer[]): Channel {
  const endpoints = peers.map((_, index) => parseEndpoint(`http://peer${index}.test:2379`, 'endpoint'));
  return new Channel(endpoints, (endpoint) => (peers[endpoints.indexOf(endpoint)] as Http2Peer).transport);
}

function get(transport: Transport, timeoutMs = Number.POSITIVE_INFINITY): ReturnType<typeof range> {
  return transport.unary({
    method: methods.kv.range,
    request: { key: Buffer.from('a') },
    timeoutMs,
    deadline: clock.now + timeoutMs,
  });
}

async function answered(call: Promise<unknown>): Promise<boolean> {
  const ended = call.then(
    () => true,
    () => false,
  );
  return Promise.race([ended, turn().then(() => false)]);
}
