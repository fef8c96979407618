import { homedir } from 'node:os';
import { join } from 'node:path';

/** Shared by all checkouts of one user: a build takes minutes. It may not be there yet. */
export function cacheFolder(...parts: readonly string[]): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'etcdwire', ...parts);
}
