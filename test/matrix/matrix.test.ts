import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { versionsAtHand } from '../../scripts/etcd/find.js';
import { expectedVerdict, perform } from './exercise.js';
import { exerciseList, exercises } from './exercises.js';
import { type Matrix, openMatrix } from './open-matrix.js';

// `npm run test:matrix` does the same with every version.

/** The exercises turn authentication on, among other things that whoever shares a server would notice. */
const versions = process.env.ETCD_ENDPOINTS ? [] : await versionsAtHand();
const ends = [...new Set([versions.at(-1), versions[0]])].filter((version) => version !== undefined);

if (ends.length === 0) {
  test('every RPC works, or is refused as the version has it', (context) =>
    context.skip('no version is at hand whose servers are ours alone; npm run test:matrix takes others'));
}

describe.each(ends)('etcd %s, by every RPC there is', (version) => {
  let matrix: Matrix;
  beforeAll(async () => {
    matrix = await openMatrix(version);
  });
  afterAll(() => matrix?.close());

  test.each(exerciseList.map(([name, exercise]) => [name, expectedVerdict(exercise, version), exercise] as const))(
    '%s: %s',
    async (_, verdict, exercise) => {
      expect(await perform(exercise, matrix.context)).toBe(verdict);
    },
  );
});

test('there is one exercise for each of the 49 RPCs', () => {
  const all = Object.values(exercises).flatMap((ofService) => Object.values(ofService));
  expect(new Set(all).size).toBe(49);
  expect(exerciseList.map(([, exercise]) => exercise)).toEqual(all);
});
