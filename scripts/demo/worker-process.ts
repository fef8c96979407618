import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { WorkerEvent } from './shared.js';

/** A worker's process, and the events that the worker has reported. */
export class WorkerProcess {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #events: WorkerEvent[] = [];
  readonly #waiting = new Set<() => void>();
  #ended = false;

  constructor(name: string, args: readonly string[], report: (event: WorkerEvent) => void) {
    this.name = name;
    const script = fileURLToPath(new URL('worker.ts', import.meta.url));
    this.#child = spawn(process.execPath, ['--import', 'tsx', script, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    process.once('exit', () => this.#child.kill('SIGKILL'));
    createInterface({ input: this.#child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      const event = JSON.parse(line) as WorkerEvent;
      this.#events.push(event);
      report(event);
      for (const check of this.#waiting) check();
    });
    this.#child.once('exit', () => {
      this.#ended = true;
      for (const check of this.#waiting) check();
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /**
   * Resolves with the first matching event of this type, even if the worker reported the event before this call.
   *
   * @throws Error if the worker exits without such an event.
   */
  event<Type extends WorkerEvent['type']>(
    type: Type,
    matches: (event: Extract<WorkerEvent, { type: Type }>) => boolean = () => true,
  ): Promise<WorkerEvent> {
    const wanted = (event: WorkerEvent): boolean =>
      event.type === type && matches(event as Extract<WorkerEvent, { type: Type }>);
    return new Promise((resolve, reject) => {
      const check = (): void => {
        const event = this.#events.find(wanted);
        if (event === undefined && !this.#ended) return;
        this.#waiting.delete(check);
        if (event === undefined) reject(new Error(`worker ${this.name} exited before "${type}"`));
        else resolve(event);
      };
      this.#waiting.add(check);
      check();
    });
  }

  signal(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal);
  }
}
