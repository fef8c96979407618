import { EtcdError, explained, invalidInput } from '../base/index.js';
import { checkName } from './lock-queue.js';

/**
 * Checks the name of an object, such as a queue, that reads all keys in the folders `folders` under its name. Returns
 * the name.
 *
 * @throws EtcdError with reason `InvalidInput` if the name is invalid, or if a slash-separated part of the name is one
 * of `folders`. All keys of an object with the name "mail/dead" would lie in the folder "dead" of an object with the
 * name "mail".
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
 * Returns the prefix of the helper keys that a queue uses in addition to its items. For the name "app/jobs", the prefix
 * is "app/__jobs/". The prefix does not begin with the name, because Go's recipes treat every key under the name as an
 * item. The helper keys are in the same folder as the name, so a permission for the folder includes them.
 */
export function helperPrefix(name: string): string {
  const at = name.lastIndexOf('/') + 1;
  return `${name.slice(0, at)}__${name.slice(at)}/`;
}

/** Describes `helperPrefix` in an error message. */
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
