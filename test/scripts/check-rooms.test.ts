import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.js';

/** Runs check:rooms on these files, whose paths are relative to src/. Returns the lines that it prints. */
function violationsIn(files: Readonly<Record<string, string>>): string[] {
  const folder = temporaryFolder();
  for (const [file, code] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, 'src', file)), { recursive: true });
    writeFileSync(join(folder, 'src', file), code);
  }
  const { stdout, status } = spawnSync('npx', ['tsx', 'scripts/check-rooms.ts', folder], { encoding: 'utf8' });
  const lines = stdout.split('\n').filter((line) => line !== '');
  expect(status).toBe(lines.length === 0 ? 0 : 1);
  return lines;
}

const DOORS = {
  'base/index.ts': "export { a } from './a.js';\n",
  'base/a.ts': 'export const a = 1;\n',
  'locks/index.ts': "export { lock } from './lock.js';\n",
};

test('check:rooms accepts an import from a lower room through its door', () => {
  expect(violationsIn({ ...DOORS, 'locks/lock.ts': "export { a as lock } from '../base/index.js';\n" })).toEqual([]);
});

test('check:rooms accepts a package that imports an entry point and src/internal.ts', () => {
  const main = "import '../../../src/core.js';\nimport '../../../src/internal.js';\n";
  const files = { 'locks/lock.ts': '', 'core.ts': '', 'internal.ts': '', '../packages/cli/src/main.ts': main };
  expect(violationsIn({ ...DOORS, ...files })).toEqual([]);
});

test.each<[string, Record<string, string>, string]>([
  [
    'an import from a higher room, also of a type',
    { 'locks/lock.ts': 'export type lock = 1;\n', 'base/b.ts': "import type { lock } from '../locks/index.js';\n" },
    'src/base/b.ts imports src/locks/index.ts, which is in a higher room',
  ],
  [
    'an import that is not through a door',
    { 'locks/lock.ts': "export { a as lock } from '../base/a.js';\n" },
    'src/locks/lock.ts imports src/base/a.ts, which is not a door of its room',
  ],
  [
    'a file outside the rooms',
    { 'locks/lock.ts': '', 'elsewhere/x.ts': '' },
    'src/elsewhere/x.ts is in no room of scripts/rooms.ts',
  ],
  [
    'a package that imports from a room',
    { 'locks/lock.ts': '', '../packages/cli/src/main.ts': "import '../../../src/base/index.js';\n" },
    'packages/cli/src/main.ts imports src/base/index.ts, which is not an entry point and not src/internal.ts',
  ],
  [
    'a room that imports from a package',
    { 'locks/lock.ts': "import '../../packages/cli/src/main.js';\n", '../packages/cli/src/main.ts': '' },
    'src/locks/lock.ts imports packages/cli/src/main.ts, which is in a higher room',
  ],
  [
    'two files of the core with the same words in their names',
    { 'locks/lock.ts': '', 'locks/a-b.ts': '', 'base/b-a.ts': '' },
    'src/locks/a-b.ts and src/base/b-a.ts have names of the same words',
  ],
  [
    'a circle of imports',
    { 'locks/lock.ts': "import './index.js';\n" },
    'circular imports: src/locks/index.ts imports src/locks/lock.ts imports src/locks/index.ts',
  ],
  [
    'a module of Node.js in a room for all runtimes',
    { 'locks/lock.ts': "import { readFileSync } from 'node:fs';\n" },
    'src/locks/lock.ts uses node:fs, which scripts/rooms.ts does not allow in this place',
  ],
  [
    'a clock that a simulation cannot replace',
    { 'locks/lock.ts': 'export const lock = Date.now();\n' },
    'src/locks/lock.ts uses Date.now; use src/base/timers.ts or environment.Date.now instead',
  ],
])('check:rooms refuses %s', (_, files, violation) => {
  expect(violationsIn({ ...DOORS, ...files })).toEqual([violation]);
});
