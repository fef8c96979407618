/**
 * The simulated time at which a world begins, in milliseconds. It is not 0, so that code that assumes a start at 0
 * fails.
 */
export const START_MS = 1_000;
/** An upper bound of the rounding error of a computed time, in milliseconds. */
export const ROUNDING_MS = 1e-6;

/** A clock that a suspension may stop in addition to the monotonic clock. */
export type OtherClock = 'wall' | 'boot';

/** A timer that has not fired yet. */
export interface PendingTimer {
  /** The calls that have started the timer, if the world records its steps. */
  readonly stack: string | undefined;
}

/** A simulated process of the operating system: its code runs only in its own events. */
export class Process {
  readonly name: string;
  /** The process runs no event before this time. */
  stalledUntil = 0;
  /**
   * The time that the process has reached, if that is later than the time of the world: the process was stopped in the
   * middle of an event. No other code runs in that event, so the rest of the event happens at this time.
   */
  reached = 0;
  /**
   * The number of clock reads until the process stops in the middle of an event, and for how long it then stops.
   * `suspends`: the machine is suspended, and `alsoStops` is as in `World.suspend`.
   */
  stop:
    | { reads: number; readonly ms: number; readonly suspends?: { readonly alsoStops: OtherClock | undefined } }
    | undefined;
  /** When the process was last stopped in the middle of an event, and when it continued. Undefined if it never was. */
  lastStop: { readonly fromMs: number; readonly untilMs: number } | undefined;
  /** Whether the process was killed. A killed process never runs again. */
  isKilled = false;
  /**
   * The number of events that the process still runs, and the function that then kills the process. Undefined if
   * nothing is going to kill it.
   */
  end: { events: number; readonly kill: () => void } | undefined;
  /** How fast the clocks and timers of the process run: milliseconds in each millisecond of the world. */
  rate = 1;
  /** Offset of the wall clock of the process in milliseconds. */
  wallOffsetMs = 0;
  /** Offset of the boot clock of the process in milliseconds. */
  bootOffsetMs = 0;
  /** The suspensions of the machine of the process, in milliseconds of the world. */
  readonly suspensions: { readonly fromMs: number; readonly untilMs: number }[] = [];
  /** How long the machine was suspended in total, in milliseconds of the world. */
  suspendedMs = 0;
  /** When the latest suspension of the machine ends. */
  resumesAt = 0;
  /**
   * When the wall clock or the boot clock last gained on the monotonic clock: the clock was set forward, or went on
   * during a suspension.
   */
  leapedAt = 0;
  /** The pending timers that keep the process alive. */
  readonly foreground = new Set<PendingTimer>();

  constructor(name: string) {
    this.name = name;
  }

  /** Returns the time on the clock of the process at a time of the world, if no suspension stops this clock. */
  clockAt(worldMs: number): number {
    return START_MS + (worldMs - START_MS) * this.rate;
  }

  /** Returns the time on the monotonic clock of the process at a time of the world after all earlier suspensions. */
  monotonicAt(worldMs: number): number {
    return this.clockAt(Math.max(worldMs, this.resumesAt) - this.suspendedMs);
  }

  /** Returns how long the machine of the process was suspended after a time of the world. */
  suspendedSince(worldMs: number): number {
    let sum = 0;
    for (const { fromMs, untilMs } of this.suspensions) sum += Math.max(0, untilMs - Math.max(fromMs, worldMs));
    return sum;
  }

  /**
   * Returns how long a timer of the process takes in the world. The timer never fires early on the clock of the
   * process.
   */
  worldMs(delayMs: number): number {
    return this.rate === 1 ? delayMs : delayMs / this.rate + ROUNDING_MS;
  }

  /** Returns the time of the world at a time on the monotonic clock of the process, after all suspensions so far. */
  worldAt(monotonicMs: number): number {
    return START_MS + (monotonicMs - START_MS) / this.rate + this.suspendedMs;
  }
}
