import { expect, test } from 'vitest';
import type { RangeRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { Client, prefix } from '../../../src/index.js';
import type { Transport } from '../../../src/wire/transport.js';
import { openClient } from '../../support/client.js';
import { scriptedAnswers, scriptedServer, scriptedUnary } from '../../support/scripted-server.js';

const kvs = (...keys: string[]) => keys.map((key) => ({ key: Buffer.from(key), modRevision: 5n }));

test('when its stream breaks, a scan continues after the last key that it has received', async () => {
  const header = { revision: 5n };
  const asked: string[] = [];
  const endpoint = await scriptedServer(
    scriptedUnary(methods.kv.range, ({ key }: RangeRequest) => {
      asked.push(Buffer.from(key).toString());
      return asked.length === 1 ? { header, kvs: kvs('a'), more: true } : { header, kvs: kvs('d') };
    }),
    scriptedAnswers(methods.kv.rangeStream, async (stream) => {
      stream.send({ rangeResponse: { header, kvs: kvs('b', 'c'), more: true } });
      stream.fail(14, 'gone');
    }),
  );
  const seen: string[] = [];
  for await (const kv of openClient({ endpoints: [endpoint] }).scan(prefix(''))) seen.push(kv.key);
  expect(seen).toEqual(['a', 'b', 'c', 'd']);
  expect(asked).toEqual(['\0', 'c\0']);
});

test('a scan cancels its request for the next page when the consumer breaks out of the loop', async () => {
  let called = 0;
  const signals: (AbortSignal | undefined)[] = [];
  const answer = { header: { revision: 5n }, kvs: kvs('a'), more: true };
  const transport = (): Transport => ({
    unary: async (call) => {
      signals.push(call.signal);
      called += 1;
      if (called > 1) return new Promise<never>(() => {});
      const { response } = call.method;
      const { decode } = await import('../../../src/wire/protobuf/reader.js');
      const { encode } = await import('../../../src/wire/protobuf/writer.js');
      return decode(response, encode(methods.kv.range.response, answer)) as never;
    },
    stream: (call, handler) => {
      const stream = { send: () => {}, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} };
      void call;
      void handler;
      return stream;
    },
    close: async () => {},
  });
  const etcd = new Client({ endpoints: ['http://h:1'], transport });
  for await (const kv of etcd.scan(prefix(''), { minModRevision: 1n })) {
    expect(kv.key).toBe('a');
    break;
  }
  expect(signals.map((signal) => signal?.aborted)).toEqual([true, true]);
  await etcd.close({ drainMs: 50 });
});
