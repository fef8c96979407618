import { after, monotonicMs } from '../../runtime/timers.js';

/** A peer that has left a request without any byte for this long is probed. */
const SILENCE_MS = 1_000;
/** A probe without any byte after it for this long lets new calls go elsewhere. */
const DOUBT_MS = 1_000;
/** After a blocked event loop the answer may have arrived and not been read yet. */
const GRACE_MS = 50;
/**
 * The answer to a probe waits behind all data that the peer queued before it, for seconds on a slow link. Bytes that
 * arrive extend the wait, up to this multiple of the timeout: they do not prove that the peer still receives anything.
 */
const MAX_TIMEOUTS = 3;
/**
 * Probes sent on purpose sooner than the server allows. grpc-go closes the connection at the third; this leaves one for
 * a probe that the network delivers late.
 */
const MAX_STRIKES = 1;

export interface PingerOptions {
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly ping: (opaque: number) => void;
  /** Whether a call is open that waits for its one answer. Asked at most once a second. */
  readonly awaiting: () => boolean;
  /** The peer is probably gone: new calls should not go there. Called once. */
  readonly doubted: () => void;
  /** The answer to the last probe has come. */
  readonly answered: () => void;
  /** No answer came in time: the connection leads nowhere. */
  readonly lost: () => void;
}

/**
 * Finds out whether the peer is still there. It probes a connection with open streams in an interval, and also when a
 * request has gone without any byte of the peer for a second.
 *
 * etcd limits pings by the rule of grpc-go (`handlePing` in internal/transport/http2_server.go; etcd sets MinTime to 5 s
 * and PermitWithoutStream to false): a ping that arrives sooner than MinTime after the one before, or sooner than 2 h
 * after it while no stream is open, is a strike. The third strike ends the connection with GOAWAY, too_many_pings. The
 * first ping after the server has written HEADERS or DATA is not judged, and sets the strikes to 0. Therefore:
 *
 * - The pinger probes only while a stream is open.
 * - It measures the interval from the answer to the previous probe, because the server received that probe before.
 * - It probes sooner only if HEADERS or DATA arrived after that answer, or else at most `MAX_STRIKES` times in a row.
 *
 * Its timers keep no process alive: streams do that.
 */
export class Pinger {
  readonly #options: PingerOptions;
  #busy = false;
  #count = 0;
  #awaited: number | undefined;
  /** Times are on the monotonic clock. When the last probe was sent. */
  #probedAt = Number.NEGATIVE_INFINITY;
  /** When the answer to the last probe came. */
  #answeredAt = Number.NEGATIVE_INFINITY;
  /** When bytes were read last. */
  #heardAt = Number.NEGATIVE_INFINITY;
  /** When the first request since then was sent; only valid while `#unheard`. */
  #sentAt = 0;
  /** A request was sent, and no byte has been read since. */
  #unheard = false;
  /** HEADERS or DATA of the peer came after the answer to the last probe. */
  #judgedAnew = false;
  #strikes = 0;
  /** When the peer was taken to be gone. */
  #doubtedAt: number | undefined;
  #stopped = false;
  /** For the next probe of the interval, or for the answer to the last probe. */
  #stopTimer: (() => void) | undefined;
  #stopSilenceTimer: (() => void) | undefined;

  constructor(options: PingerOptions) {
    this.#options = options;
  }

  /** Whether streams are open. */
  busy(busy: boolean): void {
    this.#busy = busy;
    if (!busy || this.#stopTimer !== undefined) return;
    // Not earlier than that after becoming busy: so the peer's bound holds over pauses, too.
    this.#armInterval();
  }

  /** HEADERS or DATA were sent: the peer owes a byte for them. */
  sent(): void {
    if (this.#unheard) return;
    this.#unheard = true;
    this.#sentAt = monotonicMs();
    if (this.#stopSilenceTimer === undefined) this.#armSilence(SILENCE_MS);
  }

  /** Bytes were read. */
  heard(): void {
    this.#unheard = false;
    this.#heardAt = monotonicMs();
  }

  /** The peer sent HEADERS or DATA. */
  judgedAnew(): void {
    this.#judgedAnew = true;
  }

  /**
   * A call that was opened at `openedAt` times out, and its stream is still open. If nothing has been read since, that is
   * evidence: it is followed by a probe, or, where etcd allows none, by doubt once the silence is as long as in the case
   * with a probe.
   */
  expired(openedAt: number): void {
    if (this.#heardAt > openedAt || this.#awaited !== undefined || !this.#isOn) return;
    const now = monotonicMs();
    if (this.#mayProbe(now)) return this.#probe();
    if (!this.#unheard || now - this.#sentAt < SILENCE_MS + DOUBT_MS) return;
    const judge = (): void => {
      if (this.#heardAt < now) this.#doubt();
    };
    after(GRACE_MS, judge, 'background');
  }

  /** Only the answer to the last probe counts. */
  acknowledged(opaque: number): void {
    if (opaque !== this.#awaited) return;
    this.#awaited = undefined;
    this.#answeredAt = monotonicMs();
    this.#judgedAnew = false;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.busy(this.#busy);
    this.#options.answered();
  }

  /** A probe waits for its answer. */
  get probing(): boolean {
    return this.#awaited !== undefined;
  }

  /** The peer is probably gone, and nothing has been read since. */
  get doubtful(): boolean {
    return this.#doubtedAt !== undefined && this.#heardAt <= this.#doubtedAt;
  }

  stop(): void {
    this.#stopped = true;
    this.#stopTimer?.();
    this.#stopSilenceTimer?.();
  }

  /** Without a limit for the answer a probe proves nothing. */
  get #isOn(): boolean {
    return this.#options.timeoutMs < Number.POSITIVE_INFINITY && !this.#stopped;
  }

  /** Whether a probe before its interval is over breaks none of the server's limits. */
  #mayProbe(now: number): boolean {
    return this.#judgedAnew || this.#strikes < MAX_STRIKES || now - this.#answeredAt >= this.#options.intervalMs;
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

  /** The next request arms the timer again where this does not. */
  #lookForSilence(): void {
    if (!this.#busy || this.#awaited !== undefined) return;
    if (!this.#unheard && !this.#options.awaiting()) return;
    const now = monotonicMs();
    const silentMs = now - (this.#unheard ? this.#sentAt : this.#heardAt);
    if (silentMs < SILENCE_MS) this.#armSilence(SILENCE_MS - silentMs);
    else if (this.#mayProbe(now)) this.#probe();
  }

  #probe(): void {
    const now = monotonicMs();
    if (this.#judgedAnew) this.#strikes = 0;
    else if (now - this.#answeredAt < this.#options.intervalMs) this.#strikes += 1;
    this.#count += 1;
    this.#awaited = this.#count;
    this.#probedAt = now;
    this.#options.ping(this.#count);
    this.#armJudgement(now);
  }

  #armJudgement(now: number): void {
    const { timeoutMs } = this.#options;
    const quietSince = Math.max(this.#probedAt, this.#heardAt);
    const lostAt = Math.min(quietSince + timeoutMs, this.#probedAt + MAX_TIMEOUTS * timeoutMs);
    const due = this.#doubtedAt !== undefined ? lostAt : Math.min(lostAt, quietSince + DOUBT_MS);
    // The grace comes after the timer, so that bytes which wait behind a blocked event loop are read in between.
    this.#arm(due - now, () => this.#arm(GRACE_MS, () => this.#judge()));
  }

  #judge(): void {
    const { timeoutMs } = this.#options;
    const now = monotonicMs();
    const quietMs = now - Math.max(this.#probedAt, this.#heardAt);
    if (quietMs >= timeoutMs || now - this.#probedAt >= MAX_TIMEOUTS * timeoutMs) return this.#options.lost();
    if (quietMs >= DOUBT_MS) this.#doubt();
    if (!this.#stopped) this.#armJudgement(now);
  }

  #doubt(): void {
    if (this.#doubtedAt !== undefined || this.#stopped) return;
    this.#doubtedAt = monotonicMs();
    this.#options.doubted();
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
