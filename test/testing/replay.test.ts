import { expect, test } from 'vitest';
import { Client } from '../../src/index.js';
import { ManualClock, MemoryEtcd, memory, type Recording, replay } from '../../src/testing/index.js';

const put = (revision: number) =>
  ({
    ms: 1,
    call: 'KV/Put',
    request: { key: 'a', value: '1' },
    answer: { header: { revision: `${revision}` } },
  }) as const;

test('replay resolves with no difference when the server answers as recorded', async () => {
  const recording: Recording = {
    before: { revision: 6, keys: [{ key: 'a', value: '0', create_revision: '3', mod_revision: '5', version: '2' }] },
    steps: [
      put(7),
      {
        ms: 2,
        call: 'KV/Range',
        request: { key: 'a', revision: '6' },
        answer: {
          header: { revision: '7' },
          kvs: [{ key: 'a', value: '0', create_revision: '3', mod_revision: '5', version: '2' }],
          count: '1',
        },
      },
      { ms: 3, call: 'KV/Put', request: { value: '1' }, error: 'InvalidArgument: etcdserver: key is not provided' },
    ],
  };
  expect(await replay(recording, new MemoryEtcd())).toEqual([]);
});

test('replay names the step, the RPC, the field and both values of a difference', async () => {
  const range = { ms: 2, call: 'KV/Range', request: { key: 'a' } };
  const kvs = [{ key: 'a', value: '2', create_revision: '2', mod_revision: '2', version: '1' }];
  const recording: Recording = {
    before: { revision: 1 },
    steps: [put(2), { ...range, answer: { header: { revision: '2' }, kvs, count: '1' } }],
  };
  expect(await replay(recording, new MemoryEtcd())).toEqual([
    { step: 1, rpc: 'KV/Range', field: 'kvs[0].value', recorded: '2', replayed: '1' },
  ]);
});

test('a wrong revision is one difference, although all later revisions are shifted', async () => {
  const recording: Recording = { before: { revision: 1 }, steps: [put(2), put(4), put(5), put(6)] };
  expect(await replay(recording, new MemoryEtcd())).toEqual([
    { step: 1, rpc: 'KV/Put', field: 'header.revision', recorded: '4', replayed: '3' },
  ]);
});

/** A watch, a lease of 10 s with a key, and the expiry of the lease after 12 s. */
const EXPIRY: Recording = {
  before: { revision: 1 },
  steps: [
    { ms: 0, open: 'Watch/Watch', stream: 1 },
    { ms: 0, stream: 1, send: { create_request: { key: 'a' } } },
    { ms: 0, stream: 1, receive: { header: { revision: '1' }, created: true } },
    {
      ms: 1,
      call: 'Lease/LeaseGrant',
      request: { ID: '7', TTL: '10' },
      answer: { header: { revision: '1' }, ID: '7', TTL: '10' },
    },
    { ms: 2, call: 'KV/Put', request: { key: 'a', lease: '7' }, answer: { header: { revision: '2' } } },
    {
      ms: 2,
      stream: 1,
      receive: { events: [{ kv: { key: 'a', create_revision: '2', mod_revision: '2', version: '1', lease: '7' } }] },
    },
    {
      ms: 11_500,
      call: 'Lease/LeaseTimeToLive',
      request: { ID: '7' },
      answer: { header: { revision: '2' }, ID: '7', grantedTTL: '10', TTL: '0' },
    },
    { ms: 12_000, expire: '7' },
    { ms: 12_000, stream: 1, receive: { events: [{ type: 'DELETE', kv: { key: 'a', mod_revision: '3' } }] } },
    { ms: 12_000, stream: 1, end: 'cancel' },
  ],
};

test('the clock of the replay lets a lease live as long as in the recording, and then expire', async () => {
  const clock = new ManualClock();
  expect(await replay(EXPIRY, new MemoryEtcd({ clock }), { clock })).toEqual([]);
  expect(clock.now()).toBeGreaterThanOrEqual(10_000);
});

test('a lease expires in a replay without a clock', async () => {
  const withoutTtl = { ...EXPIRY, steps: EXPIRY.steps.filter(({ ms }) => ms !== 11_500) };
  expect(await replay(withoutTtl, new MemoryEtcd())).toEqual([]);
});

test('an event that the recording lacks and an event that the server lacks are differences', async () => {
  const event = (key: string, revision: number) => ({
    kv: { key, value: '1', create_revision: `${revision}`, mod_revision: `${revision}`, version: '1' },
  });
  const steps = (received: object) =>
    [
      ...EXPIRY.steps.slice(0, 3),
      put(2),
      { ms: 2, stream: 1, receive: received },
      { ms: 2_000, stream: 1, end: 'cancel' },
    ] as Recording['steps'];
  const before = { revision: 1 };
  expect(await replay({ before, steps: steps({}) }, new MemoryEtcd())).toEqual([
    { step: 5, rpc: 'Watch/Watch', field: 'events', recorded: undefined, replayed: event('a', 2) },
  ]);
  const both = steps({ events: [event('a', 2), event('b', 2)] });
  expect(await replay({ before, steps: both }, new MemoryEtcd(), { timeoutMs: 50 })).toEqual([
    { step: 4, rpc: 'Watch/Watch', field: 'events[1]', recorded: event('b', 2), replayed: undefined },
  ]);
});

test('an event just before the end of a watch is no difference, because it may have been on its way', async () => {
  const steps: Recording['steps'] = [
    ...EXPIRY.steps.slice(0, 3),
    put(2),
    { ms: 100, stream: 1, send: { cancel_request: {} } },
    { ms: 100, stream: 1, receive: { header: { revision: '2' }, canceled: true } },
    { ms: 5_000, stream: 1, end: 'cancel' },
  ];
  expect(await replay({ before: { revision: 1 }, steps }, new MemoryEtcd())).toEqual([]);
});

test('at a server with other revisions, the same revision must always stand for the same change', async () => {
  const server = new MemoryEtcd();
  await using client = new Client({ transport: memory(server) });
  await client.put('other', '1');
  const kvs = (modRevision: string) => [
    { key: 'a', value: '1', create_revision: '2', mod_revision: modRevision, version: '1' },
  ];
  const read = (modRevision: string) => ({
    ...{ ms: 2, call: 'KV/Range', request: { key: 'a' } },
    answer: { header: { revision: '2' }, kvs: kvs(modRevision), count: '1' },
  });
  const before = { revision: 1 };
  expect(await replay({ before, steps: [put(2), read('2')] }, client)).toEqual([]);
  await client.delete('a');
  const differences = await replay(
    { before, steps: [put(2), read('2'), { ms: 3, call: 'KV/Put', request: { key: 'a' } }, read('2')] },
    client,
  );
  expect(differences.map(({ step, field }) => `${step} ${field}`)).toEqual([
    '3 kvs[0].value',
    '3 kvs[0].mod_revision',
    '3 kvs[0].version',
  ]);
});

test('replay refuses a cluster of several members, and an RPC that etcd does not have', async () => {
  const recording: Recording = { before: { revision: 1 }, steps: [{ ms: 0, call: 'KV/Nothing', request: {} }] };
  await expect(replay(recording, new MemoryEtcd({ members: 3 }))).rejects.toMatchObject({ reason: 'InvalidInput' });
  await expect(replay(recording, new MemoryEtcd())).rejects.toThrow('KV/Nothing');
});
