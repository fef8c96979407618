import { Client } from '../../src/index.js';
import type { Task } from './child/task.js';
import { ContenderProcess } from './contender-process.js';
import type { ContenderName } from './contenders/open-contender.js';
import type { Installation } from './install.js';
import type { Sample } from './sample.js';
import type { Settings } from './settings.js';

/** What workloads have at hand: a server, and each contender in a process of its own. */
export class Bench {
  readonly settings: Settings;
  readonly endpoint: string;
  readonly installation: Installation;
  /** Makes the data ready; idle while something is measured. */
  readonly client: Client;
  readonly #processes = new Map<ContenderName | 'writer', ContenderProcess>();
  readonly #all = new Set<ContenderProcess>();
  readonly #done = new Set<string>();
  #closed = false;

  constructor(settings: Settings, endpoint: string, installation: Installation) {
    this.settings = settings;
    this.endpoint = endpoint;
    this.installation = installation;
    this.client = new Client({ endpoints: [endpoint], timeoutMs: 60_000 });
  }

  /** The same process each time, unless something went wrong in it. */
  async perform(name: ContenderName | 'writer', task: Task): Promise<Sample> {
    const process = this.#processes.get(name) ?? this.fresh(name === 'writer' ? 'etcdwire' : name);
    this.#processes.set(name, process);
    try {
      return await process.perform(task);
    } catch (error) {
      this.#processes.delete(name);
      this.stopProcess(process);
      throw new Error(`${name}: ${error instanceof Error ? error.message : error}`);
    }
  }

  /** All contenders at a time: for what is not measured. */
  async performAll(names: readonly ContenderName[], task: Task): Promise<void> {
    await Promise.all(names.map((name) => this.perform(name, task)));
  }

  /** Whether this is the first time that somebody asks about it. */
  once(what: string): boolean {
    const first = !this.#done.has(what);
    this.#done.add(what);
    return first;
  }

  /** A process that has done nothing yet. */
  fresh(name: ContenderName): ContenderProcess {
    if (this.#closed) throw new Error('the run is over');
    const process = new ContenderProcess(this.installation.path('contender'), name, this.endpoint);
    this.#all.add(process);
    return process;
  }

  stopProcess(process: ContenderProcess): void {
    this.#all.delete(process);
    process.stop();
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const process of this.#all) process.stop();
    await this.client.close();
  }
}
