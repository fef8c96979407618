import { describe, expect, onTestFinished, test } from 'vitest';
import { type CachedRange, type CallOptions, Client, json, prefix, typed } from '../../../src/index.js';
import { Service } from '../../../src/recipes.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import { errorOf } from '../../support/errors.js';

// Regression: an invalid signal ended a cached range for all its users, and ended the process.

type Limits = Pick<CallOptions, 'signal' | 'timeoutMs'>;

function memoryClient(): Client {
  const etcd = new Client({ transport: memory(new MemoryEtcd()) });
  onTestFinished(() => etcd.close());
  return etcd;
}

const WRONG_SIGNALS: readonly [string, unknown][] = [
  ['an AbortController', new AbortController()],
  ['an EventTarget', new EventTarget()],
  ['an empty object', {}],
  ['a string', 'signal'],
];

const WAITS: Readonly<Record<string, (cached: CachedRange, options: Limits) => Promise<unknown>>> = {
  waitForRevision: (cached, options) => cached.waitForRevision(1_000n, options),
  catchUp: (cached, options) => cached.catchUp(options),
  changes: async (cached, options) => cached.changes({ signal: options.signal }),
};

describe.each(WRONG_SIGNALS)('with %s as the signal', (_what, signal) => {
  test.each(Object.entries(WAITS))('`%s` is refused, and other waits continue', async (_name, wait) => {
    const etcd = memoryClient();
    await using cached = await etcd.cachedRange(prefix('a'));
    const other = cached.waitForRevision(3n);
    const error = await errorOf(wait(cached, { signal: signal as AbortSignal, timeoutMs: 5_000 }));
    expect(error).toMatchObject({ reason: 'InvalidInput' });
    expect(error.message).toMatch(/^signal: got /);
    await etcd.put('a1', 'first');
    await etcd.put('a1', 'second');
    await other;
    expect(cached.get('a1')?.text()).toBe('second');
  });
});

const OPENINGS: Readonly<Record<string, (etcd: Client, options: Limits) => Promise<AsyncDisposable>>> = {
  cachedRange: (etcd, options) => etcd.cachedRange(prefix('a/'), options),
  'typed().cachedRange': (etcd, options) => typed(etcd, 'a/', json(String)).cachedRange(options),
  'Service.view': (etcd, options) => new Service(etcd, 'a').view(options),
};

test.each(Object.entries(OPENINGS))('`%s` refuses an invalid signal before it opens a watch', async (_name, open) => {
  const server = new MemoryEtcd();
  const sent: string[] = [];
  await using etcd = new Client({
    transport: memory(server),
    interceptors: [
      {
        stream: (call, handler, next) => {
          sent.push(call.method.path);
          return next(call, handler);
        },
      },
    ],
  });
  for (const [, signal] of WRONG_SIGNALS) {
    const error = await errorOf(open(etcd, { signal: signal as AbortSignal }));
    expect(error).toMatchObject({ reason: 'InvalidInput' });
    expect(error.message).toMatch(/^signal: got /);
  }
  expect(sent).toEqual([]);
});

test('null as the signal means no signal for a cached range, its waits, a typed range and a service view', async () => {
  const etcd = memoryClient();
  const signal = null;
  for (const open of Object.values(OPENINGS)) {
    await using _opened = await open(etcd, { signal });
  }
  await using cached = await etcd.cachedRange(prefix('a'), { signal });
  const waiting = cached.waitForRevision(2n, { signal });
  await etcd.put('a1', 'x');
  await waiting;
  await cached.catchUp({ signal });
  const changes = cached.changes({ signal, initial: true });
  expect((await changes.next()).value).toMatchObject({ type: 'put' });
  await changes.return?.();
});
