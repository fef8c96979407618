import { messagesIn, streamOf, type WireFrame } from '../inspect/index.js';
import { escapeHtml } from './body.js';
import type { Trace } from './trace.js';

/** Compares what two programs sent and received. */
export function comparison(traces: readonly Trace[]): string {
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
    messages += messagesIn(frame).length;
  }
  return { frames: frames.length, messages, bytes };
}
