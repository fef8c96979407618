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
import type { BidiStream } from '../../rpc/index.js';
import { TRANSPORT_DEFAULTS, type Transport } from '../../wire/index.js';
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
      const stream = transport.stream(
        { method, metadata },
        {
          message: (message) => events.message(jsonOf(method, message)),
          end: (error) => events.end(statusOf(error)),
        },
      );
      return {
        send: (request) => stream.send(messageOf(method, request) as object),
        halfClose: () => stream.end(),
        cancel: () => stream.cancel(),
      };
    },
    close: () => transport.close(),
  };
}

/** Calls a server with a client, which adds its own token to all calls. */
export function clientTarget(client: Client): ReplayTarget {
  return {
    open: (method, _, events) => {
      const stub = stubOf(client.raw, method);
      if (method.kind === 'unary')
        return unaryCall(method, events, (request, signal) =>
          (stub as UnaryStub)(request, { signal, timeoutMs: Number.POSITIVE_INFINITY }),
        );
      if (method.kind === 'bidi-streaming') return bidiCall(method, events, (stub as () => Bidi)());
      const controller = new AbortController();
      return {
        send: (request) => {
          const answers = (stub as ServerStreamingStub)(messageOf(method, request), { signal: controller.signal });
          read(method, answers, events, controller.signal);
        },
        halfClose: () => {},
        cancel: () => controller.abort(),
      };
    },
    close: async () => {},
  };
}

type UnaryStub = (request: unknown, options: object) => Promise<unknown>;
type ServerStreamingStub = (request: unknown, options: object) => AsyncIterable<unknown>;
type Bidi = BidiStream<unknown, unknown>;

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

function bidiCall(method: AnyMethod, events: CallEvents, stream: Bidi): OpenCall {
  const controller = new AbortController();
  read(method, stream, events, controller.signal);
  return {
    send: (request) => stream.send(messageOf(method, request) as object),
    halfClose: () => stream.end(),
    cancel: () => {
      controller.abort();
      stream.cancel();
    },
  };
}

/** Reports the messages and the end of a stream, until the signal aborts. */
function read(method: AnyMethod, answers: AsyncIterable<unknown>, events: CallEvents, signal: AbortSignal): void {
  const reading = async (): Promise<string> => {
    for await (const answer of answers) if (!signal.aborted) events.message(jsonOf(method, answer));
    return 'OK';
  };
  reading()
    .catch(statusOf)
    .then((status) => {
      if (!signal.aborted) events.end(status);
    });
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
