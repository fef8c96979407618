import {
  type BytesLike,
  checkBoolean,
  checkFunction,
  checkInt64,
  checkMs,
  checkOptions,
  type Int64Like,
  invalidInput,
  show,
} from '../../base/index.js';
import {
  Auth,
  CLIENT_HINTS,
  Cluster,
  CORE_CLIENT_OPTIONS,
  CoreClient,
  type CoreClientOptions,
  type CoreKeyspace,
  checkIsObject,
  coreLayers,
  type Embedded,
  type Keys,
  Maintenance,
  namespaceCore,
  type Raw,
  rawStubs,
} from '../../client/index.js';
import * as kvMethods from '../../gen/methods/kv.js';
import {
  CALL_OPTIONS,
  type CallOptions,
  Rpc,
  syncEndpoints,
  type WithHeader,
  withAutoSync,
  withDiagnostics,
  withHeaderOf,
  withOrderedReads,
} from '../../rpc/index.js';
import { type CachedRange, cachedRangeOf, type Mirror, type MirrorOptions, mirrorOf } from '../ranges/index.js';
import { retriedWrites } from '../writes/index.js';
import { warnWhenUnreachable } from './unreachable-warning.js';

/**
 * A `CoreKeyspace` that can also follow a range of keys. The `Client` of `etcdwire` and its namespaces implement this
 * interface.
 *
 * @example
 * async function countKeys(etcd: Keyspace, keys: Keys): Promise<number> {
 *   await using cached = await etcd.cachedRange(keys);
 *   return cached.size;
 * }
 */
export interface Keyspace extends CoreKeyspace {
  /**
   * Reads a range at one revision, and then delivers every later change in the range. With `fromRevision`, delivers the
   * changes after that revision, and reads the range only if it cannot continue from that revision.
   */
  mirror(keys: Keys, options?: MirrorOptions): Mirror;

  /**
   * Keeps a range in memory and up to date. Resolves when the client has read the range for the first time. While no
   * server answers, waits like a watch, but at most `timeoutMs`. Close the cached range after use.
   */
  cachedRange(keys: Keys, options?: Pick<CallOptions, 'signal' | 'timeoutMs'>): Promise<CachedRange>;

  namespace(prefix: BytesLike): Keyspace;
}

/**
 * Options of a `Client`. All are optional.
 *
 * @example
 * const etcd = new Client({
 *   endpoints: ['https://etcd-1:2379', 'https://etcd-2:2379', 'https://etcd-3:2379'],
 *   tls: { ca: await readFile('ca.pem') },
 *   timeoutMs: 5_000,
 * });
 */
export interface ClientOptions extends CoreClientOptions {
  /**
   * Whether to prevent serializable reads from returning older data than the client had seen before in a response or a
   * watch. If a response has an older store revision, the client repeats the read once, linearizably. The repeated read
   * needs a member that has a leader and is not a learner. Default false.
   */
  readonly orderedReads?: boolean | undefined;
  /**
   * Whether the client repeats each write until a server answers or the time limit passes. A repeated write is still
   * applied at most once. The option `retryWrites` of a call overrides this option. Applies to `put`, `delete`, `txn`,
   * the functions that use them, and these RPCs in `raw`; `docs/failures.md` describes the cost. Default false.
   */
  readonly retryWrites?: boolean | undefined;
  /**
   * Milliseconds between updates of the endpoints from the cluster's member list; see `sync`. The first update happens
   * at the first call. A failed update changes nothing. Default: the client does not update its endpoints.
   */
  readonly autoSyncIntervalMs?: number | undefined;
  /**
   * Decides whether the client may use an endpoint that a member advertises. The argument is the URL of the endpoint,
   * such as `https://10.0.0.3:2379`. If the function returns false, `sync` leaves the endpoint out. The client then
   * never connects to the endpoint or sends it the token, unless the option `endpoints` or a call of `setEndpoints`
   * names it, too. `sync` fails if the result is not a boolean. Default: all endpoints are allowed.
   */
  readonly allowEndpoint?: ((url: string) => boolean) | undefined;
}

/**
 * Options of a `Client` whose transport defines the endpoints, such as `memory(server)` of `etcdwire/testing`.
 *
 * @example
 * const etcd = new Client({ transport: memory(server) });
 */
export interface EmbeddedClientOptions extends Embedded<ClientOptions> {}

export const CLIENT_OPTIONS = {
  ...CORE_CLIENT_OPTIONS,
  orderedReads: checkBoolean,
  retryWrites: checkBoolean,
  autoSyncIntervalMs: checkMs,
  allowEndpoint: checkFunction,
} as const;

const COMPACT_OPTIONS = { physical: checkBoolean, ...CALL_OPTIONS } as const;

/**
 * A client of one etcd cluster. The client connects when the program makes the first call.
 *
 * Close the client after use, or declare it with `await using`. As long as the client is open, its watches and
 * keepalives keep the process running.
 *
 * @example
 * await using etcd = new Client({ endpoints: ['http://127.0.0.1:2379'] });
 * await etcd.put('config/color', 'blue');
 * const color = (await etcd.get('config/color'))?.text();
 */
export class Client extends CoreClient implements Keyspace {
  /** Users, roles and permissions. */
  readonly auth: Auth;
  /** The members of the cluster. */
  readonly cluster: Cluster;
  /** Status, alarms, defragmentation and snapshots. */
  readonly maintenance: Maintenance;
  /** One function for every RPC of etcd. Each function accepts and returns protocol messages. */
  readonly raw: Raw;
  readonly #sync: (options?: CallOptions) => Promise<readonly string[]>;

  /** @throws EtcdError, reason `InvalidInput`, if an option is missing, unknown or out of range. */
  constructor(options: ClientOptions | EmbeddedClientOptions = {}) {
    checkIsObject(options);
    checkOptions(options, CLIENT_OPTIONS, 'Client', CLIENT_HINTS);
    const { autoSyncIntervalMs, allowEndpoint = () => true, orderedReads, retryWrites = false } = options;
    const core = coreLayers(options, withDiagnostics);
    const { channel } = core;
    const settings = { ...core.settings, retryWrites };
    warnWhenUnreachable(settings.events, settings.closed, () => channel.endpoints);
    const direct = orderedReads ? withOrderedReads(core.transport, channel.cluster) : core.transport;
    const rpc = new Rpc(direct, settings);
    const sync = (call?: CallOptions) => syncEndpoints(rpc, channel, allowEndpoint, call);
    // This layer is outside the layers of `direct`, because the calls of `sync` pass through `direct` and must not
    // start another `sync`.
    const transport = autoSyncIntervalMs === undefined ? direct : withAutoSync(direct, sync, autoSyncIntervalMs);
    super(undefined, { ...core, transport, settings, retrying: retriedWrites });
    this.#sync = sync;
    this.auth = new Auth(this.rpc);
    this.cluster = new Cluster(this.rpc);
    this.maintenance = new Maintenance(this.rpc, () => this.endpoints);
    this.raw = rawStubs(this.rpc);
  }

  mirror(keys: Keys, options?: MirrorOptions): Mirror {
    return mirrorOf(this, keys, options);
  }

  cachedRange(keys: Keys, options?: Pick<CallOptions, 'signal' | 'timeoutMs'>): Promise<CachedRange> {
    return cachedRangeOf(this, keys, options);
  }

  override namespace(prefix: BytesLike): Keyspace {
    return new Namespace(undefined, namespaceCore(this.core, prefix));
  }

  /**
   * Reads the member list. From then on, the client uses the endpoints that the voting members advertise. Returns the
   * endpoints in use. Streams, and attempts of calls, that are in progress stay at their endpoints.
   *
   * Leaves out endpoints that `allowEndpoint` refuses. If no configured endpoint is an `http:` URL, leaves out `http:`
   * URLs. Unless a call names its endpoint, the client uses configured endpoints that no member advertises only while
   * no other endpoint is available. If no advertised endpoint may be used, nothing changes.
   */
  sync(options?: CallOptions): Promise<readonly string[]> {
    return this.#sync(options);
  }

  /**
   * Discards the history of the whole store below `revision`, which becomes the oldest revision that can be read and
   * watched. With `physical`, waits until the space is free in the database file.
   *
   * @throws EtcdError with reason `Compacted` if the revision is already compacted, or with reason `FutureRev` if the
   * revision does not exist yet.
   */
  async compact(
    revision: Int64Like,
    options: { readonly physical?: boolean | undefined } & CallOptions = {},
  ): Promise<WithHeader<object>> {
    checkOptions(options, COMPACT_OPTIONS, 'compact');
    const request = { revision: checkInt64(revision, 'revision', 1n), physical: options.physical };
    return withHeaderOf(this.rpc.call(kvMethods.compact, request, options));
  }
}

/** @throws EtcdError with reason `InvalidInput` unless the argument has this method of a `Client`. */
export function checkFullClient(client: Client, method: 'snapshot' | 'status'): void {
  if (typeof client?.maintenance?.[method] !== 'function')
    throw invalidInput('client', show(client), 'a Client of etcdwire');
}

class Namespace extends CoreClient implements Keyspace {
  mirror(keys: Keys, options?: MirrorOptions): Mirror {
    return mirrorOf(this, keys, options);
  }

  cachedRange(keys: Keys, options?: Pick<CallOptions, 'signal' | 'timeoutMs'>): Promise<CachedRange> {
    return cachedRangeOf(this, keys, options);
  }

  override namespace(prefix: BytesLike): Keyspace {
    return new Namespace(undefined, namespaceCore(this.core, prefix));
  }
}
