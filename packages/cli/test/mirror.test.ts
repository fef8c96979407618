import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Client, type Keys, op, prefix, type WatchBatch, type WatchEvent } from '../../../src/index.js';
import { Random } from '../../../test/simulation/random.js';
import { cli, RunningCli } from '../../../test/support/cli.js';
import { openClient } from '../../../test/support/client.js';
import { faultProxy } from '../../../test/support/fault-proxy.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { changeSome, contentOf } from '../../../test/support/ranges.js';
import { restorableEtcd } from '../../../test/support/restorable-etcd.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';

const POSITION = 'etcdwire/mirror/a/';

/** Two clusters, and a function that runs `etcdwire mirror` from the first to the second one. */
interface Pair {
  readonly source: Client;
  readonly target: Client;
  mirror(...args: readonly string[]): RunningCli;
}

async function pair(sourceArgs: readonly string[] = [], targetArgs: readonly string[] = []): Promise<Pair> {
  const [first, second] = [await ownEtcd({ args: sourceArgs }), await ownEtcd({ args: targetArgs })];
  return pairOf(first.endpoints, second.endpoints);
}

function pairOf(from: readonly string[], to: readonly string[]): Pair {
  const environment = { ETCDCTL_ENDPOINTS: from.join() };
  return {
    source: openClient({ endpoints: from, maxRequestBytes: 3_000_000 }),
    target: openClient({ endpoints: to }),
    mirror: (...args) => new RunningCli(['mirror', 'a/', '--prefix', '--to', to.join(), ...args], { environment }),
  };
}

/** Writes a last key at the source, and resolves when it has arrived at the target. */
async function arrived(source: Client, target: Client, last = 'a/~last', at = last): Promise<void> {
  const watch = target.watch(at);
  await watch.created();
  const value = String((await source.put(last, '')).header.revision);
  await source.put(last, value);
  if ((await target.get(at))?.text() === value) return watch.close();
  for await (const event of watch) if (event.type === 'put' && event.kv.text() === value) return;
}

/** Collects all changes of a range. Resolves when the watch exists. */
async function recorded(etcd: Client, keys: Keys): Promise<readonly WatchBatch[]> {
  const watch = etcd.watch(keys);
  await watch.created();
  const batches: WatchBatch[] = [];
  void (async () => {
    for await (const batch of watch.batches()) batches.push(batch);
  })();
  return batches;
}

/** Applies events to a map of keys and values in hexadecimal. `rename` changes each key. */
function applyTo(kvs: Map<string, string>, events: readonly WatchEvent[], rename = (key: string): string => key): void {
  for (const event of events) {
    const key = rename(Buffer.from(event.keyBytes).toString('latin1'));
    if (event.type === 'put') kvs.set(key, Buffer.from(event.kv.value).toString('hex'));
    else kvs.delete(key);
  }
}

const textOf = (kvs: Map<string, string>): string =>
  [...kvs]
    .map((entry) => entry.join(' = '))
    .sort()
    .join('\n');

/**
 * Replays the whole history of the destination. The key `position` holds the revision of the source that the mirror
 * has reached. Checks that each change of the destination also changes this key in the same transaction, and that the
 * destination equals the source at the revision in the key whenever the state is `complete`. Returns how often each
 * state occurred.
 */
async function checkHistory(
  sourceHistory: readonly WatchBatch[],
  target: Client,
  { position, end }: { readonly position: string; readonly end: bigint },
): Promise<Readonly<Record<string, number>>> {
  const [source, destination] = [new Map<string, string>(), new Map<string, string>()];
  const states = { reading: 0, applying: 0, complete: 0 };
  let applied = 0;
  for await (const { revision, events } of target.watch(prefix(''), { startRevision: 1n }).batches()) {
    const moved = events.find(({ keyBytes }) => Buffer.from(keyBytes).toString() === position);
    const changes = events.filter((event) => event !== moved);
    expect(moved?.type).toBe('put');
    applyTo(destination, changes);
    const { state, revision: at } = JSON.parse(moved?.type === 'put' ? moved.kv.text() : '') as Position;
    states[state] += 1;
    if (state === 'complete') {
      for (; (sourceHistory[applied]?.revision ?? BigInt(at) + 1n) <= BigInt(at); applied += 1)
        applyTo(source, sourceHistory[applied]?.events ?? [], (key) => key.replace('a/', 'copy/'));
      expect(textOf(destination)).toBe(textOf(source));
    }
    if (revision >= end) return states;
  }
  throw new Error('the watch of the target ended');
}

interface Position {
  readonly revision: string;
  readonly state: 'reading' | 'applying' | 'complete';
}

describe('etcdwire mirror', () => {
  it.each([1, 2])(
    'makes both ranges equal although SIGKILL ends it at random moments during writes, deletions and compactions (seed %i)',
    async (seed) => {
      const random = new Random(seed);
      const [from, to] = [await ownEtcd(), await ownEtcd()];
      // The proxy delays the answers, so that the process ends before it knows the outcome of its last transaction.
      const proxy = await faultProxy(to.endpoints[0] as string);
      const { source, mirror } = pairOf(from.endpoints, [proxy.endpoint]);
      const target = openClient({ endpoints: to.endpoints });
      const history = await recorded(source, prefix('a/'));
      // The writers make some changes for each step of the mirror, so that the mirror can catch up at the end.
      let [allowed, changes, isWriting] = [0, 0, true];
      let wake = (): void => {};
      const allow = (count: number): void => {
        allowed += count;
        wake();
      };
      const writing = (async () => {
        for (const own = new Random(seed, 1); isWriting; ) {
          if (changes < allowed) {
            await changeSome(source, 'a/', own);
            changes += 1;
            continue;
          }
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      })();
      const position = 'etcdwire/mirror/copy/';
      // With few operations in a transaction, the process often ends within a revision or within the first copy.
      const flags = ['--dest-prefix', 'copy/', '--max-txn-ops', '8'];
      for (let round = 0; round < 10; round += 1) {
        proxy.delay(random.below(20));
        allow(20);
        const running = mirror(...flags);
        // Each change of the position key is one transaction of the mirror, so the test counts these changes.
        let left = 1 + random.below(20);
        const ended = new AbortController();
        void running.done.then((result) => ended.abort(new Error(JSON.stringify(result))));
        for await (const _ of target.watch(position, { signal: ended.signal })) {
          if (--left <= 0) break;
          allow(5);
          if (random.chance(0.1)) proxy.dropConnections();
        }
        running.process.kill('SIGKILL');
        await running.done;
        if (random.chance(0.3)) await source.compact((await source.put('b', 'outside')).header.revision);
      }
      proxy.heal();
      const last = mirror(...flags);
      await last.lines(1);
      isWriting = false;
      wake();
      await writing;
      await arrived(source, target, 'a/~last', 'copy/~last');
      expect(changes).toBeGreaterThan(200);
      const rename = (key: string): string => key.replace('a/', 'copy/');
      expect(await contentOf(target, prefix('copy/'))).toEqual(await contentOf(source, prefix('a/'), { rename }));
      last.process.kill('SIGINT');
      expect(await last.done).toMatchObject({ code: 130, stderr: '' });
      const { header } = await target.range(position);
      const states = await checkHistory(history, target, { position, end: header.revision });
      expect(states.reading).toBeGreaterThan(0);
      expect(states.complete).toBeGreaterThan(3);
    },
  );

  it('continues after its position, and deletes what the source has deleted when the history was compacted while it was down', async () => {
    const { source, target, mirror } = await pair();
    for (const name of ['1', '2', '3']) await source.put(`a/${name}`, name);
    /**
     * Runs the mirror until the target has all changes and the mirror has printed `count` lines. Resolves with these
     * lines.
     */
    const states = async (count: number): Promise<object[]> => {
      const running = mirror();
      await running.lines(1);
      await arrived(source, target);
      await running.lines(count);
      running.process.kill('SIGINT');
      const { stdout } = await running.done;
      return stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
    };
    expect(await states(2)).toMatchObject([{ state: 'reading' }, { state: 'complete' }]);
    await source.delete('a/1');
    expect(await states(1)).toMatchObject([{ state: 'continuing' }]);
    await source.delete('a/2');
    await source.compact((await source.put('b', 'outside')).header.revision);
    expect(await states(3)).toMatchObject([
      { state: 'continuing' },
      { state: 'reading', cause: expect.stringContaining('compacted') },
      { state: 'complete' },
    ]);
    const keys = (await target.range(prefix('a/'), { keysOnly: true })).kvs.map((kv) => kv.key);
    expect(keys).toEqual(['a/3', 'a/~last']);
  });

  it('ends with exit code 76 when another mirror takes over its destination', async () => {
    const { source, target, mirror } = await pair();
    const first = mirror();
    await first.lines(2);
    const second = mirror();
    await second.lines(1);
    await arrived(source, target);
    expect(await first.done).toMatchObject({ code: 76, stderr: expect.stringContaining('another mirror') });
    await source.delete('a/~last');
    await arrived(source, target, 'a/end');
    expect(await contentOf(target, prefix('a/'))).toEqual(await contentOf(source, prefix('a/')));
  });

  it('writes nothing more after it was suspended while another mirror took over its destination', async () => {
    const { source, target, mirror } = await pair();
    const random = new Random(4);
    let isWriting = true;
    const writing = (async () => {
      while (isWriting) await changeSome(source, 'a/', random);
    })();
    const first = mirror();
    await first.lines(2);
    first.process.kill('SIGSTOP');
    const second = mirror();
    await second.lines(1);
    await arrived(source, target);
    isWriting = false;
    await writing;
    await arrived(source, target, 'a/end');
    const before = await contentOf(target, prefix('a/'));
    first.process.kill('SIGCONT');
    await source.put('a/wake', 'x');
    expect(await first.done).toMatchObject({ code: 76 });
    await source.delete('a/wake');
    await arrived(source, target, 'a/~more');
    expect(await contentOf(target, prefix('a/'))).toEqual(await contentOf(source, prefix('a/')));
    expect((await contentOf(target, prefix('a/'))).length).toBe(before.length + 1);
  });

  it('applies a revision with more changes and bytes than a transaction of the target allows', async () => {
    const { source, target, mirror } = await pair(['--max-txn-ops=1000', '--max-request-bytes=20000000']);
    const many = openClient({ endpoints: source.endpoints, maxTxnOps: 1_000, maxRequestBytes: 20_000_000 });
    const running = mirror();
    await running.lines(2);
    const values = Array.from({ length: 600 }, (_, index) => op.put(`a/${index}`, 'x'.repeat(10_000)));
    await many.txn({ then: values });
    await arrived(source, target);
    await many.delete(prefix('a/1'));
    await arrived(source, target);
    expect(await contentOf(target, prefix('a/'))).toEqual(await contentOf(source, prefix('a/')));
    expect(JSON.parse((await target.get(POSITION))?.text() ?? '')).toMatchObject({ state: 'complete' });
  });

  it('copies values near the limit for requests, and ends with exit code 1 when the target refuses a value', async () => {
    const { source, target, mirror } = await pair(['--max-request-bytes=3000000']);
    // etcd accepts 1.5 MiB in a request. The second value fits only without the position in the same transaction.
    for (const size of [1_572_864 - 1_000, 1_572_864 - 250]) await source.put(`a/${size}`, 'x'.repeat(size));
    const running = mirror();
    await running.lines(2);
    expect(await contentOf(target, prefix('a/'))).toEqual(await contentOf(source, prefix('a/')));
    await source.put('a/1572614', 'y'.repeat(1_572_614));
    await arrived(source, target);
    expect(await contentOf(target, prefix('a/'))).toEqual(await contentOf(source, prefix('a/')));
    await source.put('a/refused', 'x'.repeat(2_000_000));
    const { code, stderr } = await running.done;
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^etcdwire: the target refuses a value of 2000000 bytes; .*--max-request-bytes\n$/),
    ]);
    // The changes before the refused one are complete.
    expect((await target.get('a/~last'))?.text()).toBe((await source.get('a/~last'))?.text());
  });

  it('deletes a key when its lease ends at the source, and gives the keys of the target no leases', async () => {
    const { source, target, mirror } = await pair();
    const lease = await source.lease.grant({ ttl: 600 });
    await source.put('a/leased', 'x', { lease: lease.id });
    const running = mirror();
    await running.lines(2);
    expect((await target.get('a/leased'))?.lease).toBe(0n);
    await source.lease.revoke(lease.id);
    await arrived(source, target);
    expect(await target.get('a/leased')).toBeUndefined();
  });

  it('refuses a destination that has keys, unless --overwrite allows to make it equal to the source', async () => {
    const { source, target, mirror } = await pair();
    await source.put('a/same', 'x');
    const lease = await target.lease.grant({ ttl: 600 });
    await target.put('a/same', 'x', { lease: lease.id });
    await target.put('a/other', 'x');
    expect(await mirror().done).toMatchObject({ code: 1, stderr: expect.stringContaining('has 2 keys') });
    expect(await contentOf(target, prefix(''))).toHaveLength(2);
    const running = mirror('--overwrite');
    await running.lines(2);
    const { kvs } = await target.range(prefix('a/'));
    expect(kvs).toMatchObject([{ lease: 0n }]);
    expect(kvs[0]?.key).toBe('a/same');
  });

  it('keeps its position key when the destination consists of all keys, and ends when a key would get an empty name', async () => {
    const { source, target, mirror } = await pair();
    await source.put('a/1', 'x');
    await source.put('a/2', 'x');
    const first = mirror('--no-dest-prefix');
    await first.lines(2);
    first.process.kill('SIGINT');
    await first.done;
    await source.delete('a/1');
    const again = mirror('--no-dest-prefix', '--resync');
    await again.lines(2);
    const keys = (await target.range(prefix(''), { keysOnly: true })).kvs.map((kv) => kv.key);
    expect(keys).toEqual(['2', 'etcdwire/mirror/']);
    await source.put('a/', 'a key without a name');
    expect(await again.done).toMatchObject({ code: 1, stderr: expect.stringContaining('equals the prefix') });
  });

  it('refuses a destination in the source itself, the position key of another mirror, and flags that contradict each other', async () => {
    const { source, mirror } = await pair();
    const { endpoints } = source;
    const same = ['--to', endpoints.join(), '--overwrite'];
    expect(await mirror(...same)).toBeDefined();
    expect(await mirror(...same).done).toMatchObject({ code: 64, stderr: expect.stringContaining('--to: got the') });
    await source.put('a/x', 'x');
    const apart = mirror(...same, '--dest-prefix', 'b/');
    await apart.lines(2);
    expect((await source.get('b/x'))?.text()).toBe('x');
    apart.process.kill('SIGINT');
    await apart.done;
    const other = ['--dest-prefix', 'c/', '--position-key', 'etcdwire/mirror/b/'];
    expect(await mirror(...same, ...other).done).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('other keys'),
    });
    const environment = { ETCDCTL_ENDPOINTS: endpoints.join() };
    const wrong = await cli(['mirror', 'a', '--dest-prefix', 'b', '--to', endpoints.join()], { environment });
    expect(wrong).toMatchObject({ code: 64, stderr: expect.stringContaining('--prefix') });
  });

  it.each([
    ['--dest-user me:…', ['--dest-user', 'me:secret-1']],
    ['--dest-user me:… --dest-password=…', ['--dest-user', 'me:x', '--dest-password=secret-2']],
  ])('keeps the password of the other cluster out of the page of `etcdwire trace` (%s)', async (shown, login) => {
    const { source, target } = await pair();
    const page = join(temporaryFolder(), 'trace.html');
    // The mirror ends at once, because it refuses a destination that has keys.
    await target.put('a/x', 'x');
    const mirror = ['mirror', 'a/', '--prefix', '--to', target.endpoints.join(), ...login, '--plaintext-auth'];
    const environment = { ETCDCTL_ENDPOINTS: source.endpoints.join() };
    await cli(['trace', '--html', page, '--', ...mirror], { environment });
    const html = readFileSync(page, 'utf8');
    expect(html).toContain(shown);
    expect(html).not.toContain('secret-');
  });

  it('ends with exit code 69 when the target cannot be reached at the start', async () => {
    const { mirror } = await pair();
    expect(await mirror('--to', '127.0.0.1:1', '--command-timeout', '500ms').done).toMatchObject({
      code: 69,
      stderr: expect.stringContaining('the cluster of --to'),
    });
  });
});

describe('etcdwire mirror with a restored cluster', () => {
  it('repeats the changes that the target has lost', async () => {
    const [from, to] = [await ownEtcd(), await restorableEtcd()];
    const { source, target, mirror } = pairOf(from.endpoints, to.endpoints);
    const running = mirror();
    await running.lines(2);
    await source.put('a/kept', '1');
    await arrived(source, target);
    await to.backup();
    await source.put('a/lost', '2');
    await source.delete('a/kept');
    await arrived(source, target);
    await to.restore();
    await arrived(source, openClient({ endpoints: to.endpoints }), 'a/end');
    const after = openClient({ endpoints: to.endpoints });
    expect(await contentOf(after, prefix('a/'))).toEqual(await contentOf(source, prefix('a/')));
    running.process.kill('SIGINT');
    expect(await running.done).toMatchObject({ code: 130 });
  });

  it('undoes at the target the changes that the source has lost', async () => {
    const [from, to] = [await restorableEtcd(), await ownEtcd()];
    const { source, target, mirror } = pairOf(from.endpoints, to.endpoints);
    await source.put('a/kept', '1');
    const running = mirror();
    await running.lines(2);
    await from.backup();
    await source.put('a/lost', '2');
    await source.delete('a/kept');
    await arrived(source, target);
    await from.restore();
    const after = openClient({ endpoints: from.endpoints });
    await arrived(after, target, 'a/end');
    expect(await contentOf(target, prefix('a/'))).toEqual(await contentOf(after, prefix('a/')));
    running.process.kill('SIGINT');
    expect(await running.done).toMatchObject({ code: 130 });
  });
});
