import type { Client, ClientDuplexStream, Metadata as GrpcMetadata, ServiceError } from '@grpc/grpc-js';
import type { EtcdError } from '../../errors/etcd-error.js';
import type { Init } from '../../protobuf/codec.js';
import type { Method } from '../../protobuf/schema.js';
import { decodeResponse, encodeRequest, responseTooLarge } from '../messages.js';
import type { OutgoingStream, StreamCall, StreamHandler } from '../transport.js';
import { asBuffer } from './connection.js';

/** What a stream needs of its transport. */
interface Owner<Response> extends StreamHandler<Response> {
  readonly endpoint: string;
  /** The caller has cancelled the stream. */
  canceled(): void;
  statusError(error: ServiceError): EtcdError;
}

/** One grpc-js stream. Messages wait here until the connection is open. */
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

  /** Whether the stream was cancelled, or has ended. */
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
    // The listener is never removed, because grpc-js may report several errors, even after a cancel.
    call.on('error', (error: ServiceError) => {
      status ??= this.#owner.statusError(error);
    });
    // The status may arrive before the last message is read. "end" comes after both.
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
    // Messages that nobody reads would keep the stream open.
    this.#call?.resume();
  }

  #receive(bytes: Uint8Array): void {
    if (this.#over) return;
    const { endpoint } = this.#owner;
    if (bytes.length > this.#maxReceiveBytes)
      return this.fail(responseTooLarge(bytes.length, this.#maxReceiveBytes, { method: this.#method.path, endpoint }));
    let message: Response;
    try {
      message = decodeResponse(this.#method, endpoint, bytes);
    } catch (malformed) {
      return this.fail(malformed as EtcdError);
    }
    this.#owner.message(message);
  }
}
