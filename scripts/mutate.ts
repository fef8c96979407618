import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SUITES } from '../test/support/suites.js';
import type { Mutation } from './mutate/mutation.js';
import { MUTATIONS } from './mutate/mutations.js';

// Introduces known bugs into a copy of the source tree, one at a time, and prints the test that detects each bug. Fails
// if the tests do not detect all bugs.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const USAGE = 'npm run test:mutations -- [REGEX]\n\nREGEX selects bugs by their descriptions.\n';
const RUN_TIMEOUT_MS = 600_000;

/** `failed` is the name of the first test that failed. `broken` is the reason why the tests could not run. */
type Outcome = 'passed' | { readonly failed: string } | { readonly broken: string };

interface JsonReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

function main(): void {
  if (process.argv.includes('--help')) return void process.stdout.write(USAGE);
  const wanted = new RegExp(process.argv[2] ?? '', 'i');
  const mutations = MUTATIONS.filter(({ bug }) => wanted.test(bug));
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-mutate-'));
  try {
    copyTree(folder);
    console.log('| bug | detected by |\n|---|---|');
    const withoutMistake = new Map<string, Outcome>();
    for (const [index, mutation] of mutations.entries()) {
      process.stderr.write(`${index + 1} of ${mutations.length}: ${mutation.bug}\n`);
      const key = mutation.tests.join(' ');
      // Tests that fail without the bug cannot detect it.
      const before = withoutMistake.get(key) ?? run(folder, mutation.tests);
      withoutMistake.set(key, before);
      const outcome = before === 'passed' ? withMistake(folder, mutation) : before;
      const isDetected = before === 'passed' && typeof outcome === 'object' && 'failed' in outcome;
      console.log(`| ${mutation.bug} | ${isDetected ? outcome.failed : problemOf(before, outcome)} |`);
      if (!isDetected) process.exitCode = 1;
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Copies all files that git does not ignore into the folder, including uncommitted changes. */
function copyTree(folder: string): void {
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root });
  spawnSync('tar', ['-cf', join(folder, 'tree.tar'), '--null', '-T', '-'], { cwd: root, input: files });
  execFileSync('tar', ['-xf', 'tree.tar'], { cwd: folder });
  for (const path of ['node_modules', 'packages/migrate/node_modules'])
    symlinkSync(join(root, path), join(folder, path));
}

function withMistake(folder: string, { file, find, replace, tests }: Mutation): Outcome {
  const path = join(folder, file);
  const code = readFileSync(path, 'utf8');
  if (code.split(find).length !== 2) throw new Error(`${file} must contain "${find}" exactly once`);
  writeFileSync(
    path,
    code.replace(find, () => replace),
  );
  try {
    return run(folder, tests);
  } finally {
    writeFileSync(path, code);
  }
}

function run(folder: string, tests: readonly string[]): Outcome {
  const report = join(folder, 'report.json');
  rmSync(report, { force: true });
  const args = [
    'run',
    ...SUITES.flatMap((suite) => ['--project', suite]),
    '--bail',
    '1',
    '--reporter',
    'json',
    '--outputFile',
    report,
  ];
  const vitest = join(folder, 'node_modules/vitest/vitest.mjs');
  const options = { cwd: folder, timeout: RUN_TIMEOUT_MS, stdio: 'ignore' } as const;
  const { error, signal } = spawnSync(process.execPath, [vitest, ...args, ...tests], options);
  if (error !== undefined) return { broken: error.message };
  if (signal !== null) return { broken: `the tests were killed by ${signal}` };
  if (!existsSync(report)) return { broken: 'the tests wrote no report' };
  const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as JsonReport;
  const results = testResults.flatMap(({ assertionResults }) => assertionResults);
  const failed = results.find(({ status }) => status === 'failed');
  if (failed !== undefined) return { failed: failed.fullName.trim() };
  // If a test file cannot be loaded, the report marks the file as failed but contains no failed test of it.
  const [unloaded] = testResults.filter(({ status }) => status === 'failed');
  if (unloaded !== undefined) return { broken: `${relative(folder, unloaded.name)} cannot be loaded` };
  return results.some(({ status }) => status === 'passed') ? 'passed' : { broken: 'no test ran' };
}

function problemOf(before: Outcome, outcome: Outcome): string {
  if (outcome === 'passed') return 'NOTHING';
  const problem = 'failed' in outcome ? outcome.failed : outcome.broken;
  return before === 'passed' ? `NOTHING: ${problem}` : `NOTHING: the tests also fail without the bug: ${problem}`;
}

main();
