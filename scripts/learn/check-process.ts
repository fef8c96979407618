import { pathToFileURL } from 'node:url';
import { CHECKS } from './checks.js';

// Checks the program of a chapter in a separate process, because the program may block or end its process. Prints the
// result of each check as a line of JSON. Arguments: the number of the chapter, the address of the server, and the
// files whose exports are checked.

/** The result of a check. `error` is missing if the check passed. */
export interface Result {
  readonly index: number;
  readonly status: 'passed' | 'failed' | 'to do';
  readonly error?: string;
}

const [chapter, address = '', ...files] = process.argv.slice(2);
const modules = await Promise.all(files.map((file) => import(pathToFileURL(file).href)));
const exports = Object.assign({}, ...modules) as Record<string, unknown>;
for (const [index, check] of (CHECKS[Number(chapter)] ?? []).entries()) {
  const print = (result: Omit<Result, 'index'>): void => console.log(JSON.stringify({ index, ...result }));
  if (exports[check.needs] === undefined) {
    const error = `the program does not export ${check.needs}`;
    print(check.exercise === undefined ? { status: 'failed', error } : { status: 'to do' });
    continue;
  }
  try {
    await check.run(exports, address);
    print({ status: 'passed' });
  } catch (error) {
    print({ status: 'failed', error: error instanceof Error ? error.message : String(error) });
  }
}
process.exit();
