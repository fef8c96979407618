import { expect, onTestFinished, test, vi } from 'vitest';
import { Client, prefix } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import {
  listen,
  ManualClock,
  MemoryEtcd,
  type MemoryEtcdOptions,
  memory,
  memoryOverHttp2,
} from '../../../src/testing/index.js';
import { randomNumbers } from '../../load/rounds.js';
import { runProgram } from '../../support/program.js';

function start(options: MemoryEtcdOptions = {}): { server: MemoryEtcd; etcd: Client } {
  const server = new MemoryEtcd(options);
  const etcd = new Client({ transport: memory(server) });
  onTestFinished(() => etcd.close());
  return { server, etcd };
}

test('a client reads the value that it has put to a MemoryEtcd', async () => {
  const { etcd } = start();
  const { header } = await etcd.put('color', 'blue');
  expect(header.revision).toBe(2n);
  expect((await etcd.get('color'))?.text()).toBe('blue');
});

test('a second contender gets the lock when the session of the holder closes', async () => {
  const { etcd } = start();
  const first = await Session.open(etcd);
  const second = await Session.open(etcd);
  const held = await new Mutex(first, 'job').lock();
  const waiting = new Mutex(second, 'job').lock();
  await first.close();
  expect((await waiting).token).toBeGreaterThan(held.token);
});

test('`expireLease` accepts a session and a held lock, also of a namespace, and names the lease that does not exist', async () => {
  const { server, etcd } = start();
  for (const client of [etcd, etcd.namespace('team/')]) {
    const session = await Session.open(client);
    const held = await new Mutex(session, 'job').lock();
    server.expireLease(held);
    expect(await etcd.range(prefix(''), { countOnly: true })).toMatchObject({ count: 0 });
    expect(() => server.expireLease(held)).toThrow('lease: got a lock whose key does not exist');
    expect(() => server.expireLease(session)).toThrow(`lease: got the lease ${session.leaseId.toString(16)}, which`);
  }
});

test('the IDs of the member and the cluster of a MemoryEtcd use all 64 bits, and are the same for the same seed', async () => {
  const idsOf = async (seed: number): Promise<readonly bigint[]> => {
    const { etcd } = start({ random: randomNumbers(seed) });
    const { header } = await etcd.put('key', '');
    return [header.clusterId, header.memberId];
  };
  const drawn = await Promise.all(Array.from({ length: 40 }, (_, seed) => idsOf(seed)));
  expect(await idsOf(3)).toEqual(drawn[3]);
  for (const index of [0, 1]) {
    const ids = drawn.map((pair) => pair[index] as bigint);
    expect(ids.some((id) => id >= 2n ** 63n)).toBe(true);
    expect(ids.some((id) => id < 2n ** 63n)).toBe(true);
  }
});

// A real cluster of one member loses its quorum when a second voting member is added, until the second member starts.
test('a MemoryEtcd reads and writes after a client has added a voting member, which can be removed', async () => {
  const { etcd } = start();
  const { member } = await etcd.cluster.memberAdd(['http://127.0.0.1:1']);
  await etcd.put('color', 'blue');
  expect((await etcd.get('color'))?.text()).toBe('blue');
  await etcd.cluster.memberRemove(member?.id ?? 0n);
  expect((await etcd.cluster.memberList()).members).toHaveLength(1);
});

test('the constructor of Client refuses a MemoryEtcd as its transport, and the error suggests `memory(server)`', () => {
  expect(() => new Client({ transport: new MemoryEtcd() } as never)).toThrow(/transport: got .*memory\(server\)/);
});

test.for([Number.NaN, -1, '9000', undefined] as never[])('a ManualClock refuses to advance by %s', (ms) => {
  const clock = new ManualClock();
  expect(() => clock.advance(ms)).toThrow('ms: got');
  expect(clock.now()).toBe(0);
});

test('a ManualClock does not go back when the action of a timer advances it', () => {
  const clock = new ManualClock();
  clock.after(10, () => clock.advance(1_000));
  clock.advance(20);
  expect(clock.now()).toBe(1_010);
});

test.for([
  ['memory', () => memory(MemoryEtcd as never)],
  ['memoryOverHttp2', () => memoryOverHttp2({} as never)],
  ['an option of MemoryEtcd', () => new MemoryEtcd({ clock: ManualClock as never })],
] as const)('%s refuses an argument of the wrong class', ([, make]) => {
  expect(make).toThrow(/^(server|clock): got .*; allowed: a (MemoryEtcd|Clock)/);
});

test('`listen` refuses a server that is not a MemoryEtcd, and a port out of range', async () => {
  await expect(listen({} as never)).rejects.toThrow('server: got');
  await expect(listen(new MemoryEtcd(), { port: 70_000 })).rejects.toThrow('port: got the number 70000');
});

test.each([
  ['memory', memory],
  ['memoryOverHttp2', memoryOverHttp2],
] as const)('a call over %s ends although the timers of the test have stopped after an hour', async (_, transport) => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const etcd = new Client({ transport: transport(new MemoryEtcd()) });
  onTestFinished(() => etcd.close());
  await etcd.put('online/host-1', '', { lease: await etcd.lease.grant({ ttl: 3_600 }) });
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(await etcd.get('online/host-1')).toBeUndefined();
});

test.for(['memory', 'memoryOverHttp2'] as const)(
  'an open watch over %s keeps the process alive, and lets it exit after the client was closed',
  async (transport) => {
    const watching = `
      import { Client } from 'etcdwire';
      import { MemoryEtcd, ${transport} } from 'etcdwire/testing';
      const etcd = new Client({ transport: ${transport}(new MemoryEtcd()) });
      const watch = etcd.watch('a');
      await watch.created();
      process.once('beforeExit', () => console.log('idle'));
      setTimeout(() => { console.log('alive'); void etcd.close(); }, 200).unref();
      for await (const _ of watch) {}
      console.log('ended');`;
    expect(await runProgram(watching)).toEqual(['alive', 'ended', 'idle']);
  },
);
