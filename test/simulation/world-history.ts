import type { Operation } from '../../src/testing/checks/history.js';
import { recorded } from '../../src/testing/checks/recorded-outcome.js';
import type { World } from './world.js';

/** A `History` of `etcdwire/testing` in the time of the world, because the clocks of two processes differ. */
export class WorldHistory<Call, Result> {
  readonly operations: Operation<Call, Result>[] = [];
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** Calls `act` and records the call, as `History.record` does. The outcome stays unknown if the process is killed. */
  async record(process: string, call: Call, act: () => Promise<Result>): Promise<Result> {
    const startMs = this.#world.time;
    const at = this.operations.length;
    const note = (outcome: Operation<Call, Result>['outcome'], result?: Result): void => {
      const endMs = outcome === 'unknown' ? Number.POSITIVE_INFINITY : this.#world.time;
      this.operations[at] = { process, call, startMs, endMs, outcome, result };
    };
    note('unknown');
    return recorded(act, note);
  }
}
