import { escapeHtml } from '../../../cli/src/index.js';
import { isMinor, type Step } from './playground.js';

// The arrows between the lanes of the clients and of the members.

/** Returns the place of a lane in percent of the width. */
function placeOf(lane: string, lanes: readonly string[]): number {
  return ((lanes.indexOf(lane) + 0.5) * 100) / lanes.length;
}

/** Renders the names of the lanes. */
export function laneNames(lanes: readonly string[]): string {
  return lanes.map((lane) => `<b style="left:${placeOf(lane, lanes)}%">${lane}</b>`).join('');
}

/** Renders the lifelines of the lanes, and the arrow or the dot of a step. */
export function arrowOf(step: Pick<Step, 'from' | 'to'> | undefined, lanes: readonly string[]): string {
  const lifelines = lanes.map((lane) => `<i class="life" style="left:${placeOf(lane, lanes)}%"></i>`).join('');
  if (step === undefined) return lifelines;
  const [from, to] = [placeOf(step.from, lanes), placeOf(step.to, lanes)];
  if (from === to) return `${lifelines}<i class="dot" style="left:${from}%"></i>`;
  const [left, right] = [Math.min(from, to), 100 - Math.max(from, to)];
  return `${lifelines}<i class="arrow ${from < to ? 'right' : 'left'}" style="left:${left}%;right:${right}%"></i>`;
}

/** Returns the class that colors a step: `sent` by a client, `received` by a client, or its kind. */
export function classOf({ kind, client, from, to }: Step): string {
  const direction = from === to || client === undefined ? 'local' : from === client ? 'sent' : 'received';
  return `${kind} ${direction}`;
}

/** Renders a step as a row of the trace. */
export function stepHtml(step: Step, lanes: readonly string[], isFiltered: boolean): string {
  const { id, atMs, client, label, protocol, frame } = step;
  const words = `<span class="words">${escapeHtml(label)}${protocol === '' ? '' : `<small>${escapeHtml(protocol)}</small>`}</span>`;
  const arrow = `<span class="lane" aria-hidden="true">${arrowOf(step, lanes)}</span>`;
  const row = `<span class="at">${(atMs / 1_000).toFixed(2)} s</span>${arrow}${words}`;
  const classes = ['step', classOf(step), ...(isMinor(step) ? ['minor'] : []), ...(isFiltered ? ['filtered'] : [])];
  const attributes = `class="${classes.join(' ')}" data-step="${id}" data-client="${client ?? 'etcd'}"`;
  if (frame === undefined) return `<div ${attributes}><div class="row">${row}</div></div>`;
  return `<details ${attributes}><summary class="row">${row}</summary><div class="body"></div></details>`;
}
