import { open } from './01-preface.js';
import * as h2 from './02-frames.js';
import { encodeHeaders } from './03-headers.js';

const uint32 = (value: number): Buffer => Buffer.from(value.toString(16).padStart(8, '0'), 'hex');

/** Receives the frames of one stream, or an error when the connection ends. */
type OnFrame = (frame: h2.Frame | Error) => void;

/** One connection, which carries any number of calls at once. Each call has a stream of its own. */
export class Connection {
  readonly #streams = new Map<number, OnFrame>();
  readonly #socket;
  #nextStream = 1;

  constructor(address: string) {
    this.#socket = open(address);
    const end = (error = new Error('the connection was closed')): void => {
      for (const onFrame of this.#streams.values()) onFrame(error);
    };
    this.#receive().then(end, end);
  }

  /** Starts a call of the method at `path`. Returns a function that sends one message of the request. */
  start(path: string, onFrame: OnFrame): (message: Buffer, isLast: boolean) => void {
    const stream = this.#nextStream;
    this.#nextStream += 2; // The streams of a client have odd IDs.
    this.#streams.set(stream, onFrame);
    const fields = { ':method': 'POST', ':scheme': 'http', ':path': path, ':authority': 'etcd', te: 'trailers' };
    const block = encodeHeaders({ ...fields, 'content-type': 'application/grpc' });
    this.#socket.write(h2.encodeFrame(h2.HEADERS, h2.END_HEADERS, stream, block));
    if (this.#socket.destroyed) onFrame(new Error('the connection is closed'));
    return (message, isLast) => {
      const prefixed = Buffer.concat([Buffer.of(0), uint32(message.length), message]); // 0: not compressed
      this.#socket.write(h2.encodeFrame(h2.DATA, isLast ? h2.END_STREAM : 0, stream, prefixed));
    };
  }

  close(): void {
    this.#socket.destroy();
  }

  async #receive(): Promise<undefined> {
    for await (const frame of h2.readFrames(this.#socket)) {
      const { type, flags, stream, payload } = frame;
      const answer = (kind: number, flag: number, id: number, bytes?: Buffer) =>
        this.#socket.write(h2.encodeFrame(kind, flag, id, bytes));
      if (type === h2.SETTINGS && flags !== h2.ACK) answer(h2.SETTINGS, h2.ACK, 0);
      else if (type === h2.PING && flags !== h2.ACK) answer(h2.PING, h2.ACK, 0, payload);
      else if (type === h2.DATA && payload.length > 0)
        for (const id of [0, stream]) answer(h2.WINDOW_UPDATE, 0, id, uint32(payload.length));
      this.#streams.get(stream)?.(frame);
    }
  }
}
