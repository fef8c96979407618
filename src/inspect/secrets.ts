import { EtcdError } from '../errors/etcd-error.js';
import { messageFields } from '../gen/descriptors.js';
import { isJsonObject, type JsonValue } from '../reflection/json.js';
import { concatBytes } from '../runtime/bytes.js';
import { literalString } from '../transport/http2/hpack/encoder.js';
import type { HeaderField } from '../transport/http2/hpack/tables.js';
import { explain, headerSpans } from './explain.js';

// What a trace hides: passwords, tokens, and snapshots.

export const SECRET_HEADERS: ReadonlySet<string> = new Set(['token', 'authorization']);

export function withoutSecret([name, value]: HeaderField): HeaderField {
  return [name, SECRET_HEADERS.has(name) ? '(not shown)' : value];
}

/**
 * Replaces each secret in a header block by as many asterisks, so that the dynamic table keeps its size, and the
 * following blocks of the connection can still be decoded. `fields` are the decoded fields of the block.
 */
export function withoutSecretValues(block: Uint8Array, fields: readonly HeaderField[]): Uint8Array {
  const parts: Uint8Array[] = [];
  let index = 0;
  for (const { start, end, kind, valueAt } of headerSpans(block)) {
    const [name = '', value = ''] = (kind === 'field' ? fields[index++] : undefined) ?? [];
    if (valueAt === undefined || !SECRET_HEADERS.has(name)) parts.push(block.subarray(start, end));
    else parts.push(block.subarray(start, valueAt), Uint8Array.from(literalString('*'.repeat(value.length))));
  }
  return concatBytes(...parts);
}

/** Names of fields for passwords, tokens or hashes of passwords. `blob` is a snapshot, with the hashes of all users. */
export const SECRET_FIELDS: ReadonlySet<string> = new Set(['password', 'hashedPassword', 'token', 'blob']);

export function mayContainSecrets(typeName: string): boolean {
  return messageFields[typeName]?.some(({ name }) => SECRET_FIELDS.has(name)) ?? false;
}

/** Replaces the bytes of secrets with 0, and all bytes of a malformed message. */
export function withoutSecrets<T extends { readonly typeName: string; readonly bytes: Uint8Array }>(message: T): T {
  if (!mayContainSecrets(message.typeName)) return message;
  const bytes = message.bytes.slice();
  try {
    for (const { start, end, part, field, depth } of explain(message.typeName, message.bytes)) {
      if (part === 'value' && depth === 0 && field !== undefined && SECRET_FIELDS.has(field.name))
        bytes.fill(0, start, end);
    }
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
    bytes.fill(0);
  }
  return { ...message, bytes };
}

/** A part of an HTTP/1.1 message: content of the body, or a head or the framing of a chunk. */
export interface HttpPart {
  readonly bytes: Uint8Array;
  readonly isContent: boolean;
}

/**
 * Replaces each secret in parts of an HTTP/1.1 message by as many asterisks. If the body may contain a secret, and its
 * JSON does not show that all of them are replaced, replaces the whole content.
 */
export function withoutSecretText(parts: readonly HttpPart[], mayContain: boolean): Uint8Array {
  const content = concatBytes(...parts.filter(({ isContent }) => isContent).map(({ bytes }) => bytes));
  const shown = replacedIn(content, (text) => contentWithoutSecrets(text, mayContain));
  let at = 0;
  return concatBytes(
    ...parts.map(({ bytes, isContent }) => {
      if (!isContent) return replacedIn(bytes, headWithoutSecrets);
      at += bytes.length;
      return shown.subarray(at - bytes.length, at);
    }),
  );
}

/** Applies a replacement by texts of the same length. */
function replacedIn(bytes: Uint8Array, replace: (text: string) => string): Uint8Array {
  const text = latin1(bytes);
  const shown = replace(text);
  return shown === text ? bytes : Uint8Array.from(shown, (character) => character.charCodeAt(0));
}

const SECRET_LINES = /^((?:proxy-)?authorization|grpc-metadata-(?:token|authorization)|cookie)(:\s*)([^\r\n]*)/gim;
/** The query of a request line. A query may contain any field of a request. */
const QUERY = /^([A-Z]+ [^\s?]*\?)(\S+)/;

function headWithoutSecrets(text: string): string {
  return text
    .replace(QUERY, (_, target: string, query: string) => target + '*'.repeat(query.length))
    .replace(SECRET_LINES, (_, name: string, colon: string, value: string) => name + colon + '*'.repeat(value.length));
}

/** A string of JSON up to its end or the end of the text, and the string after a colon. */
const STRINGS = (() => {
  const [inner, end] = ['([^"\\\\]*(?:\\\\.[^"\\\\]*)*)', '(?:"|\\\\?$)'];
  return new RegExp(`("${inner}${end})(?:(\\s*:\\s*")${inner}(${end}))?`, 'gs');
})();

function contentWithoutSecrets(text: string, mayContain: boolean): string {
  const shown = text.replace(STRINGS, (all, name: string, _, colon?: string, value = '', end = '') =>
    colon !== undefined && SECRET_FIELDS.has(String(parsed(name)))
      ? name + colon + '*'.repeat(value.length) + end
      : all,
  );
  if (!mayContain || parsedAll(shown)?.every(isWithoutSecrets)) return shown;
  return shown.replace(/[^\n]/g, '*');
}

/** Returns the JSON values in a text: one, or one for each line. Returns undefined if the text is not JSON. */
function parsedAll(text: string): readonly JsonValue[] | undefined {
  const whole = parsed(text);
  const values = whole === undefined ? linesOf(text).map(parsed) : [whole];
  return values.includes(undefined) ? undefined : (values as readonly JsonValue[]);
}

/** Whether each field for a secret contains only asterisks. */
function isWithoutSecrets(json: JsonValue): boolean {
  if (Array.isArray(json)) return json.every(isWithoutSecrets);
  if (!isJsonObject(json)) return true;
  return Object.entries(json).every(([name, value]) =>
    SECRET_FIELDS.has(name) ? value === null || /^\**$/.test(String(value)) : isWithoutSecrets(value),
  );
}

/** Returns the JSON value in a text, or undefined if the text is not JSON. */
export function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/** Returns the lines of a text that are not blank. */
export function linesOf(text: string): readonly string[] {
  return text.split('\n').filter((line) => line.trim() !== '');
}

export function latin1(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 8_192) text += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  return text;
}
