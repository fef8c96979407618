import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect, inject, onTestFinished, test } from 'vitest';
import type { CallDiagnostics, Interceptor } from '../../src/index.js';
import { freePorts } from '../../src/testing/free-ports.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

const METHODS = { put: '/etcdserverpb.KV/Put', watch: '/etcdserverpb.Watch/Watch' } as const;

/** What is told until the test ends, of calls of one method. */
function listen(method: string): { readonly started: CallDiagnostics[]; readonly ended: CallDiagnostics[] } {
  const told = { started: [] as CallDiagnostics[], ended: [] as CallDiagnostics[] };
  for (const [name, list] of [
    ['start', told.started],
    ['end', told.ended],
  ] as const) {
    const hear = (message: unknown): void => {
      const call = message as CallDiagnostics;
      if (call.method === method) list.push(call);
    };
    subscribe(`etcdwire:call:${name}`, hear);
    onTestFinished(() => void unsubscribe(`etcdwire:call:${name}`, hear));
  }
  return told;
}

test('a call is told of when it starts and when it ends, by one object', async () => {
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

test('a call that fails tells every endpoint that was tried, and the error', async () => {
  const { ended } = listen(METHODS.put);
  const endpoints = (await freePorts(2)).map((port) => `http://127.0.0.1:${port}`);
  const error = await errorOf(openClient({ endpoints }).put('the-key', 'the-value', { timeoutMs: 500 }));
  expect(ended[0]?.error).toBe(error);
  expect(new Set(ended[0]?.endpoints)).toEqual(new Set(endpoints));
  expect(JSON.stringify(ended)).not.toMatch(/the-key|the-value/);
});

test('a stream is told of from its opening to its end, with its messages counted', async () => {
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

test('who listens later hears of the calls after that alone', async () => {
  const etcd = openClient();
  await etcd.put(unique(), 'unheard');
  const { started } = listen(METHODS.put);
  await etcd.put(unique(), 'heard');
  expect(started).toHaveLength(1);
});

test('an interceptor hears of the endpoints tried, whoever else listens', async () => {
  listen(METHODS.put);
  const tried: string[] = [];
  const interceptor: Interceptor = {
    unary: (call, next) => next({ ...call, onAttempt: (endpoint) => void tried.push(endpoint) }),
  };
  await openClient({ interceptors: [interceptor] }).put(unique(), 'x');
  expect(tried).toEqual(inject('endpoints'));
});
