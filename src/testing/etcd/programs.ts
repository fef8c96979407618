import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { after, monotonicMs } from '../../base/index.js';

// Finds and runs the programs that tests need.

/** Returns the file name of a program on this system, such as `etcd.exe` on Windows. */
export function fileNameOf(program: string): string {
  return process.platform === 'win32' ? `${program}.exe` : program;
}

/** Returns the path of a program on the PATH, or undefined if the PATH does not contain the program. */
export function onPath(program: string): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders.map((folder) => join(folder, fileNameOf(program))).find((file) => existsSync(file));
}

/**
 * Runs a program until it exits. Resolves with its output. If the program fails, rejects with the last lines of its
 * output.
 */
export function run(program: string, args: readonly string[], cwd?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk;
    });
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk;
    });
    child.on('error', (error) => reject(new Error(`${program}: ${error.message}`)));
    child.on('close', (code) => {
      if (code === 0) return resolve(stdout);
      const lastLines = (stderr || stdout).trim().split('\n').slice(-3).join(' | ');
      reject(new Error(`${program} ${args[0] ?? ''}: exit ${code}: ${lastLines}`));
    });
  });
}

/** The time before the first progress report, in milliseconds. */
const QUIET_MS = 2_000;
/** The time between two progress reports, in milliseconds. */
const REPEAT_MS = 10_000;

/**
 * Reports on stderr how long the work has taken so far, if the work takes longer than 2 s.
 *
 * @param isShown Whether to report at all. Default true.
 */
export async function withProgress<T>(what: string, work: Promise<T>, isShown = true): Promise<T> {
  if (!isShown) return work;
  const start = monotonicMs();
  const report = (): void => {
    process.stderr.write(`${what} … ${Math.round((monotonicMs() - start) / 1000)} s\n`);
    stopTimer = after(REPEAT_MS, report);
  };
  let stopTimer = after(QUIET_MS, report);
  try {
    return await work;
  } finally {
    stopTimer();
  }
}
