import {
  decode,
  EtcdError,
  enumName,
  escapeControls,
  type FieldType,
  FRAME_HEADER_BYTES,
  fromTextOrBase64,
  type HeaderField,
  hexOf,
  type JsonObject,
  type JsonValue,
  MESSAGE_PREFIX_BYTES,
  methodByPath,
  SETTING_BYTES,
  textOf,
  textOrBase64,
  toJson,
} from '../../../src/internal.js';
import { explain, headerSpans, kubernetesValue, type Span, type WireFrame, type WireMessage } from './inspect/index.js';
import { quoted } from './output.js';

/** Takes the place of a frame type in the line for the end of a connection. */
const CLOSED = 'CLOSED';

/** Formats a frame as one line of text. The line shows the milliseconds since `startMs`. */
export function frameText(frame: WireFrame, startMs: number): string {
  const { direction, connection, streamId, type, flags, undecoded } = frame;
  const time = timeText(frame.atMs, startMs);
  const stream = streamId === 0 ? `${connection}` : `${connection}:${streamId}`;
  const arrow = direction === 'sent' ? '>' : '<';
  const name = [type, ...flags].join(' ');
  const detail = detailText(frame) + (undecoded === undefined ? '' : ` (not decoded, because ${undecoded})`);
  return escapeControls(`${time}  ${arrow}  ${stream.padEnd(5)}  ${name.padEnd(28)}  ${detail}`.trimEnd());
}

/** Formats the end of a connection as one line of text, as `frameText` formats a frame. */
export function closingText(connection: number, atMs: number, startMs: number): string {
  return `${timeText(atMs, startMs)}     ${`${connection}`.padEnd(5)}  ${CLOSED}`;
}

/** Formats a time as the milliseconds since `startMs`. */
export function timeText(atMs: number, startMs: number): string {
  return `${(atMs - startMs).toFixed(1).padStart(9)} ms`;
}

function detailText({ bytes, detail }: WireFrame): string {
  switch (detail.kind) {
    case 'headers':
      return detail.headers.map(headerText).join(', ');
    case 'data':
      return detail.messages.map(messageText).join(', ');
    case 'http1':
      return [...(detail.line === '' ? [] : [detail.line]), ...detail.messages.map(messageText), detail.problem].join(
        ', ',
      );
    case 'ping':
      return detail.opaque;
    case 'other':
      return '';
    default: {
      const rows = payloadRows(bytes.subarray(FRAME_HEADER_BYTES), detail);
      return rows.map((each) => each.text).join(', ');
    }
  }
}

function messageText(message: WireMessage): string {
  return `${shortType(message)} ${JSON.stringify(readableFields(message))}`;
}

/** Formats a frame as JSON, with the milliseconds since `startMs`. */
export function frameJson(frame: WireFrame, startMs: number): JsonObject {
  const { connection, endpoint, direction, streamId, type, flags, bytes, detail, undecoded } = frame;
  const common = {
    ms: microseconds(frame.atMs - startMs),
    connection,
    endpoint,
    direction,
    stream: streamId,
    type,
    flags,
  };
  return { ...common, ...detailJson(detail), ...(undecoded === undefined ? {} : { undecoded }), hex: hexOf(bytes) };
}

/** Formats the end of a connection as JSON, with the milliseconds since `startMs`. */
export function closingJson(connection: number, atMs: number, startMs: number): JsonObject {
  return { ms: microseconds(atMs - startMs), connection, type: CLOSED };
}

/** Rounds milliseconds to microseconds. */
function microseconds(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}

function detailJson(detail: WireFrame['detail']): JsonObject {
  if (detail.kind === 'settings') return { settings: Object.fromEntries(detail.settings) };
  if (detail.kind === 'data') return { messages: detail.messages.map(messageJson) };
  if (detail.kind === 'headers') return { headers: detail.headers };
  if (detail.kind === 'http1') return { line: detail.line, messages: detail.messages.map(messageJson) };
  const { kind: _, ...content } = detail;
  return content;
}

function messageJson(message: WireMessage): JsonObject {
  const { method, typeName, bytes } = message;
  return { method: method.slice(1), type: typeName, message: fieldsOf(message), hex: hexOf(bytes) };
}

/** A frame, and the decoded messages that end in it. */
export interface FrameWithFields {
  readonly frame: WireFrame;
  readonly messages: readonly { readonly message: WireMessage; readonly fields: JsonObject }[];
}

/**
 * Returns the fields of a message. `textOrBase64` formats bytes. If the message cannot be decoded, the only field is
 * `undecoded`, which says why.
 */
export function fieldsOf({ method, typeName, bytes }: WireMessage): JsonObject {
  const found = methodByPath.get(method);
  const codec = found?.request.typeName === typeName ? found.request : found?.response;
  try {
    return codec === undefined ? {} : toJson(codec, decode(codec, bytes), textOrBase64);
  } catch (error) {
    if (error instanceof EtcdError) return { undecoded: error.problem };
    throw error;
  }
}

/** Returns the fields of a message for people: describes the values of Kubernetes that are not JSON. */
export function readableFields(message: WireMessage): JsonObject {
  return withDescribedValues(fieldsOf(message)) as JsonObject;
}

function withDescribedValues(json: JsonValue): JsonValue {
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) return json.map(withDescribedValues);
  const fields = json as JsonObject;
  const described = kubernetesValueIn(fields, { json: false });
  const entries = Object.entries(fields).map(([name, each]) => [name, withDescribedValues(each)]);
  return Object.fromEntries(described === undefined ? entries : [...entries, ['value', described]]);
}

/** Describes the value of a key of Kubernetes, as `kubernetesValue` does. The fields are those of any message. */
export function kubernetesValueIn(
  { key, value }: JsonObject,
  options?: { readonly json: boolean },
): string | undefined {
  if (typeof key !== 'string' || typeof value !== 'string') return undefined;
  return kubernetesValue(key, fromTextOrBase64(value, 'value'), options);
}

/** Returns the name of a message type without its package. */
export function shortType({ typeName }: { readonly typeName: string }): string {
  return typeName.slice(typeName.lastIndexOf('.') + 1);
}

/** Returns the type of a field, as written in a .proto file. */
export function typeText(type: FieldType): string {
  if ('scalar' in type) return type.scalar;
  return 'message' in type ? type.message : type.enum;
}

function headerText([name, value]: HeaderField): string {
  return `${name}: ${escapeControls(value)}`;
}

/** Maximum number of bytes to show in hexadecimal for one span, which is a tag, a length or a value in a message. */
const MAX_HEX_BYTES = 16;

/** Formats a span of a message as one line: offset, bytes and meaning. */
export function spanText(span: Span, bytes: Uint8Array): string {
  const { start, end, depth } = span;
  const hex = hexOf(bytes.subarray(start, Math.min(end, start + MAX_HEX_BYTES)), ' ');
  const more = end - start > MAX_HEX_BYTES ? ` … (${end - start} bytes)` : '';
  const indent = '  '.repeat(depth * 2 + (span.part === 'tag' ? 0 : 1));
  return `${String(start).padStart(5)}  ${indent}${hex}${more}  ${spanMeaning(span)}`;
}

/** Describes the meaning of a span of a message in words. */
export function spanMeaning({ part, number, wireType, field, value }: Span): string {
  if (part === 'value') return valueText(value, field);
  if (part === 'length') return `length ${value}`;
  const name = field === undefined ? 'unknown field' : `${field.name}: ${typeText(field.type)}`;
  return `field ${number}, ${wireType}: ${name}`;
}

function valueText(value: Span['value'], field: Span['field']): string {
  if (value instanceof Uint8Array) return field === undefined ? 'skipped' : quoted(value);
  if (typeof value === 'string') return quoted(value);
  if (field !== undefined && 'enum' in field.type)
    return enumName(field.type.enum, value as number) ?? `${value}, an unknown value`;
  return String(value);
}

/** Consecutive bytes of a frame, and their meaning. */
export interface Row {
  /** Offset of the first byte. */
  readonly start: number;
  /** Offset after the last byte. */
  readonly end: number;
  /** Number of nested messages around the bytes. */
  readonly depth: number;
  readonly text: string;
}

/** Returns rows that explain every byte of a frame, in order. */
export function frameRows({ type, flags, streamId, bytes, detail }: WireFrame): readonly Row[] {
  if (type === 'PREFACE') return [row(0, bytes.length, quoted(bytes))];
  if (detail.kind === 'http1') return [row(0, bytes.length, textOf(bytes))];
  const length = bytes.length - FRAME_HEADER_BYTES;
  const stream = streamId === 0 ? 'the connection' : `stream ${streamId}`;
  const head = row(0, FRAME_HEADER_BYTES, `${length} bytes, ${[type, ...flags].join(' ')}, ${stream}`);
  if (length === 0) return [head];
  return [head, ...shifted(payloadRows(bytes.subarray(FRAME_HEADER_BYTES), detail), FRAME_HEADER_BYTES)];
}

/** Returns rows that explain the header of a frame, field by field: RFC 9113, section 4.1. */
export function framingRows({ type, flags, streamId, bytes }: WireFrame): readonly Row[] {
  return [
    row(0, 3, `length of the payload: ${bytes.length - FRAME_HEADER_BYTES} bytes`),
    row(3, 4, `type of the frame: ${type}`),
    row(4, 5, `flags: ${flags.join(', ') || 'none'}`),
    row(5, FRAME_HEADER_BYTES, streamId === 0 ? 'the whole connection' : `stream ${streamId}`),
  ];
}

/** Returns rows that explain gRPC's prefix of a message, which starts at `at`. */
export function prefixRows(length: number, at: number): readonly Row[] {
  return [
    row(at, at + 1, 'not compressed'),
    row(at + 1, at + MESSAGE_PREFIX_BYTES, `length of the message: ${length} bytes`),
  ];
}

function payloadRows(payload: Uint8Array, detail: WireFrame['detail']): readonly Row[] {
  switch (detail.kind) {
    case 'settings':
      return detail.settings.map(([name, value], index) =>
        row(index * SETTING_BYTES, (index + 1) * SETTING_BYTES, `${name} = ${value}`),
      );
    case 'headers':
      return headerRows(payload, detail.headers);
    case 'data':
      return dataRows(payload, detail.messages);
    case 'windowUpdate':
      return [row(0, 4, `${detail.increment} more bytes`)];
    case 'reset':
      return [row(0, 4, detail.code)];
    case 'goAway':
      return [
        row(0, 4, `last stream: ${detail.lastStream}`),
        row(4, 8, detail.code),
        ...(payload.length > 8 ? [row(8, payload.length, quoted(detail.debug))] : []),
      ];
    case 'ping':
    case 'http1':
    case 'other':
      return [row(0, payload.length, 'opaque')];
  }
}

/**
 * Returns one row for each header field. Returns a single row if the header block continues in another frame or
 * contains a secret.
 */
function headerRows(payload: Uint8Array, fields: readonly HeaderField[]): readonly Row[] {
  const spans = [...headerSpans(payload)];
  const fieldSpans = spans.filter(({ kind }) => kind === 'field');
  if (fieldSpans.length !== fields.length || spans.at(-1)?.end !== payload.length)
    return [row(0, payload.length, fields.map(headerText).join(', '))];
  let at = 0;
  return spans.map(({ start, end, kind, encoding }) =>
    row(start, end, kind === 'field' ? `${headerText(fields[at++] as HeaderField)} (${encoding})` : encoding),
  );
}

/** Returns the rows of all messages in the frame, or a single row if the frame contains an incomplete message. */
function dataRows(payload: Uint8Array, messages: readonly WireMessage[]): readonly Row[] {
  const total = messages.reduce((sum, { bytes }) => sum + MESSAGE_PREFIX_BYTES + bytes.length, 0);
  if (total !== payload.length) return [row(0, payload.length, 'part of a message')];
  let at = 0;
  return messages.flatMap((message) => {
    const { length } = message.bytes;
    const contentAt = at + MESSAGE_PREFIX_BYTES;
    const prefix = row(at, contentAt, `not compressed, ${length} bytes: ${shortType(message)}`);
    at = contentAt + length;
    return [prefix, ...shifted(messageRows(message), contentAt, 1)];
  });
}

/**
 * Returns one row for each field. If the message is malformed, the last row shows the error for the remaining bytes.
 */
function messageRows({ typeName, bytes }: Pick<WireMessage, 'typeName' | 'bytes'>): readonly Row[] {
  const rows: Row[] = [];
  try {
    for (const { part, start, end, depth, number, field, value } of explain(typeName, bytes)) {
      const last = rows.at(-1);
      if (part === 'tag' || last === undefined) rows.push(row(start, end, `${number} ${field?.name ?? '?'}`, depth));
      // A packed field has several values.
      else
        rows.splice(-1, 1, { ...last, end, text: last.text + (part === 'value' ? ` ${valueText(value, field)}` : '') });
    }
  } catch (error) {
    rows.push(row(rows.at(-1)?.end ?? 0, bytes.length, (error as Error).message));
  }
  return rows;
}

function row(start: number, end: number, text: string, depth = 0): Row {
  return { start, end, depth, text };
}

function shifted(rows: readonly Row[], by: number, deeper = 0): readonly Row[] {
  return rows.map(({ start, end, depth, text }) => row(start + by, end + by, text, depth + deeper));
}
