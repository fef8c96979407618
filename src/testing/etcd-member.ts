import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { pause } from '../runtime/timers.js';

const START_TIMEOUT_MS = 30_000;
const POLL_MS = 50;
/** A member that is paused takes connections and does not answer. */
const HEALTH_TIMEOUT_MS = 2_000;

export interface EtcdMemberOptions {
  readonly name: string;
  /** Where clients reach it. */
  readonly endpoint: string;
  /** Where it tells whether it is healthy, over plain HTTP. */
  readonly healthUrl: string;
  readonly peerUrl: string;
  /** Path of the program etcd. */
  readonly etcd: string;
  readonly args: readonly string[];
  readonly logFile: string;
}

/** Those that run, to be ended with this process. */
const running = new Set<ChildProcess>();
const endAll = (): void => {
  for (const child of running) child.kill('SIGKILL');
};

/** One member as a child process. */
export class EtcdMember {
  readonly name: string;
  /** Where clients reach it. */
  readonly endpoint: string;
  /** Where it advertises that the other members reach it. */
  readonly peerUrl: string;
  readonly #options: EtcdMemberOptions;
  #child: ChildProcess | undefined;
  /** Why there is no process. */
  #problem: string | undefined;

  /** @internal */
  constructor(options: EtcdMemberOptions) {
    this.name = options.name;
    this.endpoint = options.endpoint;
    this.peerUrl = options.peerUrl;
    this.#options = options;
  }

  /** Of the process; undefined before the first start. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Whether there is a process; one that is paused counts. */
  get running(): boolean {
    const child = this.#child;
    return child !== undefined && this.#problem === undefined && child.exitCode === null && child.signalCode === null;
  }

  /** Starts the process, if it does not run, and resolves once the member serves. @throws Error with the end of its log. */
  async start(): Promise<void> {
    if (!this.running) this.#spawn();
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (performance.now() < deadline && this.running) {
      if (await this.healthy()) return;
      await pause(POLL_MS);
    }
    if (this.#problem !== undefined)
      throw new Error(`etcd ${this.name} did not start: ${this.#problem}; the option etcd names the program`);
    const log = readFileSync(this.#options.logFile, 'utf8').trim().split('\n').slice(-5).join('\n');
    throw new Error(`etcd ${this.name} did not start:\n${log}`);
  }

  /** Whether it serves: it runs, and has a leader. */
  async healthy(): Promise<boolean> {
    const health = await fetch(`${this.#options.healthUrl}/health`, { signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS) })
      .then((response) => response.text())
      .catch(() => '');
    return /"health":\s*"true"/.test(health);
  }

  /** SIGKILL; resolves once the process is gone. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** SIGTERM; resolves once the process is gone. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM');
  }

  /** SIGSTOP: its connections stay, and nobody answers on them. */
  pause(): void {
    this.#child?.kill('SIGSTOP');
  }

  /** SIGCONT. */
  resume(): void {
    this.#child?.kill('SIGCONT');
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#child;
    if (child === undefined || !this.running) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    // One that is paused would not hear of it.
    child.kill('SIGCONT');
    await ended;
  }

  #spawn(): void {
    const { etcd, args, logFile } = this.#options;
    const log = openSync(logFile, 'a');
    const child = spawn(etcd, args, { env: withoutEtcdVariables(), stdio: ['ignore', log, log] });
    closeSync(log);
    this.#child = child;
    this.#problem = undefined;
    if (running.size === 0) process.on('exit', endAll);
    running.add(child);
    child.once('error', ({ message }) => {
      this.#problem = message;
    });
    child.once('close', () => {
      running.delete(child);
      if (running.size === 0) process.removeListener('exit', endAll);
    });
  }
}

/** etcd takes its flags from ETCD_* too, and those of the environment mean something else. */
function withoutEtcdVariables(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('ETCD_')));
}
