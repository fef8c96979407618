import type { Client } from '../../../src/extras/full/client.js';
import { type HistoryEntry, history } from '../../../src/extras/recipes/history.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A write, a compaction, or a read of the history of a key. */
interface HistoryOp {
  readonly type: 'put' | 'delete' | 'compact' | 'read';
  readonly afterMs: number;
  readonly key: number;
  /** How many revisions before the current one a compaction leaves. */
  readonly back: number;
  /** How long the process waits after each entry, so that faults strike in the middle. */
  readonly pauseMs: number;
  readonly timeoutMs: number | undefined;
}

const KEYS = 2;

/** Histories of keys, which processes read while others write and compact. */
export const histories: Workload<HistoryOp> = {
  name: 'history',
  weight: 1,
  toleratesCopies: true,
  sizeOf: () => 3,
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(2, 10) }, () => ({
        type: random.pick(['put', 'put', 'put', 'delete', 'delete', 'compact', 'read', 'read'] as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
        key: random.below(KEYS),
        back: random.below(8),
        pauseMs: random.pick([0, 0, random.magnitude(1, 1_000)]),
        timeoutMs: random.chance(0.3) ? random.magnitude(100, 5_000) : undefined,
      })),
    })),
  begin: (context) => new Histories(context),
};

class Histories implements Player<HistoryOp> {
  readonly #context: Context<HistoryOp>;
  #values = 0;

  constructor(context: Context<HistoryOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<HistoryOp>): Promise<void> {
    const { world, waits, healed } = this.#context;
    const client = this.#context.client(index);
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, each.type);
      await this.#perform(client, each).catch(expected);
    }
    await healed();
    // A member that was slow may refuse the first reads.
    await world.sleep(20_000);
    for (let key = 0; key < KEYS; key += 1) {
      waits(index, `the whole history of ${key}`);
      const reading = this.#read(client, `h/${key}`, { pauseMs: 0, timeoutMs: 20_000 });
      // A proxy never reports the progress of a watch, and an old server reports it too early, so the search for
      // deletions fails.
      const { isProxy, progressOvertakes } = this.#context.cluster.traits;
      await (isProxy || progressOvertakes ? reading.catch(expected) : reading);
    }
  }

  async #perform(client: Client, each: HistoryOp): Promise<void> {
    const key = `h/${each.key}`;
    switch (each.type) {
      case 'put':
        await client.put(key, `v${this.#values++}`);
        return;
      case 'delete':
        await client.delete(key);
        return;
      case 'compact':
        return this.#context.cluster.compact(BigInt(each.back));
      case 'read':
        return this.#read(client, key, each);
    }
  }

  async #read(client: Client, key: string, how: Pick<HistoryOp, 'pauseMs' | 'timeoutMs'>): Promise<void> {
    const { world, cluster } = this.#context;
    const begunAt = cluster.revision;
    const entries: HistoryEntry[] = [];
    const timeoutMs = how.timeoutMs ?? (cluster.traits.isProxy ? 3_000 : undefined);
    for await (const entry of history(client, key, { timeoutMs })) {
      entries.push(entry);
      if (how.pauseMs > 0) await world.sleep(how.pauseMs);
    }
    this.#judge(key, begunAt, entries);
  }

  #judge(key: string, begunAt: bigint, entries: readonly HistoryEntry[]): void {
    const { cluster, violated, count } = this.#context;
    const { compacted } = cluster.server.member.store;
    const end = entries.at(-1);
    if (end?.type !== 'end') return violated('history without an end', key);
    const versions = entries.slice(0, -1).map((entry) => shown(entry));
    const changes = cluster.truth
      .filter((event) => event.key === key)
      .map(({ type, revision, value }) => ({ revision, text: `${type} ${revision} ${value}` }))
      .toReversed();
    // The first read shows the state at some revision since the beginning of the call.
    const latest = changes.findIndex(({ revision }) => revision <= begunAt);
    const first = versions.length === 0 ? -1 : changes.findIndex(({ text }) => text === versions[0]);
    const detail = `${key} from revision ${begunAt}: ${versions.join(', ')}, ${end.reason} ${end.revision}`;
    if (versions.length > 0 && (first < 0 || (latest >= 0 && first > latest)))
      return violated('wrong newest version', detail);
    const rest = first < 0 ? changes.slice(latest < 0 ? changes.length : latest) : changes.slice(first);
    for (const [at, text] of versions.entries())
      if (rest[at]?.text !== text) return violated('gap in a history', `${detail}; expected ${rest[at]?.text}`);
    count(`history ${end.reason}`);
    if (end.reason === 'compacted' && compacted <= 0n) violated('no compaction', detail);
    if (end.revision >= (entries.at(-2)?.revision ?? 2n ** 63n)) violated('wrong end', detail);
    const missing = rest.slice(versions.length);
    if (end.reason === 'beginning' && missing.length > 0) violated('wrong beginning', `${detail}; ${missing[0]?.text}`);
    for (const { revision, text } of missing) {
      if (revision > end.revision) violated('wrong end', `${detail}; ${text} is missing`);
      if (revision > compacted) violated('history ends too early', `${detail}; ${text}, compacted ${compacted}`);
    }
  }

  check(): void {}

  mayStay(): boolean {
    return true;
  }
}

function shown(entry: HistoryEntry): string {
  return entry.type === 'put' ? `put ${entry.revision} ${entry.kv.text()}` : `${entry.type} ${entry.revision} `;
}
