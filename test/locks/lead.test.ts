import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { type KeepAlive, prefix } from '../../src/index.js';
import { inspectLock, lead, observe } from '../../src/locks.js';
import { type Child, startScript } from '../support/child.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { proxied } from '../support/locks.js';
import { aborted } from '../support/signals.js';

const PROGRAM = new URL('../support/leading-program.ts', import.meta.url);

describe('`lead`', () => {
  test('runs the action while it leads, resigns when the action returns, and resolves with the result', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    const result = await lead(etcd, name, { value: 'host-1' }, async ({ held }) => {
      const { holder } = await inspectLock(etcd, name);
      expect(holder?.kv.text()).toBe('host-1');
      expect(holder?.token).toBe(held.token);
      return 42;
    });
    expect(result).toBe(42);
    expect((await inspectLock(etcd, name)).holder).toBeUndefined();
  });

  test('resigns and rejects with the error when the action throws while it leads', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    const error = new Error('the action failed');
    const failing = lead(etcd, name, { value: 'x' }, () => {
      throw error;
    });
    await expect(failing).rejects.toBe(error);
    expect((await inspectLock(etcd, name)).holder).toBeUndefined();
  });

  test('rejects with the error of the action when the action first resigns and then throws', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    const error = new Error('the action failed');
    const failing = lead(etcd, name, { value: 'x' }, async ({ held }) => {
      await using _ = held;
      throw error;
    });
    await expect(failing).rejects.toBe(error);
  });

  test.each(['queue key', 'lease'])(
    'ends the term when an operator deletes its %s, waits for the action, and campaigns again',
    async (what) => {
      const [etcd, name] = [openClient(), unique('election')];
      const tokens: bigint[] = [];
      let running = 0;
      const result = await lead(etcd, name, { value: 'x' }, async (term) => {
        running += 1;
        expect(running).toBe(1);
        tokens.push(term.held.token);
        if (tokens.length < 3) {
          const { holder } = await inspectLock(etcd, name);
          if (what === 'lease') await etcd.lease.revoke(holder?.leaseId ?? 0n);
          else await etcd.delete(term.held.key);
          await aborted(term.signal);
          await etcd.get(name);
        }
        running -= 1;
        // `lead` ignores what an action throws after the leadership was lost.
        if (tokens.length === 2) throw new Error('too late');
        return tokens.length;
      });
      expect(result).toBe(3);
      expect(tokens).toEqual(tokens.toSorted((a, b) => Number(a - b)));
      expect(new Set(tokens).size).toBe(3);
    },
  );

  test('resolves with undefined and leaves the queue when its signal aborts, whether it waits or leads', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    const [first, second] = [new AbortController(), new AbortController()];
    let isLeading = (): void => {};
    const leads = new Promise<void>((resolve) => {
      isLeading = resolve;
    });
    const leader = lead(etcd, name, { value: 'first', signal: first.signal }, (term) => {
      isLeading();
      return aborted(term.signal).then(() => 'ignored');
    });
    await leads;
    const waiter = lead(etcd, name, { value: 'second', signal: second.signal }, () => 'never');
    await expect.poll(async () => (await inspectLock(etcd, name)).waiters.length).toBe(1);
    second.abort();
    expect(await waiter).toBeUndefined();
    expect((await inspectLock(etcd, name)).waiters).toEqual([]);
    first.abort();
    expect(await leader).toBeUndefined();
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
  });

  test('returns at once when its signal has aborted before, and grants no lease', async () => {
    const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
    expect(await lead(etcd, 'x', { value: 'x', signal: AbortSignal.abort() }, () => 1)).toBeUndefined();
  });

  test('resolves with undefined when the client closes, and rejects with ClientClosed afterwards', async () => {
    const etcd = openClient();
    const closed = lead(etcd, unique('election'), { value: 'x' }, async (term) => {
      void etcd.close();
      await aborted(term.signal);
      return 1;
    });
    expect(await closed).toBeUndefined();
    expect(await errorOf(lead(etcd, 'x', { value: 'x' }, () => 1))).toMatchObject({ reason: 'ClientClosed' });
  });

  test('rejects with InvalidInput for wrong arguments', async () => {
    const etcd = openClient();
    const wrong = [
      lead(etcd, '', { value: 'x' }, () => 1),
      lead(etcd, 'x', { value: 1 as never }, () => 1),
      lead(etcd, 'x', { value: 'x' }, 1 as never),
    ];
    for (const each of wrong) expect(await errorOf(each)).toMatchObject({ reason: 'InvalidInput' });
  });
});

describe('a leader in a process of its own', () => {
  const start = (name: string, ttl: number): Child =>
    startScript(PROGRAM, [inject('endpoints')[0] ?? '', name, `${ttl}`]);
  const tokenOf = (line: string): bigint => BigInt(line.replace('leading ', ''));

  /** Checks that the written tokens never decrease: no leader has written after a later leader has written. */
  async function expectOrder(name: string, startRevision: bigint): Promise<void> {
    const etcd = openClient();
    const { header } = await etcd.put(`${name}-written`, 'end');
    let last = 0n;
    for await (const event of etcd.watch(`${name}-written`, { startRevision })) {
      if (event.modRevision === header.revision || event.type === 'delete') return;
      const token = BigInt(event.kv.text());
      expect(token).toBeGreaterThanOrEqual(last);
      last = token;
    }
  }

  test.each([
    // With this TTL, the test would take too long unless the leader resigned.
    ['SIGTERM', 300],
    ['SIGKILL', 2],
    ['SIGSTOP', 2],
  ] as const)('hands over after %s, and never writes after its successor', async (signal, ttl) => {
    const name = unique('election');
    const { header } = await openClient().put(unique('begin'), '');
    const first = start(name, ttl);
    const before = tokenOf(await first.line());
    const second = start(name, ttl);
    await expect.poll(async () => (await inspectLock(openClient(), name)).waiters.length).toBe(1);
    first.process.kill(signal);
    const after = tokenOf(await second.line());
    expect(after).toBeGreaterThan(before);
    if (signal === 'SIGSTOP') {
      first.process.kill('SIGCONT');
      expect(await first.line()).toBe('over');
      // The first process is a candidate again.
      await expect.poll(async () => (await inspectLock(openClient(), name)).waiters.length).toBe(1);
      second.process.kill('SIGTERM');
      expect(tokenOf(await first.line())).toBeGreaterThan(after);
    }
    for (const child of [first, second]) child.process.kill('SIGTERM');
    await Promise.all([first.exited, second.exited]);
    await expectOrder(name, header.revision);
  });
});

test('`observe` yields each leader and each proclamation without a session', async () => {
  const [etcd, name] = [openClient(), unique('election')];
  const seen: string[] = [];
  const observing = (async () => {
    for await (const leader of observe(etcd, name)) {
      seen.push(leader.text());
      if (seen.length === 3) break;
    }
  })();
  await lead(etcd, name, { value: 'a' }, async ({ held }) => {
    await expect.poll(() => seen).toEqual(['a']);
    await held.proclaim('b');
    await expect.poll(() => seen).toEqual(['a', 'b']);
  });
  await lead(etcd, name, { value: 'c' }, () => observing);
  expect(seen).toEqual(['a', 'b', 'c']);
});

test('`lead` revokes a lost lease that still lives on the server, so that it need not wait for its own key', async () => {
  const { etcd, direct, proxy } = await proxied();
  const name = unique('election');
  let keeper: KeepAlive | undefined;
  onTestFinished(() => keeper?.close());
  const result = await lead(etcd, name, { value: 'x', ttl: 1 }, async ({ signal, held }) => {
    if (keeper !== undefined) return 'leads again';
    // As after an election among the members, the lease lives longer on the server than its holder knows.
    keeper = direct.lease.keepAlive((await direct.get(held.key))?.lease ?? 0n);
    proxy.blackhole();
    await aborted(signal);
    expect(signal.reason.reason).toBe('LeaseUnreachable');
    proxy.heal();
    return 'lost';
  });
  expect(result).toBe('leads again');
});
