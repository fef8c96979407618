import { expect, test } from 'vitest';
import { parseEndpoint, parseEndpoints } from '../../src/host/endpoint.js';
import { Client } from '../../src/index.js';
import { errorOf } from '../support/errors.js';

test.each(['unix:/run/etcd.sock', 'unix:///run/etcd.sock', 'UNIX:/run/etcd.sock'])(
  '`parseEndpoint` reads the path of the Unix socket %s, as the client of Go does',
  (endpoint) => {
    const parsed = { url: 'unix:///run/etcd.sock', tls: false, address: { path: '/run/etcd.sock' } };
    expect(parseEndpoint(endpoint, 'endpoint')).toEqual(parsed);
  },
);

test.each(['unix:', 'unix:/', 'unix://', 'unix://run/etcd.sock', 'unix:run/etcd.sock'])(
  '`parseEndpoint` refuses %s, which has no absolute path',
  async (endpoint) => {
    expect(await errorOf(() => parseEndpoint(endpoint, 'endpoint'))).toMatchObject({ reason: 'InvalidInput' });
  },
);

test('a client keeps one of several endpoints with the same URL, in the order of the list', () => {
  const given = ['b:1', 'http://a:2379', 'a:2379', 'HTTP://B:1/', 'b:1'];
  expect(parseEndpoints(given).map(({ url }) => url)).toEqual(['http://b:1', 'http://a:2379']);
  const client = new Client({ endpoints: given });
  expect(client.endpoints).toEqual(['http://b:1', 'http://a:2379']);
  client.setEndpoints(['c:1', 'c:1']);
  expect(client.endpoints).toEqual(['http://c:1']);
});
