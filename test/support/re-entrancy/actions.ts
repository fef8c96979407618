import { op } from '../../../src/index.js';
import { Mutex, Session, withLock } from '../../../src/locks.js';
import type { World } from './world.js';

// What a program may call in a callback.

type Action = (world: World) => unknown;

/** Actions that end nothing that the program uses, so the program goes on as without them. */
const HARMLESS: Readonly<Record<string, Action>> = {
  'held.release of a lost lock': ({ held }) => (held?.signal.aborted ? held.release() : undefined),
  'held.txn': ({ held }) => held?.txn({ then: [op.get('k')] }),
  'held.valid': ({ held, session }) => [held?.valid(), held?.signal.aborted, session?.valid(), JSON.stringify(held)],
  'Client.watch': ({ etcd, opened }) => void opened.push(etcd.watch('opened')[Symbol.asyncIterator]()),
  'Client.watch and close': ({ etcd }) => etcd.watch('opened').close(),
  'Client.mirror': ({ etcd, opened }) =>
    void opened.push(etcd.mirror('opened', { fromRevision: 1n })[Symbol.asyncIterator]()),
  'Client.put': ({ etcd }) => etcd.put('k', 'v'),
  'Client.txn with retryWrites': ({ etcd }) => etcd.txn({ then: [op.put('k', 'v')] }, { retryWrites: true }),
  'Client.scan and return': ({ etcd }) => etcd.scan('k').return?.(),
  'Client.setEndpoints': ({ etcd }) => etcd.setEndpoints(etcd.endpoints),
  'Client.onEvent': ({ etcd }) => etcd.onEvent(() => {})(),
  'Client.toJSON': ({ etcd }) => JSON.stringify(etcd),
  'Client.sync': ({ etcd }) => etcd.sync(),
  'namespace.watch and close': async ({ etcd }) => {
    const namespace = etcd.namespace('n/') as ReturnType<typeof etcd.namespace> & { close(): Promise<void> };
    namespace.watch('k');
    await namespace.close();
  },
  'Leases.keepAlive and close': async ({ etcd }) => {
    const alive = etcd.lease.keepAlive(await etcd.lease.grant({ ttl: 600 }));
    await alive.close();
  },
  'Leases.keepAlive of an ID and close': ({ etcd }) => etcd.lease.keepAlive(7n).close(),
  'Session.open and close': async ({ etcd }) => (await Session.open(etcd)).close(),
  withLock: ({ etcd }) => withLock(etcd, 'another', () => {}),
  'Mutex.tryLock': async ({ session }) => session && (await new Mutex(session, 'another').tryLock())?.release(),
};

/** Actions that end something that the program may still use. */
const ENDING: Readonly<Record<string, Action>> = {
  'held.release': ({ held }) => held?.release(),
  'session.close': ({ session }) => session?.close(),
  'session.orphan, and the end of the lease': async ({ session, other }) => {
    await session?.orphan();
    if (session !== undefined) await other.lease.revoke(session.leaseId);
  },
  'Leases.revoke': ({ etcd, session }) => session && etcd.lease.revoke(session.leaseId),
  'iterator.return': ({ items }) => items?.return?.(),
  'AbortController.abort': ({ stop }) => stop.abort(),
  // Not awaited, because `close` waits for the call or the action in which it was called.
  'Client.close': ({ etcd }) => void etcd.close({ drainMs: 50 }),
};

export const ACTIONS: readonly { readonly name: string; readonly isHarmless: boolean; readonly action: Action }[] = [
  ...Object.entries(HARMLESS).map(([name, action]) => ({ name, isHarmless: true, action })),
  ...Object.entries(ENDING).map(([name, action]) => ({ name, isHarmless: false, action })),
];
