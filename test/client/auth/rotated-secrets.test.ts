import { expect, test } from 'vitest';
import { type Credentials, prefix } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { authEtcd, USER } from '../../support/auth-etcd.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

const NEW_PASSWORD = 'rotated-secret';

test('a client calls its `auth` function again after a password change, and its watches, locks and calls continue', async () => {
  const { endpoints, root } = await authEtcd();
  let password: string = USER.password;
  let asked = 0;
  const auth = async (): Promise<Credentials> => {
    asked += 1;
    return { ...USER, password };
  };
  const etcd = openClient({ endpoints, auth });
  const watch = etcd.watch(prefix('app/'));
  await watch.created();
  const held = await new Mutex(await Session.open(etcd), 'app/lock').lock();
  expect(asked).toBe(1);
  password = NEW_PASSWORD;
  await root.auth.userChangePassword(USER.username, NEW_PASSWORD);
  await etcd.put('app/a', '1');
  expect(asked).toBe(2);
  expect((await watch[Symbol.asyncIterator]().next()).value).toMatchObject({ type: 'put' });
  expect(held.valid()).toBe(true);
  await held.release();
});

test('a watch and a session survive while the `auth` function still returns the old password, and calls fail with AuthFailed', async () => {
  const { endpoints, root } = await authEtcd();
  let password: string = USER.password;
  const etcd = openClient({ endpoints, auth: () => ({ ...USER, password }) });
  const session = await Session.open(etcd, { ttl: 60 });
  const watch = etcd.watch(prefix('app/'));
  await watch.created();
  await root.auth.userChangePassword(USER.username, NEW_PASSWORD);
  expect(await errorOf(etcd.put('app/a', '0'))).toMatchObject({ reason: 'AuthFailed', outcome: 'not-sent' });
  expect(await errorOf(etcd.get('app/a'))).toMatchObject({ reason: 'AuthFailed' });
  password = NEW_PASSWORD;
  await etcd.put('app/a', '1');
  expect((await watch[Symbol.asyncIterator]().next()).value).toMatchObject({ type: 'put' });
  expect(session.valid()).toBe(true);
});

test('a client calls its `auth` function for another token each time that the server refuses a token', async () => {
  const { endpoints } = await authEtcd();
  const valid = await openClient({ endpoints }).auth.authenticate(USER.username, USER.password);
  const tokens = ['refused.1', 'refused.2', String(valid)];
  const etcd = openClient({
    endpoints,
    auth: async () => ({ token: tokens.shift() ?? String(valid), allowPlaintext: true }),
  });
  await etcd.put('app/a', '1');
  expect(tokens).toEqual([]);
});

test('concurrent calls share one call of the `auth` function, and reject with its error as the cause but not in the message when it throws', async () => {
  const { endpoints } = await authEtcd();
  let asked = 0;
  const cause = new Error('the vault is sealed, token s.1234');
  const etcd = openClient({
    endpoints,
    auth: async () => {
      asked += 1;
      await new Promise((resolve) => setImmediate(resolve));
      if (asked === 1) throw cause;
      return USER;
    },
  });
  const errors = await Promise.all([errorOf(etcd.get('app/a')), errorOf(etcd.get('app/b'))]);
  for (const error of errors) {
    expect(error).toMatchObject({ reason: 'AuthFailed', outcome: 'not-sent' });
    expect(error.message).not.toContain('s.1234');
    expect((error.cause as Error).cause).toBe(cause);
  }
  expect(asked).toBe(1);
  await etcd.put('app/a', '1');
});

test('a call rejects with reason InvalidInput when the `auth` function returns invalid credentials', async () => {
  const { endpoints } = await authEtcd();
  const wrong = [{ username: 'user', password: 'p' }, { token: 'a b', allowPlaintext: true }, undefined, {}];
  for (const given of wrong) {
    const etcd = openClient({ endpoints, auth: () => given as Credentials });
    expect(await errorOf(etcd.get('app/a'))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  }
});

test('`setEndpoints` refuses an endpoint without TLS when the `auth` function has returned a token without `allowPlaintext`', async () => {
  const etcd = openClient({ endpoints: ['unix:///nowhere.sock'], auth: () => ({ token: 'secret' }) });
  await errorOf(etcd.get('a', { timeoutMs: 50 }));
  expect(() => etcd.setEndpoints(['http://127.0.0.1:1'])).toThrow(/TLS/);
  expect(etcd.endpoints).toEqual(['unix:///nowhere.sock']);
});

test('a call that waits for the `auth` function ends when the client closes', async () => {
  let asked = (): void => {};
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const etcd = openClient({
    endpoints: ['https://127.0.0.1:1'],
    auth: () => {
      asked();
      return new Promise<never>(() => {});
    },
  });
  const waiting = [errorOf(etcd.put('app/a', '1')), errorOf(etcd.raw.auth.authenticate({ name: 'a', password: 'b' }))];
  await isAsked;
  await etcd.close({ drainMs: 0 });
  expect(await waiting[0]).toMatchObject({ reason: 'ClientClosed', outcome: 'not-sent' });
  await waiting[1];
});

test('a watch whose `auth` function fails does not make the endpoint unavailable', async () => {
  const { endpoints } = await authEtcd();
  let asked = 0;
  const etcd = openClient({
    endpoints,
    auth: () => {
      asked += 1;
      if (asked === 1) throw new Error('the vault is sealed');
      return USER;
    },
  });
  const events: string[] = [];
  etcd.onEvent(({ type }) => void events.push(type));
  await etcd.watch('app/a').created();
  expect(events).toEqual(['watches wait for a server', 'watches go on']);
});
