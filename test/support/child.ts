import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { onTestFinished } from 'vitest';

export interface Child {
  readonly process: ChildProcess;
  /** The next line of its output. */
  line(): Promise<string>;
  /** All lines to its end. */
  rest(): Promise<string[]>;
  readonly exited: Promise<number | null>;
}

export interface ChildOptions {
  readonly stdin?: 'ignore' | 'pipe';
  /** Added to this process's own. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** A program that is killed when the test ends. */
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
      if (done) throw new Error(`${program} ended without another line`);
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

/** A TypeScript program of this project. */
export function startScript(file: URL, args: readonly string[]): Child {
  return startChild(process.execPath, ['--import', 'tsx', file.pathname, ...args]);
}
