import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Client } from '../../src/index.js';
import { guardOf } from './conformance.js';

/** A Node.js process that takes the lock, releases it and takes it again until `end()`. */
export class Contender {
  readonly #child: ChildProcess;
  readonly #exited: Promise<number | null>;

  constructor(program: string, endpoint: string, lock: string) {
    this.#child = spawn(process.execPath, [program, 'contend', endpoint, lock], { stdio: 'inherit' });
    this.#exited = once(this.#child, 'exit').then(([code]: (number | null)[]) => code ?? null);
  }

  /** Ends the process after its current hold. @throws Error if the process failed. */
  async end(): Promise<void> {
    this.#child.kill('SIGTERM');
    const code = await this.#exited;
    if (code !== 0) throw new Error(`a contender for the lock exited with ${code}`);
  }
}

/**
 * Reads what the holders of a lock wrote to the lock's guard key (see `guardOf`), and checks the order of the writes.
 */
export class GuardCheck implements AsyncDisposable {
  readonly #etcd: Client;
  readonly #key: string;
  readonly #fromRevision: bigint;

  private constructor(etcd: Client, key: string, fromRevision: bigint) {
    this.#etcd = etcd;
    this.#key = key;
    this.#fromRevision = fromRevision;
  }

  static async start(endpoint: string, lock: string): Promise<GuardCheck> {
    const etcd = new Client({ endpoints: [endpoint] });
    const { header } = await etcd.delete(guardOf(lock));
    return new GuardCheck(etcd, guardOf(lock), header.revision + 1n);
  }

  /**
   * Resolves with the number of times that a contender held the lock. Each holder must write two values with its
   * fencing token, without a write by another holder in between. The token must be greater than all earlier tokens.
   *
   * @throws Error if two contenders held the lock at the same time, or if a token is not greater than the token before.
   */
  async holds(): Promise<number> {
    const { header } = await this.#etcd.put(this.#key, 'end');
    const written: string[] = [];
    for await (const event of this.#etcd.watch(this.#key, { startRevision: this.#fromRevision })) {
      if (event.modRevision === header.revision) break;
      if (event.type === 'put') written.push(event.kv.text());
    }
    let last = 0n;
    for (let index = 0; index < written.length; index += 2) {
      const [enter = '', leave = ''] = written.slice(index, index + 2);
      const token = BigInt(enter.replace('enter ', ''));
      if (leave !== `leave ${token}`) throw new Error(`two contenders held the lock at once: ${enter}, ${leave}`);
      if (token <= last) throw new Error(`the tokens are out of order: ${token} after ${last}`);
      last = token;
    }
    return written.length / 2;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#etcd.close();
  }
}
