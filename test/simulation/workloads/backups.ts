import { EtcdError } from '../../../src/base/etcd-error.js';
import { prefix } from '../../../src/client/kv/keys.js';
import type { Client } from '../../../src/extras/full/client.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A put, or a watch until the end of the history. */
interface BackupOp {
  readonly type: 'put' | 'watch';
  readonly afterMs: number;
}

const PREFIX = 'k/';
/** How long a watch may take to end after its client has learned that the store went back, in milliseconds. */
const END_MS = 30_000;

/** A watch of one process. */
interface Watching {
  /** Whether the client has learned that the store went back since the watch began. */
  mustEnd: boolean;
  /** The last revision that the watch has delivered. */
  last: bigint;
  isOver: boolean;
}

/** Watches and puts while the cluster is restored from an older backup, or an endpoint belongs to another cluster. */
export const backups: Workload<BackupOp> = {
  name: 'backup',
  weight: 1,
  without: ['kill', 'duplicate request', 'late request', 'delay response', 'delay request'],
  isRestored: true,
  generate: (random) =>
    Array.from({ length: random.between(1, 2) }, () => ({
      ops: Array.from({ length: random.between(2, 10) }, () => ({
        type: random.pick(['put', 'put', 'put', 'watch'] as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 3_000)]),
      })),
    })),
  begin: (context) => new Backups(context),
};

class Backups implements Player<BackupOp> {
  readonly #context: Context<BackupOp>;
  readonly #watches: Watching[][] = [];
  /** The maximum revision that each process has seen. */
  readonly #seen: bigint[] = [];
  /**
   * The cluster that has answered the first put of each process. The client cannot know whether this is the other
   * cluster.
   */
  readonly #cluster: (bigint | undefined)[] = [];

  constructor(context: Context<BackupOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<BackupOp>): Promise<void> {
    const { world, waits, violated } = this.#context;
    const client = this.#context.client(index);
    this.#watches[index] = [];
    this.#seen[index] = 0n;
    for (const { type, afterMs } of ops) {
      if (afterMs > 0) await world.sleep(afterMs);
      waits(index, type);
      if (type === 'put') await this.#put(client, index);
      else void this.#watch(client, index);
    }
    await this.#context.healed();
    waits(index, 'a put');
    await this.#put(client, index);
    await world.sleep(END_MS);
    for (const watching of this.#watches[index] ?? [])
      if (watching.mustEnd && !watching.isOver) violated('watch goes on', `of process ${index} after a restore`);
  }

  async #put(client: Client, index: number): Promise<void> {
    const seenBefore = this.#seen[index] ?? 0n;
    // The put gets a higher revision than every revision that was seen before the put, unless the store has gone back.
    const positions = (this.#watches[index] ?? []).map((watching) => ({ watching, last: watching.last }));
    try {
      const { header } = await client.put(`${PREFIX}${index}`, 'v');
      this.#cluster[index] ??= header.clusterId;
      const went = header.revision < seenBefore;
      if (!went) return this.#saw(index, header.revision);
      this.#seen[index] = header.revision;
      for (const { watching, last } of positions) if (last > header.revision) watching.mustEnd = true;
    } catch (error) {
      expected(error);
    }
  }

  #saw(index: number, revision: bigint): void {
    if (revision > (this.#seen[index] ?? 0n)) this.#seen[index] = revision;
  }

  async #watch(client: Client, index: number): Promise<void> {
    const { cluster, violated } = this.#context;
    const watching: Watching = { mustEnd: false, last: 0n, isOver: false };
    this.#watches[index]?.push(watching);
    try {
      for await (const { revision, events } of client.watch(prefix(PREFIX)).batches()) {
        if (watching.mustEnd) violated('watch goes on', `of process ${index} at revision ${revision} after a restore`);
        if (revision <= watching.last) violated('reordered', `revision ${revision} after ${watching.last}`);
        const isForeign = events.some((event) => event.type === 'put' && event.kv.text() === 'foreign');
        if (isForeign && this.#cluster[index] === cluster.server.member.clusterId)
          violated('foreign cluster', `an event at revision ${revision}`);
        watching.last = revision;
        this.#saw(index, revision);
      }
    } catch (error) {
      if (!(error instanceof EtcdError) || error.reason === 'InvalidInput') throw error;
    } finally {
      watching.isOver = true;
    }
  }

  check(): void {}

  mayStay(): boolean {
    return true;
  }
}
