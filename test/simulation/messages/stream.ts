import type { EtcdError } from '../../../src/base/etcd-error.js';
import { errorFromStatus } from '../../../src/base/status-error.js';
import { CancelableCall, type RequestSink, StatusError } from '../../../src/testing/memory/service.js';
import { decodeResponse, encodeRequest } from '../../../src/wire/messages.js';
import { decode } from '../../../src/wire/protobuf/reader.js';
import type { Method } from '../../../src/wire/protobuf/schema.js';
import { encode, type Init } from '../../../src/wire/protobuf/writer.js';
import type { Metadata, OutgoingStream, StreamCall, StreamHandler } from '../../../src/wire/transport.js';
import { type ClientCall, type Connection, failureOf } from './connection.js';
import type { SimulatedTransport } from './transport.js';

export class SimulatedStream<Request, Response> implements ClientCall {
  metadata: Metadata = {};
  readonly #transport: SimulatedTransport;
  readonly #method: Method<Request, Response>;
  readonly #handler: StreamHandler<Response>;
  /** Requests that have not arrived yet. The last item is undefined if the client has half-closed the stream. */
  readonly #requests: (Uint8Array | undefined)[] = [];
  /** Responses that have not arrived yet. */
  readonly #responses: ({ readonly bytes: Uint8Array } | { readonly end: StatusError | undefined })[] = [];
  /** The number of responses that have arrived, and wait until the client resumes the stream. */
  #arrived = 0;
  #connection: Connection | undefined;
  #sink: RequestSink<Request> | undefined;
  #isServerOver = false;
  #isPaused = false;
  #isOver = false;
  #isHalfClosed = false;

  constructor(
    transport: SimulatedTransport,
    { method }: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ) {
    this.#transport = transport;
    this.#method = method;
    this.#handler = handler;
  }

  get outgoing(): OutgoingStream<Request> {
    const { network, process } = this.#transport;
    return {
      send: (message) => this.#send(encodeRequest(this.#method, message, this.#transport.options.maxRequestBytes)),
      end: () => this.#send(undefined),
      cancel: (why) => this.#cancel(why),
      pause: () => {
        this.#isPaused = true;
      },
      resume: () => {
        if (!this.#isPaused) return;
        this.#isPaused = false;
        network.world.soon(process, 'reads on', () => this.#deliver());
      },
    };
  }

  send(connection: Connection): void {
    if (this.#isOver || this.#connection !== undefined) return;
    this.#connection = connection;
    const { network, process, member } = this.#transport;
    const { world } = network;
    const open = (): void => {
      if (member.isDown) return;
      const served = new CancelableCall(this.metadata, member.url);
      const cancel = (): void => {
        connection.served.delete(cancel);
        if (this.#isServerOver) return;
        this.#isServerOver = true;
        served.cancel();
        this.#sink?.canceled();
      };
      connection.served.add(cancel);
      const respond = (response: { readonly bytes: Uint8Array } | { readonly end: StatusError | undefined }): void => {
        if (this.#isServerOver) return;
        if ('end' in response) {
          this.#isServerOver = true;
          connection.served.delete(cancel);
        }
        this.#responses.push(response);
        const detail = 'end' in response ? (response.end?.message ?? 'end') : `message of ${this.#method.path}`;
        connection.carry('to-client', 'receives', detail, () => {
          this.#arrived += 1;
          this.#deliver();
        });
      };
      try {
        this.#sink = network.cluster.stream(
          member,
          this.#method,
          {
            send: (message) => respond({ bytes: encode(this.#method.response, message as Init<Response>) }),
            end: (end) => respond({ end }),
          },
          served,
        );
      } catch (error) {
        if (!(error instanceof StatusError)) world.unhandled.push(error);
        respond({ end: error instanceof StatusError ? error : new StatusError('Internal', String(error)) });
      }
    };
    connection.carry('to-server', 'receives', `stream ${this.#method.path} of ${process.name}`, () => {
      if (this.#isServerOver) return;
      open();
      this.#isOpenAtServer = true;
      for (; this.#early > 0; this.#early -= 1) this.#receive();
    });
    for (const _ of this.#requests) this.#carryRequest(connection);
  }

  fail(error: EtcdError): void {
    if (this.#isOver) return;
    this.#finish();
    this.#handler.end(failureOf(error, this.#method.path, this.#connection !== undefined));
  }

  leaving(): void {
    if (!this.#isOver) this.#handler.leaving?.();
  }

  #isOpenAtServer = false;
  /** The number of requests that have arrived before the stream is open at the server. */
  #early = 0;

  #send(request: Uint8Array | undefined): void {
    if (this.#isOver || this.#isHalfClosed) return;
    this.#isHalfClosed = request === undefined;
    this.#requests.push(request);
    if (this.#connection !== undefined) this.#carryRequest(this.#connection);
  }

  #carryRequest(connection: Connection): void {
    connection.carry(
      'to-server',
      'receives',
      `message of ${this.#method.path} of ${this.#transport.process.name}`,
      () => {
        if (this.#isOpenAtServer) this.#receive();
        else this.#early += 1;
      },
    );
  }

  /** The server receives the next request. */
  #receive(): void {
    const request = this.#requests.shift();
    if (this.#isServerOver || this.#sink === undefined) return;
    if (request === undefined) this.#sink.halfClosed();
    else this.#sink.message(decode(this.#method.request, request));
  }

  /** The client receives the responses that have arrived. */
  #deliver(): void {
    const connection = this.#connection as Connection;
    while (this.#arrived > 0 && !this.#isPaused && !this.#isOver && !connection.isLost) {
      this.#arrived -= 1;
      const response = this.#responses.shift();
      if (response === undefined) return;
      if ('bytes' in response) {
        this.#handler.message(decodeResponse(this.#method, this.#transport.endpoint.url, response.bytes));
        continue;
      }
      const { end } = response;
      const context = { method: this.#method.path, endpoint: this.#transport.endpoint.url };
      this.#finish();
      this.#handler.end(end === undefined ? undefined : errorFromStatus(end.code, end.message, context));
    }
  }

  #cancel(why: 'unresponsive' | 'unauthenticated' | undefined): void {
    if (this.#isOver) return;
    this.#finish();
    const connection = this.#connection;
    if (connection === undefined) return;
    if (why === 'unresponsive') connection.watchSilence();
    connection.carry('to-server', 'receives', `cancellation of ${this.#method.path}`, () => {
      if (this.#isServerOver) return;
      this.#isServerOver = true;
      this.#sink?.canceled();
    });
  }

  #finish(): void {
    this.#isOver = true;
    this.#transport.ended(this, this.#connection);
  }
}
