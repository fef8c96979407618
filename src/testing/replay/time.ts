import { monotonicMs, pauseUntil } from '../../base/index.js';
import type { ManualClock } from '../memory/clock.js';

/**
 * How long after its end a lease may still live in a recording. etcd looks for expired leases every 500 ms, and a busy
 * member is later.
 */
const LATE_EXPIRY_MS = 3_000;

/** The time of a replay. */
export interface ReplayTime {
  /** Waits until the time of a step. */
  reach(ms: number): Promise<void>;
  /** A lease has been granted or renewed. */
  renewed(id: string, ttlSeconds: number): void;
  /** A lease has been revoked. */
  revoked(id: string): void;
  /** Makes a lease expire by the time. Returns false if the time cannot do that. */
  expire(id: string): boolean;
}

/**
 * Moves the clock of a `MemoryEtcd` to the recorded times. A `MemoryEtcd` revokes a lease exactly at its end, but the
 * recorded member revoked it later. So the clock waits before the end of a lease until a step says that the lease has
 * expired, or until no member would be that late.
 */
export class ManualTime implements ReplayTime {
  readonly #clock: ManualClock;
  readonly #startMs: number;
  readonly #dueMs = new Map<string, number>();

  constructor(clock: ManualClock) {
    this.#clock = clock;
    this.#startMs = clock.now();
  }

  async reach(ms: number): Promise<void> {
    const wantedMs = this.#startMs + ms;
    for (;;) {
      const next = this.#next();
      if (next === undefined || wantedMs < next.dueMs) return this.#moveTo(wantedMs);
      if (wantedMs < next.dueMs + LATE_EXPIRY_MS) return this.#moveTo(next.dueMs - 1);
      this.expire(next.id);
    }
  }

  renewed(id: string, ttlSeconds: number): void {
    this.#dueMs.set(id, this.#clock.now() + ttlSeconds * 1_000);
  }

  revoked(id: string): void {
    this.#dueMs.delete(id);
  }

  expire(id: string): boolean {
    const dueMs = this.#dueMs.get(id);
    if (dueMs === undefined) return false;
    this.#dueMs.delete(id);
    this.#moveTo(dueMs);
    return true;
  }

  #next(): { readonly id: string; readonly dueMs: number } | undefined {
    let first: { readonly id: string; readonly dueMs: number } | undefined;
    for (const [id, dueMs] of this.#dueMs) if (first === undefined || dueMs < first.dueMs) first = { id, dueMs };
    return first;
  }

  #moveTo(ms: number): void {
    this.#clock.advance(Math.max(0, ms - this.#clock.now()));
  }
}

/** The real time. Without a speed, no step waits. With the speed 2, the replay takes half the recorded time. */
export function realReplayTime(speed: number | undefined): ReplayTime {
  const startMs = monotonicMs();
  return {
    reach: async (ms) => {
      if (speed !== undefined) await pauseUntil(startMs + ms / speed);
    },
    renewed: () => {},
    revoked: () => {},
    expire: () => false,
  };
}
