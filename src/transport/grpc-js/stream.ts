import type { Client, ClientDuplexStream, Metadata as GrpcMetadata, ServiceError } from '@grpc/grpc-js';
import type { EtcdError } from '../../errors/etcd-error.js';
import type { Init } from '../../protobuf/codec.js';
import type { Method } from '../../protobuf/schema.js';
import { decodeAnswer, encodeRequest, responseTooLarge } from '../messages.js';
import type { OutgoingStream, StreamCall, StreamHandler } from '../transport.js';
import { asBuffer } from './as-buffer.js';

interface Owner<Response> extends StreamHandler<Response> {
  readonly endpoint: string;
  /** The stream was cancelled from this side. */
  canceled(): void;
  statusError(error: ServiceError): EtcdError;
}

/** One stream of grpc-js. What is sent before the connection stands waits here. */
export class GrpcJsStream<Request, Response> implements OutgoingStream<Request> {
  readonly #method: Method<Request, Response>;
  readonly #maxRequestBytes: number;
  readonly #maxReceiveBytes: number;
  readonly #owner: Owner<Response>;
  #call: ClientDuplexStream<Uint8Array, Uint8Array> | undefined;
  #unsent: Uint8Array[] = [];
  #halfClosed = false;
  #paused = false;
  #over = false;

  constructor(call: StreamCall<Request, Response>, maxRequestBytes: number, owner: Owner<Response>) {
    this.#method = call.method;
    this.#maxReceiveBytes = call.maxReceiveBytes ?? Number.POSITIVE_INFINITY;
    this.#maxRequestBytes = maxRequestBytes;
    this.#owner = owner;
  }

  /** Cancelled, or ended by the server. */
  get over(): boolean {
    return this.#over;
  }

  start(client: Client, metadata: GrpcMetadata): void {
    if (this.#over) return;
    const call = client.makeBidiStreamRequest<Uint8Array, Uint8Array>(
      this.#method.path,
      asBuffer,
      (bytes) => bytes,
      metadata,
    );
    this.#call = call;
    let status: EtcdError | undefined;
    call.on('data', (bytes: Uint8Array) => this.#receive(bytes));
    // Stays for life: grpc-js may report more than once, also after a cancel.
    call.on('error', (error: ServiceError) => {
      status ??= this.#owner.statusError(error);
    });
    // The status is known before the last message is read; "end" comes after both.
    call.on('end', () => this.fail(status));
    call.on('close', () => this.fail(status));
    if (this.#paused) call.pause();
    for (const bytes of this.#unsent.splice(0)) call.write(bytes);
    if (this.#halfClosed) call.end();
  }

  send(message: Init<Request>): void {
    if (this.#over || this.#halfClosed) return;
    const bytes = encodeRequest(this.#method, message, this.#maxRequestBytes);
    if (this.#call === undefined) this.#unsent.push(bytes);
    else this.#call.write(bytes);
  }

  end(): void {
    this.#halfClosed = true;
    this.#call?.end();
  }

  cancel(): void {
    if (this.#over) return;
    this.#stop();
    this.#owner.canceled();
  }

  pause(): void {
    this.#paused = true;
    this.#call?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#call?.resume();
  }

  fail(error: EtcdError | undefined): void {
    if (this.#over) return;
    this.#stop();
    this.#owner.end(error);
  }

  #stop(): void {
    this.#over = true;
    this.#unsent = [];
    this.#call?.cancel();
    // What has arrived and was not read must not hold the stream open.
    this.#call?.resume();
  }

  #receive(bytes: Uint8Array): void {
    if (this.#over) return;
    const { endpoint } = this.#owner;
    if (bytes.length > this.#maxReceiveBytes)
      return this.fail(responseTooLarge(bytes.length, this.#maxReceiveBytes, { method: this.#method.path, endpoint }));
    let message: Response;
    try {
      message = decodeAnswer(this.#method, endpoint, bytes);
    } catch (malformed) {
      return this.fail(malformed as EtcdError);
    }
    this.#owner.message(message);
  }
}
