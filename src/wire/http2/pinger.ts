import { after, at, environment, monotonicMs } from '../../base/index.js';

/** Milliseconds for which the peer may stay silent after a request before the pinger sends a probe (a PING frame). */
const SILENCE_MS = 1_000;
/** Milliseconds for which the peer may stay silent after a probe before the pinger suspects that the peer is gone. */
const SUSPECT_MS = 1_000;
/**
 * How long, in milliseconds, the pinger trusts a peer after the last proof that the peer was alive. It is longer than
 * the time between two renewals of a lease with a TTL of 10 s, so that those renewals serve as proofs. It is shorter
 * than the idle timeouts of NATs and load balancers, of which the shortest in wide use is 30 s.
 */
const TRUST_MS = 4_000;
/** Milliseconds that requests wait for the answer to a probe before they use another connection. */
const CONFIRM_MS = 500;
/** If the wall clock gains more milliseconds than this on the monotonic clock, the machine may have been suspended. */
const SUSPENDED_MS = 1_000;
/** Minimum milliseconds between two pings without an open stream: `defaultPingTimeout` in grpc-go's http2_server.go. */
const IDLE_INTERVAL_MS = 7_200_000;
/** Additional milliseconds in which a blocked event loop can read an answer that has already arrived. */
const GRACE_MS = 50;
/**
 * Maximum wait for the answer to a probe, as a multiple of `timeoutMs`, while fewer than `PROGRESS_BYTES` arrive. On a
 * slow link, the answer can wait for a minute behind data, so arriving bytes extend the wait. A few bytes extend it
 * only to this limit: they do not prove that the peer still receives.
 */
const MAX_TIMEOUTS = 3;
/**
 * Each time this many bytes have arrived, the limit of `MAX_TIMEOUTS` timeouts begins again. Flow control then limits
 * the wait: a peer that receives nothing must stop when the window of the connection is used up.
 */
const PROGRESS_BYTES = 16_384;
/**
 * Maximum number of consecutive probes that the pinger sends sooner than the server's limit allows (see `Pinger`). Each
 * such probe is a strike, and grpc-go closes the connection at the third strike. If the network delays a probe, the
 * next probe can arrive too soon after it. This second strike does no harm.
 */
const MAX_STRIKES = 1;

export interface PingerOptions {
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly ping: (opaque: number) => void;
  /** Returns whether any unary call is waiting for its response. Called about once a second. */
  readonly awaiting: () => boolean;
  /**
   * Returns the time, on the monotonic clock, by which the unanswered requests have reached the peer even over a slow
   * link. Until then, the silence of the peer proves nothing, because the probe may wait behind these requests.
   */
  readonly uploadedAt: () => number;
  /**
   * The peer is probably gone, or its answers are late: new calls should use another connection. Called at most once.
   */
  readonly suspected: () => void;
  /** Called instead of `lost` as long as `uploadedAt` postpones the loss. May be called several times. */
  readonly doubted: () => void;
  readonly answered: () => void;
  /** The peer has not answered in time. The connection then counts as lost. */
  readonly lost: () => void;
}

/** A probe that the peer has not answered yet. */
interface Probe {
  /** Identifies the probe in the answer. */
  readonly number: number;
  /** When the pinger sent the probe. All times are on the monotonic clock. */
  readonly sentAt: number;
  /**
   * Whether the answer proves that the connection is alive. If the process or its machine was stopped after the probe,
   * the kernel may have kept the answer during that time.
   */
  isProof: boolean;
  /** Whether requests wait for the answer. */
  isAwaited: boolean;
  /** When the last `PROGRESS_BYTES` after the probe were complete, and how many bytes have arrived since then. */
  progressAt: number;
  progressBytes: number;
}

/**
 * Detects a peer that no longer answers. At a fixed interval, the pinger sends a probe (a PING frame) on a connection
 * with open streams. It also sends a probe when the peer has sent no byte for a second after a request, and when a call
 * times out and no byte has arrived since the call's stream was opened. And it sends a probe before the first request
 * after a silence of `TRUST_MS` or a suspension of the machine, because the connection may have died unnoticed. The
 * connection sends no request until the peer has answered this last kind of probe (see `confirm`).
 *
 * etcd limits pings according to the rule of grpc-go (`handlePing` in internal/transport/http2_server.go; etcd sets
 * MinTime to 5 s and PermitWithoutStream to false): a ping that arrives sooner than MinTime after the previous ping, or
 * sooner than 2 h after the previous ping while no stream is open, is a strike. The third strike ends the connection
 * with GOAWAY, too_many_pings. When the server writes HEADERS or DATA, it resets the strikes to 0, and the next ping is
 * never a strike. Therefore:
 *
 * - The pinger probes only while a stream is open, or while a request waits for the answer. The response to that
 *   request then resets the strikes.
 * - The pinger measures the interval from the answer to the previous probe. The server received that probe before it
 *   sent the answer, so at least the interval passes between the two probes at the server.
 * - The pinger probes sooner if HEADERS or DATA arrived after that answer. Otherwise it probes sooner at most
 *   `MAX_STRIKES` times in a row. If a request waits and no probe is allowed, the pinger suspects the peer without a
 *   probe.
 *
 * A slow link with a large buffer looks like a dead link, because the answer to a probe can be late by a minute. The
 * pinger waits longer in two cases:
 *
 * - Bytes arrive from the peer: see `PROGRESS_BYTES`.
 * - A large request is unanswered. The kernel accepts megabytes for a peer that is gone, so accepted bytes prove
 *   nothing, and nothing shows whether the peer receives them. The pinger therefore waits for `uploadedAt`, a bound
 *   that follows from the length of the request. Meanwhile, new calls (`suspected`) and long-lived streams (`doubted`)
 *   leave the connection as early as they leave any silent connection.
 *
 * The timers of the pinger do not keep the process alive. The connection does so while an open stream requires it.
 */
export class Pinger {
  readonly #options: PingerOptions;
  /** Whether the pinger sends probes. With an infinite timeout, it sends none, because silence would prove nothing. */
  #isOn: boolean;
  #busy = false;
  /** The number of probes so far. */
  #count = 0;
  /** The last probe, until the peer answers it. */
  #probe: Probe | undefined;
  /** When the peer answered the last probe. */
  #answeredAt = Number.NEGATIVE_INFINITY;
  /** When the pinger was created, or when the client last read bytes. */
  #receivedAt = monotonicMs();
  /**
   * Whether the peer is trusted only after its answer to a probe, because the connection may have died unnoticed. If
   * the process or its machine was stopped, bytes prove nothing, because the kernel may have kept them all that time.
   */
  #isDoubted = false;
  /** How far the wall clock is ahead of the monotonic clock, as of the last call of `isTrusted`. */
  #aheadMs = environment.Date.now() - monotonicMs();
  /** When the client sent the first HEADERS or DATA after the last received byte. Infinity if it has sent none. */
  #sentAt = Number.POSITIVE_INFINITY;
  /** Whether HEADERS or DATA arrived after the answer to the last probe. If so, the server has reset its strikes. */
  #strikesReset = false;
  #strikes = 0;
  #suspectedAt: number | undefined;
  /** Stops the timer of the next probe, or of the answer to the last probe. */
  #stopTimer: (() => void) | undefined;
  #stopSilenceTimer: (() => void) | undefined;

  constructor(options: PingerOptions) {
    this.#options = options;
    this.#isOn = options.timeoutMs < Number.POSITIVE_INFINITY;
  }

  busy(busy: boolean): void {
    this.#busy = busy;
    // Send the first probe a whole interval from now, so that a time without streams does not shorten the interval.
    if (busy && this.#stopTimer === undefined) this.#armInterval();
  }

  /** The client has sent HEADERS or DATA. The peer is expected to send bytes in response. */
  sent(): void {
    if (this.#isUnanswered && this.#stopSilenceTimer !== undefined) return;
    const now = monotonicMs();
    this.#sentAt = Math.min(this.#sentAt, now);
    if (this.#stopSilenceTimer === undefined) this.#armSilence(now + SILENCE_MS);
  }

  received(bytes: number): void {
    const now = monotonicMs();
    if (this.#mayBeOld(now)) this.#doubt();
    this.#sentAt = Number.POSITIVE_INFINITY;
    this.#receivedAt = now;
    const probe = this.#probe;
    if (probe === undefined) return;
    probe.progressBytes += bytes;
    if (probe.progressBytes < PROGRESS_BYTES) return;
    probe.progressAt = now;
    probe.progressBytes = 0;
  }

  receivedHeadersOrData(): void {
    this.#strikesReset = true;
  }

  /**
   * A call times out. Its stream was opened at `openedAt` and is still open. If no byte has arrived since then, the
   * peer may be dead, and the pinger sends a probe. If etcd's limit does not allow a probe, the pinger suspects the
   * peer without a probe, provided that the silence has lasted for at least `SILENCE_MS + SUSPECT_MS`.
   */
  expired(openedAt: number): void {
    if (this.#receivedAt > openedAt || this.isProbing || !this.#isOn) return;
    const now = monotonicMs();
    if (this.#mayProbe(now)) return this.#sendProbe(now);
    if (now - this.#sentAt < SILENCE_MS + SUSPECT_MS) return;
    const judge = (): void => {
      if (this.#receivedAt < now) this.#suspect();
    };
    after(GRACE_MS, judge, 'background');
  }

  /** Whether a request may go out at `now`. If not, the request waits, and the connection calls `confirm`. */
  isTrusted(now: number): boolean {
    const wallMs = environment.Date.now();
    if (wallMs - now - this.#aheadMs > SUSPENDED_MS) this.#doubt();
    // Read the clocks in this order. If the process is stopped between two reads, the pinger may then send a needless
    // probe, but never omits a needed one.
    this.#aheadMs = wallMs - monotonicMs();
    return (!this.#isDoubted && now - this.#receivedAt <= TRUST_MS) || !this.#isOn;
  }

  /** Whether the kernel may have kept the bytes that the client reads at `now` for longer than `TRUST_MS`. */
  #mayBeOld(now: number): boolean {
    return now - this.#quietSince > TRUST_MS;
  }

  /** Trusts the peer only after its answer to a probe that the pinger sends from now on. */
  #doubt(): void {
    this.#isDoubted = true;
    if (this.#probe !== undefined) Object.assign(this.#probe, { isProof: false, isAwaited: false });
  }

  /**
   * Sends a probe, unless the peer is trusted or requests already wait for the answer. Calls `answered` if the peer
   * answers, and `suspected` if the peer does not answer within `CONFIRM_MS`. If etcd's limit does not allow a probe,
   * calls `suspected` at once. An answer to an earlier probe does not count, because it may have arrived before the
   * process was stopped.
   */
  confirm(now: number): void {
    if (this.#probe?.isAwaited || this.isTrusted(now)) return;
    if (!this.#mayProbe(now)) return this.#suspect();
    this.#sendProbe(now, true);
  }

  /** The peer has answered a PING. Only the answer to the last probe counts. */
  acknowledged(opaque: number): void {
    const probe = this.#probe;
    if (opaque !== probe?.number) return;
    this.#probe = undefined;
    if (probe.isProof) this.#isDoubted = false;
    this.#answeredAt = monotonicMs();
    this.#strikesReset = false;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.busy(this.#busy);
    this.#options.answered();
  }

  /** Whether the peer has not yet answered the last probe. */
  get isProbing(): boolean {
    return this.#probe !== undefined;
  }

  /** Whether the pinger suspects that the peer is gone, and no byte has arrived since the suspicion began. */
  get isSuspect(): boolean {
    return this.#suspectedAt !== undefined && this.#receivedAt <= this.#suspectedAt;
  }

  stop(): void {
    this.#isOn = false;
    this.#stopTimer?.();
    this.#stopSilenceTimer?.();
  }

  /** Whether the client has sent HEADERS or DATA, and no byte has arrived since. */
  get #isUnanswered(): boolean {
    return this.#sentAt < Number.POSITIVE_INFINITY;
  }

  /** Since when the peer has sent nothing after the last probe. */
  get #quietSince(): number {
    return Math.max(this.#probe?.sentAt ?? 0, this.#receivedAt);
  }

  /** Whether etcd's limit, as described at `Pinger`, allows a probe now. */
  #mayProbe(now: number): boolean {
    return this.#strikesReset || this.#strikes < MAX_STRIKES || !this.#isSoon(now);
  }

  /** Whether a probe now is sooner than etcd's limit allows if no HEADERS or DATA have reset the strikes. */
  #isSoon(now: number): boolean {
    const lastAt = this.#probe?.sentAt ?? this.#answeredAt;
    return now - lastAt < (this.#busy ? this.#options.intervalMs : IDLE_INTERVAL_MS);
  }

  #armInterval(): void {
    this.#arm(this.#options.intervalMs, () => {
      if (this.#busy && this.#isOn) this.#sendProbe(monotonicMs());
    });
  }

  #armSilence(dueMs: number): void {
    if (!this.#isOn) return;
    const look = (): void => {
      this.#stopSilenceTimer = undefined;
      this.#lookForSilence();
    };
    this.#stopSilenceTimer = at(dueMs, look, 'background');
  }

  /**
   * Sends a probe if the peer has been silent for `SILENCE_MS` and etcd's limit allows a probe. If the silence has been
   * shorter, starts the silence timer again. In all other cases, a later request starts the timer.
   */
  #lookForSilence(): void {
    if (!this.#busy || this.isProbing) return;
    if (!this.#isUnanswered && !this.#options.awaiting()) return;
    const now = monotonicMs();
    // Compare `now` with the sum. Rounding can make the difference of the two times a little less than `SILENCE_MS`
    // when the timer fires, and a timer for so small a rest would fire again and again.
    const dueMs = (this.#isUnanswered ? this.#sentAt : this.#receivedAt) + SILENCE_MS;
    if (now < dueMs) this.#armSilence(dueMs);
    else if (this.#mayProbe(now)) this.#sendProbe(now);
  }

  /** Sends a probe. `isAwaited` says whether requests wait for the answer. */
  #sendProbe(now: number, isAwaited = false): void {
    if (this.#strikesReset) this.#strikes = 0;
    else if (this.#isSoon(now)) this.#strikes += 1;
    if (isAwaited || this.#mayBeOld(now)) this.#isDoubted = true;
    this.#count += 1;
    const probe = { number: this.#count, sentAt: now, isProof: true, isAwaited, progressAt: now, progressBytes: 0 };
    this.#probe = probe;
    this.#options.ping(probe.number);
    this.#armJudgement(probe, now);
  }

  /** When the pinger suspects the peer: the peer is silent, or its answer to the probe is late. */
  #suspectAt({ sentAt, isAwaited }: Probe): number {
    const suspectAt = Math.min(this.#quietSince + SUSPECT_MS, sentAt + this.#options.timeoutMs);
    return isAwaited ? Math.min(sentAt + CONFIRM_MS, suspectAt) : suspectAt;
  }

  /** When the connection is lost, unless `uploadedAt` postpones the loss. */
  #doubtAt({ progressAt }: Probe): number {
    const { timeoutMs } = this.#options;
    return Math.min(this.#quietSince + timeoutMs, progressAt + MAX_TIMEOUTS * timeoutMs);
  }

  #armJudgement(probe: Probe, now: number): void {
    const doubtAt = this.#doubtAt(probe);
    const lostAt = now < doubtAt ? doubtAt : this.#options.uploadedAt();
    const due = this.#suspectedAt !== undefined ? lostAt : Math.min(lostAt, this.#suspectAt(probe));
    // The grace time has a separate timer. If the event loop was blocked, it reads the bytes that have arrived before
    // this second timer fires.
    this.#arm(due - now, () => this.#arm(GRACE_MS, () => this.#judge(probe)));
  }

  #judge(probe: Probe): void {
    const now = monotonicMs();
    const isInDoubt = now >= this.#doubtAt(probe);
    if (isInDoubt && now >= this.#options.uploadedAt()) return this.#options.lost();
    if (now >= this.#suspectAt(probe)) this.#suspect();
    if (isInDoubt) this.#options.doubted();
    if (this.#isOn) this.#armJudgement(probe, now);
  }

  #suspect(): void {
    if (this.#suspectedAt !== undefined || !this.#isOn) return;
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
