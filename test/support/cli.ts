import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { inject, onTestFinished } from 'vitest';
import { compiled } from './compiled.js';

export const PROGRAM = compiled(new URL('../../src/cli/main.ts', import.meta.url));

export interface CliOptions {
  readonly stdin?: string | Uint8Array;
  readonly environment?: Readonly<Record<string, string>>;
  /** A program and its arguments, to which those of this one are added. */
  readonly under?: readonly string[];
}

export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The program under way, on the shared member unless something else is said. */
export class RunningCli {
  readonly process: ChildProcessWithoutNullStreams;
  readonly done: Promise<CliResult>;
  #stdout = '';
  #stderr = '';
  #changed: () => void = () => {};

  constructor(args: readonly string[], { stdin, environment = {}, under = [] }: CliOptions = {}) {
    const env = { ...process.env, ETCDCTL_ENDPOINTS: inject('endpoints').join(','), ...environment };
    const [program = '', ...all] = [...under, process.execPath, PROGRAM, ...args];
    // Without a controlling terminal, wherever the tests run from: with one the program handles signals in another way.
    this.process = spawn(program, all, { env, detached: true });
    onTestFinished(() => void this.process.kill('SIGKILL'));
    this.process.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      this.#changed();
    });
    this.process.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    if (stdin !== undefined) this.process.stdin.end(stdin);
    this.done = once(this.process, 'close').then(([code]: (number | null)[]) => {
      this.#changed();
      return { code: code ?? null, stdout: this.#stdout, stderr: this.#stderr };
    });
  }

  /** Once so many lines have been printed, these; fewer where the program ends before. */
  async lines(count: number): Promise<string[]> {
    let over = false;
    void this.done.then(() => {
      over = true;
    });
    for (;;) {
      const lines = this.#stdout.split('\n').slice(0, -1);
      if (lines.length >= count || over) return lines;
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
    }
  }
}

/** The program, run to its end. */
export function cli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  return new RunningCli(args, { stdin: '', ...options }).done;
}

/** What it printed as JSON; fails with what it said where it failed. */
export async function cliJson<T>(args: readonly string[], options?: CliOptions): Promise<T> {
  const { code, stdout, stderr } = await cli(args, options);
  if (code !== 0) throw new Error(`etcdwire ${args.join(' ')} ended with ${code}: ${stderr}`);
  return JSON.parse(stdout) as T;
}
