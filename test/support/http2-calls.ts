import type { EtcdError } from '../../src/errors/etcd-error.js';
import type { RangeResponse, WatchRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { encode, type Init } from '../../src/protobuf/codec.js';
import type { OutgoingStream, StreamCall, UnaryCall } from '../../src/transport/transport.js';
import { data, grpcMessage, headers } from './http2-frames.js';
import { block, type Field } from './http2-hpack.js';
import type { Http2Peer, PeerConnection } from './http2-peer.js';

// Calls over a scripted peer, and the answers to them.

export const ANSWER_FIELDS: readonly Field[] = [
  [':status', '200'],
  ['content-type', 'application/grpc'],
];
export const TRAILER_FIELDS: readonly Field[] = [['grpc-status', '0']];

type Options<T> = { -readonly [Name in keyof T]?: T[Name] | undefined };

/** A get without a time limit. */
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

/** A put of so many bytes. */
export function put({ transport }: Http2Peer, bytes = 1): Promise<unknown> {
  const request = { key: Buffer.from('a'), value: new Uint8Array(bytes).fill(7) };
  const time = { timeoutMs: 1_000, deadline: Number.POSITIVE_INFINITY };
  return quiet(transport.unary({ ...time, method: methods.kv.put, request }));
}

/** The bytes of a put with its prefix. */
export function putBytes(bytes: number): number {
  return grpcMessage(encode(methods.kv.put.request, { key: Buffer.from('a'), value: new Uint8Array(bytes) })).length;
}

/** A test that ends before its call does is not to blame for how the call ends. */
function quiet<T>(call: Promise<T>): Promise<T> {
  call.catch(() => {});
  return call;
}

/** A watch stream, and what came of it. */
export interface OpenWatch {
  readonly stream: OutgoingStream<WatchRequest>;
  /** The watch ids of the messages: tests tell them apart by that. */
  readonly messages: bigint[];
  /** Undefined while it is under way; then how it ended. */
  end: { readonly error: EtcdError | undefined } | undefined;
  /** How often it was told that the peer is about to go. */
  leavings: number;
}

export function watch(
  { transport }: Http2Peer,
  options: Options<Omit<StreamCall<never, never>, 'method'>> = {},
  onMessage: (message: WatchResponse, open: OpenWatch) => void = () => {},
): OpenWatch {
  const messages: bigint[] = [];
  const open: OpenWatch = {
    messages,
    end: undefined,
    leavings: 0,
    stream: transport.stream<WatchRequest, WatchResponse>(
      { ...(options as Partial<StreamCall<never, never>>), method: methods.watch.watch },
      {
        message: (message) => {
          if (open.end !== undefined) throw new Error('a message after the end');
          messages.push(message.watchId);
          onMessage(message, open);
        },
        end: (error) => {
          if (open.end !== undefined) throw new Error('a second end');
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

/** What a watch sends first. */
export const CREATE_WATCH: Init<WatchRequest> = {
  requestUnion: { case: 'createRequest', value: { key: Buffer.from('a') } },
};

/** A message to a watch, with its prefix. */
export function watchMessage(watchId: number, cancelReason = ''): Buffer {
  return grpcMessage(encode(methods.watch.watch.response, { watchId: BigInt(watchId), cancelReason }));
}

/** A message in answer to a get, with its prefix. */
export function rangeMessage(count = 0): Buffer {
  return grpcMessage(encode(methods.kv.range.response, { count: BigInt(count) }));
}

export function answerHeaders(streamId: number, fields: readonly Field[] = ANSWER_FIELDS): Buffer {
  return headers(streamId, block(fields));
}

export function trailers(streamId: number, fields: readonly Field[] = TRAILER_FIELDS): Buffer {
  return headers(streamId, block(fields), { endStream: true });
}

/** A whole answer to a get. */
export function rangeAnswer(streamId: number, count = 0): Buffer {
  return Buffer.concat([answerHeaders(streamId), data(streamId, rangeMessage(count)), trailers(streamId)]);
}

/** Answers every get on the connection with this count. */
export function answerAll(connection: PeerConnection, count = 0): void {
  connection.onRequest = ({ id }) => connection.send(rangeAnswer(id, count));
}
