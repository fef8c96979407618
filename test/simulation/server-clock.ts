import type { Clock } from '../../src/testing/memory/clock.js';
import type { World } from './world.js';

/** Returns the clock of the servers. `what` describes its timers. */
export function serverClock(world: World, what: string): Clock {
  const { outside } = world;
  return {
    now: () => outside.clockAt(world.now),
    after: (delayMs, action) => world.at(world.now + outside.worldMs(delayMs), outside, 'timer', what, action),
  };
}
