import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { onTestFinished } from 'vitest';
import { compiled } from './compiled.js';

export interface Child {
  readonly process: ChildProcess;
  /** Resolves with the next line of stdout. */
  line(): Promise<string>;
  /** Resolves with all remaining lines of stdout when the process exits. */
  rest(): Promise<string[]>;
  readonly exited: Promise<number | null>;
}

export interface ChildOptions {
  readonly stdin?: 'ignore' | 'pipe';
  /** Environment variables in addition to the variables of this process. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** Starts a program and kills it when the test ends. */
export function startChild(
  program: string,
  args: readonly string[],
  { stdin = 'ignore', environment = {} }: ChildOptions = {},
): Child {
  const child: ChildProcess = spawn(program, args, {
    stdio: [stdin, 'pipe', 'inherit'],
    env: { ...process.env, ...environment },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator]();
  return {
    process: child,
    line: async () => {
      const { value, done } = await lines.next();
      if (done) throw new Error(`${program} exited without another line of output`);
      return value;
    },
    rest: async () => {
      const all: string[] = [];
      for await (const line of { [Symbol.asyncIterator]: () => lines }) all.push(line);
      return all;
    },
    exited: new Promise((resolve) => child.once('exit', resolve)),
  };
}

/** Starts a TypeScript program of this project as a child process and kills it when the test ends. */
export function startScript(file: URL, args: readonly string[], options?: ChildOptions): Child {
  return startChild(process.execPath, [compiled(file), ...args], options);
}
