import { ConnectionError, ErrorCode } from '../../wire/index.js';
import type { ServerStream } from './stream.js';

/** The open streams of a connection, by identifier. */
export class ServerStreams {
  readonly #open = new Map<number, ServerStream>();
  readonly #create: (id: number) => ServerStream | undefined;
  /** The largest identifier of a stream that the client has opened. */
  #lastId = 0;
  /**
   * The largest identifier of a stream that the server has accepted. GOAWAY carries this identifier, except the first
   * GOAWAY of a graceful shutdown.
   */
  lastProcessedId = 0;

  /** `create` returns the stream that the client opens with HEADERS, or undefined if the server ignores the stream. */
  constructor(create: (id: number) => ServerStream | undefined) {
    this.#create = create;
  }

  get size(): number {
    return this.#open.size;
  }

  all(): readonly ServerStream[] {
    return [...this.#open.values()];
  }

  delete(stream: ServerStream): void {
    this.#open.delete(stream.id);
  }

  /**
   * Finds the open stream to which a received frame belongs. HEADERS open a stream. Returns undefined for a closed
   * stream, because the client may have sent the frame before it learned that the stream was closed.
   *
   * @throws ConnectionError if the stream is idle, or if HEADERS have an identifier that the client must not use (RFC
   *   9113, section 5.1.1).
   */
  find(id: number, frame: string): ServerStream | undefined {
    const known = this.#open.get(id);
    if (known !== undefined) return known;
    if (id > this.#lastId && id % 2 === 1 && frame === 'HEADERS') {
      this.#lastId = id;
      const stream = this.#create(id);
      if (stream === undefined) return undefined;
      this.lastProcessedId = id;
      this.#open.set(id, stream);
      return stream;
    }
    if (id <= this.#lastId && id % 2 === 1 && frame !== 'HEADERS') return undefined;
    throw new ConnectionError(ErrorCode.PROTOCOL_ERROR, `${frame} on stream ${id}, which the client must not use`);
  }
}
