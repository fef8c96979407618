import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { Authority } from '../../../packages/cli/src/proxy/authority.js';
import { Client } from '../../../src/index.js';
import { fromEnv } from '../../../src/node.js';
import { errorOf } from '../../support/errors.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { useSecureEtcd } from '../../support/tls/secure-etcd.js';

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
  // Without a user, the permission applies to the passwords that `auth.userAdd` and similar methods send.
  expect(fromEnv({ variables: {}, allowPlaintext: true }).auth).toEqual({ allowPlaintext: true });
  expect(fromEnv({ variables: {} }).auth).toBeUndefined();
});

test.each([
  [{ ETCDCTL_DIAL_TIMEOUT: 'soon' }, 'ETCDCTL_DIAL_TIMEOUT: got "soon"; allowed: a duration such as 5s or 500ms'],
  [{ ETCDCTL_COMMAND_TIMEOUT: '0s' }, 'ETCDCTL_COMMAND_TIMEOUT: got "0s"'],
  [{ ETCDCTL_COMMAND_TIMEOUT: '-1s' }, 'ETCDCTL_COMMAND_TIMEOUT: got "-1s"'],
  [{ ETCDCTL_INSECURE_TRANSPORT: 'no' }, 'ETCDCTL_INSECURE_TRANSPORT: got "no"; allowed: 1, t, T, TRUE, true'],
  [{ ETCDCTL_INSECURE_TRANSPORT: 'fAlse' }, 'ETCDCTL_INSECURE_TRANSPORT: got "fAlse"'],
  [{ ETCDCTL_INSECURE_TRANSPORT: ' false' }, 'ETCDCTL_INSECURE_TRANSPORT: got " false"'],
  [{ ETCDCTL_INSECURE_SKIP_TLS_VERIFY: 'T' }, 'the client always verifies certificates'],
  [{ ETCDCTL_INSECURE_SKIP_TLS_VERIFY: 'yes' }, 'ETCDCTL_INSECURE_SKIP_TLS_VERIFY: got "yes"'],
  [{ ETCDCTL_USER: 'root:' }, 'the password of ETCDCTL_USER: missing'],
  [{ ETCDCTL_USER: ':secret' }, 'the name in ETCDCTL_USER: missing'],
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

test.each([
  ...['0', 'f', 'F', 'FALSE', 'false', 'False'].map((value) => [value, 'https'] as const),
  ...['1', 't', 'T', 'TRUE', 'true', 'True', ''].map((value) => [value, 'http'] as const),
])('`fromEnv` reads ETCDCTL_INSECURE_TRANSPORT=%s as Go does, and uses %s', (value, scheme) => {
  const options = fromEnv({ variables: { ETCDCTL_ENDPOINTS: 'a:1', ETCDCTL_INSECURE_TRANSPORT: value } });
  expect(new Client(options).endpoints).toEqual([`${scheme}://a:1`]);
});

test.each(['0', 'F', 'False', ''])('`fromEnv` takes ETCDCTL_INSECURE_SKIP_TLS_VERIFY=%s for off', (value) => {
  expect(fromEnv({ variables: { ETCDCTL_INSECURE_SKIP_TLS_VERIFY: value } })).toMatchObject({ timeoutMs: undefined });
});

test.each([
  ['a:1, b:2', ['a:1', 'b:2']],
  [' a:1 ,\tb:2 ', ['a:1', 'b:2']],
  ['a:1,b:2\n', ['a:1', 'b:2']],
  ['a:1\r\nb:2\r\n', ['a:1', 'b:2']],
  ['"a:1","b:2"', ['a:1', 'b:2']],
  ['a:1,,b:2,a:1', ['a:1', 'b:2']],
])('`fromEnv` reads the list of endpoints %j', (ETCDCTL_ENDPOINTS, endpoints) => {
  expect(fromEnv({ variables: { ETCDCTL_ENDPOINTS } }).endpoints).toEqual(endpoints);
});

test.each([
  ['0', undefined],
  ['0s', undefined],
  ['-5s', undefined],
  ['.5s', 500],
  ['1.5h', 5_400_000],
  ['+1m2s', 62_000],
  ['100us', 0.1],
  ['250000ns', 0.25],
])('`fromEnv` reads ETCDCTL_DIAL_TIMEOUT=%s as Go does', (ETCDCTL_DIAL_TIMEOUT, connectTimeoutMs) => {
  expect(fromEnv({ variables: { ETCDCTL_DIAL_TIMEOUT } }).connectTimeoutMs).toBe(connectTimeoutMs);
});

test.each(['', '5', 's', '1.2.3s', '1 s', '1s ', '1d', '--1s', '1s-1s'])(
  '`fromEnv` refuses the duration %j, unless it is empty',
  async (ETCDCTL_COMMAND_TIMEOUT) => {
    const options = (): unknown => fromEnv({ variables: { ETCDCTL_COMMAND_TIMEOUT } });
    if (ETCDCTL_COMMAND_TIMEOUT === '') return expect(options()).toMatchObject({ timeoutMs: undefined });
    expect((await errorOf(options)).message).toContain('allowed: a duration such as 5s or 500ms');
  },
);

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
