import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import {
  Client,
  compare,
  getMany,
  type Interceptor,
  type KeyValue,
  keyRange,
  modifyKey,
  op,
  prefix,
} from '../../src/index.js';
import { Election, Session } from '../../src/locks.js';
import { MemoryEtcd, memory } from '../../src/testing/index.js';
import { encode } from '../../src/wire/protobuf/writer.js';
import { openClient, unique } from '../support/client.js';
import { CALLS, type PublicCall, rightArguments, type World } from '../support/public-calls.js';

// A caller may overwrite its buffer once a method has returned. Calls and watches must still send the original bytes.

/** Opens a client that sends each call in a later turn of the event loop, as if it first had to fetch a token. */
function lateClient() {
  return openClient({
    interceptors: [
      {
        unary: async (call, next) => {
          await turn();
          return next(call);
        },
      },
    ],
  });
}

/** Passes a buffer that contains `text` to `action`, and overwrites the buffer as soon as `action` has returned. */
function withBuffer<T>(text: string, action: (buffer: Uint8Array) => T): T {
  const buffer = new Uint8Array(Buffer.from(text));
  const result = action(buffer);
  buffer.fill(0x2e);
  return result;
}

test('the client sends the original keys and values when the caller overwrites its buffers before the requests leave', async () => {
  const [etcd, key] = [lateClient(), unique()];
  await withBuffer(key, (bytes) => withBuffer('value', (value) => etcd.put(bytes, value)));
  expect((await withBuffer(key, (bytes) => etcd.get(bytes)))?.text()).toBe('value');
  const { succeeded } = await withBuffer(key, (bytes) =>
    etcd.txn({ if: [compare.exists(bytes)], then: [op.get(bytes)], else: [] }),
  );
  expect(succeeded).toBe(true);
  expect((await withBuffer(key, (bytes) => etcd.range(prefix(bytes)))).count).toBe(1);
  const scanned: KeyValue[] = [];
  for await (const kv of withBuffer(key, (bytes) => etcd.scan(prefix(bytes)))) scanned.push(kv);
  expect(scanned.map((kv) => kv.key)).toEqual([key]);
  expect((await withBuffer(key, (bytes) => etcd.delete(bytes))).deleted).toBe(1);
});

test.each(['key', 'prefix', 'key range'] as const)(
  'a watch, a mirror and a cached range of a %s use the original keys when the caller overwrites its buffer before the client sends the requests',
  async (form) => {
    const [etcd, name] = [lateClient(), unique()];
    const keysOf = (bytes: Uint8Array) => {
      if (form === 'key') return bytes;
      return form === 'prefix' ? prefix(bytes) : keyRange(bytes, new Uint8Array(Buffer.from(`${name}\xff`)));
    };
    await etcd.put(name, 'first');
    const watch = withBuffer(name, (bytes) => etcd.watch(keysOf(bytes)));
    const mirror = withBuffer(name, (bytes) => etcd.mirror(keysOf(bytes)))[Symbol.asyncIterator]();
    const cached = await withBuffer(name, (bytes) => etcd.cachedRange(keysOf(bytes)));
    await watch.created();
    expect((await mirror.next()).value).toMatchObject({ type: 'keys', kvs: { length: 1 } });
    const { header } = await etcd.put(name, 'second');
    await cached.waitForRevision(header.revision);
    expect(cached.get(name)?.text()).toBe('second');
    expect((await watch.batches().next()).value).toMatchObject({ revision: header.revision });
    await Promise.all([watch.close(), cached.close(), mirror.return?.(undefined as never)]);
  },
);

test('an election campaign proclaims the original value when the caller overwrites its buffer before the client sends the request', async () => {
  const etcd = lateClient();
  const election = new Election(await Session.open(etcd), unique('election'));
  await using _leadership = await withBuffer('me', (value) => election.campaign(value));
  expect((await election.leader())?.text()).toBe('me');
});

test('`modifyKey` writes the original key when the caller overwrites its buffer while `change` runs', async () => {
  const [etcd, key] = [lateClient(), unique()];
  await withBuffer(key, (bytes) => modifyKey(etcd, bytes, () => 'changed'));
  expect((await etcd.get(key))?.text()).toBe('changed');
});

test('the raw functions send the original message when the caller overwrites its buffers and its lists', async () => {
  const [etcd, key] = [lateClient(), unique()];
  const bytes = new Uint8Array(Buffer.from(key));
  const success = [{ request: { case: 'requestPut' as const, value: { key: bytes, value: bytes } } }];
  const sending = etcd.raw.kv.txn({ success });
  bytes.fill(OVERWRITTEN);
  success.pop();
  await sending;
  expect((await etcd.get(key))?.text()).toBe(key);
  const range = { key: new Uint8Array(Buffer.from(key)) };
  const watching = etcd.raw.watch.watch();
  watching.send({ requestUnion: { case: 'createRequest', value: range } });
  range.key.fill(OVERWRITTEN);
  await watching.next();
  await etcd.put(key, 'seen');
  expect((await watching.next()).value?.events[0]?.kv?.value).toEqual(new Uint8Array(Buffer.from('seen')));
  watching.cancel();
});

test('`getMany` returns the values of the original keys when the caller overwrites its buffers and its list', async () => {
  const [etcd, name] = [lateClient(), unique()];
  const keys = Array.from({ length: 200 }, (_, index) => new Uint8Array(Buffer.from(`${name}/${index}`)));
  await Promise.all(keys.map((key, index) => etcd.put(key, String(index))));
  const reading = getMany(etcd, keys);
  for (const key of keys.splice(0)) key.fill(OVERWRITTEN);
  expect((await reading).kvs.map((kv) => kv?.text())).toEqual(Array.from({ length: 200 }, (_, index) => String(index)));
});

/** The byte that replaces each byte of a buffer after the call has returned. */
const OVERWRITTEN = 0x2e;
const ORIGINAL = Buffer.from('original-bytes');

/** Yields each argument that is a text, so that the function may accept bytes there, too. */
function* bytesArguments(entry: PublicCall): Generator<{ readonly what: string; readonly give: Give }> {
  for (const [index, [argument, kind]] of Object.entries(entry.args).entries()) {
    const put = (value: unknown) => (given: unknown[]) => {
      given[index] = value;
    };
    if (typeof kind.right === 'string') yield { what: argument, give: (buffer) => put(buffer) };
    if (Array.isArray(kind.right)) yield { what: `${argument}[0]`, give: (buffer) => put([buffer]) };
    if (kind.right instanceof Object && 'rev' in kind.right)
      yield { what: argument, give: (buffer) => put({ ...(kind.right as object), name: buffer, key: buffer }) };
    for (const [name, field] of Object.entries(kind.fields ?? {}))
      if (typeof field.right === 'string')
        yield {
          what: name,
          give: (buffer) => put({ ...withoutExpected(kind.right), [name]: buffer }),
        };
  }
}

type Give = (buffer: Uint8Array) => (given: unknown[]) => void;

/** `updateKey` and `deleteKeyIf` accept either a revision or a value. */
function withoutExpected(options: unknown): object {
  const { modRevision: _, ...others } = { ...(options as { readonly modRevision?: bigint } | undefined) };
  return others;
}

/**
 * Returns a server, a session, and a client that sends each call late and adds the bytes of its requests to `requests`.
 */
async function recordedWorld(requests: Uint8Array[]): Promise<World> {
  const record: Interceptor = {
    unary: async (call, next) => {
      await turn();
      requests.push(encode(call.method.request, call.request as never));
      return next(call);
    },
    stream: (call, handler, next) => {
      const stream = next(call, handler);
      return {
        ...stream,
        send: (message) => {
          requests.push(encode(call.method.request, message as never));
          stream.send(message);
        },
        end: () => stream.end(),
        cancel: () => stream.cancel(),
        pause: () => stream.pause(),
        resume: () => stream.resume(),
      };
    },
  };
  const server = new MemoryEtcd();
  const etcd = new Client({ transport: memory(server), interceptors: [record] });
  onTestFinished(() => etcd.close({ drainMs: 50 }));
  return { server, etcd, session: await Session.open(etcd, { ttl: 600 }) };
}

/** Returns all bytes that are reachable from a value, such as an operation of a transaction. */
function bytesIn(value: unknown, depth = 4): Uint8Array[] {
  if (value instanceof Uint8Array) return [value];
  if (typeof value !== 'object' || value === null || depth === 0) return [];
  return Object.values(value).flatMap((each) => bytesIn(each, depth - 1));
}

/** How many turns of the event loop a call has to send its requests. */
const TURNS = 60;

test("no function reads the caller's buffer after the function has returned", async () => {
  const requests: Uint8Array[] = [];
  const world = await recordedWorld(requests);
  const overwritten = Buffer.alloc(ORIGINAL.length, OVERWRITTEN);
  const found: string[] = [];
  const original: string[] = [];
  for (const [name, entry] of Object.entries(CALLS)) {
    if (entry.isRemote) continue;
    for (const { what, give } of bytesArguments(entry)) {
      const call = (await entry.make(world)) as (...given: unknown[]) => unknown;
      const given = rightArguments(entry, world);
      const buffer = new Uint8Array(ORIGINAL);
      give(buffer)(given);
      requests.length = 0;
      let result: unknown;
      try {
        result = call(...given);
      } catch {
        // The function does not accept bytes here.
        continue;
      } finally {
        buffer.fill(OVERWRITTEN);
      }
      const seen: Uint8Array[] = bytesIn(result);
      if (result instanceof Promise) result.then((value) => void seen.push(...bytesIn(value))).catch(() => {});
      const next = (result as Partial<AsyncIterator<unknown>> | undefined)?.next;
      if (typeof next === 'function') next.call(result).catch(() => {});
      for (let turns = 0; turns < TURNS; turns += 1) await turn();
      const all = [...requests, ...seen].map((bytes) => Buffer.from(bytes));
      if (all.some((bytes) => bytes.includes(overwritten))) found.push(`${name}: ${what}`);
      if (all.some((bytes) => bytes.includes(ORIGINAL))) original.push(`${name}: ${what}`);
    }
  }
  expect(found).toEqual([]);
  // The requests of these functions contain the original bytes of the buffer, so the test would notice later reads.
  expect(original).toEqual(expect.arrayContaining(['CoreClient.put: value', 'modifyKey: key', 'getMany: keys[0]']));
  expect(original.length).toBeGreaterThan(60);
});
