import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  context,
  diag,
  metrics,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type TextMapPropagator,
  trace,
} from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  type DataPoint,
  type Histogram,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { afterEach, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest';
import * as kvMethods from '../../../src/gen/methods/kv.js';
import * as leaseMethods from '../../../src/gen/methods/lease.js';
import * as watchMethods from '../../../src/gen/methods/watch.js';
import type { Client, Interceptor } from '../../../src/index.js';
import { withLock } from '../../../src/locks.js';
import { type OpenTelemetryOptions, openTelemetry } from '../../../src/opentelemetry.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import { authEtcd, ROOT, USER } from '../../support/auth-etcd.js';
import { canary, expectNoCanary, plant, watchOutput } from '../../support/canaries.js';
import { startChild } from '../../support/child.js';
import { openClient, unique } from '../../support/client.js';
import { compiledSource } from '../../support/compiled.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { importingSources } from '../../support/program.js';
import { scriptedServer, scriptedStream, scriptedUnary } from '../../support/scripted-server.js';

watchOutput();

const REPOSITORY = new URL('../../..', import.meta.url).pathname;
const PUT = 'etcdserverpb.KV/Put';
const WATCH = 'etcdserverpb.Watch/Watch';
const ENDPOINT = inject('endpoints')[0] as string;
const REFUSING_ENDPOINT = 'http://127.0.0.1:1';
const SERVER = { 'server.address': new URL(ENDPOINT).hostname, 'server.port': Number(new URL(ENDPOINT).port) };

/** A propagator that writes these fields. */
function writing(fields: Readonly<Record<string, string>>): TextMapPropagator {
  return {
    inject: (_, carrier, setter) => {
      for (const [name, value] of Object.entries(fields)) setter.set(carrier, name, value);
    },
    extract: (extracting) => extracting,
    fields: () => Object.keys(fields),
  };
}

/** Writes `traceparent` and `tracestate`, as the propagator for W3C Trace Context of the SDK does. */
const W3C: TextMapPropagator = {
  ...writing({}),
  inject: (active, carrier, setter) => {
    const span = trace.getSpanContext(active);
    if (span === undefined) return;
    setter.set(carrier, 'traceparent', `00-${span.traceId}-${span.spanId}-0${span.traceFlags}`);
    if (span.traceState !== undefined) setter.set(carrier, 'tracestate', span.traceState.serialize());
  },
};

/** Opens a client whose spans and metrics the test can read. */
function openRecorded(
  options: Parameters<typeof openClient>[0] = {},
  given: OpenTelemetryOptions = {},
): { readonly etcd: Client; readonly spans: InMemorySpanExporter; points(): Promise<DataPoint<Histogram>[]> } {
  const spans = new InMemorySpanExporter();
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter });
  const meterProvider = new MeterProvider({ readers: [reader] });
  onTestFinished(() => meterProvider.shutdown());
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const interceptor = openTelemetry({ tracerProvider, meterProvider, ...given });
  return {
    etcd: openClient({ ...options, interceptors: [...(options.interceptors ?? []), interceptor] }),
    spans,
    points: async () => {
      await reader.forceFlush();
      const scopes = exporter.getMetrics().at(-1)?.scopeMetrics ?? [];
      return scopes.flatMap((scope) => scope.metrics.flatMap(({ dataPoints }) => dataPoints as DataPoint<Histogram>[]));
    },
  };
}

beforeEach(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});

afterEach(() => {
  for (const api of [context, propagation, metrics, diag]) api.disable();
});

const HARNESS = `
import { context, metrics, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
const spans = new InMemorySpanExporter();
const points = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }));
const reader = new PeriodicExportingMetricReader({ exporter: points });
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
await import(process.argv[2]);
await reader.forceFlush();
const [metric] = points.getMetrics().at(-1).scopeMetrics.flatMap((scope) => scope.metrics);
console.log(JSON.stringify({
  spans: spans.getFinishedSpans().map(({ name, kind, attributes, status }) => ({ name, kind, attributes, status })),
  metric: { ...metric.descriptor, boundaries: metric.dataPoints[0].value.buckets.boundaries, points: metric.dataPoints.length },
}));
await reader.shutdown();
`;

test('the program of docs/opentelemetry.md records a span and a metric with the providers that the process has registered', async () => {
  const page = readFileSync(join(REPOSITORY, 'docs/opentelemetry.md'), 'utf8');
  const [, program = ''] = /^```ts\n(.*?)^```$/ms.exec(page) ?? [];
  const prepared = importingSources(program).replace("'http://127.0.0.1:2379'", `'${ENDPOINT}'`);
  const file = compiledSource(prepared, 'docs-opentelemetry');
  const harness = join(REPOSITORY, '.cache', `${unique('opentelemetry')}.mjs`);
  writeFileSync(harness, HARNESS);
  onTestFinished(() => {
    for (const path of [file, harness]) rmSync(path, { force: true });
  });
  const lines = await startChild(process.execPath, [harness, file]).rest();
  const attributes = { 'rpc.system.name': 'grpc', 'rpc.method': PUT, 'rpc.response.status_code': 'OK', ...SERVER };
  expect(JSON.parse(lines.at(-1) ?? '')).toEqual({
    spans: [{ name: PUT, kind: SpanKind.CLIENT, attributes, status: { code: SpanStatusCode.UNSET } }],
    metric: expect.objectContaining({
      ...{ name: 'rpc.client.call.duration', unit: 's', points: 1 },
      boundaries: [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
    }),
  });
});

describe('the span of a call', () => {
  test('contains the status code and the error reason of a failed call, and so does the metric', async () => {
    const { etcd, spans, points } = openRecorded();
    const key = unique();
    await etcd.put(key, 'x');
    const error = await errorOf(etcd.put(key, 'x', { lease: 12_345n }));
    const common = { 'rpc.system.name': 'grpc', 'rpc.method': PUT, ...SERVER };
    const ok = { ...common, 'rpc.response.status_code': 'OK' };
    const failed = { ...common, 'rpc.response.status_code': 'NOT_FOUND', 'error.type': 'LeaseNotFound' };
    expect(spans.getFinishedSpans()).toMatchObject([
      { name: PUT, kind: SpanKind.CLIENT, attributes: ok, status: { code: SpanStatusCode.UNSET } },
      { attributes: failed, status: { code: SpanStatusCode.ERROR, message: error.message } },
    ]);
    const recorded = (await points()).map(({ attributes, value }) => [attributes, value.count]);
    expect(recorded).toEqual([
      [ok, 1],
      [failed, 1],
    ]);
  });

  test('has the status code CANCELLED if the caller canceled the call, and DEADLINE_EXCEEDED if the call timed out', async () => {
    const { etcd, spans } = openRecorded();
    await errorOf(etcd.put(unique(), 'x', { signal: AbortSignal.abort() }));
    await errorOf(etcd.put(unique(), 'x', { timeoutMs: 1e-6 }));
    expect(spans.getFinishedSpans().map(({ attributes }) => attributes['rpc.response.status_code'])).toEqual([
      'CANCELLED',
      'DEADLINE_EXCEEDED',
    ]);
  });

  test('is a child of the span that is active, also for the calls that a lock makes', async () => {
    const { etcd, spans } = openRecorded();
    const tracer = new BasicTracerProvider().getTracer('test');
    const name = unique();
    const parent = tracer.startSpan('parent');
    const within = trace.setSpan(ROOT_CONTEXT, parent);
    await context.with(within, () => withLock(etcd, name, () => etcd.put(`${name}/result`, 'x')));
    const { traceId, spanId } = parent.spanContext();
    const finished = spans.getFinishedSpans();
    expect(finished.map((span) => span.name)).toEqual(
      expect.arrayContaining(['etcdserverpb.Lease/LeaseGrant', 'etcdserverpb.KV/Txn', PUT]),
    );
    expect(finished.map((span) => span.name)).toContain('etcdserverpb.Lease/LeaseRevoke');
    for (const span of finished) {
      expect(span.spanContext().traceId).toBe(traceId);
      expect(span.parentSpanContext?.spanId).toBe(spanId);
    }
    await etcd.put(name, 'x');
    expect(spans.getFinishedSpans().at(-1)?.parentSpanContext).toBeUndefined();
  });

  test('is active while an inner interceptor handles the call', async () => {
    const spans = new InMemorySpanExporter();
    const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
    const seen: (string | undefined)[] = [];
    const inner: Interceptor = {
      unary: (call, next) => {
        seen.push(trace.getActiveSpan()?.spanContext().spanId);
        return next(call);
      },
    };
    const etcd = openClient({ interceptors: [openTelemetry({ tracerProvider }), inner] });
    await etcd.put(unique(), 'x');
    expect(seen).toEqual([spans.getFinishedSpans()[0]?.spanContext().spanId]);
  });

  test('has an event for each retry, and the address of the endpoint of the last attempt', async () => {
    const called: string[] = [];
    const outer: Interceptor = {
      unary: (call, next) =>
        next({
          ...call,
          observer: {
            attempt: (endpoint) => void called.push(endpoint),
            sent: () => void called.push('sent'),
            retry: ({ reason }) => void called.push(reason),
          },
        }),
    };
    const endpoints = [REFUSING_ENDPOINT, ENDPOINT];
    const { etcd, spans } = openRecorded({ endpoints, balance: 'in-order', interceptors: [outer] });
    await etcd.put(unique(), 'x');
    expect(spans.getFinishedSpans()).toMatchObject([
      {
        attributes: SERVER,
        events: [
          {
            name: 'etcdwire.retry',
            attributes: { 'error.type': 'ConnectFailed', 'server.address': '127.0.0.1', 'server.port': 1 },
          },
        ],
      },
    ]);
    // The functions that the outer interceptor has set on the call are still called.
    expect(called).toEqual([REFUSING_ENDPOINT, 'ConnectFailed', ENDPOINT, 'sent']);
  });

  test.each([
    ['http://[::1]:80', { 'server.address': '::1', 'server.port': 80 }],
    ['https://etcd.example:443', { 'server.address': 'etcd.example', 'server.port': 443 }],
    ['http://etcd.example', { 'server.address': 'etcd.example', 'server.port': 2379 }],
    ['unix:///run/etcd%20a.sock', { 'server.address': '/run/etcd a.sock' }],
  ])('has the address and the port of the endpoint %s', async (endpoint, expected) => {
    const inMemory = memory(new MemoryEtcd());
    const transport = (...given: Parameters<typeof inMemory>) => inMemory(...given);
    const { etcd, spans } = openRecorded({ endpoints: [endpoint], transport });
    await etcd.put('k', 'x');
    const [span] = spans.getFinishedSpans();
    const server = Object.entries(span?.attributes ?? {}).filter(([name]) => name.startsWith('server.'));
    expect(Object.fromEntries(server)).toEqual(expected);
  });

  test('contains neither the name nor the message of an error that another interceptor throws', async () => {
    const secret = canary('secret');
    const failing: Interceptor = { unary: () => Promise.reject(Object.assign(new Error(secret), { name: secret })) };
    const spans = new InMemorySpanExporter();
    const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
    const etcd = openClient({ interceptors: [openTelemetry({ tracerProvider }), failing] });
    await expect(etcd.put(unique(), 'x')).rejects.toThrow(secret);
    const [{ attributes, status, events } = { attributes: {}, status: undefined, events: [] }] =
      spans.getFinishedSpans();
    expect(attributes).toMatchObject({ 'rpc.response.status_code': 'UNKNOWN', 'error.type': '_OTHER' });
    expectNoCanary(attributes, status, events);
  });
});

describe('the span of a stream', () => {
  test('lasts from the opening of the stream until its end, and has no error when the client ends the stream', async () => {
    const { etcd, spans, points } = openRecorded();
    await etcd.watch(unique()).created();
    expect(spans.getFinishedSpans()).toEqual([]);
    await etcd.close();
    const attributes = { 'rpc.method': WATCH, 'rpc.response.status_code': 'CANCELLED', ...SERVER };
    expect(spans.getFinishedSpans()).toMatchObject([
      { name: WATCH, attributes, status: { code: SpanStatusCode.UNSET } },
    ]);
    expect(spans.getFinishedSpans()[0]?.attributes).not.toHaveProperty('error.type');
    expect(await points()).toMatchObject([{ attributes, value: { count: 1 } }]);
  });

  test('ends with an error when the member is killed, and the next stream has a span of its own', async () => {
    const { members, endpoints } = await ownEtcd();
    const { etcd, spans } = openRecorded({ endpoints });
    const watch = etcd.watch('k');
    await watch.created();
    await members[0]?.kill();
    await expect
      .poll(() => spans.getFinishedSpans()[0])
      .toMatchObject({
        name: WATCH,
        attributes: { 'error.type': 'ConnectionLost', 'rpc.response.status_code': 'UNAVAILABLE' },
        status: { code: SpanStatusCode.ERROR },
      });
    await members[0]?.start();
    await etcd.put('k', 'x');
    expect((await watch.batches().next()).done).toBe(false);
    const before = spans.getFinishedSpans().length;
    await etcd.close();
    // The read with which the watch checks the cluster can have been in flight, too.
    const watches = spans
      .getFinishedSpans()
      .slice(before)
      .filter(({ name }) => name === WATCH);
    expect(watches).toMatchObject([{ attributes: { 'rpc.response.status_code': 'CANCELLED' } }]);
  });

  test('ends with DEADLINE_EXCEEDED when the client gives the stream up because the server does not answer', async () => {
    const endpoint = await scriptedServer(scriptedStream(leaseMethods.leaseKeepAlive, async () => {}));
    const { etcd, spans } = openRecorded({ endpoints: [endpoint] });
    await using _alive = etcd.lease.keepAlive(1n);
    await expect
      .poll(() => spans.getFinishedSpans()[0])
      .toMatchObject({
        attributes: { 'rpc.response.status_code': 'DEADLINE_EXCEEDED', 'error.type': 'DeadlineExceeded' },
        status: { code: SpanStatusCode.ERROR },
      });
  });

  test('ends when the stream cannot be opened because the client does not have the endpoint', () => {
    const { etcd, spans } = openRecorded();
    expect(() => etcd.raw.watch.watch({ endpoint: REFUSING_ENDPOINT })).toThrow('endpoint');
    expect(spans.getFinishedSpans()).toMatchObject([{ attributes: { 'error.type': 'InvalidInput' } }]);
  });
});

describe('the trace context', () => {
  /** Starts a server that records the metadata of each put and watch. */
  async function recordingServer(received: Readonly<Record<string, unknown>>[]): Promise<string> {
    return scriptedServer(
      scriptedUnary(kvMethods.put, (_, metadata) => {
        received.push(metadata);
        return { header: { revision: 2n } };
      }),
      scriptedStream(watchMethods.watch, async (stream) => {
        received.push(stream.metadata);
        await stream.receive();
        stream.send({ header: { revision: 2n }, watchId: 1n, created: true });
      }),
    );
  }

  test('reaches the server as metadata of calls and streams, and names the span of the call', async () => {
    propagation.setGlobalPropagator(W3C);
    const received: Readonly<Record<string, unknown>>[] = [];
    const endpoint = await recordingServer(received);
    const { etcd, spans } = openRecorded({ endpoints: [endpoint] });
    const remote = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 };
    const traceState = { get: () => 'v', set: () => traceState, unset: () => traceState, serialize: () => 'vendor=v' };
    const active = trace.setSpanContext(ROOT_CONTEXT, { ...remote, traceState, isRemote: true });
    await context.with(active, () => etcd.put('k', 'x'));
    await context.with(active, () => etcd.watch('k').created());
    await etcd.close();
    const [put, watch] = spans.getFinishedSpans().map((span) => span.spanContext());
    expect(received).toMatchObject([
      { traceparent: `00-${remote.traceId}-${put?.spanId}-01`, tracestate: 'vendor=v' },
      { traceparent: `00-${remote.traceId}-${watch?.spanId}-01`, tracestate: 'vendor=v', hasleader: 'true' },
    ]);
  });

  test('reaches a real etcd together with the token, and the server still answers', async () => {
    propagation.setGlobalPropagator(W3C);
    const { endpoints } = await authEtcd();
    const sent: unknown[] = [];
    const spans = new InMemorySpanExporter();
    const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
    const inner: Interceptor = {
      unary: (call, next) => {
        sent.push(call.metadata);
        return next(call);
      },
      stream: (call, handler, next) => {
        expect(call.metadata).toBeInstanceOf(Promise);
        void (call.metadata as Promise<unknown>).then((metadata) => sent.push(metadata));
        return next(call, handler);
      },
    };
    const etcd = openClient({ endpoints, auth: USER, interceptors: [openTelemetry({ tracerProvider }), inner] });
    // The watch is the first call, so the client opens its stream before it has a token.
    await etcd.watch('app/k').created();
    await etcd.put('app/k', 'x');
    const traceparent = expect.stringMatching(/^00-/);
    const token = expect.any(String);
    const hasleader = 'true';
    expect(sent).toEqual([
      { traceparent, hasleader },
      { traceparent, token, hasleader },
      { traceparent, token, hasleader },
    ]);
  });

  test('does not replace a field that the call already has', async () => {
    propagation.setGlobalPropagator(writing({ traceparent: 'of the propagator', tracestate: 'of the propagator' }));
    const received: Readonly<Record<string, unknown>>[] = [];
    const outer: Interceptor = {
      unary: (call, next) => next({ ...call, metadata: { ...call.metadata, traceparent: 'of the caller' } }),
    };
    const { etcd } = openRecorded({ endpoints: [await recordingServer(received)], interceptors: [outer] });
    await etcd.put('k', 'x');
    expect(received).toMatchObject([{ traceparent: 'of the caller', tracestate: 'of the propagator' }]);
  });

  test('causes no unhandled rejection if a stream fails before the client fails to obtain a token', async () => {
    const { endpoints } = await authEtcd();
    const { etcd } = openRecorded({ endpoints, auth: { ...USER, password: 'wrong' } });
    const unhandled: unknown[] = [];
    const record = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', record);
    onTestFinished(() => void process.off('unhandledRejection', record));
    expect(() => etcd.raw.watch.watch({ endpoint: REFUSING_ENDPOINT })).toThrow('endpoint');
    expect(await errorOf(etcd.get('k'))).toMatchObject({ reason: 'AuthFailed' });
    await new Promise((resolve) => void setImmediate(resolve));
    expect(unhandled).toEqual([]);
  });

  test('does not contain fields that gRPC, HTTP/2 or etcd reserve, or with which the call would fail', async () => {
    const dropped = {
      ':path': '/other',
      token: 'stolen',
      authorization: 'stolen',
      hasleader: 'false',
      'grpc-timeout': '1n',
      'trace-bin': 'AA==',
      te: 'gzip',
      'two words': 'x',
      'line-break': 'a\r\ntoken: stolen',
      beyond: 'é',
    };
    propagation.setGlobalPropagator(writing({ ...dropped, 'X-B3-TraceId': 'abc', 'uber-trace-id': '1:2:3' }));
    const received: Readonly<Record<string, unknown>>[] = [];
    const { etcd } = openRecorded({ endpoints: [await recordingServer(received)] });
    await etcd.put('k', 'x');
    await etcd.watch('k').created();
    const [put = {}, watch = {}] = received;
    expect(put).toMatchObject({ 'x-b3-traceid': 'abc', 'uber-trace-id': '1:2:3' });
    expect(put).toMatchObject({ hasleader: 'true' });
    expect(Object.keys(put).filter((name) => name in dropped)).toEqual(['hasleader']);
    expect(watch).toMatchObject({ 'x-b3-traceid': 'abc', hasleader: 'true' });
  });
});

test('spans and metrics contain no key, value, token or password, whether calls succeed or fail', async () => {
  const [key, value, password] = [`app/${canary('key')}`, canary('value'), canary('password')];
  for (const secret of [ROOT.password, USER.password]) plant(secret);
  const { endpoints } = await authEtcd();
  const seesToken: Interceptor = {
    unary: (call, next) => {
      if (call.metadata?.token !== undefined) plant(call.metadata.token);
      return next(call);
    },
  };
  const { etcd, spans, points } = openRecorded({ endpoints, auth: USER, interceptors: [seesToken] });
  await withLock(etcd, key, () => etcd.put(key, value));
  await etcd.watch(key, { startRevision: 1n, prevKv: true }).batches().next();
  await errorOf(etcd.put(`other-${key}`, value));
  await errorOf(etcd.auth.authenticate('user', password));
  await errorOf(etcd.put(key, value, { signal: AbortSignal.abort(new Error(value)) }));
  const stranger = openRecorded({ endpoints, auth: { username: 'user', password, allowPlaintext: true } });
  await errorOf(stranger.etcd.put(key, value));
  await Promise.all([etcd.close(), stranger.etcd.close()]);
  const finished = [...spans.getFinishedSpans(), ...stranger.spans.getFinishedSpans()];
  expect(finished.length).toBeGreaterThan(10);
  expect(finished.map(({ name }) => name)).toContain('etcdserverpb.Auth/Authenticate');
  for (const { name, attributes, status, events, links } of finished)
    expectNoCanary(name, attributes, status, events, links);
  expectNoCanary(await points(), await stranger.points());
});

test('the option `filter` excludes methods, whose calls have no span, no metric and no trace context', async () => {
  propagation.setGlobalPropagator(W3C);
  const asked: string[] = [];
  const filter = (method: string): boolean => {
    asked.push(method);
    return method.endsWith('/Put');
  };
  const { etcd, spans, points } = openRecorded({}, { filter });
  const key = unique();
  await etcd.put(key, 'x');
  await etcd.get(key);
  await etcd.watch(key).created();
  await etcd.close();
  expect(asked).toEqual(['/etcdserverpb.KV/Put', '/etcdserverpb.KV/Range', '/etcdserverpb.Watch/Watch']);
  expect(spans.getFinishedSpans().map(({ name }) => name)).toEqual([PUT]);
  expect(await points()).toHaveLength(1);
});

test('a provider that the program registers after the first call records the calls from then on', async () => {
  const etcd = openClient({ interceptors: [openTelemetry()] });
  await etcd.put(unique(), 'x');
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter });
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
  const spans = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }));
  onTestFinished(async () => {
    trace.disable();
    await reader.shutdown();
  });
  await etcd.put(unique(), 'x');
  await reader.forceFlush();
  expect(spans.getFinishedSpans()).toHaveLength(1);
  expect(exporter.getMetrics().at(-1)?.scopeMetrics[0]?.metrics[0]).toMatchObject({
    dataPoints: [{ value: { count: 1 } }],
  });
});

test.each<[string, OpenTelemetryOptions]>([
  ['the filter', { filter: () => fail() }],
  ['the tracer', { tracerProvider: { getTracer: () => ({ startSpan: () => fail(), startActiveSpan: () => fail() }) } }],
  [
    'a span processor',
    {
      tracerProvider: new BasicTracerProvider({
        spanProcessors: [
          { onStart: () => {}, onEnd: () => fail(), forceFlush: async () => {}, shutdown: async () => {} },
        ],
      }),
    },
  ],
  ['the meter', { meterProvider: { getMeter: () => fail() } }],
  ['the propagator', {}],
])('calls and streams succeed, and `diag` reports the error, when %s throws', async (who, options) => {
  const reported: unknown[] = [];
  const none = (): void => {};
  const error = (...given: unknown[]): void => void reported.push(...given);
  diag.setLogger({ error, warn: none, info: none, debug: none, verbose: none });
  if (who === 'the propagator') propagation.setGlobalPropagator({ ...W3C, inject: () => fail() });
  const { etcd } = openRecorded({}, options);
  const key = unique();
  await etcd.put(key, 'x');
  expect(await errorOf(etcd.put(key, 'x', { lease: 12_345n }))).toMatchObject({ reason: 'LeaseNotFound' });
  const watch = etcd.watch(key);
  await watch.created();
  await etcd.close();
  expect(reported).toContainEqual(new Error('instrumentation failed'));
});

function fail(): never {
  throw new Error('instrumentation failed');
}

test.each<[string, unknown]>([
  ['tracerProvider', { tracerProvider: {} }],
  ['meterProvider', { meterProvider: {} }],
  ['filter', { filter: /KV/ }],
])('openTelemetry refuses an invalid option `%s`', async (name, options) => {
  expect(await errorOf(() => openTelemetry(options as OpenTelemetryOptions))).toMatchObject({
    reason: 'InvalidInput',
    message: expect.stringContaining(name),
  });
});
