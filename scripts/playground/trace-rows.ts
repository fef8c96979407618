import { escapeHtml } from '../../src/cli/trace/body.js';
import { isMinor, type Step } from './playground.js';

/** Where the lanes of the clients and of etcd are, in percent of the width. */
export const LANES = { A: 10, B: 35, C: 60, etcd: 88 } as const;

/** Renders a step as a row of the trace. */
export function stepHtml(step: Step, isFiltered: boolean): string {
  const { id, atMs, client, direction, label, protocol, kind, frame } = step;
  const words = `<span class="words">${escapeHtml(label)}${protocol === '' ? '' : `<small>${escapeHtml(protocol)}</small>`}</span>`;
  const row = `<span class="at">${(atMs / 1_000).toFixed(2)} s</span>${lanesOf(step)}${words}`;
  const classes = ['step', kind, direction, ...(isMinor(step) ? ['minor'] : []), ...(isFiltered ? ['filtered'] : [])];
  const attributes = `class="${classes.join(' ')}" data-step="${id}" data-client="${client ?? 'etcd'}"`;
  if (frame === undefined) return `<div ${attributes}><div class="row">${row}</div></div>`;
  return `<details ${attributes}><summary class="row">${row}</summary><div class="body"></div></details>`;
}

function lanesOf({ client, direction }: Step): string {
  const lifelines = Object.values(LANES).map((at) => `<i class="life" style="left:${at}%"></i>`);
  const own = LANES[(client ?? 'etcd') as keyof typeof LANES];
  const mark =
    direction === 'none'
      ? `<i class="dot" style="left:${own}%"></i>`
      : `<i class="arrow" style="left:${own}%;right:${100 - LANES.etcd}%"></i>`;
  return `<span class="lane" aria-hidden="true">${lifelines.join('')}${mark}</span>`;
}
