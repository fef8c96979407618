import { writeFileSync } from 'node:fs';
import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import type { SoakSample } from './heap.js';

/**
 * Color of texts and grid lines. The plot has a transparent background, so this color must be readable on white and on
 * black.
 */
const INK = '#768390';
const LINE = '#2f81f7';

const PANELS = [
  { field: 'heapMiB', title: 'Heap after garbage collection, MiB' },
  { field: 'handles', title: 'Open handles' },
  { field: 'events', title: 'Events compared' },
] as const satisfies readonly { readonly field: keyof SoakSample; readonly title: string }[];

/** Writes an SVG file with three plots, one above the other: the heap, the open handles and the events over time. */
export async function writeSoakPlot(file: string, samples: readonly SoakSample[]): Promise<void> {
  const view = new View(parse(compile(specOf(samples)).spec), { renderer: 'none' });
  writeFileSync(file, `${await view.toSVG()}\n`);
  view.finalize();
}

function specOf(samples: readonly SoakSample[]): TopLevelSpec {
  return {
    data: { values: [...samples] },
    vconcat: PANELS.map(({ field, title }) => ({
      width: 560,
      height: 110,
      title: { text: title, anchor: 'start', frame: 'group' },
      mark: { type: 'line', color: LINE },
      encoding: {
        x: {
          field: 'minute',
          type: 'quantitative',
          scale: { nice: false },
          axis: { title: field === 'events' ? 'minutes' : null },
        },
        y: { field, type: 'quantitative', scale: { zero: true }, axis: { title: null, tickCount: 4 } },
      },
    })),
    config: {
      background: 'transparent',
      font: 'system-ui, sans-serif',
      title: { color: INK, fontSize: 13 },
      axis: { labelColor: INK, titleColor: INK, gridColor: INK, gridOpacity: 0.25, tickColor: INK, domain: false },
      view: { stroke: null },
    },
  };
}
