import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CODE_FOLDERS } from './rooms.js';

// Checks that no source file has more than `MAX_LINES` lines, so that a reader can read each file in one go. If a file
// is too long, move a part that holds a separate concept to a new file.

const MAX_LINES = 400;
const FOLDERS = [...CODE_FOLDERS, 'scripts', 'test/support'];
/** The code that `npm run generate` writes. */
const GENERATED = /^(?:src\/gen\/|packages\/cli\/src\/comments\.ts$)/;

/** Files that contain tables, which may be longer. */
const LONG_FILES: ReadonlySet<string> = new Set(['scripts/mutate/mutations.ts', 'test/support/public-calls.ts']);

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const lengths = new Map<string, number>();
for (const folder of FOLDERS)
  for (const path of readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })) {
    const file = `${folder}/${path.replaceAll('\\', '/')}`;
    if (!file.endsWith('.ts') || file.includes('/node_modules/') || GENERATED.test(file)) continue;
    lengths.set(file, readFileSync(join(root, file), 'utf8').trimEnd().split('\n').length);
  }

const violations: string[] = [];
for (const [file, lines] of lengths)
  if (lines > MAX_LINES && !LONG_FILES.has(file))
    violations.push(
      `${file} has ${lines} lines, more than ${MAX_LINES}; move a part that can be understood alone to a new file`,
    );
for (const file of LONG_FILES)
  if ((lengths.get(file) ?? 0) <= MAX_LINES)
    violations.push(`${file} has at most ${MAX_LINES} lines; remove it from LONG_FILES in scripts/check-length.ts`);

for (const violation of violations) console.log(violation);
if (violations.length > 0) process.exitCode = 1;
