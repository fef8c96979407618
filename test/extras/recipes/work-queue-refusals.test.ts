import { getEventListeners } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { environment, replaceEnvironment } from '../../../src/base/environment.js';
import { Client, type ClientOptions, EtcdError, type Interceptor, op } from '../../../src/index.js';
import { Session } from '../../../src/locks.js';
import { type Job, WorkQueue } from '../../../src/recipes.js';
import { MemoryEtcd, memory, memoryOverHttp2 } from '../../../src/testing/index.js';
import { errorOf } from '../../support/errors.js';
import { gate } from '../../support/signals.js';

const QUOTA_BYTES = 1_000_000;

function opened(server: MemoryEtcd, options: Partial<ClientOptions> = {}): Client {
  const client = new Client({ transport: memory(server), ...options });
  onTestFinished(() => client.close({ drainMs: 50 }));
  return client;
}

/** Uses up the space of the server, so that it refuses each further put. */
async function fill(etcd: Client): Promise<void> {
  await errorOf(etcd.put('filler', new Uint8Array(QUOTA_BYTES + 200_000)));
  expect((await etcd.maintenance.alarms()).alarms).toHaveLength(1);
}

async function makeSpace(etcd: Client): Promise<void> {
  await etcd.delete('filler');
  for (const alarm of (await etcd.maintenance.alarms()).alarms) await etcd.maintenance.disarm(alarm);
}

const NOTHING = { ready: 0, delayed: 0, running: 0, dead: 0 };

test.each([
  ['fails', {}],
  ['succeeds and has an ID that the queue remembers', { id: 'one' }],
])('a job that %s while the server is out of space is settled when there is space again', async (what, options) => {
  const etcd = opened(new MemoryEtcd({ quotaBytes: QUOTA_BYTES }));
  const queue = new WorkQueue(etcd, 'emails', { retryDelayMs: () => 0 });
  await queue.enqueue('hello', options);
  const stop = new AbortController();
  const attempts: number[] = [];
  const working = queue.work({ signal: stop.signal, ttl: 600 }, async (job) => {
    attempts.push(job.attempt);
    if (job.attempt > 1) return;
    await fill(etcd);
    if (what === 'fails') throw new Error('boom');
  });
  await expect.poll(async () => (await etcd.maintenance.alarms()).alarms.length).toBe(1);
  await makeSpace(etcd);
  await expect.poll(() => queue.counts()).toEqual(NOTHING);
  expect(attempts).toEqual(what === 'fails' ? [1, 2] : [1]);
  stop.abort();
  await working;
});

test('a worker that is asked to stop does not wait until the server has space for the job that it returns', async () => {
  const etcd = opened(new MemoryEtcd({ quotaBytes: QUOTA_BYTES }));
  const queue = new WorkQueue(etcd, 'emails');
  await queue.enqueue('hello');
  const stop = new AbortController();
  const working = queue.work(
    { signal: stop.signal, ttl: 600, onFailure: () => void setTimeout(() => stop.abort(), 10) },
    async () => {
      await fill(etcd);
      throw new Error('boom');
    },
  );
  await working;
  await makeSpace(etcd);
  const session = await Session.open(etcd);
  expect((await queue.take(session)).attempt).toBe(2);
});

test('a running job keeps its claim while the server has no space for the claim of another job', async () => {
  const server = new MemoryEtcd({ quotaBytes: QUOTA_BYTES });
  const etcd = opened(server);
  const queue = new WorkQueue(etcd, 'emails');
  await queue.enqueue('first');
  const stop = new AbortController();
  const attempts: string[] = [];
  const filled = gate();
  let refusals = 0;
  const worker = opened(server, {
    interceptors: [
      {
        unary: async (call, next) => {
          if (attempts.length > 0) await filled.opened;
          return next(call).catch((error: EtcdError) => {
            if (error.reason === 'NoSpace') refusals += 1;
            throw error;
          });
        },
      },
    ],
  });
  const working = new WorkQueue(worker, 'emails').work(
    { signal: stop.signal, ttl: 600, concurrency: 2 },
    async (job) => {
      attempts.push(`${job.text()} ${job.attempt}`);
      if (job.text() === 'second') return;
      await queue.enqueue('second');
      await fill(etcd);
      filled.open();
      await expect.poll(() => refusals).toBeGreaterThan(1);
      expect(job.signal.aborted).toBe(false);
      await makeSpace(etcd);
    },
  );
  await expect.poll(() => queue.counts()).toEqual(NOTHING);
  expect(attempts).toEqual(['first 1', 'second 1']);
  stop.abort();
  await working;
});

test('`work` rejects when the value of a job is too large for its client, and the job stays in the queue', async () => {
  const server = new MemoryEtcd();
  const queue = new WorkQueue(opened(server), 'emails');
  await queue.enqueue(new Uint8Array(30_000));
  await queue.enqueue('small');
  const worker = opened(server, { transport: memoryOverHttp2(server), maxReceiveBytes: 20_000 });
  const seen: string[] = [];
  const working = new WorkQueue(worker, 'emails').work({ concurrency: 4 }, (job) => void seen.push(job.text()));
  expect((await errorOf(working)).reason).toBe('ResponseTooLarge');
  expect(seen).toEqual(['small']);
  expect(await queue.counts()).toEqual({ ...NOTHING, ready: 1 });
});

test('when `onFailure` throws, `work` aborts the signals of the other jobs, and rejects after their handlers have ended', async () => {
  const etcd = opened(new MemoryEtcd());
  const queue = new WorkQueue(etcd, 'emails');
  await queue.enqueue('long');
  await queue.enqueue('bad');
  const ends: unknown[] = [];
  const begun: string[] = [];
  const handler = async (job: Job): Promise<void> => {
    begun.push(job.text());
    await expect.poll(() => begun.length).toBe(2);
    if (job.text() === 'bad') throw new Error('bad');
    await expect.poll(() => job.signal.aborted).toBe(true);
    ends.push(await queue.counts());
    throw job.signal.reason;
  };
  const onFailure = (): never => {
    throw new Error('no mail server');
  };
  await expect(queue.work({ concurrency: 2, ttl: 600, onFailure }, handler)).rejects.toThrow('no mail server');
  // The job still belonged to the worker when its handler ended. Its try does not count.
  expect(ends).toEqual([{ ...NOTHING, running: 2 }]);
  const session = await Session.open(etcd);
  const jobs = [await queue.take(session), await queue.take(session)];
  expect(jobs.map((job) => `${job.text()} ${job.attempt}`).toSorted()).toEqual(['bad 2', 'long 1']);
});

test('`discard` ends within its time limit, which it names, when no server answers the request for a lease', async () => {
  const server = new MemoryEtcd();
  const etcd = opened(server);
  const [queue, session] = [new WorkQueue(etcd, 'emails'), await Session.open(etcd)];
  await queue.enqueue('hello', { id: 'one' });
  await (await queue.take(session)).bury();
  const stopping: Interceptor = {
    unary: async (call, next) => {
      const response = await next(call);
      if (call.method.path.endsWith('/Range')) server.stop();
      return response;
    },
  };
  const other = new WorkQueue(opened(server, { interceptors: [stopping] }), 'emails');
  const error = await errorOf(other.discard('one', { timeoutMs: 200 }));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded' });
  expect(error.message).toMatch(/timeoutMs = 200\b/);
  server.start();
  expect(await queue.discard('one')).toBe(true);
});

test('the queue remembers an ID for at least `idTtl` although the monotonic clock stood still since an earlier job', async () => {
  const etcd = opened(new MemoryEtcd());
  const queue = new WorkQueue(etcd, 'emails', { idTtl: 1_000 });
  let suspendedMs = 0;
  onTestFinished(replaceEnvironment({ ...environment, Date: { now: () => Date.now() + suspendedMs } }));
  const leaseAfter = async (ms: number): Promise<bigint | undefined> => {
    suspendedMs += ms;
    await using session = await Session.open(etcd);
    const { id } = await queue.enqueue('hello', { id: `after ${ms} ms` });
    await (await queue.take(session)).complete();
    return (await etcd.get(`emails/done/${id}`))?.lease;
  };
  const first = await leaseAfter(0);
  expect(await leaseAfter(899_000)).toBe(first);
  expect(await leaseAfter(100_001)).not.toBe(first);
});

test('`complete` does not resolve when its answer is lost, and another worker has completed the job meanwhile', async () => {
  const server = new MemoryEtcd();
  const theirs = opened(server);
  const [queue, other] = [new WorkQueue(theirs, 'emails'), await Session.open(theirs)];
  await queue.enqueue('hello');
  let interrupt: (() => Promise<void>) | undefined;
  const losing: Interceptor = {
    unary: async (call, next) => {
      if (interrupt === undefined || !call.method.path.endsWith('/Txn')) return next(call);
      const action = interrupt;
      interrupt = undefined;
      await action();
      throw new EtcdError('lost', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
    },
  };
  const etcd = opened(server, { interceptors: [losing] });
  const session = await Session.open(etcd, { ttl: 600 });
  const job = await new WorkQueue(etcd, 'emails').take(session);
  interrupt = async () => {
    await theirs.lease.revoke(session.leaseId);
    await (await queue.take(other)).complete([op.put('result', 'theirs')]);
  };
  const error = await errorOf(job.complete([op.put('result', 'ours')]));
  expect(error).toMatchObject({ reason: 'LockLost', outcome: 'unknown' });
  expect((await etcd.get('result'))?.text()).toBe('theirs');
});

test('`work` leaves no listener on its signal when it cannot open a session', async () => {
  const etcd = opened(new MemoryEtcd());
  const queue = new WorkQueue(etcd, 'emails');
  const { signal } = new AbortController();
  await etcd.close();
  expect((await errorOf(queue.work({ signal }, () => {}))).reason).toBe('ClientClosed');
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});
