import type { EtcdError } from '../../src/base/etcd-error.js';
import type { RangeResponse, WatchRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { encode, type Init } from '../../src/wire/protobuf/writer.js';
import type { OutgoingStream, StreamCall, UnaryCall } from '../../src/wire/transport.js';
import { data, grpcMessage, headers } from './http2-frames.js';
import { block, type Field } from './http2-hpack.js';
import type { Http2Peer, PeerConnection } from './http2-peer.js';

// These functions start calls over a connection to a scripted peer, and encode the peer's responses.

export const ANSWER_FIELDS: readonly Field[] = [
  [':status', '200'],
  ['content-type', 'application/grpc'],
];
export const TRAILER_FIELDS: readonly Field[] = [['grpc-status', '0']];

type Options<T> = { -readonly [Name in keyof T]?: T[Name] | undefined };

/** Starts a Range call for one key. The call has no deadline unless the options contain a deadline. */
export function range(
  { transport }: Http2Peer,
  options: Options<Omit<UnaryCall<never, never>, 'method' | 'request'>> = {},
): Promise<RangeResponse> {
  const given = options as Partial<UnaryCall<never, never>>;
  const request = { key: Buffer.from('a') };
  return quiet(
    transport.unary({
      timeoutMs: 1_000,
      deadline: Number.POSITIVE_INFINITY,
      ...given,
      method: methods.kv.range,
      request,
    }),
  );
}

/** Starts a put of a value with this many bytes. */
export function put({ transport }: Http2Peer, bytes = 1): Promise<unknown> {
  const request = { key: Buffer.from('a'), value: new Uint8Array(bytes).fill(7) };
  const time = { timeoutMs: 1_000, deadline: Number.POSITIVE_INFINITY };
  return quiet(transport.unary({ ...time, method: methods.kv.put, request }));
}

/** Returns the length of the message that `put` sends for a value with this many bytes, including the gRPC prefix. */
export function putBytes(bytes: number): number {
  return grpcMessage(encode(methods.kv.put.request, { key: Buffer.from('a'), value: new Uint8Array(bytes) })).length;
}

/** Prevents an unhandled rejection if the test ends before the call does. */
function quiet<T>(call: Promise<T>): Promise<T> {
  call.catch(() => {});
  return call;
}

/** A watch stream and the messages that it received. */
export interface OpenWatch {
  readonly stream: OutgoingStream<WatchRequest>;
  /** The watch ID of each message, by which tests distinguish the messages. */
  readonly messages: bigint[];
  /** Set when the stream ends, with the error if there is one. Undefined while the stream is open. */
  end: { readonly error: EtcdError | undefined } | undefined;
  /** The number of times that the transport reported that the peer will close the connection. */
  leavings: number;
}

export function watch(
  { transport }: Http2Peer,
  options: Options<Omit<StreamCall<WatchRequest, WatchResponse>, 'method'>> = {},
  onMessage: (message: WatchResponse, open: OpenWatch) => void = () => {},
): OpenWatch {
  const messages: bigint[] = [];
  const open: OpenWatch = {
    messages,
    end: undefined,
    leavings: 0,
    stream: transport.stream<WatchRequest, WatchResponse>(
      { ...(options as Partial<StreamCall<WatchRequest, WatchResponse>>), method: methods.watch.watch },
      {
        message: (message) => {
          if (open.end !== undefined) throw new Error('the stream received a message after its end');
          messages.push(message.watchId);
          onMessage(message, open);
        },
        end: (error) => {
          if (open.end !== undefined) throw new Error('the stream ended twice');
          open.end = { error };
        },
        leaving: () => {
          open.leavings += 1;
        },
      },
    ),
  };
  return open;
}

/** The message that creates a watch. A client sends this message first on a watch stream. */
export const CREATE_WATCH: Init<WatchRequest> = {
  requestUnion: { case: 'createRequest', value: { key: Buffer.from('a') } },
};

/** Returns an encoded response on a watch stream, with its gRPC prefix. */
export function watchMessage(watchId: number, cancelReason = ''): Buffer {
  return grpcMessage(encode(methods.watch.watch.response, { watchId: BigInt(watchId), cancelReason }));
}

/** Returns an encoded response of a Range call, with its gRPC prefix. */
export function rangeMessage(count = 0): Buffer {
  return grpcMessage(encode(methods.kv.range.response, { count: BigInt(count) }));
}

export function answerHeaders(streamId: number, fields: readonly Field[] = ANSWER_FIELDS): Buffer {
  return headers(streamId, block(fields));
}

export function trailers(streamId: number, fields: readonly Field[] = TRAILER_FIELDS): Buffer {
  return headers(streamId, block(fields), { endStream: true });
}

/** Returns the frames of a complete response to a Range call: headers, data and trailers. */
export function rangeAnswer(streamId: number, count = 0): Buffer {
  return Buffer.concat([answerHeaders(streamId), data(streamId, rangeMessage(count)), trailers(streamId)]);
}

/** Makes the peer respond to every Range call on the connection with this count. */
export function answerAll(connection: PeerConnection, count = 0): void {
  connection.onRequest = ({ id }) => connection.send(rangeAnswer(id, count));
}
