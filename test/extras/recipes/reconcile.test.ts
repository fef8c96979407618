import { describe, expect, onTestFinished, test } from 'vitest';
import { type Client, compare, op, prefix } from '../../../src/index.js';
import { inspectLock } from '../../../src/locks.js';
import { type KeyRun, type LeaderKeyRun, type RunReport, reconcile } from '../../../src/recipes.js';
import { Random } from '../../simulation/random.js';
import { authEtcd, USER } from '../../support/auth-etcd.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { aborted, gate } from '../../support/signals.js';

/** A signal that the test aborts. The end of the test aborts it, too. */
function stopping(): AbortController {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  return stop;
}

function shown({ key, kv, attempt }: KeyRun): string {
  return `${key.slice(key.lastIndexOf('/') + 1)}=${kv?.text()} ${attempt}`;
}

describe('`reconcile`', () => {
  test('runs the handler for each key, and for each change of a key, until its signal aborts', async () => {
    const [etcd, start, stop] = [openClient(), `${unique('wanted')}/`, stopping()];
    await etcd.put(`${start}a`, '1');
    await etcd.put(`${start}b`, '2');
    const runs: string[] = [];
    const running = reconcile(etcd, prefix(start), { signal: stop.signal }, (run) => void runs.push(shown(run)));
    await expect.poll(() => runs).toEqual(['a=1 1', 'b=2 1']);
    await etcd.put(`${start}b`, '3');
    await expect.poll(() => runs.slice(2)).toEqual(['b=3 1']);
    await etcd.delete(`${start}a`);
    await expect.poll(() => runs.slice(3)).toEqual(['a=undefined 1']);
    stop.abort();
    expect(await running).toBeUndefined();
    await etcd.put(`${start}b`, '4');
    await etcd.get(start);
    expect(runs.length).toBe(4);
  });

  test('runs the handler once more, with the last state, when a key changes during its run', async () => {
    const [etcd, key, stop] = [openClient(), unique('wanted'), stopping()];
    const runs: string[] = [];
    const { opened, open } = gate();
    const handler = async (run: KeyRun): Promise<void> => {
      runs.push(shown(run));
      if (runs.length === 1) await opened;
    };
    await etcd.put(key, '0');
    const running = reconcile(etcd, key, { signal: stop.signal, concurrency: 3 }, handler);
    await expect.poll(() => runs.length).toBe(1);
    await using cached = await etcd.cachedRange(key);
    for (const value of ['1', '2', '3']) await etcd.put(key, value);
    await cached.catchUp();
    open();
    await expect.poll(() => runs.at(-1)).toBe(`${key}=3 1`);
    stop.abort();
    await running;
    // The watch may deliver the last change after the second run has started.
    expect(runs.length).toBeLessThanOrEqual(3);
  });

  test('runs up to `concurrency` keys at once', async () => {
    const [etcd, start, stop, { opened, open }] = [openClient(), `${unique('wanted')}/`, stopping(), gate()];
    for (const name of ['a', 'b', 'c', 'd']) await etcd.put(start + name, '');
    const [runs, reports]: [string[], RunReport[]] = [[], []];
    const handler = async (run: KeyRun): Promise<void> => {
      runs.push(shown(run));
      await opened;
    };
    const onRun = (report: RunReport): void => void reports.push(report);
    const running = reconcile(etcd, prefix(start), { signal: stop.signal, concurrency: 3, onRun }, handler);
    await expect.poll(() => runs).toEqual(['a= 1', 'b= 1', 'c= 1']);
    await etcd.put(`${start}e`, '');
    expect(runs.length).toBe(3);
    open();
    await expect.poll(() => reports.length).toBe(5);
    expect(reports[0]?.queued).toBeGreaterThan(0);
    stop.abort();
    await running;
  });

  test.each([1, 2, 3])(
    'ends with the last state of each key, and never runs a key twice or more than `concurrency` keys at the same time (seed %i)',
    async (seed) => {
      const [etcd, start, stop, random] = [openClient(), `${unique('wanted')}/`, stopping(), new Random(seed)];
      const [actual, running, problems] = [new Map<string, string>(), new Set<string>(), new Set<string>()];
      let most = 0;
      const handler = async ({ key, kv }: KeyRun): Promise<void> => {
        if (running.has(key)) problems.add(`${key} runs twice at once`);
        running.add(key);
        most = Math.max(most, running.size);
        try {
          for (let turn = random.below(3); turn > 0; turn -= 1) await etcd.get(key);
          if (random.chance(0.3)) throw new Error('the handler fails');
          if (kv === undefined) actual.delete(key);
          else actual.set(key, kv.text());
        } finally {
          running.delete(key);
        }
      };
      const reconciling = reconcile(etcd, prefix(start), { signal: stop.signal, concurrency: 4 }, handler);
      for (let write = 0; write < 200; write += 1) {
        const key = `${start}${random.below(8)}`;
        if (random.chance(0.2)) await etcd.delete(key);
        else await etcd.put(key, `${write}`);
      }
      const { kvs } = await etcd.range(prefix(start));
      const wanted = Object.fromEntries(kvs.map((kv) => [kv.key, kv.text()]));
      await expect.poll(() => Object.fromEntries(actual)).toEqual(wanted);
      stop.abort();
      await reconciling;
      expect([...problems]).toEqual([]);
      expect(most).toBeLessThanOrEqual(4);
    },
  );

  test('repeats a failed run after `retryDelayMs`, counts the attempts, and begins to count again after a success', async () => {
    const [etcd, key, stop] = [openClient(), unique('wanted'), stopping()];
    const [runs, delays, reports]: [string[], number[], RunReport[]] = [[], [], []];
    const handler = (run: KeyRun): void => {
      runs.push(shown(run));
      if (run.attempt < 4) throw new Error(`attempt ${run.attempt}`);
    };
    const retryDelayMs = (attempt: number): number => {
      delays.push(attempt);
      return attempt / 2;
    };
    await etcd.put(key, 'a');
    const onRun = (report: RunReport): void => void reports.push(report);
    const running = reconcile(etcd, key, { signal: stop.signal, retryDelayMs, onRun }, handler);
    await expect.poll(() => runs).toEqual([1, 2, 3, 4].map((attempt) => `${key}=a ${attempt}`));
    expect(delays).toEqual([1, 2, 3]);
    expect(reports.map(({ attempt, error }) => [attempt, (error as Error | undefined)?.message])).toEqual([
      [1, 'attempt 1'],
      [2, 'attempt 2'],
      [3, 'attempt 3'],
      [4, undefined],
    ]);
    expect(reports.every((each) => each.key === key && each.queued === 0 && each.durationMs >= 0)).toBe(true);
    await etcd.put(key, 'b');
    await expect.poll(() => runs[4]).toBe(`${key}=b 1`);
    stop.abort();
    await running;
  });

  test('runs a key at once when it changes while it waits for a retry or for `againMs`, and keeps its attempts', async () => {
    const [etcd, key, stop] = [openClient(), unique('wanted'), stopping()];
    const runs: string[] = [];
    const handler = async (run: KeyRun) => {
      runs.push(shown(run));
      if (run.attempt < 3) throw new Error('the handler fails');
      return { againMs: 3_600_000 };
    };
    await etcd.put(key, 'a');
    const running = reconcile(etcd, key, { signal: stop.signal, retryDelayMs: () => 3_600_000 }, handler);
    for (const [index, run] of ['a 1', 'b 2', 'c 3', 'd 1'].entries()) {
      await expect.poll(() => runs[index]).toBe(`${key}=${run}`);
      await etcd.put(key, 'bcde'[index] as string);
    }
    await expect.poll(() => runs.length).toBe(5);
    stop.abort();
    // The timers of the waiting keys do not delay the end.
    await running;
  });

  test('runs a key again after the `againMs` that its handler returns', async () => {
    const [etcd, key, stop] = [openClient(), unique('wanted'), stopping()];
    let runs = 0;
    await etcd.put(key, 'a');
    await reconcile(etcd, key, { signal: stop.signal }, ({ attempt }) => {
      expect(attempt).toBe(1);
      runs += 1;
      if (runs === 5) stop.abort();
      return { againMs: 1 };
    });
    expect(runs).toBe(5);
  });

  test('treats an `againMs` that is not allowed, and a thrown undefined, as a failed run', async () => {
    const [etcd, key, stop] = [openClient(), unique('wanted'), stopping()];
    const errors: unknown[] = [];
    await etcd.put(key, 'a');
    const handler = ({ attempt }: KeyRun) => {
      if (attempt === 2) throw undefined;
      return { againMs: -1 };
    };
    const onRun = ({ error }: RunReport): void => {
      errors.push(error);
      if (errors.length === 2) stop.abort();
    };
    await reconcile(etcd, key, { signal: stop.signal, onRun }, handler);
    expect(errors).toEqual([
      expect.objectContaining({ reason: 'InvalidInput', problem: expect.stringContaining('againMs') }),
      new Error('the handler has thrown undefined'),
    ]);
  });

  test('queues all keys again every `resyncMs`, and the owners of all owned keys', async () => {
    const [etcd, start, stop] = [openClient(), unique('wanted'), stopping()];
    const [keys, pods] = [prefix(`${start}/keys/`), prefix(`${start}/pods/`)];
    await etcd.put(`${start}/keys/a`, '1');
    await etcd.put(`${start}/pods/b`, '2');
    const runs = new Map<string, number>();
    const handler = (run: KeyRun): void => {
      const id = shown(run);
      runs.set(id, (runs.get(id) ?? 0) + 1);
    };
    const owned = [{ keys: pods, ownerOf: (key: string) => key.replace('/pods/', '/keys/') }];
    const running = reconcile(etcd, keys, { signal: stop.signal, resyncMs: 5, owned }, handler);
    await expect.poll(() => runs.get('a=1 1')).toBeGreaterThan(3);
    expect(runs.get('b=undefined 1')).toBeGreaterThan(2);
    expect(runs.size).toBe(2);
    stop.abort();
    await running;
  });

  test('distinguishes keys that are not valid UTF-8', async () => {
    const [etcd, start, stop] = [openClient(), `${unique('wanted')}/`, stopping()];
    const values: (string | undefined)[] = [];
    for (const byte of [0xfe, 0xff]) await etcd.put(Buffer.concat([Buffer.from(start), Buffer.of(byte)]), `${byte}`);
    const running = reconcile(etcd, prefix(start), { signal: stop.signal }, ({ kv }) => void values.push(kv?.text()));
    await expect.poll(() => values).toEqual(['254', '255']);
    stop.abort();
    await running;
  });

  test('reports how many keys are queued', async () => {
    const [etcd, start, stop] = [openClient(), `${unique('wanted')}/`, stopping()];
    for (const name of ['a', 'b', 'c']) await etcd.put(start + name, name);
    const queued: number[] = [];
    const onRun = (report: RunReport): void => {
      queued.push(report.queued);
      if (queued.length === 3) stop.abort();
    };
    await reconcile(etcd, prefix(start), { signal: stop.signal, onRun }, () => {});
    expect(queued).toEqual([2, 1, 0]);
  });
});

describe('`owned`', () => {
  test('queues the owner of each changed key, also if the owner does not exist, with its state in the store', async () => {
    const [etcd, start, stop] = [openClient(), unique('wanted'), stopping()];
    await etcd.put(`${start}/pods/b`, 'left over');
    await etcd.put(`${start}/pods/foreign/key`, 'x');
    const runs: string[] = [];
    const owned = [
      {
        keys: prefix(`${start}/pods/`),
        ownerOf: (key: string) => (key.includes('foreign') ? undefined : key.replace('/pods/', '/keys/')),
      },
    ];
    const handler = (run: KeyRun): void => void runs.push(shown(run));
    const running = reconcile(etcd, prefix(`${start}/keys/`), { signal: stop.signal, owned }, handler);
    await expect.poll(() => runs).toEqual(['b=undefined 1']);
    await etcd.txn({ then: [op.put(`${start}/keys/a`, '1'), op.put(`${start}/pods/a`, '1')] });
    await expect.poll(() => new Set(runs)).toEqual(new Set(['b=undefined 1', 'a=1 1']));
    const before = runs.length;
    await etcd.delete(`${start}/pods/a`);
    await expect.poll(() => runs.slice(before)).toContain('a=1 1');
    stop.abort();
    await running;
  });

  test('rejects if `ownerOf` throws, or returns a key outside the range', async () => {
    const [etcd, start] = [openClient(), unique('wanted')];
    await etcd.put(`${start}/pods/a`, '1');
    const keys = prefix(`${start}/keys/`);
    const owned = (ownerOf: (key: string) => string) => ({ owned: [{ keys: prefix(`${start}/pods/`), ownerOf }] });
    const outside = reconcile(
      etcd,
      keys,
      owned(() => `${start}/key`),
      () => {},
    );
    expect(await errorOf(outside)).toMatchObject({
      reason: 'InvalidInput',
      problem: expect.stringContaining('ownerOf(key)'),
    });
    const error = new Error('ownerOf fails');
    const throwing = owned(() => {
      throw error;
    });
    await expect(reconcile(etcd, keys, throwing, () => {})).rejects.toBe(error);
  });
});

describe('`reconcile` with `lead`', () => {
  test('runs handlers only in the leader, and in another process when the leader stops', async () => {
    const [etcd, start, stops] = [openClient(), unique('wanted'), [stopping(), stopping()]];
    const runs: string[] = [];
    const running = stops.map(({ signal }, index) =>
      reconcile(
        etcd,
        prefix(`${start}/keys/`),
        {
          signal,
          lead: { name: `${start}/leader`, value: `${index}` },
        },
        (run) => void runs.push(`${index} ${shown(run)}`),
      ),
    );
    await etcd.put(`${start}/keys/a`, '1');
    await expect.poll(() => runs.length).toBe(1);
    const leader = Number(runs[0]?.[0]);
    expect((await inspectLock(etcd, `${start}/leader`)).holder?.kv.text()).toBe(`${leader}`);
    stops[leader]?.abort();
    await running[leader];
    await expect.poll(() => runs[1]).toBe(`${1 - leader} a=1 1`);
    stops[1 - leader]?.abort();
    await Promise.all(running);
    expect((await etcd.range(prefix(`${start}/leader`))).count).toBe(0);
  });

  test('aborts the runs of a lost term, starts no run of the next term before they have ended, and fences their writes', async () => {
    const [etcd, start, stop, { opened, open }] = [openClient(), unique('wanted'), stopping(), gate()];
    const [terms, late, reports]: [bigint[], unknown[], RunReport[]] = [[], [], []];
    let running = 0;
    const handler = async ({ key, held, signal }: LeaderKeyRun): Promise<void> => {
      if (terms.at(-1) !== held.token) expect(running).toBe(0);
      terms.push(held.token);
      running += 1;
      if (held.token === terms[0]) {
        await aborted(signal);
        await opened;
        await held.txn({ then: [op.put(`${start}/late`, key)] }).catch((error) => late.push(error.reason));
      } else await held.txn({ then: [op.put(`${start}/actual`, key)] });
      running -= 1;
      if (held.token === terms[0]) throw new Error('ignored');
    };
    for (const name of ['a', 'b']) await etcd.put(`${start}/keys/${name}`, name);
    const reconciling = reconcile(
      etcd,
      prefix(`${start}/keys/`),
      {
        concurrency: 2,
        signal: stop.signal,
        lead: { name: `${start}/leader`, value: 'x' },
        onRun: (report) => void reports.push(report),
      },
      handler,
    );
    await expect.poll(() => terms.length).toBe(2);
    await etcd.lease.revoke((await inspectLock(etcd, `${start}/leader`)).holder?.leaseId ?? 0n);
    // A new session could lead now, but the runs of the old term have not ended.
    await expect.poll(async () => (await inspectLock(etcd, `${start}/leader`)).holder).toBeUndefined();
    expect(terms.length).toBe(2);
    open();
    await expect.poll(() => reports.length).toBe(2);
    expect(late).toEqual(['LockLost', 'LockLost']);
    expect(await etcd.get(`${start}/late`)).toBeUndefined();
    expect(reports.map(({ error, attempt }) => [error, attempt])).toEqual([
      [undefined, 1],
      [undefined, 1],
    ]);
    stop.abort();
    await reconciling;
  });

  test('rejects with what `onRun` has thrown, resigns, and waits for the other runs', async () => {
    const [etcd, start] = [openClient(), unique('wanted')];
    const error = new Error('onRun fails');
    for (const name of ['a', 'b']) await etcd.put(`${start}/keys/${name}`, name);
    let hasEnded = false;
    const failing = reconcile(
      etcd,
      prefix(`${start}/keys/`),
      {
        concurrency: 2,
        lead: { name: `${start}/leader`, value: 'x' },
        onRun: () => {
          throw error;
        },
      },
      async ({ key, signal }) => {
        if (key.endsWith('a')) return;
        await aborted(signal);
        await etcd.get(key);
        hasEnded = true;
      },
    );
    await expect(failing).rejects.toBe(error);
    expect(hasEnded).toBe(true);
    expect((await inspectLock(etcd, `${start}/leader`)).holder).toBeUndefined();
  });
});

describe('`reconcile` and faults', () => {
  test('waits for a server at the start, and sees what has changed and was compacted while it had no connection', async () => {
    const { endpoints } = await ownEtcd();
    const { etcd, direct, proxy } = await proxied(endpoints);
    const stop = stopping();
    const state = new Map<string, string>();
    const handler = ({ key, kv }: KeyRun): void => {
      if (kv === undefined) state.delete(key);
      else state.set(key, kv.text());
    };
    proxy.blackhole();
    const running = reconcile(etcd, prefix('keys/'), { signal: stop.signal }, handler);
    for (const name of ['a', 'b', 'c']) await direct.put(`keys/${name}`, '1');
    proxy.heal();
    proxy.dropConnections();
    await expect.poll(() => Object.fromEntries(state)).toEqual({ 'keys/a': '1', 'keys/b': '1', 'keys/c': '1' });
    proxy.blackhole();
    await direct.put('keys/a', '2');
    await direct.delete('keys/b');
    await direct.put('keys/d', '1');
    await direct.delete('keys/d');
    await direct.compact((await direct.put('other', '')).header.revision);
    proxy.heal();
    proxy.dropConnections();
    await expect.poll(() => Object.fromEntries(state)).toEqual({ 'keys/a': '2', 'keys/c': '1' });
    stop.abort();
    await running;
  });

  test('rejects with PermissionDenied if the user may not read the range, and ends when the client closes', async () => {
    const { endpoints } = await authEtcd();
    const etcd = openClient({ endpoints, auth: USER });
    expect(await errorOf(reconcile(etcd, prefix('other/'), () => {}))).toMatchObject({ reason: 'PermissionDenied' });
    await etcd.put('app/a', '1');
    const closed = reconcile(etcd, prefix('app/'), async ({ signal }) => {
      void etcd.close();
      await aborted(signal);
    });
    await closed;
    expect(await errorOf(reconcile(etcd, prefix('app/'), () => {}))).toMatchObject({ reason: 'ClientClosed' });
    const other = openClient({ endpoints, auth: USER });
    const closedLeader = reconcile(
      other,
      prefix('app/'),
      { lead: { name: 'app/leader', value: 'x' } },
      async ({ signal }) => {
        void other.close();
        await aborted(signal);
      },
    );
    await closedLeader;
  });

  test('resolves at once without a server when its signal has aborted before, with and without `lead`', async () => {
    const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
    const signal = AbortSignal.abort();
    const lead = { name: 'x', value: 'x' };
    const never = (): void => expect.unreachable();
    expect(await reconcile(etcd, prefix('x'), { signal }, never)).toBeUndefined();
    expect(await reconcile(etcd, prefix('x'), { signal, lead }, never)).toBeUndefined();
  });

  test('rejects with InvalidInput that names the wrong argument', async () => {
    const etcd = openClient();
    const key = unique('wanted');
    const lead = { name: key, value: 'x' };
    const wrong: readonly (readonly [string, Promise<void>])[] = [
      ['client', reconcile({} as Client, key, () => {})],
      ['keys', reconcile(etcd, 1 as never, () => {})],
      ['handler', reconcile(etcd, key, undefined as never)],
      ['concurrency', reconcile(etcd, key, { concurrency: 0 }, () => {})],
      ['owned[0].ownerOf', reconcile(etcd, key, { owned: [{ keys: key, ownerOf: 1 as never }] }, () => {})],
      ['owned[0].ownerOf', reconcile(etcd, key, { owned: [{ keys: key } as never] }, () => {})],
      ['owned[0].keys', reconcile(etcd, key, { owned: [{ ownerOf: (each: string) => each } as never] }, () => {})],
      ['owned[0]', reconcile(etcd, key, { owned: [undefined as never] }, () => {})],
      ['lead.value', reconcile(etcd, key, { lead: { name: key, value: 1 as never } }, () => {})],
      ['lead.name', reconcile(etcd, key, { lead: { ...lead, name: '' } }, () => {})],
      ['lead.ttl', reconcile(etcd, key, { lead: { ...lead, ttl: 0 } }, () => {})],
      ['options', reconcile(etcd, key, { resync: 5 } as never, () => {})],
    ];
    for (const [argument, each] of wrong)
      expect(await errorOf(each)).toMatchObject({
        reason: 'InvalidInput',
        problem: expect.stringContaining(argument),
      });
    await etcd.put(key, '1');
    const failing = async (): Promise<void> => {
      throw new Error('the handler fails');
    };
    const delay = reconcile(etcd, key, { retryDelayMs: () => Number.NaN }, failing);
    expect(await errorOf(delay)).toMatchObject({
      reason: 'InvalidInput',
      problem: expect.stringContaining('retryDelayMs(attempt)'),
    });
  });
});

test('a fenced write of a handler of `reconcile` can also compare other keys', async () => {
  const [etcd, start, stop] = [openClient(), unique('wanted'), stopping()];
  const results: boolean[] = [];
  await etcd.put(`${start}/keys/a`, '1');
  await reconcile(
    etcd,
    prefix(`${start}/keys/`),
    { signal: stop.signal, lead: { name: `${start}/leader`, value: 'x' } },
    async ({ key, kv, held }) => {
      const isSame = compare.modRevision(key, '==', kv?.modRevision ?? 0n);
      const { succeeded } = await held.txn({ if: [isSame], then: [op.put(`${start}/actual`, kv?.text() ?? '')] });
      results.push(succeeded);
      stop.abort();
    },
  );
  expect(results).toEqual([true]);
  expect((await etcd.get(`${start}/actual`))?.text()).toBe('1');
});
