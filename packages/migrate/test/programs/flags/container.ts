import { readFileSync } from 'node:fs';
import { Etcd3, type IOptions } from 'etcd3';
import { FlagStore } from './store.js';

export interface Settings {
  readonly hosts: string | string[];
  readonly environment: string;
  readonly ca?: string;
  readonly user?: string;
  readonly password?: string;
}

function optionsOf({ hosts, ca, user, password }: Settings): IOptions {
  const options: IOptions = { hosts, dialTimeout: 5_000 };
  if (ca !== undefined) options.credentials = { rootCertificate: readFileSync(ca) };
  if (user !== undefined && password !== undefined) options.auth = { username: user, password };
  return options;
}

/** A container that makes each service at its first use. */
export class Container {
  readonly #made = new Map<string, unknown>();

  constructor(private readonly settings: Settings) {}

  get etcd(): Etcd3 {
    return this.#once('etcd', () => new Etcd3(optionsOf(this.settings)));
  }

  get flags() {
    return this.#once('flags', () => new FlagStore(this.etcd, this.settings.environment));
  }

  async close(): Promise<void> {
    await this.flags.stop();
    this.etcd.close();
  }

  #once<T>(name: string, make: () => T): T {
    if (!this.#made.has(name)) this.#made.set(name, make());
    return this.#made.get(name) as T;
  }
}
