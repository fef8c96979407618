import { checkOptions } from '../../base/index.js';
import {
  type CoreKeyspace,
  checkClient,
  compare,
  type LeaseLike,
  leaseIdOrNone,
  op,
  PUT_HINTS,
} from '../../client/index.js';
import { checkName, type WaitOptions, watchUntil, withinLimit } from '../../locks/index.js';
import { CALL_OPTIONS, type CallOptions, checkCallOptions } from '../../rpc/index.js';
import { swapKey } from '../keys/index.js';
import { retriedTxn } from '../writes/index.js';

const HOLD_OPTIONS = { lease: leaseIdOrNone, ...CALL_OPTIONS } as const;

/**
 * Blocks waiters while one key exists, like the `Barrier` of Go's recipes.
 *
 * @example
 * const barrier = new Barrier(etcd, 'maintenance');
 * await barrier.hold();
 * await barrier.release();
 */
export class Barrier {
  readonly name: string;
  readonly #client: CoreKeyspace;

  /**
   * `name` is the key of the barrier in etcd. @throws EtcdError with reason `InvalidInput` if an argument is invalid.
   */
  constructor(client: CoreKeyspace, name: string) {
    this.name = checkName(name);
    this.#client = checkClient(client);
  }

  /**
   * Puts the barrier's key. Returns false if the key already existed. With a `lease`, etcd deletes the key when the
   * lease ends. Without a lease, the key exists until a client releases the barrier, even if this process ends.
   */
  async hold(options: { readonly lease?: LeaseLike | undefined } & CallOptions = {}): Promise<boolean> {
    checkOptions(options, HOLD_OPTIONS, 'Barrier.hold', PUT_HINTS);
    const { lease, ...callOptions } = options;
    const txn = { if: [compare.missing(this.name)], then: [op.put(this.name, '', { lease })] };
    return (await retriedTxn(this.#client, txn, callOptions)).succeeded;
  }

  /** Deletes the barrier's key, even if another client put it. Returns false if the key did not exist. */
  async release(options?: CallOptions): Promise<boolean> {
    checkCallOptions(options, 'Barrier.release');
    // A plain deletion that arrives late could delete a key that was put after the release.
    return swapKey(this.#client, this.name, (held) => held && [op.delete(held.keyBytes)], options);
  }

  /**
   * Waits until the barrier's key does not exist. Also resolves if the key was deleted and put again during the wait.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  wait(options: WaitOptions = {}): Promise<void> {
    return withinLimit('wait', options, undefined, async ({ waiting }) => {
      let first: bigint | undefined;
      await watchUntil(this.#client, { keys: this.name, event: 'delete' }, waiting, async (callOptions) => {
        const held = (await this.#client.get(this.name, callOptions))?.createRevision;
        first ??= held;
        // A different create revision means that the barrier was released, and its key put again, since the first read.
        return held === undefined || held !== first ? true : undefined;
      });
    });
  }
}
