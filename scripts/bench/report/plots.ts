import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import { METRICS, type Metric } from '../sample.js';
import { spreadOf } from '../statistics.js';
import { callGroup, inFlightVariant } from '../workloads/calls.js';
import { COLD_START_GROUP } from '../workloads/cold-start.js';
import { HAND_OFFS_GROUP, LOCKERS, lockersVariant } from '../workloads/hand-offs.js';
import type { Outcome } from '../workloads/workload.js';

interface Plot {
  readonly file: string;
  readonly title: string;
  readonly group: string;
  readonly metric: Metric;
  /** Those to show, in their order; default all. */
  readonly variants?: string[];
}

const CALLS_IN_FLIGHT = [1, 16, 128, 512].map(inFlightVariant);
const PLOTS: readonly Plot[] = [
  {
    file: 'get-rate',
    title: 'Gets a second, values of 100 bytes',
    group: callGroup('get', 100),
    metric: 'rate',
    variants: CALLS_IN_FLIGHT,
  },
  {
    file: 'get-cpu',
    title: 'Client CPU per get, µs',
    group: callGroup('get', 100),
    metric: 'cpuUs',
    variants: CALLS_IN_FLIGHT,
  },
  {
    file: 'put-rate',
    title: 'Puts a second, values of 100 bytes',
    group: callGroup('put', 100),
    metric: 'rate',
    variants: CALLS_IN_FLIGHT,
  },
  {
    file: 'hand-offs',
    title: 'Hand-offs of a lock a second',
    group: HAND_OFFS_GROUP,
    metric: 'rate',
    variants: LOCKERS.map(lockersVariant),
  },
  { file: 'cold-start', title: 'Cold start less an empty Node, ms', group: COLD_START_GROUP, metric: 'netStartMs' },
];

/** Readable on white and on black, for the background is that of the page. */
const INK = '#768390';
const WHISKER = '#59636e';
const COLORS: Readonly<Record<string, string>> = {
  etcdwire: '#2f81f7',
  'etcdwire over grpc-js': '#8256d0',
  etcd3: '#d4772c',
  'bare grpc-js': '#afb8c1',
  'the way Go waits': '#2da44e',
};

interface Bar {
  readonly variant: string;
  readonly contender: string;
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly label: string;
}

/** Writes those plots for which there are numbers. */
export async function writePlots(folder: string, outcomes: readonly Outcome[]): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const plot of PLOTS) {
    const bars = barsOf(plot, outcomes);
    if (bars.length === 0) continue;
    const view = new View(parse(compile(specOf(plot, bars)).spec), { renderer: 'none' });
    writeFileSync(join(folder, `${plot.file}.svg`), `${await view.toSVG()}\n`);
    view.finalize();
  }
}

function barsOf({ group, metric, variants }: Plot, outcomes: readonly Outcome[]): Bar[] {
  return outcomes.flatMap((outcome) => {
    const { variant, contender, samples } = outcome;
    const spread = spreadOf(samples, metric);
    if (outcome.group !== group || spread === undefined || variants?.includes(variant) === false) return [];
    const digits = spread.median < 10 ? METRICS[metric].digits : 0;
    return [
      { variant, contender, ...spread, label: spread.median.toLocaleString('en', { maximumFractionDigits: digits }) },
    ];
  });
}

/** For each variant its bars, with a line from the least to the most. */
function specOf({ title, variants }: Plot, bars: readonly Bar[]): TopLevelSpec {
  const contenders = [...new Set(bars.map(({ contender }) => contender))];
  const one = new Set(bars.map(({ variant }) => variant)).size === 1;
  return {
    title: { text: title, anchor: 'start', offset: 12 },
    data: { values: [...bars] },
    columns: 1,
    spacing: 14,
    facet: {
      field: 'variant',
      type: 'nominal',
      sort: variants ?? null,
      header: { title: null, labels: !one, labelAnchor: 'start', labelFontWeight: 'bold' },
    },
    spec: {
      width: 520,
      height: { step: 20 },
      encoding: { y: { field: 'contender', type: 'nominal', sort: contenders, axis: { title: null, ticks: false } } },
      layer: [
        {
          mark: { type: 'bar', height: 14, cornerRadiusEnd: 2 },
          encoding: {
            x: { field: 'median', type: 'quantitative', axis: { title: null, tickCount: 5 } },
            color: {
              field: 'contender',
              type: 'nominal',
              scale: { domain: contenders, range: contenders.map((contender) => COLORS[contender] ?? INK) },
              legend: null,
            },
          },
        },
        {
          mark: { type: 'rule', color: WHISKER, strokeWidth: 1.5 },
          encoding: { x: { field: 'min', type: 'quantitative' }, x2: { field: 'max' } },
        },
        {
          mark: { type: 'text', align: 'left', dx: 6, color: INK },
          encoding: { x: { field: 'max', type: 'quantitative' }, text: { field: 'label' } },
        },
      ],
    },
    config: {
      background: 'transparent',
      font: 'system-ui, sans-serif',
      title: { color: INK, fontSize: 14 },
      axis: {
        labelColor: INK,
        labelFontSize: 11,
        labelLimit: 0,
        gridColor: INK,
        gridOpacity: 0.25,
        tickColor: INK,
        domain: false,
      },
      header: { labelColor: INK, labelFontSize: 11 },
      view: { stroke: null },
      text: { fontSize: 11 },
    },
  };
}
