import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { startChild } from './child.js';
import { temporaryFolder } from './temporary-folder.js';

/** Entry points of the package, by where their sources are. */
const ENTRY_POINTS = {
  etcdwire: 'index',
  'etcdwire/concurrency': 'concurrency/index',
  'etcdwire/gateway': 'transport/gateway/index',
  'etcdwire/testing': 'testing/index',
  'etcdwire/grpc-js': 'grpc-js',
};

/** Runs an example as it stands, but with the sources in place of the package, to its end. Gives what it prints. */
export async function runProgram(
  program: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<string[]> {
  const file = join(temporaryFolder(), 'program.mts');
  const prepared = Object.entries(ENTRY_POINTS).reduce(
    (code, [name, source]) =>
      code.replaceAll(`from '${name}'`, `from '${new URL(`../../src/${source}.ts`, import.meta.url).pathname}'`),
    program,
  );
  writeFileSync(file, prepared);
  const child = startChild(process.execPath, ['--import', 'tsx', file], { environment });
  const lines = await child.rest();
  expect(await child.exited).toBe(0);
  return lines;
}
