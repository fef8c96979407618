import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { pause } from '../../src/base/timers.js';
import { Client, prefix } from '../../src/index.js';

// Lets a process hold a lock that another process wants, and kills the holder.

/** A program and its arguments. `hold ENDPOINT LOCK` is appended to them. */
export type Command = readonly [program: string, ...args: string[]];

/** How often the check looks whether the waiter has its key, in milliseconds. */
const LOOK_MS = 20;
/** How long a holder may need in milliseconds. The TTL of the leases is 2 s. */
const TIMEOUT_MS = 60_000;

/**
 * Starts `holder`, which takes the lock, and `waiter`, which waits for it. Kills the holder with SIGKILL.
 *
 * @throws Error if the waiter does not get the lock, or gets it before.
 */
export async function killHolder(endpoint: string, lock: string, holder: Command, waiter: Command): Promise<void> {
  await using etcd = new Client({ endpoints: [endpoint] });
  using first = new Holder([...holder, 'hold', endpoint, lock]);
  await first.held;
  using second = new Holder([...waiter, 'hold', endpoint, lock]);
  while ((await etcd.range(prefix(`${lock}/`))).kvs.length < 2) await pause(LOOK_MS);
  if (second.isHeld) throw new Error('the waiter got the lock before the holder was killed');
  first[Symbol.dispose]();
  await second.held;
}

/** A process that takes the lock. */
class Holder implements Disposable {
  /** Resolves when the process holds the lock. */
  readonly held: Promise<void>;
  isHeld = false;
  readonly #child: ChildProcess;

  constructor([program, ...args]: Command) {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child = child;
    this.held = new Promise((resolve, reject) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        this.isHeld ||= line === 'held';
        if (this.isHeld) resolve();
        else reject(new Error(`the holder printed ${line}`));
      });
      child.once('error', reject);
      child.once('exit', () => reject(new Error('the holder ended')));
      setTimeout(() => reject(new Error(`no lock within ${TIMEOUT_MS} ms`)), TIMEOUT_MS).unref();
    });
    this.held.catch(() => {});
  }

  /** Kills the process with SIGKILL. */
  [Symbol.dispose](): void {
    this.#child.kill('SIGKILL');
  }
}
