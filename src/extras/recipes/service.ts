import {
  can,
  checkName,
  checkOptions,
  checkSignal,
  invalidInput,
  iterate,
  oneOf,
  show,
  toBytes,
  validTextOf,
} from '../../base/index.js';
import { type CoreKeyspace, checkClient, type KeyValue, keyspaceClientOf, prefix } from '../../client/index.js';
import {
  checkSession,
  checkSessionOf,
  RegisteredKey,
  type SelfHealingSession,
  type Session,
  type Waiting,
  type WaitLimit,
  withinLimit,
} from '../../locks/index.js';
import { type CallOptions, checkCallOptions, TIME_LIMITS } from '../../rpc/index.js';
import { type CachedRange, cachedRangeOf, mirrorOf, RangeFold, type RangeVersion, versionOf } from '../ranges/index.js';
import { storedFields } from './stored-fields.js';

/** How a `ServiceView` chooses endpoints: all in turn, or the endpoint with the fewest picks that are not done. */
export type Picking = 'round-robin' | 'least-used';

const PICKINGS = { 'round-robin': true, 'least-used': true } as const satisfies Record<Picking, true>;

/** Options of `Service.view`. */
export interface ViewOptions extends Pick<CallOptions, 'signal' | 'timeoutMs'> {
  /** How `pick` chooses. Default `round-robin`. */
  readonly picking?: Picking | undefined;
}

const VIEW_OPTIONS = { picking: oneOf(PICKINGS), ...TIME_LIMITS } as const;

/** An endpoint that `ServiceView.pick` has chosen. */
export interface PickedEndpoint extends ServiceEndpoint, Disposable {
  /** The ID that the endpoint was registered with. */
  readonly id: string;
  /** Tells the view that the endpoint is no longer in use. Only `least-used` needs this call. */
  done(): void;
}

const WATCH_OPTIONS = { signal: checkSignal } as const;

/** The address of one instance of a service. */
export interface ServiceEndpoint {
  /** The address to dial, for example "host:port". */
  readonly address: string;
  /** Any value that JSON can represent. */
  readonly metadata?: unknown;
}

/** A change to one endpoint. */
export type Update =
  | { readonly type: 'add'; readonly key: string; readonly endpoint: ServiceEndpoint }
  | { readonly type: 'delete'; readonly key: string };

/** A registered endpoint. It stays registered until `close` is called or the session ends. */
export interface Registration extends AsyncDisposable {
  readonly key: string;
  /**
   * Deletes the endpoint's key, unless another client, or a later `register` call with the same ID, has put the key
   * since. After a failure, the caller may call `close` again.
   */
  close(): Promise<void>;
}

/**
 * The endpoints of a service with the name `target`, in the layout of Go's `naming/endpoints`: a key `target/ID` with a
 * JSON value for each endpoint. Go programs find the endpoints that this class registers, and this class finds the
 * endpoints that Go programs register. As in Go, a service with the name `a` also contains the endpoints of a service
 * with the name `a/b`.
 *
 * @example
 * const service = new Service(etcd, 'services/web');
 * await service.register(session, 'web-1', { address: '10.0.0.1:8080' });
 * for (const { address } of (await service.list()).values()) console.log(address);
 */
export class Service {
  readonly target: string;
  readonly #client: CoreKeyspace;

  /** @throws EtcdError with reason `InvalidInput` if `target` is invalid. */
  constructor(client: CoreKeyspace, target: string) {
    if (typeof target !== 'string' || target === '' || target.endsWith('/'))
      throw invalidInput(
        'target',
        typeof target === 'string' && target !== '' ? 'a name that ends in "/"' : show(target),
        'a non-empty name that does not end in "/"',
      );
    toBytes(target, 'target');
    this.target = target;
    this.#client = checkClient(client, 'range');
  }

  /**
   * Registers an endpoint for as long as the session lives. If `session` is a `SelfHealingSession`, it registers the
   * endpoint again after its lease was lost. `session` must belong to the client or namespace of the service. `id`
   * identifies the endpoint within the service. The endpoint's address is a good ID.
   *
   * @throws EtcdError with reason `InvalidInput` for wrong arguments, and otherwise with the reason of the failed call.
   */
  async register(
    session: Session | SelfHealingSession,
    id: string,
    endpoint: ServiceEndpoint,
    options: Pick<CallOptions, 'signal' | 'timeoutMs'> = {},
  ): Promise<Registration> {
    checkOptions(options, TIME_LIMITS, 'Service.register');
    const selfHealing = can<SelfHealingSession>(session, 'registerOwn') ? session : undefined;
    if (selfHealing === undefined) checkSession(session as Session);
    toBytes(checkName(id, 'id'), 'id');
    checkSessionOf(this.#client, session, 'Service');
    const key = `${this.target}/${id}`;
    const value = encodeEndpoint(endpoint);
    let close: () => Promise<void>;
    if (selfHealing !== undefined) {
      const registered = await selfHealing.registerOwn(key, value, {
        signal: options.signal,
        maxWaitMs: options.timeoutMs,
      });
      close = () => selfHealing.unregisterOwn(registered);
    } else close = await this.#registerPlain(session as Session, key, value, options);
    let closing: Promise<void> | undefined;
    const closeOnce = (): Promise<void> => {
      closing ??= close().catch((error: unknown) => {
        closing = undefined;
        throw error;
      });
      return closing;
    };
    return { key, close: closeOnce, [Symbol.asyncDispose]: closeOnce };
  }

  /** Returns all endpoints by their keys. Leaves out keys whose values are not endpoints. */
  async list(options?: CallOptions): Promise<ReadonlyMap<string, ServiceEndpoint>> {
    checkCallOptions(options, 'Service.list');
    const { kvs } = await this.#client.range(prefix(`${this.target}/`), options);
    return endpointsIn(kvs, 0);
  }

  /**
   * First yields an array of all endpoints, which is empty if the service has no endpoint, and then every change. The
   * changes of one store revision arrive in the same array. If the watch was interrupted and missed changes, yields the
   * difference between the endpoints before and after the interruption.
   *
   * @example
   * for await (const updates of service.watch()) {
   *   for (const update of updates) console.log(update.type, update.key);
   * }
   */
  watch(options: Pick<CallOptions, 'signal'> = {}): AsyncGenerator<readonly Update[], void> {
    checkOptions(options, WATCH_OPTIONS, 'Service.watch');
    return iterate(options.signal, (signal) => this.#updates(signal));
  }

  async *#updates(signal: AbortSignal): AsyncGenerator<readonly Update[], void> {
    /** The endpoints that were yielded to the caller. Maps each endpoint's key to the endpoint as JSON. */
    const known = new Map<string, string>();
    const fold = new RangeFold();
    let isFirst = true;
    for await (const message of mirrorOf(this.#client, prefix(`${this.target}/`), { signal })) {
      const updates: Update[] = [];
      fold.take(message, (bytes, _, kv) => {
        const key = validTextOf(bytes);
        if (key === undefined) return;
        const endpoint = kv && decodeEndpoint(kv);
        if (endpoint === undefined) {
          if (known.delete(key)) updates.push({ type: 'delete', key });
          return;
        }
        const json = JSON.stringify(endpoint);
        if (known.get(key) === json) return;
        known.set(key, json);
        updates.push({ type: 'add', key, endpoint });
      });
      if (updates.length > 0 || (isFirst && message.type === 'synced')) yield updates;
      if (message.type === 'synced') isFirst = false;
    }
  }

  /**
   * Reads all endpoints, and keeps them up to date in memory until the view is closed. While no server answers, the
   * first read waits like a watch, but at most `timeoutMs` (default: no limit), and later the view keeps the endpoints
   * that it knows.
   *
   * @throws EtcdError as `cachedRange` does.
   *
   * @example
   * const service = new Service(etcd, 'services/web');
   * await using view = await service.view({ picking: 'least-used' });
   * using picked = view.pick();
   * console.log(picked?.address ?? 'no instance is registered', view.endpoints.size);
   */
  async view(options: ViewOptions = {}): Promise<ServiceView> {
    checkOptions(options, VIEW_OPTIONS, 'Service.view');
    const { picking = 'round-robin', ...limits } = options;
    const cached = await cachedRangeOf(this.#client, prefix(`${this.target}/`), limits);
    return new ServiceView(cached, this.target.length + 1, picking);
  }

  async #registerPlain(
    session: Session,
    key: string,
    value: string,
    options: Pick<CallOptions, 'signal' | 'timeoutMs'>,
  ): Promise<() => Promise<void>> {
    const registered = new RegisteredKey(toBytes(key, 'id'), toBytes(value, 'endpoint'));
    const within = (
      what: string,
      limits: CallOptions,
      lifetime: AbortSignal,
      action: (waiting: Waiting) => Promise<unknown>,
    ) => {
      const { signal, timeoutMs } = keyspaceClientOf(this.#client).leaseClient.withDefaultTimeout(limits);
      const acting = ({ waiting }: WaitLimit) =>
        action(waiting).catch((error: unknown) => {
          session.losesWith(error);
          throw error;
        });
      return withinLimit(what, { signal, maxWaitMs: timeoutMs }, lifetime, acting, 'timeoutMs');
    };
    await within('register', options, session.signal, (waiting) => registered.put(session, () => true, waiting));
    return async () => {
      const { leaseSignal } = session;
      // When the lease is lost, etcd deletes the key with it. The lease of a closing client may live on for its locks.
      if (leaseSignal.aborted) return;
      const deleting = within('close', {}, leaseSignal, (waiting) => registered.delete(this.#client, waiting));
      await deleting.catch((error: unknown) => {
        if (!leaseSignal.aborted) throw error;
      });
    };
  }
}

/**
 * The endpoints of a service, kept up to date in memory. `Service.view` returns such a view.
 *
 * @example
 * await using view: ServiceView = await new Service(etcd, 'services/web').view();
 * for (const [id, { address }] of view.endpoints) console.log(id, address);
 */
export class ServiceView implements AsyncDisposable {
  readonly #cached: CachedRange;
  readonly #idStart: number;
  readonly #picking: Picking;
  /** The number of picks of each ID that are not done. */
  readonly #uses = new Map<string, number>();
  /** The decoded endpoints, with the state of the range from which they were decoded. */
  #decoded: (RangeVersion & { readonly endpoints: ReadonlyMap<string, ServiceEndpoint> }) | undefined;
  /** The last pick, and its position among the IDs at that time. */
  #last = { id: '', index: 0 };

  /** @internal `idStart` is the length of the part of each key that comes before the ID. */
  constructor(cached: CachedRange, idStart: number, picking: Picking) {
    this.#cached = cached;
    this.#idStart = idStart;
    this.#picking = picking;
  }

  /**
   * All endpoints by their IDs, without values that are not endpoints.
   *
   * @throws EtcdError if the view was closed, or if the client can no longer keep it up to date.
   */
  get endpoints(): ReadonlyMap<string, ServiceEndpoint> {
    const { read, revision } = versionOf(this.#cached);
    if (this.#decoded?.revision === revision && this.#decoded.read === read) return this.#decoded.endpoints;
    const endpoints = endpointsIn(this.#cached.range(), this.#idStart);
    this.#decoded = { read, revision, endpoints };
    return endpoints;
  }

  /**
   * Chooses an endpoint: with `round-robin`, the endpoint whose ID comes after the ID of the previous pick, and with
   * `least-used`, the endpoint with the fewest picks that are not done. Returns undefined if the service has no
   * endpoint.
   *
   * @throws EtcdError as `endpoints` does.
   */
  pick(): PickedEndpoint | undefined {
    const endpoints = this.endpoints;
    const ids = [...endpoints.keys()];
    // The position of the last pick changes when endpoints come and go.
    const last = ids.indexOf(this.#last.id);
    const start = last === -1 ? this.#last.index : last + 1;
    const turn = [...ids.slice(start), ...ids.slice(0, start)];
    const usesOf = (id: string): number => this.#uses.get(id) ?? 0;
    const id = this.#picking === 'round-robin' ? turn[0] : leastOf(turn, usesOf);
    if (id === undefined) return undefined;
    this.#last = { id, index: ids.indexOf(id) };
    let isDone = this.#picking === 'round-robin';
    if (!isDone) this.#uses.set(id, usesOf(id) + 1);
    const done = (): void => {
      if (isDone) return;
      isDone = true;
      if (usesOf(id) > 1) this.#uses.set(id, usesOf(id) - 1);
      else this.#uses.delete(id);
    };
    return { id, ...(endpoints.get(id) as ServiceEndpoint), done, [Symbol.dispose]: done };
  }

  /** Ends the view. */
  async close(): Promise<void> {
    await this.#cached.close();
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function leastOf(ids: readonly string[], usesOf: (id: string) => number): string | undefined {
  let [least] = ids;
  for (const id of ids) if (usesOf(id) < usesOf(least as string)) least = id;
  return least;
}

/** The value of `Op` in stored endpoints: Go's `Add`. No other operation is ever stored. */
const OP_ADD = 0;

/**
 * Encodes an endpoint as Go does: `{"Op":0,"Addr":…,"Metadata":…}`.
 *
 * @throws EtcdError with reason `InvalidInput` if the endpoint is invalid.
 */
function encodeEndpoint(endpoint: ServiceEndpoint): string {
  if (typeof endpoint !== 'object' || endpoint === null)
    throw invalidInput('endpoint', show(endpoint), 'an object { address, metadata }');
  const { address, metadata } = endpoint;
  if (typeof address !== 'string' || address === '')
    throw invalidInput('endpoint.address', show(address), 'a non-empty string');
  const allowed = 'any value that JSON can represent';
  if (typeof metadata === 'function' || typeof metadata === 'symbol')
    throw invalidInput('endpoint.metadata', show(metadata), allowed);
  try {
    return JSON.stringify({ Op: OP_ADD, Addr: address, Metadata: metadata ?? null });
  } catch {
    throw invalidInput('endpoint.metadata', 'a value that JSON cannot represent', allowed);
  }
}

/** Returns undefined if the value is not an endpoint. */
function decodeEndpoint(kv: KeyValue): ServiceEndpoint | undefined {
  const { Addr: address, Metadata: metadata = null } = storedFields(kv);
  if (typeof address !== 'string') return undefined;
  return metadata === null ? { address } : { address, metadata };
}

/**
 * Returns the endpoints by their keys without the first `start` characters. Leaves out keys that are not UTF-8, and
 * values that are not endpoints.
 */
function endpointsIn(kvs: readonly KeyValue[], start: number): ReadonlyMap<string, ServiceEndpoint> {
  const endpoints = new Map<string, ServiceEndpoint>();
  for (const kv of kvs) {
    const endpoint = decodeEndpoint(kv);
    const key = validTextOf(kv.keyBytes);
    if (endpoint !== undefined && key !== undefined) endpoints.set(key.slice(start), endpoint);
  }
  return endpoints;
}
