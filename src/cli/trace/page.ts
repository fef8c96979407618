import { explain } from '../../inspect/explain.js';
import type { WireFrame } from '../../inspect/frame.js';
import { hexOf } from '../../runtime/bytes.js';
import { frameRows, type Row } from '../frame-rows.js';
import { fieldsOf, frameText } from '../frame-text.js';
import { harmless } from '../output.js';
import { meaning } from '../span-text.js';
import { escaped } from './html.js';
import { queueChart } from './queue-chart.js';
import type { Step, Story } from './story.js';
import { STYLE } from './style.js';

const LANE_WIDTH = 170;
/** Between this client and etcd, where all the messages are. */
const FIRST_WIDTH = 350;
const ROW_HEIGHT = 40;

export interface PageOptions {
  /** What was run. */
  readonly command: string;
  readonly exitCode: number;
  /** On the monotonic clock. */
  readonly startMs: number;
  readonly endMs: number;
}

/** One page with everything in it, and nothing fetched from anywhere: the queue, the diagram, each message to its bytes. */
export function tracePage(story: Story, { command, exitCode, startMs, endMs }: PageOptions): string {
  const rows = story.steps.map((step) => row(step, story, startMs)).join('\n');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escaped(command)}</title>
<style>${STYLE}</style>
<header>
<h1><code>${escaped(command)}</code></h1>
<p>ended with ${exitCode} after ${((endMs - startMs) / 1_000).toFixed(2)} s. Each arrow is a message; open it to see its fields and its bytes.</p>
</header>
${queueChart(story, startMs, endMs)}
<input type="checkbox" id="frames"><label for="frames"> show every frame of HTTP/2</label>
<section class="diagram" style="--lanes:${story.lanes.length}">
<div class="row heads"><span class="at"></span>${heads(story)}<span class="line">in line</span></div>
${rows}
</section>
</html>
`;
}

function heads({ lanes }: Story): string {
  const names = lanes.map(({ name, key }, index) => {
    const x = laneX(index);
    const second = key === undefined ? '' : `<tspan x="${x}" dy="15" class="key">${escaped(shortKey(key))}</tspan>`;
    return `<text x="${x}" y="16">${escaped(name)}${second}</text>`;
  });
  return svg(lanes.length, 44, names.join(''));
}

function row(step: Step, story: Story, startMs: number): string {
  const at = `<span class="at">${(step.atMs - startMs).toFixed(1)} ms</span>`;
  const summary = `${at}${arrow(step, story.lanes.length)}${queue(step, story)}`;
  const inside = bodyOf(step, startMs);
  if (inside === '') return `<div class="row ${step.kind}">${summary}</div>`;
  return `<details class="${step.kind}"><summary class="row">${summary}</summary><div class="body">${inside}</div></details>`;
}

function arrow({ from, to, label, kind }: Step, lanes: number): string {
  const lifelines = Array.from(
    { length: lanes },
    (_, index) => `<line class="life" x1="${laneX(index)}" x2="${laneX(index)}" y1="0" y2="${ROW_HEIGHT}"/>`,
  );
  const [start, end] = [laneX(from), laneX(to)];
  const tip = end > start ? -7 : 7;
  const y = ROW_HEIGHT - 10;
  const head = `<path d="M${end + tip},${y - 4} L${end},${y} L${end + tip},${y + 4}"/>`;
  const text = `<text x="${(start + end) / 2}" y="${y - 7}">${escaped(shortened(label, Math.abs(start - end)))}<title>${escaped(label)}</title></text>`;
  return svg(
    lanes,
    ROW_HEIGHT,
    `${lifelines.join('')}<g class="${kind}"><line x1="${start}" x2="${end}" y1="${y}" y2="${y}"/>${head}${text}</g>`,
  );
}

function queue({ line }: Step, { lanes, ownKeys }: Story): string {
  const chips = line.map((key, index) => {
    const lane = lanes.find((each) => each.key === key);
    const classes = [index === 0 ? 'first' : 'waits', ownKeys.has(key) ? 'own' : ''].join(' ').trim();
    return `<b class="${classes}" title="${escaped(key)}">${escaped(lane?.name ?? shortKey(key))}</b>`;
  });
  return `<span class="line">${chips.join(' ')}</span>`;
}

/** What is seen when it is opened. */
function bodyOf({ frame, message }: Step, startMs: number): string {
  if (frame === undefined) return '';
  const where = `<p>${escaped(frameText(frame, startMs).trim())}</p>`;
  if (message === undefined) return `${where}${frameTable(frame)}`;
  const fields = JSON.stringify(fieldsOf(message), null, 2);
  const spans: string[] = [];
  let problem = '';
  try {
    for (const span of explain(message.typeName, message.bytes)) {
      spans.push(bytesRow(message.bytes, { ...span, text: meaning(span) }, ` class="${span.part}"`));
    }
  } catch (error) {
    problem = `<p>${escaped((error as Error).message)}</p>`;
  }
  return `<p><b>${escaped(message.typeName)}</b> of ${escaped(message.method.slice(1))}, stream ${frame.streamId} of connection ${frame.connection}, in a DATA frame of ${frame.bytes.length} bytes</p>
<div class="both"><pre>${escaped(fields)}</pre><table>${spans.join('')}</table></div>${problem}`;
}

/** Every byte of a frame, and what it is. */
function frameTable(frame: WireFrame): string {
  return `<table>${frameRows(frame)
    .map((each) => bytesRow(frame.bytes, each))
    .join('')}</table>`;
}

/** As far to the right as the message stands deep in others. */
function bytesRow(bytes: Uint8Array, { start, end, depth, text }: Row, attributes = ''): string {
  const hex = hexOf(bytes.subarray(start, end), ' ');
  return `<tr${attributes}><td>${start}</td><td style="padding-left:${depth * 1.5 + 0.5}em"><code>${hex}</code></td><td>${escaped(text)}</td></tr>`;
}

function svg(lanes: number, height: number, content: string): string {
  return `<svg width="${laneX(lanes - 1) + LANE_WIDTH / 2}" height="${height}">${content}</svg>`;
}

function laneX(index: number): number {
  return LANE_WIDTH / 2 + (index === 0 ? 0 : FIRST_WIDTH + (index - 1) * LANE_WIDTH);
}

/** Some seven pixels a character. */
function shortened(label: string, width: number): string {
  const room = Math.floor((width - 20) / 6.2);
  return label.length <= room ? label : `${label.slice(0, room - 1)}…`;
}

/** The end of a key tells contenders apart. */
function shortKey(key: string): string {
  const text = harmless(key);
  return text.length <= 24 ? text : `…${text.slice(-23)}`;
}
