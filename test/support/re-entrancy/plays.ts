import { op, prefix, typed } from '../../../src/index.js';
import { Election, lead, Mutex, observe, Session, withLock } from '../../../src/locks.js';
import { Slots } from '../../../src/recipes.js';
import type { World } from './world.js';

// Programs that use the client, each with a loss, a broken stream or an end in the middle.

const NAME = 'play';

export type Play = (world: World) => Promise<void>;

export const PLAYS: Readonly<Record<string, Play>> = {
  'a lock that another client takes away from `withLock`': async (world) => {
    const { etcd, other } = world;
    const action = withLock(etcd, NAME, async (held) => {
      world.held = held;
      world.listen('held.signal', held.signal);
      world.listen('held.signalWith', held.signalWith(world.stop.signal));
      await other.delete(held.key);
      await world.step('txn', held.txn({ then: [op.put('written', 'late')] }));
    });
    await world.step('withLock', action);
    await world.step(
      'written',
      other.get('written').then((kv) => kv !== undefined && Promise.reject('written')),
    );
    await world.step('next holder', new Mutex(await Session.open(other), NAME).lock());
  },
  'a leadership that another client takes away from `lead`': async (world) => {
    const { etcd, other } = world;
    let terms = 0;
    const leading = lead(etcd, NAME, { value: 'me' }, async ({ held, signal }) => {
      terms += 1;
      if (terms > 1) return;
      world.held = held;
      world.listen('term.signal', signal);
      world.listen('held.signal', held.signal);
      await other.delete(held.key);
      await world.step('proclaim', held.proclaim('again'));
    });
    await world.step('lead', leading);
    world.log.push(`terms: ${terms}`);
  },
  'a lock whose time is over after `maxHoldMs`': async (world) => {
    const { etcd, other } = world;
    const session = await Session.open(etcd, { ttl: 600 });
    world.session = session;
    const held = await new Mutex(session, NAME).lock({ maxHoldMs: 2 });
    world.held = held;
    world.listen('held.signal', held.signal);
    await new Promise<void>((resolve) => {
      held.signal.addEventListener('abort', () => resolve());
      if (held.signal.aborted) resolve();
    });
    world.log.push(`signal: ${held.signal.reason.reason}`);
    await world.step('txn', held.txn({ then: [op.put('written', 'late')] }));
    await world.step('release', held.release());
    await world.step('next holder', new Mutex(await Session.open(other), NAME).lock());
  },
  'a session whose lease this client revokes': async (world) => {
    await world.open(NAME);
    const { etcd, session, held } = world;
    // If a callback has revoked the lease, too, one of the two calls does not find the lease.
    await etcd.lease.revoke(session?.leaseId as bigint).catch(() => {});
    world.log.push(`session: ${session?.signal.reason.reason}`, `held: ${held?.signal.reason.reason}`);
    await world.step('txn', held?.txn({ then: [op.put('written', 'late')] }));
  },
  'a lock that its holder releases': async (world) => {
    await world.open(NAME);
    const { other, held, session } = world;
    await world.step('txn', held?.txn({ then: [op.put('written', 'in time')] }));
    await world.step('release', held?.release());
    await world.step('next holder', new Mutex(await Session.open(other), NAME).lock());
    await world.step('close', session?.close());
  },
  'a watch and a keepalive whose streams break': async (world) => {
    const { etcd, other } = world;
    const lease = await other.lease.grant({ ttl: 600 });
    const events = etcd.watch(NAME, { signal: world.stop.signal })[Symbol.asyncIterator]();
    world.items = events;
    const alive = etcd.lease.keepAlive(lease.id);
    world.listen('keepAlive.signal', alive.signal);
    await world.step('renewed', alive.renewed());
    const first = world.step('first event', events.next());
    const kv = await other.put(NAME, '1');
    world.breakStreams();
    await first;
    await etcd.get(NAME);
    const second = world.step('second event', events.next());
    await other.put(NAME, String(kv.header.revision));
    await second;
    await world.step('return', events.return?.());
    await alive.close();
  },
  'iterators that a loop leaves': async (world) => {
    const { etcd, other } = world;
    for (let key = 0; key < 3; key += 1) await other.put(`${NAME}/${key}`, 'x');
    const left: [string, AsyncIterator<unknown>][] = [
      ['scan', etcd.scan(prefix(NAME))],
      ['mirror', etcd.mirror(prefix(NAME), { signal: world.stop.signal })[Symbol.asyncIterator]()],
      ['observe', observe(etcd, NAME, { signal: world.stop.signal })],
      ['watch', etcd.watch(prefix(NAME), { startRevision: 1n })[Symbol.asyncIterator]()],
    ];
    for (const [name, items] of left) {
      world.items = items;
      await world.step(`${name}: next`, items.next());
      const pending = items.next().catch(() => {});
      world.at(`between next and return: ${name}`);
      await world.step(`${name}: return`, items.return?.());
      await world.step(`${name}: pending`, pending);
    }
  },
  'values with a codec, and changes of a range in memory': async (world) => {
    const { etcd } = world;
    const codec = {
      encode: (value: string) => {
        world.at('codec.encode');
        return value;
      },
      decode: (value: Uint8Array) => {
        world.at('codec.decode');
        return new TextDecoder().decode(value);
      },
    };
    const keys = typed(etcd, `${NAME}/`, codec);
    await world.step('put', keys.put('a', '1'));
    await world.step(
      'modify',
      keys.modify('a', (value) => {
        world.at('change');
        return `${value}2`;
      }),
    );
    const cached = await keys.cachedRange();
    const changes = cached.changes({ signal: world.stop.signal });
    const next = world.step('change', changes.next());
    await keys.put('a', '3');
    await next;
    await world.step('return', changes.return?.());
    await cached[Symbol.asyncDispose]();
  },
  'an election and numbers that a client takes': async (world) => {
    await world.open(NAME);
    const { session, other, etcd } = world;
    const election = new Election(session as Session, `${NAME}-election`);
    const leadership = await world.step('campaign', election.campaign('me'));
    await world.step('proclaim', leadership?.proclaim('again'));
    const slot = await world.step('take', new Slots(session as Session, `${NAME}-slots`, 1).take());
    await world.step('try', new Slots(await Session.open(other), `${NAME}-slots`, 1).tryTake());
    await world.step('release', slot?.release());
    await world.step('get', etcd.get(NAME));
    await world.step('session.close', session?.close());
  },
};
