import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { ENTRY_POINTS } from '../../scripts/entry-points.js';
import { startChild } from './child.js';
import { temporaryFolder } from './temporary-folder.js';

/** Runs an example, unchanged except that it imports the sources instead of the package. Resolves with its output. */
export async function runProgram(
  program: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<string[]> {
  const file = join(temporaryFolder(), 'program.mts');
  const prepared = [...ENTRY_POINTS].reduce((code, [path, name]) => {
    const source = new URL(`../../src/${path.replace(/\.js$/, '.ts')}`, import.meta.url).pathname;
    return code.replaceAll(`from '${name}'`, `from '${source}'`);
  }, program);
  writeFileSync(file, prepared);
  const child = startChild(process.execPath, ['--import', 'tsx', file], { environment });
  const lines = await child.rest();
  expect(await child.exited).toBe(0);
  return lines;
}
