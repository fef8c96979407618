import type { CallOptions } from '../channel/rpc.js';
import { checkClient, type Keyspace } from '../keyspace.js';
import { compare } from '../txn/compare.js';
import { op } from '../txn/op.js';
import { checkName } from './queue-entry.js';
import { type WaitOptions, waitLimit } from './wait-limit.js';
import { watchUntil } from './watch-until.js';

/** Holds everybody up while one key exists: the `Barrier` of Go's recipes. */
export class Barrier {
  readonly name: string;
  readonly #client: Keyspace;

  /** The name is the key. @throws EtcdError, reason `InvalidInput`. */
  constructor(client: Keyspace, name: string) {
    this.name = checkName(name);
    this.#client = checkClient(client);
  }

  /**
   * Puts the barrier up; false where it was up already. With a `lease` it comes down when that ends, without one it
   * stays until it is released, whatever becomes of this process.
   */
  async hold(options: { readonly lease?: bigint | undefined } & CallOptions = {}): Promise<boolean> {
    const { lease, ...callOptions } = options;
    const absent = [compare.missing(this.name)];
    const { succeeded } = await this.#client.txn({ if: absent, then: [op.put(this.name, '', { lease })] }, callOptions);
    return succeeded;
  }

  /** Takes the barrier down, whoever put it up; false where it was down. */
  async release(options?: CallOptions): Promise<boolean> {
    return (await this.#client.delete(this.name, options)).deleted > 0n;
  }

  /** Waits until the barrier is down. @throws EtcdError, see `WaitOptions`. */
  async wait(options: WaitOptions = {}): Promise<void> {
    const limit = waitLimit('wait', options);
    try {
      limit.signal.throwIfAborted();
      const release = { keys: this.name, wake: 'delete' } as const;
      let first: bigint | undefined;
      await watchUntil(this.#client, release, limit.signal, async (callOptions) => {
        const held = (await this.#client.get(this.name, callOptions))?.createRevision;
        first ??= held;
        // Another one: it was down in between.
        return held === undefined || held !== first ? true : undefined;
      });
    } catch (error) {
      throw limit.signal.aborted ? limit.signal.reason : error;
    } finally {
      limit.dispose();
    }
  }
}
