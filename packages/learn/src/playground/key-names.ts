import { GUARD_PREFIX } from '../../../../src/internal.js';

// How the page writes the names of keys.

/** The number of characters of a lease's ID that the page shows. */
const ID_LENGTH = 4;

/** Shortens the IDs in a key. The page has little room, and the first characters of all IDs are equal. */
export function shortKey(key: string): string {
  return key.replace(/-\w+\/\d+$/, '').replace(/[0-9a-f]{9,}/g, (id) => `…${id.slice(-ID_LENGTH)}`);
}

/** Whether the key is a guard of etcdwire: see src/locks/guards.ts. */
export function isGuardKey(key: string): boolean {
  return key.startsWith(GUARD_PREFIX);
}
