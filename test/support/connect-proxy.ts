import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** An HTTP proxy that supports only the method CONNECT: RFC 9110, section 9.3.6. */
export interface ConnectProxy {
  readonly port: number;
  /** The targets that clients have requested, such as `etcd.internal:2379`. */
  readonly targets: readonly string[];
  /** Closes all tunnels. */
  readonly cut: () => void;
}

/**
 * Starts a proxy, and stops it when the test ends. The proxy connects each tunnel to `port` on this machine, whatever
 * target the client requests. If `credentials` is given, the proxy requires these credentials.
 */
export async function connectProxy(port: number, credentials?: string): Promise<ConnectProxy> {
  const targets: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer();
  const track = (socket: Socket): void => {
    sockets.add(socket.on('error', () => {}));
  };
  server.on('connection', track).on('connect', ({ url = '', headers }, client: Socket, head: Buffer) => {
    targets.push(url);
    const expected = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`;
    if (headers['proxy-authorization'] !== expected)
      return void client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
    const target = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      target.write(head);
      client.pipe(target).pipe(client);
    });
    track(target);
    target.on('close', () => client.destroy());
    client.on('close', () => target.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(() => {
    cut();
    server.close();
  });
  return { port: (server.address() as { port: number }).port, targets, cut };
}
