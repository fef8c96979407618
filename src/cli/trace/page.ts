import { explain, type Span } from '../../inspect/explain.js';
import type { JsonObject, JsonValue } from '../../protobuf/json.js';
import { hexOf, textOf } from '../../runtime/bytes.js';
import { fieldsOf, frameRows, frameText, type Row, spanMeaning } from '../frames.js';
import { escapeControls } from '../output.js';
import type { QueueState, Step, Story } from './story.js';

/** Distance in pixels between two columns of the diagram. */
const COLUMN_WIDTH = 160;
/**
 * Distance in pixels between the columns of the traced client and etcd. This distance leaves room for the labels of
 * the message arrows.
 */
const FIRST_WIDTH = 500;
const ROW_HEIGHT = 48;
/** Bytes and characters of a longer value are left out, because values may have many megabytes. */
const MAX_SHOWN = 96;
/** Rows for the bytes of a message. The page leaves further rows out. */
const MAX_ROWS = 1_000;
/** Items of a list in a message. The page leaves further items out. */
const MAX_ITEMS = 100;

export interface PageOptions {
  /** The command line. */
  readonly command: string;
  readonly exitCode: number;
  /** Start of the command, in milliseconds on the monotonic clock. */
  readonly startMs: number;
  /** End of the command, in milliseconds on the monotonic clock. */
  readonly endMs: number;
  /** What etcdwire has printed to standard error while the command ran. */
  readonly problems: string;
}

/** Renders a self-contained page with the queue, the diagram of messages, and the bytes of each message. */
export function tracePage(story: Story, { command, exitCode, startMs, endMs, problems }: PageOptions): string {
  const rows = story.steps.map((step) => stepRow(step, story, startMs)).join('\n');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(command)}</title>
<style>${STYLE}</style>
<header>
<h1><code>${escapeHtml(command)}</code></h1>
<p>Exit code ${exitCode} after ${((endMs - startMs) / 1_000).toFixed(2)} s. Each arrow is a message. Click an arrow to see the fields and the bytes of its message.</p>
</header>
${problems === '' ? '' : `<pre class="problems">${escapeHtml(problems)}</pre>`}
${queueChart(story, startMs, endMs)}
<input type="checkbox" id="frames"><label for="frames"> Show every HTTP/2 frame</label>
<section class="diagram">
<div class="row heads"><span class="at"></span>${headings(story)}<span class="state">${story.states.length === 0 ? '' : 'queue'}</span></div>
${rows}
</section>
</html>
`;
}

/** Escapes text for HTML elements and attributes, because a trace may contain text from any client. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

function headings({ participants }: Story): string {
  const names = participants.map(({ name, key }, index) => {
    const x = columnX(index);
    const second = key === undefined ? '' : `<tspan x="${x}" dy="15" class="key">${escapeHtml(shortKey(key))}</tspan>`;
    return `<text x="${x}" y="16">${escapeHtml(name)}${second}</text>`;
  });
  return svg(participants.length, 44, names.join(''));
}

function stepRow(step: Step, story: Story, startMs: number): string {
  const at = `<span class="at">${(step.atMs - startMs).toFixed(1)} ms</span>`;
  const summary = `${at}${arrow(step, story.participants.length)}${bubble(step, story)}${queueOf(step, story)}`;
  const body = bodyOf(step, startMs);
  if (body === '') return `<div class="row ${step.kind}">${summary}</div>`;
  return `<details class="${step.kind}"><summary class="row">${summary}</summary><div class="body">${body}</div></details>`;
}

function arrow({ from, to, label, kind, protocol }: Step, columns: number): string {
  const lifelines = Array.from(
    { length: columns },
    (_, index) => `<line class="life" x1="${columnX(index)}" x2="${columnX(index)}" y1="0" y2="${ROW_HEIGHT}"/>`,
  );
  const [start, end] = [columnX(from), columnX(to)];
  const y = ROW_HEIGHT / 2;
  const title = `<title>${escapeHtml(elided(label))}</title>`;
  if (start === end) {
    const badge = `<text class="badge" x="${start + 12}" y="${y + 5}">${escapeHtml(label)}${title}</text>`;
    return svg(
      columns,
      ROW_HEIGHT,
      `${lifelines.join('')}<g class="${kind}"><circle cx="${start}" cy="${y}" r="6"/>${badge}</g>`,
    );
  }
  const tip = end > start ? -7 : 7;
  const head = `<path d="M${end + tip},${y - 4} L${end},${y} L${end + tip},${y + 4}"/>`;
  const middle = (start + end) / 2;
  const shown = escapeHtml(shortened(label, Math.abs(start - end)));
  const text = `<text x="${middle}" y="${y - 6}">${shown}${title}</text>`;
  const below =
    protocol === '' ? '' : `<text class="protocol" x="${middle}" y="${y + 14}">${escapeHtml(protocol)}</text>`;
  const line = `<line x1="${start}" x2="${end}" y1="${y}" y2="${y}"/>`;
  return svg(columns, ROW_HEIGHT, `${lifelines.join('')}<g class="${kind}">${line}${head}${text}${below}</g>`);
}

/** The step as a phone shows it: a message in a conversation, at the side of its sender. */
function bubble({ from, to, label, kind, protocol }: Step, { participants }: Story): string {
  const sender = kind === 'seen' ? `${escapeHtml(participants[from]?.name ?? '')} ` : '';
  const details = protocol === '' ? '' : `<small>${escapeHtml(protocol)}</small>`;
  const side = from > to || kind === 'seen' ? 'received' : 'sent';
  return `<span class="bubble ${side} ${kind}">${sender}${escapeHtml(elided(label))}${details}</span>`;
}

function queueOf({ queue }: Step, { participants, ownKeys }: Story): string {
  const chips = queue.map((key, index) => {
    const name = participants.find((each) => each.key === key)?.name ?? shortKey(key);
    const classes = [index === 0 ? 'first' : 'waits', ownKeys.has(key) ? 'own' : ''].join(' ').trim();
    return `<b class="${classes}" title="${escapeHtml(key)}">${escapeHtml(name)}</b>`;
  });
  return `<span class="state">${chips.join(' ')}</span>`;
}

/**
 * Returns the HTML that a click on the arrow of a step shows: the fields and the bytes of the message, or the bytes of
 * the frame.
 */
export function bodyOf({ frame, message }: Pick<Step, 'frame' | 'message'>, startMs: number): string {
  if (frame === undefined) return '';
  if (message === undefined) {
    const rows = frameRows(frame).map((each) => bytesRow(frame.bytes, each));
    return `<p>${escapeHtml(frameText(frame, startMs).trim())}</p><table>${rows.join('')}</table>`;
  }
  const fields = JSON.stringify(elidedJson(fieldsOf(message)), null, 2);
  const rows: string[] = [];
  let problem = '';
  try {
    for (const span of explain(message.typeName, message.bytes)) {
      if (rows.length === MAX_ROWS) {
        rows.push(`<tr><td>${span.start}</td><td></td><td>… the page leaves the rest out</td></tr>`);
        break;
      }
      const text = spanMeaning(elidedSpan(span));
      rows.push(bytesRow(message.bytes, { ...span, text }, ` class="${span.part}"`));
    }
  } catch (error) {
    problem = `<p>${escapeHtml((error as Error).message)}</p>`;
  }
  return `<p><b>${escapeHtml(message.typeName)}</b> of ${escapeHtml(message.method.slice(1))}, stream ${frame.streamId} of connection ${frame.connection}, in a DATA frame of ${frame.bytes.length} bytes</p>
<div class="both"><pre>${escapeHtml(fields)}</pre><table>${rows.join('')}</table></div>${problem}`;
}

/**
 * Returns a table row for bytes and their meaning. The indentation shows how deeply the bytes are nested in messages.
 */
function bytesRow(bytes: Uint8Array, { start, end, depth, text }: Row, attributes = ''): string {
  const size = end - start;
  const left = size > MAX_SHOWN ? ` … (${size.toLocaleString('en')} bytes)` : '';
  const hex = hexOf(bytes.subarray(start, Math.min(end, start + MAX_SHOWN)), ' ') + left;
  return `<tr${attributes}><td>${start}</td><td style="padding-left:${depth * 1.5 + 0.5}em"><code>${hex}</code></td><td>${escapeHtml(elided(text))}</td></tr>`;
}

/** Leaves out the end of a long text. */
function elided(text: string): string {
  if (text.length <= 2 * MAX_SHOWN) return text;
  return `${text.slice(0, MAX_SHOWN)}… (${text.length.toLocaleString('en')} characters)`;
}

/** Leaves out the ends of long texts and long lists. */
function elidedJson(value: JsonValue): JsonValue {
  if (typeof value === 'string') return elided(value);
  if (typeof value !== 'object' || value === null) return value;
  if (!Array.isArray(value))
    return Object.fromEntries(Object.entries(value as JsonObject).map(([name, each]) => [name, elidedJson(each)]));
  const items = value.slice(0, MAX_ITEMS).map(elidedJson);
  return value.length > MAX_ITEMS ? [...items, `… (${(value.length - MAX_ITEMS).toLocaleString('en')} more)`] : items;
}

/** Leaves out the end of a long value, before the page formats it. */
function elidedSpan(span: Span): Span {
  const { value } = span;
  if (!(value instanceof Uint8Array) || value.length <= 2 * MAX_SHOWN) return span;
  return { ...span, value: `${textOf(value.subarray(0, MAX_SHOWN))}… (${value.length.toLocaleString('en')} bytes)` };
}

function svg(columns: number, height: number, content: string): string {
  return `<svg width="${columnX(columns - 1) + COLUMN_WIDTH / 2}" height="${height}">${content}</svg>`;
}

function columnX(index: number): number {
  return COLUMN_WIDTH / 2 + (index === 0 ? 0 : FIRST_WIDTH + (index - 1) * COLUMN_WIDTH);
}

/** Shortens a label to the width of its arrow in pixels. A character takes about 6.2 pixels. */
function shortened(label: string, width: number): string {
  const most = Math.floor((width - 20) / 6.2);
  return label.length <= most ? label : `${label.slice(0, most - 1)}…`;
}

/** Shortens a long queue key to its last characters, because only these differ between the contenders. */
function shortKey(key: string): string {
  const text = escapeControls(key);
  return text.length <= 24 ? text : `…${text.slice(-23)}`;
}

const CHART_WIDTH = 900;
const CHART_LEFT = 150;
const BAR_HEIGHT = 26;
/**
 * The chart is longer than the trace by this fraction, so that a contender that holds the lock at the end is visible.
 */
const CHART_EXTENSION = 0.06;

/**
 * Renders a chart of the contenders over time. The bar of a contender is pale while the contender waits, and solid
 * while it holds the lock.
 */
function queueChart({ participants, states, ownKeys, prize }: Story, startMs: number, endMs: number): string {
  const chartEndMs = endMs + (endMs - startMs) * CHART_EXTENSION;
  const periods = periodsOf(states, chartEndMs);
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
  return `<section class="queue"><h2>The queue for the ${prize}</h2><svg viewBox="0 0 ${CHART_WIDTH} ${height}" width="${CHART_WIDTH}" height="${height}">${rows.join('')}${axis}</svg></section>`;
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

/** The colors of the page, in the light and in the dark theme. */
export const THEME = `
:root { color-scheme: light dark; --paper: #fff; --panel: #f6f8fa; --hover: #eef2f6; --ink: #1d2733; --soft: #5b6773;
  --rule: #d8dee5; --own: #1668c1; --other: #a34c0a; --bad: #b91f29; --good: #14702f; --tag: #1668c1; --length: #7a4f00;
  --on: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #12171d; --panel: #1b222b; --hover: #202a35; --ink: #e3e9f0; --soft: #9aa7b4; --rule: #333f4c;
    --own: #6cb0ff; --other: #f0a35e; --bad: #ff8a8a; --good: #6fd08c; --tag: #6cb0ff; --length: #e0b060; --on: #12171d; }
}
`;

/** Style sheet of the fields and the bytes of a message. */
export const BODY_STYLE = `
.body { padding: .6em 1em; background: var(--panel); border-radius: 6px; font-size: 13px; }
.body p { margin: 0 0 .5em; color: var(--soft); overflow-wrap: anywhere; } .both { display: grid; grid-template-columns: minmax(16em, 2fr) 4fr; gap: 2em; align-items: start; }
pre { margin: 0; font-size: 12px; white-space: pre-wrap; overflow-wrap: anywhere; } table { border-collapse: collapse; font-size: 12px; } td { padding: 0 .5em; vertical-align: top; }
td:first-child { color: var(--soft); text-align: right; } td code { overflow-wrap: anywhere; } td:nth-child(2) { width: 40%; } tr.tag code { color: var(--tag); } tr.length code { color: var(--length); } tr.value code { color: var(--good); }
@media (max-width: 760px) { .both { display: block; } .both table { margin-top: .8em; } }
`;

/** Style sheet of the page. */
const STYLE = `${THEME}${BODY_STYLE}
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2em auto; max-width: 1400px; padding: 0 1.5em; }
h1 { font-size: 1.3em; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1em; margin: 1.5em 0 .4em; }
header p { color: var(--soft); margin: .2em 0 0; }
.problems { margin: 1em 0; padding: .6em 1em; background: var(--panel); border-radius: 6px; }
.queue svg { max-width: 100%; height: auto; }
.queue text { font-size: 12px; fill: var(--on); } .queue .name { fill: var(--ink); text-anchor: end; }
.queue .axis { fill: var(--soft); font-size: 11px; } .queue .end { text-anchor: end; }
.queue rect { rx: 3; fill: var(--other); } .queue rect.own { fill: var(--own); }
.queue rect.waits { fill-opacity: .25; } .queue rect.waits + text { fill: var(--ink); }
label { color: var(--soft); }
.diagram { border-top: 1px solid var(--rule); margin-top: .6em; width: max-content; min-width: 100%; }
.row { display: grid; grid-template-columns: 84px max-content minmax(180px, 1fr); align-items: center; list-style: none; }
.row::-webkit-details-marker { display: none; }
details summary { cursor: pointer; } details summary:hover { background: var(--hover); }
.heads { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--rule); z-index: 1; }
.heads text { text-anchor: middle; font-weight: 600; fill: var(--ink); } .heads .key { font-weight: 400; font-size: 11px; fill: var(--soft); }
.heads .state { color: var(--soft); }
.at { color: var(--soft); font-size: 12px; text-align: right; padding-right: 12px; font-variant-numeric: tabular-nums; }
svg { display: block; } .life { stroke: var(--rule); stroke-width: 2; }
g line, g path { stroke: var(--own); stroke-width: 1.6; fill: none; } g text { text-anchor: middle; font-size: 12px; fill: var(--ink); }
g text.protocol { fill: var(--soft); font-size: 11px; }
g.failure line, g.failure path { stroke: var(--bad); } g.failure text:not(.protocol) { fill: var(--bad); font-weight: 600; }
g.held circle { fill: var(--good); } g text.badge { text-anchor: start; fill: var(--good); font-weight: 700; }
g.seen line, g.seen path { stroke: var(--other); } g.seen line { stroke-dasharray: 5 4; }
g.frame line, g.frame path { stroke: var(--soft); } g.frame text { fill: var(--soft); font-size: 11px; }
.state { white-space: nowrap; } .state b { font-size: 11px; font-weight: 500; padding: 1px 8px; border: 1px solid var(--other); border-radius: 9px; color: var(--on); background: var(--other); }
.state b.own { background: var(--own); border-color: var(--own); } .state b.waits { background: none; color: var(--ink); }
.state b.first::before { content: "holds: "; }
.bubble { display: none; }
.frame { display: none; } #frames:checked ~ .diagram .frame { display: block; } #frames:checked ~ .diagram g.frame { display: inline; }
.diagram g.frame { display: inline; }
.body { margin: .2em 0 1em 84px; }
@media (max-width: 760px) {
  body { margin: 1em auto; padding: 0 .8em; }
  .diagram { width: auto; } .row { display: block; padding: .25em 0; } .row svg, .heads, .row > .state { display: none; }
  .at { display: block; text-align: left; }
  .bubble { display: block; width: fit-content; max-width: 85%; padding: .4em .8em; border-radius: 10px; background: var(--panel); border: 1px solid var(--rule); overflow-wrap: anywhere; }
  .bubble.received { margin-left: auto; } .bubble small { display: block; color: var(--soft); }
  .bubble.failure { border-color: var(--bad); color: var(--bad); } .bubble.held { border-color: var(--good); color: var(--good); font-weight: 700; }
  .body { margin-left: 0; }
}
`;
