import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { MUTATIONS } from '../../scripts/mutate/mutations.js';

const ROOT = join(import.meta.dirname, '../..');

test.for(MUTATIONS.map((mutation) => [mutation.bug, mutation] as const))(
  'the mutation "%s" matches exactly one place in its source file, and every test that it lists exists',
  ([, { file, find, replace, tests }]) => {
    expect(readFileSync(join(ROOT, file), 'utf8').split(find)).toHaveLength(2);
    expect(replace).not.toBe(find);
    const missing = tests.filter((path) => ![path, `${path}.test.ts`].some((each) => existsSync(join(ROOT, each))));
    expect(missing).toEqual([]);
  },
);
