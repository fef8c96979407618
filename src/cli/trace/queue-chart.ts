import { escaped } from './html.js';
import type { QueueState } from './queue-observer.js';
import type { Story } from './story.js';

const WIDTH = 900;
const LEFT = 150;
const ROW_HEIGHT = 26;
/** The part of the time by which the chart goes on: who holds the lock at the end is to be seen. */
const BEYOND = 0.06;

interface Stay {
  readonly key: string;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly holds: boolean;
}

/** Who waited for the lock and who held it, over time: a bar each, pale while it waits and solid while it holds. */
export function queueChart({ lanes, states, ownKeys }: Story, startMs: number, endMs: number): string {
  const chartEndMs = endMs + (endMs - startMs) * BEYOND;
  const stays = staysOf(states, chartEndMs);
  if (stays.length === 0) return '';
  const keys = [...new Set(stays.map(({ key }) => key))];
  const x = (ms: number): number =>
    LEFT + ((Math.max(ms, startMs) - startMs) / (chartEndMs - startMs)) * (WIDTH - LEFT - 10);
  const height = keys.length * ROW_HEIGHT + 24;
  const rows = keys.map((key, index) => {
    const y = index * ROW_HEIGHT;
    const name = lanes.find((lane) => lane.key === key)?.name ?? key;
    const bars = stays
      .filter((stay) => stay.key === key)
      .map(({ fromMs, untilMs, holds }) => {
        const width = Math.max(2, x(untilMs) - x(fromMs));
        const what = holds ? 'holds the lock' : 'waits';
        const label = width > 80 ? `<text x="${x(fromMs) + 6}" y="${y + 16}">${what}</text>` : '';
        return `<rect class="${holds ? 'holds' : 'waits'}${ownKeys.has(key) ? ' own' : ''}" x="${x(fromMs).toFixed(1)}" y="${y + 2}" width="${width.toFixed(1)}" height="${ROW_HEIGHT - 6}"><title>${escaped(`${name} ${what} for ${Math.round(Math.min(untilMs, endMs) - fromMs)} ms`)}</title></rect>${label}`;
      });
    return `<text class="name" x="${LEFT - 10}" y="${y + 16}">${escaped(name)}</text>${bars.join('')}`;
  });
  const axis = `<text class="axis" x="${LEFT}" y="${height - 6}">0 s</text><text class="axis end" x="${x(endMs).toFixed(1)}" y="${height - 6}">${((endMs - startMs) / 1_000).toFixed(2)} s</text>`;
  return `<section class="queue"><h2>The queue for the lock</h2><svg viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}">${rows.join('')}${axis}</svg></section>`;
}

/** From each state to the next, everybody in line stays what they are. */
function staysOf(states: readonly QueueState[], endMs: number): Stay[] {
  const stays: Stay[] = [];
  const open = new Map<string, { readonly fromMs: number; readonly holds: boolean }>();
  const close = (key: string, untilMs: number): void => {
    const stay = open.get(key);
    if (stay !== undefined) stays.push({ key, ...stay, untilMs });
    open.delete(key);
  };
  for (const { atMs, line } of states) {
    for (const [key, { holds }] of [...open]) if (!line.includes(key) || holds !== (line[0] === key)) close(key, atMs);
    for (const key of line) if (!open.has(key)) open.set(key, { fromMs: atMs, holds: line[0] === key });
  }
  for (const key of [...open.keys()]) close(key, endMs);
  return stays;
}
