import { createHash } from 'node:crypto';
import { escapeHtml, LIGHT_SCRIPT } from './body.js';
import { comparison } from './comparison.js';
import { diagram, GAP_PX_PER_SECOND, KINDS, MAX_GAP_PX } from './diagram.js';
import { LIVE_SCRIPT, PAGE_SCRIPT } from './page-script.js';
import { STYLE } from './page-style.js';
import { queueChart } from './queue-chart.js';
import type { Story } from './story.js';
import type { Trace } from './trace.js';

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
      : `<li>A <b class="other">dashed</b> arrow is a change by another contender. A <b class="good">green</b> dot is the moment when this client gets the ${prize}. The queue is at the right of each arrow: first the holder, then the waiters. In the chart, the bar of a waiter is pale, and the bar of the holder is solid.</li>`;
  return `<details class="legend"><summary>How to read this page</summary><ul>
<li>Time runs down the page. Time without messages takes ${GAP_PX_PER_SECOND} pixels for each second, and ${MAX_GAP_PX} pixels at most.</li>
<li>A <b class="own">blue</b> arrow is a message from or to this client. A <b class="bad">red</b> arrow is a failure. The line below an arrow names the RPC, the HTTP/2 stream, the revision of the store, and how long the answer took.</li>
${queue}
<li>The bytes of a message are <b class="tag">tags</b>, which name a field, <b class="length">lengths</b>, and <b class="good">values</b>. When the pointer is on a field, its bytes are highlighted. When the pointer is on a byte, its field is highlighted.</li>
</ul></details>`;
}
