import type { Etcd3, IKeyValue, Namespace, Watcher } from 'etcd3';

export interface Flag {
  readonly name: string;
  readonly enabled: boolean;
  readonly rollout: number;
}

type Listener = (name: string, flag: Flag | undefined) => void;

/** Feature flags below `flags/`, with a cache that a watch keeps up to date. */
export class FlagStore {
  readonly #cache = new Map<string, Flag>();
  readonly #listeners: Listener[] = [];
  private readonly flags: Namespace;
  private watcher: Watcher | undefined;

  constructor(
    private readonly etcd: Etcd3,
    private readonly environment: string,
  ) {
    this.flags = etcd.namespace(`flags/${environment}/`);
  }

  async start(): Promise<void> {
    const values = await this.flags.getAll().strings();
    for (const [name, text] of Object.entries(values)) this.#cache.set(name, JSON.parse(text));
    this.watcher = await this.flags.watch().prefix('').create();
    this.watcher.on('put', (kv: IKeyValue) => this.#changed(kv.key.toString(), JSON.parse(kv.value.toString())));
    this.watcher.on('delete', (kv) => this.#changed(kv.key.toString(), undefined));
    this.watcher.on('error', (error) => console.error('watch failed', error.message));
  }

  onChange(listener: Listener): void {
    this.#listeners.push(listener);
  }

  cached(name: string): Flag | undefined {
    return this.#cache.get(name);
  }

  async get(name: string): Promise<Flag | undefined> {
    const text = await this.flags.get(name).string();
    return text === null ? undefined : JSON.parse(text);
  }

  async save(flag: Flag): Promise<void> {
    await this.flags.put(flag.name).value(JSON.stringify(flag));
    await this.etcd.put(`audit/${this.environment}/${Date.now()}`).value(`saved ${flag.name}`).exec();
  }

  /** Returns false if the flag exists already. */
  async create(flag: Flag): Promise<boolean> {
    const result = await this.flags
      .if(flag.name, 'Create', '==', 0)
      .then(this.flags.put(flag.name).value(JSON.stringify(flag)))
      .commit();
    return result.succeeded;
  }

  async remove(name: string): Promise<boolean> {
    const { deleted } = await this.flags.delete().key(name);
    return Number(deleted) > 0;
  }

  count(): Promise<number> {
    return this.flags.getAll().count();
  }

  async names(limit: number): Promise<string[]> {
    return await this.flags.getAll().sort('Key', 'Ascend').limit(limit).keys();
  }

  async stop(): Promise<void> {
    await this.watcher?.cancel();
  }

  #changed(name: string, flag: Flag | undefined): void {
    if (flag === undefined) this.#cache.delete(name);
    else this.#cache.set(name, flag);
    for (const listener of this.#listeners) listener(name, flag);
  }
}
