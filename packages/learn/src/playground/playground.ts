import {
  type Clock,
  type Commit,
  EventType,
  KeyRange,
  keyId,
  MemoryEtcd,
  type MemoryMember,
  prefix,
  replaceEnvironment,
  textOf,
} from '../../../../src/internal.js';
import { Random } from '../../../../test/simulation/random.js';
import { World } from '../../../../test/simulation/world.js';
import type { WireFrame, WireMessage } from '../../../cli/src/index.js';
import { LEDGER, LOCK } from './application.js';
import { isGuardKey, shortKey } from './key-names.js';
import { tapMembers } from './member-messages.js';
import { PlayClient, SLICE_MS } from './play-client.js';

// The world of the playground, without its page: an etcd in memory, three clients, and the network between them. All of
// them use a simulated time. The page can stop this time, and a test can let it pass faster than real time.

/** Maximum number of messages and events in the trace, and also the maximum number of frames and renewals. */
export const MAX_STEPS = 600;
/** Maximum number of commits that the playground keeps. */
const MAX_COMMITS = 200;
/** The lane of an etcd with one member. */
const ETCD = 'etcd';
/** With this seed, m0 leads three members at the start. */
const SEED = 1;

/** Number of members of the etcd. */
export type Members = 1 | 3;

/** A row of the trace. */
export interface Step {
  readonly id: number;
  /** Simulated milliseconds since the start. */
  readonly atMs: number;
  /** The name of the client whose message or event it is. Undefined for a message or an event of etcd. */
  readonly client: string | undefined;
  /** The lanes of the sender and of the receiver. They are equal if the step is not a message. */
  readonly from: string;
  readonly to: string;
  readonly label: string;
  /** The message in the words of the protocol. */
  readonly protocol: string;
  /**
   * `event` is what happens at a client or at etcd. `fault` is what the visitor or a story did. `raft` is a message
   * between two members. `lost` is a message that does not arrive.
   */
  readonly kind: 'message' | 'renewal' | 'failure' | 'frame' | 'held' | 'event' | 'fault' | 'raft' | 'lost';
  /** The number of the scene of a story, from 1. 0 outside of stories. */
  readonly scene: number;
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

/** A lease of the store. */
export interface LeaseView {
  readonly id: bigint;
  /** The name of the client that has granted the lease. */
  readonly client: string;
  readonly ttlSeconds: number;
  /** Undefined while no member leads, because only the leader lets leases expire. */
  readonly remainingSeconds: number | undefined;
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
  /** The scene that a story plays. It becomes a part of each step. */
  scene = 0;
  /** When the trace last got a step that is not minor, in simulated milliseconds since the start. */
  lastStepMs = 0;
  readonly #restore: () => void;
  /** The clients by the IDs of their leases, in hexadecimal as in the queue keys. */
  readonly leaseNames = new Map<string, string>();
  #isClosed = false;
  #lastStep = 0;
  #advancing: Promise<unknown> = Promise.resolve();

  /** `startTask` runs a function in a separate task, after all promise callbacks. */
  constructor(startTask: (task: () => void) => void, members: Members = 1, seed = SEED) {
    this.world = new World(new Random(seed), { startTask });
    this.startMs = this.world.now;
    this.#restore = replaceEnvironment(this.world.environment());
    const { world } = this;
    this.clock = {
      now: () => world.now,
      after: (delayMs, action) => world.at(world.now + delayMs, world.outside, 'timer', 'of etcd', action),
    };
    this.server = new MemoryEtcd({ clock: this.clock, random: () => world.random.fraction(), members });
    tapMembers(this);
    for (const { state } of this.server.members) {
      state.store.onCommit((commit) => this.#onCommit(state.store, commit));
      state.store.onCompaction((revision) =>
        this.note(undefined, 'event', `etcd forgets all revisions before ${revision} (compaction)`),
      );
    }
    this.clients = ['A', 'B', 'C'].map((name, index) => {
      const { members: all } = this.server;
      return new PlayClient(this, name, [all[index % all.length] as MemoryMember]);
    });
  }

  /** The lanes of the trace, from left to right. */
  get lanes(): readonly string[] {
    return [...this.clients.map(({ name }) => name), ...this.server.members.map((member) => this.laneOf(member))];
  }

  laneOf({ name }: MemoryMember): string {
    return this.isCluster ? name : ETCD;
  }

  /** The member to or from which the latest message of a client went. If this member does not run, the leader. */
  get calledMember(): MemoryMember {
    const { leader, members } = this.server;
    const { from = '', to = '' } =
      this.steps.findLast(({ client, kind }) => client !== undefined && kind === 'message') ?? {};
    const called = members.find((member) => [from, to].includes(this.laneOf(member)));
    return called?.running ? called : (leader ?? (members[0] as MemoryMember));
  }

  get isCluster(): boolean {
    return this.server.members.length > 1;
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
    const { leader, member } = this.server;
    const { leases } = leader?.state ?? member;
    return leases.snapshot().map(({ id, ttlSeconds }) => ({
      id,
      client: this.leaseNames.get(id.toString(16)) ?? '',
      ttlSeconds: Number(ttlSeconds),
      remainingSeconds: remainingOf(() => leases.timeToLive(id)?.remaining),
    }));
  }

  /** The value of the ledger, and how often it was put. */
  get ledger(): { readonly value: string; readonly version: bigint } | undefined {
    const kv = this.server.member.store.get(keyId(new TextEncoder().encode(LEDGER)));
    return kv && { value: textOf(kv.value), version: kv.version };
  }

  /**
   * Forgets the history before the current revision, as the command `etcdctl compaction` does. Only with one member,
   * because several members compact at the same entry of their logs.
   */
  compact(): void {
    this.world.soon(this.world.outside, 'compacts', () => {
      const { store } = this.server.member;
      if (store.revision > store.compacted) store.compact(store.revision);
    });
  }

  /** Kills a member, or starts it again. */
  toggleMember(member: MemoryMember): void {
    this.world.soon(this.world.outside, 'kills or starts', () => {
      if (member.running) {
        this.#noteAt(this.laneOf(member), 'fault', `${member.name} is killed`);
        member.kill();
      } else {
        this.#noteAt(this.laneOf(member), 'event', `${member.name} starts again`);
        member.restart();
      }
    });
  }

  /** Cuts the network between a member and the other members, or ends the cut. */
  toggleCut(member: MemoryMember): void {
    this.world.soon(this.world.outside, 'cuts or heals', () => {
      if (member.isCutOff) member.heal();
      else member.cutOff();
      const what = member.isCutOff ? 'is cut off from the other members' : 'reaches the other members again';
      this.#noteAt(this.laneOf(member), member.isCutOff ? 'fault' : 'event', `${member.name} ${what}`);
    });
  }

  /** Adds a step to the trace that is not a message. Without `client`, it is a step of etcd. */
  note(client: string | undefined, kind: Step['kind'], label: string): void {
    const { leader, members } = this.server;
    this.#noteAt(client ?? this.laneOf(leader ?? (members[0] as MemoryMember)), kind, label);
  }

  #noteAt(lane: string, kind: Step['kind'], label: string): void {
    const client = this.clients.some(({ name }) => name === lane) ? lane : undefined;
    this.addWithoutFrame({ protocol: '', client, from: lane, to: lane, label, kind });
  }

  /** Adds a step that is not a frame of a client. */
  addWithoutFrame(step: Pick<Step, 'client' | 'from' | 'to' | 'label' | 'protocol' | 'kind'>): void {
    this.add({ ...step, frame: undefined, message: undefined, windows: '' });
  }

  add(step: Omit<Step, 'id' | 'atMs' | 'scene'>): void {
    this.#lastStep += 1;
    this.steps.push({ ...step, id: this.#lastStep, atMs: this.nowMs, scene: this.scene });
    if (!isMinor(step)) this.lastStepMs = this.nowMs;
    // Remove the oldest step of the same group. Otherwise, the many renewals and frames would push out the other steps.
    const isAlike = (each: Step): boolean => isMinor(each) === isMinor(step);
    if (this.steps.filter(isAlike).length > MAX_STEPS) this.steps.splice(this.steps.findIndex(isAlike), 1);
  }

  /** Ends the simulated time. Nothing in this world happens after this. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const { process } of this.clients) process.isKilled = true;
    this.#restore();
  }

  /** Each member applies each commit. The first member that does so makes it known. */
  #onCommit(store: MemoryMember['state']['store'], { revision, changes }: Commit): void {
    if (revision <= (this.commits.at(-1)?.revision ?? 0n)) return;
    const views = changes.map(({ type, kv }) => ({
      type: type === EventType.DELETE ? ('delete' as const) : ('put' as const),
      key: textOf(kv.key),
      value: textOf(kv.value),
    }));
    this.commits.push({ atMs: this.nowMs, revision, changes: views });
    if (this.commits.length > MAX_COMMITS) this.commits.shift();
    const { leases } = this.server.member;
    const ended = changes.map(({ type, key }) => {
      const lease = store.get(key, revision - 1n)?.lease ?? 0n;
      return type === EventType.DELETE && !leases.has(lease) ? lease : 0n;
    });
    const [lease = 0n] = ended;
    if (ended.includes(0n)) return;
    const keys = views.filter(({ key }) => !isGuardKey(key)).map(({ key }) => shortKey(key));
    const client = this.leaseNames.get(lease.toString(16));
    this.note(undefined, 'event', `the lease of ${client} has expired; etcd deletes ${keys.join(', ')}`);
  }
}

/** Whether a page shows the step only on request. */
export function isMinor({ kind }: Pick<Step, 'kind'>): boolean {
  return kind === 'frame' || kind === 'renewal';
}

/** Returns the remaining time of a lease in seconds, or undefined if no member knows it at the moment. */
function remainingOf(read: () => bigint | undefined): number | undefined {
  try {
    return Number(read() ?? 0n);
  } catch {
    return undefined;
  }
}
