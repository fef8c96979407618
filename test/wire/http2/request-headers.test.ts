import { describe, expect, test, vi } from 'vitest';
import { monotonicMs } from '../../../src/base/timers.js';
import { methods } from '../../../src/gen/methods.js';
import { errorOf } from '../../support/errors.js';
import { answerAll, range, rangeAnswer, watch } from '../../support/http2-calls.js';
import { FLAG, SETTING, settings } from '../../support/http2-frames.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';

// These tests check the headers of requests, and the settings of the peer that affect these headers.

const TOKEN = 'simple-token-that-is-a-secret.1234';

describe('the headers of a request', () => {
  test('are those of the gRPC protocol, with the pseudo-headers first', async () => {
    const peer = new Http2Peer();
    void range(peer, { metadata: { token: TOKEN, hasleader: 'true' } });
    await turn();
    expect(Object.entries(peer.connection.request().headers)).toEqual([
      [':method', 'POST'],
      [':scheme', 'http'],
      [':path', '/etcdserverpb.KV/Range'],
      [':authority', 'peer.test:2379'],
      ['te', 'trailers'],
      ['content-type', 'application/grpc'],
      ['user-agent', expect.any(String)],
      ['hasleader', 'true'],
      ['token', TOKEN],
    ]);
  });

  test('are encoded in one octet each from the second call on if they are the same for every call', async () => {
    const peer = new Http2Peer({ play: (each) => answerAll(each) });
    await range(peer);
    await range(peer);
    expect(peer.connection.request(3).written.map((field) => field.kind)).toEqual(Array(7).fill('indexed'));
    expect(peer.connection.sent('HEADERS', 3)[0]?.payload.length).toBe(7);
  });

  test('contain `hasleader` in one octet from the second call on, also beside calls without it', async () => {
    const peer = new Http2Peer({ play: (each) => answerAll(each) });
    const metadata = { hasleader: 'true', other: 'true' };
    for (const given of [metadata, undefined, metadata, undefined]) await range(peer, { metadata: given });
    const kindsOf = (id: number): unknown[] =>
      peer.connection
        .request(id)
        .written.slice(7)
        .map(({ kind }) => kind);
    expect([1, 3, 5, 7].map(kindsOf)).toEqual([
      ['with indexing', 'never indexed'],
      [],
      ['indexed', 'never indexed'],
      [],
    ]);
    expect(peer.connection.request(5).headers).toMatchObject(metadata);
    expect(peer.connection.request(7).headers).not.toHaveProperty('hasleader');
  });

  test('of one method are still encoded correctly after calls of other methods', async () => {
    const peer = new Http2Peer({ play: (each) => answerAll(each) });
    const paths = ['range', 'put', 'txn', 'range', 'compact', 'put', 'range'] as const;
    for (const [index, name] of paths.entries()) {
      const stream = peer.transport.stream({ method: methods.kv[name] as never }, { message: () => {}, end: () => {} });
      await turn();
      expect(peer.connection.request(2 * index + 1).headers[':path']).toBe(methods.kv[name].path);
      stream.cancel();
    }
  });

  test('are never indexed when they contain a secret or change with each call (RFC 7541, 7.1.3)', async () => {
    const peer = new Http2Peer({ play: (each) => answerAll(each) });
    for (const id of [1, 3]) {
      await range(peer, { metadata: { token: TOKEN }, deadline: monotonicMs() + 1_000 });
      const { written } = peer.connection.request(id);
      const kinds = new Map(written.map((field) => [field.kind === 'table size' ? '' : field.name, field.kind]));
      expect([kinds.get('token'), kinds.get('grpc-timeout')]).toEqual(['never indexed', 'never indexed']);
    }
  });

  test('can contain a token of any length', async () => {
    for (const length of [0, 1, 126, 127, 128, 300, 16_000, 40_000]) {
      const peer = new Http2Peer();
      void range(peer, { metadata: { token: 't'.repeat(length) } });
      await turn();
      expect(peer.connection.request().headers.token?.length).toBe(length);
    }
  });

  test('continue in CONTINUATION frames when they exceed one frame (6.10)', async () => {
    const peer = new Http2Peer();
    void range(peer, { metadata: { token: 't'.repeat(40_000) } });
    await turn();
    const { frames } = peer.connection;
    const first = frames.findIndex(({ name }) => name === 'HEADERS');
    expect(frames.slice(first, first + 3).map(({ name, flags }) => [name, flags])).toEqual([
      ['HEADERS', 0],
      ['CONTINUATION', 0],
      ['CONTINUATION', FLAG.END_HEADERS],
    ]);
    expect(peer.connection.request().ended).toBe(true);
  });

  test('are refused when a value contains invalid characters, and the error does not show the value', async () => {
    const peer = new Http2Peer();
    for (const token of ['a\nb', 'a\rb', 'a\0b', 'ä', '\x7f']) {
      const error = await errorOf(range(peer, { metadata: { token } }));
      expect(error).toMatchObject({ code: 'Internal', reason: 'Other', outcome: 'not-sent' });
      expect(error.message).not.toContain(token);
      const open = watch(peer, { metadata: { token } });
      await turn();
      expect(open.end?.error).toMatchObject({ code: 'Internal', outcome: 'not-sent' });
    }
    expect(peer.connections).toEqual([]);
  });
});

describe('`grpc-timeout`', () => {
  // The value has at most eight digits and is rounded up.
  test.each([
    [1, '1m'],
    [0.2, '1m'],
    [999.5, '1000m'],
    [10_000, '10000m'],
    [99_999_999, '99999999m'],
    [100_000_000, '100000S'],
    [99_999_999_000, '99999999S'],
    [99_999_999_001, '1666667M'],
    [5_999_999_940_001, '1666667H'],
  ])('of a call whose deadline is in %d ms is %s', async (leftMs, expected) => {
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
    try {
      const peer = new Http2Peer();
      void range(peer, { deadline: monotonicMs() + leftMs });
      await turn();
      expect(peer.connection.request().headers['grpc-timeout']).toBe(expected);
    } finally {
      vi.useRealTimers();
    }
  });

  test('is the time until the deadline when the request is sent, not when the call is made', async () => {
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
    try {
      const peer = new Http2Peer({ greeting: false });
      void range(peer, { deadline: monotonicMs() + 5_000 });
      await turn();
      await vi.advanceTimersByTimeAsync(2_000);
      peer.connection.send(settings());
      await turn();
      expect(peer.connection.request().headers['grpc-timeout']).toBe('3000m');
    } finally {
      vi.useRealTimers();
    }
  });

  test('is not sent for a call without a deadline', async () => {
    const peer = new Http2Peer();
    void range(peer);
    await turn();
    expect(peer.connection.request().headers).not.toHaveProperty('grpc-timeout');
  });
});

describe('SETTINGS_HEADER_TABLE_SIZE (RFC 7541, 4.2)', () => {
  test('of 0 in the first SETTINGS prevents any addition to the dynamic table', async () => {
    const peer = new Http2Peer({ greeting: { HEADER_TABLE_SIZE: 0 }, play: (each) => answerAll(each) });
    for (const id of [1, 3]) {
      await range(peer);
      expect(peer.connection.request(id).headers[':path']).toBe(methods.kv.range.path);
    }
    expect(kinds(peer.connection, 1)).toContain('table size');
    expect(kinds(peer.connection, 3)).not.toContain('with indexing');
  });

  const CHANGES = [
    [0],
    [1],
    [40],
    [100],
    [4_096],
    [0, 4_096],
    [100, 50],
    [50, 100],
    [65_536],
    [65_536, 0, 2 ** 32 - 1],
  ];

  test.for(CHANGES.map((sizes) => ({ sizes })))(
    'is obeyed when the peer sets it to these values in turn: $sizes',
    async ({ sizes }) => {
      const peer = new Http2Peer({ play: (each) => answerAll(each) });
      await range(peer);
      // The scripted peer records a protocol violation if the client does not signal the new size of the dynamic table.
      for (const size of sizes) peer.connection.send(settings({ HEADER_TABLE_SIZE: size }));
      await range(peer);
      await range(peer);
      for (const size of sizes) {
        peer.connection.send(settings({ HEADER_TABLE_SIZE: size }));
        await range(peer);
      }
      for (const id of peer.connection.streamIds) {
        expect(peer.connection.request(id).headers).toEqual(peer.connection.request(1).headers);
      }
      expect(peer.breaches).toEqual([]);
    },
  );

  test('is signaled when it changes twice in one SETTINGS frame, because the first change empties the table', async () => {
    const peer = new Http2Peer({ play: (each) => answerAll(each) });
    await range(peer);
    peer.connection.send(
      settings([
        [SETTING.HEADER_TABLE_SIZE, 0],
        [SETTING.HEADER_TABLE_SIZE, 4_096],
      ]),
    );
    await range(peer);
    expect(kinds(peer.connection, 3)[0]).toBe('table size');
  });
});

describe('a client whose peer sets SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113, 6.5.2)', () => {
  test('fails a call with outcome "not-sent" when the headers of the call exceed the limit', async () => {
    const peer = new Http2Peer({ greeting: { MAX_HEADER_LIST_SIZE: 1_000 }, play: (each) => answerAll(each) });
    const large = range(peer, { metadata: { token: 't'.repeat(1_000) } });
    expect(await errorOf(large)).toMatchObject({
      code: 'ResourceExhausted',
      reason: 'HeadersTooLarge',
      outcome: 'not-sent',
    });
    await range(peer, { metadata: { token: TOKEN } });
    expect(peer.connection.streamIds).toEqual([1]);
  });

  test('counts the name, the value and 32 bytes for each field', async () => {
    const peer = new Http2Peer({ play: (each) => answerAll(each) });
    await range(peer, { metadata: { token: TOKEN } });
    const size = Object.entries(peer.connection.request(1).headers).reduce(
      (sum, [name, value]) => sum + name.length + value.length + 32,
      0,
    );
    peer.connection.send(settings({ MAX_HEADER_LIST_SIZE: size }));
    await range(peer, { metadata: { token: TOKEN } });
    peer.connection.send(settings({ MAX_HEADER_LIST_SIZE: size - 1 }));
    expect((await errorOf(range(peer, { metadata: { token: TOKEN } }))).code).toBe('ResourceExhausted');
  });

  test('applies the limit to calls that have waited for a free stream', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    const [first, large, last] = [range(peer), range(peer, { metadata: { token: 't'.repeat(1_000) } }), range(peer)];
    await turn();
    peer.connection.send(settings({ MAX_CONCURRENT_STREAMS: 1, MAX_HEADER_LIST_SIZE: 1_000 }));
    peer.connection.send(rangeAnswer(1, 1));
    expect((await first).count).toBe(1n);
    expect((await errorOf(large)).outcome).toBe('not-sent');
    await turn();
    peer.connection.send(rangeAnswer(3, 3));
    expect((await last).count).toBe(3n);
  });
});

function kinds(connection: PeerConnection, streamId: number): readonly string[] {
  return connection.request(streamId).written.map(({ kind }) => kind);
}
