import { type HeaderField, latin1Of } from '../../../../src/internal.js';
import { withoutUrlSecrets } from './secrets.js';

// The syntax of HTTP/1.1 as Go's net/http, and therefore etcd, reads it. A request that etcd understands, and that this
// file does not understand, would not appear in a recording, and would meet no fault.

/** The longest head that Go reads: `DefaultMaxHeaderBytes`, and the 4,096 bytes that the server adds to it. */
export const MAX_HEAD_BYTES: number = 2 ** 20 + 2 ** 12;

const [LF, CR] = [0x0a, 0x0d];

/** The head of a request or of an answer. */
export interface Http1Head {
  /** The first line. */
  readonly line: string;
  /** The fields in order, with names in lower case. */
  readonly fields: readonly HeaderField[];
}

/** How the end of a body is found: RFC 9112, section 6. */
export type Body =
  | { readonly kind: 'length'; left: number }
  | { readonly kind: 'chunked'; left: number; at: 'size' | 'data' | 'end of data' | 'trailers' }
  | { readonly kind: 'until close' };

/** Returns the position after the next end of a line. Returns 0 if there is none. Like Go, accepts LF without CR. */
export function endOfLine(bytes: Uint8Array, from: number): number {
  return bytes.indexOf(LF, from) + 1;
}

/** Whether a line, with its end, is blank. */
export function isBlankLine(line: Uint8Array): boolean {
  return line.length === 1 || (line.length === 2 && line[0] === CR);
}

/** Reads a complete head. Returns undefined if a line continues the line before, which Go allows and RFC 9112 forbids. */
export function readHead(bytes: Uint8Array): Http1Head | undefined {
  const [line = '', ...lines] = latin1Of(bytes).trimEnd().split(/\r?\n/);
  if (lines.some((each) => /^[ \t]/.test(each))) return undefined;
  const fields = lines.map((each): HeaderField => {
    const colon = each.indexOf(':');
    return [each.slice(0, Math.max(0, colon)).toLowerCase(), each.slice(colon + 1).trim()];
  });
  return { line, fields };
}

/** The scheme and the host of an absolute request target, such as `http://HOST/v3/kv/put`. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/([^/?]*)/i;

/** Returns the host in an absolute request target. Returns undefined if the target is a path. */
export function hostIn(target: string): string | undefined {
  return ORIGIN.exec(target)?.[1];
}

/** Returns the path of a request target: without scheme, host and query, and with its percent escapes decoded. */
export function pathOf(target: string): string {
  const [path = ''] = target.replace(ORIGIN, '').split('?');
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** Returns the path of a request target as a trace shows it: without what `withoutUrlSecrets` hides. */
export function shownPathOf(target: string): string {
  const [path = ''] = target.split('?');
  // The first call hides a user and a password that contain a slash, the second call what was escaped.
  return withoutUrlSecrets(pathOf(withoutUrlSecrets(path)));
}

/** Returns the protocol to which an answer with the status 101 changes the connection. */
export function upgradeIn(fields: readonly HeaderField[]): string {
  return withoutUrlSecrets(fields.find(([name]) => name === 'upgrade')?.[1] ?? '') || 'another protocol';
}

/** Returns how the body of a request ends. Returns undefined if there is no body. */
export function bodyOfRequest({ line, fields }: Http1Head): Body | undefined {
  // Go ignores the field `Transfer-Encoding` in HTTP/1.0.
  return bodyIn(fields, !line.endsWith('HTTP/1.0'));
}

/** Returns how the body of an answer ends. Returns undefined if there is no body. */
export function bodyOfAnswer({ fields }: Http1Head, status: string, isHead: boolean): Body | undefined {
  if (isHead || /^(1..|204|304)$/.test(status)) return undefined;
  const hasLength = fields.some(([name]) => name === 'content-length');
  return bodyIn(fields, true) ?? (hasLength ? undefined : { kind: 'until close' });
}

function bodyIn(fields: readonly HeaderField[], mayBeChunked: boolean): Body | undefined {
  const value = (wanted: string): string => fields.findLast(([name]) => name === wanted)?.[1] ?? '';
  if (mayBeChunked && /chunked/i.test(value('transfer-encoding'))) return { kind: 'chunked', left: 0, at: 'size' };
  const length = /^\d{1,15}$/.test(value('content-length')) ? Number(value('content-length')) : 0;
  return length > 0 ? { kind: 'length', left: length } : undefined;
}
