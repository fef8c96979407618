import fc from 'fast-check';
import { EtcdError } from '../../src/base/etcd-error.js';
import { monotonicMs } from '../../src/base/timers.js';
import { gateway } from '../../src/gateway.js';
import { methods } from '../../src/gen/methods.js';
import { fuzz } from '../support/fuzz.js';

interface Input {
  readonly status: number;
  /** The chunks of the body, in order. */
  readonly pieces: readonly string[];
  /** Whether the connection breaks after the last chunk, before the end of the body. */
  readonly breaks: boolean;
  readonly how: 'unary' | 'watch' | 'keepalive';
}

const scalar = fc.oneof(
  fc.constantFrom('1', '-1', '9223372036854775808', 'YQ==', 'a b', '', 'NaN', 'PUT', 'DELETE', 'SIDEWAYS'),
  fc.string({ maxLength: 12 }),
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.constant(null),
);
const NAMES = [
  ...['header', 'kvs', 'count', 'more', 'key', 'value', 'revision', 'lease', 'ID', 'TTL', 'events', 'kv', 'type'],
  ...['watch_id', 'created', 'canceled', 'cancel_reason', 'compact_revision', 'error', 'code', 'message', 'result'],
  ...['grpc_code', '__proto__', 'constructor', 'toString', 'valueOf', 'since 3.9'],
];
const json = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    { weight: 3, arbitrary: scalar },
    { weight: 1, arbitrary: fc.array(tie('value'), { maxLength: 3 }) },
    { weight: 4, arbitrary: fc.dictionary(fc.constantFrom(...NAMES), tie('value'), { maxKeys: 4 }) },
  ),
})).value;
const line = fc.oneof(
  { weight: 4, arbitrary: json.map((value) => JSON.stringify(value)) },
  { weight: 4, arbitrary: json.map((result) => `${JSON.stringify({ result })}\n`) },
  { weight: 4, arbitrary: json.map((value) => `${JSON.stringify({ result: { header: {}, ...Object(value) } })}\n`) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '{"result":{"header":{},"created":true,"watch_id":"1"}}\n',
      ...['{}', '[', '\n', '{"header":{},"count":"5"}', '{"header":{}}', '{"count":"5"}'],
    ),
  },
  { weight: 1, arbitrary: fc.string({ maxLength: 20 }) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom('error', 'code', 'message', 'result'), fc.constantFrom('{"error":', '{"result":', '['))
      .map(([name, open]) => `{"${name}":${nested(open, 6_000)}}\n`),
  },
  { weight: 1, arbitrary: fc.constantFrom('code', 'error').map((name) => `{"${name}":{"toString":1,"valueOf":1}}`) },
);

/** Returns JSON in which `open` and its closing brackets stand around a number `levels` times. */
function nested(open: string, levels: number): string {
  const close = [...open].reverse().map((character) => ({ '{': '}', '[': ']' })[character] ?? '');
  return open.repeat(levels) + 7 + close.join('').repeat(levels);
}

const good = fc.constantFrom('{"header":{},"count":"5"}', '{"header":{"revision":"7"},"kvs":[{}],"since 3.9":1}');

fuzz<Input>({
  target: 'gateway',
  property: 'a gateway client turns any HTTP response into a message, an EtcdError, or the end of a stream',
  inputs: fc.record({
    status: fc.oneof(
      { weight: 4, arbitrary: fc.constant(200) },
      { weight: 1, arbitrary: fc.constantFrom(400, 401, 404, 500, 503) },
    ),
    pieces: fc
      .oneof({ weight: 9, arbitrary: fc.array(line, { maxLength: 4 }) }, { weight: 1, arbitrary: fc.tuple(good) })
      .chain((lines) => cut(lines.join(''))),
    breaks: fc.boolean(),
    how: fc.constantFrom('unary', 'watch', 'keepalive'),
  }),
  runs: 2_000,
  check: async (input) => {
    const transport = gateway({ fetch: async () => answer(input) })(
      { url: 'http://127.0.0.1:2379', tls: false, address: { host: '127.0.0.1', port: 2379 } },
      {
        tls: undefined,
        connectTimeoutMs: 1_000,
        pingIntervalMs: 6_000,
        pingTimeoutMs: 1_000,
        maxRequestBytes: 10_000,
        maxReceiveBytes: 10_000,
      },
    );
    if (input.how !== 'unary') {
      const method = input.how === 'watch' ? methods.watch.watch : methods.lease.leaseKeepAlive;
      return new Promise<string>((resolve, reject) => {
        let ended = false;
        const stream = transport.stream<object, object>(
          { method: method as never },
          {
            message: (message) => {
              if (ended || typeof message !== 'object')
                reject(new Error('a message after the end, or a message that is not an object'));
            },
            end: (error) => {
              if (ended) reject(new Error('ended twice'));
              ended = true;
              if (error !== undefined && !(error instanceof EtcdError)) reject(error);
              else resolve(error === undefined ? 'end' : 'error');
            },
          },
        );
        const create = { requestUnion: { case: 'createRequest', value: { watchId: 1n, key: new Uint8Array([1]) } } };
        stream.send(input.how === 'watch' ? create : { id: 1n });
        stream.end();
      });
    }
    const { range: method } = methods.kv;
    const call = { method, request: { key: new Uint8Array([1]) }, timeoutMs: 5_000, deadline: monotonicMs() + 5_000 };
    return transport.unary(call).then(
      ({ count }) => {
        if (typeof count !== 'bigint') throw new Error('a response without a count');
        return 'answer';
      },
      (error: unknown) => {
        if (error instanceof EtcdError) return 'error';
        throw error;
      },
    );
  },
  parts: { answer: 0.01, error: 0.3, end: 0.02 },
});

function answer({ status, pieces, breaks }: Input): Response {
  const encoder = new TextEncoder();
  const left = [...pieces];
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      const piece = left.shift();
      if (piece !== undefined) controller.enqueue(encoder.encode(piece));
      else if (breaks) controller.error(new TypeError('terminated'));
      else controller.close();
    },
  });
  return new Response(body, { status });
}

/** Generates lists of pieces into which the text is cut at random places. */
function cut(text: string): fc.Arbitrary<string[]> {
  return fc.array(fc.nat({ max: text.length }), { maxLength: 4 }).map((at) => {
    const sorted = [0, ...at.sort((a, b) => a - b), text.length];
    return sorted.slice(1).map((end, index) => text.slice(sorted[index], end));
  });
}
