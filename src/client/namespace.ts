import { type BytesLike, concatBytes, NO_BYTES } from '../base/index.js';
import type * as rpc from '../gen/etcdserverpb/rpc.js';
import * as kvMethods from '../gen/methods/kv.js';
import * as leaseMethods from '../gen/methods/lease.js';
import type * as mvccpb from '../gen/mvccpb/kv.js';
import { forwardStream, type Init, type Transport } from '../wire/index.js';
import type { KeyspaceCore } from './keyspace.js';
import { checkKey, prefixInterval, type WireRange, withoutPrefix } from './kv/keys.js';

/** The functions that translate the requests and the responses of one RPC between a namespace and the whole store. */
interface Translation {
  readonly request: (message: never) => unknown;
  readonly response: (message: never) => unknown;
}

/**
 * Returns the core of a namespace: the keys that begin with `prefix`. `core` is the core of the client or namespace
 * around the new namespace.
 */
export function namespaceCore(core: KeyspaceCore, prefix: BytesLike): KeyspaceCore {
  const inner = checkKey(prefix, 'prefix');
  const transport = namespaceTransport(core.transport, inner);
  return { ...core, transport, prefix: concatBytes(core.prefix, inner) };
}

/**
 * Returns a transport for a namespace: the keys that begin with `prefix`. The transport adds the prefix to the keys of
 * each request, and removes the prefix from the keys of each response. Everything that uses this transport works inside
 * the namespace: reads and writes of keys, and transactions.
 *
 * Closing this transport does nothing, because the connections belong to the client.
 */
function namespaceTransport(inner: Transport, prefix: Uint8Array): Transport {
  const translations = translationsOf(prefix);
  return {
    unary: async (call) => {
      const translation = translations[call.method.path];
      if (translation === undefined) return inner.unary(call);
      const request = translation.request(call.request as never) as typeof call.request;
      const response = await inner.unary({ ...call, request });
      return translation.response(response as never) as typeof response;
    },
    stream: (call, handler) => {
      const translation = translations[call.method.path];
      if (translation === undefined) return inner.stream(call, handler);
      const stream = inner.stream(call, {
        message: (message) => handler.message(translation.response(message as never) as typeof message),
        end: (error) => handler.end(error),
        leaving: () => handler.leaving?.(),
      });
      return forwardStream(stream, {
        send: (message) => stream.send(translation.request(message as never) as typeof message),
      });
    },
    close: async () => {},
  };
}

/**
 * Returns the translations by gRPC path. A namespace makes no other call whose messages contain keys. Its watches use
 * the stream of the client, which translates the keys itself: see `WatchScope`.
 */
function translationsOf(prefix: Uint8Array): Readonly<Record<string, Translation>> {
  const withPrefix = <T extends Init<WireRange>>(message: T): T => ({ ...message, ...prefixInterval(prefix, message) });
  const put = (message: Init<rpc.PutRequest>): Init<rpc.PutRequest> => {
    return { ...message, key: concatBytes(prefix, message.key ?? NO_BYTES) };
  };
  const txn = ({ compare, success, failure }: Init<rpc.TxnRequest>): Init<rpc.TxnRequest> => ({
    compare: compare?.map(withPrefix),
    success: success?.map(operation),
    failure: failure?.map(operation),
  });
  const requests = { requestRange: withPrefix, requestPut: put, requestDeleteRange: withPrefix, requestTxn: txn };
  const operation = ({ request }: Init<rpc.RequestOp>): Init<rpc.RequestOp> => ({
    request: translated(request, requests),
  });
  const stripped = <KV extends mvccpb.KeyValue | undefined>(kv: KV): KV => kv && withoutPrefix(kv, prefix.length);
  const ranged = (message: rpc.RangeResponse): rpc.RangeResponse => ({ ...message, kvs: message.kvs.map(stripped) });
  const rangedChunk = (message: rpc.RangeStreamResponse): rpc.RangeStreamResponse => {
    return { ...message, rangeResponse: message.rangeResponse && ranged(message.rangeResponse) };
  };
  const written = (message: rpc.PutResponse): rpc.PutResponse => ({ ...message, prevKv: stripped(message.prevKv) });
  const deleted = (message: rpc.DeleteRangeResponse): rpc.DeleteRangeResponse => {
    return { ...message, prevKvs: message.prevKvs.map(stripped) };
  };
  const txnResult = (message: rpc.TxnResponse): rpc.TxnResponse => {
    return { ...message, responses: message.responses.map(operationResult) };
  };
  const responses = {
    responseRange: ranged,
    responsePut: written,
    responseDeleteRange: deleted,
    responseTxn: txnResult,
  };
  const operationResult = ({ response }: rpc.ResponseOp): rpc.ResponseOp => ({
    response: translated(response, responses),
  });
  // Leaves out the keys outside the namespace, which may be attached to the same lease.
  const leaseKeys = (message: rpc.LeaseTimeToLiveResponse): rpc.LeaseTimeToLiveResponse => {
    const isInside = (key: Uint8Array): boolean =>
      key.length > prefix.length && prefix.every((byte, index) => byte === key[index]);
    return { ...message, keys: message.keys.filter(isInside).map((key) => key.subarray(prefix.length)) };
  };

  return {
    [kvMethods.range.path]: { request: withPrefix, response: ranged },
    [kvMethods.rangeStream.path]: { request: withPrefix, response: rangedChunk },
    [kvMethods.put.path]: { request: put, response: written },
    [kvMethods.deleteRange.path]: { request: withPrefix, response: deleted },
    [kvMethods.txn.path]: { request: txn, response: txnResult },
    [leaseMethods.leaseTimeToLive.path]: { request: (message) => message, response: leaseKeys },
  };
}

/** Translates the operation of a transaction with the function for its kind. */
function translated<Operation extends { readonly case: string; readonly value: unknown }>(
  operation: Operation | undefined,
  translations: { readonly [Case in Operation['case']]: (message: never) => unknown },
): Operation | undefined {
  if (operation === undefined) return undefined;
  const { case: kind, value } = operation;
  return { case: kind, value: translations[kind as Operation['case']](value as never) } as Operation;
}
