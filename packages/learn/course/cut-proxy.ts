import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Starts a proxy in front of a server, so that a program of this course can lose its connections. */
export async function startProxy(serverAddress: string) {
  const server = new URL(`http://${serverAddress}`);
  const sockets = new Set<Socket>();
  let lostPath: string | undefined;
  /** Closes all connections. The proxy accepts new ones. */
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const proxy = createServer((client) => {
    const upstream = connect(Number(server.port), server.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
    }
    client.on('data', (bytes: Buffer) => {
      if (lostPath === undefined || !bytes.includes(lostPath)) return;
      lostPath = undefined;
      upstream.unpipe(client);
      setTimeout(cut, 300); // By then, the server has processed the request.
    });
    client.pipe(upstream).pipe(client);
  });
  await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve));
  /**
   * Passes the next request on, but loses its response, and then closes all connections. With `path`, the next request
   * of this method.
   */
  const loseResponse = (path = ''): void => {
    lostPath = path;
  };
  const close = (): void => {
    proxy.close();
    cut();
  };
  return { address: `127.0.0.1:${(proxy.address() as AddressInfo).port}`, cut, loseResponse, close };
}
