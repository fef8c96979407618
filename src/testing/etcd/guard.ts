import { type SpawnOptions, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';

/**
 * The guard process reads lines with the IDs of the members' processes, and remembers the latest line. Its input ends
 * when this process ends, however this process ends. The guard process then kills the members and deletes their data.
 */
const SCRIPT = 'while read -r line; do pids=$line; done; [ -z "$pids" ] || kill -9 $pids; rm -rf "$0"';

/**
 * @internal Ends the members of a cluster when a signal ends this process. A handler for signals could not do this: it
 * would change how the program handles signals, and SIGKILL has no handler. Has no effect on Windows, which lacks the
 * shell.
 */
export class Guard {
  readonly #input: Socket | undefined;

  /** `folder` contains the data of the members. */
  constructor(folder: string) {
    if (process.platform === 'win32') return;
    // The guard process has its own session, so that Ctrl-C does not end it together with this process.
    const options: SpawnOptions = { stdio: ['pipe', 'ignore', 'ignore'], detached: true, cwd: tmpdir() };
    const guard = spawn('sh', ['-c', SCRIPT, folder], options);
    guard.once('error', () => {}).unref();
    this.#input = guard.stdin as Socket;
    this.#input.on('error', () => {}).unref();
  }

  /** Says which processes of members run now. The ID of a process that could not be started is undefined. */
  watch(pids: readonly (number | undefined)[]): void {
    // A member may report its end after `close`.
    if (this.#input?.writable) this.#input.write(`${pids.filter(Boolean).join(' ')}\n`);
  }

  /** Ends the guard process, after the last member has ended. */
  close(): void {
    this.watch([]);
    this.#input?.end();
  }
}
