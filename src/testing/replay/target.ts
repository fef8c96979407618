import { EtcdError } from '../../base/index.js';
import { stubOf } from '../../client/index.js';
import type { Client } from '../../extras/full/index.js';
import {
  type AnyMethod,
  fromJson,
  fromTextOrBase64,
  type JsonObject,
  textOrBase64,
  toJson,
} from '../../extras/transports/json/index.js';
import { parseEndpoint } from '../../host/index.js';
import { type OutgoingStream, type StreamHandler, TRANSPORT_DEFAULTS, type Transport } from '../../wire/index.js';
import type { MemoryEtcd } from '../memory/memory-etcd.js';
import { memory } from '../memory/transport.js';

/** Receives the answers of an open call as JSON, and its end: `OK`, or the status code and the message. */
interface CallEvents {
  readonly message: (message: JsonObject) => void;
  readonly end: (status: string) => void;
}

/** An open call. */
export interface OpenCall {
  send(request: JsonObject): void;
  halfClose(): void;
  /** Ends the call. No further event follows. */
  cancel(): void;
}

/** A server that repeats recorded calls. */
export interface ReplayTarget {
  open(method: AnyMethod, token: string | undefined, events: CallEvents): OpenCall;
  close(): Promise<void>;
}

/** Calls a `MemoryEtcd`, with the token of each call. */
export function memoryTarget(server: MemoryEtcd): ReplayTarget {
  const endpoint = parseEndpoint(server.endpoint, 'endpoint');
  const limits = { maxRequestBytes: 2 ** 31 - 1, maxReceiveBytes: 2 ** 31 - 1 };
  const transport: Transport = memory(server)(endpoint, { ...TRANSPORT_DEFAULTS, ...limits, tls: undefined });
  const noTimeLimit = { timeoutMs: Number.POSITIVE_INFINITY, deadline: Number.POSITIVE_INFINITY };
  return {
    open: (method, token, events) => {
      const metadata = token === undefined ? {} : { token };
      if (method.kind === 'unary')
        return unaryCall(method, events, (request, signal) =>
          transport.unary({ method, metadata, request: request as object, signal, ...noTimeLimit }),
        );
      return streamingCall(method, events, (handler) => transport.stream({ method, metadata }, handler));
    },
    close: () => transport.close(),
  };
}

/** Calls a server with a client, which adds its own token to all calls. */
export function clientTarget(client: Client): ReplayTarget {
  return {
    open: (method, _, events) => {
      if (method.kind !== 'unary')
        return streamingCall(method, events, (handler) => client.rpc.stream(method, handler));
      // The function of `raw` refuses a transaction that would end all members of the cluster.
      const stub = stubOf(client.raw, method) as UnaryStub;
      return unaryCall(method, events, (request, signal) =>
        stub(request, { signal, timeoutMs: Number.POSITIVE_INFINITY }),
      );
    },
    close: async () => {},
  };
}

type UnaryStub = (request: unknown, options: object) => Promise<unknown>;

function unaryCall(
  method: AnyMethod,
  events: CallEvents,
  call: (request: unknown, signal: AbortSignal) => Promise<unknown>,
): OpenCall {
  const controller = new AbortController();
  const settle = (report: () => void): void => {
    if (!controller.signal.aborted) report();
  };
  return {
    send: (request) => {
      call(messageOf(method, request), controller.signal).then(
        (answer) =>
          settle(() => {
            events.message(jsonOf(method, answer));
            events.end('OK');
          }),
        (error: unknown) => settle(() => events.end(statusOf(error))),
      );
    },
    halfClose: () => {},
    cancel: () => controller.abort(),
  };
}

function streamingCall(
  method: AnyMethod,
  events: CallEvents,
  open: (handler: StreamHandler<unknown>) => OutgoingStream<unknown>,
): OpenCall {
  const stream = open({
    message: (message) => events.message(jsonOf(method, message)),
    end: (error) => events.end(statusOf(error)),
  });
  return {
    send: (request) => {
      stream.send(messageOf(method, request) as object);
      // A recording that was cut off may lack the half-close, without which the server may not answer.
      if (method.kind === 'server-streaming') stream.end();
    },
    halfClose: () => stream.end(),
    cancel: () => stream.cancel(),
  };
}

function messageOf(method: AnyMethod, json: JsonObject): unknown {
  return fromJson<unknown>(method.request, json, { bytesFromJson: fromTextOrBase64 });
}

function jsonOf(method: AnyMethod, message: unknown): JsonObject {
  return toJson<unknown>(method.response, message, textOrBase64);
}

/** Returns the status code and the message of an error, in the form of a recording. */
function statusOf(error: unknown): string {
  if (error === undefined) return 'OK';
  return error instanceof EtcdError ? `${error.code}: ${error.problem}` : `Unknown: ${String(error)}`;
}
