import {
  FRAME_HEADER_BYTES,
  hexOf,
  type JsonObject,
  type JsonValue,
  MESSAGE_PREFIX_BYTES,
  STATIC_TABLE,
  textOf,
} from '../../../../src/internal.js';
import { frameRows, frameText, framingRows, prefixRows, type Row, readableFields, spanMeaning } from '../frames.js';
import { explain, type Span, type WireFrame, type WireMessage } from '../inspect/index.js';
import type { Step } from './story.js';

// The part of a trace that a click on a message shows: its fields and its bytes.

/**
 * Number of bytes or characters that the page shows of a long value, because values may have many megabytes. The page
 * cuts text only if it has more than twice this length.
 */
const MAX_SHOWN = 96;
/** Maximum number of rows for the bytes of a message. The page leaves further rows out. */
const MAX_ROWS = 1_000;
/** Maximum number of items of a list in a message. The page leaves further items out. */
const MAX_ITEMS = 100;

/** Escapes text for HTML elements and attributes, because a trace may contain text from any client. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Leaves out the end of a long text. */
export function elided(text: string): string {
  if (text.length <= 2 * MAX_SHOWN) return text;
  return `${text.slice(0, MAX_SHOWN)}… (${text.length.toLocaleString('en')} characters)`;
}

/** Returns the HTML of the fields and the bytes of the step's message, or of the bytes of its frame. */
export function bodyOf(
  { frame, message, windows }: Pick<Step, 'frame' | 'message' | 'windows'>,
  startMs: number,
): string {
  if (frame === undefined) return '';
  const flow = windows === '' ? '' : `<p class="windows">${windows}</p>`;
  if (message === undefined) {
    const rows = frameRows(frame).map((each) => bytesRow(frame.bytes, each));
    return `<p>${escapeHtml(frameText(frame, startMs).trim())}</p><table>${rows.join('')}</table>${tableHtml(frame)}${flow}`;
  }
  const { rows, problem } = messageRows(frame, message);
  const fields = jsonHtml(elidedJson(readableFields(message)));
  return `<p><b>${escapeHtml(message.typeName)}</b> of ${escapeHtml(message.method.slice(1))}, ${placeOf(frame)}</p>
<div class="both"><pre>${fields}</pre><table>${rows.join('')}</table></div>${problem}${flow}`;
}

function placeOf({ connection, streamId, type, bytes }: WireFrame): string {
  const length = bytes.length.toLocaleString('en');
  return type === 'HTTP/1.1'
    ? `request ${streamId} of connection ${connection}, in ${length} bytes of HTTP/1.1, shown as Protobuf`
    : `stream ${streamId} of connection ${connection}, in a DATA frame of ${length} bytes`;
}

/**
 * Returns the rows for the bytes of a message. If the frame contains only whole messages, the rows for the frame header
 * and the gRPC prefix come first.
 */
function messageRows(
  frame: WireFrame,
  message: WireMessage,
): { readonly rows: readonly string[]; readonly problem: string } {
  const start = startIn(frame, message);
  const bytes = start === undefined ? message.bytes : frame.bytes;
  const offset = start ?? 0;
  const around =
    start === undefined
      ? []
      : [...framingRows(frame), ...prefixRows(message.bytes.length, start - MESSAGE_PREFIX_BYTES)];
  const rows = around.map((each) => bytesRow(bytes, each, ' class="framing"'));
  const pathOf = pathFinder();
  try {
    for (const span of explain(message.typeName, message.bytes)) {
      if (rows.length === MAX_ROWS) {
        rows.push(`<tr><td>${offset + span.start}</td><td></td><td>… the page leaves the rest out</td></tr>`);
        break;
      }
      const place = { start: offset + span.start, end: offset + span.end, depth: span.depth };
      const attributes = ` class="${span.part}" data-path="${escapeHtml(pathOf(span))}"`;
      rows.push(bytesRow(bytes, { ...place, text: spanMeaning(elidedSpan(span)) }, attributes));
    }
  } catch (error) {
    return { rows, problem: `<p>${escapeHtml((error as Error).message)}</p>` };
  }
  return { rows, problem: '' };
}

/** Returns the offset of the message in the frame, or undefined if the frame contains a part of a message. */
function startIn({ bytes, detail }: WireFrame, message: WireMessage): number | undefined {
  let at = FRAME_HEADER_BYTES;
  let found: number | undefined;
  for (const each of detail.kind === 'data' ? detail.messages : []) {
    at += MESSAGE_PREFIX_BYTES;
    if (each === message) found = at;
    at += each.bytes.length;
  }
  return at === bytes.length ? found : undefined;
}

/** Returns a function that names the place of each span of a message in the message's JSON, such as `kvs.0.key`. */
function pathFinder(): (span: Span) => string {
  /** The path of the latest field at each depth. */
  const paths: string[] = [];
  const lengths = new Map<string, number>();
  const itemOf = (list: string): string => {
    const index = lengths.get(list) ?? 0;
    lengths.set(list, index + 1);
    return `${list}.${index}`;
  };
  return ({ part, depth, number, field, wireType }) => {
    const isPacked =
      field?.repeated === true &&
      wireType === 'length-delimited' &&
      !('message' in field.type || ('scalar' in field.type && /^(bytes|string)$/.test(field.type.scalar)));
    if (part === 'tag') {
      const name = [...(depth === 0 ? [] : [paths[depth - 1]]), field?.name ?? `${number}`].join('.');
      paths[depth] = field?.repeated === true && !isPacked ? itemOf(name) : name;
    }
    const path = paths[depth] as string;
    return isPacked && part === 'value' ? itemOf(path) : path;
  };
}

/** Formats JSON. Each property and each item of a list has its path, so that the page can highlight its bytes. */
function jsonHtml(value: JsonValue, path = '', indent = ''): string {
  if (typeof value !== 'object' || value === null) return escapeHtml(JSON.stringify(value));
  const isList = Array.isArray(value);
  const [open, close] = isList ? '[]' : '{}';
  const inner = `${indent}  `;
  const parts = Object.entries(value).map(([name, each]) => {
    const own = path === '' ? name : `${path}.${name}`;
    const label = isList ? '' : `${escapeHtml(JSON.stringify(name))}: `;
    return `${inner}<span data-path="${escapeHtml(own)}">${label}${jsonHtml(each as JsonValue, own, inner)}</span>`;
  });
  return parts.length === 0 ? `${open}${close}` : `${open}\n${parts.join(',\n')}\n${indent}${close}`;
}

/** Returns the HTML of the sender's dynamic table of HPACK after a HEADERS frame. */
function tableHtml({ detail, direction }: WireFrame): string {
  if (detail.kind !== 'headers' || detail.table.length === 0) return '';
  const rows = detail.table.map(
    ([name, value], index) =>
      `<tr><td>${STATIC_TABLE.length + 1 + index}</td><td><code>${escapeHtml(name)}</code></td><td>${escapeHtml(elided(value))}</td></tr>`,
  );
  const sender = direction === 'sent' ? 'the client' : 'etcd';
  return `<p class="windows">The dynamic table of ${sender} after this frame:</p><table>${rows.join('')}</table>`;
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

/** A script that highlights the bytes of the field under the pointer, and the field of the bytes under the pointer. */
export const LIGHT_SCRIPT = `
document.addEventListener('mouseover', ({ target }) => {
  for (const lit of document.querySelectorAll('.lit')) lit.classList.remove('lit');
  const path = target.closest('[data-path]')?.dataset.path;
  if (path === undefined) return;
  for (const each of target.closest('.body').querySelectorAll('[data-path]'))
    if (each.dataset.path === path || each.dataset.path.startsWith(path + '.')) each.classList.add('lit');
});
`;

/** The colors of the page, in the light and in the dark theme. */
export const THEME = `
:root { color-scheme: light dark; --paper: #fff; --panel: #f6f8fa; --hover: #eef2f6; --ink: #1d2733; --soft: #5b6773;
  --rule: #d8dee5; --own: #1668c1; --other: #a34c0a; --bad: #b91f29; --good: #14702f; --tag: #1668c1; --length: #7a4f00;
  --on: #fff; --lit: #fff3bf; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #12171d; --panel: #1b222b; --hover: #202a35; --ink: #e3e9f0; --soft: #9aa7b4; --rule: #333f4c;
    --own: #6cb0ff; --other: #f0a35e; --bad: #ff8a8a; --good: #6fd08c; --tag: #6cb0ff; --length: #e0b060; --on: #12171d;
    --lit: #3d3410; }
}
`;

/** Style sheet of the fields and the bytes of a message. */
export const BODY_STYLE = `
.body { padding: .6em 1em; background: var(--panel); border-radius: 6px; font-size: 13px; }
.body p { margin: 0 0 .5em; color: var(--soft); overflow-wrap: anywhere; } .body .windows { margin: .5em 0 0; }
.both { display: grid; grid-template-columns: minmax(16em, 2fr) 4fr; gap: 2em; align-items: start; }
pre { margin: 0; font-size: 12px; white-space: pre-wrap; overflow-wrap: anywhere; } table { border-collapse: collapse; font-size: 12px; } td { padding: 0 .5em; vertical-align: top; }
.body td:first-child { color: var(--soft); text-align: right; } td code { overflow-wrap: anywhere; } .body td:nth-child(2) { width: 40%; }
tr.tag code { color: var(--tag); } tr.length code { color: var(--length); } tr.value code { color: var(--good); } tr.framing { color: var(--soft); }
.lit { background: var(--lit); }
@media (max-width: 760px) { .both { display: block; } .both table { margin-top: .8em; } }
`;
