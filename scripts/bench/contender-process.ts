import { type ChildProcess, spawn } from 'node:child_process';
import type { Answer, Task } from './child/task.js';
import type { ContenderName } from './contenders/open-contender.js';
import type { Sample } from './sample.js';

/** Far more than any task takes that is not stuck. */
const TIME_LIMIT_MS = 60_000;

/** A client in a process of its own. */
export class ContenderProcess {
  readonly #child: ChildProcess;
  #waiting: { resolve(sample: Sample): void; reject(error: Error): void } | undefined;
  /** Why it takes no more tasks. */
  #ended: Error | undefined;

  constructor(program: string, name: ContenderName, endpoint: string) {
    // 'advanced': tasks hold bigints.
    this.#child = spawn(process.execPath, ['--expose-gc', program, name, endpoint], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      serialization: 'advanced',
    });
    this.#child.on('message', (answer: Answer) => {
      if ('sample' in answer) this.#waiting?.resolve(answer.sample);
      else this.#waiting?.reject(new Error(answer.error));
    });
    this.#child.once('error', (error) => this.#end(error));
    this.#child.once('exit', (code, signal) => this.#end(new Error(`the process ended: ${signal ?? code}`)));
  }

  /** One task at a time. @throws Error with what went wrong in the process. */
  perform(task: Task): Promise<Sample> {
    return new Promise<Sample>((resolve, reject) => {
      if (this.#ended !== undefined) return reject(this.#ended);
      if (this.#waiting !== undefined) return reject(new Error('the process is at something else'));
      const giveUp = (): void => this.#waiting?.reject(new Error(`no end to ${task.kind}`));
      const limit = setTimeout(giveUp, TIME_LIMIT_MS);
      const settle = (finish: () => void): void => {
        clearTimeout(limit);
        this.#waiting = undefined;
        finish();
      };
      this.#waiting = {
        resolve: (sample) => settle(() => resolve(sample)),
        reject: (error) => settle(() => reject(error)),
      };
      this.#child.send(task);
    });
  }

  stop(): void {
    this.#child.kill('SIGKILL');
  }

  #end(error: Error): void {
    this.#ended ??= error;
    this.#waiting?.reject(this.#ended);
  }
}
