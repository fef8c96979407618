import { EtcdError, explained } from '../errors/etcd-error.js';
import { type Compare, compare, op, type PutOp } from '../kv/txn.js';

/**
 * Returns the prefix of a primitive's helper keys, for primitives that in Go's layout own every key that begins with
 * their name. The helper keys lie in the same folder as the name, so that a permission for the folder covers them:
 * "app/jobs" has "app/__jobs/".
 */
export function helperPrefix(name: string): string {
  const at = name.lastIndexOf('/') + 1;
  return `${name.slice(0, at)}__${name.slice(at)}/`;
}

/** Describes `helperPrefix` without the name, because errors contain no names of keys. */
const HELPER_KEYS = 'under its name with "__" before the last part ("app/jobs": "app/__jobs/")';

/**
 * Awaits a call. If the server denies permission, the error also says which helper keys `what` uses.
 */
export async function withHelperKeys<T>(what: string, call: Promise<T>, where = HELPER_KEYS): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (!(error instanceof EtcdError) || error.reason !== 'PermissionDenied') throw error;
    throw explained(error, `${error.problem}; ${what} also uses keys ${where}: grant readwrite on that prefix`);
  }
}

/**
 * A key that every removal puts, so that a late copy of an earlier put has no effect after the removal. The earlier put
 * compares the mod revision of this key with the revision that the client knew when it sent the put. To compare that the
 * put key is missing is not enough, because it is missing before the put and after the removal. (S25)
 */
export class Generation {
  readonly #key: string;
  /** Greatest store revision in an answer so far. */
  #seen = 0n;

  constructor(prefix: string) {
    this.#key = `${prefix}generation`;
  }

  /** Holds if nothing was removed since the revision that the client knows. */
  get isUnchanged(): Compare {
    return compare.modRevision(this.#key, '<', this.#seen + 1n);
  }

  /** The operation that each removal includes. */
  get next(): PutOp {
    return op.put(this.#key, '');
  }

  saw(revision: bigint): void {
    if (revision > this.#seen) this.#seen = revision;
  }
}
