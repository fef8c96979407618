import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

// Writes docs/reference from the doc comments of what the package exports:
//   npm run docs:reference
// What is exported and refers to what is not, or links to nothing, is an error.

const folder = fileURLToPath(new URL('reference', import.meta.url));
execFileSync('npm', ['exec', '--', 'typedoc', '--logLevel', 'Warn'], { cwd: folder, stdio: 'inherit' });
