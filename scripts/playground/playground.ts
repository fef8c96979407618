import { EventType } from '../../src/gen/mvccpb/kv.js';
import type { WireFrame, WireMessage } from '../../src/inspect/frames.js';
import { prefix } from '../../src/kv/keys.js';
import { textOf } from '../../src/runtime/bytes.js';
import { replaceEnvironment } from '../../src/runtime/environment.js';
import type { Commit } from '../../src/testing/memory/change.js';
import type { Clock } from '../../src/testing/memory/clock.js';
import { KeyRange, keyId } from '../../src/testing/memory/key-range.js';
import { MemoryEtcd } from '../../src/testing/memory/memory-etcd.js';
import { Random } from '../../test/support/simulation/random.js';
import { World } from '../../test/support/simulation/world.js';
import { LEDGER, LOCK } from './application.js';
import { PlayClient, SLICE_MS } from './play-client.js';

// The world of the playground, without its page: one etcd in memory, three clients, and the network between them. All
// of them use a simulated time. The page can stop this time, and a test can let it pass faster than real time.

/** Maximum number of messages and events in the trace, and also the maximum number of frames and renewals. */
export const MAX_STEPS = 600;
/** Maximum number of commits that the playground keeps. */
const MAX_COMMITS = 14;

/** A row of the trace. */
export interface Step {
  readonly id: number;
  /** Simulated milliseconds since the start. */
  readonly atMs: number;
  /** The name of the client whose message or event it is. Undefined for an event of etcd. */
  readonly client: string | undefined;
  /** Whether the client sent the message, received it, or neither. */
  readonly direction: 'sent' | 'received' | 'none';
  readonly label: string;
  /** The message in the words of the protocol. */
  readonly protocol: string;
  /** `event` is what happens at a client or at etcd. `fault` is what the visitor or a story did. */
  readonly kind: 'message' | 'renewal' | 'failure' | 'frame' | 'held' | 'event' | 'fault';
  readonly frame: WireFrame | undefined;
  readonly message: WireMessage | undefined;
  /** How the frame changes the flow-control windows. Empty if it changes none. */
  readonly windows: string;
}

/** A contender in the queue of the lock. */
export interface Contender {
  readonly client: string;
  readonly key: string;
  readonly createRevision: bigint;
}

/** A lease, and the keys that end with it. */
export interface LeaseView {
  readonly id: bigint;
  /** The name of the client that has granted the lease. */
  readonly client: string;
  readonly ttlSeconds: number;
  readonly remainingSeconds: number;
  readonly keys: readonly string[];
}

/** A commit of the store, and when it was made. */
export interface CommitView {
  readonly atMs: number;
  readonly revision: bigint;
  readonly changes: readonly { readonly type: 'put' | 'delete'; readonly key: string; readonly value: string }[];
}

export class Playground {
  readonly world: World;
  readonly server: MemoryEtcd;
  readonly clients: readonly PlayClient[];
  readonly steps: Step[] = [];
  readonly commits: CommitView[] = [];
  readonly clock: Clock;
  /** The simulated time at the start, on the clock of the frames. */
  readonly startMs: number;
  readonly #restore: () => void;
  /** The clients by the IDs of their leases, in hexadecimal as in the queue keys. */
  readonly leaseNames = new Map<string, string>();
  #isClosed = false;
  /** Number of calls that etcd handles at this moment. If it is 0, a commit comes from a lease that has expired. */
  #calls = 0;
  #lastStep = 0;
  #advancing: Promise<unknown> = Promise.resolve();

  /** `startTask` runs a function in a separate task, after all promise callbacks. */
  constructor(startTask: (task: () => void) => void, seed = 1) {
    this.world = new World(new Random(seed), { startTask });
    this.startMs = this.world.now;
    this.#restore = replaceEnvironment(this.world.environment());
    const { world } = this;
    this.clock = {
      now: () => world.now,
      after: (delayMs, action) => world.at(world.now + delayMs, world.outside, 'timer', 'of etcd', action),
    };
    this.server = new MemoryEtcd({ clock: this.clock, random: () => world.random.fraction() });
    const { store } = this.server.member;
    store.onCommit((commit) => this.#onCommit(commit));
    store.onCompaction((revision) =>
      this.note(undefined, 'event', `etcd forgets all revisions before ${revision} (compaction)`),
    );
    this.clients = ['A', 'B', 'C'].map((name) => new PlayClient(this, name));
  }

  /** Simulated milliseconds since the start. */
  get nowMs(): number {
    return this.world.now - this.startMs;
  }

  /** Lets simulated time pass, and runs what is due in it. Does nothing after `close`. */
  advance(ms: number): Promise<void> {
    const advanced = this.#advancing.then(async () => {
      const until = this.world.now + ms;
      while (this.world.now < until && !this.#isClosed) {
        const end = Math.min(until, this.world.now + SLICE_MS);
        for (const client of this.clients) client.stayPaused(end);
        await this.world.run(() => this.#isClosed, end);
        this.world.now = Math.max(this.world.now, end);
      }
    });
    this.#advancing = advanced;
    return advanced;
  }

  /** The queue of the lock, its holder first. */
  get queue(): readonly Contender[] {
    const { key, rangeEnd } = prefix(`${LOCK}/`);
    return this.server.member.store
      .range(new KeyRange(key, rangeEnd))
      .toSorted((a, b) => (a.createRevision < b.createRevision ? -1 : 1))
      .map((kv) => {
        const [name, key] = [textOf(kv.value), textOf(kv.key)];
        const isCurrent = this.clients.some(({ app }) => app.queueKey === key);
        const client = isCurrent ? name : `${name} (an earlier session)`;
        return { client, key, createRevision: kv.createRevision };
      });
  }

  /** Returns the client of a queue key, also after the client has left the queue. */
  nameOf(queueKey: string): string | undefined {
    return this.leaseNames.get(queueKey.slice(LOCK.length + 1));
  }

  get leases(): readonly LeaseView[] {
    const { leases } = this.server.member;
    return leases.snapshot().map(({ id, ttlSeconds }) => ({
      id,
      client: this.leaseNames.get(id.toString(16)) ?? '',
      ttlSeconds: Number(ttlSeconds),
      remainingSeconds: Number(leases.timeToLive(id)?.remaining ?? 0n),
      keys: leases.keysOf(id).map((key) => textOf(key)),
    }));
  }

  /** The value of the ledger, and how often it was put. */
  get ledger(): { readonly value: string; readonly version: bigint } | undefined {
    const kv = this.server.member.store.get(keyId(new TextEncoder().encode(LEDGER)));
    return kv && { value: textOf(kv.value), version: kv.version };
  }

  /** Forgets the history before the current revision, as the command `etcdctl compaction` does. */
  compact(): void {
    this.world.soon(this.world.outside, 'compacts', () => {
      const { store } = this.server.member;
      if (store.revision > store.compacted) store.compact(store.revision);
    });
  }

  /** Adds a step to the trace that is not a message. */
  note(client: string | undefined, kind: Step['kind'], label: string): void {
    this.add({
      client,
      direction: 'none',
      label,
      protocol: '',
      kind,
      frame: undefined,
      message: undefined,
      windows: '',
    });
  }

  add(step: Omit<Step, 'id' | 'atMs'>): void {
    this.#lastStep += 1;
    this.steps.push({ ...step, id: this.#lastStep, atMs: this.nowMs });
    // Remove the oldest step of the same group. Otherwise, the many renewals and frames would push out the other steps.
    const isAlike = (each: Step): boolean => isMinor(each) === isMinor(step);
    if (this.steps.filter(isAlike).length > MAX_STEPS) this.steps.splice(this.steps.findIndex(isAlike), 1);
  }

  /** Runs a handler of etcd. */
  serve<T>(handle: () => T): T {
    this.#calls += 1;
    try {
      return handle();
    } finally {
      this.#calls -= 1;
    }
  }

  /** Ends the simulated time. Nothing in this world happens after this. */
  close(): void {
    this.#isClosed = true;
    for (const { process } of this.clients) process.isKilled = true;
    this.#restore();
  }

  #onCommit({ revision, changes }: Commit): void {
    const views = changes.map(({ type, kv }) => ({
      type: type === EventType.DELETE ? ('delete' as const) : ('put' as const),
      key: textOf(kv.key),
      value: textOf(kv.value),
    }));
    this.commits.push({ atMs: this.nowMs, revision, changes: views });
    if (this.commits.length > MAX_COMMITS) this.commits.shift();
    if (this.#calls > 0) return;
    const keys = views.map(({ key }) => key).join(', ');
    this.note(undefined, 'event', `a lease has expired; etcd deletes ${keys}`);
  }
}

/** Whether a page shows the step only on request. */
export function isMinor({ kind }: Pick<Step, 'kind'>): boolean {
  return kind === 'frame' || kind === 'renewal';
}
