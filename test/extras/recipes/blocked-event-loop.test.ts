import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { Client, type ClientOptions, type Interceptor, prefix } from '../../../src/index.js';
import { type LeaderKeyRun, reconcile } from '../../../src/recipes.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import { VirtualClock } from '../../support/virtual-clock.js';

const TTL_S = 10;

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});

afterEach(() => clock.restore());

test('`reconcile` starts no handler in a term whose lease has ended in a blocked event loop, while the client read the key of the handler', async () => {
  const server = new MemoryEtcd();
  const opened = (options: Partial<ClientOptions> = {}): Client => {
    const client = new Client({ transport: memory(server), ...options });
    onTestFinished(() => client.close());
    return client;
  };
  let blocks = 0;
  const blocking: Interceptor = {
    unary: async (call, next) => {
      const response = await next(call);
      const { key, rangeEnd } = call.request as { readonly key?: Uint8Array; readonly rangeEnd?: Uint8Array };
      const readsKey = call.method.path === methods.kv.range.path && !rangeEnd?.length;
      if (blocks === 0 && readsKey && Buffer.from(key ?? []).toString() === 'sites/blog') {
        blocks += 1;
        clock.block(2 * TTL_S * 1_000);
      }
      return response;
    },
  };
  await opened().put('sites/blog', '1');
  const etcd = opened({ interceptors: [blocking] });
  const stop = new AbortController();
  const valid: boolean[] = [];
  const handler = ({ held }: LeaderKeyRun): void => void valid.push(held.valid());
  const running = reconcile(
    etcd,
    prefix('sites/'),
    {
      lead: { name: 'leaders/sites', value: 'a', ttl: TTL_S },
      // With this option, the client reads the key before each run.
      owned: [{ keys: prefix('pages/'), ownerOf: () => undefined }],
      signal: stop.signal,
    },
    handler,
  );
  await clock.pass(60_000);
  stop.abort();
  await running;
  expect(blocks).toBe(1);
  // The handler runs in the next term.
  expect(valid).toEqual([true]);
});
