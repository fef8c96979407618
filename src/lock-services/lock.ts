import { type WithHeader, withHeaderOf } from '../channel/results.js';
import { type CallOptions, checkCallOptions, type Rpc, withoutDefaultTimeout } from '../channel/rpc.js';
import * as lockMethods from '../gen/methods/lock.js';
import { checkKey } from '../kv/keys.js';
import { type LeaseLike, leaseIdOf } from '../lease/lease-id.js';
import { type BytesLike, toBytes } from '../runtime/bytes.js';

/**
 * etcd's own lock service. `lock` is one call that waits on the server, in the same queue of keys as `Mutex`. The
 * service is meant for programs that cannot keep a session open. Prefer `Mutex`, because the service has these
 * limitations:
 *
 * - The client does not renew the lease and does not learn that the lease has ended. Keep the lease alive yourself. In
 *   each write that only the holder may make, check that the create revision of the key has not changed.
 * - Two calls with the same lease get the same key, so both hold the lock.
 * - `unlock` deletes the key even if another client has put it since. Do not repeat an `unlock` whose outcome is
 *   unknown.
 * - A `lock` whose outcome is unknown may leave its key in the queue until the lease ends.
 *
 * @example
 * const { id } = await etcd.lease.grant({ ttl: 60 });
 * const { key } = await etcd.lockService.lock('reports', id);
 * await etcd.lockService.unlock(key);
 */
export class LockService {
  readonly #rpc: Rpc;

  /** @internal */
  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /**
   * Waits until the caller holds the lock. Returns the caller's key, which exists as long as the caller holds the lock.
   * Without `timeoutMs`, the wait has no limit.
   *
   * @throws EtcdError, for example with reason `LeaseNotFound` if the lease does not exist, with reason
   * `SessionExpired` if the lease ends during the wait, or with reason `DeadlineExceeded` if the caller does not get
   * the lock within `timeoutMs`.
   */
  async lock(
    name: BytesLike,
    lease: LeaseLike,
    options: CallOptions = {},
  ): Promise<WithHeader<{ readonly key: Uint8Array }>> {
    checkCallOptions(options, 'lockService.lock');
    const request = { name: toBytes(name, 'name'), lease: leaseIdOf(lease, 'lease') };
    return withHeaderOf(this.#rpc.call(lockMethods.lock, request, withoutDefaultTimeout(options)));
  }

  /**
   * Releases the lock: deletes the key that `lock` returned, even if another client has put the key since.
   *
   * @throws EtcdError if the call fails.
   */
  async unlock(key: BytesLike, options?: CallOptions): Promise<WithHeader<object>> {
    checkCallOptions(options, 'lockService.unlock');
    return withHeaderOf(this.#rpc.call(lockMethods.unlock, { key: checkKey(key, 'key') }, options));
  }
}
