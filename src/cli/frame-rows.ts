import { explain } from '../inspect/explain.js';
import type { WireFrame, WireMessage } from '../inspect/frame.js';
import { headerSpans, type Representation } from '../inspect/header-spans.js';
import { FRAME_HEADER_BYTES } from '../transport/http2/frame.js';
import type { HeaderField } from '../transport/http2/hpack/static-table.js';
import { MESSAGE_PREFIX_BYTES } from '../transport/http2/message-prefix.js';
import { SETTING_BYTES } from '../transport/http2/settings.js';
import { headerText } from './frame-text.js';
import { shortType } from './method-name.js';
import { quoted } from './output.js';
import { valueText } from './span-text.js';

/** Some bytes, and what they are. */
export interface Row {
  readonly start: number;
  readonly end: number;
  /** Of how many messages they are part. */
  readonly depth: number;
  readonly text: string;
}

/** Every byte of a frame, in order. */
export function frameRows(frame: WireFrame): readonly Row[] {
  const { type, flags, streamId, bytes, detail } = frame;
  if (type === 'PREFACE') return [row(0, bytes.length, quoted(bytes))];
  const length = bytes.length - FRAME_HEADER_BYTES;
  const where = streamId === 0 ? 'the connection' : `stream ${streamId}`;
  const head = [`${length} bytes`, [type, ...flags].join(' '), where].join(', ');
  const payload = length === 0 ? [] : payloadRows(bytes.subarray(FRAME_HEADER_BYTES), detail);
  return [row(0, FRAME_HEADER_BYTES, head), ...shifted(payload, FRAME_HEADER_BYTES)];
}

/** Every byte of a message: a field a row, and one for what comes after the last that could be made out. */
function messageRows({ typeName, bytes }: Pick<WireMessage, 'typeName' | 'bytes'>): readonly Row[] {
  const rows: Row[] = [];
  try {
    for (const { part, start, end, depth, number, field, value } of explain(typeName, bytes)) {
      const last = rows.at(-1);
      if (part === 'tag' || last === undefined) rows.push(row(start, end, `${number} ${field?.name ?? '?'}`, depth));
      // Of a repeated field of numbers there are several.
      else
        rows.splice(-1, 1, { ...last, end, text: last.text + (part === 'value' ? ` ${valueText(value, field)}` : '') });
    }
  } catch (error) {
    rows.push(row(rows.at(-1)?.end ?? 0, bytes.length, (error as Error).message));
  }
  return rows;
}

function payloadRows(payload: Uint8Array, detail: WireFrame['detail']): readonly Row[] {
  switch (detail.kind) {
    case 'settings':
      return detail.settings.map(([name, value], index) =>
        row(index * SETTING_BYTES, (index + 1) * SETTING_BYTES, `${name} = ${value}`),
      );
    case 'headers':
      return headerRows(payload, detail.fields);
    case 'data':
      return dataRows(payload, detail.messages);
    case 'windowUpdate':
      return [row(0, 4, `${detail.increment} bytes more`)];
    case 'reset':
      return [row(0, 4, detail.code)];
    case 'goAway':
      return [
        row(0, 4, `last stream: ${detail.lastStreamId}`),
        row(4, 8, detail.code),
        ...(payload.length > 8 ? [row(8, payload.length, quoted(detail.debug))] : []),
      ];
    case 'ping':
    case 'other':
      return [row(0, payload.length, 'opaque')];
  }
}

/** Of a block that goes on in another frame, or that holds a secret, one for all. */
function headerRows(payload: Uint8Array, fields: readonly HeaderField[]): readonly Row[] {
  const spans = [...headerSpans(payload)];
  const sized = spans.filter(({ representation }) => representation.kind === 'table size').length;
  if (spans.length - sized !== fields.length || spans.at(-1)?.end !== payload.length)
    return [row(0, payload.length, fields.map(headerText).join(', '))];
  let at = 0;
  return spans.map(({ start, end, representation }) => {
    if (representation.kind === 'table size') return row(start, end, `the table takes ${representation.size} bytes`);
    return row(start, end, `${headerText(fields[at++] as HeaderField)} (${representationText(representation)})`);
  });
}

function representationText(representation: Exclude<Representation, { kind: 'table size' }>): string {
  if (representation.kind === 'indexed') return `${representation.index} of the ${representation.table} table`;
  return { incremental: 'added to the table', without: 'literal', never: 'never to be in a table' }[
    representation.indexing
  ];
}

/** Of data that are not whole messages one for all. */
function dataRows(payload: Uint8Array, messages: readonly WireMessage[]): readonly Row[] {
  const total = messages.reduce((sum, { bytes }) => sum + MESSAGE_PREFIX_BYTES + bytes.length, 0);
  if (total !== payload.length) return [row(0, payload.length, 'part of a message')];
  let at = 0;
  return messages.flatMap((message) => {
    const start = at;
    at += MESSAGE_PREFIX_BYTES + message.bytes.length;
    const prefix = row(
      start,
      start + MESSAGE_PREFIX_BYTES,
      `not compressed, ${message.bytes.length} bytes: ${shortType(message)}`,
    );
    return [prefix, ...shifted(messageRows(message), start + MESSAGE_PREFIX_BYTES, 1)];
  });
}

function row(start: number, end: number, text: string, depth = 0): Row {
  return { start, end, depth, text };
}

function shifted(rows: readonly Row[], by: number, deeper = 0): readonly Row[] {
  return rows.map(({ start, end, depth, text }) => row(start + by, end + by, text, depth + deeper));
}
