import { setTimeout as pause } from 'node:timers/promises';
import { type Client, EtcdError } from '../../../src/index.js';
import { History, type PutCall, type RegisterCall, type RegisterResult } from '../../../src/testing/index.js';
import { pick } from './rounds.js';

/** Up to so long between two calls: the search for an order of all calls takes the longer the more they are. */
const PAUSE_MS = 20;

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

  /** One client's share, one call after the other for as long as they are wanted. Errors of etcd's are part of it. */
  async run(etcd: Client, process: string, wanted: () => boolean): Promise<void> {
    for (let index = 0; wanted(); index += 1) {
      await pause(PAUSE_MS * this.#random());
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
