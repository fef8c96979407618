import {
  type RequestSink,
  type ResponseStream,
  type Route,
  type ServerCall,
  type Service,
  StatusError,
  serverError,
} from '../../../src/testing/memory/service.js';
import { ErrorCode, StreamError } from '../../../src/wire/http2/frame.js';
import { decode } from '../../../src/wire/protobuf/reader.js';
import type { Method } from '../../../src/wire/protobuf/schema.js';
import { encode } from '../../../src/wire/protobuf/writer.js';
import { Calls } from '../calls.js';
import type { Link } from '../network.js';
import type { ByteNetwork } from './network.js';

/** The service of a member on one connection. The faults of calls take effect here. */
export class MemberService implements Service {
  readonly maxMessageBytes: number;
  readonly #bytes: ByteNetwork;
  readonly #connection: Link;

  constructor(bytes: ByteNetwork, connection: Link) {
    this.maxMessageBytes = bytes.network.cluster.server.first.maxMessageBytes;
    this.#bytes = bytes;
    this.#connection = connection;
  }

  connect(): () => void {
    const { accepted, network } = this.#bytes;
    const connection = this.#connection;
    accepted.add(connection);
    return () => {
      accepted.delete(connection);
      network.connections.delete(connection);
    };
  }

  find(path: string): Route {
    const route = this.#bytes.network.cluster.server.first.find(path);
    const { method } = route;
    if ('unary' in route) return { method, unary: (request, call) => this.#unary(method, request, call) };
    return { method, streaming: (responses, call) => this.#stream(method, responses, call) };
  }

  #unary(method: Method<unknown, unknown>, request: unknown, call: ServerCall): object | Promise<object> {
    const { network } = this.#bytes;
    const { world } = network;
    const connection = this.#connection;
    const fault = network.faultOf(connection.process, method);
    const later = <T>(ms: number, kind: string, act: () => T): Promise<T> =>
      new Promise((resolve, reject) => {
        world.at(world.now + ms, world.outside, kind, method.path, () => {
          try {
            resolve(act());
          } catch (error) {
            reject(error);
          }
        });
      });
    switch (fault?.type) {
      case 'delay request':
        return later(fault.ms, 'processes', () => this.#answer(method, request, call));
      case 'delay response': {
        const answer = this.#answer(method, request, call);
        // The promise may reject before `later` waits for it.
        if (answer instanceof Promise) answer.catch(() => {});
        return later(fault.ms, 'answers', () => answer);
      }
      case 'lose request':
        if (fault.ms !== undefined) this.#again(fault.ms, method, request, call);
        connection.cut(false, network.delayMs());
        return never();
      case 'lose response': {
        const answer = this.#answer(method, request, call);
        if (answer instanceof Promise) answer.catch(() => {});
        connection.cut(false, network.delayMs());
        return never();
      }
      case 'early copy':
        this.#again(0, method, request, copyOf(call));
        return later(fault.ms, 'processes', () => this.#answer(method, request, call));
      case 'duplicate request': {
        const answer = this.#answer(method, request, call);
        this.#again(fault.ms, method, request, copyOf(call));
        return answer;
      }
      case 'refuse': {
        const { calls } = network.cluster;
        if (!fault.isApplied) calls?.received(call.metadata);
        if (fault.copyMs !== undefined) this.#again(fault.copyMs, method, request, copyOf(call));
        const answer = fault.isApplied ? this.#answer(method, request, call) : undefined;
        const refusal = serverError(fault.reason);
        if (!fault.resetsStream) calls?.refused(call.metadata, refusal);
        const error = fault.resetsStream ? new StreamError(ErrorCode.REFUSED_STREAM, 'refused by a proxy') : refusal;
        if (answer instanceof Promise) return answer.then(() => Promise.reject(error));
        throw error;
      }
      default:
        return this.#answer(method, request, call);
    }
  }

  /** Applies the request after `ms`: for the second time, or for the first time but late. Discards the response. */
  #again(ms: number, method: Method<unknown, unknown>, request: unknown, call: ServerCall): void {
    this.#bytes.network.arriveLate(ms, 'receives a copy of', method.path, () => {
      try {
        const answer = this.#answer(method, request, call);
        if (answer instanceof Promise) answer.catch(() => {});
      } catch (error) {
        if (!(error instanceof StatusError)) throw error;
      }
    });
  }

  #answer(method: Method<unknown, unknown>, request: unknown, call: ServerCall): object | Promise<object> {
    const { member } = this.#connection;
    if (member.isDown) return never();
    const decoded = (bytes: Uint8Array): object => decode(method.response, bytes) as object;
    return this.#watched(() => {
      const answer = this.#bytes.network.cluster.unary(member, method, encode(method.request, request as object), call);
      return answer instanceof Promise ? answer.then(decoded) : decoded(answer);
    });
  }

  #stream(
    method: Method<unknown, unknown>,
    responses: ResponseStream<unknown>,
    call: ServerCall,
  ): RequestSink<unknown> {
    const { streams, network } = this.#bytes;
    const own: ResponseStream<unknown> = {
      send: (message) => responses.send(message),
      end: (error) => {
        streams.delete(own);
        responses.end(error);
      },
    };
    streams.add(own);
    try {
      const sink = this.#watched(() => network.cluster.stream(this.#connection.member, method, own, call));
      return {
        message: (request) => this.#watched(() => sink.message(request)),
        halfClosed: () => this.#watched(() => sink.halfClosed()),
        canceled: () => {
          streams.delete(own);
          this.#watched(() => sink.canceled());
        },
      };
    } catch (error) {
      streams.delete(own);
      throw error;
    }
  }

  /** Reports an error of the server that is not a status. */
  #watched<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (!(error instanceof StatusError)) this.#bytes.network.world.unhandled.push(error);
      throw error;
    }
  }
}

/** Returns the call for a copy of a request. */
function copyOf({ signal, endpoint, metadata }: ServerCall): ServerCall {
  return { signal, endpoint, metadata: Calls.copyOf(metadata) };
}

/**
 * Returns a promise that never settles, for a call whose connection is cut. Each call gets a new promise, because a
 * promise keeps all its callbacks in memory.
 */
function never(): Promise<never> {
  return new Promise(() => {});
}
