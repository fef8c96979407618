import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect, inject, onTestFinished, test } from 'vitest';
import type { CallDiagnostics, Interceptor } from '../../src/index.js';
import { freePorts } from '../../src/testing/etcd/free-ports.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

const METHODS = {
  put: '/etcdserverpb.KV/Put',
  watch: '/etcdserverpb.Watch/Watch',
  snapshot: '/etcdserverpb.Maintenance/Snapshot',
} as const;

/** Records the messages that the diagnostics channels publish about calls of `method`, until the test ends. */
function listen(method: string): { readonly started: CallDiagnostics[]; readonly ended: CallDiagnostics[] } {
  const messages = { started: [] as CallDiagnostics[], ended: [] as CallDiagnostics[] };
  for (const [name, list] of [
    ['start', messages.started],
    ['end', messages.ended],
  ] as const) {
    const record = (message: unknown): void => {
      const call = message as CallDiagnostics;
      if (call.method === method) list.push(call);
    };
    subscribe(`etcdwire:call:${name}`, record);
    onTestFinished(() => void unsubscribe(`etcdwire:call:${name}`, record));
  }
  return messages;
}

test('the diagnostics channels publish the same object at the start and at the end of a call', async () => {
  const { started, ended } = listen(METHODS.put);
  const writing = openClient().put(unique(), 'x');
  expect(started).toHaveLength(1);
  expect(ended).toHaveLength(0);
  await writing;
  expect(ended[0]).toBe(started[0]);
  expect(ended).toMatchObject([
    {
      method: METHODS.put,
      kind: 'unary',
      endpoints: inject('endpoints'),
      durationMs: expect.any(Number),
      error: undefined,
    },
  ]);
});

test('the diagnostics of a failed call contain the error and every endpoint that the client tried', async () => {
  const { ended } = listen(METHODS.put);
  const endpoints = (await freePorts(2)).map((port) => `http://127.0.0.1:${port}`);
  const error = await errorOf(openClient({ endpoints }).put('the-key', 'the-value', { timeoutMs: 500 }));
  expect(ended[0]?.error).toBe(error);
  expect(new Set(ended[0]?.endpoints)).toEqual(new Set(endpoints));
  expect(JSON.stringify(ended)).not.toMatch(/the-key|the-value/);
});

test('the diagnostics channels publish the start and the end of a stream, with the number of messages sent and received', async () => {
  const { started, ended } = listen(METHODS.watch);
  const etcd = openClient();
  const key = unique();
  const watch = etcd.watch(key);
  await watch.created();
  await etcd.put(key, 'x');
  await watch[Symbol.asyncIterator]().next();
  expect(started).toMatchObject([{ kind: 'stream', endpoints: inject('endpoints'), durationMs: undefined }]);
  await etcd.close();
  expect(ended).toEqual(started);
  expect(ended[0]).toMatchObject({ sent: expect.any(Number), received: expect.any(Number) });
  expect(ended[0]?.received).toBeGreaterThanOrEqual(2);
});

test('the diagnostics channels publish the end of a stream that the client refuses to open', async () => {
  const { started, ended } = listen(METHODS.snapshot);
  const etcd = openClient();
  const writing = etcd.maintenance.snapshot('http://127.0.0.1:1').writeTo({ write: () => {} });
  const error = await errorOf(writing);
  expect(error).toMatchObject({ reason: 'InvalidInput' });
  expect(started).toHaveLength(1);
  expect(ended).toEqual(started);
  expect(ended[0]?.error).toBe(error);
});

test('a diagnostics subscriber receives only messages about calls that start after it subscribed', async () => {
  const etcd = openClient();
  await etcd.put(unique(), 'before');
  const { started } = listen(METHODS.put);
  await etcd.put(unique(), 'after');
  expect(started).toHaveLength(1);
});

test('the client still tells the observer of an interceptor about each attempt when the diagnostics channels have subscribers', async () => {
  listen(METHODS.put);
  const tried: string[] = [];
  const interceptor: Interceptor = {
    unary: (call, next) => next({ ...call, observer: { attempt: (endpoint) => void tried.push(endpoint) } }),
  };
  await openClient({ interceptors: [interceptor] }).put(unique(), 'x');
  expect(tried).toEqual(inject('endpoints'));
});
