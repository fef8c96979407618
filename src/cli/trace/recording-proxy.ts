import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { FrameDecoder, type StreamMethods, type WireFrame } from '../../inspect/frames.js';
import { monotonicMs } from '../../runtime/timers.js';

/** The default port of `http:` URLs. `URL.port` is empty for this port. */
const DEFAULT_PORT = 80;

/** A TCP proxy to an endpoint that records the HTTP/2 frames of its clients, such as Go's client. */
export class RecordingProxy {
  readonly url: string;
  readonly #server: ReturnType<typeof createServer>;
  readonly #sockets = new Set<Socket>();

  private constructor(server: ReturnType<typeof createServer>) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** Starts a proxy on loopback. The endpoint is a URL without TLS. */
  static async start(endpoint: string, onFrame: (frame: WireFrame) => void): Promise<RecordingProxy> {
    const { hostname, port } = new URL(endpoint);
    const server = createServer();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const proxy = new RecordingProxy(server);
    let connections = 0;
    server.on('connection', (client: Socket) => {
      connections += 1;
      const connection = connections;
      const streams: StreamMethods = new Map();
      const decoder = (side: 'client' | 'server', direction: WireFrame['direction']): FrameDecoder =>
        new FrameDecoder(side, streams, (frame) =>
          onFrame({ atMs: monotonicMs(), connection, endpoint, direction, ...frame }),
        );
      const etcd = connect(Number(port || DEFAULT_PORT), hostname.replace(/^\[|\]$/g, ''));
      proxy.#forward(client, etcd, decoder('client', 'sent'));
      proxy.#forward(etcd, client, decoder('server', 'received'));
    });
    return proxy;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => void this.#server.close(() => resolve()));
  }

  #forward(from: Socket, to: Socket, decoder: FrameDecoder): void {
    from.setNoDelay(true);
    this.#sockets.add(from);
    from.on('data', (bytes) => {
      decoder.push(bytes);
      to.write(bytes);
    });
    from.on('end', () => to.end());
    from.on('error', () => to.destroy());
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
  }
}
