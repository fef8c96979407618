import { randomBytes } from 'node:crypto';
import { createServer as createHttpServer } from 'node:http';
import { constants } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Authority, type Certificate } from '../../packages/cli/src/proxy/authority.js';
import { methods } from '../../src/gen/methods.js';
import { startScript } from '../support/child.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { NODE_OPTIONS, type NodeCall, nodePeer, nodeStore } from '../support/peers/node-peer.js';

// These tests connect the HTTP/2 client to a `node:http2` server in place of etcd.

const NOTHING = new Uint8Array();

describe('a `node:http2` server', () => {
  test.for(NODE_OPTIONS)('receives and returns 1 MB with %s', async ([, options]) => {
    const { endpoint } = await nodeStore(options);
    const etcd = openClient({ endpoints: [endpoint] });
    const value = randomBytes(1_000_000);
    await etcd.put('a', value);
    expect(value.equals((await etcd.get('a'))?.value ?? NOTHING)).toBe(true);
  });

  test('receives one call at a time when it allows one open stream', async () => {
    let [underWay, most] = [0, 0];
    const { endpoint } = await nodeStore({ settings: { maxConcurrentStreams: 1 } }, ({ stream }) => {
      most = Math.max(most, ++underWay);
      stream.on('close', () => {
        underWay -= 1;
      });
    });
    const etcd = openClient({ endpoints: [endpoint] });
    await Promise.all(Array.from({ length: 50 }, (_, index) => etcd.put(`${index}`, `${index}`)));
    const values = await Promise.all(
      Array.from({ length: 50 }, async (_, index) => (await etcd.get(`${index}`))?.text()),
    );
    expect(values).toEqual(Array.from({ length: 50 }, (_, index) => `${index}`));
    expect(most).toBe(1);
  });

  test('that allows no open stream keeps the client’s process alive until the waiting call ends', async () => {
    const { endpoint } = await nodeStore({ settings: { maxConcurrentStreams: 0 } });
    const program = new URL('../support/waiting-program.ts', import.meta.url);
    const child = startScript(program, [endpoint, '1000']);
    expect(await child.rest()).toEqual(['DeadlineExceeded, not-sent']);
    expect(await child.exited).toBe(0);
  });

  test('receives the waiting calls when it raises the limit on open streams', async () => {
    const { range } = methods.kv;
    const held: NodeCall[] = [];
    const { endpoint } = await nodePeer(
      (call) => {
        held.push(call);
        if (held.length === 1) call.session.settings({ maxConcurrentStreams: 5 });
        // The server answers no call before all five have arrived.
        if (held.length === 5) for (const each of held) each.answer(range.response, {});
      },
      { settings: { maxConcurrentStreams: 1 } },
    );
    const etcd = openClient({ endpoints: [endpoint] });
    expect(await Promise.all(Array.from({ length: 5 }, () => etcd.get('a')))).toEqual(Array(5).fill(undefined));
  });

  // nghttp2, on which node:http2 is built, applies new SETTINGS only after the client has acknowledged them. nghttp2
  // would report an error if the client first sent data that only the new SETTINGS allow, and then the acknowledgment.
  test('receives a whole request even if it closes and reopens the window while the request is sent', async () => {
    const { endpoint } = await nodeStore({ settings: { initialWindowSize: 100_000 } }, ({ session }) => {
      // These SETTINGS make the window of the stream negative, because the client has already sent bytes on the stream.
      session.settings({ initialWindowSize: 0 }, () => session.settings({ initialWindowSize: 100_000 }));
    });
    const etcd = openClient({ endpoints: [endpoint] });
    const value = randomBytes(1_000_000);
    await etcd.put('a', value);
    expect(value.equals((await etcd.get('a'))?.value ?? NOTHING)).toBe(true);
  });

  test('can send many header fields, including long fields and fields that change', async () => {
    const { range } = methods.kv;
    let calls = 0;
    const { endpoint } = await nodePeer((call) => {
      calls += 1;
      const some = Array.from({ length: 30 }, (_, index) => [`x-${index}`, `${calls % (index + 1)} ~{|}~ Ä`]);
      // This field is longer than the maximum frame size (16,384 bytes).
      const long = { 'x-long': '~'.repeat(20_000 + calls) };
      call.head({ ...Object.fromEntries(some), ...(calls % 3 === 0 ? long : {}) }, { 'x-trailer': `${calls}` });
      call.answer(range.response, { count: BigInt(calls) });
    });
    const etcd = openClient({ endpoints: [endpoint] });
    for (let call = 1; call <= 50; call += 1) expect((await etcd.range('a')).count).toBe(call);
  });

  test('can send interim responses, pings and frames of unknown types', async () => {
    const pings: (Error | null)[] = [];
    const { endpoint } = await nodeStore({}, async ({ stream, session }) => {
      stream.additionalHeaders({ ':status': 103, link: '</a>' });
      session.altsvc('h2=":1"', stream.id as number);
      await new Promise<void>((resolve) => {
        session.ping((error) => {
          pings.push(error);
          resolve();
        });
      });
    });
    const etcd = openClient({ endpoints: [endpoint] });
    await etcd.put('a', 'b');
    expect((await etcd.get('a'))?.text()).toBe('b');
    expect(pings).toEqual([null, null]);
  });

  test.for(['trailers', 'headers alone'] as const)('can fail a call with %s that contain UTF-8 text', async (how) => {
    const message = 'no caf%C3%A9 %F0%9F%94%92 for 100% of you';
    const { endpoint } = await nodePeer((call) => {
      if (how === 'headers alone') return call.trailersOnly(9, message);
      call.head({}, { 'grpc-status': 9, 'grpc-message': message });
      call.stream.end();
    });
    expect(await errorOf(openClient({ endpoints: [endpoint] }).put('a', 'b'))).toMatchObject({
      code: 'FailedPrecondition',
      problem: 'no café 🔒 for 100% of you',
    });
  });

  test.for([
    [401, 'Unauthenticated'],
    [403, 'PermissionDenied'],
    [404, 'Unimplemented'],
    [418, 'Unknown'],
    [429, 'Unavailable'],
    [503, 'Unavailable'],
  ] as const)('fails a put with outcome "unknown" when it answers with HTTP status %i', async ([status, code]) => {
    const { endpoint } = await nodePeer(({ stream }) => {
      stream.respond({ ':status': status, 'content-type': 'text/html' });
      stream.end('<h1>no</h1>');
    });
    expect(await errorOf(openClient({ endpoints: [endpoint] }).put('a', 'b'))).toMatchObject({
      code,
      outcome: 'unknown',
    });
  });

  test.for([
    [constants.NGHTTP2_NO_ERROR, 'Internal'],
    [constants.NGHTTP2_INTERNAL_ERROR, 'Internal'],
    [constants.NGHTTP2_CANCEL, 'Canceled'],
    [constants.NGHTTP2_ENHANCE_YOUR_CALM, 'ResourceExhausted'],
    [constants.NGHTTP2_INADEQUATE_SECURITY, 'PermissionDenied'],
  ] as const)(
    'fails a put with outcome "unknown" when it resets the stream with error code %i',
    async ([reset, code]) => {
      const { endpoint, sessions } = await nodeStore({}, ({ stream, headers }) => {
        if (headers[':path'] === methods.kv.put.path) stream.close(reset);
      });
      const etcd = openClient({ endpoints: [endpoint] });
      expect(await errorOf(etcd.put('a', 'b'))).toMatchObject({ code, outcome: 'unknown' });
      expect(await etcd.get('a')).toBeUndefined();
      expect(sessions).toHaveLength(1);
    },
  );

  test('receives a get again after it has reset the stream of the get with REFUSED_STREAM', async () => {
    let calls = 0;
    const { endpoint } = await nodeStore({}, ({ stream }) => {
      calls += 1;
      if (calls === 1) stream.close(constants.NGHTTP2_REFUSED_STREAM);
    });
    expect(await openClient({ endpoints: [endpoint] }).get('a')).toBeUndefined();
    expect(calls).toBe(2);
  });

  test('answers the streams up to the last stream of GOAWAY, and receives the other call on a new connection', async () => {
    const { put } = methods.kv;
    const calls: NodeCall[] = [];
    const { endpoint, sessions } = await nodePeer((call) => {
      calls.push(call);
      if (calls.length === 3) {
        const [first, second] = calls as [NodeCall, NodeCall];
        call.session.goaway(constants.NGHTTP2_NO_ERROR, second.stream.id as number);
        for (const each of [first, second]) each.answer(put.response, {});
      } else if (calls.length > 3) call.answer(put.response, {});
    });
    const etcd = openClient({ endpoints: [endpoint] });
    await Promise.all(['a', 'b', 'c'].map((key) => etcd.put(key, 'x')));
    expect(calls.map(({ session }) => sessions.indexOf(session))).toEqual([0, 0, 0, 1]);
  });

  test('answers before it closes the connection, and receives the next call on a new connection', async () => {
    const { endpoint, sessions } = await nodeStore({}, ({ session }) => session.close());
    const etcd = openClient({ endpoints: [endpoint] });
    for (let call = 0; call < 20; call += 1) await etcd.put(`${call}`, 'x');
    expect(sessions).toHaveLength(20);
  });

  test('can answer before it has read the whole request', async () => {
    const { put } = methods.kv;
    const { endpoint, sessions } = await nodePeer((call) => call.answer(put.response, {}), {
      settings: { initialWindowSize: 1_000 },
    });
    const etcd = openClient({ endpoints: [endpoint] });
    for (let call = 0; call < 3; call += 1) await etcd.put('a', new Uint8Array(100_000));
    expect(sessions).toHaveLength(1);
  });

  test('echoes the messages of a stream, both one by one and 1,000 at once', async () => {
    const { request, response } = methods.lease.leaseKeepAlive;
    const { endpoint } = await nodePeer(async (call) => {
      call.head();
      for await (const { id } of call.messages(request)) call.send(response, { id, ttl: id });
      call.stream.end();
    });
    const stream = openClient({ endpoints: [endpoint] }).raw.lease.leaseKeepAlive();
    for (let id = 1n; id <= 20n; id += 1n) {
      stream.send({ id });
      expect((await stream.next()).value).toMatchObject({ id, ttl: id });
    }
    const ids = Array.from({ length: 1_000 }, (_, index) => BigInt(index));
    for (const id of ids) stream.send({ id });
    stream.end();
    const echoed: bigint[] = [];
    for await (const { id } of stream) echoed.push(id);
    expect(echoed).toEqual(ids);
  });

  test('cannot be replaced by an HTTP/1.1 server, because the client cannot connect to such a server', async () => {
    const server = createHttpServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await errorOf(openClient({ endpoints: [endpoint] }).put('a', 'b', { timeoutMs: 300 }))).toMatchObject({
      outcome: 'not-sent',
      cause: { reason: 'ConnectFailed', message: expect.stringContaining('the peer answers in HTTP/1') },
    });
  });
});

describe('a `node:http2` server with TLS', () => {
  let [ca, certificate]: [string, Certificate] = ['', { cert: '', key: '' }];

  beforeAll(async () => {
    const authority = await Authority.create();
    ca = authority.cert;
    certificate = await authority.issue({ names: ['127.0.0.1', 'etcd.example'] });
  });

  test.for([undefined, 'etcd.example'])(
    'is accepted when its certificate contains the host or `tls.serverName` (`tls.serverName`: %s)',
    async (serverName) => {
      const { endpoint } = await nodeStore({ ...certificate });
      const etcd = openClient({ endpoints: [endpoint], tls: { ca, serverName } });
      const value = randomBytes(1_000_000);
      await etcd.put('a', value);
      expect(value.equals((await etcd.get('a'))?.value ?? NOTHING)).toBe(true);
    },
  );

  test('is refused when its certificate does not contain `tls.serverName`', async () => {
    const { endpoint, sessions } = await nodeStore({ ...certificate });
    const tls = { ca, serverName: 'other.example' };
    const error = await errorOf(openClient({ endpoints: [endpoint], tls }).put('a', 'b', { timeoutMs: 300 }));
    expect(error).toMatchObject({ outcome: 'not-sent', cause: { reason: 'ConnectFailed' } });
    expect(error.message).toContain('other.example');
    expect(sessions).toEqual([]);
  });

  test('is refused when it does not select h2 through ALPN', async () => {
    const server = createHttpsServer(certificate);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const endpoint = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const etcd = openClient({ endpoints: [endpoint], tls: { ca } });
    expect(await errorOf(etcd.put('a', 'b', { timeoutMs: 300 }))).toMatchObject({
      outcome: 'not-sent',
      cause: { reason: 'ConnectFailed' },
    });
  });
});
