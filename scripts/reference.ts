import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

// Writes docs/reference from the doc comments of what the package exports:
//   npm run docs:reference
// Fails if an exported item refers to one that is not exported, or if a link leads nowhere.

const folder = fileURLToPath(new URL('reference', import.meta.url));
execFileSync('npm', ['exec', '--', 'typedoc', '--logLevel', 'Warn'], { cwd: folder, stdio: 'inherit' });
