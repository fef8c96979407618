import { readFileSync, rmSync } from 'node:fs';
import { expect, inject, onTestFinished, test } from 'vitest';
import { freePorts } from '../../src/testing/etcd/free-ports.js';
import { startChild } from '../support/child.js';
import { compiledSource } from '../support/compiled.js';
import { importingSources } from '../support/program.js';

// Runs the program of docs/statistics.md, and reads what it serves with a strict parser.

const PAGE = readFileSync(new URL('../../docs/statistics.md', import.meta.url), 'utf8');
const [, PROGRAM = ''] = /^```ts\n(.*?)^```$/ms.exec(PAGE) ?? [];

interface Family {
  readonly type: string;
  readonly help: string;
  readonly samples: Map<string, number>;
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
const SAMPLE = new RegExp(
  `^(${NAME})((?:\\{${LABEL}(?:,${LABEL})*\\})?) ([-+]?(?:\\d+(?:\\.\\d+)?(?:e[-+]?\\d+)?|Inf))$`,
);
const SUFFIXES: Readonly<Record<string, readonly string[]>> = { histogram: ['_bucket', '_sum', '_count'] };

/** Parses the text format. Throws if a line, or the order of the lines, violates the format. */
function parse(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  const families = new Map<string, Family>();
  let current: { readonly name: string; readonly family: Family } | undefined;
  let help: { readonly name: string; readonly text: string } | undefined;
  for (const line of text.slice(0, -1).split('\n')) {
    const [, keyword, name = '', rest = ''] = new RegExp(`^# (HELP|TYPE) (${NAME}) (.*)$`).exec(line) ?? [];
    if (keyword === 'HELP') help = { name, text: rest };
    else if (keyword === 'TYPE') {
      if (help?.name !== name || families.has(name)) throw new Error(`TYPE without HELP, or a second time: ${line}`);
      current = { name, family: { type: rest, help: help.text, samples: new Map() } };
      families.set(name, current.family);
    } else {
      const [, sample = '', labels = '', value = ''] = SAMPLE.exec(line) ?? [];
      const allowed = (SUFFIXES[current?.family.type ?? ''] ?? ['']).map((suffix) => `${current?.name}${suffix}`);
      if (!allowed.includes(sample)) throw new Error(`not a sample of ${current?.name}: ${line}`);
      if (current?.family.samples.has(sample + labels)) throw new Error(`a second time: ${line}`);
      current?.family.samples.set(sample + labels, Number(value));
    }
  }
  return families;
}

test('the program of docs/statistics.md serves the numbers of its client in the text format of Prometheus', async () => {
  const [endpoint] = inject('endpoints');
  const [port] = await freePorts(1);
  // The failing put gives the metric of failures a sample.
  const failing = "await etcd.put('k', 'v', { lease: 12_345n }).catch(() => {});";
  const prepared = importingSources(PROGRAM)
    .replace("'http://127.0.0.1:2379'", `'${endpoint}'`)
    .replace('listen(9464', `listen(${port}`);
  const file = compiledSource(`${prepared}\n${failing}\nconsole.log('ready');`, 'docs-statistics');
  onTestFinished(() => rmSync(file, { force: true }));
  const child = startChild(process.execPath, [file]);
  expect(await child.line()).toBe('ready');
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const families = parse(await response.text());
  expect([...families].map(([name, { type }]) => [name, type])).toEqual([
    ['etcd_client_call_seconds', 'histogram'],
    ['etcd_client_failures_total', 'counter'],
    ['etcd_client_retries_total', 'counter'],
    ['etcd_client_in_flight', 'gauge'],
    ['etcd_client_queued', 'gauge'],
    ['etcd_client_streams_total', 'counter'],
    ['etcd_client_watches', 'gauge'],
    ['etcd_client_leases', 'gauge'],
  ]);
  const method = '/etcdserverpb.KV/Put';
  const samples = families.get('etcd_client_call_seconds')?.samples ?? new Map<string, number>();
  expect(samples.get(`etcd_client_call_seconds_count{method="${method}"}`)).toBe(2);
  const buckets = [...samples].filter(([name]) => name.includes('_bucket'));
  expect(buckets[0]?.[0]).toBe(`etcd_client_call_seconds_bucket{method="${method}",le="0.00025"}`);
  expect(buckets.at(-1)).toEqual([`etcd_client_call_seconds_bucket{method="${method}",le="+Inf"}`, 2]);
  // Each bucket also counts the calls of the earlier buckets.
  const counts = buckets.map(([, count]) => count);
  expect(counts).toEqual(counts.toSorted((a, b) => a - b));
  expect(families.get('etcd_client_failures_total')?.samples).toEqual(
    new Map([[`etcd_client_failures_total{method="${method}",reason="LeaseNotFound"}`, 1]]),
  );
  expect(families.get('etcd_client_in_flight')?.samples).toEqual(
    new Map([[`etcd_client_in_flight{method="${method}"}`, 0]]),
  );
  expect(families.get('etcd_client_watches')?.samples).toEqual(new Map([['etcd_client_watches', 0]]));
});
