import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { tunnel } from '../../docs/examples/tunnel.js';
import { Bridge } from '../../scripts/runtimes/bridge.js';
import { type Client, http2 } from '../../src/index.js';
import { freePorts } from '../../src/testing/etcd/free-ports.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';

// Tests docs/examples/bridge.ts and tunnel.ts. `npm run test:runtimes` also runs them in browsers and other runtimes.

const GLOBAL = globalThis.WebSocket;

beforeAll(() => {
  // Node.js 20 has no WebSocket.
  Object.assign(globalThis, { WebSocket });
});
afterAll(() => {
  Object.assign(globalThis, { WebSocket: GLOBAL });
});

async function bridged(endpoint: string, origin?: string): Promise<Client> {
  const bridge = await Bridge.start(endpoint, origin);
  onTestFinished(() => bridge[Symbol.dispose]());
  return openClient({
    endpoints: ['http://etcd'],
    transport: http2({ connect: tunnel(bridge.url) }),
    timeoutMs: 5_000,
  });
}

test('a client sends and receives large values and watches over a WebSocket', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = await bridged(endpoints[0] as string);
  const [key, value] = [unique(), randomBytes(1_400_000)];
  await using watch = etcd.watch(key);
  await watch.created();
  await Promise.all(Array.from({ length: 10 }, (_, index) => etcd.put(`${key}/${index}`, value)));
  for (let index = 0; index < 10; index += 1)
    expect(value.equals((await etcd.get(`${key}/${index}`))?.value ?? Buffer.of())).toBe(true);
  await etcd.put(key, 'last');
  for await (const event of watch) {
    expect(event).toMatchObject({ type: 'put' });
    break;
  }
});

test('a bridge refuses pages of other origins, and the error says so', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = await bridged(endpoints[0] as string, 'https://example.com');
  const error = await errorOf(etcd.get('a', { timeoutMs: 1_000 }));
  expect(error).toMatchObject({ outcome: 'not-sent' });
  expect(error.message).toContain('was closed with code 1006');
});

test('the error says why a bridge does not reach etcd', async () => {
  const [port] = await freePorts(1);
  const etcd = await bridged(`http://127.0.0.1:${port}`);
  const error = await errorOf(etcd.get('a', { timeoutMs: 1_000 }));
  expect(error).toMatchObject({ outcome: 'not-sent' });
  expect(error.message).toContain(`was closed with code 1011 connect ECONNREFUSED 127.0.0.1:${port}`);
});

test('a watch over a WebSocket survives a restart of etcd', async () => {
  const { endpoints, members } = await ownEtcd();
  const etcd = await bridged(endpoints[0] as string);
  const key = unique();
  await using watch = etcd.watch(key);
  await watch.created();
  await members[0]?.kill();
  await members[0]?.start();
  await expect.poll(() => etcd.put(key, 'after').catch(() => undefined)).toBeDefined();
  for await (const event of watch) {
    expect(event).toMatchObject({ type: 'put' });
    break;
  }
});
