import { EtcdError } from '../../../src/base/etcd-error.js';
import type { CoreKeyspace } from '../../../src/client/keyspace.js';
import { prefix } from '../../../src/client/kv/keys.js';
import type { Client } from '../../../src/extras/full/client.js';
import { json, type TypedChange, typed } from '../../../src/extras/keys/typed.js';
import type { MirrorOptions } from '../../../src/extras/ranges/mirror.js';
import { Service, type ServiceEndpoint } from '../../../src/extras/recipes/service.js';
import { SelfHealingSession } from '../../../src/locks/self-healing-session.js';
import { Session } from '../../../src/locks/session.js';
import type { ProcessPlan } from '../plan.js';
import { stateAt, textOfState } from '../states.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A write, a registration, a snapshot, or a view of the range that the process keeps until the end of the history. */
interface ViewOp {
  readonly type: 'put' | 'delete' | 'register' | 'mirror' | 'changes' | 'service view' | 'service watch' | 'snapshot';
  readonly afterMs: number;
  readonly key: number;
  /** Whether a view uses a namespace, or a registration uses a `SelfHealingSession`. */
  readonly variant: boolean;
  /**
   * A mirror begins again after this number of revisions, from the last revision that it has shown. Undefined if the
   * mirror does not begin again.
   */
  readonly restartsAfter: number | undefined;
}

const TARGET = 'v/web';
const KEYS = 3;
/** The interval, in milliseconds, at which a process checks whether a view shows the marker. */
const LOOK_MS = 250;

/** Mirrors, cached ranges with their changes, and services: each shows only states that the store has had. */
export const views: Workload<ViewOp> = {
  name: 'views',
  toleratesCopies: true,
  weight: 3,
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, (_, index) => ({
      ops: Array.from({ length: random.between(1, 7) }, () => ({
        type: random.chance(index === 0 ? 0.2 : 0.5)
          ? random.pick([
              'mirror',
              'mirror',
              'changes',
              'changes',
              'service view',
              'service watch',
              'snapshot',
            ] as const)
          : random.pick(['put', 'put', 'delete', 'register'] as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
        key: random.below(KEYS),
        variant: random.chance(0.5),
        restartsAfter: random.chance(0.4) ? random.below(4) : undefined,
      })),
    })),
  begin: (context) => new Views(context),
};

class Views implements Player<ViewOp> {
  readonly #context: Context<ViewOp>;
  #values = 0;

  constructor(context: Context<ViewOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<ViewOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index);
    const running: Promise<void>[] = [];
    for (const [number, each] of ops.entries()) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, each.type);
      const marker = `${TARGET}/marker-${index}-${number}`;
      const view = this.#view(client, marker, each);
      if (view === undefined) await this.#write(client, each).catch(expected);
      else running.push(view);
    }
    await Promise.all(running);
  }

  #view(client: Client, marker: string, each: ViewOp): Promise<void> | undefined {
    const [space, start] = each.variant ? [client.namespace('v/'), 'v/'] : [client, ''];
    switch (each.type) {
      case 'mirror':
        return this.#runUntilMarked(client, marker, () => this.#mirror(client, marker, each));
      case 'changes':
        return this.#runUntilMarked(client, marker, () => this.#changes(space, start, marker));
      case 'service view':
        return this.#runUntilMarked(client, marker, () => this.#serviceView(space, start, marker));
      case 'service watch':
        return this.#runUntilMarked(client, marker, () => this.#serviceWatch(space, start, marker));
      default:
        return undefined;
    }
  }

  async #write(client: Client, { type, key, variant }: ViewOp): Promise<void> {
    const name = `${TARGET}/${key}`;
    switch (type) {
      case 'put':
        await client.put(name, this.#value());
        return;
      case 'delete':
        await client.delete(name);
        return;
      case 'snapshot': {
        const [url = ''] = client.endpoints;
        await client.maintenance
          .snapshot(url)
          .writeTo({ write: () => {} })
          .catch((error: unknown) => {
            // The client opens the stream again after a failure. The client then refuses an endpoint that was removed
            // in between.
            if (!(error instanceof EtcdError) || client.endpoints.includes(url)) throw error;
          });
        return;
      }
      default:
        return this.#register(client, key, variant);
    }
  }

  async #register(client: Client, key: number, heals: boolean): Promise<void> {
    const session = await (heals ? SelfHealingSession.open(client, { ttl: 2 }) : Session.open(client, { ttl: 2 }));
    try {
      const service = new Service(client, TARGET);
      const registration = await service.register(session, `own-${key}`, { address: `host-${this.#values++}` });
      await this.#context.world.sleep(500);
      await registration.close();
    } finally {
      await session.close().catch(expected);
    }
  }

  /**
   * Writes a marker after the faults have ended, until the view has shown it. Opens the view again if it has failed.
   */
  async #runUntilMarked(client: Client, marker: string, view: () => Promise<void>): Promise<void> {
    const { world, healed } = this.#context;
    let isSeen = false;
    const mark = async (): Promise<void> => {
      await healed();
      while (!isSeen) {
        await client.put(marker, this.#value()).catch(expected);
        await world.sleep(1_000);
      }
    };
    const marking = mark();
    while (!isSeen)
      await view().then(
        () => {
          isSeen = true;
        },
        async (error: unknown) => {
          expected(error);
          await world.sleep(LOOK_MS);
        },
      );
    await marking;
  }

  /** Follows a mirror. Each state that it shows must be the state of the store at its revision. */
  async #mirror(client: Client, marker: string, { restartsAfter, variant }: ViewOp): Promise<void> {
    const shown = new Map<string, { readonly value: string }>();
    let [fromRevision, clusterId, left] = [0n, 0n, restartsAfter];
    for (;;) {
      const options: MirrorOptions = { fromRevision, clusterId, prevKv: variant };
      let isWhole = fromRevision !== 0n;
      for await (const message of client.mirror(prefix(`${TARGET}/`), options)) {
        if (message.type === 'resync') {
          shown.clear();
          isWhole = false;
          continue;
        }
        if (message.type === 'keys') for (const kv of message.kvs) shown.set(kv.key, { value: kv.text() });
        if (message.type === 'events')
          for (const event of message.events) {
            if (event.type === 'put') shown.set(event.key, { value: event.kv.text() });
            else shown.delete(event.key);
          }
        if (message.type === 'synced') isWhole = true;
        if (!isWhole) continue;
        this.#compare('mirror', shown, message.revision);
        if (shown.has(marker)) return;
        fromRevision = message.revision;
        if (message.type !== 'keys') this.#checkCluster(message.clusterId);
        if (left !== undefined && --left < 0) break;
      }
      if (left === undefined || left >= 0) throw new Error('the mirror ended');
      left = undefined;
      // A mirror of another cluster's state must begin again.
      clusterId = variant ? 1n : this.#context.cluster.server.member.clusterId;
    }
  }

  #checkCluster(clusterId: bigint): void {
    if (clusterId !== this.#context.cluster.server.member.clusterId)
      this.#context.violated('wrong cluster', `${clusterId}`);
  }

  /** Follows the changes of a cached range. Together, they must give the state of the range. */
  async #changes(space: CoreKeyspace, start: string, marker: string): Promise<void> {
    const { violated } = this.#context;
    const keys = typed(
      space,
      `${TARGET.slice(start.length)}/`,
      json((value) => JSON.stringify(value)),
    );
    await using range = await keys.cachedRange();
    const { cached } = range;
    const shown = new Map<string, { readonly value: string }>();
    const name = marker.slice(TARGET.length + 1);
    for await (const { type, name: changed, kv, old } of range.changes({ initial: true }) as AsyncIterable<
      TypedChange<string>
    >) {
      if (old?.kv.text() !== shown.get(changed)?.value)
        violated('wrong change', `${changed} was ${shown.get(changed)?.value}, but the change says ${old?.kv.text()}`);
      if (type === 'put' && kv !== undefined) shown.set(changed, { value: kv.kv.text() });
      else shown.delete(changed);
      if (cached.state.status === 'current' && cached.size !== range.range().length)
        violated('wrong size', `${cached.size} keys`);
      if (changed === name) break;
    }
    await cached.catchUp({ timeoutMs: 60_000 });
    const state = cached.range().map((kv) => [start + kv.key, { value: kv.text() }] as const);
    this.#compare('cached range', new Map(state), cached.revision);
    if (cached.get(marker.slice(start.length)) === undefined) violated('lost key', `${marker} after catchUp`);
  }

  async #serviceView(space: CoreKeyspace, start: string, marker: string): Promise<void> {
    const { world, violated } = this.#context;
    const service = new Service(space, TARGET.slice(start.length));
    await using view = await service.view({ picking: start === '' ? 'least-used' : 'round-robin' });
    const name = marker.slice(TARGET.length + 1);
    while (!view.endpoints.has(name)) {
      using picked = view.pick();
      if (picked !== undefined && !view.endpoints.has(picked.id)) violated('wrong pick', picked.id);
      await world.sleep(LOOK_MS);
    }
    this.#compareService(view.endpoints, '');
  }

  async #serviceWatch(space: CoreKeyspace, start: string, marker: string): Promise<void> {
    const endpoints = new Map<string, ServiceEndpoint>();
    const own = TARGET.slice(start.length);
    const service = new Service(space, own);
    for await (const updates of service.watch()) {
      for (const update of updates) {
        if (update.type === 'add') endpoints.set(update.key, update.endpoint);
        else if (!endpoints.delete(update.key)) this.#context.violated('wrong update', `deletion of ${update.key}`);
      }
      this.#compareService(endpoints, `${own}/`);
      if (endpoints.has(marker.slice(start.length))) break;
    }
    await service.list();
  }

  /** Checks that the endpoints are those of some revision. */
  #compareService(endpoints: ReadonlyMap<string, ServiceEndpoint>, start: string): void {
    const { cluster, violated } = this.#context;
    const shown = [...endpoints]
      .map(([key, { address }]) => `${key.slice(start.length)}=${address}`)
      .sort()
      .join(' ');
    for (let revision = cluster.revision; revision > 0n; revision -= 1n) {
      const state = [...stateAt(cluster, `${TARGET}/`, revision)].map(
        ([key, { value }]) => `${key.slice(TARGET.length + 1)}=${JSON.parse(value).Addr}`,
      );
      if (state.sort().join(' ') === shown) return;
    }
    violated('wrong endpoints', shown);
  }

  #compare(what: string, shown: ReadonlyMap<string, { readonly value: string }>, revision: bigint): void {
    const { cluster, violated } = this.#context;
    const [has, should] = [
      textOfState(new Map([...shown].sort(([a], [b]) => (a < b ? -1 : 1)))),
      textOfState(stateAt(cluster, `${TARGET}/`, revision)),
    ];
    if (has !== should) violated(`wrong ${what}`, `at revision ${revision}: ${has}; expected: ${should}`);
  }

  #value(): string {
    return JSON.stringify({ Op: 0, Addr: `host-${this.#values++}`, Metadata: null });
  }

  check(): void {}

  mayStay(key: string): boolean {
    return !key.startsWith(`${TARGET}/own-`);
  }
}
