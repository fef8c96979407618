import { EtcdError } from '../errors/etcd-error.js';
import { encode } from '../protobuf/codec.js';
import { fromJson, isJsonObject, type JsonValue } from '../reflection/json.js';
import type { AnyMethod } from '../reflection/method-table.js';
import { concatBytes, textOf } from '../runtime/bytes.js';
import type { DecodedFrame, WireMessage } from './frames.js';
import { gatewayMethods } from './gateway-methods.js';
import {
  type HttpPart,
  latin1,
  linesOf,
  mayContainSecrets,
  parsed,
  SECRET_FIELDS,
  withoutSecretText,
} from './secrets.js';

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
  #unreported: HttpPart[] = [];
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
      const isContent = this.#body !== undefined && isAtContent(this.#body);
      const used = this.#body === undefined ? this.#head(left) : this.#content(this.#body, left);
      if (this.#isBroken) return;
      if (used === 0) {
        this.#rest = left;
        if (left.length > MAX_HEAD_BYTES) this.#isBroken = true;
        return;
      }
      this.#unreported.push({ bytes: left.subarray(0, used), isContent });
      this.#unreportedBytes += used;
      left = left.subarray(used);
      if (this.#body === undefined) this.#endMessage();
      else if (this.#body.kind !== 'length' || this.#unreportedBytes > LONG_PIECE_BYTES) this.#reportPart();
    }
  }

  /** Reports the answer that ends with the connection: RFC 9112, section 6.3. The side has sent its last byte. */
  end(): void {
    if (this.#isBroken || this.#body?.kind !== 'until close') return;
    this.#body = undefined;
    this.#endMessage(true);
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
      const [path = ''] = target.split('?');
      const method = METHODS.get(path.replace(/^\/v3beta\//, '/v3/'));
      this.#request = { id: this.#requests.count, method, isHead: verb === 'HEAD' };
      this.#requests.open.push(this.#request);
      this.#line = `${verb} ${path}`;
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

  /** `isCut` tells that the end of the connection has ended the message, so that its end may be missing. */
  #endMessage(isCut = false): void {
    const content = concatBytes(...this.#json);
    this.#json = [];
    const values = this.#valuesIn(content);
    const isInterim = this.#side === 'server' && /^1\d\d/.test(this.#line);
    const isWhole = !isCut || !this.#isUnary || values.some(isJsonObject) || /^[45]/.test(this.#line);
    this.#report(values, isWhole && !isInterim);
    if (this.#side === 'server' && !isInterim && this.#request !== undefined) this.#requests.open.shift();
    this.#request = undefined;
    this.#line = '';
  }

  /**
   * Reports a part of a body: the whole messages of a stream, or the bytes of a long piece. The call of a unary method
   * has one message, which ends with the body.
   */
  #reportPart(): void {
    const isLong = this.#unreportedBytes > LONG_PIECE_BYTES;
    if (this.#isUnary) {
      if (!isLong) return;
      this.#report([], false);
    } else {
      const json = concatBytes(...this.#json);
      const end = json.lastIndexOf(0x0a) + 1;
      const values = this.#valuesIn(json.subarray(0, end));
      // A line that is no object is a part of a message with line breaks.
      const isWhole = end > 0 && (this.#request?.method === undefined || values.every(isJsonObject));
      if (!isWhole && !isLong) return;
      this.#json = [json.subarray(end)];
      this.#report(values, false);
    }
    this.#line = '';
  }

  get #isUnary(): boolean {
    return this.#request?.method?.kind === 'unary';
  }

  /** Returns the JSON in a body or a part of one: one value, or on a stream one for each line. Undefined is no JSON. */
  #valuesIn(content: Uint8Array): readonly (JsonValue | undefined)[] {
    const text = textOf(content);
    const whole = parsed(text);
    if (this.#isUnary || isJsonObject(whole)) return [whole];
    return linesOf(text).map(parsed);
  }

  /** `isEnd` tells whether the request or its answer ends here. */
  #report(values: readonly (JsonValue | undefined)[], isEnd: boolean): void {
    const messages = values.flatMap((value) => this.#message(value));
    const bytes = withoutSecretText(this.#unreported, mayContainSecrets(this.#codec?.typeName ?? ''));
    this.#unreported = [];
    this.#unreportedBytes = 0;
    const detail = { kind: 'http1', line: this.#line, messages, problem: this.#problem(values), isEnd } as const;
    this.#onFrame({ streamId: this.#request?.id ?? 0, type: 'HTTP/1.1', flags: [], bytes, detail });
  }

  get #codec(): AnyMethod['request'] | undefined {
    const method = this.#request?.method;
    return this.#side === 'client' ? method?.request : method?.response;
  }

  /** Returns the message in a JSON value as Protobuf, or an empty array if the value contains none. */
  #message(json: JsonValue | undefined): readonly WireMessage[] {
    const method = this.#request?.method;
    const codec = this.#codec;
    if (method === undefined || codec === undefined || !isJsonObject(json)) return [];
    const isStream = this.#side === 'server' && method.kind !== 'unary';
    const content = isStream ? json.result : json;
    if (!isJsonObject(content) || this.#problem([json]) !== '') return [];
    try {
      const message = fromJson<unknown>(codec, withoutSecretJson(content), { ignoreUnknown: true });
      return [{ method: method.path, typeName: codec.typeName, bytes: encode<unknown>(codec, message as never) }];
    } catch (error) {
      if (error instanceof EtcdError) return [];
      throw error;
    }
  }

  /** Returns the error in a response of the gateway: `{"code": 5, "message": "…"}`. Empty for any other response. */
  #problem(values: readonly (JsonValue | undefined)[]): string {
    if (this.#side === 'client') return '';
    for (const json of values) {
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

/** Whether the next bytes of a body are content, and not the framing of a chunk. */
function isAtContent(body: Body): boolean {
  return body.kind !== 'chunked' || body.at === 'data';
}

function withoutSecretJson(value: Readonly<Record<string, JsonValue>>): Readonly<Record<string, JsonValue>> {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !SECRET_FIELDS.has(name)));
}
