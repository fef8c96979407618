import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** A process of Node.js that takes a lock again and again. */
export class Contender {
  readonly #child: ChildProcess;
  readonly #exited: Promise<number | null>;

  constructor(program: string, endpoint: string, lock: string) {
    this.#child = spawn(process.execPath, [program, 'contend', endpoint, lock], { stdio: 'inherit' });
    this.#exited = once(this.#child, 'exit').then(([code]: (number | null)[]) => code ?? null);
  }

  /** After the hold at hand. @throws Error where it had failed. */
  async end(): Promise<void> {
    this.#child.kill('SIGTERM');
    const code = await this.#exited;
    if (code !== 0) throw new Error(`a contender for the lock ended with ${code}`);
  }
}
