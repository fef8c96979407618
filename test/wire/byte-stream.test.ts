import { once } from 'node:events';
import { type AddressInfo, createServer, type ServerOpts, type Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { parseEndpoint } from '../../src/host/endpoint.js';
import type { ByteStream } from '../../src/host/host.js';
import { openByteStream } from '../../src/host/node.js';

interface Connected {
  /** The byte stream of the client. */
  readonly stream: ByteStream;
  /** The events of the byte stream so far. */
  readonly events: string[];
  /** The server's end of the connection. It reads nothing until the test lets it. */
  readonly socket: Socket;
}

/** Connects a byte stream over TCP to a server in this process. */
async function connected(options: ServerOpts = {}): Promise<Connected> {
  const server = createServer({ ...options, pauseOnConnect: true });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const { port } = server.address() as AddressInfo;
  const events: string[] = [];
  const stream = openByteStream(parseEndpoint(`http://127.0.0.1:${port}`, 'endpoint'), undefined, {
    opened: () => void events.push('opened'),
    read: () => {},
    drained: () => {},
    closed: (problem) => void events.push(problem === undefined ? 'closed' : `closed: ${problem}`),
  });
  const [socket] = await accepted;
  socket.on('error', () => {});
  onTestFinished(() => {
    socket.destroy();
    server.close();
  });
  await expect.poll(() => events).toEqual(['opened']);
  return { stream, events, socket };
}

test('`close` closes a byte stream after a time limit if the peer does not read the last bytes', async () => {
  const { stream, events } = await connected();
  // Write until the kernel's buffers are full. The unsent rest is then so short that `close` still tries to send it.
  const waits = (): boolean => process.getActiveResourcesInfo().some((name) => /WriteWrap/.test(name));
  while (!waits()) {
    expect(stream.write([new Uint8Array(200_000)])).toBe(true);
    await setImmediate();
  }
  stream.close();
  await expect.poll(() => events).toEqual(['opened', 'closed']);
});

test('`write` returns undefined and sends nothing once the peer has ended the connection, even before the byte stream reports the end', async () => {
  const { stream, events, socket } = await connected({ allowHalfOpen: true });
  let received = 0;
  socket.on('data', ({ length }) => {
    received += length;
  });
  const clientEnded = once(socket.resume(), 'end');
  socket.end();
  let accepted = 0;
  while (events.length === 1 && stream.write([new Uint8Array(1)]) !== undefined) {
    accepted += 1;
    await setImmediate();
  }
  await clientEnded;
  expect(received).toBe(accepted);
  await expect.poll(() => events).toEqual(['opened', 'closed']);
});
