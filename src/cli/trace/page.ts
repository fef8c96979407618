import { createHash } from 'node:crypto';
import type { WireFrame } from '../../inspect/frames.js';
import { escapeControls } from '../output.js';
import { BODY_STYLE, bodyOf, elided, escapeHtml, LIGHT_SCRIPT, THEME } from './body.js';
import { type QueueState, type Step, type Story, streamOf } from './story.js';

/** Distance in pixels between two columns of the diagram. */
const COLUMN_WIDTH = 160;
/**
 * Distance in pixels between the columns of the traced client and etcd. This distance leaves room for the labels of
 * the message arrows.
 */
const FIRST_WIDTH = 500;
const ROW_HEIGHT = 48;
/** Time without messages takes this many pixels per second, up to a maximum. */
const GAP_PX_PER_SECOND = 40;
const MAX_GAP_PX = 200;
/** A gap of this height has room for its time. */
const LABELED_GAP_PX = 18;

/** What one program did on the wire. */
export interface Trace {
  /** The command line. */
  readonly command: string;
  readonly exitCode: number | undefined;
  /** The frames that the story tells about. */
  readonly frames: readonly WireFrame[];
  readonly story: Story;
  /** Number of frames that the story leaves out. */
  readonly leftOut: number;
  /** Start of the program, in milliseconds on the monotonic clock. */
  readonly startMs: number;
  /** End of the program, in milliseconds on the monotonic clock. */
  readonly endMs: number;
  /** What etcdwire has printed to standard error while the program ran. */
  readonly problems: string;
}

/**
 * Renders a self-contained page with the queue, the diagram of messages, and the bytes of each message. With a second
 * trace, the page shows both beside each other. If the page is `live`, it asks its server for changes.
 */
export function tracePage(traces: readonly [Trace, ...Trace[]], { live = false } = {}): string {
  const [{ command }] = traces;
  const script = `${LIGHT_SCRIPT}${PAGE_SCRIPT}${live ? LIVE_SCRIPT : ''}`;
  const hash = createHash('sha256').update(script).digest('base64');
  // Only the page's own script may run, because a trace may contain text from any client.
  const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-${hash}'; connect-src ${live ? "'self'" : "'none'"}`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${escapeHtml(command)}</title>
<style>${STYLE}</style>
<div id="summary">${summary(traces)}</div>
${legend(traces[0].story, live)}
<div class="controls">
<label><input type="checkbox" id="frames"> every HTTP/2 frame</label>
${KINDS.map((kind) => `<label><input type="checkbox" data-show="${kind}" checked> ${kind}</label>`).join('\n')}
<label>stream <select id="stream"></select></label>
<label>time <input type="range" id="scrubber" min="0" value="0"></label> <output id="moment"></output>
</div>
<main id="messages">${messages(traces)}</main>
<script>${script}</script>
</html>
`;
}

/** Renders the parts of the page that change while a program runs. */
export function liveParts(traces: readonly [Trace, ...Trace[]]): string {
  return `<div id="summary">${summary(traces)}</div><div id="messages">${messages(traces)}</div>`;
}

function summary(traces: readonly [Trace, ...Trace[]]): string {
  const longestMs = Math.max(...traces.map(({ startMs, endMs }) => endMs - startMs));
  const charts = traces.map((trace) => queueChart(trace, longestMs, traces.length > 1));
  return `${header(traces[0])}${traces.length > 1 ? comparison(traces) : ''}${charts.join('')}`;
}

function messages(traces: readonly [Trace, ...Trace[]]): string {
  const diagrams = traces.map((trace, index) => diagram(trace, index, traces.length > 1)).join('\n');
  return traces.length === 1 ? diagrams : `<div class="beside">${diagrams}</div>`;
}

/** The kinds of messages that the visitor of a page can hide. */
const KINDS = ['keys', 'watches', 'leases', 'other'] as const;

function header({ command, exitCode, startMs, endMs, problems }: Trace): string {
  const seconds = ((endMs - startMs) / 1_000).toFixed(2);
  const end = exitCode === undefined ? `Runs for ${seconds} s.` : `Exit code ${exitCode} after ${seconds} s.`;
  return `<header>
<h1><code>${escapeHtml(command)}</code></h1>
<p>${end} Each arrow is a message. Click an arrow to see the fields and the bytes of its message.</p>
</header>
${problems === '' ? '' : `<pre class="problems">${escapeHtml(problems)}</pre>`}`;
}

function legend({ states, prize }: Story, live: boolean): string {
  const queue =
    states.length === 0 && !live
      ? ''
      : `<li>A <b class="other">dashed</b> arrow is a change by another contender, and a <b class="good">green</b> dot the moment when this client gets the ${prize}. At the right of each arrow stands the queue: first the holder, then those who wait. In the chart, a pale bar waits and a solid bar holds.</li>`;
  return `<details class="legend"><summary>How to read this page</summary><ul>
<li>Time runs down the page. Time without messages takes ${GAP_PX_PER_SECOND} pixels for each second, and ${MAX_GAP_PX} pixels at most.</li>
<li>A <b class="own">blue</b> arrow is a message of this client, and a <b class="bad">red</b> arrow a failure. The line below an arrow names the RPC, the HTTP/2 stream, the revision of the store, and how long the answer took.</li>
${queue}
<li>The bytes of a message are <b class="tag">tags</b>, which name a field, <b class="length">lengths</b>, and <b class="good">values</b>. The pointer on a field lights its bytes, and the reverse.</li>
</ul></details>`;
}

/** Compares what two programs sent and received. */
function comparison(traces: readonly Trace[]): string {
  const columns = traces.map(({ command, exitCode, startMs, endMs, frames }) => {
    const [sent, received] = (['sent', 'received'] as const).map((direction) =>
      totalsOf(frames.filter((frame) => frame.direction === direction)),
    ) as [Totals, Totals];
    const streams = new Set(frames.filter(({ streamId }) => streamId > 0).map(streamOf));
    return {
      '': `<code>${escapeHtml(command)}</code>`,
      'exit code': exitCode ?? '',
      'time in ms': Math.round(endMs - startMs),
      requests: sent.messages,
      'responses and events': received.messages,
      streams: streams.size,
      'frames sent': sent.frames,
      'frames received': received.frames,
      'bytes sent': sent.bytes,
      'bytes received': received.bytes,
    };
  });
  const rows = Object.keys(columns[0] ?? {}).map((what) => {
    const cells = columns.map((column) => `<td>${column[what as keyof typeof column].toLocaleString('en')}</td>`);
    return `<tr><th>${what}</th>${cells.join('')}</tr>`;
  });
  return `<table class="comparison">${rows.join('')}</table>`;
}

interface Totals {
  readonly frames: number;
  readonly messages: number;
  readonly bytes: number;
}

function totalsOf(frames: readonly WireFrame[]): Totals {
  let [messages, bytes] = [0, 0];
  for (const frame of frames) {
    bytes += frame.bytes.length;
    if (frame.detail.kind === 'data') messages += frame.detail.messages.length;
  }
  return { frames: frames.length, messages, bytes };
}

function diagram({ command, story, startMs, leftOut }: Trace, index: number, isBeside: boolean): string {
  const kinds = new Map<string, string>();
  for (const { message, frame } of story.steps)
    if (message !== undefined && frame !== undefined) kinds.set(streamOf(frame), kindOf(message.method));
  const keys = new Set<string>();
  let lastMs = startMs;
  const rows = story.steps.map((step) => {
    const gap = gapRow(step.atMs - lastMs);
    lastMs = step.atMs;
    return gap + stepRow(step, story, startMs, { kinds, trace: index, keys });
  });
  const title = isBeside ? `<h2><code>${escapeHtml(command)}</code></h2>` : '';
  const note =
    leftOut === 0
      ? ''
      : `<p class="left-out">This page shows the beginning and the end. ${leftOut.toLocaleString('en')} frames between them are left out.</p>`;
  return `<section class="diagram" data-name="${escapeHtml(command)}">${title}${note}
<div class="row heads"><span class="at"></span>${headings(story)}<span class="state">${story.states.length === 0 ? '' : 'queue'}</span></div>
${rows.join('\n')}
</section>`;
}

function kindOf(method: string): (typeof KINDS)[number] {
  const service = /\.(\w+)\//.exec(method)?.[1];
  return service === 'KV' ? 'keys' : service === 'Watch' ? 'watches' : service === 'Lease' ? 'leases' : 'other';
}

/** Shows how long nothing was sent or received. */
function gapRow(ms: number): string {
  const height = Math.min(MAX_GAP_PX, Math.round((ms / 1_000) * GAP_PX_PER_SECOND));
  if (height === 0) return '';
  const label = height < LABELED_GAP_PX ? '' : `${(ms / 1_000).toFixed(1)} s`;
  return `<div class="gap" style="height:${height}px">${label}</div>`;
}

function headings({ participants }: Story): string {
  const names = participants.map(({ name, key }, index) => {
    const x = columnX(index);
    const second = key === undefined ? '' : `<tspan x="${x}" dy="15" class="key">${escapeHtml(shortKey(key))}</tspan>`;
    return `<text x="${x}" y="16">${escapeHtml(name)}${second}</text>`;
  });
  return svg(participants.length, 44, names.join(''));
}

/** What the rows of a diagram have in common. */
interface Rows {
  /** The kind of the messages on each stream. */
  readonly kinds: ReadonlyMap<string, string>;
  /** The index of the trace on the page. */
  readonly trace: number;
  /** The keys of the rows so far. A live page finds its rows again by their keys. */
  readonly keys: Set<string>;
}

function stepRow(step: Step, story: Story, startMs: number, { kinds, trace, keys }: Rows): string {
  const at = `<span class="at">${(step.atMs - startMs).toFixed(1)} ms</span>`;
  const summary = `${at}${arrow(step, story.participants.length)}${bubble(step, story)}${queueOf(step, story)}`;
  const body = bodyOf(step, startMs);
  const stream = step.frame === undefined ? '' : streamOf(step.frame);
  const kind = kinds.get(stream) ?? 'other';
  const filter = step.frame === undefined ? '' : ` data-stream="${trace} ${stream}" data-kind="${kind}"`;
  const ms = (step.atMs - startMs).toFixed(3);
  let key = `${trace} ${ms} ${stream} ${step.kind}`;
  while (keys.has(key)) key += '+';
  keys.add(key);
  const attributes = `data-ms="${ms}" data-key="${key}"${filter}`;
  if (body === '') return `<div class="row ${step.kind}" ${attributes}>${summary}</div>`;
  return `<details class="${step.kind}" ${attributes}><summary class="row">${summary}</summary><div class="body">${body}</div></details>`;
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
 * while it holds the lock. `longestMs` is the time of the longest trace, so that all charts of a page have the same
 * scale.
 */
function queueChart({ command, story, startMs, endMs }: Trace, longestMs: number, isBeside: boolean): string {
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

/**
 * Returns the style sheet that shows the rows in this scope as a conversation, for narrow diagrams: each message is a
 * bubble at the side of its sender.
 */
function conversation(scope: string): string {
  const rules = [
    '.diagram { width: auto; }',
    '.row { display: block; padding: .25em 0; }',
    '.row svg { display: none; }',
    '.heads { display: none; }',
    '.row > .state { display: none; }',
    '.at { display: block; text-align: left; }',
    '.gap { margin-left: 0; }',
    '.bubble { display: block; width: fit-content; max-width: 85%; padding: .4em .8em; border-radius: 10px; background: var(--panel); border: 1px solid var(--rule); overflow-wrap: anywhere; }',
    '.bubble.received { margin-left: auto; }',
    '.bubble small { display: block; color: var(--soft); }',
    '.bubble.failure { border-color: var(--bad); color: var(--bad); }',
    '.bubble.held { border-color: var(--good); color: var(--good); font-weight: 700; }',
    '.body { margin-left: 0; }',
  ];
  return rules.map((rule) => scope + rule).join('\n');
}

/** Filters the rows, and moves through time. A live page calls the function refresh after each change. */
const PAGE_SCRIPT = `
const byId = (id) => document.getElementById(id);
let rows = [];
const chosen = { hidden: new Set(), stream: '', now: undefined };
function filter() {
  for (const row of rows) {
    const { kind, stream } = row.dataset;
    const isOff = kind !== undefined && (chosen.hidden.has(kind) || (chosen.stream !== '' && chosen.stream !== stream));
    row.classList.toggle('filtered', isOff);
  }
}
function moveTo(row) {
  for (const now of document.querySelectorAll('.now')) now.classList.remove('now');
  row.classList.add('now');
  chosen.now = row.dataset.key;
  byId('moment').textContent = (row.dataset.ms / 1000).toFixed(3) + ' s';
  for (const chart of document.querySelectorAll('.queue svg')) {
    const x = Number(chart.dataset.zero) + row.dataset.ms * chart.dataset.scale;
    const cursor = chart.querySelector('.cursor');
    cursor.setAttribute('x1', x);
    cursor.setAttribute('x2', x);
    cursor.setAttribute('visibility', 'visible');
  }
}
function refresh() {
  rows = [...document.querySelectorAll('.diagram [data-ms]')];
  const diagrams = [...document.querySelectorAll('.diagram')];
  const groups = diagrams.map((diagram) => {
    const streams = new Map([...diagram.querySelectorAll('[data-stream]')].map(({ dataset }) => [dataset.stream, dataset.kind]));
    const options = [...streams].map(([stream, kind]) => {
      const [, connection, id] = /^\\d+ (\\d+):(\\d+)$/.exec(stream);
      return new Option(id === '0' ? 'connection ' + connection : connection + ':' + id + ' ' + kind, stream);
    });
    if (diagrams.length === 1) return options;
    const group = document.createElement('optgroup');
    group.label = diagram.dataset.name;
    group.append(...options);
    return group;
  });
  byId('stream').replaceChildren(new Option('all', ''), ...groups.flat());
  byId('stream').value = chosen.stream;
  byId('scrubber').max = Math.max(0, rows.length - 1);
  filter();
}
document.addEventListener('input', ({ target }) => {
  if (target.id === 'stream') chosen.stream = target.value;
  else if (target.dataset.show) chosen.hidden[target.checked ? 'delete' : 'add'](target.dataset.show);
  else if (target.id === 'scrubber') {
    const shown = rows.slice(0, Number(target.value) + 1).findLast((row) => row.checkVisibility());
    if (shown) moveTo(shown);
    shown?.scrollIntoView({ block: 'center', inline: 'nearest' });
    return;
  }
  filter();
});
refresh();
`;

/** Replaces what has changed when the server reports a change. Open rows stay open. */
const LIVE_SCRIPT = `
const source = new EventSource('changes');
let latest = 0;
let isOver = false;
source.onerror = () => {
  source.close();
  if (!isOver) document.querySelector('header p').textContent = 'etcdwire has ended without a last state of this page.';
};
source.onmessage = async ({ data }) => {
  isOver = data === 'end';
  if (isOver) source.close();
  const number = ++latest;
  const response = await fetch('content?' + data).catch(() => undefined);
  const html = await response?.text();
  if (html === undefined || number !== latest) return;
  const content = new DOMParser().parseFromString(html, 'text/html');
  const open = new Set([...document.querySelectorAll('.diagram details[open]')].map(({ dataset }) => dataset.key));
  const focused = document.activeElement?.closest('[data-key]')?.dataset.key;
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  for (const id of ['summary', 'messages']) byId(id).replaceChildren(...content.getElementById(id).childNodes);
  refresh();
  for (const row of rows) {
    if (open.has(row.dataset.key)) row.open = true;
    if (row.dataset.key === chosen.now) {
      moveTo(row);
      byId('scrubber').value = rows.indexOf(row);
    }
    if (row.dataset.key === focused) row.querySelector('summary').focus({ preventScroll: true });
  }
  if (isAtEnd) scrollTo(0, document.documentElement.scrollHeight);
};
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
.cursor { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 3 2; }
.legend { margin: .8em 0; color: var(--soft); } .legend ul { margin: .3em 0; } .legend .own { color: var(--own); } .legend .other { color: var(--other); } .legend .bad { color: var(--bad); } .legend .good { color: var(--good); } .legend .tag { color: var(--tag); } .legend .length { color: var(--length); }
.controls { display: flex; flex-wrap: wrap; gap: .4em 1.2em; align-items: center; margin: .8em 0; } #scrubber { width: 16em; max-width: 60vw; vertical-align: middle; }
#moment { font-variant-numeric: tabular-nums; } select { font: inherit; }
.gap { margin-left: 84px; color: var(--soft); font-size: 11px; display: flex; align-items: center; padding-left: .8em; border-left: 2px dotted var(--rule); }
[data-ms].now, .now > summary { background: var(--lit); } .filtered { display: none; }
.comparison { margin: 1em 0; } .comparison th { text-align: left; font-weight: 500; padding: .1em 1em .1em 0; } .comparison td { text-align: right; padding: .1em 1em .1em 0; }
.beside { display: grid; grid-template-columns: 1fr 1fr; gap: 2em; align-items: start; } .beside .diagram { min-width: 0; } .beside .body { overflow-x: auto; } .beside .both { display: block; } .beside .both table { margin-top: .8em; }
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
.frame { display: none; } body:has(#frames:checked) .diagram .frame:not(.filtered) { display: block; } body:has(#frames:checked) .diagram g.frame { display: inline; }
.diagram g.frame { display: inline; }
.body { margin: .2em 0 1em 84px; }
${conversation('.beside ')}
@media (max-width: 760px) {
  body { margin: 1em auto; padding: 0 .8em; } .beside { display: block; }
  ${conversation('')}
}
`;
