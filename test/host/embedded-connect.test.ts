import { beforeEach, expect, test } from 'vitest';
import { connect } from '../../docs/examples/embedded/connect.js';
import type { Host } from '../../docs/examples/embedded/host.js';
import type { WebStreams } from '../../src/host/host.js';

// docs/examples/embedded/connect.ts, with a host whose answers each test chooses.

let unsent: number[] = [];
let calls: string[] = [];

beforeEach(() => {
  [unsent, calls] = [[], []];
  globalThis.host = {
    connect: () => 1,
    write: (_socket, bytes) => {
      calls.push(`write ${bytes.length}`);
      return unsent.shift() ?? 0;
    },
    close: () => {
      calls.push('close');
      return unsent.shift() ?? 0;
    },
    abort: () => void calls.push('abort'),
  } as Partial<Host> as Host;
});

async function opened(): Promise<WebStreams> {
  const endpoint = { url: 'http://a:1', tls: false, address: { host: 'a', port: 1 } };
  const opening = connect?.(endpoint, { signal: new AbortController().signal });
  hostEvents.opened(1);
  return (await opening) as WebStreams;
}

test('a write that leaves nothing unsent ends the waits of earlier writes', async () => {
  const writer = (await opened()).writable.getWriter();
  unsent = [1_000, 0];
  // No event `drained` follows, because the second write has sent the bytes of the first one.
  await Promise.all([writer.write(new Uint8Array(2_000)), writer.write(new Uint8Array(1))]);
  expect(calls).toEqual(['write 2000', 'write 1']);
});

test('writes and `close` wait for the event `drained` while bytes are unsent', async () => {
  const writer = (await opened()).writable.getWriter();
  unsent = [5, 6];
  const done: string[] = [];
  const waits = [
    writer.write(new Uint8Array(5)).then(() => done.push('write')),
    writer.close().then(() => done.push('close')),
  ];
  await new Promise((resolve) => setImmediate(resolve));
  expect(done).toEqual([]);
  hostEvents.drained(1);
  await Promise.all(waits);
  expect(done.sort()).toEqual(['close', 'write']);
});

test('the reader gets the chunks in order, and then the end or the problem', async () => {
  const reader = (await opened()).readable.getReader();
  const first = reader.read();
  hostEvents.read(1, Uint8Array.of(1));
  hostEvents.read(1, Uint8Array.of(2));
  hostEvents.closed(1, 'reset by the peer');
  expect([await first, await reader.read()]).toEqual([
    { done: false, value: Uint8Array.of(1) },
    { done: false, value: Uint8Array.of(2) },
  ]);
  await expect(reader.read()).rejects.toThrow('reset by the peer');
  const other = (await opened()).readable.getReader();
  hostEvents.closed(1);
  expect(await other.read()).toEqual({ done: true });
});

test('a connection that fails before it opens rejects with the problem, and an aborted signal closes its socket', async () => {
  const endpoint = { url: 'http://a:1', tls: false, address: { host: 'a', port: 1 } };
  const failing = connect?.(endpoint, { signal: new AbortController().signal }) as Promise<unknown>;
  hostEvents.closed(1, 'refused');
  await expect(failing).rejects.toThrow('refused');
  const stop = new AbortController();
  const stopping = connect?.(endpoint, { signal: stop.signal }) as Promise<unknown>;
  stop.abort(new Error('too late'));
  await expect(stopping).rejects.toThrow('too late');
  expect(calls).toEqual(['abort']);
});
