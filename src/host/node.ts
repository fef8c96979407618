import { createHash } from 'node:crypto';
import { channel } from 'node:diagnostics_channel';
import { isIP, type NetConnectOpts, type Socket, connect as tcpConnect } from 'node:net';
import { type ConnectionOptions, checkServerIdentity, type TLSSocket, connect as tlsConnect } from 'node:tls';
import { after } from '../runtime/timers.js';
import type { Endpoint } from './endpoint.js';
import type { ByteStreamEvents, OpenByteStream } from './host.js';
import type { IncrementalHash } from './sha256.js';
import { opensslWords, serverNameOf, type TlsOptions } from './tls.js';

const READ_BUFFER_BYTES = 65_536;
/** More than this waiting to be sent is long; the kernel has taken as much before. */
const LONG_BYTES = 262_144;
/** For the last words of a connection to be sent. */
const FLUSH_TIMEOUT_MS = 1_000;

export { channel as diagnosticsChannel };

export function createSha256(): IncrementalHash {
  return createHash('sha256');
}

/** Byte streams on Node's `net` and `tls`. */
export const openByteStream: OpenByteStream = (endpoint, tls, events) => {
  const { address } = endpoint;
  const options = {
    ...('path' in address ? { path: address.path } : { host: address.host, port: address.port, noDelay: true }),
    // One buffer for all reads in place of a new one for each.
    onread: {
      buffer: new Uint8Array(READ_BUFFER_BYTES),
      callback: (length: number, buffer: Uint8Array): boolean => {
        events.read(length === buffer.length ? buffer : new Uint8Array(buffer.buffer, buffer.byteOffset, length));
        return true;
      },
    },
  };
  try {
    const socket = endpoint.tls
      ? connectTls({ ...options, ...tlsOptions(endpoint, tls) }, events)
      : tcpConnect(options as NetConnectOpts).once('connect', () => events.opened());
    return overSocket(socket, events);
  } catch (error) {
    // A key of another certificate, or a path that is none: Node throws at once.
    queueMicrotask(() => events.closed(describe(error as Error)));
    return { write: () => true, hold: () => {}, close: () => {} };
  }
};

function overSocket(socket: Socket, events: ByteStreamEvents): ReturnType<OpenByteStream> {
  let problem: string | undefined;
  socket
    .on('error', (error) => {
      problem ??= describe(error);
    })
    .on('drain', () => events.drained())
    .on('close', () => events.closed(problem));
  return {
    write(parts) {
      if (socket.destroyed) return true;
      if (parts.length === 1) socket.write(parts[0] as Uint8Array);
      else {
        socket.cork();
        for (const part of parts) socket.write(part);
        socket.uncork();
      }
      return socket.writableLength < LONG_BYTES;
    },
    hold: (busy) => void (busy ? socket.ref() : socket.unref()),
    close: () => {
      // Its end has been told: nothing more would be heard of it.
      if (socket.destroyed) return;
      if (socket.writableLength >= LONG_BYTES || socket.connecting) return void socket.destroy();
      socket.destroySoon();
      // What a peer that does not read keeps waiting would be waited for without end.
      socket.once(
        'close',
        after(FLUSH_TIMEOUT_MS, () => socket.destroy()),
      );
    },
  };
}

function connectTls(options: ConnectionOptions, events: ByteStreamEvents): TLSSocket {
  const socket = tlsConnect(options, () => {
    if (socket.alpnProtocol === 'h2') events.opened();
    else socket.destroy(new Error('the peer does not speak HTTP/2: it did not choose h2 by ALPN'));
  });
  return socket;
}

function tlsOptions(endpoint: Endpoint, tls: TlsOptions | undefined): ConnectionOptions {
  const name = serverNameOf(endpoint, tls);
  return {
    ALPNProtocols: ['h2'],
    // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
    rejectUnauthorized: true,
    // RFC 6066 allows no addresses in SNI.
    servername: isIP(name) === 0 ? name : '',
    checkServerIdentity: (_, certificate) => checkServerIdentity(name, certificate),
    ...(tls?.ca === undefined ? {} : { ca: pem(tls.ca) }),
    ...(tls?.cert === undefined ? {} : { cert: pem(tls.cert) }),
    ...(tls?.key === undefined ? {} : { key: pem(tls.key) }),
  };
}

function pem(text: string | Uint8Array): string | Buffer {
  return typeof text === 'string' ? text : Buffer.from(text);
}

/** An attempt at several addresses of one name fails with all their errors, and no words of its own. */
function describe(error: Error): string {
  if (error instanceof AggregateError && error.errors.length > 0) {
    return [...new Set(error.errors.map((each: Error) => each.message))].join('; ');
  }
  return opensslWords(error.message);
}
