import { AssertionError } from 'node:assert';
import { dirname, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CHECKS } from './checks.js';

// Checks the program of a chapter in a separate process, because the program may block or end its process. Prints the
// result of each check as a line of JSON. Arguments: the number of the chapter, the address of the server, and the
// files whose exports are checked.

/** The result of a check. `error` is missing if the check passed, or if an earlier result contains the error. */
export interface Result {
  readonly index: number;
  readonly status: 'passed' | 'failed' | 'to do';
  readonly error?: string;
}

const [chapter, address = '', ...files] = process.argv.slice(2);
const checks = CHECKS[Number(chapter)] ?? [];
const folders = files.map(dirname);

function print(result: Result): void {
  console.log(JSON.stringify(result));
}

/** Describes an error. If the reader's program threw it, adds the line of the program. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof AssertionError) return error.message;
  const lines = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  const line = lines.find((each) => folders.some((folder) => each.includes(folder)));
  return line === undefined ? error.message : `${error.message}\n${line.replace(`${process.cwd()}${sep}`, '').trim()}`;
}

/** Loads the files. If this fails, for example because of a syntax error, prints that no check could run. */
async function load(): Promise<Record<string, unknown>> {
  try {
    const modules = await Promise.all(files.map((file) => import(pathToFileURL(file).href)));
    return Object.assign({}, ...modules);
  } catch (error) {
    const reason = `The program could not be loaded, so no check ran:\n${describe(error)}`;
    for (const index of checks.keys()) print({ index, status: 'failed', ...(index === 0 ? { error: reason } : {}) });
    process.exit();
  }
}

const exports = await load();
for (const [index, check] of checks.entries()) {
  if (exports[check.needs] === undefined) {
    const error = `the program does not export ${check.needs}`;
    print(check.exercise === undefined ? { index, status: 'failed', error } : { index, status: 'to do' });
    continue;
  }
  try {
    await check.run(exports, address);
    print({ index, status: 'passed' });
  } catch (error) {
    print({ index, status: 'failed', error: describe(error) });
  }
}
process.exit();
