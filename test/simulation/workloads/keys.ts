import { EtcdError } from '../../../src/base/etcd-error.js';
import type { CoreKeyspace } from '../../../src/client/keyspace.js';
import type { KeyValue } from '../../../src/client/kv/key-value.js';
import { fromKey, keyRange, prefix } from '../../../src/client/kv/keys.js';
import type { Client } from '../../../src/extras/full/client.js';
import { createKey, deleteKeyIf, updateKey } from '../../../src/extras/keys/compare-and-set.js';
import { getMany } from '../../../src/extras/keys/get-many.js';
import { json, typed } from '../../../src/extras/keys/typed.js';
import { RateLimiter } from '../../../src/extras/recipes/rate-limiter.js';
import type { ProcessPlan } from '../plan.js';
import { stateAt, textOfState } from '../states.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A conditional write, a read of several keys, or a request for tokens of a rate limiter. */
interface KeyOp {
  readonly type: 'modify' | 'create' | 'update' | 'delete' | 'many' | 'scan' | 'range' | 'take';
  readonly afterMs: number;
  readonly key: number;
  /** Whether the process uses the namespace, or the client with whole keys. */
  readonly isNamespaced: boolean;
  readonly isParallel: boolean;
}

const SPACE = 'n/';
const LIMIT = 'limit';
const PER_SECOND = 2;
const KEYS = 3;

/** Typed keys, conditional writes, reads of several keys and a rate limiter, also in a namespace. */
export const keys: Workload<KeyOp> = {
  name: 'keys',
  weight: 2,
  isUnary: true,
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(2, 9) }, () => ({
        type: random.pick(['modify', 'modify', 'create', 'update', 'delete', 'many', 'scan', 'range', 'take'] as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 3_000)]),
        key: random.below(KEYS),
        isNamespaced: random.chance(0.5),
        isParallel: random.chance(0.3),
      })),
    })),
  begin: (context) => new KeysPlayer(context),
};

class KeysPlayer implements Player<KeyOp> {
  readonly #context: Context<KeyOp>;
  /** The modifications of each counter, by outcome. */
  readonly #modified = new Map<string, { done: number; unknown: number }>();
  #taken = 0;
  #values = 0;

  constructor(context: Context<KeyOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<KeyOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index);
    const parallel: Promise<void>[] = [];
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, each.type);
      const call = this.#call(client, each).catch(expected);
      if (each.isParallel) parallel.push(call);
      else await call;
    }
    await Promise.all(parallel);
  }

  async #call(client: Client, { type, key, isNamespaced }: KeyOp): Promise<void> {
    const space = isNamespaced ? client.namespace(SPACE) : client;
    const start = isNamespaced ? '' : SPACE;
    const name = `${start}u/${key}`;
    switch (type) {
      case 'modify':
        return this.#modify(space, `${start}c/`, String(key));
      case 'create': {
        const value = `v${this.#values++}`;
        const created = await createKey(space, name, value);
        if (created.succeeded) return this.#checkPut(key, value, created.header.revision, undefined);
        return this.#checkKey(key, created.header.revision, created.current);
      }
      case 'update':
        return this.#update(space, name, key);
      case 'delete': {
        const kv = await space.get(name);
        if (kv === undefined) return;
        const deleted = await deleteKeyIf(space, name, { oldValue: kv.text() });
        if (!deleted.succeeded)
          this.#checkKey(key, deleted.header.revision, deleted.reason === 'changed' ? deleted.current : undefined);
        return;
      }
      case 'many': {
        const names = Array.from({ length: KEYS }, (_, number) => `${start}u/${number}`);
        const { header, kvs } = await getMany(space, names, { keysPerTxn: 2 });
        for (const [number, kv] of kvs.entries()) this.#checkKey(number, header.revision, kv);
        return;
      }
      case 'scan':
        return this.#scan(space, start);
      case 'range': {
        const from = space.range(isNamespaced ? fromKey('u/') : keyRange(`${SPACE}u/`, `${SPACE}v`));
        const { header, kvs } = await from;
        return this.#compare(kvs, start, [header.revision]);
      }
      case 'take':
        await new RateLimiter(client, LIMIT, { perSecond: PER_SECOND, burst: 3 }).take(1, { maxWaitMs: 6_000 });
        this.#taken += 1;
    }
  }

  async #modify(space: CoreKeyspace, start: string, name: string): Promise<void> {
    const counter = this.#modified.get(name) ?? { done: 0, unknown: 0 };
    this.#modified.set(name, counter);
    // The outcome stays unknown if the process is killed.
    counter.unknown += 1;
    try {
      const counters = typed(space, start, json(Number));
      const { changed } = await counters.modify(name, (old) => (old?.value ?? 0) + 1);
      if (changed) counter.done += 1;
      counter.unknown -= 1;
    } catch (error) {
      expected(error);
      if (!(error instanceof EtcdError) || error.outcome !== 'unknown') counter.unknown -= 1;
      if (error instanceof EtcdError && error.outcome === 'applied') counter.done += 1;
    }
  }

  async #update(space: CoreKeyspace, name: string, key: number): Promise<void> {
    const kv = await space.get(name);
    if (kv === undefined) return;
    const value = `v${this.#values++}`;
    const updated = await updateKey(space, name, value, { modRevision: kv.modRevision });
    if (updated.succeeded) return this.#checkPut(key, value, updated.header.revision, kv.modRevision);
    this.#checkKey(key, updated.header.revision, updated.reason === 'changed' ? updated.current : undefined);
  }

  /** Checks that a key got this value at `revision`, and that it had the modification revision `before` until then. */
  #checkPut(key: number, value: string, revision: bigint, before: bigint | undefined): void {
    const { cluster, violated } = this.#context;
    const name = `${SPACE}u/${key}`;
    const [old, now] = [revision - 1n, revision].map((at) => stateAt(cluster, name, at).get(name));
    if (now?.value !== value || now.revision !== revision) violated('wrong success', `${name} at revision ${revision}`);
    if (old?.revision !== before)
      violated('wrong condition', `${name} was put at ${old?.revision} instead of ${before}, before ${revision}`);
  }

  /** Checks that a read has returned the key as it was at the revision. */
  #checkKey(key: number, revision: bigint, kv: KeyValue | undefined): void {
    const { cluster, violated } = this.#context;
    const name = `${SPACE}u/${key}`;
    const real = stateAt(cluster, name, revision).get(name);
    if (real?.value !== kv?.text() || real?.revision !== kv?.modRevision)
      violated('wrong read', `${name} at ${revision} is ${kv?.text()} instead of ${real?.value}`);
  }

  async #scan(space: CoreKeyspace, start: string): Promise<void> {
    const { cluster } = this.#context;
    const first = cluster.revision;
    const kvs: KeyValue[] = [];
    for await (const kv of space.scan(prefix(`${start}u/`))) kvs.push(kv);
    const revisions: bigint[] = [];
    for (let revision = first; revision <= cluster.revision; revision += 1n) revisions.push(revision);
    this.#compare(kvs, start, revisions);
  }

  /** Checks that a read has shown the keys as they were at one of these revisions. */
  #compare(kvs: readonly KeyValue[], start: string, revisions: readonly bigint[]): void {
    const { cluster, violated } = this.#context;
    const whole = start === '' ? SPACE : '';
    const shown = kvs.map((kv) => `${whole}${kv.key}=${kv.text()}`).join(' ');
    const isReal = revisions.some((at) => textOfState(stateAt(cluster, `${SPACE}u/`, at)) === shown);
    if (!isReal) violated('wrong range', `${shown}, at one of the revisions ${revisions.join(', ')}`);
  }

  /** The key of the rate limiter expires with its lease. */
  mayLeasesStay(): boolean {
    return true;
  }

  check(): void {
    const { cluster, violated } = this.#context;
    const last = stateAt(cluster, '', cluster.revision);
    for (const [name, { done, unknown }] of this.#modified) {
      const count = Number(last.get(`${SPACE}c/${name}`)?.value ?? 0);
      if (count < done || count > done + unknown)
        violated('wrong count', `${name} is ${count} after ${done} changes and ${unknown} with an unknown outcome`);
    }
    const dues = cluster.truth.filter(({ key }) => key === LIMIT).map(({ value }) => Number(value));
    if (dues.length < this.#taken) violated('unpaid token', `${this.#taken} tokens, ${dues.length} reservations`);
    for (const [at, due] of dues.entries())
      if (at > 0 && due - (dues[at - 1] as number) < 1e6 / PER_SECOND - 1)
        violated('tokens too close', `${dues[at - 1]} and ${due}`);
  }

  mayStay(): boolean {
    return true;
  }
}
