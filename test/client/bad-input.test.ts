import { expect, test } from 'vitest';
import { Client, compare, op, prefix } from '../../src/index.js';
import { Election, Mutex, Session, withLock } from '../../src/locks.js';
import { stm } from '../../src/recipes.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { recordingTransport } from '../support/recording-transport.js';

// The client refuses bad input before it sends anything. The error says which argument is bad, what was given and what
// is allowed.

const calls: [string, (etcd: Client) => Promise<unknown> | unknown, RegExp][] = [
  ['a get of an empty key', (etcd) => etcd.get(''), /^key: got an empty key; allowed: a key of at least one byte$/],
  ['a put of an empty key', (etcd) => etcd.put('', 'x'), /^key: got an empty key/],
  [
    'a delete of an empty key',
    (etcd) => etcd.delete(''),
    /^keys: got an empty key; .* \(to select every key, use prefix\(""\)\)$/,
  ],
  ['a `get` of a range of keys', (etcd) => etcd.get(prefix('a') as never), /^key: got a range; .*`range` and `scan`/],
  [
    'a number as the value of a put',
    (etcd) => etcd.put('a', 5 as never),
    /^value: got a number; allowed: a string or a Uint8Array/,
  ],
  [
    'a negative limit',
    (etcd) => etcd.range('a', { limit: -1 }),
    /^limit: got the number -1; allowed: a whole number, 0 or more/,
  ],
  ['a fractional limit', (etcd) => etcd.range('a', { limit: 1.5 }), /^limit: got the number 1\.5/],
  ['a negative revision', (etcd) => etcd.get('a', { revision: -1n }), /^revision: got -1n; allowed: an integer from 0/],
  [
    'a fraction as a revision',
    (etcd) => etcd.get('a', { revision: 1.5 }),
    /^revision: got the number 1\.5; allowed: an integer from/,
  ],
  ['a revision beyond int64', (etcd) => etcd.get('a', { revision: 2n ** 63n }), /^revision: got 9223372036854775808n/],
  ['a negative revision filter', (etcd) => etcd.range('a', { maxCreateRevision: -5n }), /^maxCreateRevision: got -5n/],
  [
    'an unknown sort target',
    (etcd) => etcd.range('a', { sort: { target: 'age' as never, order: 'asc' } }),
    /^sort\.target: got a string; allowed: key, version/,
  ],
  [
    'a put with both a value and `ignoreValue`',
    (etcd) => etcd.put('a', 'x', { ignoreValue: true }),
    /^value: got a value together with ignoreValue/,
  ],
  [
    'a put with both a lease and `ignoreLease`',
    (etcd) => etcd.put('a', 'x', { lease: 1n, ignoreLease: true }),
    /^lease: got a lease together with ignoreLease/,
  ],
  ['a compaction to revision 0', (etcd) => etcd.compact(0n), /^revision: got 0n; allowed: an integer from 1/],
  [
    'a TTL of 0',
    (etcd) => etcd.lease.grant({ ttl: 0 }),
    /^ttl: got the number 0; allowed: whole seconds from 1 to 9000000000/,
  ],
  ['a negative TTL', (etcd) => etcd.lease.grant({ ttl: -5 }), /^ttl: got the number -5/],
  ['a fractional TTL', (etcd) => etcd.lease.grant({ ttl: 1.5 }), /^ttl: got the number 1\.5/],
  ['a TTL over 9000000000 s', (etcd) => etcd.lease.grant({ ttl: 9e9 + 1 }), /^ttl: got the number 9000000001/],
  ['a lease ID of 0', (etcd) => etcd.lease.revoke(0n), /^lease: got 0n; allowed: the ID of a lease, which is not 0n/],
  [
    'a fraction as a lease ID',
    (etcd) => etcd.lease.timeToLive(1.5),
    /^lease: got the number 1\.5; allowed: an integer from/,
  ],
  ['null as a lease', (etcd) => etcd.lease.keepAlive(null as never), /^lease: got null; allowed: a lease ID/],
  [
    'a lease without an ID',
    (etcd) => etcd.put('a', 'x', { lease: { ttl: 5 } as never }),
    /^lease: got an object \(Object\); allowed: a lease ID/,
  ],
  [
    'a lease whose ID is a text',
    (etcd) => etcd.txn({ then: [op.put('a', 'x', { lease: { id: '5' } as never })] }),
    /^lease: got an object \(Object\); allowed: a lease ID/,
  ],
  [
    'a session on a lease whose `leaseId` is a string',
    (etcd) => Session.open(etcd, { lease: { leaseId: '5' } as never }),
    /^lease: got an object \(Object\); allowed: a lease ID/,
  ],
  ['a timeout of 0', (etcd) => etcd.get('a', { timeoutMs: 0 }), /^timeoutMs: got the number 0; allowed/],
  ['a timeout that is NaN', (etcd) => etcd.get('a', { timeoutMs: Number.NaN }), /^timeoutMs: got the number NaN/],
  [
    'a watch of an empty key',
    (etcd) => etcd.watch(''),
    /^keys: got an empty key; .* \(to select every key, use prefix\(""\)\)$/,
  ],
  ['a watch from a negative revision', (etcd) => etcd.watch('a', { startRevision: -1n }), /^startRevision: got -1n/],
  ['a watch with a buffer of 0 bytes', (etcd) => etcd.watch('a', { bufferBytes: 0 }), /^bufferBytes: got the number 0/],
  [
    'a watch of events of an unknown type',
    (etcd) => etcd.watch('a', { only: 'noop' as never }),
    /^only: got a string; allowed: put, delete/,
  ],
  ...(['get', 'watch'] as const).map((call): (typeof calls)[number] => [
    `a number as the signal of a ${call}`,
    (etcd) => etcd[call]('a', { signal: 5 as never }),
    /^signal: got the number 5; allowed: an AbortSignal/,
  ]),
  [
    'a Mutex with a client in place of its session',
    (etcd) => new Mutex(etcd as never, 'a'),
    /^session: got an object \(Client\); allowed: a Session/,
  ],
  ['an Election without a session', () => new Election(undefined as never, 'a'), /^session: got undefined/],
  ['a `withLock` call without an action', (etcd) => withLock(etcd, 'a', undefined as never), /^action: got undefined/],
  [
    'a `withLock` call without a client',
    () => withLock({} as never, 'a', () => {}),
    /^client: got an object \(Object\); allowed: a Client/,
  ],
  [
    'an `stm` call with a number in place of its function',
    (etcd) => stm(etcd, 5 as never),
    /^apply: got the number 5; allowed: a function/,
  ],
  [
    'a transaction condition that is not in an array',
    (etcd) => etcd.txn({ if: compare.exists('a') as never }),
    /^if: got an object \(Object\); allowed: a list/,
  ],
  [
    'null as a transaction operation',
    (etcd) => etcd.txn({ then: [null as never] }),
    /^then\[0\]: got null; allowed: an operation made by op\.get/,
  ],
  [
    'null as a transaction condition',
    (etcd) => etcd.txn({ if: [null as never] }),
    /^if\[0\]: got null; allowed: a condition made by compare/,
  ],
  [
    'an unknown option of a watch',
    (etcd) => etcd.watch('a', { filters: ['noPut'] } as never),
    /^options: got the unknown option filters for watch; allowed: startRevision, prevKv, only/,
  ],
  [
    'a scan of an empty key',
    (etcd) => etcd.scan(''),
    /^keys: got an empty key; .* \(to select every key, use prefix\(""\)\)$/,
  ],
  [
    'a request that exceeds `maxRequestBytes`',
    (etcd) => etcd.put('a', new Uint8Array(1_600_000)),
    /^etcdserverpb\.PutRequest: got 16\d{5} bytes; allowed: at most 1572864/,
  ],
];

test.each(calls)('the client refuses %s, and sends nothing', async (_what, call, message) => {
  const { transport, sent } = recordingTransport();
  const etcd = openClient({ transport, maxRequestBytes: 1_572_864 });
  const error = await errorOf(async () => call(etcd));
  expect(error).toMatchObject({ code: 'InvalidArgument', reason: 'InvalidInput', outcome: 'not-sent' });
  expect(error.message).toMatch(message);
  if (!error.message.includes('PutRequest')) expect(sent).toEqual([]);
});

test('errors of rejected calls contain neither keys nor values', async () => {
  const etcd = openClient();
  const errors = [
    await errorOf(etcd.put('SECRET', 'SECRET', { ignoreValue: true })),
    await errorOf(etcd.put('SECRET', 'x', { lease: 12_345n })),
    await errorOf(etcd.get('SECRET', { revision: 2n ** 60n })),
    await errorOf(etcd.put('SECRET', 'SECRET'.repeat(300_000))),
  ];
  for (const error of errors)
    expect(`${error.message} ${JSON.stringify(error)} ${error.stack}`).not.toContain('SECRET');
});

test.each([
  ['an empty list of endpoints', [], /^endpoints: got an empty list/],
  ['a string in place of the list of endpoints', 'http://a:1' as never, /^endpoints: got a string; allowed: a list/],
  [
    'an endpoint that is not a URL',
    ['not a url'],
    /^endpoints\[0\]: got text without ":\/\/"; allowed: host:port, http:\/\/host:port/,
  ],
  ['an endpoint with an unknown scheme', ['http://a:1', 'ftp://b:1'], /^endpoints\[1\]: got "ftp/],
  ['an endpoint with a path', ['http://a:1/v3'], /without a path/],
])('the client refuses %s', async (_what, endpoints, message) => {
  const error = await errorOf(() => new Client({ endpoints }));
  expect(error.message).toMatch(message);
});

test('the error for an endpoint URL that contains a password does not contain the password', async () => {
  const error = await errorOf(() => new Client({ endpoints: ['http://root:hunter2@a:1'] }));
  expect(error.message).not.toContain('hunter2');
});

test('the client refuses a PING interval that is shorter than etcd permits', async () => {
  const error = await errorOf(() => new Client({ endpoints: ['http://a:1'], pingIntervalMs: 1_000 }));
  expect(error.message).toMatch(/^pingIntervalMs: got the number 1000; allowed: 5000 or more/);
});
