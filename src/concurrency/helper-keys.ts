import { EtcdError, explained } from '../errors/etcd-error.js';
import { type Compare, compare } from '../kv/compare.js';
import { op, type PutOp } from '../kv/op.js';

/**
 * Where the helper keys of a primitive lie whose keys in Go's layout are all that begin with its name: beside them, under
 * the same folder, so that a user with permission for the folder can use them. "app/jobs" has "app/__jobs/".
 */
export function helperPrefix(name: string): string {
  const at = name.lastIndexOf('/') + 1;
  return `${name.slice(0, at)}__${name.slice(at)}/`;
}

/** Where `helperPrefix` lies, in words: names of keys stay out of errors. */
const HELPER_KEYS = 'under its name with "__" before the last part ("app/jobs": "app/__jobs/")';

/**
 * Passes on what becomes of a call. Where permission is denied, the error says which helper keys of `what` need it too.
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
 * A key that is put whenever something is removed, so that what put it before cannot put it again. A put compares the
 * revision of this key with one that the client has seen before it sent the put. A copy of the put that arrives after the
 * removal finds a later revision, and does nothing. The comparison with a missing key alone would not tell: the key is
 * missing before the put and after the removal.
 */
export class Generation {
  readonly #key: string;
  /** The store was here when the client last heard of it. */
  #seen = 0n;

  constructor(prefix: string) {
    this.#key = `${prefix}generation`;
  }

  /** Nothing was removed since the revision that the client has seen. */
  get isUnchanged(): Compare {
    return compare.modRevision(this.#key, '<', this.#seen + 1n);
  }

  /** Goes with each removal. */
  get next(): PutOp {
    return op.put(this.#key, '');
  }

  saw(revision: bigint): void {
    if (revision > this.#seen) this.#seen = revision;
  }
}
