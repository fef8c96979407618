import { Client, type ClientOptions } from '../../client.js';
import { prefix } from '../../kv/keys.js';
import { monotonicMs } from '../../runtime/timers.js';

/** The keys in a queue, first come first, from a moment on. */
export interface QueueState {
  readonly atMs: number;
  readonly revision: bigint;
  /** What made it so. Undefined: it was so at the beginning. */
  readonly change: { readonly type: 'enters' | 'leaves'; readonly key: string } | undefined;
  readonly line: readonly string[];
}

/** Watches a lock's queue from outside, by a client of its own, so that the others who want it are seen as well. */
export class QueueObserver implements AsyncDisposable {
  readonly states: QueueState[] = [];
  readonly #client: Client;
  readonly #line = new Map<string, bigint>();

  private constructor(client: Client) {
    this.#client = client;
  }

  static async start(options: ClientOptions, name: string): Promise<QueueObserver> {
    const observer = new QueueObserver(new Client(options));
    const { header, kvs } = await observer.#client.range(prefix(`${name}/`), { keysOnly: true });
    for (const kv of kvs) observer.#line.set(kv.keyText(), kv.createRevision);
    observer.#note(header.revision, undefined);
    void observer.#follow(name, header.revision + 1n);
    return observer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.close();
  }

  async #follow(name: string, startRevision: bigint): Promise<void> {
    try {
      for await (const { type, kv } of this.#client.watch(prefix(`${name}/`), { startRevision })) {
        const key = kv.keyText();
        const known = this.#line.has(key);
        if (type === 'put') this.#line.set(key, kv.createRevision);
        else this.#line.delete(key);
        // A put of a key that is there already, such as a proclamation, moves nothing.
        if (type === 'delete' || !known)
          this.#note(kv.modRevision, { type: type === 'put' ? 'enters' : 'leaves', key });
      }
    } catch {
      // It is over with the client, and a trace is of use without it.
    }
  }

  #note(revision: bigint, change: QueueState['change']): void {
    const line = [...this.#line].sort(([, a], [, b]) => (a < b ? -1 : 1)).map(([key]) => key);
    this.states.push({ atMs: monotonicMs(), revision, change, line });
  }
}
