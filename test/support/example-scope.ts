import {
  Client,
  type Credentials,
  type Lease,
  type ObjectFirstLogger,
  type PlaintextPermission,
} from '../../src/index.js';
import { Election, type Held, Mutex, Session } from '../../src/locks.js';
import { Service } from '../../src/recipes.js';
import { MemoryEtcd, memory } from '../../src/testing/index.js';

/** The variables that the examples in doc comments use without declaring them. */
export interface Scope {
  /** The endpoint of the server. */
  readonly serverUrl: string;
  /** A server in memory. */
  readonly server: MemoryEtcd;
  readonly etcd: Client;
  readonly session: Session;
  readonly mutex: Mutex;
  readonly held: Held;
  readonly election: Election;
  readonly service: Service;
  readonly lease: Lease;
  /** Cancels the calls of an example. */
  readonly controller: AbortController;
  /** Tells the work of an example to stop. */
  readonly stop: AbortController;
  readonly work: (options?: { readonly signal: AbortSignal }) => Promise<void>;
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly pino: () => ObjectFirstLogger;
}

export const SCOPE_NAMES: readonly (keyof Scope)[] = [
  ...([
    'serverUrl',
    'server',
    'etcd',
    'session',
    'mutex',
    'held',
    'election',
    'service',
    'lease',
    'controller',
    'stop',
  ] as const),
  ...(['work', 'key', 'value', 'pino'] as const),
];

let current: Scope | undefined;

/** Returns the scope of the example that runs. */
export function scope(): Scope {
  if (current === undefined) throw new Error('no example is running, because openScope has not been called');
  return current;
}

/**
 * Opens a client and a session, and creates the other variables of the scope, for one example.
 *
 * @param inMemory Whether the client uses the server in memory instead of the server at the URL.
 */
export async function openScope(
  serverUrl: string,
  auth: Credentials | PlaintextPermission = { allowPlaintext: true },
  inMemory = false,
): Promise<Scope> {
  const server = new MemoryEtcd();
  const etcd = inMemory ? new Client({ transport: memory(server) }) : new Client({ endpoints: [serverUrl], auth });
  const session = await Session.open(etcd, { ttl: 10 });
  const mutex = new Mutex(session, 'scope-jobs');
  current = {
    serverUrl,
    server,
    etcd,
    session,
    mutex,
    held: await new Mutex(session, 'scope-held').lock(),
    election: new Election(session, 'scheduler'),
    service: new Service(etcd, 'services/web'),
    lease: await etcd.lease.grant({ ttl: 60 }),
    controller: new AbortController(),
    stop: new AbortController(),
    work: async () => {},
    key: Buffer.from('key'),
    value: Buffer.from('value'),
    pino: () => ({ debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }),
  };
  return current;
}
