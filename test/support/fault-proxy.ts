import { connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { FaultProxy, type FaultProxyOptions } from '../../src/testing/index.js';

/** Starts a proxy in front of `target` and closes it when the test ends. */
export async function faultProxy(target: string, options?: FaultProxyOptions): Promise<FaultProxy> {
  const proxy = await FaultProxy.start(target, options);
  onTestFinished(() => proxy.close());
  return proxy;
}

/** Connects a client to a proxy, and writes `first`. `reads` contains what the client has read. */
export async function connected(
  proxy: FaultProxy,
  first: string | Uint8Array = '',
): Promise<{ client: Socket; reads: string[] }> {
  const reads: string[] = [];
  const client = connect({ port: proxy.port, host: '127.0.0.1', allowHalfOpen: true }).setNoDelay(true);
  client
    .on('error', () => {})
    .on('data', (bytes) => reads.push(String(bytes)))
    .on('end', () => client.end());
  onTestFinished(() => void client.destroy());
  await new Promise((resolve) => client.once('connect', resolve));
  if (first.length > 0) client.write(first);
  return { client, reads };
}

/** Starts a server that sends back what it receives. Returns its URL. */
export function echoServer(): Promise<string> {
  return listening((socket) => socket.pipe(socket));
}

/** Starts a server of TCP, and returns its URL. */
export async function listening(accept: (socket: Socket) => void): Promise<string> {
  const server = createServer({ allowHalfOpen: true }, (socket) => accept(socket.on('error', () => {})));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}
