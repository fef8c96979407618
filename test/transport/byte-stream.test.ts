import { createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { openByteStream } from '../../src/host/node.js';

test('`close` closes a byte stream after a time limit if the peer does not read the last bytes', async () => {
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.pause().on('error', () => {})));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as { port: number };
  const events: string[] = [];
  const stream = openByteStream(parseEndpoint(`http://127.0.0.1:${port}`, 'endpoint'), undefined, {
    opened: () => void events.push('opened'),
    read: () => {},
    drained: () => {},
    closed: () => void events.push('closed'),
  });
  await expect.poll(() => events).toEqual(['opened']);
  // Write until the kernel's buffers are full. The unsent rest is then so short that `close` still tries to send it.
  const waits = (): boolean => process.getActiveResourcesInfo().some((name) => /WriteWrap/.test(name));
  while (!waits()) {
    expect(stream.write([new Uint8Array(200_000)])).toBe(true);
    await new Promise((resolve) => setImmediate(resolve));
  }
  stream.close();
  await expect.poll(() => events, { timeout: 10_000 }).toEqual(['opened', 'closed']);
});
