import {
  type AnyMethod,
  encode,
  fromJson,
  gatewayMethods,
  type HeaderField,
  isJsonObject,
  JsonReader,
  JsonSyntaxError,
  type JsonValue,
  latin1Of,
  textOf,
} from '../../../../src/internal.js';
import { ByteQueue } from './byte-queue.js';
import type { DecodedFrame, WireMessage } from './frames.js';
import {
  type Body,
  bodyOfAnswer,
  bodyOfRequest,
  endOfLine,
  hostIn,
  isBlankLine,
  MAX_HEAD_BYTES,
  pathOf,
  readHead,
  shownPathOf,
  upgradeIn,
} from './http1-head.js';
import { type HttpPart, mayContainSecrets, withoutSecretJson, withoutSecretText } from './secrets.js';

const METHODS = gatewayMethods();
/** A piece of a body that is longer than this, or has more parts, is reported before its message is complete. */
const [LONG_PIECE_BYTES, MANY_PARTS] = [2 ** 20, 10_000];
/** The longest body of a unary method, or line of a stream, that is decoded. etcd's limit of a request is 1.5 MiB. */
const MAX_MESSAGE_BYTES = 2 ** 26;
/** The longest line of the framing of chunks. Go reads at most 4,096 bytes. */
const MAX_LINE_BYTES = 2 ** 16;

/** A request whose response has not ended. */
interface Request {
  readonly id: number;
  readonly verb: string;
  readonly method: AnyMethod | undefined;
}

/** The requests of a connection that wait for their responses, in order. */
export class Http1Requests {
  readonly open: Request[] = [];
  count = 0;
  /** The protocol that the connection has changed to. Empty for HTTP/1.1. */
  upgradedTo = '';
}

/** Receives what one side of a connection sends. */
export interface Http1Handlers {
  frame(frame: DecodedFrame): void;
  /**
   * Receives the fields of a request, with their secrets and the host of an absolute target. If the method returns
   * true, the request is refused, and the decoder ignores the bytes that follow.
   */
  refuses?(fields: readonly HeaderField[]): boolean;
  /**
   * Receives the bytes as they are, after the frame to which they belong. `isWhole` tells that no fault can depend on
   * later bytes.
   */
  passed?(bytes: Uint8Array, isWhole: boolean): void;
}

/**
 * Decodes the HTTP/1.1 messages that one side of a connection sends, and finds the messages of etcd's JSON gateway in
 * them. Reports each message as a frame of the type `HTTP/1.1`, and a long one as several. After malformed input, or
 * when the connection changes to another protocol, reports all bytes as not decoded. No input makes the decoder throw.
 */
export class Http1Decoder {
  readonly #side: 'client' | 'server';
  readonly #requests: Http1Requests;
  readonly #handlers: Http1Handlers;
  /** Received bytes that do not form a whole head or a whole line yet. */
  readonly #waiting = new ByteQueue();
  /** The number of waiting bytes that are whole lines of an incomplete head, and of those without a further line end. */
  #lineAt = 0;
  #scannedTo = 0;
  /** Received bytes that no frame contains yet. */
  #unreported: HttpPart[] = [];
  #unreportedBytes = 0;
  #line = '';
  #body: Body | undefined;
  #request: Request | undefined;
  /** Content that no frame contains as messages yet, and the number of its bytes up to the last end of a line. */
  readonly #json = new ByteQueue();
  #jsonLineEnd = 0;
  /** The value of `#jsonLineEnd` when the lines were no whole messages. */
  #triedTo = 0;
  #isTooLong = false;
  #isRefused = false;
  /** Why the decoder decodes no further bytes. */
  #problem = '';

  constructor(side: 'client' | 'server', requests: Http1Requests, handlers: Http1Handlers) {
    this.#side = side;
    this.#requests = requests;
    this.#handlers = handlers;
  }

  /** Whether a part of a head has arrived, but not its end. */
  get isInHead(): boolean {
    return this.#body === undefined && this.#waiting.length > 0;
  }

  push(bytes: Uint8Array): void {
    this.#waiting.add(bytes);
    while (this.#waiting.length > 0 && !this.#isRefused) {
      if (this.#body === undefined && this.#requests.upgradedTo !== '')
        this.#problem ||= `the connection has changed to ${this.#requests.upgradedTo}`;
      if (this.#problem !== '') return this.#pass(this.#waiting.take());
      const isContent = this.#body !== undefined && isAtContent(this.#body);
      const used = this.#body === undefined ? this.#head() : this.#content(this.#body, this.#waiting.view);
      if (this.#problem !== '') continue;
      if (used === 0) {
        if (this.#waiting.length <= MAX_HEAD_BYTES) return;
        this.#problem = `its head is longer than ${MAX_HEAD_BYTES.toLocaleString('en')} bytes`;
        continue;
      }
      const part = this.#waiting.take(used);
      this.#unreported.push({ bytes: part, isContent });
      this.#unreportedBytes += used;
      const isEnd = this.#body === undefined;
      if (isEnd) this.#endMessage();
      else if (this.#body?.kind !== 'length' || this.#isLong) this.#reportPart();
      if (this.#isRefused) return;
      this.#handlers.passed?.(part, isEnd || this.#isTooLong || (!this.#isUnary && this.#unreported.length === 0));
    }
  }

  /**
   * Reports what is left when the side has sent its last byte: the answer that ends with the connection (RFC 9112,
   * section 6.3), or an incomplete head.
   */
  end(): void {
    if (this.#isRefused || this.#problem !== '') return;
    if (this.#body?.kind === 'until close') {
      this.#body = undefined;
      this.#endMessage(true);
    } else if (this.#waiting.length > 0) {
      this.#problem = 'the connection ends before the end of the head or of the chunk';
      this.#pass(this.#waiting.take());
    }
  }

  /** Reports bytes that the decoder cannot decode. They may contain a secret. */
  #pass(bytes: Uint8Array): void {
    if (this.#unreported.length > 0) this.#report([], false);
    const detail = { kind: 'http1', line: '', messages: [], problem: '', isEnd: false } as const;
    const common = { streamId: this.#request?.id ?? 0, type: 'HTTP/1.1', flags: [], detail };
    this.#handlers.frame({ ...common, bytes: bytes.slice().fill(0x2a), undecoded: this.#problem });
    this.#handlers.passed?.(bytes, true);
  }

  /** Reads the head of a message. Returns its length, or 0 if it is incomplete. */
  #head(): number {
    const { view } = this.#waiting;
    let isBlank = false;
    while (!isBlank) {
      const end = endOfLine(view, this.#scannedTo);
      this.#scannedTo = end || view.length;
      if (end === 0) return 0;
      isBlank = isBlankLine(view.subarray(this.#lineAt, end));
      this.#lineAt = end;
    }
    const length = this.#lineAt;
    this.#lineAt = 0;
    this.#scannedTo = 0;
    const head = readHead(view.subarray(0, length));
    const { line = '', fields = [] } = head ?? {};
    if (this.#side === 'client') {
      const [, verb = '', target = ''] = /^([A-Z]+) (\S+) HTTP\/1\.\d$/.exec(line) ?? [];
      if (head === undefined || verb === '') this.#problem = 'it is not a request of HTTP/1.1';
      else {
        const host = hostIn(target);
        this.#isRefused = this.#handlers.refuses?.(host === undefined ? fields : [...fields, ['host', host]]) === true;
        this.#requests.count += 1;
        const method = METHODS.get(pathOf(target).replace(/^\/v3(alpha|beta)\//, '/v3/'));
        this.#request = { id: this.#requests.count, verb, method };
        this.#requests.open.push(this.#request);
        this.#line = `${verb} ${shownPathOf(target)}`;
        this.#body = this.#isRefused ? undefined : bodyOfRequest(head);
      }
    } else {
      const [, status = ''] = /^HTTP\/1\.\d (\d{3})/.exec(line) ?? [];
      this.#request = this.#requests.open[0];
      if (head === undefined || status === '') this.#problem = 'it is not an answer of HTTP/1.1';
      else this.#body = bodyOfAnswer(head, status, this.#request?.verb === 'HEAD');
      this.#line = line.replace(/^HTTP\/1\.\d /, '');
      if (status === '101') this.#requests.upgradedTo = upgradeIn(fields);
    }
    return length;
  }

  /** Reads a part of a body. Returns the number of bytes that it has read. */
  #content(body: Body, bytes: Uint8Array): number {
    if (body.kind === 'until close') {
      this.#addContent(bytes);
      return bytes.length;
    }
    if (body.kind === 'length' || body.at === 'data') {
      const content = bytes.subarray(0, body.left);
      this.#addContent(content);
      body.left -= content.length;
      if (body.left === 0) {
        if (body.kind === 'length') this.#body = undefined;
        else body.at = 'end of data';
      }
      return content.length;
    }
    const length = endOfLine(bytes, 0);
    if (length === 0 && bytes.length > MAX_LINE_BYTES) this.#problem = 'a line between two chunks is too long';
    if (length === 0) return 0;
    if (body.at === 'end of data') body.at = 'size';
    else if (body.at === 'trailers') {
      if (isBlankLine(bytes.subarray(0, length))) this.#body = undefined;
    } else {
      const [, size] = /^([0-9a-f]{1,12})[;\s]/i.exec(latin1Of(bytes.subarray(0, length))) ?? [];
      if (size === undefined) this.#problem = 'the size of a chunk is malformed';
      else {
        body.left = Number.parseInt(size, 16);
        body.at = body.left === 0 ? 'trailers' : 'data';
      }
    }
    return length;
  }

  #addContent(content: Uint8Array): void {
    if (this.#json.length + content.length > MAX_MESSAGE_BYTES) this.#isTooLong = true;
    if (this.#isTooLong) return void this.#takeJson();
    const lineEnd = content.lastIndexOf(0x0a) + 1;
    if (lineEnd > 0) this.#jsonLineEnd = this.#json.length + lineEnd;
    this.#json.add(content);
  }

  #takeJson(count?: number): Uint8Array {
    this.#jsonLineEnd = 0;
    this.#triedTo = 0;
    return this.#json.take(count);
  }

  /** `isCut` tells that the end of the connection has ended the message, so that its end may be missing. */
  #endMessage(isCut = false): void {
    const values = this.#valuesIn(this.#takeJson());
    const isInterim = this.#side === 'server' && /^1(?!01)\d\d/.test(this.#line);
    const isWhole = !isCut || !this.#isUnary || values.some(isJsonObject) || /^[45]/.test(this.#line);
    this.#report(values, isWhole && !isInterim);
    if (this.#side === 'server' && !isInterim && this.#request !== undefined) this.#requests.open.shift();
    this.#request = undefined;
    this.#line = '';
    this.#isTooLong = false;
  }

  get #isLong(): boolean {
    return this.#unreportedBytes > LONG_PIECE_BYTES || this.#unreported.length > MANY_PARTS;
  }

  /**
   * Reports a part of a body: the whole messages of a stream, or the bytes of a long piece. The call of a unary method
   * has one message, which ends with the body.
   */
  #reportPart(): void {
    const end = this.#isUnary ? 0 : this.#jsonLineEnd;
    // The number of lines doubles before each further attempt, so that all attempts together take linear time.
    const mayBeWhole = end > 0 && end >= 2 * this.#triedTo;
    if (!mayBeWhole && !this.#isLong) return;
    const values = this.#valuesIn(this.#json.view.subarray(0, end));
    // A line that is no object is a part of a message with line breaks.
    const isWhole = end > 0 && (this.#request?.method === undefined || values.every(isJsonObject));
    if (!isWhole) this.#triedTo = end;
    if (!isWhole && !this.#isLong) return;
    this.#takeJson(end);
    this.#report(values, false);
    this.#line = '';
  }

  get #isUnary(): boolean {
    return this.#request?.method?.kind === 'unary';
  }

  /**
   * Returns the JSON in a body or a part of one: all values, or the only one that etcd reads for a unary method.
   * Undefined is no JSON.
   */
  #valuesIn(content: Uint8Array): readonly unknown[] {
    const values: unknown[] = [];
    const reader = new JsonReader(textOf(content));
    try {
      for (let next = reader.next(); next !== undefined; next = reader.next()) {
        values.push(next[0]);
        if (this.#isUnary) break;
      }
    } catch (error) {
      if (!(error instanceof JsonSyntaxError)) throw error;
      values.push(undefined);
    }
    return values;
  }

  /** `isEnd` tells whether the request or its answer ends here. */
  #report(values: readonly unknown[], isEnd: boolean): void {
    const error = this.#errorIn(values);
    const messages = this.#messagesIn(isEnd && this.#isEmptyMessage(values) ? [{}] : values);
    const whole = messages.filter((message) => message !== undefined);
    const detail = { kind: 'http1', line: this.#line, messages: whole, problem: error, isEnd } as const;
    const isDecoded = !this.#isTooLong && (error !== '' || whole.length === messages.length);
    const bytes = this.#shown(error === QUOTING);
    const common = { streamId: this.#request?.id ?? 0, type: 'HTTP/1.1', flags: [], bytes, detail };
    this.#unreported = [];
    this.#unreportedBytes = 0;
    this.#handlers.frame(isDecoded ? common : { ...common, undecoded: this.#reason() });
  }

  /** Returns the bytes that no frame contains yet, without secrets. */
  #shown(isSecret: boolean): Uint8Array {
    const { method } = this.#request ?? {};
    // The message type of an unknown path is unknown, so its body may contain a password. A part of an answer may be a
    // part of an error that quotes the request.
    const mayContain =
      method === undefined || [method.request, this.#codec].some((codec) => mayContainSecrets(codec?.typeName ?? ''));
    try {
      return withoutSecretText(this.#unreported, mayContain, isSecret);
    } catch {
      // Values that are nested too deeply, or too many escapes. Hides the whole content.
      return withoutSecretText(this.#unreported, mayContain, true);
    }
  }

  get #codec(): AnyMethod['request'] | undefined {
    const method = this.#request?.method;
    return this.#side === 'client' ? method?.request : method?.response;
  }

  /** Whether etcd takes the empty body of a request for an empty message. */
  #isEmptyMessage({ length }: readonly unknown[]): boolean {
    const { verb, method } = this.#request ?? {};
    return length === 0 && this.#side === 'client' && verb === 'POST' && method?.kind !== 'bidi-streaming';
  }

  /** Says why a part of the message is not decoded. */
  #reason(): string {
    const limit = MAX_MESSAGE_BYTES.toLocaleString('en');
    if (this.#isTooLong) return `a message with more than ${limit} bytes of JSON is not read`;
    const { typeName } = this.#codec ?? {};
    if (typeName === undefined) return 'the gateway has no method at this path';
    return `it is not the JSON of a ${typeName.slice(typeName.lastIndexOf('.') + 1)}`;
  }

  /** Returns the messages in JSON values as Protobuf. Undefined stands for a value that contains none. */
  #messagesIn(values: readonly unknown[]): readonly (WireMessage | undefined)[] {
    const [method, codec] = [this.#request?.method, this.#codec];
    if (method === undefined || codec === undefined) return this.#side === 'client' ? values.map(() => undefined) : [];
    return values.map((json) => {
      const isStream = this.#side === 'server' && method.kind !== 'unary';
      const content = isStream && isJsonObject(json) ? json.result : json;
      if (!isJsonObject(content) || this.#errorIn([json]) !== '') return undefined;
      try {
        const message = fromJson<unknown>(codec, withoutSecretJson(content), { ignoreUnknown: true });
        return { method: method.path, typeName: codec.typeName, bytes: encode<unknown>(codec, message as never) };
      } catch {
        // An error of any kind: the client chooses the values and their depth.
        return undefined;
      }
    });
  }

  /**
   * Whether an error may quote a part of a request with a password. The gateway quotes JSON that it cannot decode. etcd
   * itself quotes nothing.
   */
  #mayQuoteSecrets(message: JsonValue | undefined): boolean {
    const { request } = this.#request?.method ?? {};
    const isOfEtcd = typeof message === 'string' && message.startsWith('etcdserver: ');
    return !isOfEtcd && (request === undefined || mayContainSecrets(request.typeName));
  }

  /** Returns the error in a response of the gateway: `{"code": 5, "message": "…"}`. Empty for any other response. */
  #errorIn(values: readonly unknown[]): string {
    if (this.#side === 'client') return '';
    for (const json of values) {
      const error = isJsonObject(json) && isJsonObject(json.error) ? json.error : json;
      if (isJsonObject(error) && typeof error.code === 'number' && error.code !== 0)
        return this.#mayQuoteSecrets(error.message) ? QUOTING : String(error.message ?? error.code);
    }
    return /^[45]/.test(this.#line) ? this.#line : '';
  }
}

/** What takes the place of an error that may quote a request with a password. */
const QUOTING = 'refused (not shown)';

/** Whether the next bytes of a body are content, and not the framing of a chunk. */
function isAtContent(body: Body): boolean {
  return body.kind !== 'chunked' || body.at === 'data';
}
