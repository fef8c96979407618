import { EtcdError } from '../errors/etcd-error.js';
import { encode } from '../protobuf/codec.js';
import { fromJson, isJsonObject, type JsonValue } from '../reflection/json.js';
import type { AnyMethod } from '../reflection/method-table.js';
import { concatBytes, textOf } from '../runtime/bytes.js';
import type { DecodedFrame, WireMessage } from './frames.js';
import { gatewayMethods } from './gateway-methods.js';
import { SECRET_FIELDS } from './secrets.js';

const METHODS = gatewayMethods();
const CRLF = '\r\n';
const END_OF_HEAD = `${CRLF}${CRLF}`;
/** A piece of a body that is longer than this is reported before its message is complete. */
const LONG_PIECE_BYTES = 2 ** 20;
const MAX_HEAD_BYTES = 2 ** 16;

/** A request whose response has not ended. */
interface Request {
  readonly id: number;
  readonly method: AnyMethod | undefined;
  readonly isHead: boolean;
}

/** The requests of a connection that wait for their responses, in order. */
export class Http1Requests {
  readonly open: Request[] = [];
  count = 0;
}

/** How the end of a body is found: RFC 9112, section 6. */
type Body =
  | { readonly kind: 'length'; left: number }
  | { readonly kind: 'chunked'; left: number; at: 'size' | 'data' | 'end of data' | 'trailers' }
  | { readonly kind: 'until close' };

/**
 * Decodes the HTTP/1.1 messages that one side of a connection sends, and finds the messages of etcd's JSON gateway in
 * them. Reports each message as a frame of the type `HTTP/1.1`, and a long one as several. Ignores all bytes after
 * malformed input.
 */
export class Http1Decoder {
  readonly #side: 'client' | 'server';
  readonly #requests: Http1Requests;
  readonly #onFrame: (frame: DecodedFrame) => void;
  /** Received bytes that do not form a whole head or a whole line yet. */
  #rest: Uint8Array = new Uint8Array(0);
  /** Received bytes that no frame contains yet. */
  #unreported: Uint8Array[] = [];
  #unreportedBytes = 0;
  #line = '';
  #body: Body | undefined;
  #request: Request | undefined;
  #json: Uint8Array[] = [];
  #isBroken = false;

  constructor(side: 'client' | 'server', requests: Http1Requests, onFrame: (frame: DecodedFrame) => void) {
    this.#side = side;
    this.#requests = requests;
    this.#onFrame = onFrame;
  }

  /** Whether a part of a message has arrived, but not its end. */
  get isInMessage(): boolean {
    return !this.#isBroken && (this.#body !== undefined || this.#rest.length > 0);
  }

  push(bytes: Uint8Array): void {
    if (this.#isBroken) return;
    let left = this.#rest.length === 0 ? bytes.slice() : concatBytes(this.#rest, bytes);
    this.#rest = left.subarray(left.length);
    while (left.length > 0) {
      const used = this.#body === undefined ? this.#head(left) : this.#content(this.#body, left);
      if (this.#isBroken) return;
      if (used === 0) {
        this.#rest = left;
        if (left.length > MAX_HEAD_BYTES) this.#isBroken = true;
        return;
      }
      this.#unreported.push(left.subarray(0, used));
      this.#unreportedBytes += used;
      left = left.subarray(used);
      if (this.#body === undefined) this.#endMessage();
      else if (this.#body.kind !== 'length' || this.#unreportedBytes > LONG_PIECE_BYTES) this.#reportLines();
    }
  }

  /** Reads the head of a message. Returns its length, or 0 if it is incomplete. */
  #head(bytes: Uint8Array): number {
    const text = latin1(bytes.subarray(0, MAX_HEAD_BYTES));
    const end = text.indexOf(END_OF_HEAD);
    if (end < 0) return 0;
    const [first = '', ...lines] = text.slice(0, end).split(CRLF);
    const fields = new Map(lines.map((line) => [line.split(':')[0]?.toLowerCase(), line.replace(/^[^:]*:\s*/, '')]));
    const [, verb = '', target = ''] = /^([A-Z]+) (\S+) HTTP\/1\.\d$/.exec(first) ?? [];
    const [, status = ''] = /^HTTP\/1\.\d (\d{3})/.exec(first) ?? [];
    if (this.#side === 'client') {
      if (verb === '') this.#isBroken = true;
      this.#requests.count += 1;
      const method = METHODS.get((target.split('?')[0] ?? '').replace(/^\/v3beta\//, '/v3/'));
      this.#request = { id: this.#requests.count, method, isHead: verb === 'HEAD' };
      this.#requests.open.push(this.#request);
      this.#line = `${verb} ${target}`;
    } else {
      if (status === '') this.#isBroken = true;
      this.#request = this.#requests.open[0];
      this.#line = first.replace(/^HTTP\/1\.\d /, '');
    }
    this.#body = bodyOf(fields, this.#side, status, this.#request?.isHead === true);
    return end + END_OF_HEAD.length;
  }

  /** Reads a part of a body. Returns the number of bytes that it has read. */
  #content(body: Body, bytes: Uint8Array): number {
    if (body.kind === 'until close') {
      this.#json.push(bytes);
      return bytes.length;
    }
    if (body.kind === 'length' || body.at === 'data') {
      const content = bytes.subarray(0, body.left);
      this.#json.push(content);
      body.left -= content.length;
      if (body.left === 0) {
        if (body.kind === 'length') this.#body = undefined;
        else body.at = 'end of data';
      }
      return content.length;
    }
    const end = latin1(bytes.subarray(0, MAX_HEAD_BYTES)).indexOf(CRLF);
    if (end < 0) return 0;
    if (body.at === 'end of data') body.at = 'size';
    else if (body.at === 'trailers') {
      if (end === 0) this.#body = undefined;
    } else {
      body.left = Number.parseInt(latin1(bytes.subarray(0, end)), 16);
      if (Number.isNaN(body.left)) this.#isBroken = true;
      body.at = body.left === 0 ? 'trailers' : 'data';
    }
    return end + CRLF.length;
  }

  #endMessage(): void {
    const json = concatBytes(...this.#json);
    this.#json = [];
    this.#report(json.length === 0 ? [] : textOf(json).split('\n'));
    if (this.#side === 'server' && this.#request !== undefined) this.#requests.open.shift();
    this.#request = undefined;
    this.#line = '';
  }

  /** Reports the complete lines of a body. A stream of responses has one line of JSON for each of them. */
  #reportLines(): void {
    const json = concatBytes(...this.#json);
    const end = json.lastIndexOf(0x0a) + 1;
    if (end === 0 && this.#unreportedBytes <= LONG_PIECE_BYTES) return;
    this.#json = [json.subarray(end)];
    this.#report(textOf(json.subarray(0, end)).split('\n'));
    this.#line = '';
  }

  #report(lines: readonly string[]): void {
    const messages = lines.flatMap((line) => this.#message(line));
    const bytes = withoutSecretText(concatBytes(...this.#unreported));
    this.#unreported = [];
    this.#unreportedBytes = 0;
    const detail = { kind: 'http1', line: this.#line, messages, problem: this.#problem(lines) } as const;
    this.#onFrame({ streamId: this.#request?.id ?? 0, type: 'HTTP/1.1', flags: [], bytes, detail });
  }

  /** Returns the message in a line of JSON as Protobuf, or an empty array if the line contains none. */
  #message(line: string): readonly WireMessage[] {
    const method = this.#request?.method;
    const json = parsed(line);
    if (method === undefined || !isJsonObject(json)) return [];
    const isStream = this.#side === 'server' && method.kind !== 'unary';
    const content = isStream ? json.result : json;
    if (!isJsonObject(content) || this.#problem([line]) !== '') return [];
    const codec = this.#side === 'client' ? method.request : method.response;
    try {
      const message = fromJson<unknown>(codec, withoutSecretJson(content), { ignoreUnknown: true });
      return [{ method: method.path, typeName: codec.typeName, bytes: encode<unknown>(codec, message as never) }];
    } catch (error) {
      if (error instanceof EtcdError) return [];
      throw error;
    }
  }

  /** Returns the error in a response of the gateway: `{"code": 5, "message": "…"}`. Empty for any other response. */
  #problem(lines: readonly string[]): string {
    if (this.#side === 'client') return '';
    for (const line of lines) {
      const json = parsed(line);
      const error = isJsonObject(json) && isJsonObject(json.error) ? json.error : json;
      if (isJsonObject(error) && typeof error.code === 'number' && error.code !== 0)
        return String(error.message ?? error.code);
    }
    return /^[45]/.test(this.#line) ? this.#line : '';
  }
}

function bodyOf(
  fields: ReadonlyMap<string | undefined, string>,
  side: 'client' | 'server',
  status: string,
  isHead: boolean,
): Body | undefined {
  if (side === 'server' && (isHead || /^(1..|204|304)$/.test(status))) return undefined;
  if (/chunked/i.test(fields.get('transfer-encoding') ?? '')) return { kind: 'chunked', left: 0, at: 'size' };
  const length = fields.get('content-length');
  if (length !== undefined && Number(length) > 0) return { kind: 'length', left: Number(length) };
  return length === undefined && side === 'server' ? { kind: 'until close' } : undefined;
}

function parsed(line: string): JsonValue {
  try {
    return JSON.parse(line) as JsonValue;
  } catch {
    return null;
  }
}

const SECRET_LINES = /^((?:proxy-)?authorization|grpc-metadata-(?:token|authorization)|cookie)(:\s*)([^\r\n]*)/gim;
const SECRET_VALUES = new RegExp(`("(?:${[...SECRET_FIELDS].join('|')})"\\s*:\\s*")((?:[^"\\\\]|\\\\.)*)`, 'g');

/** Replaces each secret in the text of an HTTP message by as many asterisks. */
function withoutSecretText(bytes: Uint8Array): Uint8Array {
  const text = latin1(bytes);
  const shown = text
    .replace(SECRET_LINES, (_, name: string, colon: string, value: string) => name + colon + '*'.repeat(value.length))
    .replace(SECRET_VALUES, (_, name: string, value: string) => name + '*'.repeat(value.length));
  return shown === text ? bytes : Uint8Array.from(shown, (character) => character.charCodeAt(0));
}

function withoutSecretJson(value: Readonly<Record<string, JsonValue>>): Readonly<Record<string, JsonValue>> {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !SECRET_FIELDS.has(name)));
}

function latin1(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 8_192) text += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  return text;
}
