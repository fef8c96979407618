import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BOUNDED } from './expressions/bounded-expressions.js';
import { expressionProblems } from './expressions/slow-expressions.js';

// Checks that no regular expression of src/ and packages/ takes exponential or polynomial time, because a peer, a user or the value of
// a key may choose the text. Mend a slow expression, or list it with the reason why its text is short.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const problems = expressionProblems(root, BOUNDED);
for (const problem of problems) console.log(problem);
if (problems.length > 0) process.exitCode = 1;
