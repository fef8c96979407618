import { createServer, type Server } from 'node:net';
import { environment } from '../../base/index.js';

/**
 * The first and the last port to try. Operating systems assign higher ports to outgoing connections (Linux from 32,768,
 * other systems from 49,152), and such a connection could take a free port before the test's server listens on it.
 */
const [FIRST, LAST] = [10_000, 32_767];

/** Number of ports that a process reserves at once. The first port of a block marks the block as reserved. */
const BLOCK_PORTS = 32;
const BLOCKS = Math.floor((LAST - FIRST + 1) / BLOCK_PORTS);

/** Reserved ports that `freePorts` has not returned yet. */
const unused: number[] = [];
/** Ports that `freePorts` has returned, oldest first. `freePorts` tries them again when every block is reserved. */
const used: number[] = [];

/**
 * Returns `count` different free ports of 127.0.0.1. No other process gets these ports from `freePorts` before this
 * process exits. A server can therefore stop, and later listen on the same port again.
 *
 * A process reserves ports in blocks. To reserve a block, the process listens on the block's first port until the
 * process exits.
 *
 * @throws Error if too few ports are free.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    if (unused.length === 0) unused.push(...((await reserveBlock()) ?? used.splice(0, BLOCK_PORTS)));
    const port = unused.pop();
    if (port === undefined) throw new Error(`fewer than ${count} ports from ${FIRST} to ${LAST} are free`);
    if (await isFree(port)) ports.push(port);
  }
  used.push(...ports);
  return ports;
}

/**
 * Reserves a block that no process has reserved. Returns all ports of the block except the first; undefined if every
 * block is reserved. Starts at a random block. Otherwise, all processes would try the blocks in the same order, and
 * would first find the blocks that the other processes have reserved.
 */
async function reserveBlock(): Promise<number[] | undefined> {
  const start = Math.floor(environment.Math.random() * BLOCKS);
  for (let tried = 0; tried < BLOCKS; tried += 1) {
    const first = FIRST + ((start + tried) % BLOCKS) * BLOCK_PORTS;
    const guard = await listening(first);
    if (guard === undefined) continue;
    guard.unref();
    return Array.from({ length: BLOCK_PORTS - 1 }, (_, index) => first + 1 + index);
  }
  return undefined;
}

async function isFree(port: number): Promise<boolean> {
  const server = await listening(port);
  if (server === undefined) return false;
  await new Promise((resolve) => server.close(resolve));
  return true;
}

/** Resolves with a server that listens on the port, or with undefined if the port is in use or needs privileges. */
function listening(port: number): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE' || error.code === 'EACCES') resolve(undefined);
      else reject(error);
    });
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
