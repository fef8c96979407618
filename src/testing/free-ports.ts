import { createServer, type Server } from 'node:net';

/**
 * The range of ports to try. Systems give higher ports to outgoing connections (Linux from 32,768, other systems from
 * 49,152). Such a connection could take a free port before the test's server listens on it.
 */
const [FIRST, LAST] = [10_000, 32_767];

/** Returns different free ports of 127.0.0.1. Keeps each port open until all are found, so that none is found twice. */
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

/** A server on the port; undefined if the port is taken or needs privileges. */
function listening(port: number): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE' || error.code === 'EACCES') resolve(undefined);
      else reject(error);
    });
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
