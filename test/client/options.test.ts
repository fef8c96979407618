import { expect, inject, test } from 'vitest';
import { Client, compare, EtcdError, op, prefix } from '../../src/index.js';
import { withLock } from '../../src/locks.js';
import { EtcdCluster } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { rpcsUnderTest, underTest } from '../support/rpcs-under-test.js';

// Plain JavaScript has no compiler that refuses an unknown option, so the functions refuse it at run time.

const ENDPOINT = inject('endpoints')[0] as string;
const REFUSED = { code: 'InvalidArgument', reason: 'InvalidInput', outcome: 'not-sent' };

test('the interceptor in these tests records the RPCs of the call under test', async () => {
  const etcd = openClient({ interceptors: [rpcsUnderTest] });
  const sent: string[] = [];
  await underTest.run(sent, async () => {
    await etcd.get('k', { timeoutMs: 5_000 });
    await using watch = etcd.watch('k');
    await watch.created();
  });
  expect(sent).toEqual(['/etcdserverpb.KV/Range', '/etcdserverpb.Watch/Watch']);
});

test('every function of `Client.raw` refuses an unknown option, and sends nothing', async () => {
  const { raw } = openClient({ interceptors: [rpcsUnderTest] });
  let called = 0;
  for (const [service, stubs] of Object.entries(raw)) {
    for (const [name, stub] of Object.entries(stubs) as [string, (...given: unknown[]) => unknown][]) {
      for (const given of [[{ frobnicate: true }], [{}, { frobnicate: true }]]) {
        // A function for a bidirectional stream accepts only options. Other functions accept a message first.
        if (given.length !== (/watch\.watch$|leaseKeepAlive$/.test(`${service}.${name}`) ? 1 : 2)) continue;
        const sent: string[] = [];
        const error = await errorOf(() => underTest.run(sent, async () => stub(...given)));
        expect(error).toMatchObject(REFUSED);
        expect(error.message).toContain(`the unknown option frobnicate for raw.${service}.${name};`);
        expect(sent).toEqual([]);
        called += 1;
      }
    }
  }
  expect(called).toBe(Object.values(raw).flatMap((stubs) => Object.values(stubs)).length);
});

test.each<[string, (etcd: Client) => unknown, string]>([
  [
    'the option `ttl` for `put`',
    (etcd) => etcd.put('k', 'x', { ttl: 5 } as never),
    'options: got the unknown option ttl for put (use ExpiringKeys of etcdwire/recipes, or lease: lease.grant({ ttl })); ' +
      'allowed: lease, prevKv, ignoreValue, ignoreLease, signal, timeoutMs, endpoint',
  ],
  [
    'the option `ttl` for `op.put`',
    (etcd) => etcd.txn({ then: [op.put('k', 'x', { ttl: 5 } as never)] }),
    'use ExpiringKeys of etcdwire/recipes',
  ],
  ...(['watch', 'range', 'scan', 'delete', 'mirror', 'cachedRange'] as const).map(
    (call): [string, (etcd: Client) => unknown, string] => [
      `the option \`prefix\` for \`${call}\``,
      (etcd) => etcd[call]('k', { prefix: true } as never),
      ' (to name all keys with a prefix, pass prefix(key) as the key); allowed: ',
    ],
  ),
  ['the option `prefix` for `get`', (etcd) => etcd.get('k', { prefix: true } as never), 'call range(prefix(key))'],
  [
    'the option `timeout` for `get`',
    (etcd) => etcd.get('k', { timeout: 5 } as never),
    ' (did you mean timeoutMs?); allowed: ',
  ],
  [
    'the option `timeoutMs` for `watch`',
    (etcd) => etcd.watch('k', { timeoutMs: 5 } as never),
    ' (to set a time limit, pass { signal: AbortSignal.timeout(ms) }); allowed: ',
  ],
  [
    'an option in snake case',
    (etcd) => etcd.get('k', { keys_only: true } as never),
    ' (did you mean keysOnly?); allowed: ',
  ],
  [
    'an option with swapped letters',
    (etcd) => etcd.get('k', { singal: undefined, sginal: 1 } as never),
    'got the unknown option sginal for get; allowed: ',
  ],
  [
    'the option `TTL` for `withLock`',
    (etcd) => withLock(etcd, 'm', { TTL: 5 } as never, () => {}),
    ' (did you mean ttl?); allowed: ',
  ],
  [
    'a signal in place of the options',
    (etcd) => etcd.get('k', AbortSignal.timeout(5_000) as never),
    'the unknown option aborted for get; allowed: revision',
  ],
  ['the option `limit` for `get`', (etcd) => etcd.get('k', { limit: 1 } as never), ' (range has this option'],
  [
    'a misspelled property of txn',
    (etcd) => etcd.txn({ than: [] } as never),
    'txn: got the unknown option than; allowed: if, then',
  ],
  [
    'null as a nested txn',
    (etcd) => etcd.txn({ then: [op.txn(null as never)] }),
    'txn: got null; allowed: an object with only these properties: if',
  ],
  [
    'a lease outside of the options of an operation',
    (etcd) => etcd.txn({ then: [{ ...op.put('k', 'x'), lease: 5n } as never] }),
    'op.put: got the unknown option lease; allowed: type, key, options, value',
  ],
  [
    'an unknown property of a condition',
    (etcd) => etcd.txn({ if: [{ ...compare.exists('k'), rangeEnd: 'l' } as never] }),
    'if[0]: got the unknown option rangeEnd; allowed: target, keys, operator, operand',
  ],
])('the client refuses %s, and the error says what is allowed', async (_what, call, message) => {
  const etcd = openClient({ interceptors: [rpcsUnderTest] });
  const sent: string[] = [];
  const error = await errorOf(() => underTest.run(sent, async () => call(etcd)));
  expect(error).toMatchObject(REFUSED);
  expect(error.message).toContain(message);
  expect(sent).toEqual([]);
});

test('`lease.grant` refuses a call without options', async () => {
  const error = await errorOf((openClient().lease.grant as () => Promise<unknown>).call(openClient().lease));
  expect(error).toMatchObject(REFUSED);
  expect(error.message).toMatch(/^ttl: got undefined; allowed: whole seconds/);
});

const NEW_CLIENT = 'options: got %; allowed: { endpoints: [...] }';
const DID_YOU_MEAN = " (did you mean new Client({ endpoints: ['http://host:2379'] })?)";

test.each<[string, unknown, string]>([
  ['null', null, NEW_CLIENT.replace('%', 'null')],
  ['a number', 5, NEW_CLIENT.replace('%', 'the number 5')],
  ['a URL', 'http://root:hunter2@a:1', NEW_CLIENT.replace('%', `a string${DID_YOU_MEAN}`)],
  ['an array', ['http://a:1'], NEW_CLIENT.replace('%', `an object (Array)${DID_YOU_MEAN}`)],
])(
  'the constructor of Client refuses %s, and the error names the allowed argument',
  async (_what, options, message) => {
    const error = await errorOf(() => new Client(options as never));
    expect(error).toMatchObject(REFUSED);
    expect(error.message).toBe(message);
  },
);

test.each<[string, object, RegExp]>([
  [
    'the option hosts',
    { hosts: ['http://a:1'] },
    /unknown option hosts for Client \(did you mean endpoints\?\); allowed: /,
  ],
  [
    'a TLS option of Node.js that the client does not have',
    { tls: { rejectUnauthorized: false } },
    /^tls: got the unknown option rejectUnauthorized; allowed: ca, cert, key, serverName$/,
  ],
  [
    'an option of `tls` in lower case',
    { tls: { servername: 'a' } },
    /^tls: .* \(did you mean serverName\?\); allowed: /,
  ],
  ['an array as `tls`', { tls: [] }, /^tls: got an object \(Array\)/],
  [
    'null as `auth`',
    { auth: null },
    /^auth: got null; allowed: an object with only these properties: username, password, token, allowPlaintext$/,
  ],
  [
    'a number as the password, without showing it,',
    { auth: { username: 'a', password: 1234, allowPlaintext: true } },
    /^auth\.password: got a number; allowed: a non-empty string$/,
  ],
  [
    'credentials without a password',
    { auth: { username: 'a', allowPlaintext: true } },
    /^auth\.password: missing; give username and password, or give token$/,
  ],
  [
    'the option `user` in `auth`',
    { auth: { user: 'a', password: 'b' } },
    /^auth: got the unknown option user \(did you mean username\?\); /,
  ],
])('the constructor of Client refuses %s', async (_what, options, message) => {
  const error = await errorOf(() => new Client({ endpoints: ['http://a:1'], ...options }));
  expect(error).toMatchObject(REFUSED);
  expect(error.message).toMatch(message);
});

test('a call fails when the option `tls` is a function that returns an object with an unknown property', async () => {
  const etcd = openClient({
    endpoints: [ENDPOINT.replace('http:', 'https:')],
    tls: () => ({ caFile: 'ca.pem' }) as never,
  });
  const error = await errorOf(etcd.get('k', { timeoutMs: 1_000 }));
  expect(`${error.message} ${(error.cause as Error | undefined)?.message}`).toContain('the unknown option caFile');
});

test('`EtcdCluster.start` refuses an unknown property of `tls`', async () => {
  const error = await errorOf(() => EtcdCluster.start({ tls: { cert: 'a' } as never }));
  expect(error.message).toMatch(
    /^tls: got the unknown option cert \(did you mean certFile\?\); allowed: certFile, keyFile, clientCaFile$/,
  );
});

test('`get` and `put` accept unknown options whose value is undefined and known options that are inherited', async () => {
  const etcd = openClient();
  const key = unique();
  await etcd.put(key, 'x', { ttl: undefined, lease: undefined } as never);
  expect((await etcd.get(key, Object.create({ serializable: true })))?.text()).toBe('x');
  expect(
    (
      await etcd.get(
        key,
        new (class {
          timeoutMs = 5_000;
          toJSON() {}
        })(),
      )
    )?.text(),
  ).toBe('x');
  expect((await etcd.get(key, Object.assign(Object.create(null), { keysOnly: true })))?.text()).toBe('');
  const error = await errorOf(etcd.put(key, 'x', Object.create({ ttl: 5 })));
  expect(error.message).toContain('the unknown option ttl for put');
});

test.each(['toString', 'constructor', '__proto__'])('`get` refuses an option called %s', async (name) => {
  const options: object = JSON.parse(`{ ${JSON.stringify(name)}: 1 }`);
  expect(await errorOf(openClient().get('k', options))).toMatchObject(REFUSED);
});

test('`get` accepts its own options when the program has extended Object.prototype', async () => {
  const extended = Object.prototype as { frobnicate?: string };
  extended.frobnicate = 'x';
  try {
    expect(await openClient().get(unique(), { serializable: true })).toBeUndefined();
    expect(await errorOf(openClient().get('k', { frobnicate: true } as never))).toMatchObject(REFUSED);
  } finally {
    delete extended.frobnicate;
  }
});

test('the error for an unknown option does not show the name of the option when the name may be a key or a secret', async () => {
  const names = ['app/users', 'geheim-1234', 'a'.repeat(33), 'S3CR3T', ' ', 'x\u001b[31m'];
  for (const name of names) {
    const error = await errorOf(openClient().range(prefix('a'), { [name]: 1 }));
    expect(error.message).toMatch(/^options: got an unknown option for range; allowed: limit, /);
    expect(error.message).not.toContain(name.length > 1 ? name : 'never');
    expect(error).toBeInstanceOf(EtcdError);
  }
});
