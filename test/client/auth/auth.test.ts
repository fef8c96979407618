import { describe, expect, inject, test } from 'vitest';
import type { Client, Keys, Permission } from '../../../src/index.js';
import { fromKey, keyRange, prefix } from '../../../src/index.js';
import { authEtcd, ROOT, USER } from '../../support/auth-etcd.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { runEtcdctl } from '../../support/etcdctl.js';
import { ownEtcd } from '../../support/own-etcd.js';

// The tests may change users and roles on the shared server, because users and roles have no effect while
// authentication is disabled.

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('a user', () => {
  test('can be added only once, can be listed, and can be deleted only once', async () => {
    const [{ auth }, name] = [openClient(), unique('user')];
    await auth.userAdd(name, { password: 'p' });
    expect((await auth.userList()).users).toContain(name);
    expect(await errorOf(auth.userAdd(name, { password: 'p' }))).toMatchObject({
      reason: 'UserAlreadyExist',
      outcome: 'rejected',
    });
    await auth.userDelete(name);
    expect((await auth.userList()).users).not.toContain(name);
    expect(await errorOf(auth.userDelete(name))).toMatchObject({ reason: 'UserNotFound' });
    expect(await errorOf(auth.userGet(name))).toMatchObject({ reason: 'UserNotFound' });
  });

  test('has each granted role until the role is revoked or deleted', async () => {
    const [{ auth }, user, roles] = [openClient(), unique('user'), [unique('a-role'), unique('b-role')] as const];
    await auth.userAdd(user, { noPassword: true });
    for (const role of roles) {
      await auth.roleAdd(role);
      await auth.userGrantRole(user, role);
    }
    expect((await auth.userGet(user)).roles).toEqual(roles);
    await auth.userRevokeRole(user, roles[0]);
    expect((await auth.userGet(user)).roles).toEqual([roles[1]]);
    expect(await errorOf(auth.userRevokeRole(user, roles[0]))).toMatchObject({ reason: 'RoleNotGranted' });
    await auth.roleDelete(roles[1]);
    expect((await auth.userGet(user)).roles).toEqual([]);
    expect(await errorOf(auth.userGrantRole(user, roles[1]))).toMatchObject({ reason: 'RoleNotFound' });
  });
});

describe('a role', () => {
  test('can be added only once, can be listed, and no longer exists after its deletion', async () => {
    const [{ auth }, name] = [openClient(), unique('role')];
    await auth.roleAdd(name);
    expect((await auth.roleList()).roles).toContain(name);
    expect(await errorOf(auth.roleAdd(name))).toMatchObject({ reason: 'RoleAlreadyExist', outcome: 'rejected' });
    await auth.roleDelete(name);
    expect((await auth.roleList()).roles).not.toContain(name);
    expect(await errorOf(auth.roleGet(name))).toMatchObject({ reason: 'RoleNotFound' });
  });

  test.each<[what: string, keys: Keys, told: Keys]>([
    ['a key', 'k', utf8('k')],
    ['a prefix', prefix('app/'), keyRange('app/', 'app0')],
    ['every key', prefix(''), fromKey(new Uint8Array([0]))],
    ['a range', keyRange('b', 'd'), keyRange('b', 'd')],
    ['all keys from a given key onward', fromKey('x'), fromKey('x')],
    ['a prefix that is not UTF-8 text', prefix(new Uint8Array([0xff])), fromKey(new Uint8Array([0xff]))],
  ])('lists a permission for %s with keys that `roleRevokePermission` accepts', async (_, keys, told) => {
    const { auth } = openClient();
    const role = await roleWith(openClient(), { access: 'read', keys: 'other' }, { access: 'write', keys });
    const { permissions } = await auth.roleGet(role);
    expect(permissions).toHaveLength(2);
    expect(permissions).toContainEqual({ access: 'write', keys: told });
    for (const permission of permissions) await auth.roleRevokePermission(role, permission.keys);
    expect((await auth.roleGet(role)).permissions).toEqual([]);
    expect(await errorOf(auth.roleRevokePermission(role, keys))).toMatchObject({ reason: 'PermissionNotGranted' });
  });

  test('keeps only the permission that was granted last for the same keys', async () => {
    const { auth } = openClient();
    const role = await roleWith(openClient());
    for (const access of ['read', 'write', 'readwrite'] as const) {
      await auth.roleGrantPermission(role, access, 'k');
      expect((await auth.roleGet(role)).permissions).toEqual([{ access, keys: utf8('k') }]);
    }
  });
});

describe('authentication', () => {
  test('can be enabled only when the user "root" exists and has the role "root", and can be disabled', async () => {
    const { endpoints } = await ownEtcd();
    const anonymous = openClient({ endpoints });
    expect(await errorOf(anonymous.auth.enable())).toMatchObject({ reason: 'RootUserNotExist', outcome: 'rejected' });
    await anonymous.auth.userAdd('root', { password: ROOT.password });
    expect(await errorOf(anonymous.auth.enable())).toMatchObject({ reason: 'RootRoleNotExist' });
    await anonymous.auth.roleAdd('root');
    await anonymous.auth.userGrantRole('root', 'root');
    expect(await errorOf(anonymous.auth.authenticate('root', ROOT.password))).toMatchObject({
      reason: 'AuthNotEnabled',
    });

    await anonymous.auth.enable();
    expect(await errorOf(anonymous.put('k', 'x'))).toMatchObject({ reason: 'UserEmpty', outcome: 'rejected' });
    const root = openClient({ endpoints, auth: ROOT });
    await root.put('k', 'x');
    await root.auth.disable();
    expect((await anonymous.get('k'))?.text()).toBe('x');
  });

  test('is reported as enabled or disabled by `auth.status()`, except on etcd 3.4', async () => {
    const { endpoints, root } = await authEtcd();
    const { version } = await root.maintenance.status(endpoints[0] as string);
    if (version.startsWith('3.4.')) {
      expect(await errorOf(root.auth.status())).toMatchObject({ code: 'Unimplemented', outcome: 'rejected' });
      return;
    }
    const before = await root.auth.status();
    expect(before.enabled).toBe(true);
    await root.auth.roleAdd('another');
    expect((await root.auth.status()).authRevision).toBe(before.authRevision + 1n);
    await root.auth.disable();
    expect((await root.auth.status()).enabled).toBe(false);
  });

  test('succeeds only with the correct password of an existing user', async () => {
    const { endpoints, root } = await authEtcd();
    const { auth } = openClient({ endpoints });
    const token = await auth.authenticate(USER.username, USER.password);
    const etcd = openClient({ endpoints, auth: { token, allowPlaintext: true } });
    await etcd.put('app/k', 'x');
    const wrong = await errorOf(auth.authenticate(USER.username, 'open-sesame'));
    expect(wrong).toMatchObject({ reason: 'AuthFailed', outcome: 'rejected' });
    expect(`${wrong.message}${wrong.stack}`).not.toContain('open-sesame');
    await root.auth.userDelete(USER.username);
    expect(await errorOf(auth.authenticate(USER.username, USER.password))).toMatchObject({ reason: 'AuthFailed' });
  });

  test('succeeds only with the new password after a password change', async () => {
    const { endpoints, root } = await authEtcd();
    const { auth } = openClient({ endpoints });
    await root.auth.userChangePassword(USER.username, 'changed');
    expect(await errorOf(auth.authenticate(USER.username, USER.password))).toMatchObject({ reason: 'AuthFailed' });
    expect(await auth.authenticate(USER.username, 'changed')).not.toBe('');
  });

  test('fails when the user was created without a password', async () => {
    const { endpoints, root } = await authEtcd();
    await root.auth.userAdd('certified', { noPassword: true });
    const { auth } = openClient({ endpoints });
    const error = await errorOf(auth.authenticate('certified', 'open-sesame'));
    expect(error.problem).toContain('no password user');
    expect(error.message).not.toContain('open-sesame');
  });
});

describe('an authenticated user', () => {
  test('can make the calls that its roles permit, and no other calls', async () => {
    const { endpoints, root } = await authEtcd();
    const role = await roleWith(
      root,
      { access: 'read', keys: 'read-only' },
      { access: 'write', keys: keyRange('b', 'd') },
      { access: 'readwrite', keys: fromKey('y') },
    );
    await root.auth.userGrantRole(USER.username, role);
    const etcd = openClient({ endpoints, auth: USER });
    const denied = { reason: 'PermissionDenied', code: 'PermissionDenied', outcome: 'rejected' };

    expect(await etcd.get('read-only')).toBeUndefined();
    expect(await errorOf(etcd.put('read-only', 'x'))).toMatchObject(denied);
    await etcd.put('c', 'x');
    expect(await errorOf(etcd.get('c'))).toMatchObject(denied);
    expect(await errorOf(etcd.put('d', 'x'))).toMatchObject(denied);
    await etcd.put('zz', 'x');
    expect((await etcd.range(fromKey('y'))).count).toBe(1);
    expect(await errorOf(etcd.range(fromKey('x')))).toMatchObject(denied);
    await etcd.put('app/k', 'x');
    expect((await etcd.range(prefix('app/'))).count).toBe(1);
    expect(await errorOf(etcd.range(prefix('app')))).toMatchObject(denied);
    expect(await errorOf(etcd.delete(prefix('')))).toMatchObject(denied);
    expect(await errorOf(etcd.auth.userAdd('more', { password: 'p' }))).toMatchObject(denied);

    await root.auth.roleRevokePermission(role, 'read-only');
    expect(await errorOf(etcd.get('read-only'))).toMatchObject(denied);
    expect((await root.get('c'))?.text()).toBe('x');
  });
});

describe('etcdctl', () => {
  test('shows the users and roles that the client created', async (context) => {
    const etcdctl = inject('etcdctl');
    if (etcdctl === undefined) return context.skip('the server under test has no etcdctl');
    const { endpoints, root } = await authEtcd();
    const role = await roleWith(
      root,
      { access: 'read', keys: 'a' },
      { access: 'readwrite', keys: prefix('app/') },
      { access: 'write', keys: keyRange('b', 'd') },
      { access: 'read', keys: fromKey('z') },
    );
    await root.auth.userGrantRole(USER.username, role);
    const run = (...args: string[]): Promise<string> =>
      runEtcdctl(etcdctl, endpoints, `--user=${ROOT.username}:${ROOT.password}`, ...args);
    expect((await run('role', 'get', role)).trim().split('\n')).toEqual([
      `Role ${role}`,
      'KV Read:',
      '\ta',
      '\t[app/, app0) (prefix app/)',
      '\t[z, <open ended>',
      'KV Write:',
      '\t[app/, app0) (prefix app/)',
      '\t[b, d)',
    ]);
    expect((await run('user', 'list')).trim().split('\n')).toEqual((await root.auth.userList()).users);
    expect(await run('user', 'get', USER.username)).toContain(role);
  });

  test('creates users and roles that the client can use', async (context) => {
    const etcdctl = inject('etcdctl');
    if (etcdctl === undefined) return context.skip('the server under test has no etcdctl');
    const { endpoints, root } = await authEtcd();
    const run = (...args: string[]): Promise<string> =>
      runEtcdctl(etcdctl, endpoints, `--user=${ROOT.username}:${ROOT.password}`, ...args);
    await run('user', 'add', 'bob:builder');
    await run('role', 'add', 'site');
    await run('role', 'grant-permission', '--prefix', 'site', 'readwrite', 'site/');
    await run('user', 'grant-role', 'bob', 'site');
    const bob = openClient({ endpoints, auth: { username: 'bob', password: 'builder', allowPlaintext: true } });
    await bob.put('site/a', 'x');
    expect(await errorOf(bob.put('app/a', 'x'))).toMatchObject({ reason: 'PermissionDenied' });
    const { permissions } = await root.auth.roleGet('site');
    expect(permissions).toEqual([{ access: 'readwrite', keys: prefix('site/') }]);
    await root.auth.roleRevokePermission('site', prefix('site/'));
    expect(await run('role', 'get', 'site')).not.toContain('site/');
  });
});

/** Creates a role with these permissions. */
async function roleWith({ auth }: Client, ...permissions: readonly Permission[]): Promise<string> {
  const role = unique('role');
  await auth.roleAdd(role);
  for (const { access, keys } of permissions) await auth.roleGrantPermission(role, access, keys);
  return role;
}
