import { describe, expect, inject, test } from 'vitest';
import { type Client, type Interceptor, op, prefix } from '../../../src/index.js';
import { Session } from '../../../src/locks.js';
import { type Job, WorkQueue, type WorkQueueOptions } from '../../../src/recipes.js';
import { containing } from '../../../src/testing/index.js';
import { type Child, startScript } from '../../support/child.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';

const PROGRAM = new URL('../../support/working-program.ts', import.meta.url);
const NOW: WorkQueueOptions = { retryDelayMs: () => 0 };

function open(options?: WorkQueueOptions): { readonly etcd: Client; readonly queue: WorkQueue } {
  const etcd = openClient();
  return { etcd, queue: new WorkQueue(etcd, unique('work'), options) };
}

/** Works on the jobs until `handler` has run for `count` of them and the queue has no running job. */
async function workOn(queue: WorkQueue, count: number, handler: (job: Job) => Promise<void> | void): Promise<void> {
  const stop = new AbortController();
  let calls = 0;
  const working = queue.work({ signal: stop.signal }, async (job) => {
    calls += 1;
    await handler(job);
  });
  await expect.poll(async () => calls >= count && (await queue.counts()).running, { interval: 5 }).toBe(0);
  stop.abort();
  await working;
}

async function keysOf(etcd: Client, queue: WorkQueue): Promise<readonly string[]> {
  return (await etcd.range(prefix(`${queue.name}/`))).kvs.map((kv) => kv.key);
}

describe('WorkQueue', () => {
  test('a worker with 20 free slots takes 20 ready jobs after it has looked for jobs once', async () => {
    let looks = 0;
    const countLooks: Interceptor = {
      unary(call, next) {
        const { compare = [], success = [] } = call.request as { compare?: unknown[]; success?: unknown[] };
        // A worker that looks for jobs reads four folders in one transaction.
        if (compare.length === 0 && success.length === 4) looks += 1;
        return next(call);
      },
    };
    const queue = new WorkQueue(openClient({ interceptors: [countLooks] }), unique('work'));
    for (let job = 0; job < 20; job += 1) await queue.enqueue(`${job}`, { id: `${job}` });
    const stop = new AbortController();
    const started: string[] = [];
    await queue.work({ concurrency: 20, signal: stop.signal }, async (job) => {
      started.push(job.id);
      if (started.length === 20) stop.abort();
      // No job ends before all of them have started.
      await expect.poll(() => stop.signal.aborted).toBe(true);
    });
    expect(started).toEqual(Array.from({ length: 20 }, (_, job) => `${job}`));
    expect(looks).toBe(1);
  });

  test('delivers jobs by priority, and jobs of one priority in the order of their enqueue calls, and leaves no key', async () => {
    const { etcd, queue } = open();
    const order: string[] = [];
    for (const [value, priority] of [
      ['c1', 200],
      ['b1', undefined],
      ['a', 0],
      ['c2', 200],
    ] as const) {
      await queue.enqueue(value, { priority });
    }
    expect(await queue.counts()).toEqual({ ready: 4, delayed: 0, running: 0, dead: 0 });
    await workOn(queue, 4, (job) => {
      order.push(job.text());
      expect(job.attempt).toBe(1);
    });
    expect(order).toEqual(['a', 'b1', 'c1', 'c2']);
    expect(await keysOf(etcd, queue)).toEqual([]);
  });

  test('delivers jobs that are enqueued in the same millisecond in the order of the calls, whatever their IDs are', async () => {
    const { queue } = open();
    const ids = Array.from({ length: 60 }, (_, job) => `${99 - job}`);
    await Promise.all(ids.map((id) => queue.enqueue('', { id })));
    const order: string[] = [];
    await workOn(queue, ids.length, (job) => {
      order.push(job.id);
    });
    expect(order).toEqual(ids);
  });

  test('delivers each job to exactly one of several workers while no worker dies', async () => {
    const { etcd, queue } = open();
    const stop = new AbortController();
    const done: string[] = [];
    let running = 0;
    let most = 0;
    const ids = Array.from({ length: 60 }, (_, index) => `${index}`);
    const workers = Array.from({ length: 3 }, () =>
      new WorkQueue(openClient(), queue.name).work({ concurrency: 2, signal: stop.signal }, async (job) => {
        running += 1;
        most = Math.max(most, running);
        await job.complete([op.put(`${queue.name}-results/${job.id}`, job.value)]);
        running -= 1;
        done.push(job.id);
        if (done.length === ids.length) stop.abort();
      }),
    );
    await Promise.all(ids.map((id) => queue.enqueue(id, { id })));
    await Promise.all(workers);
    expect(done.toSorted()).toEqual(ids.toSorted());
    expect(most).toBeLessThanOrEqual(6);
    expect((await etcd.range(prefix(`${queue.name}-results/`))).count).toBe(60);
  });

  test('delivers a delayed job when its time has come, and wakes a worker that waits for it', async () => {
    const { queue } = open();
    const startedAt = Date.now();
    const delayed = workOn(queue, 1, () => {});
    await queue.enqueue('later', { delayMs: 300 });
    expect(await queue.counts()).toMatchObject({ ready: 0, delayed: 1 });
    await delayed;
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(300);
  });

  test('tries a failed job again, and keeps it with its last error as a dead job after `maxAttempts`', async () => {
    const { queue } = open({ ...NOW, maxAttempts: 3 });
    await queue.enqueue('x', { id: 'poison' });
    const attempts: number[] = [];
    await workOn(queue, 3, (job) => {
      attempts.push(job.attempt);
      throw new Error(`failure ${job.attempt}`);
    });
    expect(attempts).toEqual([1, 2, 3]);
    const dead = await queue.dead();
    expect(
      dead.map(({ id, attempts, error, value }) => ({ id, attempts, error, value: new TextDecoder().decode(value) })),
    ).toEqual([{ id: 'poison', attempts: 3, error: 'failure 3', value: 'x' }]);
    expect(await queue.requeue('poison')).toBe(true);
    expect(await queue.requeue('poison')).toBe(false);
    await workOn(queue, 1, (job) => {
      expect(job.attempt).toBe(1);
      return job.bury('never');
    });
    expect((await queue.dead())[0]).toMatchObject({ id: 'poison', error: 'never' });
    expect(await queue.discard('poison')).toBe(true);
    expect(await queue.counts()).toEqual({ ready: 0, delayed: 0, running: 0, dead: 0 });
    expect(await queue.discard('poison')).toBe(false);
  });

  test('waits longer before each further try by default', async () => {
    const { etcd, queue } = open();
    const retries = etcd.watch(prefix(`${queue.name}/todo/delayed/`), { only: 'put' });
    await retries.created();
    await queue.enqueue('x', { id: 'job' });
    const stop = new AbortController();
    const startedAt = Date.now();
    const working = queue.work({ signal: stop.signal }, () => {
      throw new Error('failed');
    });
    const delays: number[] = [];
    for await (const event of retries) {
      if (event.type !== 'put') continue;
      const { delayMs } = event.kv.json((state) => state as { delayMs: number });
      delays.push(delayMs);
      const dueMs = Number(event.key.split('/').at(-2));
      expect(dueMs).toBeGreaterThanOrEqual(startedAt + delayMs);
      if (delays.length === 2) break;
    }
    stop.abort();
    await working;
    expect(delays).toEqual([1_000, 2_000]);
  });

  test('adds a job with an ID only once, and remembers the ID after the job is completed', async () => {
    const { queue } = open();
    expect(await queue.enqueue('1', { id: 'order-1' })).toEqual({ id: 'order-1', added: true });
    expect(await queue.enqueue('2', { id: 'order-1' })).toEqual({ id: 'order-1', added: false });
    const values: string[] = [];
    await workOn(queue, 1, (job) => void values.push(job.text()));
    expect(await queue.enqueue('3', { id: 'order-1' })).toEqual({ id: 'order-1', added: false });
    expect(values).toEqual(['1']);
    expect(await queue.counts()).toEqual({ ready: 0, delayed: 0, running: 0, dead: 0 });
  });

  test('completes a job when an operator has revoked the lease of the remembered IDs', async () => {
    const { etcd, queue } = open();
    for (const id of ['1', '2']) await queue.enqueue(id, { id });
    await workOn(queue, 2, async (job) => {
      await job.complete();
      const marker = await etcd.get(`${queue.name}/done/${job.id}`);
      if (job.id === '1') await etcd.lease.revoke(marker?.lease ?? 0n);
    });
    expect(await keysOf(etcd, queue)).toEqual([`${queue.name}/done/2`]);
  });

  test('returns the job of a worker whose lease ended, and does not let that worker complete it', async () => {
    const { etcd, queue } = open();
    await queue.enqueue('x');
    const dying = await Session.open(etcd);
    const lost = await queue.take(dying);
    const next = queue.take(await Session.open(etcd));
    await etcd.lease.revoke(dying.leaseId);
    const job = await next;
    expect(job).toMatchObject({ id: lost.id, attempt: 2 });
    await expect.poll(() => lost.signal.aborted).toBe(true);
    expect(await errorOf(lost.complete([op.put(`${queue.name}-result`, 'stale')]))).toMatchObject({
      reason: 'LockLost',
    });
    await job.complete([op.put(`${queue.name}-result`, 'fresh')]);
    expect((await etcd.get(`${queue.name}-result`))?.text()).toBe('fresh');
    expect(await keysOf(etcd, queue)).toEqual([]);
  });

  test('does not let a worker complete a job whose claim an operator has deleted, even before its watch reports it', async () => {
    const { etcd, queue } = open();
    await queue.enqueue('x');
    const session = await Session.open(etcd);
    const job = await queue.take(session);
    await etcd.delete(job.held.key);
    expect(await errorOf(job.complete())).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
    await (await queue.take(session)).complete();
    expect(await keysOf(etcd, queue)).toEqual([]);
  });

  test('makes a job whose worker dies again and again a dead job', async () => {
    const { etcd, queue } = open({ maxAttempts: 2 });
    await queue.enqueue('x', { id: 'killer' });
    for (let attempt = 1; attempt <= 2; attempt += 1) {
      const session = await Session.open(etcd);
      expect((await queue.take(session)).attempt).toBe(attempt);
      await etcd.lease.revoke(session.leaseId);
    }
    const session = await Session.open(etcd);
    expect(await errorOf(queue.take(session, { maxWaitMs: 200 }))).toMatchObject({ reason: 'DeadlineExceeded' });
    expect(await queue.dead()).toMatchObject([{ id: 'killer', attempts: 2, error: undefined }]);
  });

  test('refuses an `idTtl` for which etcd cannot grant a lease, before a job is enqueued', async () => {
    const [etcd, longest] = [openClient(), 4_500_000_000];
    for (const idTtl of [longest + 1, 2 * longest, Number.MAX_SAFE_INTEGER]) {
      const error = await errorOf(() => new WorkQueue(etcd, 'mail', { idTtl }));
      expect(error).toMatchObject({ reason: 'InvalidInput' });
      expect(error.message).toContain(`idTtl: got the number ${idTtl}`);
    }
    const queue = new WorkQueue(etcd, unique('work'), { idTtl: longest });
    await queue.enqueue('x', { id: 'x' });
    await workOn(queue, 1, () => {});
    expect(await queue.enqueue('x', { id: 'x' })).toMatchObject({ added: false });
  });

  test('returns a job at once when its worker releases the claim, and when the server refuses its completion', async () => {
    const { etcd, queue } = open();
    await queue.enqueue('x');
    const session = await Session.open(etcd);
    await (await queue.take(session)).held.release();
    const again = await queue.take(session);
    expect(again.attempt).toBe(2);
    const twice = [op.put('same', '1'), op.put('same', '2')];
    expect(await errorOf(again.complete(twice))).toMatchObject({ reason: 'InvalidInput' });
    // The job still belongs to the worker.
    await again.retry({ delayMs: 0, error: 'refused' });
    const last = await queue.take(session);
    expect(last.attempt).toBe(3);
    await last.complete();
    expect(await errorOf(last.retry())).toMatchObject({ reason: 'LockReleased', outcome: 'rejected' });
    expect(await keysOf(etcd, queue)).toEqual([]);
  });

  test('tries a job again and calls `onFailure` when the server refuses its completion, and remembers the error', async () => {
    const { queue } = open({ maxAttempts: 2, retryDelayMs: () => 0 });
    await queue.enqueue('x', { id: 'job' });
    const failures: unknown[] = [];
    const stop = new AbortController();
    const working = queue.work(
      {
        signal: stop.signal,
        onFailure: (error) => void failures.push(error),
      },
      (job) => job.complete([op.put('same', '1'), op.put('same', '2')]),
    );
    await expect.poll(async () => (await queue.counts()).dead).toBe(1);
    stop.abort();
    await working;
    expect(failures).toMatchObject([{ reason: 'InvalidInput' }, { reason: 'InvalidInput' }]);
    expect((await queue.dead())[0]?.error).toContain('twice');
  });

  test('leaves no claimed job behind when `take` calls time out while their claims are in flight', async () => {
    const { etcd, queue } = open();
    const session = await Session.open(etcd);
    for (let index = 0; index < 40; index += 1) await queue.enqueue(`${index}`);
    const taken: Job[] = [];
    for (let index = 0; index < 60; index += 1)
      await queue.take(session, { maxWaitMs: 1 + (index % 6) }).then(
        (job) => taken.push(job),
        () => {},
      );
    for (const job of taken) await job.complete();
    await expect.poll(async () => (await queue.counts()).running).toBe(0);
    expect((await queue.counts()).ready).toBe(40 - taken.length);
  });

  test('gives two concurrent `take` calls of one session different jobs when the answer to a claim is lost', async () => {
    const { etcd, proxy } = await proxied();
    const queue = new WorkQueue(etcd, unique('work'));
    for (const id of ['1', '2']) await queue.enqueue(id, { id });
    const session = await Session.open(etcd);
    const lost = proxy.loseNextAnswer(containing(`${queue.name}/held/claimed/`));
    const jobs = await Promise.all([queue.take(session), queue.take(session)]);
    await lost;
    expect(jobs.map(({ id }) => id).toSorted()).toEqual(['1', '2']);
  });

  test('rejects `complete` with outcome unknown when the session ends before the server answers', async () => {
    const { etcd, direct, proxy } = await proxied();
    const queue = new WorkQueue(etcd, unique('work'));
    await queue.enqueue('x');
    const job = await queue.take(await Session.open(etcd, { ttl: 2 }));
    const lost = proxy.loseNextAnswer(containing(`${queue.name}-result`));
    const completing = errorOf(job.complete([op.put(`${queue.name}-result`, 'x')]));
    await lost;
    await proxy.close();
    expect(await completing).toMatchObject({ reason: 'LockLost', outcome: 'unknown' });
    expect((await direct.get(`${queue.name}-result`))?.text()).toBe('x');
  });

  test('runs a job without an ID only once when the first attempt of `enqueue` arrives late, after the job is completed', async () => {
    const { etcd, direct, proxy } = await proxied();
    const queue = new WorkQueue(etcd, unique('work'));
    const held = proxy.holdNextRequest(containing(`${queue.name}/jobs/`));
    const enqueuing = queue.enqueue('x');
    const deliver = await held;
    proxy.dropConnections();
    await enqueuing;
    const session = await Session.open(direct);
    await (await new WorkQueue(direct, queue.name).take(session)).complete();
    deliver();
    await direct.put(queue.name, 'later');
    expect((await queue.counts()).ready).toBe(0);
  });

  test('keeps working with its other slots when a handler ignores the loss of its session', async () => {
    const { etcd, queue } = open();
    const stop = new AbortController();
    let end = (): void => {};
    const stuck = new Promise<void>((resolve) => {
      end = resolve;
    });
    const seen: string[] = [];
    await queue.enqueue('stuck', { id: 'stuck', priority: 0 });
    const working = queue.work({ concurrency: 2, signal: stop.signal }, async (job) => {
      seen.push(`${job.id} ${job.attempt}`);
      if (job.id !== 'stuck' || job.attempt > 1) return;
      const claim = await etcd.get(job.held.key);
      await etcd.lease.revoke(claim?.lease ?? 0n);
      await stuck;
    });
    await expect.poll(() => seen).toEqual(['stuck 1', 'stuck 2']);
    await queue.enqueue('next', { id: 'next' });
    await expect.poll(() => seen).toContain('next 1');
    end();
    stop.abort();
    await working;
  });

  test('completes a job whose handler does not await `complete` when the worker is asked to stop', async () => {
    const { etcd, queue } = open();
    await queue.enqueue('x');
    const stop = new AbortController();
    await queue.work({ signal: stop.signal }, (job) => {
      void job.complete([op.put(`${queue.name}-result`, 'x')]);
      stop.abort();
    });
    expect(await keysOf(etcd, queue)).toEqual([]);
    expect((await etcd.get(`${queue.name}-result`))?.text()).toBe('x');
  });

  test('removes keys that are not jobs, and finds the job of a dead worker although an operator has put an unrelated key among the keys of running jobs', async () => {
    const { etcd, queue } = open();
    await etcd.put(`${queue.name}/todo/delayed/oops`, '{}');
    await etcd.put(`${queue.name}/todo/ready/oops`, '{}');
    await etcd.put(`${queue.name}/held/running/stray`, '');
    await queue.enqueue('x', { id: 'job' });
    const dying = await Session.open(etcd);
    const [session, first] = [await Session.open(etcd), await queue.take(dying)];
    expect(first.id).toBe('job');
    await etcd.lease.revoke(dying.leaseId);
    expect(await queue.take(session)).toMatchObject({ id: 'job', attempt: 2 });
    // A call whose time has passed may have removed only some of the keys.
    await expect
      .poll(async () => {
        expect(await errorOf(queue.take(session, { maxWaitMs: 100 }))).toMatchObject({ reason: 'DeadlineExceeded' });
        return (await etcd.range(prefix(`${queue.name}/todo/`))).count;
      })
      .toBe(0);
  });

  test('discards a dead job when an operator has revoked the lease of the remembered IDs', async () => {
    const { etcd, queue } = open();
    const session = await Session.open(etcd);
    for (const id of ['1', '2']) {
      await queue.enqueue(id, { id });
      await (await queue.take(session)).bury();
    }
    await queue.discard('1');
    await etcd.lease.revoke((await etcd.get(`${queue.name}/done/1`))?.lease ?? 0n);
    expect(await queue.discard('2')).toBe(true);
    expect(await keysOf(etcd, queue)).toEqual([`${queue.name}/done/2`]);
  });

  test('returns a job without counting the try when its handler throws after the worker was asked to stop', async () => {
    const { queue } = open();
    await queue.enqueue('x', { id: 'job' });
    const stop = new AbortController();
    const failures: unknown[] = [];
    await queue.work({ signal: stop.signal, onFailure: (error) => void failures.push(error) }, async (job) => {
      stop.abort();
      job.signal.throwIfAborted();
    });
    expect(failures).toEqual([]);
    expect(await queue.counts()).toMatchObject({ ready: 1, running: 0 });
    await workOn(queue, 1, (job) => expect(job.attempt).toBe(1));
  });

  test('returns a job when its handler releases the claim, whether it then returns or throws', async () => {
    const { etcd, queue } = open(NOW);
    await queue.enqueue('x');
    const attempts: number[] = [];
    await workOn(queue, 3, async (job) => {
      attempts.push(job.attempt);
      if (job.attempt < 3) await job.held.release();
      if (job.attempt === 2) throw new Error('after the release');
    });
    expect(attempts).toEqual([1, 2, 3]);
    expect(await keysOf(etcd, queue)).toEqual([]);
  });

  test('opens another session and works on when an operator revokes the lease of a worker', async () => {
    const { etcd, queue } = open();
    for (const id of ['1', '2']) await queue.enqueue(id, { id });
    const seen: string[] = [];
    const stop = new AbortController();
    await queue.work({ signal: stop.signal }, async (job) => {
      seen.push(`${job.id} ${job.attempt}`);
      if (seen.length === 1) {
        const claim = await etcd.get(job.held.key);
        await etcd.lease.revoke(claim?.lease ?? 0n);
        await expect.poll(() => job.signal.aborted).toBe(true);
      }
      if (seen.length === 3) stop.abort();
    });
    expect(seen).toEqual(['1 1', '1 2', '2 1']);
    expect(await queue.counts()).toEqual({ ready: 0, delayed: 0, running: 0, dead: 0 });
  });

  test('adds, takes and completes a job once when the answer to each of these calls is lost', async () => {
    const { etcd, direct, proxy } = await proxied();
    const queue = new WorkQueue(etcd, unique('work'));
    const enqueued = proxy.loseNextAnswer(containing(`${queue.name}/jobs/`));
    const { id } = await queue.enqueue('x', { id: 'job' });
    await enqueued;
    expect(await queue.counts()).toMatchObject({ ready: 1 });
    const session = await Session.open(etcd);
    const claimed = proxy.loseNextAnswer(containing(`${queue.name}/held/claimed/${id}`));
    const job = await queue.take(session);
    await claimed;
    expect(job.attempt).toBe(1);
    const completed = proxy.loseNextAnswer(containing(`${queue.name}-results/`));
    await job.complete([op.put(`${queue.name}-results/${id}`, job.value)]);
    await completed;
    expect(await keysOf(direct, queue)).toEqual([`${queue.name}/done/job`]);
    expect((await direct.get(`${queue.name}-results/${id}`))?.version).toBe(1n);
  });

  test('removes a job whose value another client has deleted, and delivers the next job', async () => {
    const { etcd, queue } = open();
    await queue.enqueue('gone', { id: 'a', priority: 1 });
    await queue.enqueue('x', { id: 'b' });
    await etcd.delete(`${queue.name}/jobs/a`);
    expect((await queue.take(await Session.open(etcd))).id).toBe('b');
    expect(await queue.counts()).toMatchObject({ ready: 0, running: 1 });
  });

  test('reads a job whose state another client has damaged', async () => {
    const { etcd, queue } = open();
    await etcd.put(`${queue.name}/jobs/x`, 'value');
    await etcd.put(`${queue.name}/todo/ready/00001/000000000000001/x`, '{not JSON');
    const job = await queue.take(await Session.open(etcd));
    expect(job).toMatchObject({ id: 'x', attempt: 1, priority: 0 });
    expect(job.text()).toBe('value');
    expect(() => job.json((value) => value)).toThrow(SyntaxError);
  });

  test('rejects wrong arguments', async () => {
    const { etcd, queue } = open();
    const session = await Session.open(etcd);
    for (const failing of [
      queue.enqueue('x', { id: 'a/b' }),
      queue.enqueue('x', { id: '' }),
      queue.enqueue('x', { priority: 65_536 }),
      queue.enqueue('x', { delayMs: -1 }),
      queue.enqueue('x', { delayMs: 1e16 }),
      queue.enqueue(1 as never),
      queue.work('x' as never),
      queue.work({ concurrency: 0 }, () => {}),
      queue.requeue('a/b'),
    ])
      expect(await errorOf(failing)).toMatchObject({ reason: 'InvalidInput' });
    expect(() => new WorkQueue(etcd, '')).toThrow(/name/);
    expect(() => new WorkQueue(etcd, 'x', { maxAttempts: 0 })).toThrow(/maxAttempts/);
    expect(() => new WorkQueue(openClient(), 'x').take(session)).toThrow(/session/);
  });

  test('completes the running jobs when the client closes, and then resolves `work` and `close`', async () => {
    const { etcd, queue } = open();
    await queue.enqueue('x');
    let closing: Promise<void> | undefined;
    await queue.work(async ({ signal }) => {
      closing = etcd.close();
      expect(signal.aborted).toBe(true);
    });
    await closing;
    expect(await new WorkQueue(openClient(), queue.name).counts()).toEqual({
      ready: 0,
      delayed: 0,
      running: 0,
      dead: 0,
    });
    expect(await errorOf(queue.work(() => {}))).toMatchObject({ reason: 'ClientClosed' });
  });
});

describe('workers in processes of their own', () => {
  /** Starts a worker, and resolves when it has taken its first job. */
  const start = async (name: string): Promise<Child> => {
    const child = startScript(PROGRAM, [inject('endpoints')[0] ?? '', name, '2']);
    await child.line();
    return child;
  };

  test('complete every job with one result each while workers are killed, paused and asked to stop', async () => {
    const { etcd, queue } = open();
    const ids = Array.from({ length: 60 }, (_, index) => `${index}`);
    await Promise.all(ids.map((id) => queue.enqueue(`value ${id}`, { id })));
    const killed = await start(queue.name);
    killed.process.kill('SIGKILL');
    const paused = await start(queue.name);
    paused.process.kill('SIGSTOP');
    const stopped = await start(queue.name);
    stopped.process.kill('SIGTERM');
    expect(await stopped.exited).toBe(0);
    const last = await start(queue.name);
    const done = { ready: 0, delayed: 0, running: 0, dead: 0 };
    await expect.poll(() => queue.counts()).toEqual(done);
    // The paused worker goes on with jobs that other workers have completed. Its transactions have no effect.
    paused.process.kill('SIGCONT');
    for (const child of [paused, last]) child.process.kill('SIGTERM');
    expect(await Promise.all([paused.exited, last.exited])).toEqual([0, 0]);
    const results = (await etcd.range(prefix(`${queue.name}-results/`))).kvs;
    expect(results.map((kv) => kv.text()).toSorted()).toEqual(ids.map((id) => `value ${id}`).toSorted());
    expect(results.every((kv) => kv.version === 1n)).toBe(true);
  });
});
