import { environment, monotonicMs } from '../../base/index.js';
import { bootMs } from '../../host/node.js';

/**
 * A point in time on each clock of the machine, in milliseconds. While a machine is suspended, its monotonic clock may
 * stop, but the TTL of a lease continues to run on the server. The wall clock continues to run, but a user or a program
 * may set it. The boot clock continues to run and cannot be set, but only some hosts have this clock. The client treats
 * the lifetime of a lease as over as soon as it is over on one of the clocks, so that a clock can only shorten it.
 */
export class Moment {
  readonly monotonic: number;
  readonly wall: number;
  readonly boot: number;

  /** Reads the clocks, and subtracts `agoMs`. Assumes that the machine was not suspended during this time. */
  constructor(agoMs = 0) {
    this.monotonic = monotonicMs() - agoMs;
    this.wall = environment.Date.now() - agoMs;
    this.boot = ((environment.bootMs ?? bootMs)() ?? 0) - agoMs;
  }

  /** Returns the milliseconds since `then` on the clock that has advanced most. */
  since(then: Moment): number {
    return Math.max(this.monotonic - then.monotonic, this.wall - then.wall, this.boot - then.boot);
  }
}
