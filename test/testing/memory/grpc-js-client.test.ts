import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { Client, type ClientDuplexStream, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { loadSync, type MethodDefinition, type ServiceDefinition } from '@grpc/proto-loader';
import { expect, inject, onTestFinished, test } from 'vitest';
import { listen, MemoryEtcd } from '../../../src/testing/index.js';
import { enableAuth, USER } from '../../support/auth-etcd.js';
import { openClient, unique } from '../../support/client.js';
import { queueLength } from '../../support/locks.js';

// The gRPC stack and the protobuf library of the gRPC project use a `MemoryEtcd` at a port. Most tests make the same
// calls at a real etcd, and compare.

type Message = Readonly<Record<string, unknown>>;

const PROTO = join(import.meta.dirname, '../../../proto');
const definitions = loadSync(
  ['etcdserverpb/rpc.proto', 'v3lockpb/v3lock.proto'].map((file) => join(PROTO, file)),
  { includeDirs: [PROTO], longs: String, bytes: String, enums: String },
);

/** Returns the definition of a method, such as `etcdserverpb.KV.Put`. */
function definition(name: string): MethodDefinition<object, object> {
  const at = name.lastIndexOf('.');
  const service = definitions[name.slice(0, at)] as ServiceDefinition;
  return service[name.slice(at + 1)] as MethodDefinition<object, object>;
}

interface CallOptions {
  readonly metadata?: Metadata;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** A client of grpc-js for the services of etcd. */
class Caller {
  readonly endpoint: string;
  readonly #client: Client;

  constructor(endpoint: string, options: Readonly<Record<string, number>> = {}) {
    this.endpoint = endpoint;
    this.#client = new Client(new URL(endpoint).host, credentials.createInsecure(), options);
    onTestFinished(() => this.#client.close());
  }

  /** Resolves with the response. Rejects with the error of grpc-js. */
  unary(name: string, request: object, options: CallOptions = {}): Promise<Message> {
    const { path, requestSerialize, responseDeserialize } = definition(name);
    const { metadata = new Metadata(), timeoutMs, signal } = options;
    const deadline = timeoutMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs;
    return new Promise((resolve, reject) => {
      const call = this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        metadata,
        { deadline },
        (error, response) => (error === null ? resolve(response as Message) : reject(error)),
      );
      signal?.addEventListener('abort', () => call.cancel());
    });
  }

  /** Resolves with all responses of a server-streaming call. */
  async serverStream(name: string, request: object): Promise<Message[]> {
    const { path, requestSerialize, responseDeserialize } = definition(name);
    const call = this.#client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request);
    const responses: Message[] = [];
    for await (const response of call) responses.push(response as Message);
    return responses;
  }

  bidi(name: string): ClientDuplexStream<object, object> {
    const { path, requestSerialize, responseDeserialize } = definition(name);
    const call = this.#client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize);
    onTestFinished(() => call.cancel());
    return call;
  }
}

/** Starts a `MemoryEtcd` for one test and resolves with its endpoint. */
async function memoryEndpoint(): Promise<string> {
  const listener = await listen(new MemoryEtcd());
  onTestFinished(() => listener.close());
  return listener.endpoint;
}

/**
 * Calls a `MemoryEtcd` and a real etcd. Resolves with what `calls` returns, which must be the same for both servers.
 */
async function both<Result>(
  calls: (caller: Caller) => Promise<Result>,
  options: Readonly<Record<string, number>> = {},
): Promise<Result> {
  const memory = await calls(new Caller(await memoryEndpoint(), options));
  const [real = ''] = inject('endpoints');
  expect(memory).toEqual(await calls(new Caller(real, options)));
  return memory;
}

/** Resolves with the status of a call that fails. */
async function failure(call: Promise<unknown>): Promise<{ readonly code: number; readonly details: string }> {
  const { code, details } = await call.then(
    () => Promise.reject(new Error('the call succeeded')),
    (error: ServiceError) => error,
  );
  return { code, details };
}

/** Collects the responses of a stream. */
function responsesOf(call: ClientDuplexStream<object, object>): () => Promise<Message> {
  const iterator = call[Symbol.asyncIterator]();
  return async () => {
    const { value, done } = await iterator.next();
    if (done) throw new Error('the stream ended');
    return value as Message;
  };
}

function encoded(text: string): string {
  return Buffer.from(text).toString('base64');
}

test('grpc-js writes and reads keys with unary calls', async () => {
  const key = encoded(unique());
  const result = await both(async (caller) => {
    await caller.unary('etcdserverpb.KV.Put', { key, value: encoded('one') });
    const { prevKv } = await caller.unary('etcdserverpb.KV.Put', { key, value: encoded('two'), prevKv: true });
    const { kvs, count } = await caller.unary('etcdserverpb.KV.Range', { key });
    const { deleted } = await caller.unary('etcdserverpb.KV.DeleteRange', { key });
    return { previous: (prevKv as Message).value, kvs: (kvs as Message[]).map(({ value }) => value), count, deleted };
  });
  expect(result).toEqual({ previous: encoded('one'), kvs: [encoded('two')], count: '1', deleted: '1' });
});

test('grpc-js receives the status and the message of an error', async () => {
  const results = await both(async (caller) => [
    await failure(caller.unary('etcdserverpb.KV.Put', { key: '' })),
    await failure(caller.unary('etcdserverpb.KV.Range', { key: encoded('k'), revision: '9000000000' })),
    await failure(caller.unary('etcdserverpb.Lease.LeaseRevoke', { ID: '12345' })),
    await failure(caller.unary('etcdserverpb.Auth.Authenticate', { name: 'nobody', password: '' })),
  ]);
  expect(results).toContainEqual({ code: status.INVALID_ARGUMENT, details: 'etcdserver: key is not provided' });
});

test('grpc-js watches keys on a bidirectional stream', async () => {
  const key = encoded(unique());
  const results = await both(async (caller) => {
    const call = caller.bidi('etcdserverpb.Watch.Watch');
    const next = responsesOf(call);
    call.write({ createRequest: { key, watchId: '7' } });
    const seen = [await next()];
    await caller.unary('etcdserverpb.KV.Put', { key, value: encoded('v') });
    seen.push(await next());
    call.write({ progressRequest: {} });
    seen.push(await next());
    call.write({ cancelRequest: { watchId: '7' } });
    seen.push(await next());
    return seen.map(({ watchId, created, canceled, events }) => ({
      watchId,
      created,
      canceled,
      events: ((events ?? []) as Message[]).map(({ kv }) => (kv as Message).value),
    }));
  });
  expect(results.map(({ events }) => events)).toEqual([[], [encoded('v')], [], []]);
});

test('grpc-js renews a lease on a bidirectional stream', async () => {
  const ttls = await both(async (caller) => {
    const { ID } = await caller.unary('etcdserverpb.Lease.LeaseGrant', { TTL: '60' });
    const call = caller.bidi('etcdserverpb.Lease.LeaseKeepAlive');
    const next = responsesOf(call);
    call.write({ ID });
    call.write({ ID: '12345' });
    const renewed = [(await next()).TTL, (await next()).TTL];
    await caller.unary('etcdserverpb.Lease.LeaseRevoke', { ID });
    call.write({ ID });
    return [...renewed, (await next()).TTL];
  });
  expect(ttls).toEqual(['60', undefined, undefined]);
});

test('a MemoryEtcd sends a snapshot, and its SHA-256 at the end, to grpc-js on a server stream', async () => {
  const caller = new Caller(await memoryEndpoint());
  const value = Buffer.alloc(200_000, 'v').toString('base64');
  await caller.unary('etcdserverpb.KV.Put', { key: encoded('key'), value });
  const blobs = (await caller.serverStream('etcdserverpb.Maintenance.Snapshot', {})).map(({ blob }) =>
    Buffer.from(blob as string, 'base64'),
  );
  const digest = blobs.pop();
  expect(blobs.length).toBeGreaterThan(6);
  expect(digest).toEqual(createHash('sha256').update(Buffer.concat(blobs)).digest());
});

test('a call of grpc-js ends at its deadline', async () => {
  const name = encoded(unique());
  const lock = async (caller: Caller): Promise<number> => {
    const [first, second] = [
      await caller.unary('etcdserverpb.Lease.LeaseGrant', { TTL: '60' }),
      await caller.unary('etcdserverpb.Lease.LeaseGrant', { TTL: '60' }),
    ].map(({ ID }) => ID as string);
    await caller.unary('v3lockpb.Lock.Lock', { name, lease: first });
    const { code } = await failure(caller.unary('v3lockpb.Lock.Lock', { name, lease: second }, { timeoutMs: 200 }));
    await queueLength(openClient({ endpoints: [caller.endpoint] }), Buffer.from(name, 'base64').toString(), 1);
    return code;
  };
  // A server that notices the deadline before the client resets the stream, which grpc-js reports as CANCELLED.
  const codes = [status.DEADLINE_EXCEEDED, status.CANCELLED];
  expect(codes).toContain(await lock(new Caller(await memoryEndpoint())));
  const [real = ''] = inject('endpoints');
  expect(codes).toContain(await lock(new Caller(real)));
});

test('a canceled call of grpc-js leaves no key in the queue of a lock', async () => {
  const name = unique();
  const code = await both(async (caller) => {
    const etcd = openClient({ endpoints: [caller.endpoint] });
    const [first, second] = [await etcd.lease.grant({ ttl: 60 }), await etcd.lease.grant({ ttl: 60 })];
    const request = { name: encoded(name) };
    await caller.unary('v3lockpb.Lock.Lock', { ...request, lease: `${first.id}` });
    const cancel = new AbortController();
    const waiting = failure(
      caller.unary('v3lockpb.Lock.Lock', { ...request, lease: `${second.id}` }, { signal: cancel.signal }),
    );
    await queueLength(etcd, name, 2);
    cancel.abort();
    const result = await waiting;
    await queueLength(etcd, name, 1);
    return result.code;
  });
  expect(code).toBe(status.CANCELLED);
});

test('grpc-js authenticates with the metadata field `token`', async () => {
  const endpoint = await memoryEndpoint();
  const caller = new Caller(endpoint);
  await enableAuth(openClient({ endpoints: [endpoint] }));
  const { username: name, password } = USER;
  const { token } = await caller.unary('etcdserverpb.Auth.Authenticate', { name, password });
  const metadata = new Metadata();
  metadata.set('token', token as string);
  metadata.set('other-bin', Buffer.from([0, 255]));
  const key = encoded('app/key');
  await caller.unary('etcdserverpb.KV.Put', { key, value: key }, { metadata });
  expect(await caller.unary('etcdserverpb.KV.Range', { key }, { metadata })).toMatchObject({ count: '1' });
  expect(await failure(caller.unary('etcdserverpb.KV.Range', { key: encoded('k') }, { metadata }))).toEqual({
    code: status.PERMISSION_DENIED,
    details: 'etcdserver: permission denied',
  });
  expect(await failure(caller.unary('etcdserverpb.KV.Range', { key }))).toEqual({
    code: status.INVALID_ARGUMENT,
    details: 'etcdserver: user name is empty',
  });
  metadata.set('token', 'wrong.1');
  expect(await failure(caller.unary('etcdserverpb.KV.Range', { key }, { metadata }))).toEqual({
    code: status.UNAUTHENTICATED,
    details: 'etcdserver: invalid auth token',
  });
});

test('grpc-js sends and receives large messages, up to the limits of the server', async () => {
  const name = unique();
  const put = (caller: Caller, index: number, bytes: number): Promise<Message> =>
    caller.unary('etcdserverpb.KV.Put', {
      key: encoded(`${name}${index}`),
      value: Buffer.alloc(bytes, 'v').toString('base64'),
    });
  const results = await both(
    async (caller) => {
      await Promise.all([1, 2, 3, 4].map((index) => put(caller, index, 1_500_000)));
      const { kvs } = await caller.unary('etcdserverpb.KV.Range', {
        key: encoded(name),
        rangeEnd: encoded(`${name}9`),
      });
      return [
        (kvs as Message[]).map(({ value }) => (value as string).length),
        await failure(put(caller, 5, 1_600_000)),
        await failure(put(caller, 5, 3_000_000)),
      ];
    },
    { 'grpc.max_receive_message_length': -1 },
  );
  expect(results).toMatchObject([
    [2_000_000, 2_000_000, 2_000_000, 2_000_000],
    { code: status.INVALID_ARGUMENT, details: 'etcdserver: request is too large' },
    { code: status.RESOURCE_EXHAUSTED },
  ]);
});

// etcd accepts gzip, because a package that it imports registers the compressor.
test('a compressed request of grpc-js is refused', async () => {
  const GZIP = 2;
  const caller = new Caller(await memoryEndpoint(), { 'grpc.default_compression_algorithm': GZIP });
  expect(await failure(caller.unary('etcdserverpb.KV.Range', { key: encoded('key') }))).toEqual({
    code: status.UNIMPLEMENTED,
    details: 'grpc: Decompressor is not installed for grpc-encoding "gzip"',
  });
});

test('100 calls of grpc-js run at the same time', async () => {
  const name = unique();
  const values = await both(async (caller) => {
    const keys = Array.from({ length: 100 }, (_, index) => encoded(`${name}/${index}`));
    await Promise.all(keys.map((key) => caller.unary('etcdserverpb.KV.Put', { key, value: key })));
    const found = await Promise.all(keys.map((key) => caller.unary('etcdserverpb.KV.Range', { key })));
    return found.map(({ kvs }) => (kvs as Message[])[0]?.value);
  });
  expect(values).toEqual(Array.from({ length: 100 }, (_, index) => encoded(`${name}/${index}`)));
});
