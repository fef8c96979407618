import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, Server as TlsServer } from 'node:tls';

/** A proxy that counts all connections, which `FaultProxy` does not. With `tls`, it ends TLS without ALPN. */
export class Tap implements Disposable {
  readonly address: string;
  /** Number of connections that clients have opened so far. */
  opened = 0;
  readonly #open = new Set<Socket>();
  readonly #server: Server;

  private constructor(server: Server, target: URL) {
    this.#server = server;
    this.address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
      this.opened += 1;
      this.#open.add(socket.once('close', () => this.#open.delete(socket)));
      const upstream = connect(Number(target.port), target.hostname);
      socket.pipe(upstream).pipe(socket);
      socket.on('error', () => {}).on('close', () => upstream.destroy());
      upstream.on('error', () => {}).on('close', () => socket.destroy());
    });
  }

  static async start(target: string, tls?: { readonly cert: string; readonly key: string }): Promise<Tap> {
    const server = tls === undefined ? createServer() : createTlsServer(tls);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Tap(server, new URL(target));
  }

  /** Number of connections that are open now. */
  get open(): number {
    return this.#open.size;
  }

  [Symbol.dispose](): void {
    this.#server.close();
    for (const socket of this.#open) socket.destroy();
  }
}
