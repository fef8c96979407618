import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { Report, Result } from './check-process.js';
import { CHECKS } from './checks.js';
import { ROOT } from './course.js';

// Runs the checks of a chapter, and survives programs that block or end their process.

/** Time in milliseconds after which a process that has reported nothing is killed. A step has a shorter limit. */
const SILENCE_LIMIT_MS = 15_000;

/** Says why a program could not be loaded, so that no check ran. */
export class NotLoadedError extends Error {
  constructor(why: string) {
    super(`The program could not be loaded, so no check ran:${why}`);
  }
}

/**
 * Yields the results of the checks of a chapter. If a check ends its process, the next one gets a new process.
 * @throws NotLoadedError
 */
export async function* resultsOf(chapter: number, address: string, files: readonly string[]): AsyncGenerator<Result> {
  const count = CHECKS[chapter]?.length ?? 0;
  for (let next = 0; next < count; ) {
    let step: string | undefined;
    let isLate = false;
    for await (const report of reportsOf(chapter, next, address, files, () => (isLate = true))) {
      if ('step' in report) step = report.step;
      if ('loadError' in report) throw new NotLoadedError(`\n${report.loadError}`);
      if ('index' in report) {
        yield report;
        next = report.index + 1;
      }
    }
    if (next === count) return;
    const why = isLate
      ? `has blocked the process for ${SILENCE_LIMIT_MS / 1_000} s; look for a loop that does not end`
      : 'has ended its process';
    if (step === undefined) throw new NotLoadedError(` it ${why}`);
    yield { index: next, status: 'failed', error: `${step}: the program ${why}` };
    next += 1;
  }
}

async function* reportsOf(
  chapter: number,
  first: number,
  address: string,
  files: readonly string[],
  onLate: () => void,
): AsyncGenerator<Report> {
  const program = join(ROOT, 'packages/learn/src/learn/check-process.ts');
  const args = ['--import', 'tsx', program, `${chapter}`, `${first}`, address, ...files];
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit', 'pipe'] });
  const kill = (): void => {
    onLate();
    child.kill('SIGKILL');
  };
  const timer = setTimeout(kill, SILENCE_LIMIT_MS);
  try {
    for await (const line of createInterface({ input: child.stdio[3] as Readable })) {
      timer.refresh();
      yield JSON.parse(line) as Report;
    }
  } finally {
    clearTimeout(timer);
    child.kill();
  }
}
