import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { startProxy } from '../../../course/cut-proxy.js';
import { checks, newName, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/08-lease.js') & typeof import('../../../course/answers/08-lease.js');

export const LEASE = checks<Chapter>((check) => {
  check(
    'grant',
    PROGRAM,
    'keeps a lease alive for longer than its TTL, and revokes it',
    async ({ grant }, { connect, etcd }) => {
      const lease = await grant(connect(), 2);
      await pause(3_500);
      assert.equal(lease.isAlive(), true, 'isAlive() is false after 3.5 s, although the lease has a TTL of 2 s');
      assert.ok((await etcd.lease.list()).ids.includes(lease.id));
      await lease.revoke();
      assert.equal(lease.isAlive(), false, 'isAlive() is true after revoke()');
      assert.ok(!(await etcd.lease.list()).ids.includes(lease.id));
    },
  );
  check(
    'grant',
    PROGRAM,
    'says that the lease may have ended when the connection is lost',
    async ({ grant }, { address, connect }) => {
      const proxy = await startProxy(address);
      const lease = await grant(connect(proxy.address), 2);
      proxy.close();
      await pause(2_100);
      assert.equal(lease.isAlive(), false, 'isAlive() is true 2.1 s after the connection was lost');
    },
  );
  check(
    'secondsLeft',
    1,
    'tells the time that is left, and -1 for a lease that does not exist',
    async ({ secondsLeft }, { connect, etcd }) => {
      const { id } = await etcd.lease.grant({ ttl: 100 });
      assert.ok((await secondsLeft(connect(), id)) > 90n);
      assert.equal(await secondsLeft(connect(), 12_345n), -1n);
    },
  );
  check('putWithLease', 2, 'puts a key that ends with the lease', async ({ putWithLease }, { connect, etcd }) => {
    const { id } = await etcd.lease.grant({ ttl: 100 });
    const key = newName();
    await putWithLease(connect(), key, 'x', id);
    assert.equal((await etcd.get(key))?.text(), 'x');
    await etcd.lease.revoke(id);
    assert.equal((await etcd.get(key))?.text(), undefined, 'the key still exists after the end of the lease');
  });
  check('leases', 3, 'lists the leases', async ({ leases }, { connect, etcd }) => {
    const { id } = await etcd.lease.grant({ ttl: 100 });
    assert.ok((await leases(connect())).includes(id));
  });
});
