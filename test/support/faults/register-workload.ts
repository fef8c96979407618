import { type Client, EtcdError } from '../../../src/index.js';
import { History, type PutCall, type RegisterCall, type RegisterResult } from '../../../src/testing/index.js';
import { pick } from './rounds.js';

/** Puts of unique values to a few keys, and reads of them, by several clients at a time. */
export class RegisterWorkload {
  readonly keys: readonly string[];
  readonly puts = new History<PutCall, unknown>();
  readonly registers: ReadonlyMap<string, History<RegisterCall, RegisterResult>>;
  readonly #random: () => number;

  constructor(keys: readonly string[], random: () => number) {
    this.keys = keys;
    this.registers = new Map(keys.map((key) => [key, new History()]));
    this.#random = random;
  }

  /** One client's share: so many puts, one after the other. Errors of etcd's are part of it. */
  async run(etcd: Client, process: string, puts: number): Promise<void> {
    for (let index = 0; index < puts; index += 1) {
      const key = pick(this.keys, this.#random);
      if (this.#random() < 0.5) await this.#tolerant(() => this.#read(etcd, process, key));
      await this.#tolerant(() => this.#write(etcd, process, key, `${process}.${index}`));
    }
  }

  async #read(etcd: Client, process: string, key: string): Promise<unknown> {
    return this.registers.get(key)?.record(process, { type: 'read' }, async () => (await etcd.get(key))?.text());
  }

  async #write(etcd: Client, process: string, key: string, value: string): Promise<unknown> {
    return this.registers.get(key)?.record(process, { type: 'write', value }, async () => {
      await this.puts.record(process, { key, value }, () => etcd.put(key, value));
      return undefined;
    });
  }

  async #tolerant(act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
    }
  }
}
