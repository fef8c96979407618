import fc from 'fast-check';
import { VirtualClock } from './virtual-clock.js';

/**
 * Steps of several kinds in a row. Each script has some kinds much more often than others, and some not at all: what takes
 * several of a kind comes about so.
 */
export function script<Step>(kinds: readonly fc.Arbitrary<Step>[], maxLength: number): fc.Arbitrary<readonly Step[]> {
  const weights = fc.array(fc.constantFrom(0, 1, 4, 16), { minLength: kinds.length, maxLength: kinds.length });
  return weights.chain((drawn) => {
    const least = drawn.some((weight) => weight > 0) ? 0 : 1;
    const step = fc.oneof(
      ...kinds.map((arbitrary, index) => ({ arbitrary, weight: Math.max(least, drawn[index] as number) })),
    );
    return fc.array(step, { maxLength, size: 'max' });
  });
}

/** What a script is played with. */
export interface Play<Step> {
  step(step: Step): Promise<void>;
  /** Tells in one word how it went. */
  end(): Promise<string>;
}

/** Plays a script in time that passes only as it says. */
export function playing<Step>(begin: (clock: VirtualClock) => Play<Step>): (steps: readonly Step[]) => Promise<string> {
  return async (steps) => {
    const clock = new VirtualClock();
    try {
      const play = begin(clock);
      for (const step of steps) await play.step(step);
      return await play.end();
    } finally {
      clock.restore();
    }
  };
}
