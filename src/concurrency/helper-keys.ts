import { EtcdError, explained } from '../errors/etcd-error.js';
import { type Compare, compare, op, type PutOp } from '../kv/txn.js';

/**
 * Returns the prefix of a primitive's helper keys: "app/__jobs/" for the name "app/jobs". The prefix does not begin
 * with the name, because some primitives treat every key that begins with their name as an item. The helper keys are in
 * the same folder as the name, so a permission for the folder includes them.
 */
export function helperPrefix(name: string): string {
  const at = name.lastIndexOf('/') + 1;
  return `${name.slice(0, at)}__${name.slice(at)}/`;
}

/** Describes `helperPrefix` in an error message. The text omits the actual name, because errors do not contain keys. */
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
 * The generation key of a primitive. Every removal of an item or a barrier puts this key, and every put of an item or a
 * barrier compares its mod revision with the store revision that the client knew when it sent the put. So a late copy
 * of a put has no effect after the removal. Comparing that the item is missing would not be enough, because the item is
 * missing both before the put and after the removal. (S25)
 */
export class Generation {
  readonly #key: string;
  /** The greatest store revision that an answer has contained so far. */
  #seen = 0n;

  constructor(prefix: string) {
    this.#key = `${prefix}generation`;
  }

  /** A comparison that is true if no removal has happened since the latest store revision that the client knows. */
  get isUnchanged(): Compare {
    return compare.modRevision(this.#key, '<', this.#seen + 1n);
  }

  /** The put of the generation key. Every removal includes it in its transaction. */
  get next(): PutOp {
    return op.put(this.#key, '');
  }

  /** Records the store revision of an answer. */
  saw(revision: bigint): void {
    if (revision > this.#seen) this.#seen = revision;
  }
}
