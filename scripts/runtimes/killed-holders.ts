import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Client, prefix } from '../../src/index.js';
import { pause } from '../../src/runtime/timers.js';

// Lets a process hold a lock that another process wants, and kills the holder.

/** A program and its arguments. `hold ENDPOINT LOCK` is appended to them. */
export type Command = readonly [program: string, ...args: string[]];

/** How often the check looks whether the waiter has its key, in milliseconds. */
const LOOK_MS = 20;
/** How long a holder may need in milliseconds. The TTL of the leases is 2 s. */
const TIMEOUT_MS = 20_000;

/**
 * Starts `holder`, which takes the lock, and `waiter`, which waits for it. Kills the holder with SIGKILL.
 *
 * @throws Error if the waiter does not get the lock, or gets it before.
 */
export async function killHolder(endpoint: string, lock: string, holder: Command, waiter: Command): Promise<void> {
  await using etcd = new Client({ endpoints: [endpoint] });
  const [first, second] = [new Holder(holder, endpoint, lock), new Holder(waiter, endpoint, lock)];
  try {
    first.start();
    await first.held;
    second.start();
    while ((await etcd.range(prefix(`${lock}/`))).kvs.length < 2) await pause(LOOK_MS);
    if (second.isHeld) throw new Error('the waiter got the lock before the holder was killed');
    first.kill();
    await second.held;
  } finally {
    first.kill();
    second.kill();
  }
}

class Holder {
  /** Resolves when the process holds the lock. */
  readonly held: Promise<void>;
  isHeld = false;
  readonly #command: Command;
  readonly #args: readonly string[];
  #child: ChildProcess | undefined;
  #settle: (problem?: Error) => void = () => {};

  constructor(command: Command, endpoint: string, lock: string) {
    this.#command = command;
    this.#args = ['hold', endpoint, lock];
    this.held = new Promise((resolve, reject) => {
      this.#settle = (problem) => (problem === undefined ? resolve() : reject(problem));
    });
    this.held.catch(() => {});
  }

  start(): void {
    const [program, ...args] = this.#command;
    const child = spawn(program, [...args, ...this.#args], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child = child;
    createInterface({ input: child.stdout }).on('line', (line) => {
      this.isHeld ||= line === 'held';
      this.#settle(this.isHeld ? undefined : new Error(`the holder printed ${line}`));
    });
    child.once('error', (error) => this.#settle(error));
    child.once('exit', () => this.#settle(new Error('the holder ended')));
    setTimeout(() => this.#settle(new Error(`no lock within ${TIMEOUT_MS} ms`)), TIMEOUT_MS).unref();
  }

  kill(): void {
    this.#child?.kill('SIGKILL');
  }
}
