import type { Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import type { FaultProxy } from '../../src/testing/index.js';
import { connected, echoServer, faultProxy, listening } from '../support/fault-proxy.js';

const HOUR_MS = 3_600_000;

describe('`FaultProxy`', () => {
  test('forwards bytes one at a time and in order after `slice(1)`', async () => {
    const { proxy, client, reads } = await throughProxy();
    proxy.slice(1);
    client.write('abcde');
    await expect.poll(() => reads.join('')).toBe('abcde');
    expect(Math.max(...reads.map(({ length }) => length))).toBe(1);
  });

  test('forwards bytes late and in order after `delay()`', async () => {
    const { proxy, client, reads } = await throughProxy();
    proxy.delay(60);
    const writtenAt = performance.now();
    client.write('late ');
    await expect.poll(() => reads.join('')).toBe('late ');
    // The proxy guarantees a minimum delay, not a maximum.
    expect(performance.now() - writtenAt).toBeGreaterThanOrEqual(60);
  });

  test('forwards delayed bytes in order as soon as `heal()` ends the delay', async () => {
    const { proxy, client, reads, passed } = await throughProxy();
    proxy.delay(HOUR_MS);
    client.write('late ');
    await expect.poll(() => passed.join('')).toBe('late ');
    proxy.heal();
    client.write('later');
    await expect.poll(() => reads.join('')).toBe('late later');
  });

  describe.each([
    ['delay()', (proxy: FaultProxy) => proxy.delay(20)],
    ['slice()', (proxy: FaultProxy) => proxy.slice(1)],
    ['throttle()', (proxy: FaultProxy) => proxy.throttle({ bytesPerSecond: 1_000 })],
  ])('after `%s`', (_, fault) => {
    test('forwards all bytes of a server that closes its connection', async () => {
      const proxy = await faultProxy(await listening((socket) => void socket.end('x'.repeat(50))));
      fault(proxy);
      const { client, reads } = await connected(proxy);
      await new Promise((resolve) => client.once('close', resolve));
      expect(reads.join('')).toBe('x'.repeat(50));
    });

    test('forwards all bytes of a client that closes its side, and then the answer of the server', async () => {
      const proxy = await faultProxy(await echoServer());
      fault(proxy);
      const { client, reads } = await connected(proxy);
      client.end('y'.repeat(50));
      await new Promise((resolve) => client.once('close', resolve));
      expect(reads.join('')).toBe('y'.repeat(50));
      await expect.poll(() => proxy.connections).toBe(0);
    });
  });

  test('holds bytes back while it is paused, and forwards the bytes after `heal()`', async () => {
    const { proxy, client, reads } = await throughProxy();
    client.write('before');
    await expect.poll(() => reads.join('')).toBe('before');
    proxy.pause();
    const more = 'x'.repeat(30_000_000);
    client.write(more);
    await expect.poll(() => client.writableLength).toBeGreaterThan(0);
    expect(reads.join('')).toBe('before');
    proxy.heal();
    await expect.poll(() => reads.join('').length).toBe('before'.length + more.length);
    expect(client.destroyed).toBe(false);
  });

  test('forwards no more bytes while it is paused, even if a receiver starts to read again', async () => {
    const { proxy, client, reads, peers } = await throughProxy();
    await expect.poll(() => peers.length).toBe(1);
    peers[0]?.pause();
    const total = 40_000_000;
    client.write('x'.repeat(total));
    const waiting: number[] = [];
    const settled = (): boolean => waiting.push(client.writableLength) > 5 && waiting.at(-1) === waiting.at(-5);
    await expect.poll(settled).toBe(true);
    const left = client.writableLength;
    proxy.pause();
    peers[0]?.resume();
    await expect.poll(() => reads.length).toBeGreaterThan(0);
    waiting.length = 0;
    await expect.poll(settled).toBe(true);
    expect(client.writableLength).toBe(left);
    proxy.heal();
    await expect.poll(() => reads.join('').length).toBe(total);
  });

  test('closes a connection on `heal()` if the proxy has dropped bytes of that connection', async () => {
    const { proxy, client, reads } = await throughProxy();
    proxy.oneWay('to-client');
    client.write('lost');
    proxy.heal();
    await new Promise((resolve) => client.once('close', resolve));
    expect(reads).toEqual([]);
  });

  test('drops the bytes of the sender that was passed to `cutOff()`, but not the bytes of other senders', async () => {
    const server = await echoServer();
    const proxy = await faultProxy(server, { senderOf: (bytes) => /from (\w+)/.exec(String(Buffer.from(bytes)))?.[1] });
    const [a, b] = await Promise.all(['a', 'b'].map(async (name) => connected(proxy, `from ${name} `)));
    await expect.poll(() => [a?.reads.join(''), b?.reads.join('')]).toEqual(['from a ', 'from b ']);
    proxy.cutOff('a');
    a?.client.write('more');
    b?.client.write('more');
    await expect.poll(() => b?.reads.join('')).toBe('from b more');
    expect(a?.reads.join('')).toBe('from a ');
  });

  test('forwards bytes at the rate that was passed to `throttle()`, and reads ahead as far as its buffer allows', async () => {
    const { proxy, client, reads } = await throughProxy();
    const [bytesPerSecond, bufferBytes] = [50_000, 1_000_000];
    proxy.throttle({ bytesPerSecond, bufferBytes, direction: 'to-server' });
    const startedAt = performance.now();
    client.write('x'.repeat(50_000));
    await expect.poll(() => reads.join('').length).toBe(50_000);
    // The proxy guarantees a maximum rate, not a minimum. It may make up for 100 ms in which it was late.
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(900);
    // The kernel's buffers take some megabytes in addition to the buffer of the proxy.
    client.write('x'.repeat(60_000_000));
    const waiting: number[] = [];
    const settled = (): boolean => waiting.push(client.writableLength) > 5 && waiting.at(-1) === waiting.at(-5);
    await expect.poll(settled).toBe(true);
    expect(client.writableLength).toBeGreaterThan(20_000_000);
  });

  test('`throttle()` refuses an unknown option', async () => {
    const { proxy } = await throughProxy();
    expect(() => proxy.throttle({ bytesPerSecond: 1, buffer: 1 } as never)).toThrow('buffer');
  });

  test('stops reading from a sender while the receiver does not read', async () => {
    const { client, peers } = await throughProxy();
    await expect.poll(() => peers.length).toBe(1);
    peers[0]?.pause();
    for (let megabyte = 0; megabyte < 60; megabyte += 1) client.write(Buffer.alloc(1_000_000));
    const waiting: number[] = [];
    const settled = (): boolean => waiting.push(client.writableLength) > 5 && waiting.at(-1) === waiting.at(-5);
    await expect.poll(settled).toBe(true);
    expect(client.writableLength).toBeGreaterThan(20_000_000);
  });
});

/**
 * Connects a client to a server through a proxy. `passed` contains what the proxy has read from the client, `reads` what
 * the server has read, and `peers` the server's sockets.
 */
async function throughProxy(): Promise<{
  proxy: FaultProxy;
  client: Socket;
  passed: string[];
  reads: string[];
  peers: Socket[];
}> {
  const [passed, reads, peers]: [string[], string[], Socket[]] = [[], [], []];
  const target = await listening((socket) => {
    peers.push(socket);
    socket.on('data', (bytes) => reads.push(String(bytes)));
  });
  const proxy = await faultProxy(target, { senderOf: (bytes) => void passed.push(String(Buffer.from(bytes))) });
  const { client } = await connected(proxy);
  return { proxy, client, passed, reads, peers };
}
