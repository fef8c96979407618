import { createServer, type Socket } from 'node:net';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { Client } from '../../src/index.js';
import { containing } from '../../src/testing/index.js';
import { defaultTransport } from '../../src/wire/default-transport.js';
import { TRANSPORT_DEFAULTS } from '../../src/wire/transport.js';
import { startScript } from '../support/child.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { scriptedServer, scriptedStream, scriptedUnary } from '../support/scripted-server.js';

const UNREACHABLE = 'http://127.0.0.1:1';

test('the tests use the transport that their Vitest project selects', () => {
  const { name } = defaultTransport(parseEndpoint(UNREACHABLE, 'endpoint'), {
    ...TRANSPORT_DEFAULTS,
    tls: undefined,
  }).constructor;
  expect(name).toBe(inject('transport') === 'grpc-js' ? 'GrpcJsTransport' : 'Http2Transport');
});

describe('a client that connects', () => {
  test('fails a call with outcome "not-sent" and the cause of the failure when no server listens', async () => {
    const error = await errorOf(openClient({ endpoints: [UNREACHABLE], timeoutMs: 300 }).put('a', 'b'));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent', method: '/etcdserverpb.KV/Put' });
    expect(error.cause).toMatchObject({
      reason: 'ConnectFailed',
      code: 'Unavailable',
      outcome: 'not-sent',
      endpoint: UNREACHABLE,
    });
    expect(error.message).toMatch(
      /last failure: cannot connect to http:\/\/127\.0\.0\.1:1: connect ECONNREFUSED 127\.0\.0\.1:1 \(/,
    );
  });

  test('times out after `connectTimeoutMs` when the peer accepts the connection but stays silent (S30)', async () => {
    const endpoint = await silentListener();
    const error = await errorOf(openClient({ endpoints: [endpoint], connectTimeoutMs: 100, timeoutMs: 350 }).get('a'));
    expect(error.outcome).toBe('not-sent');
    expect(error.message).toContain('no answer within connectTimeoutMs = 100');
  });

  test('tries the next endpoint when an endpoint is unreachable or silent (S30)', async () => {
    const endpoints = [UNREACHABLE, await silentListener(), ...inject('endpoints')];
    const etcd = openClient({ endpoints, connectTimeoutMs: 100 });
    const key = unique();
    await etcd.put(key, 'through');
    expect((await etcd.get(key))?.version).toBe(1n);
  });

  test('fails a call with outcome "not-sent" when the peer of an `https:` endpoint stays silent', async () => {
    const endpoint = (await silentListener()).replace('http:', 'https:');
    const error = await errorOf(openClient({ endpoints: [endpoint], connectTimeoutMs: 100, timeoutMs: 200 }).get('a'));
    expect(error.outcome).toBe('not-sent');
  });

  test('tries the next endpoint when a learner refuses a write (S30)', async () => {
    const learner = await scriptedServer(
      scriptedUnary(methods.kv.put, () => {
        throw Object.assign(new Error(), { code: 9, details: 'etcdserver: rpc not supported for learner' });
      }),
    );
    const key = unique();
    await openClient({ endpoints: [learner, ...inject('endpoints')] }).put(key, 'through');
    expect((await openClient().get(key))?.version).toBe(1n);
    expect(await errorOf(openClient({ endpoints: [learner] }).put(key, 'x'))).toMatchObject({
      reason: 'NotSupportedForLearner',
    });
  });

  test('opens only one connection, and opens it when the caller makes the first call', async () => {
    const proxy = await faultProxy(inject('endpoints')[0] as string);
    const etcd = openClient({ endpoints: [proxy.endpoint] });
    expect(proxy.connections).toBe(0);
    await Promise.all([etcd.get('a'), etcd.get('b'), etcd.get('c')]);
    expect(proxy.connections).toBe(1);
  });
});

describe('a call', () => {
  test('fails with outcome "unknown", and is not repeated, when it is a put and its response is lost (S27)', async () => {
    const proxy = await faultProxy(inject('endpoints')[0] as string);
    const key = unique();
    const lost = proxy.loseNextAnswer(containing(key));
    const error = await errorOf(openClient({ endpoints: [proxy.endpoint] }).put(key, 'once'));
    await lost;
    expect(error).toMatchObject({ code: 'Unavailable', outcome: 'unknown', endpoint: proxy.endpoint });
    expect(error.message).toMatch(/outcome unknown, it may have been done/);
    expect((await openClient().get(key))?.version).toBe(1n);
  });

  test('is not repeated when it is a put and the server sends an error that reads like a connection error (S27)', async () => {
    let puts = 0;
    const endpoint = await scriptedServer(
      scriptedUnary(methods.kv.put, () => {
        puts += 1;
        throw { code: 14, details: 'No connection established. Last error: Error: connect ECONNREFUSED 10.0.0.1:2379' };
      }),
    );
    expect(await errorOf(openClient({ endpoints: [endpoint] }).put('k', 'v'))).toMatchObject({ outcome: 'unknown' });
    expect(puts).toBe(1);
  });

  test('is repeated when it is a get and its response is lost (S28)', async () => {
    const proxy = await faultProxy(inject('endpoints')[0] as string);
    const key = unique();
    await openClient().put(key, 'read');
    const lost = proxy.loseNextAnswer(containing(key));
    expect((await openClient({ endpoints: [proxy.endpoint] }).get(key))?.text()).toBe('read');
    await lost;
  });

  test('fails with the abort reason as the cause when the caller aborts its signal', async () => {
    const proxy = await faultProxy(inject('endpoints')[0] as string);
    const etcd = openClient({ endpoints: [proxy.endpoint] });
    await etcd.get('a');
    proxy.blackhole();
    const stop = new AbortController();
    const writing = errorOf(etcd.put(unique(), 'x', { signal: stop.signal }));
    stop.abort(new Error('enough'));
    expect(await writing).toMatchObject({
      code: 'Canceled',
      reason: 'Canceled',
      outcome: 'unknown',
      cause: { message: 'enough' },
    });
    expect(await errorOf(etcd.put('a', 'x', { signal: stop.signal }))).toMatchObject({
      reason: 'Canceled',
      outcome: 'not-sent',
    });
  });

  test('fails with `DeadlineExceeded` when its timeout passes', async () => {
    const proxy = await faultProxy(inject('endpoints')[0] as string);
    const etcd = openClient({ endpoints: [proxy.endpoint] });
    await etcd.get('a');
    proxy.blackhole();
    expect(await errorOf(etcd.put(unique(), 'x', { timeoutMs: 50 }))).toMatchObject({
      code: 'DeadlineExceeded',
      reason: 'DeadlineExceeded',
      outcome: 'unknown',
    });
  });

  test('fails with reason `MalformedMessage` when the response is not a valid message', async () => {
    const { definition, handlers } = scriptedUnary(methods.kv.range, () => ({}));
    const broken = { call: { ...(definition.call as object), responseSerialize: () => Buffer.from([0xff, 0xff]) } };
    const endpoint = await scriptedServer({ definition: broken, handlers });
    expect(await errorOf(openClient({ endpoints: [endpoint] }).get('a'))).toMatchObject({
      reason: 'MalformedMessage',
      code: 'Internal',
    });
  });

  test('fails with code `Unimplemented` when the server does not have the method', async () => {
    const endpoint = await scriptedServer(scriptedUnary(methods.kv.range, () => ({})));
    expect(await errorOf(openClient({ endpoints: [endpoint] }).put('a', 'b'))).toMatchObject({ code: 'Unimplemented' });
  });
});

describe('closing the client', () => {
  test('ends open streams with `ClientClosed`, ends watches without an error, and refuses later calls', async () => {
    const endpoint = await scriptedServer(
      scriptedStream(methods.watch.watch, async () => {}),
      scriptedStream(methods.lease.leaseKeepAlive, async () => {}),
    );
    const etcd = openClient({ endpoints: [endpoint] });
    const watching = etcd.watch('a').batches().next();
    const raw = etcd.raw.lease.leaseKeepAlive();
    raw.send({ id: 1n });
    const reading = errorOf(raw.next());
    await etcd.close();
    // The watch ends without an error, because the caller has closed the client.
    expect(await watching).toMatchObject({ done: true });
    expect((await reading).reason).toBe('ClientClosed');
    expect(await errorOf(etcd.get('a'))).toMatchObject({ reason: 'ClientClosed', outcome: 'not-sent' });
    await etcd.close();
  });

  test('ends the calls that wait for a reachable endpoint', async () => {
    const etcd = openClient({ endpoints: [UNREACHABLE] });
    const reading = errorOf(etcd.get('a'));
    // When the get of b has timed out, the first attempts of both gets have failed.
    await errorOf(etcd.get('b', { timeoutMs: 200 }));
    await etcd.close({ drainMs: 50 });
    expect((await reading).reason).toBe('ClientClosed');
  });

  test('ends a call that waits for the connection with outcome "not-sent"', async () => {
    const etcd = openClient({ endpoints: [await silentListener()] });
    const putting = errorOf(etcd.put('a', 'b'));
    await etcd.close({ drainMs: 0 });
    const { path } = methods.kv.put;
    expect(await putting).toMatchObject({ reason: 'ClientClosed', outcome: 'not-sent', method: path });
  });

  test('allows the process to exit', async () => {
    const child = startScript(new URL('../support/closing-program.ts', import.meta.url), [
      inject('endpoints')[0] as string,
    ]);
    expect(await child.line()).toBe('closed');
    expect(await child.exited).toBe(0);
  });
});

test('a client that was never used can be closed', async () => {
  await new Client({ endpoints: [UNREACHABLE] }).close();
});

/** Starts a server that accepts connections but never sends a byte. */
async function silentListener(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => sockets.add(socket.on('error', () => {})));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}
