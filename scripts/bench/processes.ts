import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { Client } from '../../src/index.js';
import { importPackage } from '../entry-points.js';
import { installInto } from '../pack.js';
import type { Answer, Task } from './child/tasks.js';
import type { ClientName } from './clients/bench-client.js';
import type { Sample } from './metrics.js';
import type { Server } from './servers.js';
import type { Settings } from './settings.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/**
 * The folder for the compiled programs. The folder is under node_modules, so that the programs find the packages that
 * they import.
 */
const CACHE = join(ROOT, 'node_modules/.cache');

/** Programs that load one client, get one key and exit, and an empty program for comparison. */
const COLD_STARTS = {
  'empty Node.js': 'process.exit();',
  etcdwire: `
    import { Client } from 'etcdwire';
    const [endpoint, key] = process.argv.slice(2);
    process.exit((await new Client({ endpoints: [endpoint] }).get(key)) === undefined ? 1 : 0);`,
  'etcdwire over grpc-js': `
    import { Client } from 'etcdwire';
    import { grpcJs } from 'etcdwire/grpc-js';
    const [endpoint, key] = process.argv.slice(2);
    const client = new Client({ endpoints: [endpoint], transport: grpcJs() });
    process.exit((await client.get(key)) === undefined ? 1 : 0);`,
  etcd3: `
    import { Etcd3 } from 'etcd3';
    const [endpoint, key] = process.argv.slice(2);
    process.exit((await new Etcd3({ hosts: endpoint }).get(key)) === null ? 1 : 0);`,
  'bare grpc-js': `
    import { openBareGrpcJs } from './bare-grpc-js.mjs';
    const [endpoint, key] = process.argv.slice(2);
    process.exit((await openBareGrpcJs(endpoint).get(key)) === 0 ? 1 : 0);`,
} as const;
export type ColdStart = keyof typeof COLD_STARTS;
export const COLD_START_NAMES = Object.keys(COLD_STARTS) as readonly ColdStart[];

/**
 * The compiled benchmark programs, in a folder where the package is installed from its tarball, as on a user's machine.
 */
export interface Installation {
  /** The path of the program that runs one client and performs the tasks that this process sends. */
  readonly clientProgram: string;
  coldStart(name: ColdStart): string;
  remove(): void;
}

export async function install(): Promise<Installation> {
  mkdirSync(CACHE, { recursive: true });
  const folder = mkdtempSync(join(CACHE, 'etcdwire-bench-'));
  const coldStart = (name: ColdStart): string => join(folder, `cold-start-${COLD_START_NAMES.indexOf(name)}.mjs`);
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    installInto(folder);
    for (const name of COLD_START_NAMES) writeFileSync(coldStart(name), COLD_STARTS[name]);
    await build({
      entryPoints: {
        client: fileURLToPath(new URL('child/program.ts', import.meta.url)),
        'bare-grpc-js': fileURLToPath(new URL('clients/bare-grpc-js.ts', import.meta.url)),
      },
      outdir: folder,
      outExtension: { '.js': '.mjs' },
      bundle: true,
      splitting: true,
      format: 'esm',
      platform: 'node',
      target: 'node20',
      packages: 'external',
      plugins: [importPackage],
      logLevel: 'warning',
    });
  } catch (error) {
    remove();
    throw error;
  }
  return { clientProgram: join(folder, 'client.mjs'), coldStart, remove };
}

/** Time limit in milliseconds for most kinds of tasks. A task that hangs fails after this time. */
const TASK_TIMEOUT_MS = 60_000;
/** Time limit in milliseconds for the tasks that may take long. */
const LONG_TIMEOUT_MS = 300_000;
const LONG_TASKS: ReadonlySet<Task['kind']> = new Set(['scaling', 'catch-up', 'expiring']);

/** A process that runs one client and performs one task at a time. */
export class ClientProcess {
  readonly #child: ChildProcess;
  #waiting: { resolve(sample: Sample): void; reject(error: Error): void } | undefined;
  /** Why the process performs no more tasks. Undefined while the process runs. */
  #ended: Error | undefined;

  constructor(program: string, name: ClientName, endpoint: string, caFile: string | undefined) {
    // The serialization is 'advanced', because tasks contain bigints, which the default serialization rejects.
    this.#child = spawn(
      process.execPath,
      ['--expose-gc', program, name, endpoint, ...(caFile === undefined ? [] : [caFile])],
      {
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
        serialization: 'advanced',
      },
    );
    this.#child.on('message', (answer: Answer) => {
      if ('sample' in answer) this.#waiting?.resolve(answer.sample);
      else this.#waiting?.reject(new Error(answer.error));
    });
    this.#child.once('error', (error) => this.#end(error));
    this.#child.once('exit', (code, signal) => this.#end(new Error(`the process ended: ${signal ?? code}`)));
  }

  /** Performs a task in the process. @throws Error with the task's error message if the task fails. */
  perform(task: Task): Promise<Sample> {
    return new Promise<Sample>((resolve, reject) => {
      if (this.#ended !== undefined) return reject(this.#ended);
      if (this.#waiting !== undefined) return reject(new Error('the process is still performing another task'));
      const limitMs = LONG_TASKS.has(task.kind) ? LONG_TIMEOUT_MS : TASK_TIMEOUT_MS;
      const giveUp = (): void =>
        this.#waiting?.reject(new Error(`task "${task.kind}" did not end within ${limitMs} ms`));
      const limit = setTimeout(giveUp, limitMs);
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

/** The server, the package installation and the client processes that all workloads use. */
export class Bench {
  readonly settings: Settings;
  /** The members. All workloads use the first one, unless they say otherwise. */
  readonly endpoints: readonly string[];
  /** The file with the authority that clients trust. Undefined if clients connect without TLS. */
  readonly caFile: string | undefined;
  readonly installation: Installation;
  /** Writes the data for the workloads. This client is idle during a measurement. */
  readonly client: Client;
  readonly #processes = new Map<ClientName | 'writer', ClientProcess>();
  readonly #all = new Set<ClientProcess>();
  readonly #done = new Set<string>();
  #closed = false;

  constructor(settings: Settings, { endpoints, caFile }: Server, installation: Installation) {
    this.settings = settings;
    this.endpoints = endpoints;
    this.caFile = caFile;
    this.installation = installation;
    const tls = caFile === undefined ? undefined : { ca: readFileSync(caFile) };
    this.client = new Client({ endpoints: [this.endpoint], timeoutMs: 60_000, tls });
  }

  get endpoint(): string {
    return this.endpoints[0] as string;
  }

  /** Performs the task in this client's process. If the task fails, the client gets a new process for its next task. */
  async perform(name: ClientName | 'writer', task: Task): Promise<Sample> {
    const process = this.#processes.get(name) ?? this.startProcess(name === 'writer' ? 'etcdwire' : name);
    this.#processes.set(name, process);
    try {
      return await process.perform(task);
    } catch (error) {
      this.#processes.delete(name);
      this.stopProcess(process);
      throw new Error(`${name}: ${error instanceof Error ? error.message : error}`);
    }
  }

  /** Performs the task in the processes of all these clients at once. */
  async performAll(names: readonly ClientName[], task: Task): Promise<void> {
    await Promise.all(names.map((name) => this.perform(name, task)));
  }

  /** Performs the task in a new process, so that earlier tasks have no effect on it. */
  async performInNewProcess(name: ClientName, task: Task): Promise<Sample> {
    const process = this.startProcess(name);
    try {
      return await process.perform(task);
    } finally {
      this.stopProcess(process);
    }
  }

  /** Returns true for the first call with this name. */
  once(name: string): boolean {
    const first = !this.#done.has(name);
    this.#done.add(name);
    return first;
  }

  startProcess(name: ClientName, endpoint = this.endpoint): ClientProcess {
    if (this.#closed) throw new Error('the run has ended');
    const process = new ClientProcess(this.installation.clientProgram, name, endpoint, this.caFile);
    this.#all.add(process);
    return process;
  }

  stopProcess(process: ClientProcess): void {
    this.#all.delete(process);
    process.stop();
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const process of this.#all) process.stop();
    await this.client.close();
  }
}
