import type { Clock } from '../memory/clock.js';

/** The number of early pings that the server tolerates: `maxPingStrikes` of grpc-go. */
const MAX_STRIKES = 2;
/** The minimum interval between pings on a connection without streams: `defaultPingTimeout` of grpc-go. */
const IDLE_INTERVAL_MS = 7_200_000;

/**
 * Counts the pings that arrive too early, as grpc-go does (`handlePing` in http2_server.go). When the server sends
 * HEADERS or DATA, the next ping resets the count.
 */
export class PingPolicy {
  readonly #clock: Clock;
  readonly #minIntervalMs: number;
  #strikes = 0;
  #lastAt = Number.NEGATIVE_INFINITY;
  #isReset = false;

  /** A `minIntervalMs` of 0 allows all pings. */
  constructor(clock: Clock, minIntervalMs: number) {
    this.#clock = clock;
    this.#minIntervalMs = minIntervalMs;
  }

  /** Called when the server has sent HEADERS or DATA. */
  sent(): void {
    this.#isReset = true;
  }

  /** Called when the client has sent PING. Returns false if the client has sent too many early pings. */
  allows(hasStreams: boolean): boolean {
    if (this.#minIntervalMs === 0) return true;
    const now = this.#clock.now();
    const sinceLastMs = now - this.#lastAt;
    this.#lastAt = now;
    if (this.#isReset) this.#strikes = 0;
    else if (sinceLastMs < (hasStreams ? this.#minIntervalMs : IDLE_INTERVAL_MS)) this.#strikes += 1;
    this.#isReset = false;
    return this.#strikes <= MAX_STRIKES;
  }
}
