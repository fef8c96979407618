import type * as rpc from './gen/etcdserverpb/rpc.js';
import { methods } from './gen/methods.js';
import type * as mvccpb from './gen/mvccpb/kv.js';
import { prefixEnd, type WireRange } from './kv/keys.js';
import type { Init } from './protobuf/codec.js';
import { concatBytes, NO_BYTES } from './runtime/bytes.js';
import type { OutgoingStream, StreamCall, StreamHandler, Transport, UnaryCall } from './transport/transport.js';
import { forwardStream } from './transport/transport.js';

type Translate = (message: never) => unknown;

/** What a namespace changes in the messages of one method; what is not in the table passes as it is. */
interface Translation {
  readonly request: Translate;
  readonly response: Translate;
}

/**
 * A transport on which all keys begin with a prefix that whoever uses it never sees. It puts the prefix before the keys
 * of each request and takes it off those of each response, so that everything above works within the namespace: keys,
 * transactions, watches, locks.
 */
export class NamespaceTransport implements Transport {
  readonly #inner: Transport;
  readonly #translations: Readonly<Record<string, Translation>>;

  constructor(inner: Transport, prefix: Uint8Array) {
    this.#inner = inner;
    this.#translations = translationsOf(prefix);
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const translation = this.#translations[call.method.path];
    if (translation === undefined) return this.#inner.unary(call);
    const request = translation.request(call.request as never) as Init<Request>;
    return translation.response((await this.#inner.unary({ ...call, request })) as never) as Response;
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const translation = this.#translations[call.method.path];
    if (translation === undefined) return this.#inner.stream(call, handler);
    const stream = this.#inner.stream<Request, Response>(call, {
      message: (message) => handler.message(translation.response(message as never) as Response),
      end: (error) => handler.end(error),
      leaving: () => handler.leaving?.(),
    });
    return forwardStream(stream, {
      send: (message) => stream.send(translation.request(message as never) as Init<Request>),
    });
  }

  /** The connections belong to the client. */
  async close(): Promise<void> {}
}

/**
 * The interval in the whole store that an interval of the namespace stands for. "No end" becomes the namespace's own
 * end, by the rule of every prefix, or the keys of its neighbour would be in it.
 */
export function prefixInterval(prefix: Uint8Array, { key, rangeEnd }: Init<WireRange>): WireRange {
  const end = rangeEnd ?? NO_BYTES;
  const openEnded = end.length === 1 && end[0] === 0;
  return {
    key: concatBytes(prefix, key ?? NO_BYTES),
    rangeEnd: openEnded ? prefixEnd(prefix) : end.length === 0 ? NO_BYTES : concatBytes(prefix, end),
  };
}

function translationsOf(prefix: Uint8Array): Readonly<Record<string, Translation>> {
  const within = <T extends Init<WireRange>>(message: T): T => ({ ...message, ...prefixInterval(prefix, message) });
  const withKey = (message: Init<rpc.PutRequest>): Init<rpc.PutRequest> => {
    return { ...message, key: concatBytes(prefix, message.key ?? NO_BYTES) };
  };
  const stripped = <KV extends mvccpb.KeyValue | undefined>(kv: KV): KV => {
    return kv && { ...kv, key: kv.key.subarray(prefix.length) };
  };
  const same = <T>(message: T): T => message;

  const range = (message: rpc.RangeResponse): rpc.RangeResponse => ({ ...message, kvs: message.kvs.map(stripped) });
  const put = (message: rpc.PutResponse): rpc.PutResponse => ({ ...message, prevKv: stripped(message.prevKv) });
  const deleted = (message: rpc.DeleteRangeResponse): rpc.DeleteRangeResponse => {
    return { ...message, prevKvs: message.prevKvs.map(stripped) };
  };
  const txnRequest = (message: Init<rpc.TxnRequest>): Init<rpc.TxnRequest> => ({
    compare: message.compare?.map(within),
    success: message.success?.map(opRequest),
    failure: message.failure?.map(opRequest),
  });
  const opRequest = ({ request }: Init<rpc.RequestOp>): Init<rpc.RequestOp> => {
    switch (request?.case) {
      case 'requestRange':
        return { request: { case: request.case, value: within(request.value) } };
      case 'requestPut':
        return { request: { case: request.case, value: withKey(request.value) } };
      case 'requestDeleteRange':
        return { request: { case: request.case, value: within(request.value) } };
      case 'requestTxn':
        return { request: { case: request.case, value: txnRequest(request.value) } };
      case undefined:
        return {};
    }
  };
  const txnResponse = (message: rpc.TxnResponse): rpc.TxnResponse => {
    return { ...message, responses: message.responses.map(opResponse) };
  };
  const opResponse = ({ response }: rpc.ResponseOp): rpc.ResponseOp => {
    switch (response?.case) {
      case 'responseRange':
        return { response: { case: response.case, value: range(response.value) } };
      case 'responsePut':
        return { response: { case: response.case, value: put(response.value) } };
      case 'responseDeleteRange':
        return { response: { case: response.case, value: deleted(response.value) } };
      case 'responseTxn':
        return { response: { case: response.case, value: txnResponse(response.value) } };
      case undefined:
        return { response };
    }
  };
  const rangeStream = (message: rpc.RangeStreamResponse): rpc.RangeStreamResponse => {
    return { ...message, rangeResponse: message.rangeResponse && range(message.rangeResponse) };
  };
  const watchRequest = (message: Init<rpc.WatchRequest>): Init<rpc.WatchRequest> => {
    const { requestUnion } = message;
    if (requestUnion?.case !== 'createRequest') return message;
    return { requestUnion: { case: 'createRequest', value: within(requestUnion.value) } };
  };
  const watchResponse = (message: rpc.WatchResponse): rpc.WatchResponse => {
    const events = message.events.map((event) => {
      return { ...event, kv: stripped(event.kv), prevKv: stripped(event.prevKv) };
    });
    return { ...message, events };
  };
  // A lease may hold keys of others too.
  const timeToLive = (message: rpc.LeaseTimeToLiveResponse): rpc.LeaseTimeToLiveResponse => {
    const own = message.keys.filter(
      (key) => key.length > prefix.length && prefix.every((byte, index) => byte === key[index]),
    );
    return { ...message, keys: own.map((key) => key.subarray(prefix.length)) };
  };

  const { kv, lease, watch } = methods;
  return {
    [kv.range.path]: { request: within, response: range },
    [kv.rangeStream.path]: { request: within, response: rangeStream },
    [kv.put.path]: { request: withKey, response: put },
    [kv.deleteRange.path]: { request: within, response: deleted },
    [kv.txn.path]: { request: txnRequest, response: txnResponse },
    [lease.leaseTimeToLive.path]: { request: same, response: timeToLive },
    [watch.watch.path]: { request: watchRequest, response: watchResponse },
  };
}
