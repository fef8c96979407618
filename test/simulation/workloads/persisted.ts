import { prefix } from '../../../src/client/kv/keys.js';
import type { Client } from '../../../src/extras/full/client.js';
import { decodeCopy } from '../../../src/extras/ranges/range-copy.js';
import { type PersistedRange, persisted } from '../../../src/extras/recipes/persisted.js';
import type { CopyStore, PersistedRangeNotice } from '../../../src/extras/recipes/persisted-range.js';
import type { TrueEvent } from '../cluster.js';
import type { ProcessPlan } from '../plan.js';
import { textOfState } from '../states.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A write, or one life of a program that keeps the range in the store of its process, and is then killed. */
interface PersistedOp {
  readonly type: 'put' | 'delete' | 'life';
  readonly afterMs: number;
  readonly key: number;
  readonly lifeMs: number;
  readonly lookMs: number;
  /** How long a save takes. */
  readonly saveMs: number;
  /** Every save of this number fails. */
  readonly failsEvery: number | undefined;
  /** The look at which the life calls `catchUp`. Undefined if it never does. */
  readonly catchesUpAt: number | undefined;
}

const PREFIX = 's/';
const KEYS = 3;
const LAST_LIFE: PersistedOp = {
  ...{ type: 'life', afterMs: 0, key: 0, lifeMs: 60_000, lookMs: 500, saveMs: 5 },
  ...{ failsEvery: undefined, catchesUpAt: undefined },
};

/** Programs that are killed and started again with a copy of their keys, while the store may be restored. */
export const persistedRanges: Workload<PersistedOp> = {
  name: 'persisted',
  weight: 2,
  without: ['duplicate request', 'late request', 'delay response', 'delay request'],
  isRestored: true,
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, (_, index) => ({
      ops: Array.from({ length: random.between(2, 8) }, () => ({
        type: random.chance(index === 0 ? 0.3 : 0.5) ? 'life' : random.pick(['put', 'put', 'delete'] as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 3_000)]),
        key: random.below(KEYS),
        lifeMs: random.magnitude(1, 8_000),
        lookMs: random.magnitude(5, 500),
        saveMs: random.pick([0, 0, 5, random.magnitude(1, 12_000)]),
        failsEvery: random.chance(0.3) ? random.between(1, 4) : undefined,
        catchesUpAt: random.chance(0.5) ? random.below(8) : undefined,
      })),
    })),
  begin: (context) => new PersistedRanges(context),
};

/** What the program of one process has shown so far, in all of its lives. */
interface Shown {
  /** The bytes in the store of the process. */
  bytes: Uint8Array | undefined;
  revision: bigint;
  text: string;
  /** Whether the next revision may be lower, because the program was told so. */
  mayGoBack: boolean;
}

class PersistedRanges implements Player<PersistedOp> {
  readonly #context: Context<PersistedOp>;
  readonly #shown = new Map<number, Shown>();
  #values = 0;

  constructor(context: Context<PersistedOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<PersistedOp>): Promise<void> {
    const { world, waits, healed } = this.#context;
    this.#shown.set(index, { bytes: undefined, revision: 0n, text: '', mayGoBack: false });
    const writer = this.#context.client(index);
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, each.type);
      if (each.type === 'life') await this.#live(index, this.#context.client(index), each);
      else await this.#write(writer, each).catch(expected);
    }
    waits(index, 'the end of all faults');
    await healed();
    waits(index, 'its last life');
    const client = this.#context.client(index);
    await this.#write(client, { type: 'put', key: 0 }).catch(expected);
    await this.#live(index, client, LAST_LIFE);
  }

  async #write(client: Client, { type, key }: Pick<PersistedOp, 'type' | 'key'>): Promise<void> {
    const name = `${PREFIX}${key}`;
    if (type === 'put') await client.put(name, `${this.#values++}`);
    else await client.delete(name);
  }

  /** Runs the program once. At the end, the program is killed, unless it is the last life. */
  async #live(index: number, client: Client, life: PersistedOp): Promise<void> {
    const { world, cluster, violated, count } = this.#context;
    const shown = this.#shown.get(index) as Shown;
    const isLast = life === LAST_LIFE;
    const copy = shown.bytes && decodeCopy(shown.bytes);
    const isOfHistory = copy === undefined || this.#isOfHistory(copy);
    const histories = cluster.histories.length;
    let isDead = false;
    let isUnsaved = false;
    /** Whether a save has succeeded since the latest notice of a failed save. */
    let hasSavedSince = false;
    let isTold = false;
    let saves = 0;
    const store: CopyStore = {
      load: async () => shown.bytes,
      save: async (bytes) => {
        saves += 1;
        if (life.saveMs > 0) await world.sleep(life.saveMs);
        if (life.failsEvery !== undefined && saves % life.failsEvery === 0) throw new Error('disk full');
        if (!isDead) shown.bytes = bytes;
        hasSavedSince = true;
      },
    };
    const onNotice = ({ type }: PersistedRangeNotice): void => {
      if (isDead) return;
      count(`persisted: ${type}`);
      if (type === 'store-changed') [shown.mayGoBack, isTold] = [true, true];
      else if (type === 'save-failed') [isUnsaved, hasSavedSince] = [true, false];
      else violated('lost copy', `of process ${index}`);
    };
    const opening = persisted(client, prefix(PREFIX), store, { onNotice, timeoutMs: life.lifeMs });
    const range = await opening.catch(expected);
    if (range !== undefined) {
      const endMs = world.time + life.lifeMs;
      let isLevel = false;
      for (let look = 0; ; look += 1) {
        // Before the range shows the state whose save has failed, its revisions are those of the former state. Both are
        // 0n while the range reads a restored store.
        isUnsaved &&= !hasSavedSince || range.revision === 0n || range.savedRevision !== range.revision;
        this.#look(range, shown, isUnsaved, histories);
        isLevel = isLast && (await this.#isLevel(range));
        if (isLevel) break;
        if (world.time >= endMs) break;
        if (life.catchesUpAt === look) await range.catchUp({ timeoutMs: 1_000 }).catch(expected);
        this.#look(range, shown, isUnsaved, histories);
        await world.sleep(life.lookMs);
      }
      // A state that was shown although it was not saved may be followed by an older one.
      if (isUnsaved) shown.mayGoBack = true;
      // If the client has an endpoint of another cluster, the range may follow that cluster, or may never be up to date.
      const clusterId = shown.bytes && decodeCopy(shown.bytes).clusterId;
      if (isLast && clusterId === cluster.server.member.clusterId && (isLevel || !this.#isMixed))
        this.#checkEnd(range, isOfHistory, isTold);
    } else if (isLast && !this.#isMixed) violated('no range', `of process ${index}`);
    isDead = true;
    if (!isLast && range !== undefined) count(`persisted: killed while ${range.state.status}`);
    await range?.close();
    await client.close();
  }

  /** Checks what the range shows now. `histories` is the number of histories at the start of the life. */
  #look(range: PersistedRange, shown: Shown, isUnsaved: boolean, histories: number): void {
    const { world, cluster, violated } = this.#context;
    const { revision, state } = range;
    // 0n means that the range has found a restored store.
    if (revision === 0n) return;
    if (revision < shown.revision && !shown.mayGoBack)
      violated('older state', `revision ${revision} after ${shown.revision}, ${state.status}`);
    if (revision < shown.revision) shown.mayGoBack = false;
    shown.revision = revision;
    const copy = shown.bytes && decodeCopy(shown.bytes);
    if (!isUnsaved && (copy === undefined || copy.revision < revision) && !shown.mayGoBack)
      violated('not saved', `revision ${revision}, saved ${copy?.revision}`);
    const text = textOfState(new Map(range.range().map((kv) => [kv.key, { value: kv.text() }])));
    if (text !== shown.text) world.note(`a range shows ${text} at revision ${revision}, ${state.status}`);
    shown.text = text;
    // The history of another cluster is unknown. A watch that was open before a restore may continue after it, if the
    // store has passed the revision of the watch again. The range finds that in its next life.
    const isOwn = copy?.clusterId === cluster.server.member.clusterId && !(isUnsaved && this.#isMixed);
    const isSure = histories === cluster.histories.length && state.status !== 'stored' && state.status !== 'syncing';
    const isRight = cluster.histories.some((history) => textOfState(stateOf(history, revision)) === text);
    if (isOwn && (isSure || cluster.histories.length === 1) && !isRight)
      violated('wrong state', `${text} at revision ${revision}`);
  }

  /** Whether an endpoint belongs to another cluster. */
  get #isMixed(): boolean {
    return this.#context.cluster.members.some(({ foreign }) => foreign !== undefined);
  }

  /** Whether the range has reached the latest revision. Its revision alone does not prove this after a restore. */
  async #isLevel(range: PersistedRange): Promise<boolean> {
    try {
      await range.catchUp({ timeoutMs: 10_000 });
    } catch (error) {
      expected(error);
      return false;
    }
    return range.revision === this.#context.cluster.revision;
  }

  #checkEnd(range: PersistedRange, isOfHistory: boolean, isTold: boolean): void {
    const { cluster, violated } = this.#context;
    const has = textOfState(new Map(range.range().map((kv) => [kv.key, { value: kv.text() }])));
    const should = textOfState(stateOf(cluster.history, cluster.revision));
    if (has !== should) violated('wrong end', `${has}; expected: ${should}`);
    if (!isTold && !isOfHistory) violated('restore not noticed', `at revision ${range.revision}`);
    // A client ends a watch if one of its endpoints belongs to another cluster.
    if (isTold && isOfHistory && !this.#isMixed) violated('false alarm', `at revision ${range.revision}`);
  }

  /** Whether the store has had the copy in its current history, or has compacted the revision of the copy. */
  #isOfHistory({ revision, clusterId, kvs }: ReturnType<typeof decodeCopy>): boolean {
    const { server, history } = this.#context.cluster;
    if (revision < server.member.store.compacted) return true;
    if (clusterId !== server.member.clusterId || revision > server.revision) return false;
    const text = textOfState(new Map(kvs.map((kv) => [kv.key, { value: kv.text() }])));
    return text === textOfState(stateOf(history, revision));
  }

  check(): void {}

  mayStay(): boolean {
    return true;
  }
}

/** Returns the keys of a history with their values at a revision, in byte order. */
function stateOf(history: readonly TrueEvent[], revision: bigint): ReadonlyMap<string, TrueEvent> {
  const state = new Map<string, TrueEvent>();
  for (const event of history) {
    if (event.revision > revision || !event.key.startsWith(PREFIX)) continue;
    if (event.type === 'put') state.set(event.key, event);
    else state.delete(event.key);
  }
  return new Map([...state].sort(([a], [b]) => (a < b ? -1 : 1)));
}
