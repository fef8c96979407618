import { expect } from 'vitest';
import type { ByteStreamEvents } from '../../src/host/host.js';
import type { Http2ServerOptions } from '../../src/testing/http2-server/server.js';
import { errorName, FLAG, type Frame, FrameCutter, PREFACE, type Settings, settings } from './http2-frames.js';
import { block, type Field } from './http2-hpack.js';
import { type Served, served } from './http2-server.js';
import { ServerRules } from './http2-server-rules.js';

// A scripted HTTP/2 client without a socket. A test decides every byte that the client sends. The server receives the
// bytes at once, and the client receives the bytes that the server writes.

export const METHOD_PATH = '/etcdserverpb.KV/Range';

/** Returns the fields of a gRPC request. The extra fields replace fields of the same name. */
export function requestFields(extra: readonly Field[] = [], path = METHOD_PATH): readonly Field[] {
  const fields: readonly Field[] = [
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', path],
    [':authority', 'server.test'],
    ['te', 'trailers'],
    ['content-type', 'application/grpc'],
  ];
  const replaced = new Set(extra.map(([name]) => name));
  // Pseudo-header fields come first: RFC 9113, section 8.3.
  return [...fields.filter(([name]) => !replaced.has(name)), ...extra].toSorted(
    ([a], [b]) => Number(b.startsWith(':')) - Number(a.startsWith(':')),
  );
}

export function requestBlock(extra: readonly Field[] = [], path = METHOD_PATH): Buffer {
  return block(requestFields(extra, path));
}

export interface RawClientOptions extends Http2ServerOptions {
  /** The first SETTINGS of the client. If false, the client sends nothing but what the test sends. */
  readonly greeting?: Settings | false;
}

/** A client that is connected to its own server. */
export class RawClient {
  readonly served: Served;
  /** All frames that the server has sent. */
  readonly frames: Frame[] = [];
  readonly rules = new ServerRules();
  /** The number of bytes that the server has written. */
  received = 0;
  /** The value that `write` returns to the server. False reports congestion. */
  roomy = true;
  /** Whether the server has closed the connection. */
  closed = false;
  readonly #events: ByteStreamEvents;
  readonly #fromServer = new FrameCutter();

  constructor({ greeting = {}, ...options }: RawClientOptions = {}) {
    this.served = served(options);
    let events: ByteStreamEvents | undefined;
    this.served.server.accept('http://server.test', (serverEvents) => {
      events = serverEvents;
      return {
        write: (parts) => this.#receive(parts),
        keepProcessAlive: () => {},
        close: () => {
          this.closed = true;
        },
      };
    });
    this.#events = events as unknown as ByteStreamEvents;
    if (greeting !== false) this.send(Buffer.from(PREFACE), settings(greeting));
  }

  /** Sends all parts to the server as one chunk, which is overwritten afterwards like the buffer of a runtime. */
  send(...parts: readonly Uint8Array[]): void {
    const bytes = new Uint8Array(Buffer.concat(parts));
    this.rules.sentByClient(bytes);
    this.#events.read(bytes);
    bytes.fill(0xee);
  }

  /** Sends the bytes one by one. */
  sendSlowly(bytes: Uint8Array): void {
    for (const byte of bytes) this.send(Uint8Array.of(byte));
  }

  drain(): void {
    this.roomy = true;
    this.#events.drained();
  }

  /** Closes the connection from the client's side. */
  lose(): void {
    this.#events.closed();
  }

  sent(name: Frame['name'], streamId?: number): readonly Frame[] {
    return this.frames.filter((frame) => frame.name === name && (streamId ?? frame.streamId) === frame.streamId);
  }

  /** The content of the server's latest GOAWAY, or undefined if the server has sent no GOAWAY. */
  get goAway(): { readonly lastStreamId: number; readonly code: string; readonly debug: string } | undefined {
    const payload = this.sent('GOAWAY').at(-1)?.payload;
    return (
      payload && {
        lastStreamId: payload.readUInt32BE(0),
        code: errorName(payload.readUInt32BE(4)),
        debug: payload.toString('utf8', 8),
      }
    );
  }

  /** The error code of the server's RST_STREAM on a stream. */
  resetCode(streamId: number): string | undefined {
    const payload = this.sent('RST_STREAM', streamId)[0]?.payload;
    return payload && errorName(payload.readUInt32BE(0));
  }

  /** The header and trailer fields that the server has sent on a stream. */
  fields(streamId: number): Readonly<Record<string, string>> {
    return this.rules.fields(streamId);
  }

  /** The data that the server has sent on a stream. */
  data(streamId: number): Buffer {
    return Buffer.concat(this.sent('DATA', streamId).map(({ payload }) => payload));
  }

  /** The sum of the server's WINDOW_UPDATE increments on a stream, or on the connection if `streamId` is 0. */
  allowed(streamId: number): number {
    return this.sent('WINDOW_UPDATE', streamId).reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 0);
  }

  /** The number of SETTINGS frames that the server has acknowledged. */
  get acknowledged(): number {
    return this.sent('SETTINGS').filter(({ flags }) => flags === FLAG.ACK).length;
  }

  expectNoBreach(): void {
    expect(this.rules.breaches).toEqual([]);
  }

  #receive(parts: readonly Uint8Array[]): boolean {
    if (this.closed) this.rules.breaches.push('the server wrote bytes after it had closed the connection');
    for (const part of parts) {
      this.received += part.length;
      for (const frame of this.#fromServer.push(part)) {
        this.frames.push(frame);
        this.rules.check(frame);
      }
    }
    return this.roomy;
  }
}
