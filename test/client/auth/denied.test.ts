import { expect, test } from 'vitest';
import { compare, fromKey, keyRange, op, prefix } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { authEtcd, USER } from '../../support/auth-etcd.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

// etcd answers only "permission denied". The error also names the user and the keys of the request, so that the reader
// knows which permission is missing.

test('the error of a denied call names the user and the keys that the call asked for', async () => {
  const { endpoints } = await authEtcd();
  const etcd = openClient({ endpoints, auth: USER });
  const keys = (...names: string[]) => names.map((name) => op.put(name, 'x'));
  const denied: readonly (readonly [call: () => Promise<unknown>, text: string])[] = [
    [() => etcd.get('other/a'), 'the key "other/a"'],
    [() => etcd.put('other/a', 'secret'), 'the key "other/a"'],
    [() => etcd.range(prefix('other/')), 'the prefix "other/"'],
    [() => etcd.range(keyRange('other/a', 'other/c')), 'the keys from "other/a" to "other/c"'],
    [() => etcd.delete(fromKey('x')), 'the keys from "x"'],
    [() => etcd.namespace('other/').get('a'), 'the key "other/a"'],
    [
      () => etcd.txn({ if: [compare.missing('app/a')], then: [op.put('app/b', 'x')], else: [op.get('other/c')] }),
      'the key "app/a", the key "app/b", the key "other/c"',
    ],
    [
      () => etcd.txn({ then: keys('app/a', 'app/b', 'other/c', 'app/d', 'app/e') }),
      'the key "app/a", the key "app/b", the key "other/c" and 2 more',
    ],
    [() => etcd.txn({ then: [op.txn({ then: keys('other/n') })] }), 'the key "other/n"'],
    [() => etcd.watch('other/a').created(), 'the key "other/a"'],
    [() => etcd.watch(prefix('other/')).created(), 'the prefix "other/"'],
    [() => etcd.put('other/a', '', { retryWrites: true }), 'the key "other/a"'],
  ];
  for (const [call, text] of denied) {
    const problem = `etcdserver: permission denied to the user "user" for ${text}`;
    expect(await errorOf(call)).toMatchObject({ reason: 'PermissionDenied', problem });
  }
  // In a call to another service than KV, the key is not what was denied.
  const problem = 'etcdserver: permission denied to the user "user"';
  expect(await errorOf(etcd.auth.roleGrantPermission('app', 'read', 'other/a'))).toMatchObject({ problem });
  const long = await errorOf(etcd.get(`other/${'x'.repeat(100_000)}`));
  expect(long.problem.length).toBeLessThan(300);
});

test('the error of a lock with a forbidden name names its key, and does not ask for the permission of the guards', async () => {
  const { endpoints, root } = await authEtcd();
  const etcd = openClient({ endpoints, auth: USER });
  const session = await Session.open(etcd);
  const { problem } = await errorOf(new Mutex(session, 'other/lock').lock());
  expect(problem).toBe(
    `etcdserver: permission denied to the user "user" for the key "other/lock/${session.leaseId.toString(16)}", the prefix "other/lock/"`,
  );
  await root.auth.roleRevokePermission('app', prefix('etcdwire/guards/'));
  const { problem: ofGuard } = await errorOf(new Mutex(session, 'app/lock').lock());
  expect(ofGuard).toMatch(
    /^etcdserver: permission denied to the user "user"; locks, .*: grant readwrite on the prefix "etcdwire\/guards\/"$/,
  );
  // In a namespace, the guards are in the namespace, too.
  const inside = etcd.namespace('other/');
  const { problem: ofNamespace } = await errorOf(inside.put('a', '', { retryWrites: true }));
  expect(ofNamespace).toMatch(/: grant readwrite on the prefix "other\/etcdwire\/guards\/"$/);
  await root.auth.roleGrantPermission('app', 'readwrite', prefix('other/etcdwire/guards/'));
  const { problem: ofKey } = await errorOf(inside.put('a', '', { retryWrites: true }));
  expect(ofKey).toBe('etcdserver: permission denied to the user "user" for the key "other/a"');
});
