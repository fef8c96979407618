import { connect, type Socket } from 'node:net';
import { expect, inject, test } from 'vitest';
import { type Client, http2, prefix, type Watch } from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { batchesOf } from '../../support/watch-events.js';

// A client for a small process bounds with `windowBytes` and `bufferBytes` what it holds for slow consumers.

const WATCHES = 10;
const EVENTS = 300;
const VALUE = Buffer.alloc(1_000, 'x');
const WINDOW_BYTES = 4_096;
const BUFFER_BYTES = 8_192;
/** The most that a client with ten watches may hold. */
const LIMIT_BYTES = 262_144;
/**
 * What a stream holds besides the buffer of its watch: the bytes in its window, and a piece of a message with the
 * beginning of the next one.
 */
const STREAM_BYTES = WINDOW_BYTES + 2 * WINDOW_BYTES;

const { hostname, port } = new URL(inject('endpoints')[0] as string);

/** A client with small windows, whose connections a test can cut. */
class SmallClient {
  readonly etcd: Client;
  readonly #sockets: Socket[] = [];
  #isCut = false;

  constructor() {
    const dial = (): Socket => {
      if (this.#isCut) throw new Error('cut');
      const socket = connect(Number(port), hostname);
      this.#sockets.push(socket);
      return socket;
    };
    this.etcd = openClient({ transport: http2({ connect: dial, windowBytes: WINDOW_BYTES }) });
  }

  /** Takes from each watch the events that the client holds. Resolves with their bytes. */
  async held(watches: readonly Watch[]): Promise<number> {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
    let bytes = 0;
    for (const watch of watches) {
      for (;;) {
        const next = await Promise.race([batchesOf(watch).next(), immediately()]);
        if (next === undefined || next.done) break;
        for (const event of next.value.events)
          if (event.type === 'put') bytes += event.keyBytes.length + event.kv.value.length;
      }
    }
    return bytes;
  }
}

async function write(folder: string): Promise<void> {
  const writer = openClient();
  const putAll = async (index: number): Promise<void> => {
    for (let count = 0; count < EVENTS; count += 1) await writer.put(`${folder}/${index}/${count}`, VALUE);
  };
  await Promise.all(Array.from({ length: WATCHES }, (_, index) => putAll(index)));
}

function watchAll(etcd: Client, folder: string, startRevision: bigint): Watch[] {
  return Array.from({ length: WATCHES }, (_, index) =>
    etcd.watch(prefix(`${folder}/${index}/`), { bufferBytes: BUFFER_BYTES, startRevision }),
  );
}

/** Takes all events, and checks that none is missing. */
async function takeAll(watches: readonly Watch[], folder: string): Promise<void> {
  for (const [index, watch] of watches.entries()) {
    let count = 0;
    for await (const event of watch) {
      expect(event.key).toBe(`${folder}/${index}/${count}`);
      count += 1;
      if (count === EVENTS) break;
    }
  }
}

test('a client with small windows holds at most 256 kB for ten slow consumers of new events', async () => {
  const folder = unique();
  const client = new SmallClient();
  const watches = watchAll(client.etcd, folder, 0n);
  await using last = client.etcd.watch(`${folder}/last`);
  await Promise.all([...watches, last].map((watch) => watch.created()));
  await write(folder);
  await client.etcd.put(`${folder}/last`, 'x');
  for await (const _ of last) break;
  const held = await client.held(watches);
  expect(held).toBeGreaterThan((WATCHES * BUFFER_BYTES) / 2);
  expect(held + STREAM_BYTES).toBeLessThan(LIMIT_BYTES);
});

test('a client with small windows holds at most 256 kB for ten slow consumers of past events', async () => {
  const folder = unique();
  const client = new SmallClient();
  const { header } = await client.etcd.put(folder, 'x');
  await write(folder);
  const watches = watchAll(client.etcd, folder, header.revision);
  await Promise.all(watches.map((watch) => watch.created()));
  // Each watch fills its buffer.
  for (const watch of watches) await batchesOf(watch).next();
  for (let count = 0; count < 10; count += 1) await client.etcd.get(folder);
  const held = await client.held(watches);
  expect(held + WATCHES * STREAM_BYTES).toBeLessThan(LIMIT_BYTES);
});

test('a client with small windows delivers all events to consumers of past and new events, and large values', async () => {
  const folder = unique();
  const { etcd } = new SmallClient();
  const { header } = await etcd.put(folder, 'x');
  const watches = watchAll(etcd, folder, header.revision);
  await write(folder);
  await takeAll(watches, folder);
  const value = Buffer.alloc(1_400_000, 'y');
  await etcd.put(folder, value);
  expect((await etcd.get(folder))?.value.length).toBe(value.length);
});

function immediately(): Promise<undefined> {
  return new Promise((resolve) => setImmediate(() => resolve(undefined)));
}
