import { monotonicMs } from '../../src/base/timers.js';
import { errorName, FLAG, type Frame, PREFACE, SETTING, settingPairs } from './http2-frames.js';
import { BlockReader, type Written } from './http2-hpack.js';

const DEFAULT_WINDOW_BYTES = 65_535;
/**
 * The minimum time that a server requires between two pings while streams are open. This is the default of etcd's
 * `--grpc-keepalive-min-time`.
 */
const MIN_PING_GAP_MS = 5_000;
/** The minimum time that a server requires between two pings without open streams: grpc-go's `defaultPingTimeout`. */
const MIN_IDLE_PING_GAP_MS = 7_200_000;
/** The number of early pings that a server tolerates: grpc-go's `maxPingStrikes`. */
const MAX_PING_STRIKES = 2;

/** A request from the client, as the peer sees it. */
export interface PeerRequest {
  readonly id: number;
  /** The field representations in the header block, in order. */
  readonly written: readonly Written[];
  readonly headers: Readonly<Record<string, string>>;
  /** The payload of the DATA frames so far. */
  body: Buffer;
  /** Whether the client has sent END_STREAM. */
  ended: boolean;
  /** The error code of the client's RST_STREAM, or undefined if the client has not reset the stream. */
  reset: string | undefined;
}

/**
 * grpc-go's rules for a client's pings, from `handlePing` in internal/transport/http2_server.go, with the settings of
 * etcd. A ping that comes too early is a strike. After too many strikes, the server closes the connection.
 */
class PingPolicy {
  #lastPingAt = Number.NEGATIVE_INFINITY;
  #strikes = 0;
  #reset = false;

  /** Records that the server has written HEADERS or DATA. The next ping is then allowed and clears the strikes. */
  wrote(): void {
    this.#reset = true;
  }

  /** Records a ping. Returns whether the server accepts this ping. */
  allows(openStreams: number): boolean {
    const now = monotonicMs();
    const gapMs = now - this.#lastPingAt;
    this.#lastPingAt = now;
    if (this.#reset) this.#strikes = 0;
    else if (gapMs < (openStreams === 0 ? MIN_IDLE_PING_GAP_MS : MIN_PING_GAP_MS)) this.#strikes += 1;
    this.#reset = false;
    return this.#strikes <= MAX_PING_STRIKES;
  }
}

/**
 * Checks every frame from a client against RFC 9113 (windows, frame sizes, number of streams, order of frames) and
 * against etcd's rules for pings. The peer's limits apply as soon as the client has acknowledged the peer's SETTINGS.
 */
export class ClientRules {
  readonly breaches: string[] = [];
  readonly requests = new Map<number, PeerRequest>();
  readonly #pings = new PingPolicy();
  readonly #blocks = new BlockReader();
  readonly #unacknowledged: [number, number][][] = [];
  readonly #endedByPeer = new Set<number>();
  readonly #resetByPeer = new Set<number>();
  /**
   * For each stream, the bytes that the peer has allowed beyond the initial window, minus the bytes that the client has
   * sent.
   */
  readonly #credit = new Map<number, number>();
  #connectionWindow = DEFAULT_WINDOW_BYTES;
  #initialWindow = DEFAULT_WINDOW_BYTES;
  #maxFrameBytes = 16_384;
  #maxStreams = Number.POSITIVE_INFINITY;
  #frames = 0;
  #open: { readonly streamId: number; readonly endStream: boolean; readonly parts: Buffer[] } | undefined;

  preface(text: string): void {
    this.#require(text === PREFACE, `the preface is ${JSON.stringify(text)}`);
  }

  /** Records a frame that the peer has sent. */
  sentByPeer({ name, flags, streamId, payload }: Frame): void {
    if (name === 'SETTINGS' && (flags & FLAG.ACK) === 0) this.#unacknowledged.push(settingPairs(payload));
    if (name === 'WINDOW_UPDATE' && payload.length === 4) {
      const increment = payload.readUInt32BE(0) & 0x7fff_ffff;
      if (streamId === 0) this.#connectionWindow += increment;
      else this.#credit.set(streamId, (this.#credit.get(streamId) ?? 0) + increment);
    }
    if (name === 'DATA' || name === 'HEADERS') this.#pings.wrote();
    const ends = (name === 'DATA' || name === 'HEADERS') && (flags & FLAG.END_STREAM) !== 0;
    if (ends) this.#endedByPeer.add(streamId);
    if (name === 'RST_STREAM') this.#resetByPeer.add(streamId);
  }

  /** Checks a frame that the client has sent. Adds a message to `breaches` for each violation of a rule. */
  check(frame: Frame): void {
    const { name, flags, streamId, payload } = frame;
    this.#frames += 1;
    if (this.#frames === 1)
      this.#require(name === 'SETTINGS' && (flags & FLAG.ACK) === 0, `the first frame is ${name} instead of SETTINGS`);
    this.#require(payload.length <= this.#maxFrameBytes, `${name} of ${payload.length} bytes`);
    if (this.#open !== undefined) {
      this.#require(name === 'CONTINUATION' && streamId === this.#open.streamId, `${name} within a header block`);
    }
    const request = this.requests.get(streamId);
    if (request?.reset !== undefined)
      this.#require(name === 'PRIORITY', `${name} on stream ${streamId} after RST_STREAM`);
    switch (name) {
      case 'HEADERS':
        this.#open = { streamId, endStream: (flags & FLAG.END_STREAM) !== 0, parts: [payload] };
        if ((flags & FLAG.END_HEADERS) !== 0) this.#block();
        break;
      case 'CONTINUATION':
        this.#open?.parts.push(payload);
        if ((flags & FLAG.END_HEADERS) !== 0) this.#block();
        break;
      case 'DATA':
        this.#data(frame, request);
        break;
      case 'RST_STREAM':
        this.#require(request !== undefined, `RST_STREAM on stream ${streamId}, which is idle`);
        if (request !== undefined) request.reset = errorName(payload.readUInt32BE(0));
        break;
      case 'SETTINGS':
        if ((flags & FLAG.ACK) !== 0) this.#acknowledged();
        break;
      case 'PING':
        if ((flags & FLAG.ACK) === 0) this.#require(this.#pings.allows(this.#active), 'too many pings');
        break;
      case 'WINDOW_UPDATE':
        this.#require(payload.readUInt32BE(0) > 0, 'WINDOW_UPDATE by 0');
        this.#require(streamId === 0 || request !== undefined, `WINDOW_UPDATE on stream ${streamId}, which is idle`);
        break;
    }
  }

  /** Whether the stream is open on either side. */
  isOpen(streamId: number): boolean {
    const request = this.requests.get(streamId);
    return request !== undefined && this.#isActive(request);
  }

  #block(): void {
    const { streamId, endStream, parts } = this.#open as { streamId: number; endStream: boolean; parts: Buffer[] };
    this.#open = undefined;
    const last = Math.max(0, ...this.requests.keys());
    this.#require(streamId % 2 === 1 && streamId > last, `stream ${streamId} is opened after ${last}`);
    const active = this.#active;
    this.#require(active < this.#maxStreams, `${active + 1} streams are open, but the limit is ${this.#maxStreams}`);
    let written: Written[] = [];
    try {
      written = this.#blocks.read(Buffer.concat(parts));
    } catch (error) {
      this.breaches.push((error as Error).message);
    }
    const headers = Object.fromEntries(
      written.flatMap((field) => (field.kind === 'table size' ? [] : [[field.name, field.value]])),
    );
    const fresh = { id: streamId, written, headers, body: Buffer.alloc(0), ended: endStream, reset: undefined };
    this.requests.set(streamId, fresh);
  }

  #data({ flags, streamId, payload }: Frame, request: PeerRequest | undefined): void {
    this.#require(request !== undefined && !request.ended, `DATA on stream ${streamId}, which is not open`);
    if (request === undefined) return;
    request.body = Buffer.concat([request.body, payload]);
    request.ended = (flags & FLAG.END_STREAM) !== 0;
    this.#connectionWindow -= payload.length;
    const credit = (this.#credit.get(streamId) ?? 0) - payload.length;
    this.#credit.set(streamId, credit);
    if (payload.length === 0) return;
    this.#require(this.#connectionWindow >= 0, `the window of the connection is ${this.#connectionWindow}`);
    const window = this.#initialWindow + credit;
    this.#require(window >= 0, `the window of stream ${streamId} is ${window}`);
  }

  #acknowledged(): void {
    const pairs = this.#unacknowledged.shift();
    this.#require(pairs !== undefined, 'the client acknowledged SETTINGS that the peer did not send');
    for (const [setting, value] of pairs ?? []) {
      if (setting === SETTING.INITIAL_WINDOW_SIZE) this.#initialWindow = value;
      if (setting === SETTING.MAX_FRAME_SIZE) this.#maxFrameBytes = value;
      if (setting === SETTING.MAX_CONCURRENT_STREAMS) this.#maxStreams = value;
      if (setting === SETTING.HEADER_TABLE_SIZE) this.#blocks.announced(value);
    }
  }

  get #active(): number {
    return [...this.requests.values()].filter((request) => this.#isActive(request)).length;
  }

  #isActive({ id, ended, reset }: PeerRequest): boolean {
    return reset === undefined && !this.#resetByPeer.has(id) && !(ended && this.#endedByPeer.has(id));
  }

  #require(holds: boolean, breach: string): void {
    if (!holds) this.breaches.push(breach);
  }
}
