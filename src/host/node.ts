import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { channel } from 'node:diagnostics_channel';
import { isIP, type NetConnectOpts, type Socket, connect as tcpConnect } from 'node:net';
import { platform, uptime } from 'node:os';
import { Duplex } from 'node:stream';
import {
  type ConnectionOptions,
  checkServerIdentity,
  type PeerCertificate,
  type TLSSocket,
  connect as tlsConnect,
} from 'node:tls';
import { after, environment, ProcessKeeper, readError, withoutFrames } from '../base/index.js';
import type { Endpoint } from './endpoint.js';
import {
  type AsyncContext,
  type ByteStream,
  type ByteStreamEvents,
  bytesOfChunk,
  failedByteStream,
  isWebStreams,
  type OpenByteStream,
  type OverCallerStream,
  type WebStreams,
} from './host.js';
import type { IncrementalHash } from './sha256.js';
import { opensslReason, serverNameOf, type TlsOptions } from './tls.js';

/**
 * Size in bytes of the buffer into which a connection reads. After a read that fills the buffer, the next one is four
 * times as large, up to `MAX_READ_BUFFER_BYTES`. After every other read, it is the first one again.
 */
const READ_BUFFER_BYTES = 4_096;
const MAX_READ_BUFFER_BYTES = 65_536;
/** Backlog of unsent bytes at which the client waits for the event `drained`. Excludes the kernel's buffer. */
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

/** How often the boot clock of Linux advances, in milliseconds. */
const BOOT_CLOCK_STEP_MS = 10;

/** The last reading of the boot clock, and the time on the wall clock when it was read. Both are in milliseconds. */
const bootReading = { wall: Number.NaN, boot: 0 };

/**
 * Returns the milliseconds since the machine started, including the time for which it was suspended. A reading takes
 * more than ten microseconds, so the clock is read at most once in each of its steps. The wall clock measures the step,
 * because it continues to run while the machine is suspended. Returns undefined in Deno, which may ask the user for a
 * permission, and on every system except Linux, because other systems may derive `uptime` from the wall clock.
 */
export function bootMs(): number | undefined {
  if (platform() !== 'linux' || 'Deno' in globalThis) return undefined;
  const wall = environment.Date.now();
  const sinceMs = wall - bootReading.wall;
  if (!(sinceMs >= 0 && sinceMs < BOOT_CLOCK_STEP_MS)) Object.assign(bootReading, { wall, boot: uptime() * 1_000 });
  return bootReading.boot;
}

/** Opens a byte stream with `node:net` or `node:tls`. */
export const openByteStream: OpenByteStream = (endpoint, tls, events) => {
  const { address } = endpoint;
  const small = new Uint8Array(READ_BUFFER_BYTES);
  let next = small;
  const options = {
    ...('path' in address ? { path: address.path } : { host: address.host, port: address.port, noDelay: true }),
    // Reads share a buffer, which saves an allocation for each read. An idle connection holds only the small one, because
    // Node.js asks for a buffer after each read.
    onread: {
      buffer: () => next,
      callback: (length: number, bytes: Uint8Array): boolean => {
        if (length < bytes.length) next = small;
        else if (length < MAX_READ_BUFFER_BYTES) next = new Uint8Array(4 * length);
        events.read(length === bytes.length ? bytes : new Uint8Array(bytes.buffer, bytes.byteOffset, length));
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
  let failure: Error | undefined;
  socket
    .on('error', (error) => {
      failure ??= onOneLine(error);
    })
    .on('drain', () => events.drained())
    .on('close', () => events.closed(failure && describe(failure), failure));
  return {
    write(parts) {
      if (socket.destroyed || socket.readableEnded) return undefined;
      if (parts.length === 1) socket.write(parts[0] as Uint8Array);
      else {
        socket.cork();
        for (const part of parts) socket.write(part);
        socket.uncork();
      }
      return socket.writableLength < LONG_BACKLOG_BYTES;
    },
    keepProcessAlive: (busy) => void (busy ? socket.ref() : socket.unref()),
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

/** Uses a connection that the caller has opened. If the endpoint needs TLS, does TLS itself, on top of that connection. */
export const overCallerStream: OverCallerStream = (stream, endpoint, tls, events) => {
  // Every `Duplex` of Node.js has the properties that this function reads. Streams of other packages may lack some of
  // them, which are then undefined.
  const duplex = isWebStreams(stream) ? duplexOf(stream) : (stream as Duplex);
  if (duplex.destroyed || duplex.readableEnded || duplex.writableEnded)
    throw new Error('the stream that connect returned is already closed', { cause: duplex.errored ?? undefined });
  if (duplex.readableEncoding || (endpoint.tls && duplex.readableObjectMode))
    throw new Error('the stream that connect returned yields text or objects; allowed: bytes');
  return endpoint.tls ? tlsOverDuplex(duplex, endpoint, tls, events) : overDuplex(duplex, events);
};

function overDuplex(duplex: Duplex, events: ByteStreamEvents): ByteStream {
  const keepProcessAlive = processKeeperOf(duplex);
  let ended = false;
  let stopTimer = (): void => {};
  const finish = (error?: Error): void => {
    if (ended) return;
    ended = true;
    stopTimer();
    keepProcessAlive(false);
    duplex.destroy();
    if (error === undefined) events.closed();
    else events.closed(describe(error), error);
  };
  duplex
    .on('drain', () => {
      if (!ended) events.drained();
    })
    .on('error', finish)
    .on('end', () => finish())
    .on('close', () => finish());
  queueMicrotask(() => {
    if (ended) return;
    events.opened();
    duplex.on('data', (chunk: unknown) => {
      if (ended) return;
      try {
        events.read(bytesOfChunk(chunk));
      } catch (error) {
        finish(error as Error);
      }
    });
  });
  return {
    write(parts) {
      if (ended || duplex.destroyed) return undefined;
      let hasRoom = true;
      duplex.cork?.();
      for (const part of parts) hasRoom = duplex.write(part);
      duplex.uncork?.();
      return hasRoom;
    },
    keepProcessAlive: (busy) => keepProcessAlive(busy && !ended),
    close() {
      if (ended) return;
      duplex.end(() => finish());
      // Without this time limit, a peer that does not read could keep the stream from ever closing.
      stopTimer = after(FLUSH_TIMEOUT_MS, () => finish());
    },
  };
}

function tlsOverDuplex(
  duplex: Duplex,
  endpoint: Endpoint,
  tls: TlsOptions | undefined,
  events: ByteStreamEvents,
): ByteStream {
  let cause: Error | undefined;
  // Throws if the TLS options are wrong. Nothing may keep the process alive then.
  const socket = connectTls({ socket: duplex, ...tlsOptions(endpoint, tls) }, events);
  const keepProcessAlive = processKeeperOf(duplex);
  duplex
    .on('error', (error) => {
      cause ??= error;
      socket.destroy(error);
    })
    .on('close', () => socket.destroy());
  socket
    .on('data', (bytes) => events.read(bytes))
    .on('close', () => {
      keepProcessAlive(false);
      duplex.destroy();
    });
  const bytes = overSocket(socket, {
    ...events,
    closed: (problem, failure) => events.closed(problem, cause ?? failure),
  });
  return { ...bytes, keepProcessAlive: (busy) => keepProcessAlive(busy && !socket.destroyed) };
}

/**
 * Returns a function that sets whether the stream keeps the process alive. A stream without the method `unref`, such as
 * a channel of an SSH connection, does not control this. For such a stream, a timer keeps the process alive.
 */
function processKeeperOf(stream: Duplex): (busy: boolean) => void {
  const socket = stream as Duplex & Partial<Pick<Socket, 'ref' | 'unref'>>;
  if (typeof socket.unref === 'function' && typeof socket.ref === 'function')
    return (busy) => void (busy ? socket.ref?.() : socket.unref?.());
  const keeper = new ProcessKeeper();
  keeper.keepProcessAlive(true);
  return (busy) => keeper.keepProcessAlive(busy);
}

/**
 * Returns a pair of web streams as a stream of Node.js. Does not use `Duplex.fromWeb`, which is experimental in Node.js
 * 20.
 *
 * @throws TypeError if one of the streams is locked to another reader or writer.
 */
function duplexOf({ readable, writable }: WebStreams): Duplex {
  const reader = readable.getReader();
  const writer = writable.getWriter();
  const report = (written: Promise<unknown>, done: (error?: Error) => void): void =>
    void written.then(
      () => done(),
      (error) => done(asError(error)),
    );
  const duplex = new Duplex({
    read() {
      reader
        .read()
        .then(({ done, value }) => void duplex.push(done ? null : bytesOfChunk(value)))
        .catch(fail);
    },
    write: (bytes: Uint8Array, _, done) => report(writer.write(bytes), done),
    final: (done) => report(writer.close(), done),
    destroy(error, done) {
      // Both streams may have ended or failed already. Then these calls reject, and change nothing.
      reader.cancel(error).catch(() => {});
      writer.abort(error).catch(() => {});
      done(error);
    },
  });
  const fail = (error: unknown): void => void duplex.destroy(asError(error));
  // Also listen to the writable stream: if only this stream fails, the readable stream may stay open.
  writer.closed.catch(fail);
  return duplex;
}

function asError(thrown: unknown): Error {
  return readError(thrown) === undefined ? new Error('the stream failed', { cause: thrown }) : (thrown as Error);
}

function connectTls(options: ConnectionOptions, events: ByteStreamEvents): TLSSocket {
  const socket = tlsConnect(options, () => {
    if (socket.alpnProtocol === 'h2') events.opened();
    else socket.destroy(new Error('the peer does not support HTTP/2: it did not select h2 by ALPN'));
  });
  return socket;
}

/** Returns the options of `node:tls` for a connection to the endpoint, which the server's certificate must name. */
export function tlsOptions(endpoint: Endpoint, tls: TlsOptions | undefined): ConnectionOptions {
  const name = serverNameOf(endpoint, tls);
  return {
    ALPNProtocols: ['h2'],
    // This option is set explicitly, so that NODE_TLS_REJECT_UNAUTHORIZED=0 cannot turn off the certificate check.
    rejectUnauthorized: true,
    // RFC 6066, section 3, does not allow IP addresses in SNI.
    servername: isIP(name) === 0 ? name : '',
    checkServerIdentity: (_, certificate) => checkName(name, certificate),
    ...(tls?.ca === undefined ? {} : { ca: pem(tls.ca) }),
    ...(tls?.cert === undefined ? {} : { cert: pem(tls.cert) }),
    ...(tls?.key === undefined ? {} : { key: pem(tls.key) }),
  };
}

/**
 * Returns an error unless one of the certificate's alternative names is `name`. Node.js also accepts the common name of
 * a certificate without alternative DNS names. RFC 9525, section 2, and Go's `crypto/x509` do not.
 */
export function checkName(name: string, certificate: PeerCertificate): Error | undefined {
  const { CN: _, ...subject } = certificate.subject ?? {};
  const error = checkServerIdentity(name, { ...certificate, subject } as PeerCertificate);
  if (error === undefined || error.message.includes(name)) return error;
  const names = certificate.subjectaltname || 'none';
  return new Error(
    `Hostname/IP does not match certificate's altnames: Host: ${name}. is not in the cert's altnames: ${names}`,
  );
}

function pem(text: string | Uint8Array): string | Buffer {
  return typeof text === 'string' ? text : Buffer.from(text);
}

/**
 * Lets the error of a socket be printed on one line: with its message and its `code`, which say the rest. Bun forbids
 * the change, and prints the other properties too.
 */
function onOneLine(error: Error): Error {
  for (const name of ['errno', 'syscall', 'address', 'port'])
    if (name in error) Reflect.defineProperty(error, name, { enumerable: false });
  return withoutFrames(error);
}

/** Joins the messages if Node.js reports one error for each address of a host name. */
function describe(error: Error): string {
  const { message } = readError(error) ?? {};
  if (message === undefined) return 'the stream failed';
  if (error instanceof AggregateError && error.errors.length > 0) {
    return [...new Set(error.errors.map((each: Error) => each.message))].join('; ');
  }
  return opensslReason(message);
}
