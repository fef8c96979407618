import { describe, expect, onTestFinished, test } from 'vitest';
import { textOf } from '../../../src/base/bytes.js';
import { pause } from '../../../src/base/timers.js';
import type { WatchResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { EventType } from '../../../src/gen/mvccpb/kv.js';
import { Client, EtcdError, type Interceptor, op, prefix } from '../../../src/index.js';
import { lead, Mutex, Session } from '../../../src/locks.js';
import {
  DoubleBarrier,
  type PersistedRangeNotice,
  persisted,
  Queue,
  RateLimiter,
  reconcile,
  Service,
  schedule,
  stm,
  type Tick,
  WorkQueue,
} from '../../../src/recipes.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { aborted, gate } from '../../support/signals.js';
import { answerLost, deletes, puts, stagedTransport, transactions } from '../../support/transactions.js';

// Recipes at moments that other tests do not reach: between an effect and its answer, and while something ends.

/** A call whose answer never arrives. */
async function unanswered(signal: AbortSignal | undefined): Promise<never> {
  await pause(Number.POSITIVE_INFINITY, signal);
  throw answerLost();
}

function denied(): EtcdError {
  return new EtcdError('denied', { code: 'PermissionDenied', reason: 'PermissionDenied', outcome: 'rejected' });
}

/** A client of an etcd in memory. */
function memoryClient(server: MemoryEtcd, interceptors: readonly Interceptor[] = []): Client {
  const client = new Client({ transport: memory(server), interceptors });
  onTestFinished(() => client.close({ drainMs: 0 }));
  return client;
}

/** Waits until a watch of the client has shown a revision. Its earlier watches on the same stream have shown it, too. */
async function watched(client: Client, key: string, startRevision: bigint): Promise<void> {
  await client.watch(key, { startRevision }).batches().next();
}

describe('after the store was restored from an older copy', () => {
  test('`reconcile` with owners pauses between its reads until its watch notices', async () => {
    const server = new MemoryEtcd();
    let reads = 0;
    const counting: Interceptor = {
      unary(call, next) {
        if (call.method.path === methods.kv.range.path) reads += 1;
        // The test fails instead of running forever.
        if (reads > 10_000) throw new Error('too many reads');
        return next(call);
      },
    };
    const [etcd, other] = [memoryClient(server, [counting]), memoryClient(server)];
    await other.put('r/1', 'a');
    const copy = server.snapshot();
    await other.put('r/1', 'b');
    const seen: (string | undefined)[] = [];
    const stop = new AbortController();
    const options = { owned: [{ keys: prefix('o/'), ownerOf: () => 'r/1' }], signal: stop.signal };
    const reconciling = reconcile(etcd, prefix('r/'), options, ({ kv }) => {
      seen.push(kv?.text());
      return { againMs: 20 };
    });
    await expect.poll(() => seen.length).toBeGreaterThan(3);
    server.restore(copy);
    await expect.poll(() => seen.at(-1)).toBe('a');
    stop.abort();
    await reconciling;
  });

  test.each([1, 2])(
    '`catchUp` of a persisted range waits for the restored keys during a slow save (%i puts)',
    async (count) => {
      const server = new MemoryEtcd();
      const [etcd, other] = [memoryClient(server), memoryClient(server)];
      await other.put('c/a', 'backup');
      const copy = server.snapshot();
      const saving = gate();
      let saves: Promise<void> = Promise.resolve();
      let begun = 0;
      const store = {
        load: async () => undefined,
        save: () => {
          begun += 1;
          return saves;
        },
      };
      const notices: string[] = [];
      const onNotice = ({ type }: PersistedRangeNotice): void => void notices.push(type);
      await using range = await persisted(etcd, prefix('c/'), store, { onNotice });
      await other.put('c/a', 'former 1');
      await range.catchUp();
      saves = saving.opened;
      begun = 0;
      await other.put('c/a', 'former 2');
      await expect.poll(() => begun).toBe(1);
      // The message with this put waits during the save.
      if (count > 1) await other.put('c/a', 'former 3');
      await watched(etcd, 'c/a', server.revision);
      server.restore(copy);
      const catchingUp = range.catchUp();
      await expect.poll(() => notices).toEqual(['store-changed']);
      saving.open();
      await catchingUp;
      expect([range.get('c/a')?.text(), range.revision]).toEqual(['backup', server.revision]);
    },
  );
});

test('`endpoints` of a view shows the restored endpoints although the revision and the size are the same as before', async () => {
  const server = new MemoryEtcd();
  let reading: Promise<void> = Promise.resolve();
  const holding: Interceptor = {
    async unary(call, next) {
      const { countOnly } = call.request as { readonly countOnly?: boolean };
      if (call.method.path === methods.kv.range.path && !countOnly) await reading;
      return next(call);
    },
  };
  const [etcd, other] = [memoryClient(server, [holding]), memoryClient(server)];
  await other.put('s/a', JSON.stringify({ Op: 0, Addr: 'backup' }));
  const copy = server.snapshot();
  await other.put('s/a', JSON.stringify({ Op: 0, Addr: 'former' }));
  await using view = await new Service(etcd, 's').view();
  const revision = server.revision;
  expect(view.endpoints.get('a')?.address).toBe('former');
  const [events, held]: [string[], ReturnType<typeof gate>] = [[], gate()];
  etcd.onEvent(({ type }) => void events.push(type));
  reading = held.opened;
  server.restore(copy);
  await expect.poll(() => events).toContain('cluster restored');
  await other.put('unrelated', '1');
  expect(server.revision).toBe(revision);
  held.open();
  await expect.poll(() => view.endpoints.get('a')?.address).toBe('backup');
});

describe('the outcome of an error', () => {
  test('of `stm` is `applied` if the commit took effect, and its result was lost', async () => {
    const [other, key, stop] = [openClient(), unique(), new AbortController()];
    let isLost = false;
    const transport = stagedTransport({
      onTransaction: async (ops, send) => {
        if (isLost && !deletes(ops, key)) {
          // The client reads back the result.
          stop.abort();
          throw answerLost();
        }
        const answer = await send();
        if (isLost || !deletes(ops, key)) return answer;
        isLost = true;
        throw answerLost();
      },
    });
    const etcd = openClient({ transport });
    await other.put(key, '');
    const options = { retryWrites: true, signal: stop.signal };
    const error = await errorOf(stm(etcd, options, (tx) => tx.delete(key)));
    expect(error).toMatchObject({ reason: 'Canceled', outcome: 'applied' });
    expect(await other.get(key)).toBeUndefined();
  });

  test('of `complete` is `unknown` if the answer to an attempt was lost, and the next attempt is refused', async () => {
    const [other, name, result] = [openClient(), unique('jobs'), unique()];
    let attempts = 0;
    const losing = transactions(async (ops, send) => {
      if (!puts(ops, result)) return send();
      attempts += 1;
      if (attempts > 1) throw denied();
      await send();
      throw answerLost();
    });
    const etcd = openClient({ interceptors: [losing] });
    await new WorkQueue(etcd, name).enqueue('job');
    const job = await new WorkQueue(etcd, name).take(await Session.open(etcd));
    const error = await errorOf(job.complete([op.put(result, 'paid')]));
    expect(error).toMatchObject({ reason: 'PermissionDenied', outcome: 'unknown' });
    expect((await other.get(result))?.text()).toBe('paid');
  });

  test.each([
    [
      'enter',
      (_: Client, session: Session, name: string, signal: AbortSignal) =>
        new DoubleBarrier(session, name, 2).enter({ signal }),
    ],
    [
      'take',
      async (etcd: Client, session: Session, name: string, signal: AbortSignal) => {
        await new WorkQueue(openClient(), name).enqueue('job');
        await new WorkQueue(etcd, name).take(session, { signal });
      },
    ],
    [
      'register',
      (etcd: Client, session: Session, name: string, signal: AbortSignal) =>
        new Service(etcd, name).register(session, '1', { address: 'x' }, { signal }),
    ],
  ] as const)('of `%s` is `unknown` if its cleanup gets no answer', async (_, call) => {
    const [name, stop] = [unique('silent'), new AbortController()];
    let isSilent = false;
    const silent = transactions(async (ops, send, signal) => {
      if (isSilent) return unanswered(signal);
      if (!ops.some((each) => each.request?.case === 'requestPut' && puts([each], name))) return send();
      isSilent = true;
      await send();
      stop.abort();
      throw answerLost();
    });
    const etcd = openClient({ interceptors: [silent] });
    const session = await Session.open(etcd);
    const error = await errorOf(Promise.resolve(call(etcd, session, name, stop.signal)));
    expect(error).toMatchObject({ reason: 'Canceled', outcome: 'unknown' });
  });

  test('of `register` is `applied` if the put has replaced an endpoint, and its answer was lost', async () => {
    const [other, name, stop] = [openClient(), unique('service'), new AbortController()];
    await new Service(other, name).register(await Session.open(other), '1', { address: 'old' });
    const losing = transactions(async (ops, send) => {
      await (stop.signal.aborted || !puts(ops, name) ? undefined : send().then(() => stop.abort()));
      if (puts(ops, name)) throw answerLost();
      return send();
    });
    const etcd = openClient({ interceptors: [losing] });
    const registering = new Service(etcd, name).register(
      await Session.open(etcd),
      '1',
      { address: 'new' },
      { signal: stop.signal },
    );
    expect(await errorOf(registering)).toMatchObject({ reason: 'Canceled', outcome: 'applied' });
    expect([...(await new Service(other, name).list()).values()]).toMatchObject([{ address: 'new' }]);
  });

  test('of `enter` is `not-sent` if no call was sent', async () => {
    const refusing = transactions(async () => {
      throw new EtcdError('no', { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent' });
    });
    const session = await Session.open(openClient({ interceptors: [refusing] }));
    const error = await errorOf(new DoubleBarrier(session, unique('barrier'), 2).enter({ maxWaitMs: 100 }));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
  });

  test('of `tryTake` is `applied` if it took the tokens, and its signal aborted before the answer', async () => {
    const [key, stop] = [unique('limit'), new AbortController()];
    const late = transactions(async (ops, send) => {
      const answer = await send();
      if (puts(ops, key)) stop.abort();
      return answer;
    });
    const limiter = new RateLimiter(openClient({ interceptors: [late] }), key, { perSecond: 0.01, burst: 5 });
    expect(await errorOf(limiter.tryTake(4, { signal: stop.signal }))).toMatchObject({ outcome: 'applied' });
  });
});

test.each(['a listener', 'the program'])(
  'a job is completed although %s settles it again, and the client closes, before the answer arrives',
  async (who) => {
    const [name, reader, held] = [unique('jobs'), openClient(), gate()];
    let isHeld = false;
    const slow = transactions(async (_, send) => {
      if (isHeld) await held.opened;
      return send();
    });
    const etcd = openClient({ interceptors: [slow] });
    await new WorkQueue(etcd, name).enqueue('job');
    const job = await new WorkQueue(etcd, name).take(await Session.open(etcd));
    const again = (): Promise<unknown> => errorOf(Promise.resolve().then(() => job.retry()));
    isHeld = true;
    if (who === 'a listener') job.signal.addEventListener('abort', () => void job.retry().catch(() => {}));
    const completing = job.complete();
    if (who === 'the program') expect(await again()).toMatchObject({ reason: 'LockReleased' });
    const closing = etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    await reader.get(name);
    held.open();
    await completing;
    await closing;
    expect(await new WorkQueue(reader, name).counts()).toMatchObject({ running: 0, ready: 0 });
  },
);

test('`dequeue` rejects when its place in the queue is lost during the claim of an item that another client takes', async () => {
  const [other, name] = [openClient(), unique('queue')];
  const queue = new Queue(other, name);
  const lost = gate();
  const slow = transactions(async (ops, send) => {
    if (!deletes(ops, `${name}/`)) return send();
    await other.delete(prefix(`${name}/`));
    const answer = await send();
    await lost.opened;
    return answer;
  });
  const consumers = `__${name}/`;
  const noticing: Interceptor = {
    stream: (call, handler, next) =>
      next(call, {
        ...handler,
        end: (error) => handler.end(error),
        message: (message) => {
          handler.message(message);
          const { events = [] } = message as Partial<WatchResponse>;
          const isLost = events.some(
            ({ type, kv }) => type === EventType.DELETE && textOf(kv?.key ?? new Uint8Array()).startsWith(consumers),
          );
          // The consumer has handled the event by then.
          if (isLost) setImmediate(() => lost.open());
        },
      }),
  };
  const etcd = openClient({ interceptors: [slow, noticing] });
  const session = await Session.open(etcd);
  await queue.enqueue('item');
  const dequeuing = errorOf(new Queue(etcd, name).dequeue(session));
  await expect.poll(async () => (await other.range(prefix(consumers))).count).toBe(1);
  await expect.poll(async () => (await other.range(prefix(`${name}/`))).count).toBe(0);
  await other.delete(prefix(consumers));
  expect(await dequeuing).toMatchObject({ reason: 'LockLost' });
});

test('`close` of a registration deletes the endpoint while the closing client waits for a lock of the session', async () => {
  const [other, name] = [openClient(), unique('service')];
  const etcd = new Client({ endpoints: other.endpoints });
  const session = await Session.open(etcd);
  const registration = await new Service(etcd, name).register(session, '1', { address: 'x' });
  const held = await new Mutex(session, `${name}/lock`).lock();
  const closing = etcd.close({ drainMs: Number.POSITIVE_INFINITY });
  await registration.close();
  expect([...(await new Service(other, name).list()).keys()]).toEqual([]);
  await held.release();
  await closing;
});

describe('an error that a callback throws after it has aborted the signal', () => {
  const fatal = new Error('fatal');
  const stopping = (): { readonly signal: AbortSignal; readonly fail: () => never } => {
    const stop = new AbortController();
    const fail = (): never => {
      stop.abort();
      throw fatal;
    };
    return { signal: stop.signal, fail };
  };

  test('rejects `work`', async () => {
    const queue = new WorkQueue(openClient(), unique('jobs'));
    await queue.enqueue('job');
    const { signal, fail } = stopping();
    const working = queue.work({ signal, onFailure: fail }, () => Promise.reject(new Error('failed')));
    await expect(working).rejects.toBe(fatal);
  });

  test('rejects `schedule`', async () => {
    const { signal, fail } = stopping();
    const options = { signal, onFailure: fail };
    const running = schedule(openClient(), unique('schedule'), 10, options, () => Promise.reject(new Error('failed')));
    await expect(running).rejects.toBe(fatal);
  });

  test('rejects `work` if the callback is `retryDelayMs`', async () => {
    const { signal, fail } = stopping();
    const queue = new WorkQueue(openClient(), unique('jobs'), { retryDelayMs: fail });
    await queue.enqueue('job');
    await expect(queue.work({ signal }, () => Promise.reject(new Error('failed')))).rejects.toBe(fatal);
  });

  test('rejects `schedule` although the leadership was lost before, and another process leads', async () => {
    const [other, name, stop] = [openClient(), unique('schedule'), new AbortController()];
    const leading = gate();
    let next: Promise<unknown> | undefined;
    const onFailure = async (_: unknown, { held }: Tick): Promise<void> => {
      next = lead(other, `${name}/leader`, { signal: stop.signal }, async ({ signal }) => {
        leading.open();
        await aborted(signal);
      });
      await other.delete(held.key);
      await leading.opened;
      throw fatal;
    };
    const running = schedule(openClient(), name, 10, { onFailure }, () => Promise.reject(new Error('failed')));
    await expect(running).rejects.toBe(fatal);
    stop.abort();
    await next;
  });

  test('rejects `reconcile`', async () => {
    const [etcd, name] = [openClient(), unique('range')];
    await etcd.put(`${name}/1`, '');
    const { signal, fail } = stopping();
    await expect(reconcile(etcd, prefix(`${name}/`), { signal, onRun: fail }, () => {})).rejects.toBe(fatal);
  });
});

test.each(['one after the other', 'at once'])(
  '`stm` reads again after its first read was refused (%s)',
  async (when) => {
    const [etcd, key] = [openClient(), unique()];
    await etcd.put(key, 'value');
    let reads = 0;
    const refusing: Interceptor = {
      unary(call, next) {
        if (call.method.path !== methods.kv.range.path) return next(call);
        reads += 1;
        return reads === 1 ? Promise.reject(denied()) : next(call);
      },
    };
    const read = stm(openClient({ interceptors: [refusing] }), async (tx) => {
      const first = tx.text('denied').catch((error) => error.reason);
      if (when === 'one after the other') await first;
      return Promise.all([first, tx.text(key)]);
    });
    expect(await read).toEqual(['PermissionDenied', 'value']);
  },
);
