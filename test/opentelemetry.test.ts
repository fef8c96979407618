import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { startChild } from './support/child.js';
import { unique } from './support/client.js';

// Runs the program of docs/opentelemetry.md unchanged, in a process with the OpenTelemetry SDK.

const ROOT = new URL('..', import.meta.url).pathname;
const [, PROGRAM = ''] = /^```ts\n(.*?)^```$/ms.exec(readFileSync(join(ROOT, 'docs/opentelemetry.md'), 'utf8')) ?? [];

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
await import('./instrumentation.ts');
const { Client } = await import('../../src/index.ts');
const [endpoint, key] = process.argv.slice(2);
const etcd = new Client({ endpoints: [endpoint] });
await trace.getTracer('test').startActiveSpan('parent', async (parent) => {
  await etcd.put(key, 'the-value');
  await etcd.put(key, 'the-value', { lease: 12345n }).catch(() => {});
  parent.end();
});
await etcd.close();
await reader.forceFlush();
const [first, second, parent] = spans.getFinishedSpans();
const [metric] = points.getMetrics().at(-1).scopeMetrics.flatMap((scope) => scope.metrics);
console.log(JSON.stringify({
  spans: [first, second].map(({ name, kind, attributes, status, parentSpanContext }) => ({ name, kind, attributes, status, isChild: parentSpanContext?.spanId === parent.spanContext().spanId })),
  metric: { name: metric.descriptor.name, unit: metric.descriptor.unit, counts: metric.dataPoints.map(({ value, attributes }) => [attributes['rpc.response.status_code'], value.count]) },
}));
await reader.shutdown();
`;

test('the program of docs/opentelemetry.md records spans and a metric that follow the semantic conventions of OpenTelemetry', async () => {
  const folder = join(ROOT, '.cache', unique('opentelemetry'));
  mkdirSync(folder, { recursive: true });
  try {
    writeFileSync(join(folder, 'instrumentation.ts'), PROGRAM);
    writeFileSync(join(folder, 'harness.mts'), HARNESS);
    const [endpoint = ''] = inject('endpoints');
    const key = unique('the-key');
    const child = startChild(process.execPath, ['--import', 'tsx', join(folder, 'harness.mts'), endpoint, key]);
    const [line = ''] = await child.rest();
    expect(line).not.toMatch(/the-key|the-value/);
    const { hostname, port } = new URL(endpoint);
    const attributes = {
      'rpc.system.name': 'grpc',
      'rpc.method': 'etcdserverpb.KV/Put',
      'server.address': hostname,
      'server.port': Number(port),
    };
    const CLIENT = 2;
    const ERROR = 2;
    expect(JSON.parse(line)).toMatchObject({
      spans: [
        {
          name: 'etcdserverpb.KV/Put',
          kind: CLIENT,
          isChild: true,
          attributes: { ...attributes, 'rpc.response.status_code': 'OK' },
        },
        {
          isChild: true,
          attributes: { ...attributes, 'rpc.response.status_code': 'NOT_FOUND', 'error.type': 'LeaseNotFound' },
          status: { code: ERROR },
        },
      ],
      metric: {
        name: 'rpc.client.call.duration',
        unit: 's',
        counts: [
          ['OK', 1],
          ['NOT_FOUND', 1],
        ],
      },
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
