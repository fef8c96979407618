import type { Socket } from 'node:net';
import { type Frame, FrameCutter, PREFACE } from './http2-frames.js';

/** Sends and receives HTTP/2 frames over a real socket, as a client or as a server. */
export class Http2Socket {
  readonly #socket: Socket;
  readonly #cutter = new FrameCutter();
  readonly #arrived: Frame[] = [];
  #wake: () => void = () => {};
  #over = false;

  /**
   * @param peer The role of the other side. If the other side is a client, the preface that it sends before its first
   * frame is skipped.
   */
  constructor(socket: Socket, peer: 'client' | 'server') {
    this.#socket = socket;
    let preface = peer === 'client' ? PREFACE.length : 0;
    socket.setNoDelay(true);
    socket.on('data', (bytes) => {
      const skipped = Math.min(preface, bytes.length);
      preface -= skipped;
      this.#arrived.push(...this.#cutter.push(bytes.subarray(skipped)));
      this.#wake();
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#over = true;
      this.#wake();
    });
  }

  send(...parts: readonly Uint8Array[]): void {
    this.#socket.write(Buffer.concat(parts));
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /**
   * Resolves with the next frame that `isWanted` accepts, and drops the frames before it. Rejects if GOAWAY arrives
   * first, or if the socket is closed.
   */
  async next(isWanted: (frame: Frame) => boolean): Promise<Frame> {
    for (;;) {
      const frame = this.#arrived.shift();
      if (frame !== undefined) {
        if (frame.name === 'GOAWAY')
          throw new Error(`GOAWAY, ${frame.payload.readUInt32BE(4)}: ${frame.payload.subarray(8)}`);
        if (isWanted(frame)) return frame;
        continue;
      }
      if (this.#over) throw new Error('the socket was closed');
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
