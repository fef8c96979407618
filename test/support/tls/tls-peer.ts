import { connect, createServer as createTcpServer, type Socket } from 'node:net';
import { createServer, type TLSSocket, type TlsOptions } from 'node:tls';
import { onTestFinished } from 'vitest';
import type { Client, EtcdError } from '../../../src/index.js';
import { errorOf } from '../errors.js';

/** A TLS server for which a test implements the protocol above TLS. */
export interface TlsPeer {
  readonly endpoint: string;
  /** Returns everything that clients have sent over TLS. */
  readonly heard: () => string;
  /** The TCP connections. */
  readonly connections: readonly Socket[];
}

/**
 * Starts a TLS server and stops it when the test ends.
 *
 * @param play Called after each handshake with the TLS socket and its TCP connection.
 */
export async function tlsPeer(
  options: TlsOptions,
  play: (socket: TLSSocket, connection: Socket) => void = () => {},
): Promise<TlsPeer> {
  const connections: Socket[] = [];
  let heard = '';
  const server = createServer({ ALPNProtocols: ['h2'], ...options });
  server.on('connection', (connection) => connections.push(connection.on('error', () => {})));
  server.on('tlsClientError', () => {});
  server.on('secureConnection', (socket) => {
    socket
      .on('error', () => {})
      .on('data', (bytes: Buffer) => {
        heard += bytes.toString('latin1');
      });
    play(socket, connections.find(({ remotePort }) => remotePort === socket.remotePort) as Socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const connection of connections) connection.destroy();
    server.close();
  });
  const { port } = server.address() as { port: number };
  return { endpoint: `https://127.0.0.1:${port}`, heard: () => heard, connections };
}

/** A relay between clients and a TLS server on this machine. */
export interface Relay {
  /** An `https:` URL. */
  readonly endpoint: string;
  /** The connections of clients, including closed connections. */
  readonly clients: readonly Socket[];
}

/**
 * Starts a relay and closes it when the test ends. The relay forwards the bytes of clients unchanged.
 *
 * @param pass Called for each chunk from the server, with the number of bytes that the server sent before this chunk on
 * the same connection. The relay forwards the bytes that `pass` returns, and nothing if `pass` returns undefined.
 */
export async function relay(
  port: number,
  pass: (bytes: Buffer, before: number) => Buffer | undefined,
  host = '127.0.0.1',
): Promise<Relay> {
  const clients: Socket[] = [];
  const server = createTcpServer((client) => {
    clients.push(client);
    const upstream = connect(port, '127.0.0.1');
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end);
    client.on('data', (bytes) => upstream.write(bytes));
    let before = 0;
    upstream.on('data', (bytes) => {
      const passed = pass(bytes, before);
      before += bytes.length;
      if (passed !== undefined) client.write(passed);
    });
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, host, resolve));
  onTestFinished(() => {
    for (const client of clients) client.destroy();
    server.close();
  });
  const name = host.includes(':') ? `[${host}]` : host;
  return { endpoint: `https://${name}:${(server.address() as { port: number }).port}`, clients };
}

/**
 * Changes `http:` to `https:` in an endpoint. The tests' proxies and peers give their endpoints with `http:`, even when
 * the connections through them use TLS.
 */
export function secure(endpoint: string): string {
  return endpoint.replace('http:', 'https:');
}

/**
 * Resolves with the error of the client's first connection attempt, which must fail. Opens a stream, because a stream
 * fails at once, whereas the client would retry a unary call.
 */
export function refusalOf(client: Client): Promise<EtcdError> {
  const stream = client.raw.lease.leaseKeepAlive();
  stream.send({ id: 1n });
  return errorOf(stream.next());
}
