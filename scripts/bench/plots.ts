import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import { CLIENTS } from './clients/bench-client.js';
import { METRICS, type Metric, metricSpreadOf } from './metrics.js';
import type { Outcome } from './workload.js';
import { CONTENDERS, callGroup, contendersVariant, HAND_OFFS_GROUP, inFlightVariant } from './workloads/calls.js';
import { COLD_START_GROUP } from './workloads/start-and-memory.js';

interface Plot {
  readonly file: string;
  readonly title: string;
  readonly group: string;
  readonly metric: Metric;
  /** The variants to show, in this order. Default: all. */
  readonly variants?: string[];
  /** The competitors to show. Default: all. */
  readonly competitors?: readonly string[];
}

const CALLS_IN_FLIGHT = [1, 16, 128, 512].map(inFlightVariant);
const PLOTS: readonly Plot[] = [
  {
    file: 'get-rate',
    title: 'Gets per second, values of 100 bytes',
    group: callGroup('get', 100),
    metric: 'rate',
    variants: CALLS_IN_FLIGHT,
    competitors: CLIENTS,
  },
  {
    file: 'get-cpu',
    title: 'Client CPU per get, µs',
    group: callGroup('get', 100),
    metric: 'cpuUs',
    variants: CALLS_IN_FLIGHT,
    competitors: CLIENTS,
  },
  {
    file: 'put-rate',
    title: 'Puts per second, values of 100 bytes',
    group: callGroup('put', 100),
    metric: 'rate',
    variants: CALLS_IN_FLIGHT,
    competitors: CLIENTS,
  },
  {
    file: 'hand-offs',
    title: 'Hand-offs of a lock per second',
    group: HAND_OFFS_GROUP,
    metric: 'rate',
    variants: CONTENDERS.map(contendersVariant),
  },
  { file: 'cold-start', title: 'Cold start without Node.js itself, ms', group: COLD_START_GROUP, metric: 'netStartMs' },
];

/**
 * Color of the text and the grid lines. The plots have a transparent background, so this color must be readable on
 * white and on black.
 */
const INK = '#768390';
const WHISKER = '#59636e';
const COLORS: Readonly<Record<string, string>> = {
  etcdwire: '#2f81f7',
  'etcdwire over grpc-js': '#8256d0',
  etcd3: '#d4772c',
  'bare grpc-js': '#afb8c1',
  "wait of Go's client": '#2da44e',
};

interface Bar {
  readonly variant: string;
  readonly competitor: string;
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly label: string;
}

/** Writes an SVG file for each plot of which the run measured a workload. */
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

function barsOf({ group, metric, variants, competitors }: Plot, outcomes: readonly Outcome[]): Bar[] {
  return outcomes.flatMap((outcome) => {
    const { variant, competitor, samples } = outcome;
    const spread = metricSpreadOf(samples, metric);
    if (outcome.group !== group || spread === undefined) return [];
    if (variants?.includes(variant) === false || competitors?.includes(competitor) === false) return [];
    const digits = spread.median < 10 ? METRICS[metric].digits : 0;
    return [
      { variant, competitor, ...spread, label: spread.median.toLocaleString('en', { maximumFractionDigits: digits }) },
    ];
  });
}

/** Returns the specification of a plot: a bar for each competitor, with a line from the minimum to the maximum. */
function specOf({ title, variants }: Plot, bars: readonly Bar[]): TopLevelSpec {
  const competitors = [...new Set(bars.map(({ competitor }) => competitor))];
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
      encoding: { y: { field: 'competitor', type: 'nominal', sort: competitors, axis: { title: null, ticks: false } } },
      layer: [
        {
          mark: { type: 'bar', height: 14, cornerRadiusEnd: 2 },
          encoding: {
            x: { field: 'median', type: 'quantitative', axis: { title: null, tickCount: 5 } },
            color: {
              field: 'competitor',
              type: 'nominal',
              scale: { domain: competitors, range: competitors.map((competitor) => COLORS[competitor] ?? INK) },
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
