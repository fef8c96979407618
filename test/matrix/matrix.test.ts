import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testedVersions } from '../support/thorough.js';
import { expectedVerdict, perform } from './exercise.js';
import { exerciseList, exercises } from './exercises.js';
import { type Matrix, openMatrix } from './open-matrix.js';

// `npm test` tests one version of etcd, `npm run test:all` the oldest and the newest local versions, and
// `npm run test:matrix` all versions.

/**
 * The etcd versions to test. Empty if ETCD_ENDPOINTS is set, because some of these tests, such as enabling
 * authentication, would disturb other tests on the same servers.
 */
const versions = process.env.ETCD_ENDPOINTS ? [] : await testedVersions();

if (versions.length === 0) {
  test('every RPC works, or rejects with Unimplemented on an older server', (context) =>
    context.skip('the tests cannot start servers of their own; npm run test:matrix can use other servers'));
}

describe.each(versions)('with etcd %s, the RPC', (version) => {
  let matrix: Matrix;
  beforeAll(async () => {
    matrix = await openMatrix(version);
  });
  afterAll(() => matrix?.close());

  test.each(exerciseList.map(([name, exercise]) => [name, expectedVerdict(exercise, version), exercise] as const))(
    '%s has the result %s',
    async (_, verdict, exercise) => {
      expect(await perform(exercise, matrix.context)).toBe(verdict);
    },
  );
});

test('the matrix has one exercise for each of the 49 RPCs', () => {
  const all = Object.values(exercises).flatMap((ofService) => Object.values(ofService));
  expect(new Set(all).size).toBe(49);
  expect(exerciseList.map(([, exercise]) => exercise)).toEqual(all);
});
