import { escapeHtml } from './body.js';
import type { QueueState } from './queue-observer.js';
import type { Trace } from './trace.js';

const CHART_WIDTH = 900;
const CHART_LEFT = 150;
const BAR_HEIGHT = 26;
/**
 * The chart is longer than the trace by this fraction, so that a contender that holds the lock at the end is visible.
 */
const CHART_EXTENSION = 0.06;

/**
 * Renders a chart of the contenders over time. The bar of a contender is pale while the contender waits, and solid
 * while it holds the lock. `longestMs` is the time of the longest trace, so that all charts of a page have the same
 * scale.
 */
export function queueChart({ command, story, startMs, endMs }: Trace, longestMs: number, isBeside: boolean): string {
  const { participants, states, ownKeys, prize } = story;
  const chartEndMs = startMs + longestMs * (1 + CHART_EXTENSION);
  const statesEndMs = endMs + longestMs * CHART_EXTENSION;
  const periods = periodsOf(states, statesEndMs);
  if (periods.length === 0) return '';
  const keys = [...new Set(periods.map(({ key }) => key))];
  const x = (ms: number): number =>
    CHART_LEFT + ((Math.max(ms, startMs) - startMs) / (chartEndMs - startMs)) * (CHART_WIDTH - CHART_LEFT - 10);
  const height = keys.length * BAR_HEIGHT + 24;
  const rows = keys.map((key, index) => {
    const y = index * BAR_HEIGHT;
    const name = participants.find((each) => each.key === key)?.name ?? key;
    const bars = periods
      .filter((period) => period.key === key)
      .map(({ fromMs, untilMs, holds }) => {
        const width = Math.max(2, x(untilMs) - x(fromMs));
        const state = holds ? `holds the ${prize}` : 'waits';
        const label = width > 80 ? `<text x="${x(fromMs) + 6}" y="${y + 16}">${state}</text>` : '';
        const classes = `${holds ? 'holds' : 'waits'}${ownKeys.has(key) ? ' own' : ''}`;
        const title = escapeHtml(`${name} ${state} for ${Math.round(Math.min(untilMs, endMs) - fromMs)} ms`);
        return `<rect class="${classes}" x="${x(fromMs).toFixed(1)}" y="${y + 2}" width="${width.toFixed(1)}" height="${BAR_HEIGHT - 6}"><title>${title}</title></rect>${label}`;
      });
    return `<text class="name" x="${CHART_LEFT - 10}" y="${y + 16}">${escapeHtml(name)}</text>${bars.join('')}`;
  });
  const axis = `<text class="axis" x="${CHART_LEFT}" y="${height - 6}">0 s</text><text class="axis end" x="${x(endMs).toFixed(1)}" y="${height - 6}">${((endMs - startMs) / 1_000).toFixed(2)} s</text>`;
  return `<section class="queue"><h2>The queue for the ${prize}${isBeside ? `: <code>${escapeHtml(command)}</code>` : ''}</h2><svg viewBox="0 0 ${CHART_WIDTH} ${height}" width="${CHART_WIDTH}" height="${height}" data-zero="${x(startMs)}" data-scale="${(x(endMs) - x(startMs)) / Math.max(1, endMs - startMs)}">${rows.join('')}${axis}<line class="cursor" y1="0" y2="${height - 20}" visibility="hidden"/></svg></section>`;
}

/** A period during which a contender waits for the lock or holds it. */
interface Period {
  readonly key: string;
  readonly fromMs: number;
  untilMs: number;
  readonly holds: boolean;
}

function periodsOf(states: readonly QueueState[], endMs: number): readonly Period[] {
  const periods: Period[] = [];
  for (const [index, { atMs, queue }] of states.entries()) {
    const untilMs = states[index + 1]?.atMs ?? endMs;
    for (const key of queue) {
      const holds = queue[0] === key;
      const last = periods.findLast((period) => period.key === key);
      if (last?.untilMs === atMs && last.holds === holds) last.untilMs = untilMs;
      else periods.push({ key, fromMs: atMs, untilMs, holds });
    }
  }
  return periods;
}
