import fc from 'fast-check';
import { VirtualClock } from './virtual-clock.js';

/**
 * Generates scripts. A script is a sequence of steps of several kinds. Each script draws a weight for each kind, so it
 * may prefer some kinds and omit others. Some states are reached only after several steps of one kind.
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

/** Executes the steps of one script. */
export interface Play<Step> {
  step(step: Step): Promise<void>;
  /** Makes the final checks. Resolves with a word that classifies the run, for `FuzzTarget.check`. */
  end(): Promise<string>;
}

/**
 * Returns a function that runs a script on a virtual clock. Only the steps of the script advance this clock. `begin`
 * returns the object that executes the steps.
 */
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
