import { EtcdError } from '../../../src/base/etcd-error.js';
import type { KeyValue } from '../../../src/client/kv/key-value.js';
import type { Client } from '../../../src/extras/full/client.js';
import { Election, observe } from '../../../src/locks/election.js';
import { inspectLock } from '../../../src/locks/inspect-lock.js';
import { lead } from '../../../src/locks/lead.js';
import { Session } from '../../../src/locks/session.js';
import type { ProcessPlan } from '../plan.js';
import { stateAt } from '../states.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A candidacy, or a read of the election. */
interface ElectionOp {
  readonly type: 'lead' | 'campaign' | 'observe' | 'leader' | 'inspect';
  readonly afterMs: number;
  /** How long the process leads. */
  readonly holdMs: number;
  /** Number of values that the leader proclaims. */
  readonly proclaims: number;
  /** Whether the program restarts while it leads, and resumes its leadership. */
  readonly resumes: boolean;
  readonly isParallel: boolean;
}

/** The key of a leader, with one of its values. */
interface Leader {
  readonly key: string;
  readonly modRevision: bigint;
  readonly fromMs: number;
  untilMs: number;
}

/** A time during which a process considered itself the leader. */
interface Leading {
  readonly token: bigint;
  readonly fromMs: number;
  untilMs: number;
}

const NAME = 'e/leader';
const TTL_S = 2;
/** How long an observer may take to see the leader after the faults have ended, in milliseconds. */
const OBSERVED_MS = 12_000;

/** Elections: `lead`, `observe`, `leader`, `resume` and `inspectLock`. */
export const elections: Workload<ElectionOp> = {
  name: 'observed election',
  toleratesCopies: true,
  weight: 2,
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(1, 6) }, () => ({
        type: random.pick(['lead', 'campaign', 'campaign', 'observe', 'leader', 'inspect'] as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
        holdMs: random.pick([0, random.magnitude(1, 4_000)]),
        proclaims: random.below(3),
        resumes: random.chance(0.4),
        isParallel: random.chance(0.3),
      })),
    })),
  begin: (context) => new Elections(context),
};

class Elections implements Player<ElectionOp> {
  readonly #context: Context<ElectionOp>;
  readonly #terms: Leading[] = [];
  readonly #observed: { readonly process: number; readonly leaders: KeyValue[] }[] = [];
  #values = 0;

  constructor(context: Context<ElectionOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<ElectionOp>): Promise<void> {
    const { world, waits, healed } = this.#context;
    const client = this.#context.client(index);
    const stop = new AbortController();
    const observers: Promise<void>[] = [];
    const parallel: Promise<void>[] = [];
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, each.type);
      if (each.type === 'observe') {
        observers.push(this.#observe(client, index, stop.signal));
        continue;
      }
      const call = this.#call(client, each).catch(expected);
      if (each.isParallel) parallel.push(call);
      else await call;
    }
    await Promise.all(parallel);
    await healed();
    waits(index, 'its observers');
    await world.sleep(OBSERVED_MS);
    stop.abort();
    await Promise.all(observers);
  }

  async #call(client: Client, each: ElectionOp): Promise<void> {
    switch (each.type) {
      case 'lead':
        return this.#lead(client, each);
      case 'campaign':
        return this.#campaign(client, each);
      case 'leader':
        return this.#leader(client);
      default:
        return this.#inspect(client);
    }
  }

  async #lead(client: Client, { holdMs, proclaims }: ElectionOp): Promise<void> {
    const { world, violated } = this.#context;
    let running = 0;
    const led = await lead(client, NAME, { value: this.#value(), ttl: TTL_S }, async ({ signal, held }) => {
      running += 1;
      if (running > 1) violated('two terms', `${held.key} leads while another term of the same call runs`);
      const term = this.#begins(held.token, held.valid());
      for (let number = 0; number < proclaims; number += 1) {
        await held.proclaim(this.#value()).catch(expected);
        this.#goesOn(term, held.valid() && !signal.aborted);
      }
      await world.sleep(holdMs);
      this.#goesOn(term, held.valid() && !signal.aborted);
      running -= 1;
      return 'led';
    });
    if (led !== 'led') violated('lead ended', 'without a result, although nothing had stopped it');
  }

  async #campaign(client: Client, { holdMs, proclaims, resumes }: ElectionOp): Promise<void> {
    const { world } = this.#context;
    let session = await Session.open(client, { ttl: TTL_S });
    try {
      let leadership = await new Election(session, NAME).campaign(this.#value());
      const { token } = leadership;
      const term = this.#begins(token, leadership.valid());
      for (let number = 0; number < proclaims; number += 1) await leadership.proclaim(this.#value()).catch(expected);
      this.#goesOn(term, leadership.valid());
      if (resumes) {
        const { leaseId } = session;
        await session.orphan();
        session = await Session.open(client, { lease: leaseId });
        leadership = await this.#resume(session, token);
        this.#goesOn(term, leadership.valid());
      }
      await world.sleep(holdMs);
      this.#goesOn(term, leadership.valid());
      await leadership.resign();
    } finally {
      await session.close().catch(expected);
    }
  }

  async #resume(session: Session, token: bigint): ReturnType<Election['resume']> {
    const { cluster, violated } = this.#context;
    try {
      return await new Election(session, NAME).resume(token);
    } catch (error) {
      const [first] = this.#queueAt(cluster.revision);
      if (error instanceof EtcdError && error.reason === 'LockLost' && first?.createRevision === token)
        violated('leadership not resumed', `of token ${token}, although its key leads`);
      throw error;
    }
  }

  async #leader(client: Client): Promise<void> {
    const { world, violated } = this.#context;
    const session = await Session.open(client, { ttl: TTL_S });
    try {
      const fromMs = world.time;
      const kv = await new Election(session, NAME).leader();
      if (kv === undefined) return;
      const leader = this.#leaders().find(({ key, modRevision }) => key === kv.key && modRevision === kv.modRevision);
      if (leader === undefined || leader.untilMs < fromMs)
        violated('wrong leader', `${kv.key} at ${kv.modRevision} did not lead at ${fromMs}`);
    } finally {
      await session.close().catch(expected);
    }
  }

  async #inspect(client: Client): Promise<void> {
    const { header, holder, waiters } = await inspectLock(client, NAME);
    const shown = [holder, ...waiters].flatMap((each) => (each === undefined ? [] : [each.token])).join();
    const wanted = this.#queueAt(header.revision).map(({ createRevision }) => createRevision);
    if (shown !== wanted.join())
      this.#context.violated('wrong queue', `${shown} at revision ${header.revision} instead of ${wanted.join()}`);
  }

  async #observe(client: Client, process: number, signal: AbortSignal): Promise<void> {
    const leaders: KeyValue[] = [];
    this.#observed.push({ process, leaders });
    const begunMs = this.#context.world.time;
    try {
      for await (const leader of observe(client, NAME, { signal })) leaders.push(leader);
    } catch (error) {
      expected(error);
      if (signal.aborted) this.#checkLast(process, leaders.at(-1), begunMs);
    }
  }

  /**
   * Checks that an observer has seen the latest value of the leader. Checks nothing if the observer has observed the
   * election for less than `OBSERVED_MS`, or if the value has changed in this time.
   */
  #checkLast(process: number, last: KeyValue | undefined, begunMs: number): void {
    const { time } = this.#context.world;
    if (time - begunMs < OBSERVED_MS) return;
    const recent = this.#leaders().filter(({ untilMs }) => untilMs > time - OBSERVED_MS);
    const steady = recent.find(({ fromMs, untilMs }) => fromMs <= time - OBSERVED_MS && untilMs >= time);
    if (steady !== undefined && last?.modRevision !== steady.modRevision)
      this.#context.violated('leader not observed', `${steady.key} by process ${process}, which saw ${last?.key}`);
  }

  #value(): string {
    return `v${this.#values++}`;
  }

  /**
   * Records a term. The term is empty if its process was stopped between the answer and the check, and has lost the
   * leadership.
   */
  #begins(token: bigint, isValid: boolean): Leading {
    const { time } = this.#context.world;
    const term = { token, fromMs: time, untilMs: isValid ? time : Number.NEGATIVE_INFINITY };
    this.#terms.push(term);
    return term;
  }

  #goesOn(term: Leading, isValid: boolean): void {
    if (isValid) term.untilMs = this.#context.world.time;
  }

  /** The contenders at a revision, in order. */
  #queueAt(revision: bigint): readonly { readonly key: string; readonly createRevision: bigint }[] {
    const queue = [...stateAt(this.#context.cluster, `${NAME}/`, revision).values()];
    return queue.sort((a, b) => Number(a.createRevision - b.createRevision));
  }

  /** The leaders so far, one for each value of each leader, in order. */
  #leaders(): Leader[] {
    const truth = this.#context.cluster.truth.filter(({ key }) => key.startsWith(`${NAME}/`));
    const leaders: Leader[] = [];
    const keys = new Map<string, { readonly createRevision: bigint; readonly modRevision: bigint }>();
    for (const [at, { type, key, ms, revision, createRevision }] of truth.entries()) {
      if (type === 'put') keys.set(key, { createRevision, modRevision: revision });
      else keys.delete(key);
      if (truth[at + 1]?.revision === revision) continue;
      let first: [string, { readonly createRevision: bigint; readonly modRevision: bigint }] | undefined;
      for (const each of keys)
        if (first === undefined || each[1].createRevision < first[1].createRevision) first = each;
      const last = leaders.at(-1);
      if (
        last?.untilMs === Number.POSITIVE_INFINITY &&
        last.key === first?.[0] &&
        last.modRevision === first[1].modRevision
      )
        continue;
      if (last !== undefined) last.untilMs = Math.min(last.untilMs, ms);
      if (first !== undefined)
        leaders.push({
          key: first[0],
          modRevision: first[1].modRevision,
          fromMs: ms,
          untilMs: Number.POSITIVE_INFINITY,
        });
    }
    return leaders;
  }

  check(): void {
    const { violated, plan } = this.#context;
    const leaders = this.#leaders();
    for (const one of this.#terms)
      for (const other of this.#terms)
        if (one.token !== other.token && one.fromMs < other.untilMs && other.fromMs < one.untilMs)
          violated('two leaders', `${one.token} and ${other.token}`);
    const misses = plan.faults.some(({ kind }) => kind === 'compact');
    for (const { process, leaders: seen } of this.#observed) {
      let before: number | undefined;
      for (const kv of seen) {
        const at = leaders.findIndex(({ key, modRevision }) => key === kv.key && modRevision === kv.modRevision);
        if (at < 0) violated('invented leader', `${kv.key} at ${kv.modRevision} for process ${process}`);
        else if (before !== undefined && at <= before)
          violated('old leader', `${kv.key} at ${kv.modRevision} for process ${process}`);
        else if (before !== undefined && at > before + 1 && !misses)
          violated('missed leader', `${leaders[before + 1]?.key}, before ${kv.key}, for process ${process}`);
        before = at;
      }
    }
  }

  mayStay(): boolean {
    return false;
  }
}
