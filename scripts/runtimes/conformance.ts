import { tunnel as webSocket } from '../../docs/examples/tunnel.js';
import { gateway } from '../../src/gateway.js';
import { Client, compare, EtcdError, http2, op, prefix, type TlsOptions } from '../../src/index.js';
import { Mutex, Session, withLock } from '../../src/locks.js';
import type { TransportFactory } from '../../src/transport.js';

// The checks that run on every runtime. This file must not use an API that only some runtimes have.

export interface CheckResult {
  readonly check: string;
  readonly problem: string | undefined;
}

/** The servers and keys for one run of the checks, and what the runtime supports. */
export interface Conformance {
  readonly endpoint: string;
  /** The prefix of all keys that the checks write, except the keys of the lock. */
  readonly name: string;
  /** The name of a lock for which other processes contend as well. */
  readonly lock: string;
  /**
   * Servers with TLS whose certificates name only 127.0.0.1. `tls` is missing if the runtime cannot negotiate HTTP/2
   * with ALPN.
   */
  readonly secure: readonly { readonly endpoint: string; readonly tls?: TlsOptions }[];
  /** Whether the runtime has sockets. Without them, only the gateway and the tunnel work. */
  readonly sockets: boolean;
  /** The URL of a bridge from WebSockets to `endpoint` (docs/examples/bridge.ts). Undefined if it is not tested. */
  readonly tunnel?: string | undefined;
}

const CONTENDERS = 2;
const HOLDS = 20;
/** The number of times that the checks themselves hold the lock for which other processes contend. */
export const OWN_HOLDS = CONTENDERS * HOLDS;

type Check = (etcd: Client, name: string) => Promise<void>;

const CHECKS: Readonly<Record<string, Check>> = {
  'keys and values': async (etcd, name) => {
    const value = Uint8Array.from({ length: 100_000 }, (_, index) => index % 251);
    await etcd.put(`${name}/a`, value);
    await etcd.put(`${name}/b`, 'ä€😀');
    const back = (await etcd.get(`${name}/a`))?.value ?? new Uint8Array();
    expect(
      'the bytes of a value are unchanged',
      back.length === value.length && back.every((byte, index) => byte === value[index]),
    );
    expect('the text of a value is unchanged', (await etcd.get(`${name}/b`))?.text() === 'ä€😀');
    const keys: string[] = [];
    for await (const kv of etcd.scan(prefix(`${name}/`))) keys.push(kv.key);
    expect('a scan returns all keys in order', keys.join() === `${name}/a,${name}/b`);
    expect('a delete returns the number of deleted keys', (await etcd.delete(prefix(`${name}/`))).deleted === 2);
    expect('a deleted key does not exist', (await etcd.get(`${name}/a`)) === undefined);
  },
  transactions: async (etcd, name) => {
    const create = async (value: string): Promise<boolean> => {
      const result = await etcd.txn({
        if: [compare.createRevision(name, '==', 0n)],
        then: [op.put(name, value)],
        else: [op.get(name)],
      });
      return result.succeeded;
    };
    expect('the first transaction creates the key', await create('first'));
    expect('the second transaction does not create the key', !(await create('second')));
    expect('the key has the value of the first transaction', (await etcd.get(name))?.text() === 'first');
  },
  watches: async (etcd, name) => {
    const watch = etcd.watch(prefix(name), { prevKv: true });
    await watch.created();
    for (let count = 0; count < 50; count += 1) await etcd.put(name, String(count));
    await etcd.delete(name);
    const seen: string[] = [];
    for await (const event of watch) {
      seen.push(event.type === 'put' ? event.kv.text() : `deleted ${event.prevKv?.text()}`);
      if (event.type === 'delete') break;
    }
    expect(
      'the watch delivers each event once and in order',
      seen.join() === [...Array(50).keys(), 'deleted 49'].join(),
    );
  },
  leases: async (etcd, name) => {
    const lease = await etcd.lease.grant({ ttl: 2 });
    await etcd.put(name, 'leased', { lease: lease.id });
    const alive = etcd.lease.keepAlive(lease);
    await sleep(3_500);
    expect('a renewed lease lives longer than its TTL', alive.valid() && (await etcd.get(name)) !== undefined);
    const lost = new Promise((resolve) => alive.signal.addEventListener('abort', resolve, { once: true }));
    await etcd.lease.revoke(lease.id);
    await lost;
    expect(
      'the client reports the revocation of a lease',
      (alive.signal.reason as EtcdError).reason === 'LeaseRevoked',
    );
    expect('the revocation deletes the keys of the lease', (await etcd.get(name)) === undefined);
  },
  snapshots: async (etcd) => {
    // The client verifies the SHA-256 of the snapshot. It uses the runtime's implementation of SHA-256 if there is one.
    let bytes = 0;
    for await (const chunk of etcd.maintenance.snapshot(etcd.endpoints[0] as string)) bytes += chunk.length;
    expect('a snapshot consists of whole sectors and a digest', bytes > 32 && bytes % 512 === 32);
  },
  errors: async (etcd, name) => {
    const error = await etcd.put(name, 'x', { lease: 12_345n }).catch((reason: unknown) => reason);
    const typed = error instanceof EtcdError && error.reason === 'LeaseNotFound' && error.outcome === 'rejected';
    expect('the error of a refused put has the reason that the server gave', typed);
    const aborted = await etcd.get(name, { signal: AbortSignal.abort() }).catch((reason: unknown) => reason);
    expect('an aborted signal cancels a call', (aborted as EtcdError).reason === 'Canceled');
  },
  locks: async (etcd, name) => {
    const session = await Session.open(etcd, { ttl: 5 });
    const held = await new Mutex(session, name).lock();
    const other = await withLock(etcd, name, { maxWaitMs: 2_000 }, () => Promise.resolve()).catch(
      (reason: unknown) => reason,
    );
    expect('a second contender does not get the lock', (other as EtcdError).reason === 'LockTaken');
    await session.close();
    expect('a lock is lost when its session closes', held.signal.aborted && !held.valid());
    expect('the lost lock is free at once', (await withLock(etcd, name, async ({ token }) => token)) > held.token);
  },
};

/**
 * Runs all checks on a real etcd while other processes contend for the same lock. `own` is the transport of a runtime
 * that has no sockets and no `fetch` of its own. Default: the transport of the client, and the gateway.
 */
export async function conformance(
  { endpoint, name, lock, secure, sockets, tunnel }: Conformance,
  own?: TransportFactory,
): Promise<CheckResult[]> {
  const checks: CheckResult[] = [];
  const overSockets = sockets ? [['', own] as const] : [];
  const overGateway = own === undefined ? [[' over the gateway', gateway()] as const] : [];
  const hasTunnel = tunnel !== undefined && typeof WebSocket !== 'undefined';
  const overTunnel = hasTunnel ? [[' over a WebSocket', http2({ connect: webSocket(tunnel) })] as const] : [];
  for (const [suffix, transport] of [...overSockets, ...overGateway, ...overTunnel]) {
    const etcd = new Client({ endpoints: [endpoint], transport });
    for (const [what, perform] of Object.entries(CHECKS)) {
      const check = what + suffix;
      checks.push({ check, problem: await problemOf(perform(etcd, `${name}/${check}`)) });
    }
    await etcd.close();
  }
  for (const { endpoint: url, tls } of secure) {
    const check = tls?.cert === undefined ? 'TLS' : 'TLS with the certificate of a client';
    checks.push({ check, problem: await problemOf(tryTls(url, tls, name)) });
  }
  checks.push({ check: 'no server', problem: await problemOf(tryWithoutServer(name, sockets, own)) });
  const among = own ?? (sockets ? undefined : gateway());
  const contenders = Array.from({ length: CONTENDERS }, () => contend(endpoint, lock, (count) => count < HOLDS, among));
  checks.push({ check: 'lock with other contenders', problem: await problemOf(Promise.all(contenders)) });
  return checks;
}

async function tryTls(endpoint: string, tls: TlsOptions | undefined, name: string): Promise<void> {
  const attempt = async (url: string, options?: TlsOptions, transport?: TransportFactory): Promise<string> => {
    const etcd = new Client({ endpoints: [url], tls: options, timeoutMs: 2_000, transport });
    try {
      await etcd.put(name, 'secret');
      return (await etcd.get(name))?.text() ?? '';
    } catch (error) {
      const { outcome, message } = error as EtcdError;
      return `${outcome}: ${message}`;
    } finally {
      await etcd.close();
    }
  };
  const isRefused = async (url: string, options: TlsOptions | undefined): Promise<boolean> =>
    (await attempt(url, options)).startsWith('not-sent: ');
  if (tls === undefined) {
    expect('the error recommends etcdwire/gateway', (await attempt(endpoint)).includes('etcdwire/gateway'));
    expect('the gateway works', (await attempt(endpoint, undefined, gateway())) === 'secret');
    return;
  }
  const byName = endpoint.replace('127.0.0.1', 'localhost');
  expect('the client accepts a trusted server', (await attempt(endpoint, tls)) === 'secret');
  expect('the client rejects a server with another name', await isRefused(byName, tls));
  expect(
    'the client accepts the server if `serverName` is the name in the certificate',
    (await attempt(byName, { ...tls, serverName: '127.0.0.1' })) === 'secret',
  );
  expect(
    'the client rejects a server whose certificate lacks `serverName`',
    await isRefused(endpoint, { ...tls, serverName: 'other' }),
  );
  expect('the client rejects an untrusted server', await isRefused(endpoint, { ...tls, ca: undefined }));
}

async function tryWithoutServer(name: string, sockets: boolean, transport?: TransportFactory): Promise<void> {
  const nobody = new Client({ endpoints: ['http://127.0.0.1:2'], timeoutMs: 300, transport });
  const error = (await nobody.get(name).catch((reason: unknown) => reason)) as EtcdError;
  await nobody.close();
  expect('a call without a server has the outcome not-sent', error.outcome === 'not-sent');
  if (!sockets) expect('the error recommends etcdwire/gateway', error.message.includes('etcdwire/gateway'));
}

/**
 * Takes a lock again and again. At the start and at the end of each hold, the holder writes to the lock's guard key
 * (see `guardOf`).
 */
export async function contend(
  endpoint: string,
  lock: string,
  isActive: (holds: number) => boolean,
  transport?: TransportFactory,
): Promise<void> {
  const etcd = new Client({ endpoints: [endpoint], transport });
  try {
    for (let count = 0; isActive(count); count += 1) {
      await withLock(etcd, lock, async (held) => {
        await held.txn({ then: [op.put(guardOf(lock), `enter ${held.token}`)] });
        await sleep(1);
        await held.txn({ then: [op.put(guardOf(lock), `leave ${held.token}`)] });
      });
    }
  } finally {
    await etcd.close();
  }
}

/** The guard key of a lock. The order of the holders' writes to this key shows whether two of them overlapped. */
export function guardOf(lock: string): string {
  return `guard-of-${lock}`;
}

export async function problemOf(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  }
}

export function expect(claim: string, holds: boolean | undefined): void {
  if (!holds) throw new Error(`not true: ${claim}`);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
