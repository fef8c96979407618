import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { ENTRY_POINTS } from '../../../scripts/entry-points.js';
import { startChild } from '../../../test/support/child.js';
import { unique } from '../../../test/support/client.js';
import { migrate } from './project.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Copies a program, rewrites the copy, and returns its folder and the output of `etcdwire-migrate --json`. */
function migrated(program: string) {
  const folder = join(root, '.cache', unique('migrated'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(folder, { recursive: true });
  cpSync(new URL(`programs/${program}/`, import.meta.url), folder, { recursive: true });
  const { code, stdout } = migrate([folder, '--json']);
  expect(code).toBe(0);
  const { files, unchanged } = JSON.parse(stdout) as {
    readonly files: readonly { readonly rewritten: number; readonly marks: readonly object[] }[];
    readonly unchanged: readonly object[];
  };
  expect(unchanged).toEqual([]);
  const rewritten = files.reduce((sum, file) => sum + file.rewritten, 0);
  const marked = files.reduce((sum, file) => sum + file.marks.length, 0);
  return { folder, rewritten, marked };
}

/** Checks the types of a program against the sources of etcdwire. Resolves with the errors, without their positions. */
async function typeErrors(folder: string): Promise<readonly string[]> {
  const paths = [...ENTRY_POINTS].map(([path, name]) => [name, [join(root, 'src', path.replace(/\.js$/, '.ts'))]]);
  const config = {
    extends: join(root, 'packages/migrate/test/programs/tsconfig.json'),
    compilerOptions: { paths: Object.fromEntries(paths) },
    include: ['.'],
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  const child = startChild(process.execPath, [compiler, '-p', folder]);
  const lines = (await child.rest()).filter((line) => line.includes(': error TS'));
  await child.exited;
  return lines.map((line) => relative(folder, join(process.cwd(), line)).replace(/\(.*?error /, ': ')).sort();
}

// Each number of these tests is a measurement. A change of the program that makes it worse is an error.

test('`etcdwire-migrate` rewrites a feature-flag service with a container, routes and a cache', async () => {
  const { folder, rewritten, marked } = migrated('flags');
  expect({ rewritten, marked }).toEqual({ rewritten: 23, marked: 10 });
  expect(await typeErrors(folder)).toEqual([
    "container.ts: TS2339: Property 'credentials' does not exist on type 'ClientOptions'.",
    "container.ts: TS2540: Cannot assign to 'auth' because it is a read-only property.",
    ...Array(3).fill("store.ts: TS2339: Property 'on' does not exist on type 'Watch'."),
    "store.ts: TS7006: Parameter 'error' implicitly has an 'any' type.",
    "store.ts: TS7006: Parameter 'kv' implicitly has an 'any' type.",
  ]);
}, 60_000);

test('`etcdwire-migrate` rewrites a scheduler with an election, locks and a watched configuration', async () => {
  const { folder, rewritten, marked } = migrated('scheduler');
  expect({ rewritten, marked }).toEqual({ rewritten: 22, marked: 23 });
  expect(await typeErrors(folder)).toEqual([
    "scheduler.ts: TS2339: Property 'election' does not exist on type 'Client'.",
    "scheduler.ts: TS2339: Property 'lock' does not exist on type 'Client'.",
    "scheduler.ts: TS2339: Property 'on' does not exist on type 'Watch'.",
    ...Array(2).fill('scheduler.ts: TS2349: This expression is not callable.'),
    ...Array(2).fill("scheduler.ts: TS2531: Object is possibly 'null'."),
    "scheduler.ts: TS7006: Parameter 'kv' implicitly has an 'any' type.",
  ]);
}, 60_000);

test('`etcdwire-migrate` rewrites a service registry in JavaScript with factories in several files', () => {
  const { rewritten, marked } = migrated('registry');
  expect({ rewritten, marked }).toEqual({ rewritten: 15, marked: 11 });
});
