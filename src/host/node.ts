import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { channel } from 'node:diagnostics_channel';
import { isIP, type NetConnectOpts, type Socket, connect as tcpConnect } from 'node:net';
import { type ConnectionOptions, checkServerIdentity, type TLSSocket, connect as tlsConnect } from 'node:tls';
import { after } from '../runtime/timers.js';
import type { Endpoint } from './endpoint.js';
import {
  type AsyncContext,
  type ByteStream,
  type ByteStreamEvents,
  failedByteStream,
  type OpenByteStream,
} from './host.js';
import type { IncrementalHash } from './sha256.js';
import { opensslReason, serverNameOf, type TlsOptions } from './tls.js';

/** Size in bytes of the buffer into which a connection reads the bytes that it receives. */
const READ_BUFFER_BYTES = 65_536;
/**
 * The length of a long backlog of unsent bytes, not counting the kernel's buffer. Once the backlog has reached this
 * length, the client stops writing until the event `drained`.
 */
const LONG_BACKLOG_BYTES = 262_144;
/** Time limit in milliseconds for sending the last bytes of a connection that the client closes. */
const FLUSH_TIMEOUT_MS = 1_000;

export { channel as diagnosticsChannel };

export function asyncContext<T>(): AsyncContext<T> {
  return new AsyncLocalStorage<T>();
}

export function createSha256(): IncrementalHash {
  return createHash('sha256');
}

/** Opens a byte stream with `node:net` or `node:tls`. */
export const openByteStream: OpenByteStream = (endpoint, tls, events) => {
  const { address } = endpoint;
  const options = {
    ...('path' in address ? { path: address.path } : { host: address.host, port: address.port, noDelay: true }),
    // All reads of a connection share one buffer, which saves an allocation for each read.
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
    // Node.js throws at once if the TLS key does not belong to the certificate, or if the socket path is not valid.
    return failedByteStream(describe(error as Error), events);
  }
};

/**
 * Returns the byte stream over a socket. The caller calls `events.opened`, and `events.read` with the received bytes.
 */
export function overSocket(socket: Socket, events: ByteStreamEvents): ByteStream {
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
      return socket.writableLength < LONG_BACKLOG_BYTES;
    },
    hold: (busy) => void (busy ? socket.ref() : socket.unref()),
    close: () => {
      // A destroyed socket has emitted "close" already, or will emit it soon.
      if (socket.destroyed) return;
      if (socket.writableLength >= LONG_BACKLOG_BYTES || socket.connecting) return void socket.destroy();
      socket.destroySoon();
      // Without this time limit, a peer that does not read could keep the socket from ever closing.
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
    else socket.destroy(new Error('the peer does not support HTTP/2: it did not select h2 by ALPN'));
  });
  return socket;
}

function tlsOptions(endpoint: Endpoint, tls: TlsOptions | undefined): ConnectionOptions {
  const name = serverNameOf(endpoint, tls);
  return {
    ALPNProtocols: ['h2'],
    // This option is set explicitly, so that NODE_TLS_REJECT_UNAUTHORIZED=0 cannot turn off the certificate check.
    rejectUnauthorized: true,
    // RFC 6066, section 3, does not allow IP addresses in SNI.
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

/**
 * Describes an error. If a host name has several addresses, Node.js reports one error for each address; the description
 * joins their messages.
 */
function describe(error: Error): string {
  if (error instanceof AggregateError && error.errors.length > 0) {
    return [...new Set(error.errors.map((each: Error) => each.message))].join('; ');
  }
  return opensslReason(error.message);
}
