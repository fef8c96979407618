import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MUTATIONS, type Mutation } from './mutate/mutations.js';

// Makes known mistakes one by one in a copy of the tree, and shows which test sees each. Fails where none does.
//   npm run test:mutations -- [REGEX of the mistakes to make]

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const RUN_TIMEOUT_MS = 600_000;

interface JsonReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

function main(): void {
  const wanted = new RegExp(process.argv[2] ?? '', 'i');
  const mutations = MUTATIONS.filter(({ mistake }) => wanted.test(mistake));
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-mutate-'));
  try {
    copyTree(folder);
    console.log('| mistake | seen by |\n|---|---|');
    for (const [index, mutation] of mutations.entries()) {
      process.stderr.write(`${index + 1} of ${mutations.length}: ${mutation.mistake}\n`);
      const seenBy = firstFailure(folder, mutation);
      console.log(`| ${mutation.mistake} | ${seenBy ?? 'NOTHING'} |`);
      if (seenBy === undefined) process.exitCode = 1;
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What git knows of, as it is now. */
function copyTree(folder: string): void {
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root });
  spawnSync('tar', ['-cf', join(folder, 'tree.tar'), '--null', '-T', '-'], { cwd: root, input: files });
  execFileSync('tar', ['-xf', 'tree.tar'], { cwd: folder });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
}

/** The name of the first test that fails with the mistake in place; undefined where all pass. */
function firstFailure(folder: string, { file, find, replace, tests }: Mutation): string | undefined {
  const path = join(folder, file);
  const code = readFileSync(path, 'utf8');
  if (code.split(find).length !== 2) throw new Error(`${file}: "${find}" does not stand there exactly once`);
  writeFileSync(
    path,
    code.replace(find, () => replace),
  );
  try {
    const report = join(folder, 'report.json');
    rmSync(report, { force: true });
    const args = ['vitest', 'run', '--project', 'http2', '--bail', '1', '--reporter', 'json', '--outputFile', report];
    spawnSync('npx', [...args, ...tests], { cwd: folder, timeout: RUN_TIMEOUT_MS, stdio: 'ignore' });
    const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as JsonReport;
    for (const { assertionResults } of testResults) {
      const failed = assertionResults.find(({ status }) => status === 'failed');
      if (failed !== undefined) return failed.fullName.trim();
    }
    return undefined;
  } finally {
    writeFileSync(path, code);
  }
}

main();
