import type { Etcd } from '../../scripts/etcd.js';
import type { Client } from '../../src/index.js';
import { prefix } from '../../src/index.js';
import { openClient } from './client.js';
import { ownEtcd } from './own-etcd.js';

export const ROOT = { username: 'root', password: 'root-secret', allowPlaintext: true } as const;
/** May read and write under "app/". */
export const USER = { username: 'user', password: 'user-secret', allowPlaintext: true } as const;

/** A server of one's own with authentication on, and root's client. */
export async function authEtcd(...args: string[]): Promise<Etcd & { readonly root: Client }> {
  const etcd = await ownEtcd({ args });
  const { endpoints } = etcd;
  await enableAuth(openClient({ endpoints }));
  return { ...etcd, root: openClient({ endpoints, auth: ROOT }) };
}

/** With these two users. */
export async function enableAuth({ auth }: Client): Promise<void> {
  await auth.userAdd(ROOT.username, { password: ROOT.password });
  await auth.roleAdd('root');
  await auth.userGrantRole('root', 'root');
  await auth.roleAdd('app');
  await auth.roleGrantPermission('app', 'readwrite', prefix('app/'));
  await auth.userAdd(USER.username, { password: USER.password });
  await auth.userGrantRole(USER.username, 'app');
  await auth.enable();
}

/** A token of etcd's own making (`--auth-token simple`): random letters and the index of its creation. */
export const TOKEN = /[A-Za-z]{16}\.\d+/;
