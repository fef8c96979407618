import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { after, monotonicMs, pause } from '../../base/index.js';

const START_TIMEOUT_MS = 30_000;
/** How long `start` waits while fewer members run than a quorum needs, in milliseconds. */
const QUORUM_TIMEOUT_MS = 5_000;
const POLL_MS = 50;
/**
 * Maximum wait in milliseconds for the answer to a health check. A suspended member accepts connections but never
 * answers.
 */
const HEALTH_TIMEOUT_MS = 2_000;

export interface EtcdMemberOptions {
  readonly name: string;
  /** URL for clients. */
  readonly endpoint: string;
  /** URL for the calls of the test kit itself. It never uses TLS. */
  readonly ownUrl: string;
  /** URL that the member advertises to the other members. */
  readonly peerUrl: string;
  /** Path of the etcd executable. */
  readonly etcd: string;
  readonly args: readonly string[];
  readonly logFile: string;
  /** Returns how many members the cluster has, and how many of them run. */
  readonly cluster: () => { readonly running: number; readonly members: number };
  /** Called after the process has started, and after it has ended. */
  readonly changed: () => void;
}

/** The processes of the running members. When this process exits, it sends them SIGKILL. `Guard` covers signals. */
const running = new Set<ChildProcess>();
const endAll = (): void => {
  for (const child of running) child.kill('SIGKILL');
};

/** The longest time for which `pause` waits until the process has stopped, in milliseconds. */
const STOP_TIMEOUT_MS = 2_000;

/** Whether all threads of a process have stopped. True if the system does not tell. */
function hasStopped(pid: number | undefined): boolean {
  const isStopped = (thread: string): boolean => {
    try {
      return /\) [TtZX]/.test(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8'));
    } catch {
      return true; // The thread has ended.
    }
  };
  try {
    return readdirSync(`/proc/${pid}/task`).every(isStopped);
  } catch {
    return true;
  }
}

/** Whether the system can suspend processes. Windows lacks the signals for that. */
function canSuspend(): boolean {
  return process.platform !== 'win32';
}

/**
 * One member of an `EtcdCluster`. It runs as a child process.
 *
 * @example
 * import { EtcdCluster } from 'etcdwire/testing';
 *
 * await using cluster = await EtcdCluster.start({ members: 3 });
 * const leader = await cluster.leader();
 * await leader.kill();
 * await leader.start();
 */
export class EtcdMember {
  readonly name: string;
  /** URL for clients. */
  readonly endpoint: string;
  /** URL that the member advertises to the other members. */
  readonly peerUrl: string;
  /** @internal URL for the calls of the test kit itself. It never uses TLS. */
  readonly ownUrl: string;
  readonly #options: EtcdMemberOptions;
  #child: ChildProcess | undefined;
  /** Why the process could not be started; undefined if it was started. */
  #problem: string | undefined;

  /** @internal */
  constructor(options: EtcdMemberOptions) {
    this.name = options.name;
    this.endpoint = options.endpoint;
    this.peerUrl = options.peerUrl;
    this.ownUrl = options.ownUrl;
    this.#options = options;
  }

  /** Process ID of the latest process. Undefined before the first start. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Whether the process exists. A suspended process counts as running. */
  get running(): boolean {
    const child = this.#child;
    return child !== undefined && this.#problem === undefined && child.exitCode === null && child.signalCode === null;
  }

  /**
   * Starts the process if it is not running. Resolves when the member is healthy. A member is healthy only while a
   * quorum of the cluster runs, so start several members with `cluster.start()` instead of awaiting one member after
   * another.
   *
   * @throws Error if the process cannot be started, if for 5 s fewer members run than a quorum needs, if the process
   * ends, or if the member is not healthy within 30 s. In the last two cases, the message contains the end of the
   * member's log.
   */
  async start(): Promise<void> {
    if (!this.running) this.#spawn();
    const startedAt = monotonicMs();
    let quorumAt = startedAt;
    while (monotonicMs() - startedAt < START_TIMEOUT_MS && this.running) {
      if (await this.healthy()) return;
      const { running, members } = this.#options.cluster();
      if (running > members / 2) quorumAt = monotonicMs();
      else if (monotonicMs() - quorumAt > QUORUM_TIMEOUT_MS)
        throw new Error(
          `etcd ${this.name} runs, but its cluster has no quorum: ${running} of ${members} members run; ` +
            'start the members together with cluster.start()',
        );
      await pause(POLL_MS);
    }
    if (this.#problem !== undefined)
      throw new Error(
        `etcd ${this.name} did not start: ${this.#problem}; set the option etcd to the path of the executable`,
      );
    const log = readFileSync(this.#options.logFile, 'utf8').trim().split('\n').slice(-5).join('\n');
    throw new Error(`etcd ${this.name} did not start:\n${log}`);
  }

  /**
   * Resolves with whether the health check of the member succeeds within 2 s. It fails, for example, while the cluster
   * has no leader. Alarms do not count, because a member serves most requests in spite of an alarm.
   */
  async healthy(): Promise<boolean> {
    const timeout = new AbortController();
    const stopTimer = after(HEALTH_TIMEOUT_MS, () => timeout.abort());
    const health = await fetch(`${this.ownUrl}/health?exclude=NOSPACE&exclude=CORRUPT`, { signal: timeout.signal })
      .then((response) => response.text())
      .catch(() => '')
      .finally(stopTimer);
    return /"health":\s*"true"/.test(health);
  }

  /** Kills the process with SIGKILL. Resolves when the process has ended. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Terminates the process with SIGTERM, which on Windows kills it. Resolves when the process has ended. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM');
  }

  /**
   * Suspends the process with SIGSTOP. The connections stay open, but the member does not answer until `resume`. On
   * Linux, returns when all threads of the process have stopped, because a busy machine takes a while to stop them.
   *
   * @throws TypeError on Windows, which cannot suspend a process.
   */
  pause(): void {
    if (!canSuspend())
      throw new TypeError('pause: Windows cannot suspend a process; make the member silent with FaultProxy.blackhole');
    this.#child?.kill('SIGSTOP');
    const giveUpAt = monotonicMs() + STOP_TIMEOUT_MS;
    // `Atomics.wait` on memory that nothing changes is a synchronous pause.
    const unchanged = new Int32Array(new SharedArrayBuffer(4));
    while (this.running && !hasStopped(this.pid) && monotonicMs() < giveUpAt) Atomics.wait(unchanged, 0, 0, 1);
  }

  /** Resumes a process that `pause` has suspended, with SIGCONT. */
  resume(): void {
    if (canSuspend()) this.#child?.kill('SIGCONT');
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#child;
    if (child === undefined || !this.running) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    // A suspended process does not handle SIGTERM before it is resumed.
    this.resume();
    await ended;
  }

  #spawn(): void {
    const { etcd, args, logFile, changed } = this.#options;
    // etcd also reads its flags from environment variables named ETCD_*. The member gets none of the ETCD_* variables
    // of this process, because they are not meant for it.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('ETCD_')));
    // The data needs to survive the end of the process, but not of the machine. Without fsync, other programs that
    // write to the disk cannot delay the member for seconds. etcd refuses a setting that comes in both ways.
    if (!args.some((arg) => /^--?unsafe-no-fsync\b/.test(arg))) env.ETCD_UNSAFE_NO_FSYNC = 'true';
    const log = openSync(logFile, 'a');
    const child = spawn(etcd, args, { env, stdio: ['ignore', log, log] });
    closeSync(log);
    this.#child = child;
    this.#problem = undefined;
    if (running.size === 0) process.on('exit', endAll);
    running.add(child);
    changed();
    child.once('error', ({ message }) => {
      this.#problem = message;
    });
    child.once('close', () => {
      running.delete(child);
      changed();
      if (running.size === 0) process.removeListener('exit', endAll);
    });
  }
}
