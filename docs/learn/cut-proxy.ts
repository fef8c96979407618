import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Starts a proxy in front of a server, so that a program of this course can lose its connections. */
export async function startProxy(serverAddress: string) {
  const server = new URL(`http://${serverAddress}`);
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const upstream = connect(Number(server.port), server.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
    }
    client.pipe(upstream).pipe(client);
  });
  await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve));
  /** Closes all connections. The proxy accepts new ones. */
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const close = (): void => {
    proxy.close();
    cut();
  };
  return { address: `127.0.0.1:${(proxy.address() as AddressInfo).port}`, cut, close };
}
