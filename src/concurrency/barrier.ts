import { CALL_OPTIONS, type CallOptions, checkCallOptions } from '../channel/rpc.js';
import { checkClient, type Keyspace } from '../keyspace.js';
import { compare } from '../kv/compare.js';
import { op } from '../kv/op.js';
import { PUT_HINTS } from '../kv/requests.js';
import { checkOptions } from '../runtime/arguments.js';
import { Generation, helperPrefix, withHelperKeys } from './helper-keys.js';
import { checkName } from './queue-entry.js';
import { type WaitOptions, waitLimit } from './wait-limit.js';
import { watchUntil } from './watch-until.js';

const HOLD_OPTIONS = { lease: true, ...CALL_OPTIONS } as const;

/**
 * Holds everybody up while one key exists: the `Barrier` of Go's recipes. `hold` and `release` also use a key in the same
 * folder, under the name with "__" before its last part: the barrier "app/gate" uses "app/__gate/". A user needs
 * readwrite permission for it.
 */
export class Barrier {
  readonly name: string;
  readonly #client: Keyspace;
  readonly #generation: Generation;

  /** The name is the key. @throws EtcdError, reason `InvalidInput`. */
  constructor(client: Keyspace, name: string) {
    this.name = checkName(name);
    this.#client = checkClient(client);
    this.#generation = new Generation(helperPrefix(name));
  }

  /**
   * Puts the barrier up; false where it was up already. With a `lease` it comes down when that ends, without one it
   * stays until it is released, whatever becomes of this process.
   */
  async hold(options: { readonly lease?: bigint | undefined } & CallOptions = {}): Promise<boolean> {
    checkOptions(options, HOLD_OPTIONS, 'Barrier.hold', PUT_HINTS);
    const { lease, ...callOptions } = options;
    for (;;) {
      const holding = this.#client.txn(
        {
          if: [compare.missing(this.name), this.#generation.isUnchanged],
          then: [op.put(this.name, '', { lease })],
          else: [op.get(this.name)],
        },
        callOptions,
      );
      const { header, succeeded, responses } = await withHelperKeys('a barrier', holding);
      this.#generation.saw(header.revision);
      if (succeeded) return true;
      if (responses[0] !== undefined) return false;
    }
  }

  /** Takes the barrier down, whoever put it up; false where it was down. */
  async release(options?: CallOptions): Promise<boolean> {
    checkCallOptions(options, 'Barrier.release');
    for (;;) {
      const held = await this.#client.get(this.name, options);
      if (held === undefined) return false;
      // A copy of the request that arrives late finds another barrier, and leaves it up.
      const isSame = [compare.createRevision(this.name, '==', held.createRevision)];
      const releasing = this.#client.txn({ if: isSame, then: [op.delete(this.name), this.#generation.next] }, options);
      if ((await withHelperKeys('a barrier', releasing)).succeeded) return true;
    }
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
      throw limit.endedBy(error);
    } finally {
      limit.dispose();
    }
  }
}
