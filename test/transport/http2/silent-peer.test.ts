import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Channel } from '../../../src/channel/channel.js';
import { methods } from '../../../src/gen/methods.js';
import { parseEndpoint } from '../../../src/host/endpoint.js';
import type { Transport } from '../../../src/transport/transport.js';
import { TRANSPORT_DEFAULTS } from '../../../src/transport/transport.js';
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
import { VirtualClock } from '../../support/virtual-clock.js';

// A peer whose packets are dropped: it takes connections, and from then on nothing arrives from it. Every scripted peer
// also judges the pings of the client by the rule of etcd.

const { pingIntervalMs, pingTimeoutMs } = TRANSPORT_DEFAULTS;
const PINGING = { pingIntervalMs, pingTimeoutMs };
/** After so long without a byte a request is followed by a probe, and a probe by doubt. */
const SILENCE_MS = 1_000;
const DOUBT_MS = 1_000;
/** More than the client grants for bytes that have arrived and were not read yet. */
const GRACE_MS = 100;

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});
afterEach(() => clock.restore());

describe('a client whose only connection is silently dead', () => {
  test.for([
    ['calls of 2 s every 8 s', 2_000, 8_000, 2],
    ['calls of 500 ms every 8 s', 500, 8_000, 2],
    ['calls of 200 ms every 8 s', 200, 8_000, 2],
    ['calls of 2 s, one after the other', 2_000, 2_000, 3],
    ['calls of 500 ms, one after the other', 500, 500, 5],
    ['calls of 100 ms, one after the other', 100, 100, 13],
  ] as const)('connects again: %s', async ([, timeoutMs, everyMs, within]) => {
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

  test('fails the calls that are open there when the probe is not answered', async () => {
    const peer = deadThenAlive();
    const call = range(peer);
    await clock.pass(SILENCE_MS + pingTimeoutMs - 1);
    expect(peer.connection.closed).toBe(false);
    await clock.pass(GRACE_MS);
    expect(await errorOf(call)).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
    expect(peer.connection.closed).toBe(true);
  });

  test('sends new calls over a new connection before that', async () => {
    const peer = deadThenAlive();
    void range(peer);
    await clock.pass(SILENCE_MS + DOUBT_MS + GRACE_MS);
    expect((await range(peer)).count).toBe(9n);
    expect(peer.connections.map(({ closed }) => closed)).toEqual([false, false]);
  });

  test('sends calls that wait for a free stream there over a new connection', async () => {
    const peer = new Http2Peer({
      ...PINGING,
      greeting: { MAX_CONCURRENT_STREAMS: 1 },
      play: (each, index) => index > 0 && answerAll(each, 9),
    });
    void range(peer);
    const waiting = range(peer);
    await clock.pass(SILENCE_MS + DOUBT_MS + GRACE_MS);
    expect((await waiting).count).toBe(9n);
  });

  test('notices by the message of a stream, too', async () => {
    const { peer, open, connection } = await answeredWatch();
    await clock.pass(500);
    open.stream.send(CREATE_WATCH);
    await clock.pass(SILENCE_MS + pingTimeoutMs + GRACE_MS);
    expect([connection.closed, open.end?.error?.reason]).toEqual([true, 'ConnectionLost']);
    expect(peer.connections.length).toBe(1);
  });

  test('notices when the peer’s last bytes came after the request', async () => {
    const { peer, connection } = await answeredWatch();
    const call = range(peer);
    await clock.pass(10);
    connection.send(data(1, watchMessage(1)));
    await clock.pass(SILENCE_MS + pingTimeoutMs + GRACE_MS);
    expect(await errorOf(call)).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
  });

  test('notices by its interval when watch events still arrive, but no answer to the probe', async () => {
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
  test('sends new calls elsewhere while one peer is silent, and goes on there', async () => {
    const [silent, healthy] = [
      new Http2Peer(PINGING),
      new Http2Peer({ ...PINGING, play: (each) => answerAll(each, 9) }),
    ];
    const channel = over(silent, healthy);
    const first = get(channel);
    first.catch(() => {});
    await clock.pass(SILENCE_MS + DOUBT_MS + GRACE_MS);
    expect((await get(channel)).count).toBe(9n);
    expect(silent.connections.length).toBe(1);
    await clock.pass(pingTimeoutMs);
    // The first one is a read: it is repeated where it may be answered.
    expect((await first).count).toBe(9n);
  });

  test('sends new calls elsewhere when the silent peer also takes no new connection', async () => {
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

describe('a peer that answers late', () => {
  test('keeps its connection when it answers the probe, however long the call takes', async () => {
    const { peer, connection } = alive();
    const call = range(peer);
    await clock.pass(120_000);
    expect([peer.connections.length, connection().closed]).toEqual([1, false]);
    connection().send(rangeAnswer(1, 5));
    expect((await call).count).toBe(5n);
  });

  test('gets one probe for a call that waits on purpose, and then those of the interval', async () => {
    const { peer, connection } = alive();
    void range(peer);
    await clock.pass(SILENCE_MS + 1);
    expect(probes(connection())).toBe(1);
    await clock.pass(10 * pingIntervalMs);
    expect(probes(connection())).toBeLessThanOrEqual(11);
  });

  test('gets no probe sooner than in the interval for a watch that is silent', async () => {
    const { connection } = await answeredWatch();
    connection.onPing = (payload) => connection.send(ping(payload, FLAG.ACK));
    await clock.pass(10 * pingIntervalMs);
    expect(probes(connection)).toBeLessThanOrEqual(10);
  });

  test('is left for new calls at most once in an interval when calls time out there again and again', async () => {
    const { peer } = alive();
    for (let calls = 0; calls < 100; calls += 1) {
      const call = range(peer, { timeoutMs: 1_500, deadline: clock.now + 1_500 });
      await clock.pass(1_500);
      expect(await errorOf(call)).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
    }
    expect(peer.breaches).toEqual([]);
    // Only where etcd allows no further probe, the silence alone counts.
    expect(peer.connections.length).toBeLessThanOrEqual(1 + (100 * 1_500) / pingIntervalMs);
  });

  test('is not pinged too often, however calls start, are answered and time out', async () => {
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

  test('keeps its connection when the event loop of the client is blocked while the answers wait to be read', async () => {
    for (const blockedMs of [2_000, 4_000, 60_000]) {
      const { peer, connection } = alive();
      const call = range(peer, { timeoutMs: 100_000, deadline: clock.now + 100_000 });
      await clock.pass(SILENCE_MS - 1);
      const hold = connection();
      // From here on the socket has bytes that nobody reads.
      const unread: Buffer[] = [];
      hold.onPing = (payload) => void unread.push(ping(payload, FLAG.ACK));
      await clock.pass(2);
      expect(unread.length).toBe(1);
      clock.block(blockedMs);
      // All timers that are due run first, and then the socket is read.
      await clock.pass(0);
      hold.send(...unread, rangeAnswer(1, 5));
      await clock.pass(GRACE_MS);
      expect((await call).count).toBe(5n);
      expect([peer.connections.length, hold.closed]).toEqual([1, false]);
    }
  });

  test('keeps its connection while a long answer arrives ahead of the answer to the probe', async () => {
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

  test('takes no new calls once it was doubted, but finishes those it has', async () => {
    const { peer, connection } = alive();
    const call = range(peer);
    await turn();
    const first = connection();
    let late: Buffer | undefined;
    first.onPing = (payload) => {
      late = ping(payload, FLAG.ACK);
    };
    await clock.pass(SILENCE_MS + DOUBT_MS + GRACE_MS);
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

  test('loses the connection it was doubted on once the probe is answered and no call is left', async () => {
    const { peer, connection } = alive();
    const call = range(peer, { timeoutMs: 500, deadline: clock.now + 500 });
    await turn();
    const first = connection();
    let late: Buffer | undefined;
    first.onPing = (payload) => {
      late = ping(payload, FLAG.ACK);
    };
    await clock.pass(500 + DOUBT_MS + GRACE_MS);
    expect([(await errorOf(call)).reason, first.closed, first.held]).toEqual(['DeadlineExceeded', false, false]);
    first.send(late as Buffer);
    await turn();
    expect(first.closed).toBe(true);
  });
});

test('a probe at the deadline of a call precedes the RST_STREAM of its stream', async () => {
  const peer = deadThenAlive();
  range(peer, { timeoutMs: 500, deadline: clock.now + 500 }).catch(() => {});
  await clock.pass(500);
  const names = peer.connection.frames.map(({ name }) => name);
  expect(names.slice(-2)).toEqual(['PING', 'RST_STREAM']);
});

test('a call that times out on a new connection sends no second probe at once', async () => {
  const { peer, connection } = alive();
  for (let calls = 0; calls < 5; calls += 1) {
    range(peer, { timeoutMs: 100, deadline: clock.now + 100 }).catch(() => {});
    await clock.pass(150);
  }
  expect(probes(connection())).toBeLessThanOrEqual(2);
});

/** Its first connection is dead once it stands; later ones answer. */
function deadThenAlive(): Http2Peer {
  return new Http2Peer({ ...PINGING, play: (each, index) => index > 0 && answerAll(each, 9) });
}

/** Answers no call, and every probe at once. */
function alive(): { peer: Http2Peer; connection: () => PeerConnection } {
  const peer = new Http2Peer({
    ...PINGING,
    play: (each) => {
      each.onPing = (payload) => each.send(ping(payload, FLAG.ACK));
    },
  });
  return { peer, connection: () => peer.connection };
}

/** A watch whose request has got its answer: the peer owes nothing. */
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

/** How often the client has asked. */
function probes(connection: PeerConnection): number {
  return connection.sent('PING').filter(({ flags }) => flags === 0).length;
}
