import { createServer, type Server } from 'node:net';

/**
 * Where ports are looked for: below those that systems give to outgoing connections (Linux from 32,768, others from
 * 49,152), of which one could take the port before its server does.
 */
const [FIRST, LAST] = [10_000, 32_767];

/** Ports of the loopback that nobody listens on. All are held at once, so that no two are the same. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = new Map<number, Server>();
  while (servers.size < count) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST + 1));
    const server = await listening(port);
    if (server !== undefined) servers.set(port, server);
  }
  await Promise.all([...servers.values()].map((server) => new Promise((resolve) => server.close(resolve))));
  return [...servers.keys()];
}

/** Undefined where the port is taken, or not for everybody. */
function listening(port: number): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE' || error.code === 'EACCES') resolve(undefined);
      else reject(error);
    });
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
