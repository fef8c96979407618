import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { Authority } from '../../src/cli/proxy/authority.js';
import { Client } from '../../src/index.js';
import { fromEnv } from '../../src/node/index.js';
import { errorOf } from '../support/errors.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { useSecureEtcd } from '../support/tls/secure-etcd.js';

const authority = await Authority.create();
const etcd = useSecureEtcd(authority);

test('`fromEnv` returns the options that the environment variables of etcdctl set', () => {
  const variables = {
    ETCDCTL_ENDPOINTS: 'https://a:1,b:2,',
    ETCDCTL_CACERT: 'ca.pem',
    ETCDCTL_USER: 'root:a:b',
    ETCDCTL_DIAL_TIMEOUT: '500ms',
    ETCDCTL_COMMAND_TIMEOUT: '1m30s',
    HOME: '/root',
  };
  expect(fromEnv({ variables })).toEqual({
    endpoints: ['https://a:1', 'b:2'],
    tls: expect.any(Function),
    auth: { username: 'root', password: 'a:b' },
    connectTimeoutMs: 500,
    timeoutMs: 90_000,
  });
  expect(new Client(fromEnv({ variables })).endpoints).toEqual(['https://a:1', 'https://b:2']);
});

test('`fromEnv` uses the defaults of etcdctl and of the client for variables that are unset or empty', () => {
  const options = fromEnv({ variables: { ETCDCTL_ENDPOINTS: '', ETCDCTL_USER: '' } });
  expect(options.endpoints).toEqual(['127.0.0.1:2379']);
  expect(new Client(options).endpoints).toEqual(['http://127.0.0.1:2379']);
});

test('`fromEnv` takes the password from a variable of its own, and sends it without TLS only if that is allowed', async () => {
  const variables = { ETCDCTL_USER: 'root', ETCDCTL_PASSWORD: 'secret' };
  expect(fromEnv({ variables, allowPlaintext: true }).auth).toMatchObject({ username: 'root', password: 'secret' });
  const error = await errorOf(() => new Client(fromEnv({ variables })));
  expect(error.message).toContain('which has no TLS');
  expect(error.message).not.toContain('secret');
});

test.each([
  [{ ETCDCTL_DIAL_TIMEOUT: 'soon' }, 'ETCDCTL_DIAL_TIMEOUT: got "soon"; allowed: a duration such as 5s or 500ms'],
  [{ ETCDCTL_COMMAND_TIMEOUT: '0s' }, 'ETCDCTL_COMMAND_TIMEOUT: got "0s"'],
  [{ ETCDCTL_CERT: 'cert.pem' }, 'ETCDCTL_KEY: missing'],
  [{ ETCDCTL_USER: 'root' }, 'the password of ETCDCTL_USER: missing'],
  [{ ETCDCTL_INSECURE_SKIP_TLS_VERIFY: 'true' }, 'the client always verifies certificates'],
  [{ ETCDCTL_DISCOVERY_SRV: 'example.com' }, 'fromEnvWithDiscovery; name the members in ETCDCTL_ENDPOINTS'],
])('`fromEnv` refuses %o', async (variables, message) => {
  const error = await errorOf(() => fromEnv({ variables }));
  expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  expect(error.message).toContain(message);
});

test.each([
  [
    { ETCDCTL_USER: 'a:b', ETCDCTL_PASSWORD: 'c' },
    { username: 'a:b', password: 'c' },
  ],
  [{ ETCDCTL_AUTH_JWT_TOKEN: 'token' }, { token: 'token' }],
])('`fromEnv` reads the credentials of %o', (variables, auth) => {
  expect(fromEnv({ variables }).auth).toMatchObject(auth);
});

test('`fromEnv` asks for TLS if ETCDCTL_INSECURE_TRANSPORT is false, as etcdctl does', () => {
  const options = fromEnv({ variables: { ETCDCTL_ENDPOINTS: 'a:1', ETCDCTL_INSECURE_TRANSPORT: 'false' } });
  expect(new Client(options).endpoints).toEqual(['https://a:1']);
});

test('`fromEnv` reads `process.env`', async () => {
  const [endpoint = ''] = inject('endpoints');
  process.env.ETCDCTL_ENDPOINTS = endpoint;
  try {
    await using client = new Client(fromEnv());
    expect(await client.get('from-env')).toBeUndefined();
  } finally {
    delete process.env.ETCDCTL_ENDPOINTS;
  }
});

test('a client with the options of `fromEnv` reads the certificate of the authority again for each connection', async () => {
  const file = join(temporaryFolder(), 'ca.pem');
  writeFileSync(file, (await Authority.create('another authority')).cert);
  const variables = { ETCDCTL_ENDPOINTS: etcd().endpoint.replace('https://', ''), ETCDCTL_CACERT: file };
  await using client = new Client({ ...fromEnv({ variables }), timeoutMs: 30_000 });
  expect(await errorOf(client.get('k', { timeoutMs: 500 }))).toMatchObject({ cause: { reason: 'ConnectFailed' } });
  writeFileSync(file, authority.cert);
  expect(await client.get('k')).toBeUndefined();
});
