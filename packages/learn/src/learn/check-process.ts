import { writeSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { Connection } from '../../course/05-call.js';
import { announceSteps, type Check, CheckError, explained } from './check.js';
import { CHECKS } from './checks.js';

// Runs the checks of a chapter in a separate process, because the reader's program may block or end its process.
// Writes a report to file descriptor 3, as a line of JSON, before each step and after each check. Arguments: the number
// of the chapter, the index of the first check to run, the address of the server, and the files whose exports are
// checked.

/** The result of a check. */
export interface Result {
  readonly index: number;
  readonly status: 'passed' | 'failed' | 'to do';
  readonly error?: string;
}

/** `loadError` says why no check ran. `step` is what the check does next. */
export type Report = Result | { readonly step: string } | { readonly loadError: string };

/** The error at a place of code that the reader has still to write. */
const TO_DO = /TO DO: \w+ \w+/;

const [chapter, first, address = '', ...files] = process.argv.slice(2);
const checks = CHECKS[Number(chapter)] ?? [];
const folders = files.map(dirname);

function report(message: Report): void {
  writeSync(3, `${JSON.stringify(message)}\n`);
}

/** Describes an error. If the reader's program threw it, adds the line of the program. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof CheckError) return error.message;
  const lines = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  const line = lines.find((each) => folders.some((folder) => each.includes(folder)));
  return line === undefined ? error.message : `${error.message}\n${line.replace(`${process.cwd()}${sep}`, '').trim()}`;
}

/** Reports a check that failed, or that met a place which the reader has still to write. */
function reportError(index: number, error: unknown): void {
  const text = describe(error);
  const [toDo] = TO_DO.exec(text) ?? [];
  report(toDo === undefined ? { index, status: 'failed', error: text } : { index, status: 'to do', error: toDo });
}

/** What the reader's programs export. */
interface Loaded {
  readonly exports: Record<string, unknown>;
  /** The reader's class, if the reader has written it in an earlier chapter. */
  readonly Connection: typeof Connection | undefined;
}

/** The chapter that writes the class `Connection`. */
const CALLS_CHAPTER = 5;

/** Loads the files. If this fails, for example because of a syntax error, reports that no check could run. */
async function load(): Promise<Loaded> {
  try {
    const modules = await Promise.all(files.map((file) => import(pathToFileURL(file).href)));
    const calls = pathToFileURL(join(folders[0] ?? '', '05-call.ts')).href;
    const { Connection } = Number(chapter) >= CALLS_CHAPTER ? await import(calls) : {};
    return { exports: Object.assign({}, ...modules), Connection };
  } catch (error) {
    report({ loadError: describe(error) });
    process.exit();
  }
}

/** Time in milliseconds after a check in which errors that its connections cause by closing still count for it. */
const AFTER_CHECK_MS = 20;

let onUncaught = (_: Error): void => {};

/**
 * Runs a check. Rejects if the check fails, or if an error occurs meanwhile that nothing catches. After the check has
 * failed, ignores errors that nothing catches, because they are consequences of the failure.
 */
async function run(check: Check, { exports, Connection }: Loaded): Promise<void> {
  const uncaught = new Promise<never>((_, reject) => {
    onUncaught = (error) => reject(explained(error, `an error that the program does not catch: ${error.message}`));
  });
  const both = async (): Promise<void> => {
    try {
      await check.run(exports, address, Connection);
    } catch (error) {
      onUncaught = () => {};
      throw error;
    } finally {
      await pause(AFTER_CHECK_MS);
    }
  };
  await Promise.race([both(), uncaught]);
}

announceSteps((step) => report({ step }));
const loaded = await load();
process.on('uncaughtException', (error) => onUncaught(error));
for (const [index, check] of checks.entries()) {
  if (index < Number(first)) continue;
  if (loaded.exports[check.needs] === undefined) {
    const error = `the program does not export ${check.needs}`;
    report(check.exercise === undefined ? { index, status: 'failed', error } : { index, status: 'to do' });
    continue;
  }
  report({ step: check.needs });
  try {
    await run(check, loaded);
    report({ index, status: 'passed' });
  } catch (error) {
    reportError(index, error);
  }
}
process.exit();
