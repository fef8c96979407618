import { EtcdError, explained, invalidInput } from '../errors/etcd-error.js';
import { type Compare, compare, op, type PutOp } from '../kv/txn.js';
import { checkName } from './lock-queue.js';

/**
 * Checks the name of an object, such as a queue, that lists the keys in these folders under its name. Returns the name.
 *
 * @throws EtcdError with reason `InvalidInput` if the name is invalid, or if one of its parts is such a folder. All
 * keys of an object with the name "mail/dead" would lie in the folder "dead" of an object with the name "mail".
 */
export function checkNameOutside(folders: readonly string[], name: string): string {
  const part = checkName(name)
    .split('/')
    .find((each) => folders.includes(each));
  if (part === undefined) return name;
  const allowed = `a name without the parts ${folders.map((each) => `"${each}"`).join(', ')}, which are folders of its keys`;
  throw invalidInput('name', `a name with the part "${part}"`, allowed);
}

/**
 * Returns the prefix of the helper keys that a queue or a barrier uses in addition to its items or its key. For the
 * name "app/jobs", the prefix is "app/__jobs/". The prefix does not begin with the name, because a queue treats every
 * key under its name as an item. The helper keys are in the same folder as the name, so a permission for the folder
 * includes them.
 */
export function helperPrefix(name: string): string {
  const at = name.lastIndexOf('/') + 1;
  return `${name.slice(0, at)}__${name.slice(at)}/`;
}

/** Describes `helperPrefix` in an error message. The text omits the actual name, because errors do not contain keys. */
const HELPER_KEYS = 'under its name with "__" before the last part ("app/__jobs/" for "app/jobs")';

/**
 * Awaits a call. If the server denies permission, the error also says which helper keys the caller uses. `what` names
 * the caller, such as `a queue`. `where` describes the helper keys.
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
 * The generation key of a queue or a barrier. Every transaction that removes an item or the barrier's key also puts the
 * generation key. Every transaction that adds an item or the barrier's key checks that the generation key has not
 * changed since the latest store revision that the client knew. So a late copy of the addition fails after the removal.
 * It would not be enough to check only that the item is missing, because the item is missing both before the addition
 * and after the removal (rule S25 in docs/semantics.md).
 */
export class Generation {
  readonly #key: string;
  /** Maximum store revision in any response so far. */
  #seen = 0n;

  constructor(prefix: string) {
    this.#key = `${prefix}generation`;
  }

  /** The condition that no removal has happened since the latest store revision that the client knows. */
  get isUnchanged(): Compare {
    return compare.modRevision(this.#key, '<', this.#seen + 1n);
  }

  /** The put of the generation key. Every transaction that removes an item or the barrier's key includes this put. */
  get next(): PutOp {
    return op.put(this.#key, '');
  }

  /** Records the store revision of a response. */
  saw(revision: bigint): void {
    if (revision > this.#seen) this.#seen = revision;
  }
}
