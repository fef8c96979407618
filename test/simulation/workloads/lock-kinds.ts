import type { CoreKeyspace } from '../../../src/client/keyspace.js';
import { compare, op } from '../../../src/client/kv/txn.js';
import { Etcd3Mutex } from '../../../src/extras/recipes/etcd3-mutex.js';
import { Election } from '../../../src/locks/election.js';
import { Mutex } from '../../../src/locks/mutex.js';
import { ReentrantMutex } from '../../../src/locks/reentrant-mutex.js';
import { RWMutex } from '../../../src/locks/rw-mutex.js';
import { Semaphore } from '../../../src/locks/semaphore.js';
import type { Session } from '../../../src/locks/session.js';
import type { LockOptions } from '../../../src/locks/waiting.js';
import { expected } from './expected.js';

// The function `acquire` acquires a lock of any kind except `withLock`, so that one player can play all of these kinds.

export type LockKind =
  | 'mutex'
  | 'reentrant'
  | 'read'
  | 'write'
  | 'semaphore'
  | 'election'
  | 'withLock'
  | 'etcd3 mutex'
  | 'etcd3';

/** A held lock of any kind. */
export interface Holding {
  readonly token: bigint;
  readonly key: string;
  valid(): boolean;
  txn(value: string): Promise<unknown>;
  release(): Promise<void>;
}

/** The name of the lock. */
export const NAME = 'lock';
/** The kinds of locks that have the option `maxHoldMs`. */
export const LIMITED: ReadonlySet<LockKind> = new Set(['mutex', 'read', 'write', 'election', 'withLock']);
/** The key that holders write to. */
export const FENCED = 'fenced';
export const PERMITS = 2;

/** Acquires the lock. Resolves with undefined if `isTry` is true and another contender holds the lock. */
export async function acquire(
  session: Session,
  kind: LockKind,
  isTry: boolean,
  { maxHoldMs, ...wait }: LockOptions,
): Promise<Holding | undefined> {
  switch (kind) {
    case 'mutex': {
      const mutex = new Mutex(session, NAME);
      const options = { ...wait, maxHoldMs };
      return holdingOf(await (isTry ? mutex.tryLock(options) : mutex.lock(options)));
    }
    case 'etcd3 mutex': {
      const mutex = new Etcd3Mutex(session, NAME);
      return holdingOf(await (isTry ? mutex.tryLock(wait) : mutex.lock(wait)));
    }
    case 'etcd3':
      return etcd3Lock(session.client);
    case 'reentrant': {
      const mutex = new ReentrantMutex(session, NAME);
      const owner = {};
      const outer = await (isTry ? mutex.tryLock(owner, wait) : mutex.lock(owner, wait));
      if (outer === undefined) return undefined;
      const inner = await mutex.lock(owner, wait);
      return {
        ...holdingOf(inner),
        release: async () => {
          await inner.release();
          await outer.release();
        },
      };
    }
    case 'read': {
      const lock = new RWMutex(session, NAME);
      const options = { ...wait, maxHoldMs };
      return holdingOf(await (isTry ? lock.tryReadLock(options) : lock.readLock(options)));
    }
    case 'write': {
      const lock = new RWMutex(session, NAME);
      const options = { ...wait, maxHoldMs };
      return holdingOf(await (isTry ? lock.tryLock(options) : lock.lock(options)));
    }
    case 'semaphore': {
      const semaphore = new Semaphore(session, NAME, PERMITS);
      return holdingOf(await (isTry ? semaphore.tryAcquire(wait) : semaphore.acquire(wait)));
    }
    default: {
      const leadership = await new Election(session, NAME).campaign('elected', { ...wait, maxHoldMs });
      return { ...holdingOf(leadership), txn: (value) => leadership.proclaim(value) };
    }
  }
}

/**
 * Acquires a lock with the requests that the locks of npm's etcd3 send: one attempt to put the key, with a lease that
 * the release revokes. The package does not compare the lease with a clock, but this holder does, because otherwise no
 * lock could exclude it.
 */
async function etcd3Lock(client: CoreKeyspace): Promise<Holding | undefined> {
  const lease = await client.lease.grant({ ttl: 2 });
  const alive = client.lease.keepAlive(lease);
  const release = async (): Promise<void> => {
    await alive.close();
    await client.lease.revoke(lease.id).catch(expected);
  };
  const put = { if: [compare.createRevision(NAME, '==', 0n)], then: [op.put(NAME, '', { lease })] } as const;
  const { succeeded, header } = await client.txn(put).catch(async (error: unknown) => {
    await release();
    throw error;
  });
  if (succeeded) return { token: header.revision, key: NAME, valid: () => alive.valid(), txn: async () => {}, release };
  await release();
  return undefined;
}

interface Lockable {
  readonly token: bigint;
  readonly key: string;
  valid(): boolean;
  txn(txn: { readonly then: readonly [ReturnType<typeof op.put>] }): Promise<unknown>;
  release(): Promise<void>;
}

export function holdingOf(held: Lockable): Holding;
export function holdingOf(held: Lockable | undefined): Holding | undefined;
export function holdingOf(held: Lockable | undefined): Holding | undefined {
  if (held === undefined) return undefined;
  return {
    token: held.token,
    key: held.key,
    valid: () => held.valid(),
    txn: (value) => held.txn({ then: [op.put(FENCED, value)] }),
    release: () => held.release(),
  };
}
