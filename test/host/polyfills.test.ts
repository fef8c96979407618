import { createContext, runInContext } from 'node:vm';
import { build } from 'esbuild';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';

// docs/examples/embedded/polyfills.ts, in a context of `node:vm`, which has only the globals of the language.

/** The globals of the context, which the polyfills have set, and the function `runTimers`. */
type Engine = Pick<typeof globalThis, 'TextEncoder' | 'TextDecoder' | 'URL' | 'atob' | 'btoa' | 'queueMicrotask'> &
  Pick<typeof globalThis, 'AbortController' | 'AbortSignal' | 'setTimeout' | 'clearTimeout' | 'crypto'> & {
    readonly polyfills: { runTimers(): number };
  };

let engine: Engine;
let nowMs = 0;

beforeAll(async () => {
  const { outputFiles } = await build({
    entryPoints: ['docs/examples/embedded/polyfills.ts'],
    bundle: true,
    format: 'iife',
    globalName: 'polyfills',
    target: 'es2022',
    write: false,
  });
  const randomBytes = (length: number): Uint8Array => new Uint8Array(length).fill(7);
  engine = createContext({ host: { nowMs: () => nowMs, randomBytes } }) as Engine;
  runInContext(outputFiles[0]?.text ?? '', engine);
});

const text = fc.string({
  unit: fc.oneof(fc.string({ unit: 'binary', minLength: 1 }), fc.constantFrom('\ud83d', '\ude00', 'é', '€', '😀')),
});
/** Bytes that are often UTF-8, and often nearly UTF-8. */
const bytes = fc
  .array(
    fc.oneof(fc.integer({ min: 0, max: 255 }), fc.constantFrom(0xe0, 0xed, 0xf0, 0xf4, 0x80, 0x9f, 0xa0, 0xbf, 0xc2)),
  )
  .map((list) => Uint8Array.from(list));

test('the polyfill of TextEncoder encodes any string like Node.js', () => {
  const [ours, theirs] = [new engine.TextEncoder(), new TextEncoder()];
  fc.assert(
    fc.property(text, fc.nat(40), (given, room) => {
      expect([...ours.encode(given)]).toEqual([...theirs.encode(given)]);
      const [into, expected] = [new Uint8Array(room), new Uint8Array(room)];
      expect({ ...ours.encodeInto(given, into) }).toEqual(theirs.encodeInto(given, expected));
      expect(into).toEqual(expected);
    }),
    { numRuns: 2_000 },
  );
});

test('the polyfill of TextDecoder decodes or refuses any bytes like Node.js', () => {
  const decoded = (decoder: InstanceType<typeof TextDecoder>, given: Uint8Array): string => {
    try {
      return decoder.decode(given);
    } catch {
      return 'refused';
    }
  };
  fc.assert(
    fc.property(
      fc.oneof(
        bytes,
        text.map((given) => new TextEncoder().encode(given)),
      ),
      fc.boolean(),
      (given, fatal) => {
        const options = { fatal, ignoreBOM: true };
        const [ours, theirs] = [new engine.TextDecoder('utf-8', options), new TextDecoder('utf-8', options)];
        expect(decoded(ours, given)).toBe(decoded(theirs, given));
      },
    ),
    { numRuns: 5_000 },
  );
});

test('the polyfills of btoa and atob agree with Node.js', () => {
  fc.assert(
    fc.property(bytes, (given) => {
      const binary = String.fromCharCode(...given);
      expect(engine.btoa(binary)).toBe(btoa(binary));
      expect(engine.atob(btoa(binary))).toBe(binary);
    }),
  );
});

test.each(['http://127.0.0.1:2379', 'https://Etcd-0.example', 'http://[::1]:80', 'http://a:1/path', 'http://a:1?b'])(
  'the polyfill of URL parses %s like Node.js, or refuses it',
  (given) => {
    if (!engine.URL.canParse(given)) return expect(given).toContain('?');
    const { protocol, hostname, pathname } = new engine.URL(given);
    expect({ protocol, hostname, pathname }).toEqual({
      protocol: new URL(given).protocol,
      hostname: new URL(given).hostname,
      pathname: new URL(given).pathname,
    });
  },
);

test('the polyfill of AbortSignal calls each listener once, and then has the reason', () => {
  const controller = new engine.AbortController();
  const { signal } = controller;
  const calls: string[] = [];
  const removed = (): void => void calls.push('removed');
  signal.addEventListener('abort', () => calls.push(`first ${signal.aborted}`));
  signal.addEventListener('abort', removed);
  signal.removeEventListener('abort', removed);
  expect(signal.aborted).toBe(false);
  expect(() => signal.throwIfAborted()).not.toThrow();
  const reason = new Error('over');
  controller.abort(reason);
  controller.abort(new Error('again'));
  expect([calls, signal.aborted, signal.reason]).toEqual([['first true'], true, reason]);
  expect(() => signal.throwIfAborted()).toThrow(reason);
  expect(engine.AbortSignal.abort().reason).toMatchObject({ name: 'AbortError' });
});

test('`runTimers` runs the timers that are due in their order, and returns the time until the next one', () => {
  const { setTimeout: later, clearTimeout: stop, polyfills } = engine;
  const ran: string[] = [];
  nowMs = 0;
  expect(polyfills.runTimers()).toBe(-1);
  later(() => ran.push('c'), 30);
  const last = later(() => ran.push('never'), 20);
  later(() => {
    ran.push('a');
    stop(last);
    later(() => ran.push('b'), 0);
  }, 10);
  expect(polyfills.runTimers()).toBe(10);
  nowMs = 25;
  expect(polyfills.runTimers()).toBe(0);
  expect(polyfills.runTimers()).toBe(5);
  nowMs = 31;
  expect(polyfills.runTimers()).toBe(-1);
  expect(ran).toEqual(['a', 'b', 'c']);
});

test('the polyfill of AbortSignal.timeout aborts with a TimeoutError', () => {
  nowMs = 0;
  const signal = engine.AbortSignal.timeout(5);
  nowMs = 5;
  engine.polyfills.runTimers();
  expect(signal.reason).toMatchObject({ name: 'TimeoutError' });
});

test('the polyfills of queueMicrotask and crypto use the engine and the host', async () => {
  const order: string[] = [];
  engine.queueMicrotask(() => order.push('microtask'));
  order.push('turn');
  await Promise.resolve();
  expect(order).toEqual(['turn', 'microtask']);
  expect(engine.crypto.getRandomValues(new BigUint64Array(2))).toEqual(new BigUint64Array(2).fill(0x0707070707070707n));
});
