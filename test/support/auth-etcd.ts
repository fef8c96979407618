import { GUARD_PREFIX } from '../../src/client/kv/keys.js';
import type { Client } from '../../src/index.js';
import { prefix } from '../../src/index.js';
import type { RunningEtcd } from '../../src/testing/index.js';
import { openClient } from './client.js';
import { ownEtcd } from './own-etcd.js';

export const ROOT = { username: 'root', password: 'root-secret', allowPlaintext: true } as const;
/** A user who may read and write the keys under "app/" and the keys of guards. */
export const USER = { username: 'user', password: 'user-secret', allowPlaintext: true } as const;

/** Makes etcd hash passwords in 1 ms, and not in 60 ms of CPU time for each `authenticate`. */
export const FAST_PASSWORDS = '--bcrypt-cost=4';

/** Starts a server with authentication for one test, and opens a client as root. */
export async function authEtcd(...args: string[]): Promise<RunningEtcd & { readonly root: Client }> {
  const etcd = await ownEtcd({ args: [FAST_PASSWORDS, ...args] });
  const { endpoints } = etcd;
  await enableAuth(openClient({ endpoints }));
  return { ...etcd, root: openClient({ endpoints, auth: ROOT }) };
}

/** Creates the users `ROOT` and `USER` and enables authentication. */
export async function enableAuth({ auth }: Client): Promise<void> {
  await auth.userAdd(ROOT.username, { password: ROOT.password });
  await auth.roleAdd('root');
  await auth.userGrantRole('root', 'root');
  await auth.roleAdd('app');
  await auth.roleGrantPermission('app', 'readwrite', prefix('app/'));
  await auth.roleGrantPermission('app', 'readwrite', prefix(GUARD_PREFIX));
  await auth.userAdd(USER.username, { password: USER.password });
  await auth.userGrantRole(USER.username, 'app');
  await auth.enable();
}

/**
 * Matches a token of `--auth-token simple`: 16 random letters, a dot, and the raft index of the request that created
 * the token.
 */
export const TOKEN = /[A-Za-z]{16}\.\d+/;
