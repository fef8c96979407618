import {
  type ClientEvents,
  can,
  checkCan,
  checkFunction,
  checkOptions,
  compareBytes,
  describeType,
  invalidInput,
  isBytes,
  KEYS_HINTS,
  messageOf,
  orAborted,
  type SignalOption,
} from '../../base/index.js';
import {
  type CoreKeyspace,
  type Keys,
  type KeyspaceClient,
  keyspaceClientOf,
  ownKeys,
  resolveKeys,
  type WireRange,
} from '../../client/index.js';
import { withinLimit } from '../../locks/index.js';
import { TIME_LIMITS, withSharedLimit } from '../../rpc/index.js';
import type { TypedCachedRange, TypedKeys } from '../keys/index.js';
import { type CachedRange, decodeCopy, type RangeCopy } from '../ranges/index.js';
import {
  type CopyStore,
  type Notify,
  PersistedKeyRange,
  type PersistedRangeNotice,
  type PersistedRangeState,
} from './persisted-range.js';

/** Options of `persisted`. */
export interface PersistedOptions {
  /** Cancels the wait for the first keys when this signal aborts. */
  readonly signal?: SignalOption;
  /** Maximum wait for the first keys in milliseconds. Default: no limit. */
  readonly timeoutMs?: number | undefined;
  /**
   * Receives each notice; see `PersistedRangeNotice`. The range ignores errors of this function. `onEvent` of the
   * client receives the notices, too.
   */
  readonly onNotice?: ((notice: PersistedRangeNotice) => void) | undefined;
}

const PERSISTED_OPTIONS = { ...TIME_LIMITS, onNotice: checkFunction } as const;

/**
 * A cached range that also keeps its keys in a store. `persisted` opens it.
 *
 * @example
 * const kept = new Map<string, Uint8Array>();
 * const store: CopyStore = {
 *   load: async () => kept.get('config'),
 *   save: async (bytes) => void kept.set('config', bytes),
 * };
 * await using config: PersistedRange = await persisted(etcd, prefix('config/'), store);
 * await etcd.put('config/size', '10');
 * await config.catchUp();
 * console.log(config.get('config/size')?.text(), config.revision === config.savedRevision); // 10 true
 */
export interface PersistedRange extends Omit<CachedRange, 'state'> {
  /** Whether the range is up to date now; see `PersistedRangeState`. @throws EtcdError as `size` does. */
  readonly state: PersistedRangeState;
  /**
   * The revision of the copy in the store. 0n if the store has no copy, or only a copy from before the last notice
   * `store-changed`.
   */
  readonly savedRevision: bigint;
}

/**
 * Keeps a range in memory and up to date like `cachedRange`, and keeps a copy of the range in `store`. If the store has
 * a copy, the call resolves with this copy at once, also while no server answers. Without a copy, the call waits for
 * the keys like `cachedRange`. The range saves each state before it shows the state. So a program that is started again
 * never sees an older state than before, as long as `save` succeeds and the cluster is the same.
 *
 * @throws EtcdError with reason `InvalidInput` if an argument is invalid, or if the store has a copy of other keys.
 * Without a copy, also throws the errors of `cachedRange`.
 *
 * @example
 * import { Client, prefix } from 'etcdwire';
 * import { fileStore } from 'etcdwire/node';
 * import { persisted } from 'etcdwire/recipes';
 *
 * await using etcd = new Client({ endpoints: ['http://127.0.0.1:2379'] });
 * await using config = await persisted(etcd, prefix('config/'), fileStore('config.copy'));
 * console.log(config.get('config/size')?.text(), config.state.status);
 */
export function persisted(
  client: CoreKeyspace,
  keys: Keys,
  store: CopyStore,
  options?: PersistedOptions,
): Promise<PersistedRange>;
export function persisted<T>(
  client: CoreKeyspace,
  keys: TypedKeys<T>,
  store: CopyStore,
  options?: PersistedOptions,
): Promise<TypedCachedRange<T, PersistedRange>>;
export async function persisted<T>(
  client: CoreKeyspace,
  keys: Keys | TypedKeys<T>,
  store: CopyStore,
  options: PersistedOptions = {},
): Promise<PersistedRange | TypedCachedRange<T, PersistedRange>> {
  const keyspace = keyspaceClientOf(client);
  if (can<TypedKeys<T>>(keys, 'cachedBy')) {
    checkKeyspace(keys, keyspace);
    return keys.cachedBy(await persisted(client, keys.all, store, options));
  }
  const range = resolveKeys(ownKeys(keys), 'keys');
  checkCan(store, 'load', 'store', STORE);
  checkCan(store, 'save', 'store', STORE);
  checkOptions(options, PERSISTED_OPTIONS, 'persisted', KEYS_HINTS);
  const { signal, timeoutMs, onNotice } = options;
  const notify = notifier(keyspace.rpc.settings.events, onNotice);
  const limits = withSharedLimit({ signal, timeoutMs });
  const load = { signal, maxWaitMs: timeoutMs };
  const copy = await withinLimit(
    'the load of the copy',
    load,
    undefined,
    (limit) => loaded(store, keyspace, range, notify, limit.signal),
    'timeoutMs',
  );
  const cached = new PersistedKeyRange(keyspace, range, store, notify, copy);
  try {
    if (copy === undefined) await cached.waitForRevision(0n, limits);
    return cached;
  } catch (error) {
    await cached.close();
    throw error;
  }
}

const STORE = 'an object with the functions load and save, such as fileStore(path)';

/**
 * Returns the copy in the store. Returns undefined if there is none, or if it cannot be used.
 *
 * @throws EtcdError with reason `InvalidInput` if the store has a copy of other keys.
 */
async function loaded(
  store: CopyStore,
  { core }: KeyspaceClient,
  range: WireRange,
  notify: Notify,
  signal: AbortSignal,
): Promise<RangeCopy | undefined> {
  let copy: RangeCopy;
  try {
    const load = async (): Promise<unknown> => store.load();
    const bytes = (await orAborted(load(), signal)) ?? undefined;
    if (bytes === undefined) return undefined;
    if (!isBytes(bytes)) throw invalidInput('store.load', `a promise of ${describeType(bytes)}`, 'a promise of bytes');
    copy = decodeCopy(bytes);
  } catch (cause) {
    signal.throwIfAborted();
    notify({ type: 'copy-ignored', cause });
    return undefined;
  }
  const given = [core.prefix, range.key, range.rangeEnd];
  const stored = [copy.namespace, copy.range.key, copy.range.rangeEnd];
  if (given.every((bytes, index) => compareBytes(bytes, stored[index] as Uint8Array) === 0)) return copy;
  const allowed = 'a store of its own for each range; if the keys of the program have changed, remove the old copy';
  throw invalidInput('store', 'a store with a copy of other keys', allowed);
}

function notifier(events: ClientEvents, onNotice: PersistedOptions['onNotice']): Notify {
  return (notice) => {
    const { type, cause } = notice;
    events.report({ type: `persisted range: ${type}`, problem: messageOf(cause) });
    try {
      const noticing: unknown = onNotice?.(notice);
      if (noticing instanceof Promise) noticing.catch(() => {});
    } catch {
      // An error of `onNotice` must not end the range.
    }
  };
}

/** @throws EtcdError with reason `InvalidInput` if the typed keys belong to another client or namespace. */
function checkKeyspace(keys: Pick<TypedKeys<never>, 'keyspace'>, { core }: KeyspaceClient): void {
  const { core: own } = keyspaceClientOf(keys.keyspace());
  if (own.channel === core.channel && compareBytes(own.prefix, core.prefix) === 0) return;
  throw invalidInput('keys', 'typed keys of another client or namespace', 'typed keys of `client`');
}
