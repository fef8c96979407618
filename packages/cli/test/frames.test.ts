import { expect, test } from 'vitest';
import type { TxnRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { openByteStream } from '../../../src/host/node.js';
import { http2Over } from '../../../src/wire/http2/http2-transport.js';
import { encode, type Init } from '../../../src/wire/protobuf/writer.js';
import { authEtcd, TOKEN, USER } from '../../../test/support/auth-etcd.js';
import { openClient } from '../../../test/support/client.js';
import { fieldsOf, frameRows } from '../src/frames.js';
import type { WireFrame } from '../src/inspect/frames.js';
import { tapped } from '../src/inspect/tapped.js';

/** Returns the frames of a client that logs in, watches a key, puts a large value, and receives an error. */
async function framesOfCalls(): Promise<WireFrame[]> {
  const { endpoints } = await authEtcd();
  const frames: WireFrame[] = [];
  const transport = http2Over(tapped(openByteStream, (frame) => frames.push(frame)));
  const etcd = openClient({ endpoints, auth: USER, transport });
  const watch = etcd.watch('app/k');
  await watch.created();
  await etcd.put('app/k', 'v'.repeat(40_000));
  await watch.batches().next();
  await etcd.get('forbidden').catch(() => {});
  await etcd.close();
  return frames;
}

test('`frameRows` assigns every byte of a frame to exactly one row, in order', async () => {
  const frames = await framesOfCalls();
  expect(frames.map(({ type }) => type)).toEqual(
    expect.arrayContaining(['PREFACE', 'SETTINGS', 'HEADERS', 'DATA', 'RST_STREAM', 'GOAWAY']),
  );
  for (const frame of frames) {
    let at = 0;
    for (const { start, end } of frameRows(frame)) {
      expect(start).toBe(at);
      expect(end).toBeGreaterThan(start);
      at = end;
    }
    expect(at, frame.type).toBe(frame.bytes.length);
  }
});

test('`frameRows` shows no token and no password', async () => {
  const shown = (await framesOfCalls()).flatMap((frame) => frameRows(frame).map(({ text }) => text)).join('\n');
  expect(shown).toContain('token: (not shown)');
  expect(shown).not.toContain(USER.password);
  expect(shown).not.toMatch(TOKEN);
});

test('`frameRows` puts the malformed bytes at the end of a message into a separate row', () => {
  const answer = { method: '/etcdserverpb.KV/Put', typeName: 'etcdserverpb.PutRequest' };
  const bytes = Uint8Array.of(0x0a, 1, 0x61, 0x12, 9, 0x62);
  const whole = Uint8Array.of(0, 0, 11, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 6, ...bytes);
  const rows = frameRows({
    ...{ atMs: 0, connection: 1, endpoint: 'http://127.0.0.1:2379', direction: 'sent', streamId: 1 },
    ...{ type: 'DATA', flags: [], bytes: whole, detail: { kind: 'data', messages: [{ ...answer, bytes }] } },
  });
  expect(rows.slice(2).map(({ start, end, text }) => [start, end, text])).toEqual([
    [14, 17, '1 key "a"'],
    [17, 18, '2 value'],
    [18, 20, expect.stringContaining('malformed')],
  ]);
});

test('`fieldsOf` says why a message that cannot be decoded has no fields', () => {
  const [method, typeName] = ['/etcdserverpb.KV/Txn', 'etcdserverpb.TxnRequest'];
  let nested: Init<TxnRequest> = {};
  for (let depth = 0; depth < 60; depth += 1)
    nested = { success: [{ request: { case: 'requestTxn', value: nested } }] };
  const bytes = encode(methods.kv.txn.request, nested);
  expect(fieldsOf({ method, typeName, bytes })).toEqual({
    undecoded: expect.stringContaining('nested deeper than 100'),
  });
});
