import { after, monotonicMs } from '../../runtime/timers.js';

/** The pinger sends a probe once the peer has left a request without any byte for this long. */
const SILENCE_MS = 1_000;
/** The pinger suspects the peer once it has left a probe without any byte for this long. */
const SUSPECT_MS = 1_000;
/** Additional time in which an event loop that was blocked reads an answer that has already arrived. */
const GRACE_MS = 50;
/**
 * The answer to a probe waits behind all data that the peer queued before it, for seconds on a slow link. Arriving bytes
 * therefore extend the wait, up to this multiple of the timeout. The limit exists because those bytes do not prove that
 * the peer still receives anything.
 */
const MAX_TIMEOUTS = 3;
/**
 * The number of probes in a row that the pinger may send sooner than the server allows. grpc-go closes the connection at
 * the third strike. This leaves one strike for a probe that the network delivers late.
 */
const MAX_STRIKES = 1;

export interface PingerOptions {
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Sends a PING frame. */
  readonly ping: (opaque: number) => void;
  /** Returns whether a unary call is open, which waits for its response. Called at most once a second. */
  readonly awaiting: () => boolean;
  /** The peer is probably gone, and new calls should go elsewhere. Called at most once. */
  readonly suspected: () => void;
  /** The peer has answered the last probe. */
  readonly answered: () => void;
  /** The peer did not answer in time: the connection is dead. */
  readonly lost: () => void;
}

/**
 * Detects a peer that no longer answers. The pinger probes a connection with open streams at an interval. It also sends a
 * probe when the peer has left a request without any byte for a second.
 *
 * etcd limits pings by the rule of grpc-go (`handlePing` in internal/transport/http2_server.go; etcd sets MinTime to 5 s
 * and PermitWithoutStream to false): a ping that arrives sooner than MinTime after the one before, or sooner than 2 h
 * after it while no stream is open, is a strike. The third strike ends the connection with GOAWAY, too_many_pings. When
 * the server writes HEADERS or DATA, it resets the strikes to 0 and does not judge the next ping. Therefore:
 *
 * - The pinger probes only while a stream is open.
 * - It measures the interval from the answer to the previous probe, because the server received that probe before.
 * - It probes sooner only if HEADERS or DATA arrived after that answer, or else at most `MAX_STRIKES` times in a row.
 *
 * Its timers do not keep the process alive. Open streams do.
 */
export class Pinger {
  readonly #options: PingerOptions;
  #busy = false;
  /** The number of probes so far, which identifies the last one. */
  #count = 0;
  /** The probe that the peer has not answered yet. */
  #awaited: number | undefined;
  /** When the pinger sent the last probe. All times are on the monotonic clock. */
  #probedAt = Number.NEGATIVE_INFINITY;
  /** When the answer to the last probe arrived. */
  #answeredAt = Number.NEGATIVE_INFINITY;
  /** When bytes last arrived. */
  #receivedAt = Number.NEGATIVE_INFINITY;
  /** When the first request after those bytes was sent. Valid only while `#unanswered` is true. */
  #sentAt = 0;
  /** A request was sent, and no byte has arrived since. */
  #unanswered = false;
  /** HEADERS or DATA arrived after the answer to the last probe: the server has reset its strikes. */
  #strikesReset = false;
  #strikes = 0;
  #suspectedAt: number | undefined;
  #stopped = false;
  /** Stops the timer of the next probe, or of the answer to the last probe. */
  #stopTimer: (() => void) | undefined;
  #stopSilenceTimer: (() => void) | undefined;

  constructor(options: PingerOptions) {
    this.#options = options;
  }

  /** Tells the pinger whether streams are open. */
  busy(busy: boolean): void {
    this.#busy = busy;
    // The first probe follows one whole interval after this, so that pauses do not shorten the interval.
    if (busy && this.#stopTimer === undefined) this.#armInterval();
  }

  /** The client sent HEADERS or DATA, which the peer has to answer with some byte. */
  sent(): void {
    if (this.#unanswered) return;
    this.#unanswered = true;
    this.#sentAt = monotonicMs();
    if (this.#stopSilenceTimer === undefined) this.#armSilence(SILENCE_MS);
  }

  /** Bytes arrived. */
  received(): void {
    this.#unanswered = false;
    this.#receivedAt = monotonicMs();
  }

  /** HEADERS or DATA arrived. */
  receivedHeadersOrData(): void {
    this.#strikesReset = true;
  }

  /**
   * A call that was opened at `openedAt` times out, and its stream is still open. If no byte has arrived since then, this is
   * evidence of a dead peer, and the pinger sends a probe. If etcd's limit does not allow a probe, the pinger suspects the
   * peer as soon as the silence is as long as it would be with a probe.
   */
  expired(openedAt: number): void {
    if (this.#receivedAt > openedAt || this.#awaited !== undefined || !this.#isOn) return;
    const now = monotonicMs();
    if (this.#mayProbe(now)) return this.#probe();
    if (!this.#unanswered || now - this.#sentAt < SILENCE_MS + SUSPECT_MS) return;
    const judge = (): void => {
      if (this.#receivedAt < now) this.#suspect();
    };
    after(GRACE_MS, judge, 'background');
  }

  /** The peer answered a PING. Only the answer to the last probe counts. */
  acknowledged(opaque: number): void {
    if (opaque !== this.#awaited) return;
    this.#awaited = undefined;
    this.#answeredAt = monotonicMs();
    this.#strikesReset = false;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.busy(this.#busy);
    this.#options.answered();
  }

  /** Whether the peer has left a probe without an answer so far. */
  get probing(): boolean {
    return this.#awaited !== undefined;
  }

  /** Whether the peer is probably gone: the pinger suspects it, and no byte has arrived since. */
  get suspect(): boolean {
    return this.#suspectedAt !== undefined && this.#receivedAt <= this.#suspectedAt;
  }

  stop(): void {
    this.#stopped = true;
    this.#stopTimer?.();
    this.#stopSilenceTimer?.();
  }

  /** Without a timeout for the answer, a probe would prove nothing. */
  get #isOn(): boolean {
    return this.#options.timeoutMs < Number.POSITIVE_INFINITY && !this.#stopped;
  }

  /** Whether the server allows a probe before the interval has passed. */
  #mayProbe(now: number): boolean {
    return this.#strikesReset || this.#strikes < MAX_STRIKES || now - this.#answeredAt >= this.#options.intervalMs;
  }

  #armInterval(): void {
    this.#arm(this.#options.intervalMs, () => {
      if (this.#busy) this.#probe();
    });
  }

  #armSilence(delayMs: number): void {
    if (!this.#isOn) return;
    const look = (): void => {
      this.#stopSilenceTimer = undefined;
      this.#lookForSilence();
    };
    this.#stopSilenceTimer = after(delayMs, look, 'background');
  }

  /** Sends a probe if the peer is silent. Otherwise it arms the timer again, or leaves that to the next request. */
  #lookForSilence(): void {
    if (!this.#busy || this.#awaited !== undefined) return;
    if (!this.#unanswered && !this.#options.awaiting()) return;
    const now = monotonicMs();
    const silentMs = now - (this.#unanswered ? this.#sentAt : this.#receivedAt);
    if (silentMs < SILENCE_MS) this.#armSilence(SILENCE_MS - silentMs);
    else if (this.#mayProbe(now)) this.#probe();
  }

  #probe(): void {
    const now = monotonicMs();
    if (this.#strikesReset) this.#strikes = 0;
    else if (now - this.#answeredAt < this.#options.intervalMs) this.#strikes += 1;
    this.#count += 1;
    this.#awaited = this.#count;
    this.#probedAt = now;
    this.#options.ping(this.#count);
    this.#armJudgement(now);
  }

  #armJudgement(now: number): void {
    const { timeoutMs } = this.#options;
    const quietSince = Math.max(this.#probedAt, this.#receivedAt);
    const lostAt = Math.min(quietSince + timeoutMs, this.#probedAt + MAX_TIMEOUTS * timeoutMs);
    const due = this.#suspectedAt !== undefined ? lostAt : Math.min(lostAt, quietSince + SUSPECT_MS);
    // The grace is a second timer, so that a blocked event loop reads the bytes that wait before the pinger judges.
    this.#arm(due - now, () => this.#arm(GRACE_MS, () => this.#judge()));
  }

  #judge(): void {
    const { timeoutMs } = this.#options;
    const now = monotonicMs();
    const quietMs = now - Math.max(this.#probedAt, this.#receivedAt);
    if (quietMs >= timeoutMs || now - this.#probedAt >= MAX_TIMEOUTS * timeoutMs) return this.#options.lost();
    if (quietMs >= SUSPECT_MS) this.#suspect();
    if (!this.#stopped) this.#armJudgement(now);
  }

  #suspect(): void {
    if (this.#suspectedAt !== undefined || this.#stopped) return;
    this.#suspectedAt = monotonicMs();
    this.#options.suspected();
  }

  #arm(delayMs: number, action: () => void): void {
    this.#stopTimer?.();
    const run = (): void => {
      this.#stopTimer = undefined;
      action();
    };
    this.#stopTimer = after(delayMs, run, 'background');
  }
}
