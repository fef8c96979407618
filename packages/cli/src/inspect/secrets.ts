import {
  concatBytes,
  EtcdError,
  type HeaderField,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  latin1Of,
  literalString,
  messageFields,
} from '../../../../src/internal.js';
import { explain, headerSpans } from './explain.js';

// What traces, recordings and pages hide: passwords, tokens, and snapshots. The same names are secret in all protocols.

/**
 * Matches the names of header fields, parameters, flags and variables whose values are secret. etcd's gateway also takes
 * a token from `Grpc-Metadata-Token`, from `Cookie`, and, for a WebSocket, from `Sec-WebSocket-Protocol`.
 */
export const SECRET_NAME =
  /(?:^|[^a-z])auth(?!ority)|authorization|oauth|cookie|token|passw|passphrase|pwd|secret|credential|bearer|api.?key|^sec-websocket-protocol$/i;

/** What takes the place of a secret where the length does not matter. */
const NOT_SHOWN = '(not shown)';

const asterisks = (text: string): string => '*'.repeat(text.length);

/**
 * Hides what may be secret in each URL and each path in a text: the user name and the password, the query, which may
 * contain any field of a request, and the fragment. By default, replaces them by as many asterisks.
 */
export function withoutUrlSecrets(text: string, replacement: (secret: string) => string = asterisks): string {
  const hide = (secret: string): string => (secret === '' ? '' : replacement(secret));
  return text.replace(/[^\s"'<>]+/g, (word) => {
    const scheme = word.indexOf('://');
    const at = word.lastIndexOf('@');
    if (scheme === -1 && word[0] !== '/') {
      // `NAME:PASSWORD@HOST` is a URL without its scheme.
      return at > word.indexOf(':') && word.includes(':') ? hide(word.slice(0, at)) + word.slice(at) : word;
    }
    const start = scheme === -1 ? word.length : scheme + 3;
    const query = word.search(/[?#]/);
    const end = query === -1 ? word.length : query;
    if (at < start) return word.slice(0, end + 1) + hide(word.slice(end + 1));
    // If the password contains a question mark, the query begins before the @.
    if (at > end) return word.slice(0, start) + hide(word.slice(start));
    return `${word.slice(0, start)}${hide(word.slice(start, at))}${word.slice(at, end + 1)}${hide(word.slice(end + 1))}`;
  });
}

/** Hides what is secret in the value of a header field. The result has the same length. */
function hiddenValue(name: string, value: string): string {
  if (SECRET_NAME.test(name)) return asterisks(value);
  const isAuthority = name === ':authority' || name.toLowerCase() === 'host';
  return isAuthority ? withoutUrlSecrets(`://${value}`).slice(3) : withoutUrlSecrets(value);
}

/** Returns the field as a trace shows it, or the same object if the field contains no secret. */
export function withoutSecret(field: HeaderField): HeaderField {
  const [name, value] = field;
  if (SECRET_NAME.test(name)) return [name, NOT_SHOWN];
  const hidden = hiddenValue(name, value);
  return hidden === value ? field : [name, hidden];
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
    const hidden = hiddenValue(name, value);
    if (valueAt === undefined || hidden === value) parts.push(block.subarray(start, end));
    else parts.push(block.subarray(start, valueAt), Uint8Array.from(literalString(hidden)));
  }
  return concatBytes(...parts);
}

/** Names of fields for passwords, tokens or hashes of passwords. `blob` is a snapshot, with the hashes of all users. */
const SECRET_FIELDS: ReadonlySet<string> = new Set(['password', 'hashedpassword', 'token', 'blob']);

/** Whether a field of a message or of its JSON is secret. The gateway also accepts names such as `hashed_password`. */
function isSecretField(name: string): boolean {
  return SECRET_FIELDS.has(name.replaceAll('_', '').toLowerCase());
}

export function withoutSecretJson(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !isSecretField(name)));
}

export function mayContainSecrets(typeName: string): boolean {
  return messageFields[typeName]?.some(({ name }) => isSecretField(name)) ?? false;
}

/** Replaces the bytes of secrets with 0, and all bytes of a malformed message. */
export function withoutSecrets<T extends { readonly typeName: string; readonly bytes: Uint8Array }>(message: T): T {
  if (!mayContainSecrets(message.typeName)) return message;
  const bytes = message.bytes.slice();
  try {
    for (const { start, end, part, field, depth } of explain(message.typeName, message.bytes)) {
      if (part === 'value' && depth === 0 && field !== undefined && isSecretField(field.name))
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
 * JSON does not show that all of them are replaced, or if the whole body `isSecret`, replaces the whole content.
 */
export function withoutSecretText(parts: readonly HttpPart[], mayContain: boolean, isSecret = false): Uint8Array {
  const content = concatBytes(...parts.filter(({ isContent }) => isContent).map(({ bytes }) => bytes));
  const shown = replacedIn(content, (text) =>
    isSecret ? hiddenContent(text) : contentWithoutSecrets(text, mayContain),
  );
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
  const text = latin1Of(bytes);
  const shown = replace(text);
  return shown === text ? bytes : Uint8Array.from(shown, (character) => character.charCodeAt(0));
}

/** Hides secrets in the first line, the fields and the trailers of a message. */
function headWithoutSecrets(text: string): string {
  let name = '';
  return text.replace(/[^\r\n]+/g, (line) => {
    // A line that begins with a blank continues the field of the line before: RFC 9112, section 5.2.
    const isContinued = /^[ \t]/.test(line);
    const colon = line.indexOf(':');
    if (!isContinued && (colon === -1 || / HTTP\/\d\.\d$/.test(line))) return withoutUrlSecrets(line);
    if (!isContinued) name = line.slice(0, colon).trim();
    const value = line.slice(isContinued ? 0 : colon + 1).trimStart();
    return line.slice(0, line.length - value.length) + hiddenValue(name, value);
  });
}

/** A string of JSON up to its end or the end of the text, and the string after a colon. */
const STRINGS = (() => {
  const [inner, end] = ['([^"\\\\]*(?:\\\\.[^"\\\\]*)*)', '(?:"|\\\\?$)'];
  return new RegExp(`("${inner}${end})(?:(\\s*:\\s*")${inner}(${end}))?`, 'gs');
})();

function contentWithoutSecrets(text: string, mayContain: boolean): string {
  const shown = text.replace(STRINGS, (all, name: string, _, colon?: string, value = '', end = '') =>
    colon !== undefined && isSecretField(String(parsed(name))) ? name + colon + '*'.repeat(value.length) + end : all,
  );
  if (!mayContain || parsedAll(shown)?.every(isWithoutSecrets)) return shown;
  return hiddenContent(shown);
}

function hiddenContent(text: string): string {
  return text.replace(/[^\n]/g, '*');
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
    isSecretField(name) ? value === null || /^\**$/.test(String(value)) : isWithoutSecrets(value),
  );
}

/** Returns the JSON value in a text, or undefined if the text is not JSON. */
function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/** Returns the lines of a text that are not blank. */
function linesOf(text: string): readonly string[] {
  return text.split('\n').filter((line) => line.trim() !== '');
}
