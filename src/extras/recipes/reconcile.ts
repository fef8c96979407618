import {
  type ActionLast,
  actionLast,
  backoffMs,
  checkDelay,
  checkedLaterAll,
  checkFields,
  checkFunction,
  checkList,
  checkMs,
  checkOptions,
  checkPositiveCount,
  checkSignal,
  idOf,
  invalidInput,
  pause,
  type SignalOption,
  toBytes,
  validTextOf,
} from '../../base/index.js';
import {
  type CoreKeyspace,
  contains,
  Keyed,
  type Keys,
  type KeyValue,
  keyspaceClientOf,
  ownKeys,
  resolveKeys,
} from '../../client/index.js';
import {
  checkName,
  Ending,
  LEASE_OPTIONS,
  type Leadership,
  type LeadOptions,
  lead,
  untilAnswered,
  untilClosed,
} from '../../locks/index.js';
import { checkTimeout } from '../../rpc/index.js';
import { FollowedKeys } from './followed-keys.js';
import { retryDelay } from './handlers.js';
import { KeyRuns, type RunReport } from './key-runs.js';

/** Delay before the second run of a key in milliseconds. */
const RETRY_BASE_MS = 5;

/** The argument of the handler of `reconcile`. */
export interface KeyRun extends Pick<KeyValue, 'key' | 'keyBytes'> {
  /** The state of the key when the run started. Undefined if the key did not exist. */
  readonly kv: KeyValue | undefined;
  /** 1, plus the number of failed runs of the key since its last successful run, in the same term of `lead`. */
  readonly attempt: number;
  /**
   * Aborts when `reconcile` ends. With the option `lead`, also aborts when the term ends, and reading `aborted`
   * compares the lease's deadline with the clocks of the machine.
   */
  readonly signal: AbortSignal;
}

/** The argument of the handler of `reconcile` with the option `lead`. */
export interface LeaderKeyRun extends KeyRun {
  /** The leadership. `held.txn` makes writes that have no effect after the leadership is lost. */
  readonly held: Leadership;
}

/** The result with which a handler of `reconcile` asks for another run. */
export interface Again {
  /** Milliseconds after which the key runs again, unless a change of the key queues it earlier. */
  readonly againMs: number;
}

/** The handler of `reconcile`. It may be asynchronous, and it may return `Again`. */
export type KeyHandler<Run extends KeyRun> = (
  run: Run,
  // biome-ignore lint/suspicious/noConfusingVoidType: an async function may return `Again` or nothing
) => Promise<Again | void> | Again | void;

/** Keys that belong to the keys of `reconcile`, such as the keys that the handler writes. */
export interface OwnedKeys {
  /** The range to watch. */
  readonly keys: Keys;
  /**
   * Returns the key for which the handler of `reconcile` runs when `key` changes, or undefined if no handler runs. Not
   * called for a key that is not UTF-8, which has no owner.
   */
  readonly ownerOf: (key: string) => string | undefined;
}

/** The option `lead` of `reconcile`: the name of the election, and the options of `lead`. */
export interface ReconcileLead extends Omit<LeadOptions, 'signal'> {
  /** The name of the election. */
  readonly name: string;
}

/** Options of `reconcile`. */
export interface ReconcileOptions {
  /** Maximum number of keys whose handlers run at the same time. Default 1. */
  readonly concurrency?: number | undefined;
  /**
   * Returns the delay in milliseconds before the handler runs again for a key after it has failed `attempt` times in
   * succession for this key. Default: 5 ms after the first failure, and twice as long after each further failure, up to
   * 60 s.
   */
  readonly retryDelayMs?: ((attempt: number) => number) | undefined;
  /** Interval in milliseconds at which all keys are queued again. Default: never. */
  readonly resyncMs?: number | undefined;
  /**
   * Further ranges. A change in one of them queues the key that `ownerOf` returns, even if that key does not exist.
   * Default: none. With this option, each run reads `kv` from the server, because the ranges may be at different
   * revisions.
   */
  readonly owned?: readonly OwnedKeys[] | undefined;
  /**
   * Called after each run, before the next run of the key starts. Not called if the signal of the run has aborted. If
   * this function throws, `reconcile` rejects with its error.
   */
  readonly onRun?: ((report: RunReport) => void) | undefined;
  /** When this signal aborts, `reconcile` starts no more runs, waits for the current runs, and resolves. */
  readonly signal?: SignalOption;
  /**
   * Runs handlers only while this process leads this election. Each run gets `held`, so that it can write with
   * `held.txn`. When a term ends, the signals of its runs abort. No run of the next term starts before the runs of the
   * previous term have ended.
   */
  readonly lead?: ReconcileLead | undefined;
}

const RECONCILE_OPTIONS = {
  concurrency: checkPositiveCount,
  retryDelayMs: checkFunction,
  resyncMs: checkMs,
  owned: ownedKeys,
  onRun: checkFunction,
  signal: checkSignal,
  lead: checkLead,
} as const;
const LEAD_FIELDS = { ...checkedLaterAll('name'), value: toBytes, maxHoldMs: checkTimeout, ...LEASE_OPTIONS } as const;
const OWNED_FIELDS = checkedLaterAll('keys', 'ownerOf');

/**
 * Runs `handler` for each key of a range, and again each time that the key changes, like a controller of Kubernetes.
 * The handler reads the wanted state from `kv` and makes the actual state agree with it. If `kv` is undefined, the key
 * was deleted, and the handler removes what it has made for the key. `reconcile` runs until the signal in the options
 * aborts, and then waits for the current runs.
 *
 * A key has at most one run at a time. Several changes of a key before its run result in one run. A change during a run
 * results in one more run. If the handler throws, the key runs again after `retryDelayMs`, or as soon as it changes.
 * After each change of a key, a run starts with the changed state or a later state, and is repeated until a run
 * succeeds.
 *
 * A deletion is missed if no process runs `reconcile` at that time, or if it happens between two terms of `lead`. With
 * `owned`, the handler still runs for a deleted key when `reconcile` or the term begins, if at that time a key of the
 * ranges in `owned` belongs to the deleted key.
 *
 * If the client closes, `reconcile` ends as if the option `signal` had aborted, and `close` waits for it.
 *
 * A handler that does not end occupies one of the `concurrency` slots, and delays the end of `reconcile` or of the
 * term.
 *
 * @throws EtcdError with reason `InvalidInput` or `PermissionDenied`, with `ClientClosed` if the client was closed before
 * the call, or with another reason for which the server refuses the watch or a read. While no server answers, `reconcile` waits. An error of the handler only
 * repeats the run.
 *
 * @example
 * process.once('SIGTERM', () => stop.abort());
 * await etcd.put('sites/blog', 'Hello');
 * const options = { lead: { name: 'leaders/sites', value: 'host-1' }, signal: stop.signal };
 * await reconcile(etcd, prefix('sites/'), options, async ({ key, kv, held }) => {
 *   const write = kv === undefined ? op.delete(`pages/${key}`) : op.put(`pages/${key}`, `<h1>${kv.text()}</h1>`);
 *   await held.txn({ then: [write] }, { retryWrites: true });
 *   console.log(key, kv?.text()); // sites/blog Hello
 *   stop.abort();
 * });
 */
export function reconcile(
  client: CoreKeyspace,
  keys: Keys,
  options: ReconcileOptions & { readonly lead: ReconcileLead },
  handler: KeyHandler<LeaderKeyRun>,
): Promise<void>;
export function reconcile(
  client: CoreKeyspace,
  keys: Keys,
  ...last: ActionLast<ReconcileOptions, KeyHandler<KeyRun>>
): Promise<void>;
export async function reconcile(
  client: CoreKeyspace,
  keys: Keys,
  ...last: ActionLast<ReconcileOptions, KeyHandler<LeaderKeyRun>>
): Promise<void> {
  const [options, handler] = actionLast(last, 'handler');
  keyspaceClientOf(client);
  const own = ownKeys(keys);
  resolveKeys(own, 'keys');
  checkOptions(options, RECONCILE_OPTIONS, 'reconcile');
  const { signal, lead: election, owned = [] } = options;
  const controller: Controller = {
    client,
    keys: own,
    handler,
    options: { ...options, owned: ownedKeys(owned, 'owned') },
  };
  await untilClosed(client, signal, async (stop) => {
    const ending = new Ending(stop);
    const { crash: fail } = ending;
    try {
      if (election === undefined) await control(controller, ending.signal, fail);
      else {
        const { name, ...leading } = election;
        await lead(client, name, { ...leading, signal: ending.signal }, (term) =>
          control(controller, term.signal, fail, term.held),
        );
      }
    } finally {
      ending.close();
    }
    ending.throwIfFailed();
  });
}

interface Controller {
  readonly client: CoreKeyspace;
  readonly keys: Keys;
  readonly handler: KeyHandler<LeaderKeyRun>;
  readonly options: ReconcileOptions & { readonly owned: readonly OwnedKeys[] };
}

/**
 * Runs handlers until `signal` aborts and all of them have ended. Calls `fail` with each error except those of the
 * handlers.
 */
async function control(
  { client, keys, handler, options }: Controller,
  signal: AbortSignal,
  fail: (error: unknown) => void,
  held?: Leadership,
): Promise<void> {
  const { concurrency = 1, retryDelayMs = retryDelay(RETRY_BASE_MS), resyncMs, owned, onRun } = options;
  const stateOf = async (key: Uint8Array): Promise<KeyValue | undefined> => {
    if (owned.length === 0) return main.get(key);
    for (let attempt = 0; ; attempt += 1) {
      const { header, kvs } = await untilAnswered({ signal }, (calls) => client.range(key, calls));
      if (main.saw(key, kvs[0], header.revision)) return kvs[0];
      // The server read the key before `main` has read the whole range. If the store was restored from an older copy,
      // this goes on until the watch of `main` notices.
      await pause(backoffMs(attempt), signal);
    }
  };
  const runs = new KeyRuns({
    run: async (key, attempt) => {
      const kv = await stateOf(key);
      signal.throwIfAborted();
      const run = Object.assign(new Keyed(key), { kv, attempt, signal, held: held as Leadership });
      const { againMs }: Partial<Again> = Object(await handler(run));
      return againMs === undefined ? undefined : checkDelay(againMs, 'againMs');
    },
    concurrency,
    retryDelayMs,
    onRun,
    signal,
    fail,
  });
  // Runs start when the client has read all ranges. After a gap in the events of one range, all keys run: a handler may
  // have read, during the gap, a state of that range for which no event arrives. `collected` contains the keys that have
  // changed before the first runs, because the ranges no longer show those that were deleted.
  let collected: Map<string, Uint8Array> | undefined = new Map();
  const queue = (key: Uint8Array): void => {
    if (collected === undefined) runs.add(key);
    else collected.set(idOf(key), key);
  };
  const queueAll = (): void => {
    if (!ranges.every(({ isSynced }) => isSynced)) return;
    const all = collected ?? new Map<string, Uint8Array>();
    collected = all;
    for (const range of ranges) range.reportAll();
    collected = undefined;
    for (const key of all.values()) runs.add(key);
  };
  const main = new FollowedKeys(keys, { changed: queue, synced: queueAll });
  const follower = ({ keys: ownedRange, ownerOf }: OwnedKeys): FollowedKeys => {
    const changed = (key: Uint8Array): void => {
      const text = validTextOf(key);
      const owner = text === undefined ? undefined : ownerOf(text);
      if (owner !== undefined) queue(checkOwner(owner, keys));
    };
    return new FollowedKeys(ownedRange, { changed, synced: queueAll });
  };
  const ranges = [main, ...owned.map(follower)];
  const resync = async (): Promise<never> => {
    for (;;) {
      await pause(resyncMs ?? Number.POSITIVE_INFINITY, signal);
      signal.throwIfAborted();
      queueAll();
    }
  };
  const failUnlessOver = (error: unknown): void => {
    if (!signal.aborted) fail(error);
  };
  const tasks = [resync(), ...ranges.map((range) => range.follow(client, signal))];
  await Promise.all(tasks.map((task) => task.catch(failUnlessOver)));
  await runs.end();
}

function checkOwner(owner: string, keys: Keys): Uint8Array {
  const key = toBytes(owner, 'ownerOf(key)');
  if (contains(resolveKeys(keys, 'keys'), key)) return key;
  throw invalidInput('ownerOf(key)', 'a key outside `keys`', 'a key of `keys`, or undefined');
}

function checkLead(value: ReconcileLead, argument: string): void {
  checkFields(value, LEAD_FIELDS, argument);
  checkName(value.name, `${argument}.name`);
}

/** Checks the option `owned`. Returns a copy, because the caller may change its objects later. */
function ownedKeys(list: readonly OwnedKeys[], argument: string): readonly OwnedKeys[] {
  return checkList(list, argument, 'a list of ranges with their owners').map((each, index) => {
    const name = `${argument}[${index}]`;
    checkFields(each, OWNED_FIELDS, name);
    const { keys, ownerOf } = each;
    resolveKeys(keys, `${name}.keys`);
    checkFunction(ownerOf, `${name}.ownerOf`);
    return { keys: ownKeys(keys), ownerOf };
  });
}
