import fc from 'fast-check';

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
