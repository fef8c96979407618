import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { WorkerEvent } from './story.js';

/** A worker as its director sees it. */
export class WorkerProcess {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #events: WorkerEvent[] = [];
  readonly #lookers = new Set<() => void>();
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
      for (const look of this.#lookers) look();
    });
    this.#child.once('exit', () => {
      this.#ended = true;
      for (const look of this.#lookers) look();
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** The first event of the kind, told already or yet to come. @throws Error if the worker ends without it. */
  told<Type extends WorkerEvent['type']>(
    type: Type,
    matches: (event: Extract<WorkerEvent, { type: Type }>) => boolean = () => true,
  ): Promise<WorkerEvent> {
    const wanted = (event: WorkerEvent): boolean =>
      event.type === type && matches(event as Extract<WorkerEvent, { type: Type }>);
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const event = this.#events.find(wanted);
        if (event === undefined && !this.#ended) return;
        this.#lookers.delete(look);
        if (event === undefined) reject(new Error(`worker ${this.name} ended before "${type}"`));
        else resolve(event);
      };
      this.#lookers.add(look);
      look();
    });
  }

  signal(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal);
  }
}
