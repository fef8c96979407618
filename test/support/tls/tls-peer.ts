import type { Socket } from 'node:net';
import { createServer, type TLSSocket, type TlsOptions } from 'node:tls';
import { onTestFinished } from 'vitest';

/** A server that speaks TLS, and over it whatever a test wants. */
export interface TlsPeer {
  readonly endpoint: string;
  /** What clients have said under TLS. */
  readonly heard: () => string;
  /** Under TLS and before it. */
  readonly connections: readonly Socket[];
}

/**
 * Stopped when the test ends.
 *
 * @param play Called when the peer's side of a handshake is done, with the connection under TLS too.
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
