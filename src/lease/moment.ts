import { bootMs } from '../host/node.js';
import { environment } from '../runtime/environment.js';
import { monotonicMs } from '../runtime/timers.js';

/**
 * A point in time on each clock of the machine, in milliseconds. While a machine is suspended, its monotonic clock may
 * stand still, but a lease on the server does not wait. The wall clock goes on, but it may also be set. The boot clock
 * goes on and cannot be set, but only some hosts have it. The lifetime of a lease is over as soon as it is over on one
 * of the clocks, so that a clock can only shorten the lease.
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
