import { describe, expect, test } from 'vitest';
import type { EtcdErrorDetails } from '../../../src/base/etcd-error.js';
import { errorOf } from '../../support/errors.js';
import {
  answerHeaders,
  CREATE_WATCH,
  put,
  range,
  rangeAnswer,
  rangeMessage,
  trailers,
  watch,
  watchMessage,
} from '../../support/http2-calls.js';
import { data, type ErrorName, headers, rstStream } from '../../support/http2-frames.js';
import { block } from '../../support/http2-hpack.js';
import { Http2Peer, turn } from '../../support/http2-peer.js';

// These tests check RST_STREAM frames of the peer and of the client: RFC 9113, section 6.4, and gRPC's mapping of error
// codes.

/** The code and the reason of the call's error, for each error code of RST_STREAM. */
const MEANING: readonly (readonly [ErrorName | number, EtcdErrorDetails['code'], EtcdErrorDetails['reason']])[] = [
  ['NO_ERROR', 'Internal', 'ConnectionLost'],
  ['PROTOCOL_ERROR', 'Internal', 'Other'],
  ['INTERNAL_ERROR', 'Internal', 'ConnectionLost'],
  ['FLOW_CONTROL_ERROR', 'Internal', 'Other'],
  ['SETTINGS_TIMEOUT', 'Internal', 'Other'],
  ['STREAM_CLOSED', 'Internal', 'ConnectionLost'],
  ['FRAME_SIZE_ERROR', 'Internal', 'Other'],
  ['REFUSED_STREAM', 'Unavailable', 'StreamRefused'],
  ['CANCEL', 'Canceled', 'ConnectionLost'],
  ['COMPRESSION_ERROR', 'Internal', 'Other'],
  ['CONNECT_ERROR', 'Internal', 'ConnectionLost'],
  ['ENHANCE_YOUR_CALM', 'ResourceExhausted', 'Other'],
  ['INADEQUATE_SECURITY', 'PermissionDenied', 'Other'],
  ['HTTP_1_1_REQUIRED', 'Internal', 'Other'],
  [0xdead_beef, 'Internal', 'Other'],
];

describe('a call whose stream the peer resets', () => {
  test.for(MEANING)('with %s fails with code %s and reason %s', async ([code, status, reason]) => {
    const peer = new Http2Peer();
    const call = put(peer);
    await turn();
    peer.connection.send(rstStream(1, code));
    const error = await errorOf(call);
    // The outcome is unknown even for REFUSED_STREAM, because some proxies send it for requests that they have
    // forwarded.
    expect(error).toMatchObject({ code: status, reason, outcome: 'unknown' });
    expect(error.problem).toContain(typeof code === 'string' ? code : '0xdeadbeef');
    const next = range(peer);
    await turn();
    peer.connection.send(rangeAnswer(3, 4));
    expect((await next).count).toBe(4n);
    expect([peer.connections.length, peer.connection.sent('RST_STREAM')]).toEqual([1, []]);
  });

  test('fails when the reset arrives after the headers, or after the message', async () => {
    for (const frames of [[answerHeaders(1)], [answerHeaders(1), data(1, rangeMessage())]]) {
      const peer = new Http2Peer();
      const call = range(peer);
      await turn();
      peer.connection.send(...frames, rstStream(1, 'INTERNAL_ERROR'), trailers(1));
      expect(await errorOf(call)).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
    }
  });

  test('delivers the messages that arrived before the reset if the call is a watch', async () => {
    const peer = new Http2Peer();
    const open = watch(peer);
    open.stream.send(CREATE_WATCH);
    await turn();
    peer.connection.send(answerHeaders(1), data(1, watchMessage(1)), rstStream(1, 'CANCEL'), data(1, watchMessage(2)));
    expect([open.messages, open.end?.error?.code]).toEqual([[1n], 'Canceled']);
    open.stream.send(CREATE_WATCH);
    open.stream.end();
    open.stream.cancel();
    await turn();
    expect(peer.connection.sent('DATA').length).toBe(1);
    expect(peer.connection.sent('RST_STREAM')).toEqual([]);
  });
});

describe('a call that the client cancels', () => {
  test('resets its stream with CANCEL, and ignores later frames on the stream', async () => {
    const peer = new Http2Peer();
    const stop = new AbortController();
    const call = range(peer, { signal: stop.signal });
    await turn();
    stop.abort(new Error('enough'));
    expect(await errorOf(call)).toMatchObject({ code: 'Canceled', reason: 'Canceled', outcome: 'unknown' });
    await turn();
    expect(peer.connection.request().reset).toBe('CANCEL');
    peer.connection.send(rangeAnswer(1), rstStream(1, 'CANCEL'));
    const next = range(peer);
    await turn();
    peer.connection.send(rangeAnswer(3, 4));
    expect((await next).count).toBe(4n);
  });

  test('still has its header blocks decoded, because the blocks change the dynamic table (4.3)', async () => {
    const peer = new Http2Peer();
    const stop = new AbortController();
    const [given, kept] = [range(peer, { signal: stop.signal }), range(peer)];
    await turn();
    stop.abort();
    expect((await errorOf(given)).reason).toBe('Canceled');
    const indexed = block(
      [
        ['grpc-status', '0'],
        ['content-type', 'application/grpc'],
        [':status', '200'],
      ],
      'with indexing',
    );
    peer.connection.send(headers(1, indexed));
    // These indices of the dynamic table refer to fields of the response to the canceled call.
    peer.connection.send(headers(3, Buffer.of(0x80 | 62, 0x80 | 63)), data(3, rangeMessage(4)));
    peer.connection.send(headers(3, Buffer.of(0x80 | 64), { endStream: true }));
    expect((await kept).count).toBe(4n);
  });

  test('sends only one RST_STREAM, and reports no end, if the call is a watch that is canceled twice', async () => {
    const peer = new Http2Peer();
    const open = watch(peer);
    open.stream.send(CREATE_WATCH);
    await turn();
    peer.connection.send(answerHeaders(1), data(1, watchMessage(1)));
    open.stream.cancel();
    open.stream.cancel();
    open.stream.send(CREATE_WATCH);
    open.stream.end();
    peer.connection.send(data(1, watchMessage(2)), trailers(1));
    await turn();
    expect([open.messages, open.end]).toEqual([[1n], undefined]);
    expect(peer.connection.sent('RST_STREAM').length).toBe(1);
  });

  test('delivers no further message when its message handler cancels the call', async () => {
    const peer = new Http2Peer();
    const open = watch(peer, {}, (_, { stream }) => stream.cancel());
    await turn();
    peer.connection.send(answerHeaders(1), data(1, Buffer.concat([watchMessage(1), watchMessage(2)])), trailers(1));
    await turn();
    expect([open.messages, open.end, peer.connection.request().reset]).toEqual([[1n], undefined, 'CANCEL']);
  });

  test('opens no stream when the connection is not open yet', async () => {
    const peer = new Http2Peer({ greeting: false });
    const stop = new AbortController();
    const call = range(peer, { signal: stop.signal });
    const { stream } = watch(peer);
    await turn();
    stop.abort();
    stream.cancel();
    expect(await errorOf(call)).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
    peer.connection.send(Buffer.from('000000040000000000', 'hex'));
    await turn();
    expect(peer.connection.streamIds).toEqual([]);
  });

  test('opens no connection when its signal was aborted before the call was made', async () => {
    const peer = new Http2Peer();
    const call = range(peer, { signal: AbortSignal.abort() });
    expect(await errorOf(call)).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
    expect(peer.connections).toEqual([]);
  });

  test('sends no RST_STREAM when its response has already arrived', async () => {
    const peer = new Http2Peer();
    const stop = new AbortController();
    const call = range(peer, { signal: stop.signal });
    await turn();
    peer.connection.send(rangeAnswer(1, 1));
    await call;
    stop.abort();
    await turn();
    expect(peer.connection.sent('RST_STREAM')).toEqual([]);
  });
});
