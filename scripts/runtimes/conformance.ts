import { Mutex, Session, withLock } from '../../src/concurrency/index.js';
import { Client, compare, EtcdError, op, prefix, type TlsOptions, type TransportFactory } from '../../src/index.js';
import { gateway } from '../../src/transport/gateway/index.js';

// One program for every runtime: what it imports, and nothing of any host.

export interface CheckResult {
  readonly check: string;
  readonly problem: string | undefined;
}

/** What is to be tried, and where. */
export interface Conformance {
  readonly endpoint: string;
  /** Under which all keys are. */
  readonly name: string;
  /** That others want as well. */
  readonly lock: string;
  /** Servers with certificates for 127.0.0.1 alone; without `tls` the host cannot ask for HTTP/2 by ALPN. */
  readonly secure: readonly { readonly endpoint: string; readonly tls?: TlsOptions }[];
  /** False: the host has none, and the gateway is the only way. */
  readonly sockets: boolean;
}

const CONTENDERS = 2;
const HOLDS = 20;
/** Of the lock, by the program itself. */
export const OWN_HOLDS = CONTENDERS * HOLDS;

type Check = (etcd: Client, name: string) => Promise<void>;

const CHECKS: Readonly<Record<string, Check>> = {
  'keys and values': async (etcd, name) => {
    const value = Uint8Array.from({ length: 100_000 }, (_, index) => index % 251);
    await etcd.put(`${name}/a`, value);
    await etcd.put(`${name}/b`, 'ä€😀');
    const back = (await etcd.get(`${name}/a`))?.value ?? new Uint8Array();
    expect('bytes come back', back.length === value.length && back.every((byte, index) => byte === value[index]));
    expect('text comes back', (await etcd.get(`${name}/b`))?.text() === 'ä€😀');
    const keys: string[] = [];
    for await (const kv of etcd.scan(prefix(`${name}/`))) keys.push(kv.keyText());
    expect('a scan gives all keys in order', keys.join() === `${name}/a,${name}/b`);
    expect('a delete counts', (await etcd.delete(prefix(`${name}/`))).deleted === 2);
    expect('what is deleted is gone', (await etcd.get(`${name}/a`)) === undefined);
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
    expect('a key is created', await create('first'));
    expect('and not twice', !(await create('second')));
    expect('by the first', (await etcd.get(name))?.text() === 'first');
  },
  watches: async (etcd, name) => {
    const watch = etcd.watch(prefix(name), { prevKv: true });
    await watch.created();
    for (let count = 0; count < 50; count += 1) await etcd.put(name, String(count));
    await etcd.delete(name);
    const seen: string[] = [];
    for await (const { type, kv, prevKv } of watch) {
      seen.push(type === 'put' ? kv.text() : `deleted ${prevKv?.text()}`);
      if (type === 'delete') break;
    }
    expect('each event once and in order', seen.join() === [...Array(50).keys(), 'deleted 49'].join());
  },
  leases: async (etcd, name) => {
    const lease = await etcd.lease.grant({ ttl: 2 });
    await etcd.put(name, 'leased', { lease: lease.id });
    const alive = etcd.lease.keepAlive(lease);
    await sleep(3_500);
    expect('kept alive beyond its TTL', alive.valid() && (await etcd.get(name)) !== undefined);
    const lost = new Promise((resolve) => alive.signal.addEventListener('abort', resolve, { once: true }));
    await etcd.lease.revoke(lease.id);
    await lost;
    expect('its end is told of', (alive.signal.reason as EtcdError).reason === 'LeaseRevoked');
    expect('and takes its keys along', (await etcd.get(name)) === undefined);
  },
  snapshots: async (etcd) => {
    // Verified by the client: its SHA-256 is the host's where there is one.
    let bytes = 0;
    for await (const chunk of etcd.maintenance.snapshot(etcd.endpoints[0] as string)) bytes += chunk.length;
    expect('whole sectors, and a digest', bytes > 32 && bytes % 512 === 32);
  },
  errors: async (etcd, name) => {
    const error = await etcd.put(name, 'x', { lease: 12_345n }).catch((reason: unknown) => reason);
    const typed = error instanceof EtcdError && error.reason === 'LeaseNotFound' && error.outcome === 'rejected';
    expect('the server refuses by a reason', typed);
    const aborted = await etcd.get(name, { signal: AbortSignal.abort() }).catch((reason: unknown) => reason);
    expect('a signal ends a call', (aborted as EtcdError).reason === 'Canceled');
  },
  locks: async (etcd, name) => {
    const session = await Session.open(etcd, { ttl: 5 });
    const held = await new Mutex(session, name).lock();
    const other = await withLock(etcd, name, () => Promise.resolve(), { maxWaitMs: 300 }).catch(
      (reason: unknown) => reason,
    );
    expect('one holder', (other as EtcdError).reason === 'DeadlineExceeded');
    await session.close();
    expect('lost with its session', held.signal.aborted && !held.valid());
    expect('and free at once', (await withLock(etcd, name, async ({ token }) => token)) > held.token);
  },
};

/** Tries everything against a real etcd, while others contend for the same lock. */
export async function conformance({ endpoint, name, lock, secure, sockets }: Conformance): Promise<CheckResult[]> {
  const checks: CheckResult[] = [];
  const overGateway = [' over the gateway', gateway()] as const;
  for (const [way, transport] of sockets ? [['', undefined] as const, overGateway] : [overGateway]) {
    const etcd = new Client({ endpoints: [endpoint], transport });
    for (const [what, perform] of Object.entries(CHECKS)) {
      const check = what + way;
      checks.push({ check, problem: await problemOf(perform(etcd, `${name}/${check}`)) });
    }
    await etcd.close();
  }
  for (const { endpoint: url, tls } of secure) {
    const check = tls?.cert === undefined ? 'TLS' : 'TLS with the certificate of a client';
    checks.push({ check, problem: await problemOf(tryTls(url, tls, name)) });
  }
  checks.push({ check: 'nobody there', problem: await problemOf(tryNobody(name, sockets)) });
  const among = sockets ? undefined : gateway();
  const contenders = Array.from({ length: CONTENDERS }, () => contend(endpoint, lock, (count) => count < HOLDS, among));
  checks.push({ check: 'lock among others', problem: await problemOf(Promise.all(contenders)) });
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
    expect('the refusal says what there is instead', (await attempt(endpoint)).includes('etcdwire/gateway'));
    expect('which there is', (await attempt(endpoint, undefined, gateway())) === 'secret');
    return;
  }
  const byName = endpoint.replace('127.0.0.1', 'localhost');
  expect('a server that is vouched for is spoken to', (await attempt(endpoint, tls)) === 'secret');
  expect('one of another name is not', await isRefused(byName, tls));
  expect('unless that name is asked for', (await attempt(byName, { ...tls, serverName: '127.0.0.1' })) === 'secret');
  expect('another name than its own is not', await isRefused(endpoint, { ...tls, serverName: 'other' }));
  expect('nor one that nobody vouches for', await isRefused(endpoint, { ...tls, ca: undefined }));
}

async function tryNobody(name: string, sockets: boolean): Promise<void> {
  const nobody = new Client({ endpoints: ['http://127.0.0.1:2'], timeoutMs: 300 });
  const error = (await nobody.get(name).catch((reason: unknown) => reason)) as EtcdError;
  await nobody.close();
  expect('nothing was sent where nobody listens', error.outcome === 'not-sent');
  if (!sockets) expect('the error says what there is instead', error.message.includes('etcdwire/gateway'));
}

/** Takes a lock again and again, and writes under it when it begins and when it ends, for others to judge. */
export async function contend(
  endpoint: string,
  lock: string,
  goesOn: (holds: number) => boolean,
  transport?: TransportFactory,
): Promise<void> {
  const etcd = new Client({ endpoints: [endpoint], transport });
  try {
    for (let count = 0; goesOn(count); count += 1) {
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

/** The key that holders write to. */
export function guardOf(lock: string): string {
  return `guard-of-${lock}`;
}

async function problemOf(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  }
}

function expect(what: string, holds: boolean | undefined): void {
  if (!holds) throw new Error(`not so: ${what}`);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
