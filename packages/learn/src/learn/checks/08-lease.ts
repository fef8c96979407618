import { setTimeout as pause } from 'node:timers/promises';
import { startProxy } from '../../../course/cut-proxy.js';
import { startFaultProxy } from '../../../course/fault-proxy.js';
import { assertResult, assertThat, checks, newName, PROGRAM, resultOf } from '../check.js';

type Chapter = typeof import('../../../course/08-lease.js') & typeof import('../../../course/answers/08-lease.js');

const NO_LEASE = 12_345n;

export const LEASE = checks<Chapter>((check) => {
  check(
    'grant',
    PROGRAM,
    'keeps a lease alive for longer than its TTL, and revokes it',
    async ({ grant }, { connect, etcd }) => {
      const lease = await resultOf('grant(connection, 2)', () => grant(connect(), 2), 'a lease');
      const exists = async () => (await etcd.lease.list()).ids.includes(lease.id);
      await pause(3_500);
      await assertResult('isAlive() after 3.5 s, with renewals', () => lease.isAlive(), true);
      await assertResult('whether etcd has the lease after 3.5 s', exists, true);
      await resultOf('revoke()', () => lease.revoke());
      await assertResult('isAlive() after revoke()', () => lease.isAlive(), false);
      await assertResult('whether etcd has the lease after revoke()', exists, false);
    },
  );
  check(
    'grant',
    PROGRAM,
    'says that the lease may have ended when the connection is lost',
    async ({ grant }, { address, connect }) => {
      const proxy = await startProxy(address);
      const connection = connect(proxy.address);
      const lease = await resultOf('grant(connection, 2)', () => grant(connection, 2), 'a lease');
      proxy.close();
      await pause(2_100);
      await assertResult('isAlive() 2.1 s after the connection was lost', () => lease.isAlive(), false);
    },
  );
  check(
    'grant',
    PROGRAM,
    'counts the TTL from the sending of a renewal, also if its response is late',
    async ({ grant }, { address, connect }) => {
      const proxies = await startFaultProxy(address, 'delay=1500ms rpc=LeaseKeepAlive');
      const lease = await resultOf('grant(connection, 3)', () => grant(connect(proxies.address), 3), 'a lease');
      const early = performance.now();
      await pause(2_700);
      await proxies.stop();
      await pause(early + 4_250 - performance.now());
      await assertResult(
        'isAlive() more than 3 s after the sending of the last renewal that etcd has answered',
        () => lease.isAlive(),
        false,
      );
    },
  );
  check(
    'secondsLeft',
    1,
    'tells the time that is left, and -1 for a lease that does not exist',
    async ({ secondsLeft }, { connect, etcd }) => {
      const { id } = await etcd.lease.grant({ ttl: 100 });
      const left = await resultOf('secondsLeft of a lease with a TTL of 100 s', () => secondsLeft(connect(), id));
      const message = `secondsLeft of a lease with a TTL of 100 s: got ${left} (${typeof left}), expected about 100n`;
      assertThat(typeof left === 'bigint' && left > 90n && left <= 100n, message);
      await assertResult('secondsLeft of a lease that does not exist', () => secondsLeft(connect(), NO_LEASE), -1n);
    },
  );
  check('putWithLease', 2, 'puts a key that ends with the lease', async ({ putWithLease }, { connect, etcd }) => {
    const { id } = await etcd.lease.grant({ ttl: 100 });
    const key = newName();
    const value = async () => (await etcd.get(key))?.text();
    await resultOf(`putWithLease of '${key}'`, () => putWithLease(connect(), key, 'x', id));
    await assertResult('the value of the key after putWithLease', value, 'x');
    await etcd.lease.revoke(id);
    await assertResult('the value of the key after the end of the lease', value, undefined);
  });
  check('leases', 3, 'lists the leases', async ({ leases }, { connect, etcd }) => {
    const ids = [(await etcd.lease.grant({ ttl: 100 })).id, (await etcd.lease.grant({ ttl: 100 })).id];
    const listed = await resultOf('leases(connection)', () => leases(connect()), 'the IDs of the leases');
    const missing = ids.filter((id) => !listed.includes(id));
    assertThat(
      missing.length === 0,
      `leases: got [${listed}], expected that it contains ${missing.join(' and ')} (bigint)`,
    );
  });
});
