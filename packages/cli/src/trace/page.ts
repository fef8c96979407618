import { createHash } from 'node:crypto';
import { FAULT_KINDS, type Fault } from '../proxy/fault-rules.js';
import { escapeHtml, LIGHT_SCRIPT } from './body.js';
import { comparison } from './comparison.js';
import { besideEachOther, diagram, GAP_PX_PER_SECOND, KINDS, MAX_GAP_PX } from './diagram.js';
import { FAULTS_SCRIPT, LIVE_SCRIPT, PAGE_SCRIPT } from './page-script.js';
import { STYLE } from './page-style.js';
import { queueChart } from './queue-chart.js';
import { STATE_PANEL, STATE_SCRIPT } from './state-panel.js';
import type { Story } from './story.js';
import type { Trace, Traces } from './trace.js';

/**
 * Renders a self-contained page with the queue, the diagram of messages, and the bytes of each message. With a second
 * trace, the page shows both beside each other. If the page is `live`, it asks its server for changes. With `faults`,
 * the page shows and changes the faults of a proxy.
 */
export function tracePage(
  traces: Traces,
  { live = false, faults = undefined as readonly Fault[] | undefined } = {},
): string {
  const [{ command }] = traces;
  const script = `${LIGHT_SCRIPT}${PAGE_SCRIPT}${STATE_SCRIPT}refresh();${live ? LIVE_SCRIPT : ''}${faults === undefined ? '' : FAULTS_SCRIPT}`;
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
${faults === undefined ? '' : FAULTS_FORM}
<div id="faults">${faultList(faults)}</div>
${legend(traces[0].story, live)}
<div class="controls">
<label><input type="checkbox" id="frames"> every HTTP/2 frame</label>
${KINDS.map((kind) => `<label><input type="checkbox" data-show="${kind}" checked> ${kind}</label>`).join('\n')}
<label>stream <select id="stream"></select></label>
<label>time <input type="range" id="scrubber" min="0" value="0"></label> <output id="moment"></output>
</div>
<div id="columns"><main id="messages">${messages(traces)}</main>
${STATE_PANEL}</div>
<script>${script}</script>
</html>
`;
}

/** Renders the parts of the page that change while a program runs. */
export function liveParts(traces: Traces, faults: readonly Fault[] | undefined): string {
  return `<div id="summary">${summary(traces)}</div><div id="faults">${faultList(faults)}</div><div id="messages">${messages(traces)}</div>`;
}

/** Lists the faults that are on. */
function faultList(faults: readonly Fault[] = []): string {
  return faults
    .map(({ text, left }) => {
      const count = Number.isFinite(left) ? `, ${left} more times` : '';
      return `<p class="fault"><b>Fault on:</b> <code>${escapeHtml(text)}</code>${count} <button data-fault="${escapeHtml(text)}">stop it</button></p>`;
    })
    .join('');
}

const FAULTS_FORM = `<details class="legend"><summary>Cause a fault</summary><form id="fault-form">
<select name="kind">${FAULT_KINDS.map((kind) => `<option>${kind}</option>`).join('')}</select>
<label>for <input name="duration" size="6" placeholder="500ms"></label>
<label>RPCs <input name="rpc" size="12" placeholder="all"></label>
<label>keys that begin with <input name="prefix" size="12" placeholder="anything"></label>
<label>times <input name="times" size="4" placeholder="every"></label>
<button>cause it</button> <output id="fault-problem"></output></form></details>`;

function summary(traces: Traces): string {
  const longestMs = Math.max(...traces.map(({ startMs, endMs }) => endMs - startMs));
  const charts = traces.map((trace) => queueChart(trace, longestMs, traces.length > 1));
  return `${header(traces[0])}${traces.length > 1 ? comparison(traces) : ''}${charts.join('')}`;
}

function messages([first, second]: Traces): string {
  return second === undefined ? diagram(first) : besideEachOther(first, second);
}

function header({ command, exitCode, startMs, endMs, problems, isProgram }: Trace): string {
  const seconds = ((endMs - startMs) / 1_000).toFixed(2);
  const end = !isProgram
    ? `${seconds} s.`
    : exitCode === undefined
      ? `Runs for ${seconds} s.`
      : `Exit code ${exitCode} after ${seconds} s.`;
  return `<header>
<h1><code>${escapeHtml(command)}</code></h1>
<p>${end} Each arrow is a message. Click an arrow to see the fields and the bytes of its message, or step through the arrows with ↑ and ↓.</p>
</header>
${problems === '' ? '' : `<pre class="problems">${escapeHtml(problems)}</pre>`}`;
}

function legend({ states, prize }: Story, live: boolean): string {
  const queue =
    states.length === 0 && !live
      ? ''
      : `<li>A <b class="other">dashed</b> arrow is a change by another contender. A <b class="good">green</b> dot is the moment when this client gets the ${prize}. The queue is at the right of each arrow: first the holder, then the waiters. In the chart, the bar of a waiter is pale, and the bar of the holder is solid.</li>`;
  return `<details class="legend"><summary>How to read this page</summary><ul>
<li>Time runs down the page. Time without messages takes ${GAP_PX_PER_SECOND} pixels for each second, and ${MAX_GAP_PX} pixels at most.</li>
<li>A <b class="own">blue</b> arrow is a message from or to this client. A <b class="bad">red</b> arrow is a failure. Under it stand the outcome, which says whether etcd may have applied a write, and the remedy. The line below an arrow names the RPC, the HTTP/2 stream, the revision of the store, and how long the answer took.</li>
${queue}
<li>The panel shows the keys, the leases and the watches after the chosen arrow, as far as the messages have shown them. What the arrow has changed has a blue line.</li>
<li>The bytes of a message are <b class="tag">tags</b>, which name a field, <b class="length">lengths</b>, and <b class="good">values</b>. When the pointer is on a field, its bytes are highlighted. When the pointer is on a byte, its field is highlighted.</li>
</ul></details>`;
}
