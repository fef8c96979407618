import type { ObjectKind } from './names.js';

// What the marks advise: what to write in place of a part of etcd3 that this program does not rewrite. The advice stands
// in the rewritten program, whose reader need not have the documents of etcdwire.

/** What to write in place of a method of a client, by the name of the method. */
const METHODS: Readonly<Record<string, string>> = {
  get: 'use get(key, options); it resolves with a KeyValue or undefined',
  getAll: 'use range(prefix(…), options), or scan for many keys',
  put: 'use put(key, value, { lease, prevKv })',
  delete: 'use delete(key) or delete(prefix(…)); `deleted` is a number',
  watch: 'use `for await (const event of client.watch(prefix(…)))`',
  if: 'use txn({ if: [compare.…], then: [op.…], else: [op.…] })',
  lease: 'use `await Session.open(client, { ttl })` of etcdwire/locks, and put with { lease: session.leaseId }',
  lock: 'use `await new Mutex(session, name).tryLock()` of etcdwire/locks, or Etcd3Mutex of etcdwire/recipes while other programs still lock with etcd3',
  election:
    "use new Election(session, 'election/NAME') of etcdwire/locks; with this name it elects together with etcd3",
  stm: 'use stm(client, async (tx) => …) of etcdwire/recipes',
  getRoles: 'use auth.roleList()',
  getUsers: 'use auth.userList()',
  role: 'use the methods of auth, such as auth.roleAdd(name)',
  user: 'use the methods of auth, such as auth.userAdd(name, { password })',
  mock: 'use new Client({ transport: memory(new MemoryEtcd()) }) of etcdwire/testing',
  range: 'use prefix(…) or keyRange(start, end)',
  close: 'Client of etcdwire has `close`, too; await it, because it waits for calls and locks',
  namespace: 'Client of etcdwire has `namespace`, too; the keys of its results lack the prefix, as in etcd3',
};

export function adviceOnTransaction(method: string): string {
  return method === 'getAll'
    ? 'use `await tx.range(prefix(…))` of the transaction of stm of etcdwire/recipes'
    : 'in stm of etcdwire/recipes, `await tx.text(key)` reads, and tx.put(key, value) and tx.delete(key) return nothing';
}

/** The advice for a lease that etcd3 does not renew. A session would renew it, so its keys would never expire. */
export const LEASE_WITHOUT_RENEWAL =
  'use `await client.lease.grant({ ttl })`, which nothing renews, and put with { lease }; ExpiringKeys of etcdwire/recipes shares leases between the entries of a cache';

export function adviceOnMethod(method: string): string {
  return (
    METHODS[method] ??
    `etcdwire has no method ${method}; Client has get, put, delete, range, scan, txn, watch, lease, auth, cluster and maintenance, and raw has every RPC`
  );
}

/** What to do about calls on objects that this program does not rewrite. */
export const OBJECTS: Readonly<Record<ObjectKind, string>> = {
  lease:
    "a Session of etcdwire/locks replaces the lease: `signal` aborts after close(), and with signal.reason.reason 'LeaseExpired' when the lease is lost; close() revokes it, orphan() lets it expire",
  watcher:
    'use `for await (const event of watch)`: event.type is put or delete, event.kv has key and text(); the loop throws the errors, and continues after an outage',
  lock: 'a Mutex of etcdwire/locks replaces the lock: tryLock() returns undefined if it is taken, and held.release() frees it',
  election: "use new Election(session, 'election/NAME') of etcdwire/locks: campaign, observe, leader",
  campaign:
    'use `const leadership = await election.campaign(value)`: it resolves when this candidate leads, `signal` aborts when it loses, and it has proclaim() and resign()',
  observer:
    'use `for await (const leader of election.observe())`; it ends with `break`, and leader.text() is the value',
};

const RETRIES =
  'interceptors: [retryPolicy({ maxAttempts })] limits the attempts of a call; the client avoids a failed endpoint by itself';

/** What to write in place of an option of a client. */
const OPTIONS: Readonly<Record<string, string>> = {
  hosts: '`hosts` is now `endpoints`, a list',
  auth: '`auth` is { username, password }, and for http: endpoints also { allowPlaintext: true }',
  credentials: '`credentials` is now `tls`: { ca, key, cert }',
  dialTimeout: '`dialTimeout` is now `connectTimeoutMs`',
  grpcOptions: 'use connectTimeoutMs, pingIntervalMs and maxReceiveBytes in place of the options of grpc-js',
  defaultCallOptions: 'use timeoutMs for the time limit of a call, or an interceptor',
  faultHandling: RETRIES,
  backoffStrategy: RETRIES,
  retry: RETRIES,
};

/** `option` is undefined for the options of an object that the program spreads. */
export function adviceOnOption(option: string | undefined): string {
  if (option === undefined)
    return 'check the options of another object: `hosts` is now `endpoints`, a list, and `credentials` is `tls`';
  return (
    OPTIONS[option] ??
    `Client has no option \`${option}\`; it has endpoints, tls, auth, timeoutMs, connectTimeoutMs, logger and others`
  );
}

/** What to write in place of an export of etcd3. */
const EXPORTS: Readonly<Record<string, string>> = {
  Lease: 'use Session of etcdwire/locks, or the result of lease.keepAlive',
  Watcher: 'use the type of client.watch(…), which a program reads with `for await`',
  Lock: 'use Mutex and Held of etcdwire/locks',
  Election: 'use Election of etcdwire/locks',
  Campaign: 'use Leadership of etcdwire/locks, with which `campaign` resolves',
  ElectionObserver: 'use the result of `observe`, which a program reads with `for await`',
  IKeyValue: 'use KeyValue of etcdwire: `key` is a string, text() and json() decode the value',
  IWatchResponse: 'use WatchBatch of etcdwire, which `watch.batches()` yields',
  SoftwareTransaction: 'use StmTransaction of etcdwire/recipes',
  GRPCGenericError: 'use error.code of EtcdError of etcdwire, which every error has',
  EtcdError: 'EtcdError of etcdwire is the class of all errors; `reason` and `code` tell them apart',
  isRecoverableError: "use error.code === 'Unavailable' or error.outcome of EtcdError",
  EtcdLockFailedError: 'there is no error for a taken lock: tryLock() of Mutex resolves with undefined',
};

/** The `reason` of EtcdError, or its `code` in the second list, in place of a class of errors. */
const REASONS: Readonly<Record<string, string>> = {
  EtcdLeaseInvalidError: 'LeaseNotFound',
  EtcdRoleExistsError: 'RoleAlreadyExist',
  EtcdUserExistsError: 'UserAlreadyExist',
  EtcdRoleNotGrantedError: 'RoleNotGranted',
  EtcdRoleNotFoundError: 'RoleNotFound',
  EtcdUserNotFoundError: 'UserNotFound',
  EtcdAuthenticationFailedError: 'AuthFailed',
  EtcdPermissionDeniedError: 'PermissionDenied',
  EtcdInvalidAuthTokenError: 'InvalidAuthToken',
  NotCampaigningError: 'LockLost',
  STMConflictError: 'TxnConflict',
  ClientClosedError: 'ClientClosed',
};
const CODES: Readonly<Record<string, string>> = {
  Cancelled: 'Canceled',
  ResourceExhasted: 'ResourceExhausted',
  NotImplemented: 'Unimplemented',
};

export function adviceOnExport(name: string): string {
  if (EXPORTS[name] !== undefined) return EXPORTS[name];
  const reason = REASONS[name];
  const code = /^GRPC(\w+)Error$/.exec(name)?.[1];
  if (reason !== undefined) return `use error.reason === '${reason}' of EtcdError of etcdwire`;
  if (code !== undefined) return `use error.code === '${CODES[code] ?? code}' of EtcdError of etcdwire`;
  if (name.endsWith('Error')) return `use the \`reason\` of EtcdError of etcdwire instead of the class ${name}`;
  return `etcdwire has no ${name}; its types have other names, such as KeyValue, WatchEvent and Txn`;
}

/** What to use instead of the properties of a client. */
const PROPERTIES: Readonly<Record<string, string>> = {
  kv: 'use raw.kv',
  leaseClient: 'use raw.lease',
  watchClient: 'use raw.watch',
  auth: 'use the methods of auth, or raw.auth',
  maintenance: 'use the methods of maintenance, which get the endpoint of a member, or raw.maintenance',
  cluster: 'use the methods of cluster, or raw.cluster',
};

export function adviceOnProperty(property: string): string {
  return PROPERTIES[property] ?? 'use client.raw, which has a function for each RPC of etcd';
}
