import { expect, onTestFinished, test } from 'vitest';
import { json, type KeyValue, prefix, typed } from '../../../src/index.js';
import {
  type CopyStore,
  type PersistedOptions,
  type PersistedRange,
  type PersistedRangeNotice,
  persisted,
} from '../../../src/recipes.js';
import { Random } from '../../simulation/random.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';

/** A store in memory. The test may make its saves slow, or make them fail. */
class MemoryStore implements CopyStore {
  bytes: Uint8Array | undefined;
  /** The number of saves that have begun, and the number of saves in progress. */
  saves = 0;
  running = 0;
  maxRunning = 0;
  /** Runs before each save takes effect. */
  before: () => Promise<void> = async () => {};

  load = async (): Promise<Uint8Array | undefined> => this.bytes;

  save = async (bytes: Uint8Array): Promise<void> => {
    this.saves += 1;
    this.running += 1;
    this.maxRunning = Math.max(this.maxRunning, this.running);
    try {
      await this.before();
      this.bytes = bytes;
    } finally {
      this.running -= 1;
    }
  };
}

/** Makes the saves of a store wait. Returns a function that lets them go on. */
function holding(store: MemoryStore): () => void {
  let goOn = (): void => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  store.before = () => held;
  return () => {
    store.before = async () => {};
    goOn();
  };
}

async function open(
  etcd: Parameters<typeof persisted>[0],
  start: string,
  store: CopyStore,
  options: PersistedOptions = {},
): Promise<PersistedRange & { readonly notices: PersistedRangeNotice['type'][] }> {
  const notices: PersistedRangeNotice['type'][] = [];
  const onNotice = ({ type }: PersistedRangeNotice): void => void notices.push(type);
  const range = await persisted(etcd, prefix(start), store, { onNotice, ...options });
  onTestFinished(() => range.close());
  return Object.assign(range, { notices });
}

function texts(kvs: readonly KeyValue[], start: string): string {
  return kvs.map((kv) => `${kv.key.slice(start.length)}=${kv.text()}`).join(' ');
}

test('a persisted range without a copy reads the range, and saves it', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  await etcd.put(`${start}a`, '1');
  const range = await open(etcd, start, store);
  expect([texts(range.range(), start), range.state.status]).toEqual(['a=1', 'current']);
  expect([range.savedRevision, store.saves, range.notices]).toEqual([range.revision, 1, []]);
  const { header } = await etcd.put(`${start}a`, '2');
  await range.waitForRevision(header.revision);
  expect(range.get(`${start}a`)?.text()).toBe('2');
  expect(range.savedRevision).toBe(header.revision);
});

test('a persisted range starts with its copy while no server answers, and then catches up', async () => {
  const { direct, proxy } = await proxied();
  const [start, store] = [`${unique('persisted')}/`, new MemoryStore()];
  await direct.put(`${start}a`, '1');
  await direct.put(`${start}b`, '1');
  const first = await open(direct, start, store);
  const { revision } = first;
  await first.close();
  proxy.blackhole();
  const range = await open(openClient({ endpoints: [proxy.endpoint], timeoutMs: 500 }), start, store);
  expect(range.state).toEqual({ status: 'stored', savedAt: expect.any(Date) });
  expect([texts(range.range(), start), range.revision]).toEqual(['a=1 b=1', revision]);
  const changes = range.changes();
  expect(await errorOf(range.catchUp())).toMatchObject({ reason: 'DeadlineExceeded' });
  await direct.put(`${start}a`, '2');
  await direct.delete(`${start}b`);
  proxy.heal();
  proxy.dropConnections();
  await range.catchUp({ timeoutMs: 30_000 });
  expect([texts(range.range(), start), range.state.status, range.notices]).toEqual(['a=2', 'current', []]);
  const seen = [(await changes.next()).value, (await changes.next()).value];
  expect(seen.map((change) => `${change?.type} ${change?.old?.text()}`)).toEqual(['put 1', 'delete 1']);
});

test('a persisted range shows a state only after it has saved the state, and saves one state at a time', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  const range = await open(etcd, start, store);
  const before = range.revision;
  const goOn = holding(store);
  const writes = 20;
  for (let write = 0; write < writes; write += 1) await etcd.put(`${start}a`, `${write}`);
  await expect.poll(() => store.running).toBe(1);
  expect([range.size, range.revision, range.savedRevision]).toEqual([0, before, before]);
  const waiting = range.catchUp();
  goOn();
  await waiting;
  expect(range.get(`${start}a`)?.text()).toBe(`${writes - 1}`);
  expect(range.savedRevision).toBe(range.revision);
  expect(store.maxRunning).toBe(1);
  expect(store.saves).toBeLessThan(writes);
});

test('`waitForRevision` and `catchUp` save the revision that they show although no key has changed', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  await etcd.put(`${start}a`, '1');
  const range = await open(etcd, start, store);
  const { header } = await etcd.put(unique('other'), 'x');
  await range.waitForRevision(header.revision);
  expect(range.revision).toBeGreaterThanOrEqual(header.revision);
  expect(range.savedRevision).toBe(range.revision);
  await range.close();
  const { proxy } = await proxied();
  proxy.blackhole();
  const again = await open(openClient({ endpoints: [proxy.endpoint] }), start, store);
  expect(again.revision).toBe(range.revision);
});

test.each([1, 2, 3])(
  'a persisted range never goes back when it is killed and started again (seed %i)',
  async (seed) => {
    const { direct, proxy } = await proxied();
    const [random, start, store] = [new Random(seed), `${unique('persisted')}/`, new MemoryStore()];
    let isWriting = true;
    const writing = (async (): Promise<void> => {
      for (let write = 0; isWriting; write += 1) await direct.put(`${start}${write % 3}`, `${write}`);
    })();
    let shown = 0n;
    for (let life = 0; life < 12; life += 1) {
      if (life > 0 && random.chance(0.5)) proxy.blackhole();
      // A killed process shows nothing more, and its saves no longer take effect.
      const ownStore = new MemoryStore();
      ownStore.bytes = store.bytes;
      ownStore.before = random.chance(0.5) ? async () => {} : () => new Promise((resolve) => setImmediate(resolve));
      const range = await open(openClient({ endpoints: [proxy.endpoint] }), start, ownStore);
      const looks = random.between(1, 30);
      for (let look = 0; look < looks; look += 1) {
        expect(range.revision).toBeGreaterThanOrEqual(shown);
        shown = range.revision;
        store.bytes = ownStore.bytes;
        await new Promise((resolve) => setImmediate(resolve));
      }
      proxy.heal();
      proxy.dropConnections();
    }
    isWriting = false;
    await writing;
    const range = await open(direct, start, store);
    await range.catchUp();
    expect(texts(range.range(), start)).toBe(texts((await direct.range(prefix(start))).kvs, start));
  },
);

test('a persisted range reads its range again when the history after its copy is compacted', async () => {
  const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
  const store = new MemoryStore();
  await etcd.put('a/gone', '1');
  await (await open(etcd, 'a/', store)).close();
  await etcd.delete('a/gone');
  const { header } = await etcd.put('a/there', '1');
  await etcd.compact(header.revision);
  const range = await open(openClient({ endpoints: etcd.endpoints }), 'a/', store);
  await range.catchUp();
  expect([texts(range.range(), 'a/'), range.notices]).toEqual(['there=1', []]);
});

test('a persisted range reports another cluster, and reads its range again', async () => {
  const [first, second] = [await ownEtcd(), await ownEtcd({ args: ['--initial-cluster-token=another'] })];
  const [before, after] = [openClient({ endpoints: first.endpoints }), openClient({ endpoints: second.endpoints })];
  const store = new MemoryStore();
  // The two clusters have the same keys at the revision of the copy.
  for (const etcd of [before, after]) await etcd.put('a/x', 'same');
  await (await open(before, 'a/', store)).close();
  const { header } = await after.put('a/x', 'other');
  const range = await open(after, 'a/', store);
  await range.waitForRevision(header.revision);
  expect([texts(range.range(), 'a/'), range.notices]).toEqual(['x=other', ['store-changed']]);
});

test('a persisted range refuses the copy of other keys, and of the same keys in another namespace', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  await (await open(etcd, start, store)).close();
  const refused = {
    reason: 'InvalidInput',
    message: expect.stringContaining('store: got a store with a copy of other'),
  };
  expect(await errorOf(persisted(etcd, prefix(`${start}a`), store))).toMatchObject(refused);
  expect(await errorOf(persisted(etcd.namespace('n/'), prefix(start), store))).toMatchObject(refused);
});

test.each([1, 2, 3])('a persisted range reports a damaged copy, and starts without it (seed %i)', async (seed) => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  const random = new Random(seed);
  await etcd.put(`${start}a`, '1');
  await (await open(etcd, start, store)).close();
  const whole = store.bytes as Uint8Array;
  for (let damage = 0; damage < 20; damage += 1) {
    const bytes = Uint8Array.from(whole);
    const at = random.below(bytes.length);
    bytes[at] = (bytes[at] as number) ^ (1 << random.below(8));
    store.bytes = random.chance(0.7) ? bytes : whole.subarray(0, at);
    const range = await open(etcd, start, store);
    expect([range.notices, texts(range.range(), start)]).toEqual([['copy-ignored'], 'a=1']);
    await range.close();
  }
});

test('a persisted range starts without a copy when the store cannot load it', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  const causes: unknown[] = [];
  const problem = new Error('no permission');
  const load = async (): Promise<never> => {
    throw problem;
  };
  const onNotice = ({ cause }: PersistedRangeNotice): void => void causes.push(cause);
  await using range = await persisted(etcd, prefix(start), { load, save: store.save }, { onNotice });
  expect([range.size, causes]).toEqual([0, [problem]]);
});

test('a persisted range shows new keys although a save fails, reports this once, and saves them later', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  const range = await open(etcd, start, store);
  const { savedRevision } = range;
  store.before = async () => {
    throw new Error('disk full');
  };
  for (const value of ['1', '2']) {
    const { header } = await etcd.put(`${start}a`, value);
    await range.waitForRevision(header.revision);
  }
  expect([range.get(`${start}a`)?.text(), range.notices]).toEqual(['2', ['save-failed']]);
  expect(range.savedRevision).toBe(savedRevision);
  store.before = async () => {};
  await expect.poll(() => range.savedRevision).toBe(range.revision);
  await range.close();
  const { proxy } = await proxied();
  proxy.blackhole();
  const again = await open(openClient({ endpoints: [proxy.endpoint] }), start, store);
  expect(texts(again.range(), start)).toBe('a=2');
});

test('a persisted range shows new keys although a save does not end, and saves them when it ends', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  const range = await open(etcd, start, store);
  const goOn = holding(store);
  await etcd.put(`${start}a`, '1');
  await expect.poll(() => range.get(`${start}a`)?.text()).toBe('1');
  const { header } = await etcd.put(`${start}a`, '2');
  await range.waitForRevision(header.revision);
  expect([range.notices, store.saves]).toEqual([['save-failed'], 2]);
  goOn();
  await expect.poll(() => range.savedRevision).toBe(range.revision);
  expect(store.maxRunning).toBe(1);
});

test('a persisted range continues when its function `onNotice` throws or rejects', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  store.bytes = new Uint8Array(3);
  for (const onNotice of [
    () => {
      throw new Error('from the function');
    },
    async () => Promise.reject(new Error('from the function')),
  ]) {
    const range = await open(etcd, start, store, { onNotice });
    expect(range.size).toBe(0);
    await range.close();
    store.bytes = new Uint8Array(3);
  }
});

test('a persisted range without a copy is not opened when no server answers in time, or its signal aborts', async () => {
  const [start, store] = [`${unique('persisted')}/`, new MemoryStore()];
  const { signal } = new AbortController();
  const slow = openClient({ endpoints: ['http://127.0.0.1:1'] });
  const limited = persisted(slow, prefix(start), store, { timeoutMs: 50, signal });
  expect(await errorOf(limited)).toMatchObject({ reason: 'DeadlineExceeded' });
  const stopped = persisted(slow, prefix(start), store, { signal: AbortSignal.abort() });
  expect(await errorOf(stopped)).toMatchObject({ reason: 'Canceled' });
  const never = { load: () => new Promise<never>(() => {}), save: store.save };
  expect(await errorOf(persisted(slow, prefix(start), never, { timeoutMs: 50 }))).toMatchObject({
    reason: 'DeadlineExceeded',
  });
});

test('`close` waits for the save in progress, and ends the reads', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  const range = await open(etcd, start, store);
  const goOn = holding(store);
  await etcd.put(`${start}a`, '1');
  await expect.poll(() => store.running).toBe(1);
  const closing = range.close();
  goOn();
  await closing;
  expect(store.running).toBe(0);
  expect(() => range.size).toThrow(expect.objectContaining({ reason: 'WatchClosed' }));
  expect(() => range.state).toThrow(expect.objectContaining({ reason: 'WatchClosed' }));
});

test('a persisted range of typed keys decodes the values', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  const sizes = typed(etcd, start, json(Number));
  await sizes.put('small', 10);
  await using range = await persisted(etcd, sizes, store);
  expect([range.get('small')?.value, range.cached.savedRevision]).toEqual([10, range.cached.revision]);
  expect(await errorOf(persisted(etcd.namespace('n/'), sizes, store))).toMatchObject({
    reason: 'InvalidInput',
    message: expect.stringMatching(/^keys: got typed keys of another client or namespace/),
  });
});

test('a persisted range forgets a key that is deleted while it saves the put of the key, although the deletion arrives late', async () => {
  const [etcd, start, store] = [openClient(), `${unique('persisted')}/`, new MemoryStore()];
  const late: (() => void)[] = [];
  let [isLate, reads] = [false, 0];
  const slow = openClient({
    interceptors: [
      {
        stream: (call, handler, next) =>
          next(call, {
            ...handler,
            message: (message) => void (isLate ? late.push(() => handler.message(message)) : handler.message(message)),
          }),
        unary: (call, next) => {
          if (call.method.path.endsWith('/Txn')) reads += 1;
          return next(call);
        },
      },
    ],
  });
  const range = await open(slow, start, store);
  const goOn = holding(store);
  const saves = store.saves;
  await etcd.put(`${start}a`, '1');
  await expect.poll(() => store.saves).toBe(saves + 1);
  isLate = true;
  await etcd.delete(`${start}a`);
  const { header } = await etcd.put(unique(), 'another key');
  const waiting = range.waitForRevision(header.revision);
  const before = reads;
  await expect.poll(() => reads).toBeGreaterThan(before + 1);
  goOn();
  await expect.poll(() => range.revision >= header.revision || texts(range.range(), start) === 'a=1').toBe(true);
  isLate = false;
  for (const deliver of late) deliver();
  await waiting;
  expect(texts(range.range(), start)).toBe('');
});
