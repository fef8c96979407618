import { type ChildProcess, spawn } from 'node:child_process';
import { after } from '../runtime/timers.js';
import { type CommandProcesses, killCommandAfter, signalCommand } from './command-processes.js';
import { linesOf } from './io.js';

/** The argument with which this program starts itself as a guard. */
export const GUARD = '--guard-of-a-command';

/** The guard gives a program that is awake this much time to end its command by itself. At most half of the grace. */
const LAG_MS = 25;
/** The time until the hold ends is looked at again after a quarter of it, within these limits. */
const MIN_BEAT_MS = 10;
const MAX_BEAT_MS = 1_000;

/** What the guard is sent, as a line of JSON. */
interface Beat {
  readonly command: CommandProcesses;
  readonly graceMs: number;
  /** When the hold ends, unless another beat says that it was renewed. On the clock of `systemMs`. */
  readonly untilMs: number;
  /** The command got its SIGTERM already. */
  readonly asked: boolean;
}

export interface GuardOptions {
  /** What is known of the command before it is started. */
  readonly command: CommandProcesses;
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** For how long the hold is certain to last. */
  remainingMs(): number;
  /** The guard has ended, and guards nothing any more. */
  onEnd(): void;
}

/**
 * A process that ends a command when this one cannot: when the hold ends while this process is stopped, and when this
 * process dies. The guard is told when the hold ends each time the lease is renewed. It has a session of its own, so that
 * what stops or interrupts this process by way of the terminal leaves the guard alone.
 */
export class Guard implements Disposable {
  readonly #options: GuardOptions;
  #command: CommandProcesses;
  readonly #process: ChildProcess;
  #untilMs = Number.NEGATIVE_INFINITY;
  #stopBeating = (): void => {};

  constructor(options: GuardOptions) {
    this.#options = options;
    this.#command = options.command;
    // An inspector of its own would want the port of this one's.
    const execArgv = process.execArgv.filter((each) => !each.startsWith('--inspect'));
    const args = [...execArgv, process.argv[1] as string, GUARD];
    // Nothing else is inherited: whoever reads the output of this program would wait for the guard to close it.
    this.#process = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    this.#process.once('error', options.onEnd);
    this.#process.once('exit', options.onEnd);
    this.#process.stdin?.on('error', () => {});
    this.#beat();
  }

  /** The command was started. */
  started(command: CommandProcesses): void {
    this.#command = command;
    this.#send(this.#untilMs, false);
  }

  /** The command got its SIGTERM. */
  asked(): void {
    this.#stopBeating();
    this.#send(systemMs(), true);
  }

  /** Ends the guard, which leaves the command alone then. */
  [Symbol.dispose](): void {
    this.#stopBeating();
    this.#process.off('error', this.#options.onEnd);
    this.#process.off('exit', this.#options.onEnd);
    this.#process.on('error', () => {});
    this.#process.kill('SIGKILL');
  }

  #beat(): void {
    const leftMs = this.#options.remainingMs();
    // The hold is lost: `asked` tells the guard.
    if (leftMs <= 0) return;
    const untilMs = systemMs() + leftMs;
    // Two readings of the clocks differ by microseconds.
    if (Math.abs(untilMs - this.#untilMs) > 1) {
      this.#untilMs = untilMs;
      this.#send(untilMs, false);
    }
    const delayMs = Math.min(Math.max(leftMs / 4, MIN_BEAT_MS), MAX_BEAT_MS);
    this.#stopBeating = after(delayMs, () => this.#beat(), 'background');
  }

  #send(untilMs: number, asked: boolean): void {
    const beat: Beat = { command: this.#command, graceMs: this.#options.graceMs, untilMs, asked };
    this.#process.stdin?.write(`${JSON.stringify(beat)}\n`);
  }
}

/** What the guard's process does, until it has ended the command or is killed because there is nothing to guard. */
export async function guard(input: AsyncIterable<Uint8Array>): Promise<void> {
  let stopTimer = (): void => {};
  let last: Beat | undefined;
  const ended = new Promise<void>((resolve) => {
    const arm = async (): Promise<void> => {
      for await (const line of linesOf({ stdin: input })) {
        const beat: Beat = JSON.parse(line);
        last = beat;
        stopTimer();
        const lagMs = Math.min(LAG_MS, beat.graceMs / 2);
        stopTimer = after(beat.untilMs + lagMs - systemMs(), () => resolve(end(beat, beat.graceMs - lagMs)));
      }
      stopTimer();
      // The other end is closed: a process that ends as it should kills its guard first.
      resolve(last === undefined ? undefined : end(last, last.graceMs));
    };
    void arm();
  });
  await ended;
}

async function end({ command, asked }: Beat, graceMs: number): Promise<void> {
  if (!asked) signalCommand(command, 'SIGTERM');
  await killCommandAfter(command, graceMs);
}

/** Milliseconds on the monotonic clock that all processes of a machine share, unlike `performance.now()`. */
function systemMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
