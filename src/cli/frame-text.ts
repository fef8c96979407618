import { EtcdError } from '../errors/etcd-error.js';
import type { WireFrame, WireMessage } from '../inspect/frame.js';
import { decode } from '../protobuf/codec.js';
import type { JsonObject } from '../protobuf/json.js';
import { toJson } from '../protobuf/json.js';
import { methodByPath } from '../protobuf/method-table.js';
import { hexOf } from '../runtime/bytes.js';
import type { HeaderField } from '../transport/http2/hpack/static-table.js';
import { shortType } from './method-name.js';
import { asText, harmless } from './output.js';

/** One line of what a frame says. */
export function frameText(frame: WireFrame, startMs: number): string {
  const { direction, connection, streamId, type, flags } = frame;
  const at = `${(frame.atMs - startMs).toFixed(1).padStart(9)} ms`;
  const where = streamId === 0 ? `${connection}` : `${connection}:${streamId}`;
  const head = [at, direction === 'sent' ? '>' : '<', where.padEnd(5), [type, ...flags].join(' ').padEnd(28)].join(
    '  ',
  );
  return harmless(`${head}  ${detailText(frame)}`.trimEnd());
}

/** The same for programs. */
export function frameJson(frame: WireFrame, startMs: number): JsonObject {
  const { connection, endpoint, direction, streamId, type, flags, bytes, detail } = frame;
  return {
    ms: Math.round((frame.atMs - startMs) * 1_000) / 1_000,
    connection,
    endpoint,
    direction,
    stream: streamId,
    type,
    flags,
    ...(detail.kind === 'settings' ? { settings: Object.fromEntries(detail.settings) } : {}),
    ...(detail.kind === 'headers' ? { headers: detail.fields } : {}),
    ...(detail.kind === 'data' ? { messages: detail.messages.map(messageJson) } : {}),
    ...(detail.kind === 'windowUpdate' ? { increment: detail.increment } : {}),
    ...(detail.kind === 'ping' ? { opaque: detail.opaque } : {}),
    ...(detail.kind === 'reset' ? { code: detail.code } : {}),
    ...(detail.kind === 'goAway' ? { lastStream: detail.lastStreamId, code: detail.code, debug: detail.debug } : {}),
    hex: hexOf(bytes),
  };
}

function detailText({ detail }: WireFrame): string {
  switch (detail.kind) {
    case 'settings':
      return detail.settings.map(([name, value]) => `${name}=${value}`).join(' ');
    case 'headers':
      return detail.fields.map(headerText).join(', ');
    case 'data':
      return detail.messages.map((message) => `${shortType(message)} ${JSON.stringify(fieldsOf(message))}`).join(', ');
    case 'windowUpdate':
      return `+${detail.increment}`;
    case 'ping':
      return detail.opaque;
    case 'reset':
      return detail.code;
    case 'goAway':
      return `last stream ${detail.lastStreamId}, ${detail.code} ${detail.debug}`;
    case 'other':
      return '';
  }
}

function messageJson(message: WireMessage): JsonObject {
  return {
    method: message.method.slice(1),
    type: message.typeName,
    message: fieldsOf(message),
    hex: hexOf(message.bytes),
  };
}

export function headerText([name, value]: HeaderField): string {
  return `${name}: ${harmless(value)}`;
}

/** With bytes as text, for people; nothing of bytes that are no such message. */
export function fieldsOf({ method, typeName, bytes }: WireMessage): JsonObject {
  const found = methodByPath.get(method);
  const codec = found?.request.typeName === typeName ? found.request : found?.response;
  try {
    return codec === undefined ? {} : toJson(codec, decode(codec, bytes), asText);
  } catch (error) {
    if (error instanceof EtcdError) return {};
    throw error;
  }
}
