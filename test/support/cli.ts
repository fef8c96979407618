import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, inject, onTestFinished } from 'vitest';

/** The path of the command-line program, which the global setup builds as the package contains it. */
export const PROGRAM = inject('program');

export interface CliOptions {
  readonly stdin?: string | Uint8Array;
  readonly environment?: Readonly<Record<string, string>>;
  /** A program that starts the CLI, and the arguments before the command line of the CLI. */
  readonly under?: readonly string[];
}

export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * A running `etcdwire` process. It connects to the etcd member that all tests share, unless its arguments or its
 * environment name other endpoints.
 */
export class RunningCli {
  readonly process: ChildProcessWithoutNullStreams;
  readonly done: Promise<CliResult>;
  #stdout = '';
  #stderr = '';
  #changed: () => void = () => {};

  constructor(args: readonly string[], { stdin, environment = {}, under = [] }: CliOptions = {}) {
    const env = { ...process.env, ETCDCTL_ENDPOINTS: inject('endpoints').join(','), ...environment };
    const [program = '', ...all] = [...under, process.execPath, PROGRAM, ...args];
    // `detached` starts the CLI without a controlling terminal, because the CLI handles signals differently when it has
    // a controlling terminal.
    this.process = spawn(program, all, { env, detached: true });
    onTestFinished(() => void this.process.kill('SIGKILL'));
    this.process.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      this.#changed();
    });
    this.process.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    // A command that fails early exits before it has read its input.
    this.process.stdin.on('error', () => {});
    if (stdin !== undefined) this.process.stdin.end(stdin);
    this.done = once(this.process, 'close').then(([code]: (number | null)[]) => {
      this.#changed();
      return { code: code ?? null, stdout: this.#stdout, stderr: this.#stderr };
    });
  }

  /** Resolves once stderr matches the pattern. */
  async stderrMatches(pattern: RegExp): Promise<void> {
    await expect.poll(() => this.#stderr, { interval: 20 }).toMatch(pattern);
  }

  /** Resolves with the first group of the pattern once stderr matches it. */
  async stderrMatch(pattern: RegExp): Promise<string> {
    await this.stderrMatches(pattern);
    return pattern.exec(this.#stderr)?.[1] ?? '';
  }

  /** Resolves once stdout matches the pattern. */
  async stdoutMatches(pattern: RegExp): Promise<void> {
    await expect.poll(() => this.#stdout, { interval: 20 }).toMatch(pattern);
  }

  /** Resolves with the lines of stdout once there are `count` lines, or when the process exits. */
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

/** Runs `etcdwire` until it exits. */
export function cli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  return new RunningCli(args, { stdin: '', ...options }).done;
}

/** Runs `etcdwire` and parses its output as JSON. @throws Error that contains stderr if the command fails. */
export async function cliJson<T>(args: readonly string[], options?: CliOptions): Promise<T> {
  const { code, stdout, stderr } = await cli(args, options);
  if (code !== 0) throw new Error(`etcdwire ${args.join(' ')} exited with ${code}: ${stderr}`);
  return JSON.parse(stdout) as T;
}
