import { onTestFinished } from 'vitest';
import { CoreClient } from '../../src/core.js';
import { gateway } from '../../src/gateway.js';
import { registerGrpcResolver } from '../../src/grpc-js.js';
import {
  Client,
  compare,
  connect,
  createKey,
  deleteKeyIf,
  fromKey,
  getMany,
  health,
  http2,
  json,
  keyRange,
  modifyKey,
  objectFirst,
  op,
  prefix,
  retryPolicy,
  typed,
  updateKey,
  withMaxCreateRev,
} from '../../src/index.js';
import {
  Election,
  inspectLock,
  lead,
  Mutex,
  observe,
  ReentrantMutex,
  RWMutex,
  SelfHealingSession,
  Semaphore,
  Session,
  tryWithLock,
  withLock,
  withLocks,
  withSessions,
} from '../../src/locks.js';
import {
  discoverSrv,
  fileStore,
  followDns,
  fromEnv,
  fromEnvWithDiscovery,
  resolveEndpoints,
  saveSnapshot,
} from '../../src/node.js';
import { openTelemetry } from '../../src/opentelemetry.js';
import {
  Barrier,
  DoubleBarrier,
  Etcd3Mutex,
  ExpiringKeys,
  history,
  PriorityQueue,
  persisted,
  Queue,
  RateLimiter,
  reconcile,
  Service,
  Slots,
  type StmTransaction,
  schedule,
  shardOwners,
  shards,
  stm,
  type Tick,
  WorkQueue,
} from '../../src/recipes.js';
import {
  checkLock,
  checkOrder,
  checkPuts,
  checkRegister,
  checkWatch,
  containing,
  EtcdCluster,
  FaultProxy,
  GuardedResource,
  History,
  listen,
  ManualClock,
  MemoryEtcd,
  memory,
  memoryOverHttp2,
  replay,
  startEtcd,
} from '../../src/testing/index.js';
import { unique } from './client.js';
import {
  ANY,
  BOOLEAN,
  CALL,
  COUNT,
  DRAIN,
  FUNCTION,
  INT64,
  KEY,
  type Kind,
  LEASE,
  LEASE_ID,
  LIMITS,
  LIST,
  MS,
  NAME,
  OWNER,
  optional,
  options,
  required,
  right,
  SIGNAL,
  TEXT,
  TEXT_NOT_EMPTY,
  TIMEOUT,
  TTL,
  UINT64,
  VALUE,
  WAIT,
} from './wrong-values.js';

// Lists a call of every function of the package that has parameters, with the kind of each argument.

/** The objects that the calls use. The session belongs to the client, and the client is connected to the server. */
export interface World {
  readonly server: MemoryEtcd;
  readonly etcd: Client;
  readonly session: Session;
}

type Call = (...given: never[]) => unknown;

export interface PublicCall {
  /** The arguments in their order, by their names in error messages. */
  readonly args: Readonly<Record<string, Kind>>;
  /** Makes the object that has the method, and returns the function. */
  readonly make: (world: World) => Call | Promise<Call>;
  /** Whether a call with right arguments needs more than a `MemoryEtcd`, such as an etcd or a network. */
  readonly isRemote?: true;
}

function call(args: Readonly<Record<string, Kind>>, make: PublicCall['make'], isRemote?: true): PublicCall {
  return isRemote === undefined ? { args, make } : { args, make, isRemote };
}

const CLIENT = right(undefined);
const SESSION = right(undefined);
const STORE = right({ load: async () => undefined, save: async () => {} });
const ENDPOINT = right('unix:///memory-etcd');
const GET = { revision: INT64, serializable: BOOLEAN, keysOnly: BOOLEAN };
const SCAN = {
  ...GET,
  minModRevision: INT64,
  maxModRevision: INT64,
  minCreateRevision: INT64,
  maxCreateRevision: INT64,
};
const RANGE = { limit: COUNT, sort: right({ target: 'key', order: 'asc' }), countOnly: BOOLEAN, ...SCAN };
const PUT = { lease: LEASE, prevKv: BOOLEAN, ignoreValue: BOOLEAN, ignoreLease: BOOLEAN };
const DELETE = { prevKv: BOOLEAN };
const WRITE = { ...CALL, retryWrites: BOOLEAN };
const CREATE = { lease: LEASE, ...WRITE };
const UPDATE = { modRevision: INT64, oldValue: VALUE, ...CREATE };
const MODIFY = { maxAttempts: COUNT, ...CREATE };
const WATCH = {
  startRevision: INT64,
  prevKv: BOOLEAN,
  only: right('put'),
  bufferBytes: MS,
  progress: BOOLEAN,
  signal: SIGNAL,
};
const MIRROR = { prevKv: BOOLEAN, fromRevision: INT64, clusterId: UINT64, signal: SIGNAL };
const TXN = required(
  { if: right([compare.exists('k')], 'an empty array'), then: right([], 'an empty array'), else: right(undefined) },
  {},
);
const OPERATOR = right('==');
const CLIENT_OPTIONS = {
  endpoints: right(['http://127.0.0.1:1']),
  tls: right({}, 'an empty object', 'an object without a prototype', 'a function'),
  timeoutMs: TIMEOUT,
  connectTimeoutMs: MS,
  pingIntervalMs: right(6_000, '2^53'),
  pingTimeoutMs: MS,
  maxRequestBytes: COUNT,
  maxReceiveBytes: COUNT,
  maxTxnOps: COUNT,
  maxInFlight: COUNT,
  guardPrefix: KEY,
  balance: right('sticky'),
  auth: right(undefined, 'a function'),
  logger: right(console),
  callSites: BOOLEAN,
  interceptors: right([], 'an empty array'),
  transport: right(undefined, 'a function'),
};
const FULL_CLIENT_OPTIONS = {
  ...CLIENT_OPTIONS,
  orderedReads: BOOLEAN,
  retryWrites: BOOLEAN,
  autoSyncIntervalMs: MS,
  allowEndpoint: FUNCTION,
};
/** The options of methods that acquire a lock. */
const LOCK = { ...WAIT, maxHoldMs: TIMEOUT };
/** The options of functions that grant a lease for a session. */
const LEASE_OPTIONS = { ttl: TTL, allowLongTtl: BOOLEAN };
const ENDPOINTS = right(['http://127.0.0.1:1']);
const CACHE = options({ ...LIMITS });
const CONDITION = { keys: KEY, operator: OPERATOR, operand: INT64 };
const RESOLVER = right({ resolveSrv: async () => [], resolve4: async () => [], resolve6: async () => [] });
const VARIABLES = right({}, 'an empty object', 'an object without a prototype');
const numbers = (etcd: Client) => typed(etcd, 'n/', json(Number));
const CODEC = right(json(Number));

/** Returns right arguments. Clients, sessions, servers and snapshots come from the world. */
export function rightArguments({ args }: PublicCall, { server, etcd, session }: World): unknown[] {
  const own: Readonly<Record<string, unknown>> = { server, client: etcd, session, snapshot: server.snapshot() };
  return Object.entries(args).map(([name, { right: given }]) => given ?? own[name]);
}

/** All calls, by the names of the functions. */
export const CALLS: Readonly<Record<string, PublicCall>> = {
  retryPolicy: call(
    {
      options: {
        ...required({ maxAttempts: COUNT, minBackoffMs: MS, maxBackoffMs: MS, retryRead: FUNCTION }, {}),
        accepts: ['an empty object', 'an object without a prototype'],
      },
    },
    () => retryPolicy,
  ),
  'new Client': call(
    { options: options(FULL_CLIENT_OPTIONS, { endpoints: ['http://127.0.0.1:1'] }) },
    () => (given) => new Client(given),
  ),
  'new CoreClient': call(
    { options: options(CLIENT_OPTIONS, { endpoints: ['http://127.0.0.1:1'] }) },
    () => (given) => new CoreClient(given),
  ),
  'CoreClient.setEndpoints': call({ endpoints: ENDPOINTS }, () => {
    const etcd = new CoreClient({ endpoints: ['http://127.0.0.1:1'] });
    return (urls) => etcd.setEndpoints(urls);
  }),
  'Client.sync': method({ options: options(CALL) }, 'sync'),
  'Client.compact': method({ revision: INT64, options: options({ physical: BOOLEAN, ...CALL }) }, 'compact'),
  'Client.namespace': method({ prefix: KEY }, 'namespace'),
  'Client.mirror': method({ keys: KEY, options: options(MIRROR) }, 'mirror'),
  'Client.cachedRange': method({ keys: KEY, options: CACHE }, 'cachedRange'),
  'CoreClient.namespace': call({ prefix: KEY }, () => {
    const etcd = new CoreClient({ endpoints: ['http://127.0.0.1:1'] });
    return (name) => etcd.namespace('n/').namespace(name);
  }),
  'CoreClient.close': call({ options: options({ drainMs: DRAIN }) }, () => {
    const etcd = new CoreClient({ endpoints: ['http://127.0.0.1:1'] });
    return (given) => etcd.close(given);
  }),
  'CoreClient.onEvent': method({ listener: FUNCTION }, 'onEvent'),
  'CoreClient.get': method({ key: KEY, options: options({ ...GET, ...CALL }) }, 'get'),
  'CoreClient.range': method({ keys: KEY, options: options({ ...RANGE, ...CALL }) }, 'range'),
  'CoreClient.scan': method({ keys: KEY, options: options({ ...SCAN, ...CALL }) }, 'scan'),
  'CoreClient.put': method({ key: KEY, value: VALUE, options: options({ ...PUT, ...WRITE }) }, 'put'),
  'CoreClient.delete': method({ keys: KEY, options: options({ ...DELETE, ...WRITE }) }, 'delete'),
  'CoreClient.txn': method(
    { txn: { ...TXN, accepts: ['an empty object', 'an object without a prototype'] }, options: options(WRITE) },
    'txn',
  ),
  'CoreClient.watch': method({ keys: KEY, options: options(WATCH) }, 'watch'),
  connect: call(
    {
      options: options(
        { ...FULL_CLIENT_OPTIONS, failFastMs: MS, waitMs: right(0, '1.5'), signal: SIGNAL },
        { endpoints: ['http://127.0.0.1:1'] },
      ),
    },
    () => connect,
    true,
  ),
  health: call({ client: CLIENT, options: options({ timeoutMs: MS, signal: SIGNAL }) }, () => health),
  createKey: call({ client: CLIENT, key: KEY, value: VALUE, options: options(CREATE) }, () => createKey),
  updateKey: call(
    { client: CLIENT, key: KEY, value: VALUE, options: required(UPDATE, { modRevision: 1n }) },
    () => updateKey,
  ),
  deleteKeyIf: call(
    {
      client: CLIENT,
      key: KEY,
      options: required({ modRevision: INT64, oldValue: VALUE, ...WRITE }, { modRevision: 1n }),
    },
    () => deleteKeyIf,
  ),
  modifyKey: call(
    { client: CLIENT, key: KEY, options: options(MODIFY), change: right(() => 'x', 'a function') },
    () => modifyKey,
  ),
  getMany: call(
    {
      client: CLIENT,
      keys: right(['k'], 'an empty array'),
      options: options({ keysPerTxn: COUNT, ...GET, ...CALL }),
    },
    () => getMany,
  ),
  json: call({ parse: optional(FUNCTION) }, () => json),
  objectFirst: call({ logger: right({ warn: () => {} }) }, () => objectFirst),
  typed: call(
    { client: CLIENT, prefix: right('n/', 'an empty string', 'a string with NUL'), codec: CODEC },
    () => typed,
  ),
  'TypedKeys.key': typedMethod({ name: NAME }, 'key'),
  'TypedKeys.get': typedMethod({ name: NAME, options: options({ ...GET, ...CALL }) }, 'get'),
  'TypedKeys.range': typedMethod({ options: options({ ...RANGE, ...CALL }) }, 'range'),
  'TypedKeys.put': typedMethod({ name: NAME, value: ANY, options: options({ ...PUT, ...WRITE }) }, 'put'),
  'TypedKeys.create': typedMethod({ name: NAME, value: ANY, options: options(CREATE) }, 'create'),
  'TypedKeys.modify': typedMethod(
    { name: NAME, options: options(MODIFY), change: right(() => 1, 'a function') },
    'modify',
  ),
  'TypedKeys.delete': typedMethod({ name: NAME, options: options({ ...DELETE, ...WRITE }) }, 'delete'),
  'TypedKeys.watch': typedMethod({ options: options(WATCH) }, 'watch'),
  'TypedKeys.cachedRange': typedMethod({ options: CACHE }, 'cachedRange'),
  'TypedKeys.decode': typedMethod({ kv: right(undefined, 'undefined') }, 'decode'),
  'TypedKeys.opGet': typedMethod({ name: NAME, options: options(GET) }, 'opGet'),
  'TypedKeys.opPut': typedMethod({ name: NAME, value: ANY, options: options(PUT) }, 'opPut'),
  'TypedKeys.opDelete': typedMethod({ name: NAME }, 'opDelete'),
  'KeyValue.json': call({ parse: optional(FUNCTION) }, async ({ etcd }) => {
    const key = unique();
    await etcd.put(key, '1');
    const kv = await etcd.get(key);
    return (parse) => kv?.json(parse);
  }),
  prefix: call({ prefix: { ...KEY, accepts: VALUE.accepts } }, () => prefix),
  fromKey: call({ fromKey: right('key', ...KEY.accepts, 'an empty string') }, () => fromKey),
  keyRange: call(
    { start: right('\0', 'a string with NUL', 'bytes'), end: right('b', 'a string with NUL', 'bytes') },
    () => keyRange,
  ),
  withMaxCreateRev: call({ maxCreateRevision: INT64 }, () => withMaxCreateRev),
  'compare.version': call(CONDITION, () => compare.version),
  'compare.createRevision': call(CONDITION, () => compare.createRevision),
  'compare.modRevision': call(CONDITION, () => compare.modRevision),
  'compare.lease': call(CONDITION, () => compare.lease),
  'compare.exists': call({ keys: KEY }, () => compare.exists),
  'compare.missing': call({ keys: KEY }, () => compare.missing),
  'compare.value': call({ keys: KEY, operator: OPERATOR, operand: VALUE }, () => compare.value),
  'op.get': call({ key: KEY, options: options(GET) }, () => op.get),
  'op.range': call({ keys: KEY, options: options(RANGE) }, () => op.range),
  'op.put': call({ key: KEY, value: VALUE, options: options(PUT) }, () => op.put),
  'op.delete': call({ keys: KEY, options: options(DELETE) }, () => op.delete),
  'op.txn': call({ txn: { ...TXN, accepts: ['an empty object', 'an object without a prototype'] } }, () => op.txn),
  'Leases.grant': on('lease', { options: required({ ...LEASE_OPTIONS, id: LEASE_ID, ...CALL }, { ttl: 60 }) }, 'grant'),
  'Leases.revoke': on('lease', { lease: LEASE, options: options(CALL) }, 'revoke'),
  'Leases.timeToLive': on('lease', { lease: LEASE, options: options({ keys: BOOLEAN, ...CALL }) }, 'timeToLive'),
  'Leases.list': on('lease', { options: options(CALL) }, 'list'),
  'Leases.keepAlive': on('lease', { lease: LEASE }, 'keepAlive'),
  'Leases.keepAliveOnce': on('lease', { lease: LEASE, options: options(CALL) }, 'keepAliveOnce'),
  'Auth.enable': on('auth', { options: options(CALL) }, 'enable'),
  'Auth.disable': on('auth', { options: options(CALL) }, 'disable'),
  'Auth.status': on('auth', { options: options(CALL) }, 'status'),
  'Auth.authenticate': on(
    'auth',
    { name: TEXT_NOT_EMPTY, password: TEXT_NOT_EMPTY, options: options(CALL) },
    'authenticate',
  ),
  'Auth.userAdd': on(
    'auth',
    { name: TEXT_NOT_EMPTY, login: right({ noPassword: true }), options: options(CALL) },
    'userAdd',
  ),
  'Auth.userGet': on('auth', { name: TEXT_NOT_EMPTY, options: options(CALL) }, 'userGet'),
  'Auth.userList': on('auth', { options: options(CALL) }, 'userList'),
  'Auth.userDelete': on('auth', { name: TEXT_NOT_EMPTY, options: options(CALL) }, 'userDelete'),
  'Auth.userChangePassword': on(
    'auth',
    { name: TEXT_NOT_EMPTY, password: TEXT_NOT_EMPTY, options: options(CALL) },
    'userChangePassword',
  ),
  'Auth.userGrantRole': on(
    'auth',
    { user: TEXT_NOT_EMPTY, role: TEXT_NOT_EMPTY, options: options(CALL) },
    'userGrantRole',
  ),
  'Auth.userRevokeRole': on(
    'auth',
    { user: TEXT_NOT_EMPTY, role: TEXT_NOT_EMPTY, options: options(CALL) },
    'userRevokeRole',
  ),
  'Auth.roleAdd': on('auth', { role: TEXT_NOT_EMPTY, options: options(CALL) }, 'roleAdd'),
  'Auth.roleGet': on('auth', { role: TEXT_NOT_EMPTY, options: options(CALL) }, 'roleGet'),
  'Auth.roleList': on('auth', { options: options(CALL) }, 'roleList'),
  'Auth.roleDelete': on('auth', { role: TEXT_NOT_EMPTY, options: options(CALL) }, 'roleDelete'),
  'Auth.roleGrantPermission': on(
    'auth',
    { role: TEXT_NOT_EMPTY, access: right('read'), keys: KEY, options: options(CALL) },
    'roleGrantPermission',
  ),
  'Auth.roleRevokePermission': on(
    'auth',
    { role: TEXT_NOT_EMPTY, keys: KEY, options: options(CALL) },
    'roleRevokePermission',
  ),
  'Cluster.memberList': on('cluster', { options: options({ linearizable: BOOLEAN, ...CALL }) }, 'memberList'),
  'Cluster.memberAdd': on(
    'cluster',
    { peerUrls: ENDPOINTS, options: options({ learner: BOOLEAN, ...CALL }) },
    'memberAdd',
  ),
  'Cluster.memberPromote': on('cluster', { id: UINT64, options: options(CALL) }, 'memberPromote'),
  'Cluster.memberUpdate': on('cluster', { id: UINT64, peerUrls: ENDPOINTS, options: options(CALL) }, 'memberUpdate'),
  'Cluster.memberRemove': on('cluster', { id: UINT64, options: options(CALL) }, 'memberRemove'),
  'Maintenance.status': on('maintenance', { endpoint: ENDPOINT, options: options(LIMITS) }, 'status'),
  'Maintenance.alarms': on('maintenance', { options: options(CALL) }, 'alarms'),
  'Maintenance.disarm': on(
    'maintenance',
    { alarm: right({ memberId: 1n, alarm: 'corrupt' }), options: options(CALL) },
    'disarm',
  ),
  'Maintenance.defragment': on('maintenance', { endpoint: ENDPOINT, options: options(LIMITS) }, 'defragment'),
  'Maintenance.hash': on('maintenance', { endpoint: ENDPOINT, options: options(LIMITS) }, 'hash'),
  'Maintenance.hashKV': on(
    'maintenance',
    { endpoint: ENDPOINT, revision: optional(INT64), options: options(LIMITS) },
    'hashKV',
  ),
  'Maintenance.snapshot': on('maintenance', { endpoint: ENDPOINT, options: options(LIMITS) }, 'snapshot'),
  'Maintenance.moveLeader': on('maintenance', { targetId: UINT64, options: options(CALL) }, 'moveLeader'),
  'Maintenance.downgrade': on(
    'maintenance',
    { action: right('enable'), version: TEXT_NOT_EMPTY, options: options(CALL) },
    'downgrade',
  ),
  'Snapshot.writeTo': call(
    { sink: right({ write: () => {} }) },
    ({ etcd }) =>
      (sink) =>
        etcd.maintenance.snapshot('unix:///memory-etcd').writeTo(sink),
  ),
  'CachedRange.get': cachedMethod({ key: KEY }, 'get'),
  'CachedRange.range': cachedMethod({ keys: optional(KEY) }, 'range'),
  'CachedRange.waitForRevision': cachedMethod({ revision: INT64, options: options(LIMITS) }, 'waitForRevision'),
  'CachedRange.catchUp': cachedMethod({ options: options(LIMITS) }, 'catchUp'),
  'CachedRange.changes': cachedMethod({ options: options({ initial: BOOLEAN, signal: SIGNAL }) }, 'changes'),
  http2: call(
    {
      options: {
        ...required({ connect: FUNCTION, windowBytes: right(4_096) }, {}),
        accepts: ['an empty object', 'an object without a prototype'],
      },
    },
    () => http2,
  ),
  gateway: call(
    {
      options: options({
        fetch: FUNCTION,
        allHeaders: BOOLEAN,
        guardWrites: BOOLEAN,
        allowRepeatedWrites: BOOLEAN,
        silenceMs: MS,
      }),
    },
    () => gateway,
  ),
  openTelemetry: call(
    { options: options({ tracerProvider: right(undefined), meterProvider: right(undefined), filter: FUNCTION }) },
    () => openTelemetry,
  ),
  'Session.open': call(
    { client: CLIENT, options: options({ ...LEASE_OPTIONS, lease: LEASE, ...LIMITS }) },
    () => Session.open,
  ),
  'Session.signalWith': call(
    { signal: right(new AbortController().signal) },
    ({ session }) =>
      (signal) =>
        session.signalWith(signal),
  ),
  'new Mutex': call(
    { session: SESSION, name: NAME, options: options({ value: VALUE }) },
    () =>
      (...given) =>
        new Mutex(...(given as unknown as [Session, string])),
  ),
  'Mutex.lock': locker({ options: options(LOCK) }, ({ session }) => new Mutex(session, unique()), 'lock'),
  'Mutex.tryLock': locker({ options: options(LOCK) }, ({ session }) => new Mutex(session, unique()), 'tryLock'),
  'new RWMutex': made({ session: SESSION, name: NAME }, RWMutex),
  'RWMutex.lock': locker({ options: options(LOCK) }, ({ session }) => new RWMutex(session, unique()), 'lock'),
  'RWMutex.readLock': locker({ options: options(LOCK) }, ({ session }) => new RWMutex(session, unique()), 'readLock'),
  'RWMutex.tryLock': locker({ options: options(LOCK) }, ({ session }) => new RWMutex(session, unique()), 'tryLock'),
  'RWMutex.tryReadLock': locker(
    { options: options(LOCK) },
    ({ session }) => new RWMutex(session, unique()),
    'tryReadLock',
  ),
  'new ReentrantMutex': made({ session: SESSION, name: NAME }, ReentrantMutex),
  'ReentrantMutex.lock': locker(
    { owner: OWNER, options: options(WAIT) },
    ({ session }) => new ReentrantMutex(session, unique()),
    'lock',
  ),
  'ReentrantMutex.tryLock': locker(
    { owner: OWNER, options: options(WAIT) },
    ({ session }) => new ReentrantMutex(session, unique()),
    'tryLock',
  ),
  'ReentrantHeld.txn': locker(
    { txn: { ...TXN, accepts: ['an empty object', 'an object without a prototype'] }, options: options(WRITE) },
    ({ session }) => new ReentrantMutex(session, unique()).lock('me'),
    'txn',
  ),
  'Held.txn': locker(
    { txn: { ...TXN, accepts: ['an empty object', 'an object without a prototype'] }, options: options(WRITE) },
    ({ session }) => new Mutex(session, unique()).lock(),
    'txn',
  ),
  'Held.release': locker(
    { options: options({ timeoutMs: TIMEOUT }) },
    ({ session }) => new Mutex(session, unique()).lock(),
    'release',
  ),
  'Held.signalWith': locker(
    { signal: right(new AbortController().signal) },
    ({ session }) => new Mutex(session, unique()).lock(),
    'signalWith',
  ),
  withLock: call(
    {
      client: CLIENT,
      name: NAME,
      options: options({ value: VALUE, ...LEASE_OPTIONS, ...LOCK }),
      action: FUNCTION,
    },
    () => withLock,
  ),
  tryWithLock: call(
    {
      client: CLIENT,
      name: NAME,
      options: options({ value: VALUE, ...LEASE_OPTIONS, ...LOCK }),
      action: FUNCTION,
    },
    () => tryWithLock,
  ),
  withLocks: call(
    {
      client: CLIENT,
      names: right(['l']),
      options: options({ value: VALUE, ...LEASE_OPTIONS, ...LOCK }),
      action: FUNCTION,
    },
    () => withLocks,
  ),
  'new ExpiringKeys': made(
    { client: CLIENT, options: options({ granularity: right(0.1, '1.5', '2^53'), maxKeysPerLease: COUNT }) },
    ExpiringKeys,
  ),
  'ExpiringKeys.put': locker(
    { key: KEY, value: VALUE, options: required({ prevKv: BOOLEAN, ...LEASE_OPTIONS, ...WRITE }, { ttl: 60 }) },
    ({ etcd }) => new ExpiringKeys(etcd),
    'put',
  ),
  'ExpiringKeys.touch': locker(
    { key: KEY, options: required({ ...LEASE_OPTIONS, ...WRITE }, { ttl: 60 }) },
    ({ etcd }) => new ExpiringKeys(etcd),
    'touch',
  ),
  'ExpiringKeys.persist': locker(
    { key: KEY, options: options(WRITE) },
    ({ etcd }) => new ExpiringKeys(etcd),
    'persist',
  ),
  'ExpiringKeys.remainingTtl': locker(
    { key: KEY, options: options(CALL) },
    ({ etcd }) => new ExpiringKeys(etcd),
    'remainingTtl',
  ),
  reconcile: call(
    {
      client: CLIENT,
      keys: KEY,
      options: options({
        concurrency: COUNT,
        retryDelayMs: FUNCTION,
        resyncMs: MS,
        owned: LIST,
        onRun: FUNCTION,
        signal: SIGNAL,
        lead: required({ name: NAME, value: VALUE, maxHoldMs: TIMEOUT, ...LEASE_OPTIONS }, { name: 'n', value: 'c' }),
      }),
      handler: FUNCTION,
    },
    () => reconcile,
  ),
  'new Etcd3Mutex': made({ session: SESSION, name: NAME }, Etcd3Mutex),
  'Etcd3Mutex.lock': locker({ options: options(WAIT) }, ({ session }) => new Etcd3Mutex(session, unique()), 'lock'),
  'Etcd3Mutex.tryLock': locker(
    { options: options(WAIT) },
    ({ session }) => new Etcd3Mutex(session, unique()),
    'tryLock',
  ),
  schedule: call(
    {
      client: CLIENT,
      name: NAME,
      when: right(1_000, 'a function'),
      options: options({
        interrupted: right('again'),
        missed: right('last'),
        onFailure: FUNCTION,
        signal: SIGNAL,
        ...LEASE_OPTIONS,
      }),
      handler: FUNCTION,
    },
    () => schedule,
  ),
  'Tick.complete': locker({ ops: optional(right([], 'an empty array')) }, runningTick, 'complete'),
  history: call(
    { client: CLIENT, key: KEY, options: options({ limit: COUNT, ...LIMITS }) },
    () =>
      (...given) =>
        history(...(given as unknown as [Client, string])).next(),
  ),
  shards: call(
    {
      client: CLIENT,
      name: NAME,
      options: required(
        { count: COUNT, weight: MS, worker: TEXT, ...LEASE_OPTIONS, signal: SIGNAL, onFailure: FUNCTION },
        { count: 1 },
      ),
      handler: FUNCTION,
    },
    () => shards,
  ),
  shardOwners: call({ client: CLIENT, name: NAME, options: options(CALL) }, () => shardOwners),
  persisted: call(
    { client: CLIENT, keys: KEY, store: STORE, options: options({ ...LIMITS, onNotice: FUNCTION }) },
    () => persisted,
  ),
  'new Slots': made({ session: SESSION, name: NAME, count: COUNT }, Slots),
  'Slots.take': locker({ options: options(WAIT) }, ({ session }) => new Slots(session, unique(), 1), 'take'),
  'Slots.tryTake': locker({ options: options(WAIT) }, ({ session }) => new Slots(session, unique(), 1), 'tryTake'),
  'new Semaphore': made({ session: SESSION, name: NAME, permits: COUNT }, Semaphore),
  'Semaphore.acquire': locker(
    { options: options(WAIT) },
    ({ session }) => new Semaphore(session, unique(), 1),
    'acquire',
  ),
  'Semaphore.tryAcquire': locker(
    { options: options(WAIT) },
    ({ session }) => new Semaphore(session, unique(), 1),
    'tryAcquire',
  ),
  'new Election': made({ session: SESSION, name: NAME }, Election),
  'Election.campaign': locker(
    { value: VALUE, options: options(LOCK) },
    ({ session }) => new Election(session, unique()),
    'campaign',
  ),
  'Election.resume': locker(
    { token: INT64, options: options(WAIT) },
    ({ session }) => new Election(session, unique()),
    'resume',
  ),
  'Election.leader': locker({ options: options(CALL) }, ({ session }) => new Election(session, unique()), 'leader'),
  'Election.observe': locker(
    { options: options({ signal: SIGNAL }) },
    ({ session }) => new Election(session, unique()),
    'observe',
  ),
  observe: call(
    { client: CLIENT, name: NAME, options: options({ signal: SIGNAL }) },
    () =>
      (...given) =>
        observe(...(given as unknown as [Client, string])).next(),
  ),
  'Leadership.proclaim': locker(
    { value: VALUE, options: options(CALL) },
    ({ session }) => new Election(session, unique()).campaign('x'),
    'proclaim',
  ),
  'Leadership.resign': locker(
    { options: options({ timeoutMs: TIMEOUT }) },
    ({ session }) => new Election(session, unique()).campaign('x'),
    'resign',
  ),
  inspectLock: call({ client: CLIENT, name: NAME, options: options(CALL) }, () => inspectLock),
  lead: call(
    {
      client: CLIENT,
      name: NAME,
      options: options({ value: VALUE, signal: SIGNAL, maxHoldMs: TIMEOUT, ...LEASE_OPTIONS }),
      action: FUNCTION,
    },
    () => lead,
  ),
  withSessions: call(
    { client: CLIENT, options: options({ signal: SIGNAL, ...LEASE_OPTIONS }), action: FUNCTION },
    () => withSessions,
  ),
  'new Barrier': made({ client: CLIENT, name: NAME }, Barrier),
  'Barrier.hold': locker(
    { options: options({ lease: LEASE, ...CALL }) },
    ({ etcd }) => new Barrier(etcd, unique()),
    'hold',
  ),
  'Barrier.release': locker({ options: options(CALL) }, ({ etcd }) => new Barrier(etcd, unique()), 'release'),
  'Barrier.wait': locker({ options: options(WAIT) }, ({ etcd }) => new Barrier(etcd, unique()), 'wait'),
  'new DoubleBarrier': made({ session: SESSION, name: NAME, count: COUNT }, DoubleBarrier),
  'DoubleBarrier.enter': locker(
    { options: options(WAIT) },
    ({ session }) => new DoubleBarrier(session, unique(), 1),
    'enter',
  ),
  'DoubleBarrier.leave': locker(
    { options: options(WAIT) },
    async ({ session }) => {
      const barrier = new DoubleBarrier(session, unique(), 1);
      await barrier.enter();
      return barrier;
    },
    'leave',
  ),
  'new Queue': made({ client: CLIENT, name: NAME }, Queue),
  'Queue.enqueue': locker({ value: VALUE, options: options(CALL) }, ({ etcd }) => new Queue(etcd, unique()), 'enqueue'),
  'Queue.dequeue': locker(
    { session: SESSION, options: options(WAIT) },
    ({ etcd }) => new Queue(etcd, unique()),
    'dequeue',
  ),
  'new PriorityQueue': made({ client: CLIENT, name: NAME }, PriorityQueue),
  'PriorityQueue.enqueue': locker(
    { value: VALUE, priority: COUNT, options: options(CALL) },
    ({ etcd }) => new PriorityQueue(etcd, unique()),
    'enqueue',
  ),
  'PriorityQueue.dequeue': locker(
    { session: SESSION, options: options(WAIT) },
    ({ etcd }) => new PriorityQueue(etcd, unique()),
    'dequeue',
  ),
  stm: call(
    {
      client: CLIENT,
      options: options({ isolation: right('serializable'), maxAttempts: COUNT, retryWrites: BOOLEAN, ...WAIT }),
      apply: FUNCTION,
    },
    () => stm,
  ),
  'StmTransaction.get': inTransaction({ key: KEY }, (tx, given) => tx.get(...(given as [string]))),
  'StmTransaction.range': inTransaction({ keys: KEY }, (tx, given) => tx.range(...(given as [string]))),
  'StmTransaction.text': inTransaction({ key: KEY }, (tx, given) => tx.text(...(given as [string]))),
  'StmTransaction.revision': inTransaction({ key: KEY }, (tx, given) => tx.revision(...(given as [string]))),
  'StmTransaction.put': inTransaction({ key: KEY, value: VALUE, options: options({ lease: LEASE }) }, (tx, given) =>
    tx.put(...(given as [string, string])),
  ),
  'StmTransaction.delete': inTransaction({ key: KEY }, (tx, given) => tx.delete(...(given as [string]))),
  'new RateLimiter': made(
    { client: CLIENT, key: NAME, options: required({ perSecond: MS, burst: COUNT }, { perSecond: 1 }) },
    RateLimiter,
  ),
  'RateLimiter.take': locker(
    { tokens: optional(COUNT), options: options(WAIT) },
    ({ etcd }) => new RateLimiter(etcd, unique(), { perSecond: 1_000 }),
    'take',
  ),
  'RateLimiter.tryTake': locker(
    { tokens: optional(COUNT), options: options({ signal: SIGNAL }) },
    ({ etcd }) => new RateLimiter(etcd, unique(), { perSecond: 1_000 }),
    'tryTake',
  ),
  'SelfHealingSession.open': call(
    { client: CLIENT, options: options({ ...LEASE_OPTIONS, ...LIMITS }) },
    () => SelfHealingSession.open,
  ),
  'SelfHealingSession.register': locker(
    { key: KEY, value: VALUE, options: options(WAIT) },
    ({ etcd }) => SelfHealingSession.open(etcd),
    'register',
  ),
  'SelfHealingSession.unregister': locker(
    { key: KEY, options: options(WAIT) },
    ({ etcd }) => SelfHealingSession.open(etcd),
    'unregister',
  ),
  'new WorkQueue': made(
    {
      client: CLIENT,
      name: NAME,
      options: options({ codec: CODEC, maxAttempts: COUNT, retryDelayMs: FUNCTION, idTtl: COUNT }),
    },
    WorkQueue,
  ),
  'WorkQueue.enqueue': locker(
    {
      value: VALUE,
      options: options({ id: NAME, priority: COUNT, delayMs: right(0, '1.5'), ...LIMITS }),
    },
    ({ etcd }) => new WorkQueue(etcd, unique()),
    'enqueue',
  ),
  'WorkQueue.work': locker(
    {
      options: options({ concurrency: COUNT, ...LEASE_OPTIONS, signal: SIGNAL, onFailure: FUNCTION }),
      handler: FUNCTION,
    },
    ({ etcd }) => new WorkQueue(etcd, unique()),
    'work',
  ),
  'WorkQueue.take': locker(
    { session: SESSION, options: options(WAIT) },
    ({ etcd }) => new WorkQueue(etcd, unique()),
    'take',
  ),
  'WorkQueue.counts': locker({ options: options(CALL) }, ({ etcd }) => new WorkQueue(etcd, unique()), 'counts'),
  'WorkQueue.dead': locker({ options: options(CALL) }, ({ etcd }) => new WorkQueue(etcd, unique()), 'dead'),
  'WorkQueue.requeue': locker(
    { id: NAME, options: options(CALL) },
    ({ etcd }) => new WorkQueue(etcd, unique()),
    'requeue',
  ),
  'WorkQueue.discard': locker(
    { id: NAME, options: options(CALL) },
    ({ etcd }) => new WorkQueue(etcd, unique()),
    'discard',
  ),
  'Job.json': locker({ parse: optional(FUNCTION) }, takenJob, 'json'),
  'Job.complete': locker({ ops: optional(right([], 'an empty array')) }, takenJob, 'complete'),
  'Job.retry': locker({ options: options({ delayMs: right(0, '1.5'), error: ANY }) }, takenJob, 'retry'),
  'Job.bury': locker({ error: ANY }, takenJob, 'bury'),
  'new Service': made({ client: CLIENT, target: NAME }, Service),
  'Service.register': locker(
    {
      session: SESSION,
      id: NAME,
      endpoint: right({ address: 'a' }),
      options: options(LIMITS),
    },
    ({ etcd }) => new Service(etcd, unique()),
    'register',
  ),
  'Service.list': locker({ options: options(CALL) }, ({ etcd }) => new Service(etcd, unique()), 'list'),
  'Service.watch': locker({ options: options({ signal: SIGNAL }) }, ({ etcd }) => new Service(etcd, unique()), 'watch'),
  'Service.view': locker(
    { options: options({ picking: right('round-robin'), ...LIMITS }) },
    ({ etcd }) => new Service(etcd, unique()),
    'view',
  ),
  registerGrpcResolver: call({ client: CLIENT, scheme: optional(TEXT_NOT_EMPTY) }, () => registerGrpcResolver),
  discoverSrv: call(
    {
      domain: TEXT_NOT_EMPTY,
      options: options({ serviceName: TEXT_NOT_EMPTY, allowInsecure: BOOLEAN, resolver: RESOLVER }),
    },
    () => discoverSrv,
    true,
  ),
  resolveEndpoints: call({ endpoints: ENDPOINTS, options: options({ resolver: RESOLVER }) }, () => resolveEndpoints),
  followDns: call(
    {
      client: CLIENT,
      endpoints: ENDPOINTS,
      options: options({ resolver: RESOLVER, intervalMs: MS, logger: right(console) }),
    },
    () => followDns,
    true,
  ),
  saveSnapshot: call(
    {
      client: CLIENT,
      endpoint: ENDPOINT,
      path: right('/nowhere/at/all'),
      options: options({ ...LIMITS, onProgress: FUNCTION }),
    },
    () => saveSnapshot,
    true,
  ),
  fileStore: call({ path: right('/nowhere/at/all') }, () => fileStore),
  fromEnv: call({ options: options({ variables: VARIABLES, allowPlaintext: BOOLEAN }) }, () => fromEnv),
  fromEnvWithDiscovery: call(
    { options: options({ variables: VARIABLES, allowPlaintext: BOOLEAN, resolver: RESOLVER }) },
    () => fromEnvWithDiscovery,
  ),
  checkPuts: call({ operations: LIST, truth: LIST }, () => checkPuts),
  checkOrder: call({ operations: LIST, truth: LIST }, () => checkOrder),
  checkRegister: call({ operations: LIST, initial: ANY }, () => checkRegister),
  checkWatch: call({ truth: LIST, batches: LIST }, () => checkWatch),
  checkLock: call({ claims: LIST, truth: LIST }, () => checkLock),
  'new GuardedResource': call({ options: options({ fenced: BOOLEAN }) }, () => (given) => new GuardedResource(given)),
  'GuardedResource.write': locker({ holder: TEXT, token: INT64 }, () => new GuardedResource(), 'write'),
  'History.record': locker(
    { process: TEXT, call: ANY, act: right(async () => {}, 'a function') },
    () => new History(),
    'record',
  ),
  containing: call({ 'parts[0]': VALUE }, () => containing),
  'EtcdCluster.start': call(
    {
      options: options({
        etcd: TEXT_NOT_EMPTY,
        members: COUNT,
        args: right([], 'an empty array'),
        peerProxies: BOOLEAN,
        tls: right({ certFile: 'a', keyFile: 'b' }),
      }),
    },
    () => EtcdCluster.start,
    true,
  ),
  startEtcd: call(
    {
      options: options({
        version: right('3.6'),
        prefer: right('quick'),
        download: BOOLEAN,
        cacheFolder: TEXT_NOT_EMPTY,
        progress: BOOLEAN,
        members: COUNT,
        args: right([], 'an empty array'),
        peerProxies: BOOLEAN,
        tls: right({ certFile: 'a', keyFile: 'b' }),
      }),
    },
    () => startEtcd,
    true,
  ),
  'EtcdCluster.join': clusterMethod({ options: options({ learner: BOOLEAN, add: FUNCTION }) }, 'join'),
  'EtcdCluster.leader': clusterMethod({ options: options({ timeoutMs: MS }) }, 'leader'),
  'EtcdCluster.remove': clusterMethod({ member: right(undefined) }, 'remove'),
  'EtcdCluster.partition': clusterMethod({ member: right(undefined) }, 'partition'),
  'FaultProxy.start': call(
    { target: right('http://127.0.0.1:1'), options: options({ senderOf: FUNCTION }) },
    () => FaultProxy.start,
    true,
  ),
  'FaultProxy.oneWay': proxyMethod({ direction: right('to-server') }, 'oneWay'),
  'FaultProxy.cutOff': proxyMethod({ sender: TEXT_NOT_EMPTY }, 'cutOff'),
  'FaultProxy.slice': proxyMethod({ bytes: COUNT }, 'slice'),
  'FaultProxy.throttle': proxyMethod(
    {
      options: required(
        { bytesPerSecond: COUNT, bufferBytes: COUNT, direction: right('to-server') },
        { bytesPerSecond: 1_000_000 },
      ),
    },
    'throttle',
  ),
  'FaultProxy.delay': proxyMethod({ ms: right(5, '1.5', '2^53') }, 'delay'),
  'FaultProxy.loseNextAnswer': proxyMethod({ isRequest: FUNCTION }, 'loseNextAnswer'),
  'FaultProxy.holdNextRequest': proxyMethod({ isRequest: FUNCTION }, 'holdNextRequest'),
  'new MemoryEtcd': call(
    {
      options: options({
        version: right('3.6'),
        clock: right(new ManualClock()),
        random: FUNCTION,
        name: TEXT_NOT_EMPTY,
        members: COUNT,
        maxTxnOps: COUNT,
        maxRequestBytes: COUNT,
        quotaBytes: COUNT,
        tokenTtlSeconds: MS,
        progressIntervalMs: MS,
      }),
    },
    () => (given) => new MemoryEtcd(given),
  ),
  'MemoryEtcd.expireLease': call({ lease: LEASE }, async ({ server, etcd }) => {
    const granted = await etcd.lease.grant({ ttl: 60 });
    return (lease: bigint) => server.expireLease(lease === LEASE.right ? granted : lease);
  }),
  'MemoryEtcd.restore': call({ snapshot: right(undefined) }, () => {
    const server = new MemoryEtcd();
    return (snapshot) => server.restore(snapshot);
  }),
  memory: call({ server: right(undefined) }, () => memory),
  replay: call(
    {
      recording: right({ before: { revision: 1 }, steps: [] }),
      server: right(undefined),
      options: options({
        clock: right(new ManualClock()),
        timeoutMs: COUNT,
        speed: MS,
        onStep: FUNCTION,
        signal: SIGNAL,
      }),
    },
    () => replay,
  ),
  memoryOverHttp2: call({ server: right(undefined) }, () => memoryOverHttp2),
  listen: call(
    {
      server: right(undefined),
      options: options({
        host: TEXT_NOT_EMPTY,
        port: right(0),
        tls: right(undefined),
        clock: right(new ManualClock()),
        maxConcurrentStreams: COUNT,
        maxReceiveBytes: COUNT,
        minPingIntervalMs: COUNT,
      }),
    },
    () => listen,
    true,
  ),
  'ManualClock.after': locker(
    { delayMs: right(5, '1.5', '2^53', '-1'), action: FUNCTION },
    () => new ManualClock(),
    'after',
  ),
  'ManualClock.advance': locker({ ms: MS }, () => new ManualClock(), 'advance'),
};

type Methods = Readonly<Record<string, Call>>;

function bound(owner: unknown, name: string): Call {
  return (...given) => (owner as Methods)[name]?.apply(owner, given);
}

function method(args: Readonly<Record<string, Kind>>, name: string): PublicCall {
  return call(args, ({ etcd }) => bound(etcd, name));
}

function on(service: keyof Client, args: Readonly<Record<string, Kind>>, name: string): PublicCall {
  return call(args, ({ etcd }) => bound(etcd[service], name));
}

function typedMethod(args: Readonly<Record<string, Kind>>, name: string): PublicCall {
  return call(args, ({ etcd }) => bound(numbers(etcd), name));
}

function cachedMethod(args: Readonly<Record<string, Kind>>, name: string): PublicCall {
  return call(args, async ({ etcd }) => bound(await etcd.cachedRange(prefix('key')), name));
}

/**
 * Returns a call of a method of the object that `owner` makes. If the method returns an async generator, the call also
 * starts the iteration, because only the iteration checks the arguments.
 */
function locker(args: Readonly<Record<string, Kind>>, owner: (world: World) => unknown, name: string): PublicCall {
  return call(args, async (world) => {
    const own = bound(await owner(world), name);
    return (...given) => {
      const result = own(...given);
      return isGenerator(result) ? result.next() : result;
    };
  });
}

function isGenerator(value: unknown): value is AsyncGenerator {
  return Object.prototype.toString.call(value) === '[object AsyncGenerator]';
}

function made(args: Readonly<Record<string, Kind>>, type: new (...given: never[]) => unknown): PublicCall {
  return call(
    args,
    () =>
      (...given) =>
        new type(...given),
  );
}

function inTransaction(
  args: Readonly<Record<string, Kind>>,
  use: (tx: StmTransaction, given: readonly unknown[]) => unknown,
): PublicCall {
  return call(
    args,
    ({ etcd }) =>
      (...given) =>
        stm(etcd, (tx) => use(tx, given)),
  );
}

async function takenJob({ etcd, session }: World): Promise<unknown> {
  const queue = new WorkQueue(etcd, unique());
  await queue.enqueue('1');
  return queue.take(session);
}

function runningTick({ etcd }: World): Promise<Tick> {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  return new Promise((resolve, reject) => {
    const untilStopped = (tick: Tick): Promise<void> => {
      resolve(tick);
      return new Promise((end) => tick.signal.addEventListener('abort', () => end()));
    };
    schedule(etcd, unique(), 10, { signal: stop.signal }, untilStopped).catch(reject);
  });
}

function clusterMethod(args: Readonly<Record<string, Kind>>, name: string): PublicCall {
  return call(args, () => bound(Object.create(EtcdCluster.prototype), name), true);
}

function proxyMethod(args: Readonly<Record<string, Kind>>, name: string): PublicCall {
  return call(args, async () => {
    const proxy = await FaultProxy.start('http://127.0.0.1:1');
    onTestFinished(() => proxy.close());
    return bound(proxy, name);
  });
}
