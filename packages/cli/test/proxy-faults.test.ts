import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { op } from '../../../src/index.js';
import { parseEndpoint } from '../../../src/internal.js';
import { openClient, unique } from '../../../test/support/client.js';
import { listening } from '../../../test/support/fault-proxy.js';
import { data, grpcMessage, headers, PREFACE, settings } from '../../../test/support/http2-frames.js';
import { requestBlock } from '../../../test/support/http2-raw-client.js';
import { putsSince } from '../../../test/support/puts-since.js';
import { startProxy } from '../../../test/support/recordings.js';
import { WireProxy } from '../src/proxy/wire-proxy.js';

/** More than the 16,384 bytes that a DATA frame may contain by default. */
const LARGE = 'x'.repeat(40_000);

async function versionOf(key: string): Promise<bigint> {
  return (await openClient().get(key))?.version ?? 0n;
}

/** Opens a connection of HTTP/2 whose frames the test sends. */
function rawConnection(url: string): { readonly socket: Socket; readonly send: (...parts: Uint8Array[]) => void } {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {}).resume();
  // One write, so that the proxy gets all frames in one piece.
  const send = (...parts: Uint8Array[]): void =>
    void socket.write(Buffer.concat([Buffer.from(PREFACE), settings(), ...parts]));
  return { socket, send };
}

/** Returns the frames of a put of a short key and the value `v`. */
function put(streamId: number, key: string, options: { readonly padding?: number } = {}): Buffer {
  const request = Buffer.concat([Buffer.from([0x0a, key.length]), Buffer.from(key), Buffer.from([0x12, 1, 0x76])]);
  return Buffer.concat([
    headers(streamId, requestBlock([], '/etcdserverpb.KV/Put')),
    data(streamId, grpcMessage(request), { endStream: true, ...options }),
  ]);
}

test('the fault "duplicate" applies a request twice when the request needs several DATA frames', async () => {
  const key = unique();
  const puts = await putsSince(key);
  const { url, stop } = await startProxy(['--quiet', '--fault', `duplicate rpc=Put prefix=${key}`]);
  await openClient({ endpoints: [url] }).put(key, LARGE);
  await expect.poll(() => versionOf(key)).toBe(2n);
  expect((await stop()).stderr).not.toContain('the copy of a request failed');
  expect(await puts()).toEqual([key, key]);
});

test('etcdwire proxy ends at SIGINT although the copy of a request is due later, and sends no copy', async () => {
  const key = unique();
  const { url, stop } = await startProxy(['--quiet', '--fault', `duplicate=1h rpc=Put prefix=${key}`]);
  await openClient({ endpoints: [url] }).put(key, 'v');
  expect(await stop()).toMatchObject({ code: 0 });
  expect(await versionOf(key)).toBe(1n);
});

test('a proxy that stops gives up a connection to a member that does not answer, and reports no problem', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  let dialed = (): void => {};
  const isDialed = new Promise<void>((resolve) => {
    dialed = resolve;
  });
  const silent = await listening(() => dialed());
  const problems: string[] = [];
  const proxy = await WireProxy.start({
    host: '127.0.0.1',
    port: 0,
    members: [parseEndpoint(silent.replace('http:', 'https:'), 'endpoint')],
    traffic: { frame: () => {} },
    onProblem: (problem) => void problems.push(problem),
  });
  const { socket, send } = rawConnection(proxy.url);
  send();
  await isDialed;
  await Promise.all([once(socket, 'close'), proxy.stop()]);
  expect(vi.getTimerCount()).toBe(0);
  expect(problems).toEqual([]);
});

test('the fault "duplicate" applies a request twice when its DATA frame has padding', async () => {
  const key = unique();
  const puts = await putsSince(key);
  const { url, stop } = await startProxy(['--quiet', '--fault', `duplicate rpc=Put prefix=${key}`]);
  const { socket, send } = rawConnection(url);
  send(put(1, key, { padding: 20 }));
  await expect.poll(() => versionOf(key)).toBe(2n);
  socket.destroy();
  await stop();
  expect(await puts()).toEqual([key, key]);
});

test('etcdwire proxy reports the error with which etcd refuses the copy of a request', async () => {
  const { proxy, url, stop } = await startProxy(['--quiet', '--fault', 'duplicate rpc=LeaseGrant']);
  const client = openClient({ endpoints: [url] });
  const grant = (): Promise<unknown> => client.lease.grant({ ttl: 60, id: BigInt(`0x${unique().slice(-12)}`) });
  // etcd may carry out the copy first, and then refuses the request.
  while ((await grant().catch(() => undefined)) === undefined);
  await proxy.stderrMatches(/the copy of a request failed: status 9: etcdserver: lease already exists\n/);
  await stop();
});

test('the fault "drop-answer" shows the beginning of the lost answer, but no message and no status', async () => {
  const key = unique();
  const { proxy, url, stop } = await startProxy(['--frames', '--fault', `drop-answer rpc=Put prefix=${key}`]);
  const { send } = rawConnection(url);
  send(put(1, key));
  await proxy.stdoutMatches(/CLOSED$/m);
  expect(await versionOf(key)).toBe(1n);
  const { stdout } = await stop();
  expect(stdout.trimEnd()).toMatch(/CLOSED$/);
  expect(stdout).toContain(`PutRequest {"key":"${key}"`);
  expect(stdout).not.toContain('PutResponse');
  expect(stdout).toContain(':status: 200');
  expect(stdout).not.toContain('grpc-status');
});

test('the fault "cut" shows no frames after the connection has closed', async () => {
  const key = unique();
  const puts = await putsSince(key);
  const { proxy, url, stop } = await startProxy(['--frames', '--fault', `cut rpc=Put prefix=${key}/cut`]);
  const { send } = rawConnection(url);
  send(put(1, `${key}/cut`), put(3, `${key}/later`));
  await proxy.stdoutMatches(/CLOSED$/m);
  const { stdout } = await stop();
  expect(await puts()).toEqual([]);
  expect(stdout.trimEnd()).toMatch(/CLOSED$/);
  expect(stdout).toContain(`${key}/cut`);
  expect(stdout).not.toContain(`${key}/later`);
});

test('the fault "silent" forwards nothing that arrives together with the request', async () => {
  const key = unique();
  const puts = await putsSince(key);
  const { proxy, url, stop } = await startProxy(['--fault', `silent rpc=Put prefix=${key}/silent`]);
  const { socket, send } = rawConnection(url);
  send(put(1, `${key}/silent`), put(3, `${key}/later`));
  await proxy.stdoutMatches(new RegExp(`> put ${key}/silent = v`));
  socket.destroy();
  await proxy.stdoutMatches(/the connection closes before the answer/);
  await stop();
  expect(await puts()).toEqual([]);
});

test.for(['ends', 'resets'] as const)(
  'etcdwire proxy closes a connection with the fault "silent" when the client %s it',
  async (how) => {
    const key = unique();
    const { proxy, url, stop } = await startProxy(['--fault', `silent rpc=Put prefix=${key}`]);
    const { socket, send } = rawConnection(url);
    send(put(1, key));
    await proxy.stdoutMatches(new RegExp(`> put ${key} = v`));
    if (how === 'ends') socket.end();
    else socket.resetAndDestroy();
    await proxy.stdoutMatches(/< the connection closes before the answer {2}· Put · stream 1 · .* outcome unknown\n/);
    await stop();
  },
);

test('a fault with a prefix concerns a transaction whose key comes after the first DATA frame', async () => {
  const key = unique();
  const puts = await putsSince(key);
  const fault = `refuse rpc=Txn prefix=${key}/late`;
  const { url, stop } = await startProxy(['--quiet', '--fault', fault]);
  const etcd = openClient({ endpoints: [url], timeoutMs: 5_000 });
  const txn = etcd.txn({ then: [op.put(`${key}/first`, LARGE), op.put(`${key}/late`, 'v')] });
  await expect(txn).rejects.toThrow('a fault refuses this request');
  await stop();
  expect(await puts()).toEqual([]);
});

test('a fault concerns a message of a stream whose DATA frames contain only parts of the message', async () => {
  const key = unique();
  const { proxy, url, stop } = await startProxy(['--fault', `refuse rpc=Watch prefix=${key}`]);
  const { socket, send } = rawConnection(url);
  const create = Buffer.concat([Buffer.from([0x0a, key.length + 2, 0x0a, key.length]), Buffer.from(key)]);
  const message = grpcMessage(create);
  send(
    headers(1, requestBlock([], '/etcdserverpb.Watch/Watch')),
    data(1, message.subarray(0, 12)),
    data(1, message.subarray(12)),
  );
  await proxy.stdoutMatches(/etcdwire proxy: a fault refuses this request/);
  socket.destroy();
  await stop();
});

test('a fault with `times` counts a request with several DATA frames once', async () => {
  const key = unique();
  const puts = await putsSince(key);
  const { url, stop } = await startProxy(['--quiet', '--fault', `duplicate rpc=Put prefix=${key} times=2`]);
  const etcd = openClient({ endpoints: [url] });
  await etcd.put(`${key}/1`, LARGE);
  await etcd.put(`${key}/2`, LARGE);
  await expect.poll(() => versionOf(`${key}/1`)).toBe(2n);
  await expect.poll(() => versionOf(`${key}/2`)).toBe(2n);
  await stop();
  expect((await puts()).toSorted()).toEqual([`${key}/1`, `${key}/1`, `${key}/2`, `${key}/2`]);
});
