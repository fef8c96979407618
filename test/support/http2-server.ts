import { onTestFinished } from 'vitest';
import type { WatchRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { type Deliver, inProcess } from '../../src/testing/http2-server/in-process.js';
import { type Listener, openPort } from '../../src/testing/http2-server/listen.js';
import { Http2Server, type Http2ServerOptions } from '../../src/testing/http2-server/server.js';
import { type ResponseStream, Router, type ServerCall, StatusError } from '../../src/testing/memory/service.js';
import { http2Over } from '../../src/wire/http2/http2-transport.js';
import type { Transport, TransportOptions } from '../../src/wire/transport.js';
import { UNTIMED } from './http2-peer.js';

// A service for tests of the HTTP/2 server. Its handlers return simple results, and record the calls of Range and
// Watch.

/** A status message with characters that `grpc-message` must escape. */
export const UNUSUAL_TEXT = '100 % „größer“\n\0🔒';

/** One watch stream at the server. */
export interface ServedWatch {
  readonly responses: ResponseStream<WatchResponse>;
  readonly call: ServerCall;
  readonly requests: WatchRequest[];
  /** The notifications `half-closed` and `canceled` that the handler has received, in order. */
  readonly ends: string[];
}

/** A unary call that the handler has not answered yet. */
export interface HeldCall {
  readonly call: ServerCall;
  answer(): void;
}

/**
 * Serves Range, Put, Watch and Snapshot. Range returns one key whose name is the key of the request. The value is
 * empty, or N zero bytes if the name is `N bytes`. For the names `status`, `text`, `defect` and `held`, the handler
 * fails or waits instead.
 */
export class TestService extends Router {
  readonly maxMessageBytes = 2_097_152;
  readonly watches: ServedWatch[] = [];
  readonly held: HeldCall[] = [];
  readonly calls: ServerCall[] = [];
  #lost: (() => void) | undefined;
  /** Whether the service accepts connections. */
  accepts = true;

  constructor() {
    super();
    this.unary(methods.kv.range, ({ key }, call) => {
      this.calls.push(call);
      const name = Buffer.from(key).toString();
      const value = new Uint8Array(Number(/^(\d+) bytes$/.exec(name)?.[1] ?? 0));
      if (name === 'status')
        throw new StatusError('OutOfRange', 'etcdserver: mvcc: required revision has been compacted');
      if (name === 'text') throw new StatusError('NotFound', UNUSUAL_TEXT);
      if (name === 'defect') throw new TypeError('a defect');
      const response = { kvs: [{ key, value }], count: 1n };
      if (name !== 'held') return response;
      return new Promise((resolve) => {
        this.held.push({ call, answer: () => resolve(response) });
      });
    });
    this.unary(methods.kv.put, ({ value }) => ({ prevKv: { version: BigInt(value.length) } }));
    this.streaming(methods.watch.watch, (responses, call) => {
      const watch: ServedWatch = { responses, call, requests: [], ends: [] };
      this.watches.push(watch);
      return {
        message: (request) => {
          watch.requests.push(request);
          responses.send({ watchId: BigInt(watch.requests.length), created: true });
        },
        halfClosed: () => {
          watch.ends.push('half-closed');
          responses.end();
        },
        canceled: () => void watch.ends.push('canceled'),
      };
    });
    this.streaming(methods.maintenance.snapshot, (responses) => ({
      message: () => {
        for (let part = 0n; part < 3n; part += 1n)
          responses.send({ remainingBytes: 2n - part, blob: new Uint8Array(100_000) });
        responses.end();
      },
      halfClosed: () => {},
      canceled: () => {},
    }));
  }

  connect(lost: () => void): (() => void) | undefined {
    if (!this.accepts) return undefined;
    this.#lost = lost;
    return () => {
      this.#lost = undefined;
    };
  }

  /** Ends the latest connection, like a server that stops. */
  stop(): void {
    this.accepts = false;
    this.#lost?.();
  }

  /** The newest watch stream. */
  get watch(): ServedWatch {
    const watch = this.watches.at(-1);
    if (watch === undefined) throw new Error('no watch stream has arrived');
    return watch;
  }
}

export interface Served {
  readonly service: TestService;
  readonly server: Http2Server;
}

/** A server with a client transport that is connected to it. The transport is closed when the test ends. */
export interface Connected extends Served {
  /** The URL that the client uses. */
  readonly endpoint: string;
  readonly transport: Transport;
}

export interface ServedOptions extends Http2ServerOptions {
  readonly client?: Partial<TransportOptions>;
}

export function served(options: Http2ServerOptions = {}): Served {
  const service = new TestService();
  return { service, server: new Http2Server(service, options) };
}

/** Connects a client to a server over an in-process byte stream. */
export function connectInProcess({ client, ...options }: ServedOptions = {}, deliver?: Deliver): Connected {
  const { service, server } = served(options);
  const endpoint = 'http://memory.test:2379';
  const transport = http2Over(inProcess(server, deliver))(parseEndpoint(endpoint, 'endpoint'), {
    ...UNTIMED,
    maxReceiveBytes: 2 ** 24,
    ...client,
  });
  onTestFinished(() => transport.close());
  return { service, server, transport, endpoint };
}

/** Starts a server on a port, which is closed when the test ends. */
export async function listening(options: Http2ServerOptions = {}): Promise<Served & { readonly listener: Listener }> {
  const service = new TestService();
  const listener = await openPort(service, options);
  onTestFinished(() => listener.close());
  return { service, server: listener.server, listener };
}
