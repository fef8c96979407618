import { type CallOptions, checkCallOptions, type Rpc, unhurried } from '../channel/rpc.js';
import { methods } from '../gen/methods.js';
import { checkKey } from '../kv/key-range.js';
import { type WithHeader, withHeader } from '../kv/results.js';
import { checkInt64 } from '../runtime/arguments.js';
import { type BytesLike, toBytes } from '../runtime/bytes.js';

/**
 * The server's own lock service: one call waits in the server, on the key layout of `Mutex`. For programs that cannot
 * hold a session. Prefer `Mutex` for these reasons:
 *
 * - nobody renews the lease, and nobody hears of its end: keep it alive, and guard writes by the key's create revision;
 * - two calls with one lease get the same key, and both hold the lock;
 * - `unlock` deletes the key by its name, whoever put it: do not repeat one whose outcome is unknown;
 * - a `lock` whose outcome is unknown may leave its key in the queue until the lease ends.
 */
export class LockService {
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Waits for the lock, without a limit where `timeoutMs` sets none; `key` exists as long as it is held. */
  async lock(
    name: BytesLike,
    lease: bigint,
    options: CallOptions = {},
  ): Promise<WithHeader<{ readonly key: Uint8Array }>> {
    checkCallOptions(options, 'lockService.lock');
    const request = { name: toBytes(name, 'name'), lease: checkInt64(lease, 'lease', 1n) };
    const { header, key } = await this.#rpc.call(methods.lock.lock, request, unhurried(options));
    return withHeader(header, { key });
  }

  /** Deletes the key that `lock` gave, whoever may have put it since. */
  async unlock(key: BytesLike, options?: CallOptions): Promise<WithHeader<object>> {
    checkCallOptions(options, 'lockService.unlock');
    const { header } = await this.#rpc.call(methods.lock.unlock, { key: checkKey(key, 'key') }, options);
    return withHeader(header, {});
  }
}
