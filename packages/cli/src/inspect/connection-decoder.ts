import { CONNECTION_PREFACE, latin1Of } from '../../../../src/internal.js';
import { type DecodedFrame, FrameDecoder, type StreamMethods, type WireFrame } from './frames.js';
import { Http1Decoder, Http1Requests } from './http1.js';

/** Whether a connection whose client first sends these bytes uses HTTP/2. */
export function beginsHttp2(bytes: Uint8Array): boolean {
  return CONNECTION_PREFACE.startsWith(latin1Of(bytes.subarray(0, CONNECTION_PREFACE.length)));
}

/** Whether a connection whose client first sends these bytes uses TLS: RFC 8446, sections 4 and 5.1. */
export function beginsTls(bytes: Uint8Array): boolean {
  const [HANDSHAKE, MAJOR_VERSION] = [0x16, 0x03];
  return bytes[0] === HANDSHAKE && bytes[1] === MAJOR_VERSION;
}

/** Decodes the bytes of both directions of a connection, in HTTP/2 or HTTP/1.1. */
export class ConnectionDecoder {
  readonly #onFrame: (direction: WireFrame['direction'], frame: DecodedFrame) => void;
  #decoders: Readonly<Record<WireFrame['direction'], FrameDecoder | Http1Decoder>> | undefined;

  constructor(onFrame: (direction: WireFrame['direction'], frame: DecodedFrame) => void) {
    this.#onFrame = onFrame;
  }

  /** Decodes the next bytes of a direction. An empty piece ends the direction: see `CapturedBytes`. */
  push(direction: WireFrame['direction'], bytes: Uint8Array): void {
    if (bytes.length === 0) {
      const decoder = this.#decoders?.[direction];
      if (decoder instanceof Http1Decoder) decoder.end();
      return;
    }
    this.#decoders ??= this.#decodersFor(bytes);
    this.#decoders[direction].push(bytes);
  }

  /** The client sends first. `bytes` are the first ones of the connection. */
  #decodersFor(bytes: Uint8Array): Readonly<Record<WireFrame['direction'], FrameDecoder | Http1Decoder>> {
    const onSent = (frame: DecodedFrame): void => this.#onFrame('sent', frame);
    const onReceived = (frame: DecodedFrame): void => this.#onFrame('received', frame);
    if (beginsHttp2(bytes)) {
      const streams: StreamMethods = new Map();
      return {
        sent: new FrameDecoder('client', streams, onSent),
        received: new FrameDecoder('server', streams, onReceived),
      };
    }
    const requests = new Http1Requests();
    return {
      sent: new Http1Decoder('client', requests, { frame: onSent }),
      received: new Http1Decoder('server', requests, { frame: onReceived }),
    };
  }
}
