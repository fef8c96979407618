import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** A process of Node.js that takes a lock again and again. */
export class Contender {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;

  constructor(program: string, endpoint: string, lock: string) {
    this.#child = spawn(process.execPath, [program, 'contend', endpoint, lock], { stdio: 'inherit' });
    this.#exited = once(this.#child, 'exit');
  }

  /** After the hold at hand. */
  async end(): Promise<void> {
    this.#child.kill('SIGTERM');
    await this.#exited;
  }
}
