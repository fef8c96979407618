import type { Socket } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Client } from '../../src/index.js';
import { containing, type FaultProxy, listen, MemoryEtcd } from '../../src/testing/index.js';
import { errorOf } from '../support/errors.js';
import { connected, faultProxy, listening } from '../support/fault-proxy.js';
import { frame, PREFACE } from '../support/http2-frames.js';

// Tests the faults of `FaultProxy` that concern one request.

describe('`loseNextAnswer()`', () => {
  test('waits for the answer to its own request while other requests of the connection are answered', async () => {
    const { proxy, client, peer, received } = await throughFrames();
    let isLost = false;
    const lost = proxy.loseNextAnswer(containing('ask')).then(() => {
      isLost = true;
    });
    client.write(Buffer.concat([headers(1, 'other'), headers(3, 'ask')]));
    await expect.poll(received).toContain('ask');
    peer.write(headers(1, 'answer of other'));
    client.write(headers(5, 'more'));
    await expect.poll(received).toContain('more');
    expect(isLost).toBe(false);
    peer.write(headers(3, 'answer'));
    await lost;
  });

  test('finds the answer behind a frame that two reads divide', async () => {
    const { proxy, client, peer, received, reads } = await throughFrames();
    const answers = Buffer.concat([frame('DATA', 0, 1, Buffer.alloc(100, 'x')), headers(3, 'answer')]);
    peer.write(answers.subarray(0, 50));
    await expect.poll(() => reads.join('')).toContain('x');
    const lost = proxy.loseNextAnswer(containing('ask'));
    client.write(headers(3, 'ask'));
    await expect.poll(received).toContain('ask');
    peer.write(answers.subarray(50));
    await lost;
    expect(reads.join('')).not.toContain('answer');
  });

  test('drops the answers of only one connection, although requests on two connections match', async () => {
    const proxy = await faultProxy(
      await listening((socket) => {
        // The answer to a frame is the frame itself. The preface has no answer.
        socket.once('data', (first) => socket.write(first.subarray(PREFACE.length))).pipe(socket);
      }),
    );
    const [a, b] = await Promise.all([connected(proxy, PREFACE), connected(proxy, PREFACE)]);
    const lost = proxy.loseNextAnswer(containing('ask'));
    a.client.write(headers(1, 'ask'));
    await lost;
    b.client.write(headers(1, 'ask'));
    await expect.poll(() => b.reads.join('')).toContain('ask');
    expect(a.reads.join('')).not.toContain('ask');
  });

  test('resolves when the connection of the request ends without an answer', async () => {
    const { proxy, client, received } = await throughFrames();
    const lost = proxy.loseNextAnswer(containing('ask'));
    client.write(headers(1, 'ask'));
    await expect.poll(received).toContain('ask');
    proxy.dropConnections();
    await lost;
  });

  test.each([
    ['different requests', ['one', 'other']],
    ['requests that match both calls', ['same', 'same']],
  ])('loses an answer for each of two calls with %s', async (_, keys) => {
    const { proxy, etcd } = await throughMemory();
    const losing = keys.map((key) => proxy.loseNextAnswer(containing(key)));
    for (const [index, key] of keys.entries()) {
      expect(await errorOf(etcd.put(key, ''))).toMatchObject({ outcome: 'unknown' });
      await losing[index];
    }
    expect((await etcd.put('one', '')).header.revision).toBe(4n);
  });
});

describe('`holdNextRequest()`', () => {
  test('holds back a request for each of two calls', async () => {
    const { proxy, etcd } = await throughMemory();
    const holding = ['one', 'other'].map((key) => proxy.holdNextRequest(containing(key)));
    for (const key of ['other', 'one']) await errorOf(etcd.put(key, key));
    const releases = await Promise.all(holding);
    expect([await etcd.get('one'), await etcd.get('other')]).toEqual([undefined, undefined]);
    for (const release of releases) release();
    for (const key of ['one', 'other']) await expect.poll(async () => (await etcd.get(key))?.text()).toBe(key);
  });

  test('forwards the request behind earlier bytes that are delayed', async () => {
    const { proxy, client, received } = await throughFrames();
    proxy.delay(3_600_000);
    const passed: string[] = [];
    const holding = proxy.holdNextRequest((bytes) => {
      passed.push(String(Buffer.from(bytes)));
      return containing('held')(bytes);
    });
    client.write(headers(1, 'earlier'));
    await expect.poll(() => passed.join('')).toContain('earlier');
    client.write(headers(3, 'held'));
    const release = await holding;
    release();
    proxy.heal();
    await expect.poll(received).toMatch(/earlier.*held/s);
  });
});

describe.each(['loseNextAnswer', 'holdNextRequest'] as const)('`%s()`', (method) => {
  test('rejects when the proxy is closed before the request arrives, and after that', async () => {
    const { proxy } = await throughMemory();
    const waiting = proxy[method](() => true);
    await proxy.close();
    await expect(waiting).rejects.toThrow('was closed before a request arrived');
    await expect(proxy[method](() => true)).rejects.toThrow('was closed before a request arrived');
  });

  test('rejects with the error that `isRequest` throws, and the proxy forwards the request', async () => {
    const { proxy, etcd } = await throughMemory();
    const waiting = proxy[method](() => {
      throw new Error('isRequest failed');
    });
    await etcd.put('key', 'value');
    await expect(waiting).rejects.toThrow('isRequest failed');
  });
});

/** Returns a HEADERS frame whose payload is a text. A proxy does not decode the payload. */
function headers(streamId: number, text: string): Buffer {
  return frame('HEADERS', 0, streamId, Buffer.from(text));
}

/** Connects a client, which has sent the preface, to a server that sends only what the test writes to `peer`. */
async function throughFrames(): Promise<{
  proxy: FaultProxy;
  client: Socket;
  peer: Socket;
  reads: string[];
  received: () => string;
}> {
  const [peers, texts]: [Socket[], string[]] = [[], []];
  const proxy = await faultProxy(
    await listening((socket) => {
      peers.push(socket);
      socket.on('data', (bytes) => texts.push(String(bytes)));
    }),
  );
  const { client, reads } = await connected(proxy, PREFACE);
  const received = (): string => texts.join('');
  await expect.poll(received).toBe(PREFACE);
  return { proxy, client, peer: peers[0] as Socket, reads, received };
}

/** Connects a client to a `MemoryEtcd`. */
async function throughMemory(): Promise<{ proxy: FaultProxy; etcd: Client }> {
  const listener = await listen(new MemoryEtcd());
  onTestFinished(() => listener.close());
  const proxy = await faultProxy(listener.endpoint);
  const etcd = new Client({ endpoints: [proxy.endpoint] });
  onTestFinished(() => etcd.close());
  return { proxy, etcd };
}
