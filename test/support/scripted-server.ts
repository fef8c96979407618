import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
} from '@grpc/grpc-js';
import { onTestFinished } from 'vitest';
import { decode } from '../../src/wire/protobuf/reader.js';
import type { Method } from '../../src/wire/protobuf/schema.js';
import { encode, type Init } from '../../src/wire/protobuf/writer.js';

// A gRPC server whose responses a test scripts, for behavior that a real etcd does not show on demand.

export interface ScriptedStream<Request, Response> {
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Resolves with the next message from the client. */
  receive(): Promise<Request>;
  send(message: Init<Response>): void;
  /** Ends the stream with a gRPC status. */
  fail(code: number, details: string): void;
  /** Resolves when the client has canceled the stream. */
  readonly canceled: Promise<void>;
}

type Handlers = Record<string, unknown>;

/** Starts a server with these handlers and stops it when the test ends. Resolves with the server's endpoint. */
export async function scriptedServer(
  ...implementations: { definition: Handlers; handlers: Handlers }[]
): Promise<string> {
  const server = new Server();
  for (const { definition, handlers } of implementations) {
    server.addService(
      definition as Parameters<Server['addService']>[0],
      handlers as Parameters<Server['addService']>[1],
    );
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  onTestFinished(() => server.forceShutdown());
  return `http://127.0.0.1:${port}`;
}

export function scriptedStream<Request, Response>(
  method: Method<Request, Response>,
  play: (stream: ScriptedStream<Request, Response>) => Promise<void>,
): { definition: Handlers; handlers: Handlers } {
  const handler = (call: ServerDuplexStream<Request, Response>): void => {
    const received: Request[] = [];
    const waiting: ((message: Request) => void)[] = [];
    call.on('data', (message: Request) => {
      const waiter = waiting.shift();
      if (waiter) waiter(message);
      else received.push(message);
    });
    call.on('error', () => {});
    const stream: ScriptedStream<Request, Response> = {
      metadata: call.metadata.getMap(),
      receive: () =>
        new Promise((resolve) => {
          const message = received.shift();
          if (message !== undefined) resolve(message);
          else waiting.push(resolve);
        }),
      send: (message) => void call.write(message as Response),
      fail: (code, details) => void call.emit('error', { code, details }),
      canceled: new Promise((resolve) => call.on('cancelled', () => resolve())),
    };
    void play(stream);
  };
  return { definition: { call: definitionOf(method, true) }, handlers: { call: handler } };
}

export interface ScriptedAnswers<Request, Response> extends Omit<ScriptedStream<Request, Response>, 'receive'> {
  readonly request: Request;
  /** Ends the stream with status OK. */
  end(): void;
}

/** Scripts a server-streaming method. The server runs `play` for each call to the method. */
export function scriptedAnswers<Request, Response>(
  method: Method<Request, Response, 'server-streaming'>,
  play: (stream: ScriptedAnswers<Request, Response>) => Promise<void>,
): { definition: Handlers; handlers: Handlers } {
  const handler = (call: ServerWritableStream<Request, Response>): void => {
    call.on('error', () => {});
    void play({
      request: call.request,
      metadata: call.metadata.getMap(),
      send: (message) => void call.write(message as Response),
      end: () => void call.end(),
      fail: (code, details) => void call.emit('error', { code, details }),
      canceled: new Promise((resolve) => call.on('cancelled', () => resolve())),
    });
  };
  const definition = { ...definitionOf(method, true), requestStream: false };
  return { definition: { call: definition }, handlers: { call: handler } };
}

/**
 * Scripts a unary method. The server responds to each request with the message that `answer` returns. If `answer`
 * throws `{ code, details }`, the server responds with that status.
 */
export function scriptedUnary<Request, Response>(
  method: Method<Request, Response>,
  answer: (request: Request, metadata: Readonly<Record<string, unknown>>) => Init<Response>,
): { definition: Handlers; handlers: Handlers } {
  const handler = (call: ServerUnaryCall<Request, Response>, reply: sendUnaryData<Response>): void => {
    try {
      reply(null, answer(call.request, call.metadata.getMap()) as Response);
    } catch (status) {
      reply(status as Error);
    }
  };
  return { definition: { call: definitionOf(method, false) }, handlers: { call: handler } };
}

function definitionOf<Request, Response>(method: Method<Request, Response>, streaming: boolean): object {
  return {
    path: method.path,
    requestStream: streaming,
    responseStream: streaming,
    requestSerialize: (message: Init<Request>) => Buffer.from(encode(method.request, message)),
    requestDeserialize: (bytes: Buffer) => decode(method.request, bytes),
    responseSerialize: (message: Init<Response>) => Buffer.from(encode(method.response, message)),
    responseDeserialize: (bytes: Buffer) => decode(method.response, bytes),
  };
}
