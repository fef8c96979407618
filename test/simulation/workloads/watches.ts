import { EtcdError } from '../../../src/base/etcd-error.js';
import { prefix } from '../../../src/client/kv/keys.js';
import { op } from '../../../src/client/kv/txn.js';
import type { Watch, WatchOptions } from '../../../src/client/watch/watch.js';
import type { Client } from '../../../src/extras/full/client.js';
import type { CachedRange } from '../../../src/extras/ranges/cached-range.js';
import { checkWatch } from '../../../src/testing/checks/check-events.js';
import type { SeenEvent } from '../../../src/testing/checks/history.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A write, a burst of puts, or a watch or a cached range that the process keeps until the end of the history. */
type WatchOp =
  | {
      readonly type: 'put' | 'delete';
      readonly afterMs: number;
      readonly keys: readonly number[];
      readonly bytes: number;
      /** Whether the transaction has as many operations as etcd allows. */
      readonly isFull?: boolean;
      /** How many times the process writes at once. Many revisions put watches far behind the store. */
      readonly times: number;
    }
  /** Many puts at once by another client, which is not simulated. */
  | { readonly type: 'burst'; readonly afterMs: number; readonly puts: number }
  | {
      readonly type: 'watch';
      readonly afterMs: number;
      /** How many revisions before the current revision the watch begins. Undefined if the watch begins now. */
      readonly back: number | undefined;
      readonly only: 'put' | 'delete' | undefined;
      readonly bufferBytes: number | undefined;
      /** The time in milliseconds that the consumer waits after each batch. */
      readonly pauseMs: number;
      readonly progress: boolean;
      /** The interval in milliseconds between the requests for progress. Undefined if there are no requests. */
      readonly asksMs: number | undefined;
    }
  | { readonly type: 'cache'; readonly afterMs: number };

const PREFIX = 'w/';
const KEYS = 4;
/** The length of a value that is longer than the initial flow-control window of HTTP/2. */
const LARGE_BYTES = 100_000;
/** The maximum number of pauses of a consumer, which would otherwise need minutes for thousands of revisions. */
const MAX_PAUSES = 20;
/** The maximum number of operations in a transaction: etcd's default. */
const MAX_OPS = 128;
/** More revisions than a store has, so that a watch begins at the first revision. */
const ALL_REVISIONS = 100_000;
/** Number of revisions behind the store from which etcd sends the events of a watch in several responses. */
const FAR_BEHIND = 1_000n;
/** Minimum interval between two requests for progress, in milliseconds. */
const MIN_ASK_MS = 50;
/** How late an event may be in a history without faults, in simulated milliseconds. */
const MAX_LATENESS_MS = 3_000;
/** The time in simulated milliseconds in which a cancel request reaches the server in a history without faults. */
const CANCEL_MS = 3_000;

/** Watches and cached ranges, while other processes write. */
export const watches: Workload<WatchOp> = {
  name: 'watches',
  toleratesCopies: true,
  weight: 4,
  sizeOf: (op) => ('times' in op ? op.times : 1),
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, (_, index) => ({
      ops: Array.from({ length: random.between(1, 8) }, (): WatchOp => {
        const afterMs = random.pick([0, 0, random.magnitude(1, 4_000)]);
        if (index === 0 && random.chance(0.01)) return { type: 'burst', afterMs, puts: random.between(950, 2_600) };
        if (index > 0 && random.chance(0.12)) return { type: 'cache', afterMs };
        if (random.chance(index === 0 ? 0.15 : 0.6))
          return {
            type: 'watch',
            afterMs,
            back: random.chance(0.5)
              ? undefined
              : random.pick([random.below(6), random.below(6), random.below(150), ALL_REVISIONS]),
            only: random.chance(0.75) ? undefined : random.pick(['put', 'delete'] as const),
            bufferBytes: random.chance(0.3) ? random.magnitude(1, 2_000) : undefined,
            pauseMs: random.chance(0.3) ? random.magnitude(1, 1_500) : 0,
            progress: random.chance(0.4),
            asksMs: random.chance(0.3) ? random.magnitude(MIN_ASK_MS, 2_000) : undefined,
          };
        return {
          type: random.chance(0.75) ? 'put' : 'delete',
          afterMs,
          keys: Array.from({ length: random.pick([1, 1, 2, 3]) }, () => random.below(KEYS)),
          bytes: random.chance(0.1) ? 400 : random.chance(0.02) ? LARGE_BYTES : 1,
          isFull: random.chance(0.02),
          times: random.chance(0.1) ? 60 : 1,
        };
      }),
    })),
  begin: (context) => new Watches(context),
};

class Watches implements Player<WatchOp> {
  readonly #context: Context<WatchOp>;
  /** Whether nothing disturbs or slows the connections and the server, so that closer bounds hold. */
  readonly #isCalm: boolean;
  #values = 0;
  /** The number of processes whose watches have not all ended. */
  #watching: number;
  #onAllEnded = (): void => {};
  readonly #allEnded = new Promise<void>((resolve) => {
    this.#onAllEnded = resolve;
  });

  constructor(context: Context<WatchOp>) {
    this.#context = context;
    // A server with one of these traits itself delays the events.
    const { splitsEvents, progressOvertakes, isProxy } = context.cluster.traits;
    const { faults, bytes, processes } = context.plan;
    const delaysNothing = !splitsEvents && !progressOvertakes && !isProxy;
    this.#isCalm = faults.length === 0 && bytes === undefined && delaysNothing;
    this.#watching = processes.length;
  }

  async play(index: number, { ops }: ProcessPlan<WatchOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index);
    const running: Promise<void>[] = [];
    for (const [number, each] of ops.entries()) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, each.type);
      if (each.type === 'watch') running.push(this.#watch(client, `${index}.${number}`, each));
      else if (each.type === 'burst') this.#burst(each.puts);
      else if (each.type === 'cache') running.push(this.#cache(client, `${index}.${number}`));
      else await Promise.all(Array.from({ length: each.times }, () => this.#write(client, each).catch(expected)));
    }
    await Promise.all(running);
    if (this.#isCalm) await this.#checkLeft(client);
  }

  /**
   * Checks that the server has no watch that its client has closed. Each process keeps one watch until then, because the
   * end of a stream would also end the watches that are left on it.
   */
  async #checkLeft(client: Client): Promise<void> {
    const { cluster, plan, world, count, violated } = this.#context;
    const last = client.watch('keeps the stream open');
    await last.created();
    this.#watching -= 1;
    if (this.#watching === 0) this.#onAllEnded();
    await this.#allEnded;
    await world.sleep(CANCEL_MS);
    const { watchers } = cluster.server.member.counters;
    if (watchers > plan.processes.length) violated('watch left', `${watchers} of ${plan.processes.length} processes`);
    count('watches of the server counted');
    await last.close();
  }

  /**
   * Makes many revisions. Does nothing if the server is stopped, or if it delays each response, because it would then
   * need minutes.
   */
  #burst(puts: number): void {
    const { cluster, count } = this.#context;
    const { splitsEvents, progressOvertakes, isProxy } = cluster.traits;
    if (splitsEvents || progressOvertakes || isProxy || !cluster.server.running) return;
    cluster.putOften(`${PREFIX}burst`, puts);
    count('burst of revisions');
  }

  async #write(
    client: Client,
    { type, keys: drawn, bytes, isFull }: Extract<WatchOp, { bytes: number }>,
  ): Promise<void> {
    const keys = isFull ? Array.from({ length: MAX_OPS }, (_, key) => key) : drawn;
    if (isFull) this.#context.count('transaction with 128 operations');
    if (bytes === LARGE_BYTES) this.#context.count('value larger than a window');
    const ops = [...new Set(keys)].map((key) =>
      type === 'put'
        ? op.put(`${PREFIX}${key}`, `v${this.#values++}`.padEnd(isFull ? 1 : bytes))
        : op.delete(`${PREFIX}${key}`),
    );
    // With `retryWrites`, the operation on the guard would exceed the limit.
    await client.txn({ then: ops }, isFull ? { retryWrites: false } : {});
  }

  /** Watches until the marker arrives that this watch itself writes after the faults have ended. */
  async #watch(client: Client, name: string, each: Extract<WatchOp, { type: 'watch' }>): Promise<void> {
    const { cluster, world } = this.#context;
    const { only, bufferBytes, progress, back } = each;
    let start = back === undefined ? undefined : cluster.revision - BigInt(back);
    if (start !== undefined && start < 1n) start = 1n;
    if (start !== undefined && cluster.revision - start > FAR_BEHIND) this.#context.count('watch far behind');
    const marker = `${PREFIX}marker-${name}`;
    let isOver = false;
    void this.#mark(client, marker, () => isOver);
    for (;;) {
      const batches: SeenEvent[][] = [];
      const options: WatchOptions = { only, bufferBytes, progress, startRevision: start };
      const watch = client.watch(prefix(PREFIX), options);
      const beganMs = world.now;
      const created = watch.created().catch(() => undefined);
      let last: bigint | undefined;
      let pauses = 0;
      let isOpen = true;
      void this.#askForProgress(watch, each.asksMs, () => isOpen);
      try {
        if (start === undefined) {
          const revision = await created;
          if (revision !== undefined) start = revision + 1n;
        }
        for await (const { revision, events } of watch.batches()) {
          if (events.length > 0)
            batches.push(
              events.map((event) => ({
                revision: event.modRevision,
                type: event.type,
                key: event.key,
                value: event.type === 'put' ? event.kv.text() : '',
              })),
            );
          // An old server may report a revision before it has sent all earlier events.
          else if (!cluster.traits.progressOvertakes) this.#checkProgress(revision, only, batches, start ?? 0n);
          if (events.some((event) => event.key === marker)) {
            last = events[0]?.modRevision;
            isOver = true;
            break;
          }
          if (each.pauseMs > 0 && pauses < MAX_PAUSES) {
            pauses += 1;
            await world.sleep(each.pauseMs);
          } else if (each.pauseMs === 0 && events[0] !== undefined) this.#checkLate(events[0].modRevision, beganMs);
        }
        if (last === undefined) throw new Error('the watch ended by itself');
        return this.#judge(start, last, only, batches);
      } catch (error) {
        await watch.close();
        if (!(error instanceof EtcdError) || error.reason !== 'Compacted') isOver = true;
        if (!(error instanceof EtcdError) || error.reason !== 'Compacted') throw error;
        // The watch must have delivered everything before a revision that was compacted.
        const next = (batches.at(-1)?.at(-1)?.revision ?? (start ?? 0n) - 1n) + 1n;
        const { compactRevision = 0n } = error;
        if (compactRevision > cluster.server.member.store.compacted)
          this.#context.violated('invented compaction', `at ${compactRevision}`);
        if (start !== undefined && next > compactRevision)
          this.#context.violated('needless compaction error', `at ${compactRevision}, needs ${next}`);
        if (start !== undefined) this.#judge(start, next - 1n, only, batches);
        start = compactRevision;
      } finally {
        isOpen = false;
      }
    }
  }

  async #askForProgress(watch: Watch, intervalMs: number | undefined, isOpen: () => boolean): Promise<void> {
    if (intervalMs === undefined) return;
    for (;;) {
      await this.#context.world.sleep(Math.max(intervalMs, MIN_ASK_MS));
      if (!isOpen()) return;
      watch.requestProgress();
    }
  }

  /** Writes a marker again and again, until the watch that waits for it has seen one. */
  async #mark(client: Client, marker: string, isSeen: () => boolean): Promise<void> {
    await this.#context.healed();
    while (!isSeen()) {
      await client.put(marker, '').catch(expected);
      await client.delete(marker).catch(expected);
      await this.#context.world.sleep(1_000);
    }
  }

  /** Checks that the events of a revision are not late for a watch that began at this time. */
  #checkLate(revision: bigint, beganMs: number): void {
    const { cluster, checkLate, count, violated, world } = this.#context;
    const { splitsEvents, progressOvertakes, isProxy } = cluster.traits;
    if (splitsEvents || progressOvertakes || isProxy) return;
    const { ms } = cluster.truth.findLast((event) => event.revision === revision) ?? { ms: 0 };
    const causeMs = Math.max(ms, beganMs);
    checkLate(causeMs, `revision ${revision}`);
    if (!this.#isCalm) return;
    count('event without faults');
    const lateMs = world.now - causeMs;
    if (lateMs > MAX_LATENESS_MS) violated('late event', `revision ${revision}: ${lateMs} ms without faults`);
  }

  #checkProgress(
    revision: bigint,
    only: 'put' | 'delete' | undefined,
    batches: readonly (readonly SeenEvent[])[],
    start: bigint,
  ): void {
    const seen = batches.at(-1)?.at(-1)?.revision ?? start - 1n;
    const missed = this.#truth(seen + 1n, revision, only);
    if (missed[0] === undefined) return;
    const { key, revision: at } = missed[0];
    this.#context.violated('wrong progress', `revision ${revision}, but ${key} at ${at} was not delivered`);
  }

  #truth(from: bigint, to: bigint, only: 'put' | 'delete' | undefined): SeenEvent[] {
    return this.#context.cluster.truth.filter(
      ({ revision, type, key }) =>
        revision >= from && revision <= to && key.startsWith(PREFIX) && (only === undefined || type === only),
    );
  }

  #judge(
    start: bigint | undefined,
    last: bigint,
    only: 'put' | 'delete' | undefined,
    batches: readonly (readonly SeenEvent[])[],
  ): void {
    const first = start ?? batches[0]?.[0]?.revision ?? 0n;
    for (const { rule, detail } of checkWatch(this.#truth(first, last, only), batches))
      this.#context.violated(rule, detail);
  }

  /**
   * Keeps a cached range, and compares it with the store every 400 ms until the faults have ended, and once more at the
   * end.
   */
  async #cache(client: Client, name: string): Promise<void> {
    const { world } = this.#context;
    const cache = await client.cachedRange(prefix(PREFIX)).catch((error: unknown) => void expected(error));
    if (cache === undefined) return;
    let isHealed = false;
    void this.#context.healed().then(() => {
      isHealed = true;
    });
    while (!isHealed) {
      await world.sleep(400);
      this.#compare(cache, name);
    }
    const { header } = await client.range('w', { timeoutMs: 50_000 });
    await cache.waitForRevision(header.revision);
    this.#compare(cache, name);
    await cache.close();
  }

  #compare(cache: CachedRange, name: string): void {
    const expectedKeys = new Map<string, string>();
    for (const { type, key, value } of this.#truth(0n, cache.revision, undefined)) {
      if (type === 'put') expectedKeys.set(key, value);
      else expectedKeys.delete(key);
    }
    const shown = cache.range().map((kv) => `${kv.key}=${kv.text()}`);
    const wanted = [...expectedKeys].map(([key, value]) => `${key}=${value}`).sort();
    if (shown.toSorted().join() !== wanted.join())
      this.#context.violated(
        'wrong cache',
        `${name} at revision ${cache.revision}: ${shown.join()}; expected: ${wanted.join()}`,
      );
  }

  check(): void {}

  mayStay(): boolean {
    return true;
  }
}
