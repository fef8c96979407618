import { escapeControls } from '../../../../src/internal.js';
import { aligned } from './alignment.js';
import { bodyOf, elided, escapeHtml } from './body.js';
import type { Step, Story } from './story.js';
import type { Trace } from './trace.js';

/** Distance in pixels between two columns of the diagram. */
const COLUMN_WIDTH = 160;
/**
 * Distance in pixels between the column of etcd and the one before it. This distance leaves room for the labels of the
 * message arrows.
 */
const LABEL_WIDTH = 500;
const ROW_HEIGHT = 48;
/** Widths in pixels of the times at the left of the diagram, and of the queue at its right. */
const [TIME_WIDTH, QUEUE_WIDTH] = [84, 140];
/** Height in pixels that one second without messages takes, and the maximum height of such a gap. */
export const GAP_PX_PER_SECOND = 40;
export const MAX_GAP_PX = 200;
/** Minimum height in pixels of a gap that has room for the text of its duration. */
const LABELED_GAP_PX = 18;

/** The kinds of messages that the visitor of a page can hide. */
export const KINDS = ['keys', 'watches', 'leases', 'other'] as const;

/** Renders the messages of a trace as a sequence diagram. Time runs down the page. */
export function diagram(trace: Trace): string {
  const { story, startMs } = trace;
  const rowOf = rowsOf(trace, 0);
  let lastMs = startMs;
  const rows = story.steps.map((step, order) => {
    const gap = gapRow(step.atMs - lastMs);
    lastMs = step.atMs;
    return gap + rowOf(order, step);
  });
  const hasQueue = story.states.length > 0;
  const width = TIME_WIDTH + svgWidth(story) + (hasQueue ? QUEUE_WIDTH : 0);
  return `<section class="diagram${hasQueue ? ' queued' : ''}" data-width="${width}" data-names="${namesOf([trace])}">${noteOf(trace)}
<div class="row heads"><span class="at"></span>${headings(story)}<span class="state">${hasQueue ? 'queue' : ''}</span></div>
${rows.join('\n')}
</section>`;
}

/**
 * Renders two traces beside one another, as conversations. A call of one trace is beside the same call of the other
 * one, so that the first difference is easy to see.
 */
export function besideEachOther(first: Trace, second: Trace): string {
  const traces = [first, second] as const;
  const pairs = aligned(first.story, second.story);
  const rowOf = traces.map(rowsOf);
  const differing = pairs.filter(({ differs }) => differs);
  const rows = pairs.map((pair) => {
    const sides = pair.units.map((unit, side) => {
      const steps = unit?.steps.map(([order, step]) => rowOf[side]?.(order, step) ?? '') ?? [];
      return `<div class="side">${steps.join('\n')}</div>`;
    });
    const id = pair === differing[0] ? ' id="first-difference"' : '';
    return `<div class="pair${pair.differs ? ' differs' : ''}"${id}>${sides.join('')}</div>`;
  });
  const calls = pairs.filter(({ units }) => units.some((unit) => unit !== undefined && unit.what !== '')).length;
  const found =
    differing.length === 0
      ? `Both traces have the same calls and messages, with the same answers: ${calls}.`
      : `Calls and messages that differ: ${differing.length} of ${calls}. <a href="#first-difference">Show the first difference</a>`;
  const heads = traces.map(
    (trace) => `<div class="side"><h2><code>${escapeHtml(trace.command)}</code></h2>${noteOf(trace)}</div>`,
  );
  return `<p class="differences">${found}</p>
<section class="diagram beside" data-width="0" data-names="${namesOf(traces)}"><div class="pair names">${heads.join('')}</div>
${rows.join('\n')}
</section>`;
}

function namesOf(traces: readonly Trace[]): string {
  return escapeHtml(JSON.stringify(traces.map(({ command }) => command)));
}

function noteOf({ leftOut }: Trace): string {
  if (leftOut === 0) return '';
  return `<p class="left-out">This page shows the beginning and the end. ${leftOut.toLocaleString('en')} frames between them are left out.</p>`;
}

/** Returns a function that renders a step, given its number in the story. `index` is that of the trace on the page. */
function rowsOf({ story, startMs }: Trace, index: number): (order: number, step: Step) => string {
  const kinds = new Map<string, string>();
  for (const { message, stream } of story.steps) if (message !== undefined) kinds.set(stream, kindOf(message.method));
  const keys = new Set<string>();
  return (order, step) => stepRow(step, story, startMs, { kinds, trace: index, keys, order });
}

function kindOf(method: string): (typeof KINDS)[number] {
  const service = /\.(\w+)\//.exec(method)?.[1];
  return service === 'KV' ? 'keys' : service === 'Watch' ? 'watches' : service === 'Lease' ? 'leases' : 'other';
}

/** Renders a gap whose height shows how long neither side sent anything. */
function gapRow(ms: number): string {
  const height = Math.min(MAX_GAP_PX, Math.round((ms / 1_000) * GAP_PX_PER_SECOND));
  if (height === 0) return '';
  const label = height < LABELED_GAP_PX ? '' : `${(ms / 1_000).toFixed(1)} s`;
  return `<div class="gap" style="height:${height}px">${label}</div>`;
}

function headings({ participants, etcd }: Story): string {
  const names = participants.map(({ name, key }, index) => {
    const x = columnX(index, etcd);
    const second = key === undefined ? '' : `<tspan x="${x}" dy="15" class="key">${escapeHtml(shortKey(key))}</tspan>`;
    return `<text x="${x}" y="16">${escapeHtml(shortName(name))}${second}</text>`;
  });
  return svg(columnX(participants.length - 1, etcd), 44, names.join(''));
}

/** What the rows of a diagram have in common. */
interface Rows {
  /** The kind of the messages on each stream. */
  readonly kinds: ReadonlyMap<string, string>;
  /** The index of the trace on the page. */
  readonly trace: number;
  /** The number of the step in its trace. */
  readonly order: number;
  /** The keys of the rows so far. A live page finds its rows again by their keys. */
  readonly keys: Set<string>;
}

function stepRow(step: Step, story: Story, startMs: number, { kinds, trace, keys, order }: Rows): string {
  const at = `<span class="at">${(step.atMs - startMs).toFixed(1)} ms</span>`;
  const summary = `${at}${arrow(step, story)}${bubble(step, story)}${queueOf(step, story)}${verdictOf(step)}`;
  const body = bodyOf(step, startMs);
  const { stream } = step;
  const kind = kinds.get(stream) ?? 'other';
  const filter = stream === '' ? '' : ` data-stream="${trace} ${stream}" data-kind="${kind}"`;
  const ms = (step.atMs - startMs).toFixed(3);
  let key = `${trace} ${ms} ${stream} ${step.kind}`;
  while (keys.has(key)) key += '+';
  keys.add(key);
  const changes = step.changes.length === 0 ? '' : ` data-changes="${escapeHtml(JSON.stringify(elidedChanges(step)))}"`;
  const attributes = `data-ms="${ms}" data-order="${order}" data-key="${key}"${changes}${filter}`;
  if (body === '') return `<div class="row ${step.kind}" ${attributes}>${summary}</div>`;
  return `<details class="${step.kind}" ${attributes}><summary class="row">${summary}</summary><div class="body">${body}</div></details>`;
}

function arrow({ from, to, label, kind, protocol }: Step, { participants, etcd }: Story): string {
  const columns = participants.map((_, index) => columnX(index, etcd));
  const lifelines = columns.map((x) => `<line class="life" x1="${x}" x2="${x}" y1="0" y2="${ROW_HEIGHT}"/>`);
  const [start = 0, end = 0] = [columns[from], columns[to]];
  const y = ROW_HEIGHT / 2;
  const title = `<title>${escapeHtml(elided(label))}</title>`;
  if (start === end) {
    const badge = `<text class="badge" x="${start + 12}" y="${y + 5}">${escapeHtml(label)}${title}</text>`;
    return svg(
      columns.at(-1) ?? 0,
      ROW_HEIGHT,
      `${lifelines.join('')}<g class="${kind}"><circle cx="${start}" cy="${y}" r="6"/>${badge}</g>`,
    );
  }
  const tip = end > start ? -7 : 7;
  const head = `<path d="M${end + tip},${y - 4} L${end},${y} L${end + tip},${y + 4}"/>`;
  // The label of a message stands beside etcd, where no lifeline crosses the arrow.
  const isMessage = Math.min(from, to) < etcd;
  const [left, right] = isMessage ? [columnX(etcd - 1, etcd), columnX(etcd, etcd)] : [start, end];
  const middle = (left + right) / 2;
  const shown = escapeHtml(shortened(label, Math.abs(left - right)));
  const text = `<text x="${middle}" y="${y - 6}">${shown}${title}</text>`;
  const below =
    protocol === '' ? '' : `<text class="protocol" x="${middle}" y="${y + 14}">${escapeHtml(protocol)}</text>`;
  const line = `<line x1="${start}" x2="${end}" y1="${y}" y2="${y}"/>`;
  return svg(
    columns.at(-1) ?? 0,
    ROW_HEIGHT,
    `${lifelines.join('')}<g class="${kind}">${line}${head}${text}${below}</g>`,
  );
}

/** Renders what a client may conclude from a failure, and what to do. */
function verdictOf({ verdict }: Step): string {
  if (verdict === undefined) return '';
  const { reason, outcome, conclusion, remedy } = verdict;
  const known = outcome === undefined ? '' : `<b>Outcome: ${outcome}.</b> ${conclusion} `;
  return `<span class="verdict">${known}Remedy for <code>${reason}</code>: ${inlineMarkdown(remedy)}</span>`;
}

/** Renders the code in a line of Markdown, and the texts of its links. */
function inlineMarkdown(line: string): string {
  return escapeHtml(line)
    .replace(/`([^`]*)`/g, '<code>$1</code>')
    .replace(/\[([^\][]*)\]\([^()]*\)/g, '$1');
}

/** Leaves out the ends of long keys, values and texts. */
function elidedChanges({ changes }: Step): readonly object[] {
  return changes.map((change) => {
    if (change.kind === 'event') return { ...change, text: elided(change.text) };
    if (change.kind !== 'key') return change;
    return { ...change, key: { ...change.key, name: elided(change.key.name), value: elided(change.key.value) } };
  });
}

/** Renders the step for a narrow screen: as a message of a conversation, at the side of its sender. */
function bubble({ from, to, label, kind, protocol }: Step, { participants, etcd }: Story): string {
  const client = Math.min(from, to) === etcd ? Math.max(from, to) : Math.min(from, to);
  const isNamed = kind === 'seen' || etcd > 1;
  const sender = isNamed ? `${escapeHtml(participants[client]?.name ?? '')} ` : '';
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

function svgWidth({ participants, etcd }: Story): number {
  return columnX(participants.length - 1, etcd) + COLUMN_WIDTH / 2;
}

/** `lastX` is the position of the last column. */
function svg(lastX: number, height: number, content: string): string {
  return `<svg width="${lastX + COLUMN_WIDTH / 2}" height="${height}">${content}</svg>`;
}

function columnX(index: number, etcd: number): number {
  return COLUMN_WIDTH / 2 + index * COLUMN_WIDTH + (index >= etcd ? LABEL_WIDTH - COLUMN_WIDTH : 0);
}

/** Shortens a label to the width of its arrow in pixels. A character takes about 6.2 pixels. */
function shortened(label: string, width: number): string {
  const most = Math.floor((width - 20) / 6.2);
  return label.length <= most ? label : `${label.slice(0, most - 1)}…`;
}

/** Shortens the name of a client to the width of its column. */
function shortName(name: string): string {
  return name.length <= 24 ? name : `${name.slice(0, 23)}…`;
}

/** Shortens a long queue key to its last characters, because only these differ between the contenders. */
function shortKey(key: string): string {
  const text = escapeControls(key);
  return text.length <= 24 ? text : `…${text.slice(-23)}`;
}
