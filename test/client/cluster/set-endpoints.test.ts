import { expect, test } from 'vitest';
import { gateway } from '../../../src/gateway.js';
import { Client } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { valueText } from '../../support/watch-events.js';

test('`setEndpoints` moves a client to other members, and its watch, lease and lock continue when the first member is killed', async (context) => {
  const { members } = await ownEtcd({ members: 3 });
  const [first, second, third] = members;
  if (first === undefined || second === undefined || third === undefined)
    return context.skip('the tests did not start the servers, so they cannot kill them');
  const etcd = openClient({ endpoints: [first.endpoint] });
  const session = await Session.open(etcd, { ttl: 20 });
  const held = await new Mutex(session, 'lock').lock();
  const watch = etcd.watch('k');
  await watch.created();

  etcd.setEndpoints([second.endpoint, third.endpoint]);
  expect(etcd.endpoints).toEqual([second.endpoint, third.endpoint]);
  expect(await errorOf(etcd.get('k', { endpoint: first.endpoint }))).toMatchObject({ reason: 'InvalidInput' });
  await first.kill();
  // A read waits until the cluster has a leader again; a put might fail until then.
  await etcd.get('k', { timeoutMs: 30_000 });
  await etcd.put('k', 'x');
  for await (const event of watch) {
    expect(valueText(event)).toBe('x');
    break;
  }
  expect(held.valid()).toBe(true);
  await held.release();
});

test('`setEndpoints` lets a call in progress finish at its old endpoint', async () => {
  const { endpoints } = await ownEtcd({ members: 3 });
  const [first = '', second = ''] = endpoints;
  const etcd = openClient({ endpoints: [first] });
  const watch = etcd.watch('k');
  await watch.created();
  const puts = Array.from({ length: 100 }, () => etcd.put('k', 'x'));
  etcd.setEndpoints([second]);
  await Promise.all(puts);
  let seen = 0;
  for await (const _event of watch) if (++seen === 100) break;
});

test('`setEndpoints` changes nothing and throws if an endpoint is invalid', async () => {
  const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
  for (const endpoints of [[], ['ftp://a:1'], ['http://a:1', 'x'], 'http://a:1' as never]) {
    expect(await errorOf(() => etcd.setEndpoints(endpoints))).toMatchObject({ reason: 'InvalidInput' });
    expect(etcd.endpoints).toEqual(['http://127.0.0.1:1']);
  }
});

test('`setEndpoints` refuses endpoints without TLS for credentials that must not be sent unencrypted', async () => {
  const etcd = openClient({ endpoints: ['https://a:1'], auth: { username: 'root', password: 'secret' } });
  const error = await errorOf(() => etcd.setEndpoints(['http://a:1']));
  expect(error.message).toContain('credentials together with the endpoint http://a:1, which has no TLS');
});

test('`setEndpoints` checks the credentials that the client was created with, even if the options have changed since', async () => {
  const options = { endpoints: ['https://a:1'], auth: { username: 'root', password: 'secret', allowPlaintext: false } };
  const etcd = new Client(options);
  options.auth.allowPlaintext = true;
  Object.assign(options, { auth: undefined });
  expect(await errorOf(() => etcd.setEndpoints(['http://a:1']))).toMatchObject({ reason: 'InvalidInput' });
});

test('`setEndpoints` is not undone by a `sync` that had begun before', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({
    endpoints,
    interceptors: [
      {
        unary: async (call, next) => {
          const response = await next(call);
          etcd.setEndpoints(['http://127.0.0.1:1']);
          return response;
        },
      },
    ],
  });
  expect(await etcd.sync()).toEqual(['http://127.0.0.1:1']);
});

test('`setEndpoints` throws ClientClosed after the client was closed', async () => {
  const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
  await etcd.close();
  expect(await errorOf(() => etcd.setEndpoints(['http://127.0.0.1:2']))).toMatchObject({ reason: 'ClientClosed' });
});

test.each([
  ['127.0.0.1:1', 'http://127.0.0.1:1'],
  ['etcd-0.example:2379', 'http://etcd-0.example:2379'],
  ['[::1]:2379', 'http://[::1]:2379'],
])('an endpoint %s without a scheme means %s, or https: if the client has the option `tls`', async (given, url) => {
  expect(new Client({ endpoints: [given] }).endpoints).toEqual([url]);
  expect(new Client({ endpoints: [given], tls: {} }).endpoints).toEqual([url.replace('http:', 'https:')]);
});

test('a call may name its endpoint without a scheme', async () => {
  const { endpoints } = await ownEtcd();
  const [endpoint = ''] = endpoints;
  const etcd = openClient({ endpoints });
  expect(await etcd.get('k', { endpoint: endpoint.replace('http://', '') })).toBeUndefined();
});

test('`setEndpoints` and later calls of `sync` change nothing and throw if the transport refuses an endpoint', async () => {
  const { endpoints } = await ownEtcd({ members: 1 });
  const etcd = openClient({ endpoints, transport: gateway() });
  const refused = { reason: 'InvalidInput' };
  expect(await errorOf(() => etcd.setEndpoints(['http://127.0.0.1:1', 'unix:///etcd.sock']))).toMatchObject(refused);
  expect(etcd.endpoints).toEqual(endpoints);
  await etcd.sync();
  expect(etcd.endpoints).toEqual(endpoints);
});
