import { Client } from '../../src/index.js';
import { guardOf } from './conformance.js';

/** From now on, everything that holders of a lock write: pairs of one holder, each with a greater token. */
export class GuardJudge implements AsyncDisposable {
  readonly #etcd: Client;
  readonly #key: string;
  readonly #fromRevision: bigint;

  private constructor(etcd: Client, key: string, fromRevision: bigint) {
    this.#etcd = etcd;
    this.#key = key;
    this.#fromRevision = fromRevision;
  }

  static async start(endpoint: string, lock: string): Promise<GuardJudge> {
    const etcd = new Client({ endpoints: [endpoint] });
    const { header } = await etcd.delete(guardOf(lock));
    return new GuardJudge(etcd, guardOf(lock), header.revision + 1n);
  }

  /** How often the lock was held. @throws Error where two held it, or one out of turn. */
  async holds(): Promise<number> {
    const { header } = await this.#etcd.put(this.#key, 'over');
    const written: string[] = [];
    for await (const { kv } of this.#etcd.watch(this.#key, { startRevision: this.#fromRevision })) {
      if (kv.modRevision === header.revision) break;
      written.push(kv.text());
    }
    let last = 0n;
    for (let index = 0; index < written.length; index += 2) {
      const [enter = '', leave = ''] = written.slice(index, index + 2);
      const token = BigInt(enter.replace('enter ', ''));
      if (leave !== `leave ${token}`) throw new Error(`two holders: ${enter}, ${leave}`);
      if (token <= last) throw new Error(`out of turn: token ${token} after ${last}`);
      last = token;
    }
    return written.length / 2;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#etcd.close();
  }
}
