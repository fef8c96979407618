import { onAbort } from '../../base/index.js';
import { ELECTION_MS } from '../raft/host.js';
import type { Entry, NodeId } from '../raft/messages.js';
import type { Network } from '../raft/network.js';
import { Raft } from '../raft/raft.js';
import type { Command } from './command.js';
import { type Consensus, REQUEST_TIMEOUT_MS, untilCallEnds } from './consensus.js';
import type { Member } from './member.js';
import { ReadLoop } from './read-loop.js';
import { type ServerCall, StatusError, serverError } from './service.js';

/** How long a member waits before it asks a leader again. */
const ASK_AGAIN_MS = 500;

/** A command in the log, and the member that waits for its result. */
export interface Proposed {
  readonly command: Command;
  readonly proposer: NodeId;
  /** The number that the proposer has given to the command. */
  readonly number: number;
}

/** A call that waits for the log or for the leader. */
interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** The consensus of a member of a cluster: it connects the raft of the member with its state machine. */
export class Replica implements Consensus {
  readonly raft: Raft<Proposed>;
  readonly #member: Member;
  readonly #network: Network<Proposed>;
  /** All replicas of the cluster, by their node IDs. */
  readonly #replicas: readonly Replica[];
  readonly #reads: ReadLoop;
  /** The commands of this member that are not applied yet, by their numbers. */
  readonly #proposed = new Map<number, Pending>();
  /** The commands that wait for a leader. */
  readonly #queue = new Set<Proposed>();
  /** The questions to the leader that are not answered yet. */
  readonly #asked = new Set<Pending>();
  readonly #listeners = new Set<() => void>();
  #lastNumber = 0;
  #wasLeader = false;
  #knownLeader: NodeId | undefined;
  /** When this member became the leader. */
  #electedMs = Number.NEGATIVE_INFINITY;
  #isRunning = false;

  /** `replicas` will contain all replicas of the cluster, including this one, at the index `id`. */
  constructor(
    id: NodeId,
    ids: readonly NodeId[],
    member: Member,
    network: Network<Proposed>,
    replicas: readonly Replica[],
  ) {
    this.#member = member;
    this.#network = network;
    this.#replicas = replicas;
    const { clock, random } = member.settings;
    this.raft = new Raft<Proposed>(id, ids, {
      clock,
      random,
      send: (to, message) => network.send(id, to, message),
      apply: (entry, index) => this.#apply(entry, index),
      readable: (request, index) => this.#reads.answered(request, index),
      changed: () => this.#changed(),
    });
    this.#reads = new ReadLoop(clock, this.raft);
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  get memberId(): bigint {
    return this.#member.memberId;
  }

  get leaderId(): bigint {
    return this.#replicaOf(this.raft.leader)?.memberId ?? 0n;
  }

  get isHealthy(): boolean {
    return this.#replicas.every(({ isRunning, isCutOff }) => isRunning && !isCutOff);
  }

  /** Whether the network loses all messages from and to the member. */
  get isCutOff(): boolean {
    return this.#network.isCutOff(this.raft.id);
  }

  cutOff(): void {
    this.#network.cutOff(this.raft.id);
  }

  heal(): void {
    this.#network.heal(this.raft.id);
  }

  /** Calls `listener` after each change of the role, the term or the leader. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Starts, or restarts, the member. */
  start(): void {
    this.#isRunning = true;
    this.#member.leases.suspend();
    this.#network.connect(this.raft.id, (from, message) => this.raft.receive(from, message));
    this.raft.start();
  }

  /** Stops the member, as if its process had been killed. */
  stop(): void {
    this.#isRunning = false;
    this.#network.disconnect(this.raft.id);
    this.raft.stop();
    this.#changed();
    const stopped = serverError('Stopped');
    this.#queue.clear();
    for (const pending of [...this.#proposed.values(), ...this.#asked]) pending.reject(stopped);
    this.#reads.stop(stopped);
  }

  /** Empties the log of a member that is stopped. All members must discard their logs, and get the same new state. */
  discardLog(): void {
    const { raft } = this;
    raft.log.length = 0;
    raft.commitIndex = 0;
    raft.lastApplied = 0;
    this.#member.raftIndex = 0n;
  }

  /** Proposes the command again if the users have changed meanwhile, as etcd does. */
  async propose(command: Command): Promise<unknown> {
    for (let authRevision = command.authRevision; ; authRevision = this.#member.auth.store.revision) {
      try {
        return await this.#propose({ ...command, authRevision });
      } catch (error) {
        if (!(error instanceof StatusError) || error.message !== serverError('AuthOldRevision').message) throw error;
      }
    }
  }

  #propose(command: Command): Promise<unknown> {
    if (this.raft.isTransferring) return Promise.reject(new StatusError('Unknown', 'raft proposal dropped'));
    this.#lastNumber += 1;
    const proposed = { command, proposer: this.raft.id, number: this.#lastNumber };
    const { clock } = this.#member.settings;
    const startMs = clock.now();
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void): void => {
        stop();
        this.#queue.delete(proposed);
        if (this.#proposed.delete(proposed.number)) settle();
      };
      const stop = clock.after(REQUEST_TIMEOUT_MS, () => {
        // If the command has found no leader in time, etcd returns the error of Go's context.
        const noLeader = new StatusError('DeadlineExceeded', 'context deadline exceeded');
        const error = this.#queue.has(proposed) ? noLeader : this.#timeout(startMs);
        finish(() => reject(error));
      });
      this.#proposed.set(proposed.number, {
        resolve: (result) => finish(() => resolve(result)),
        reject: (error) => finish(() => reject(error)),
      });
      if (!this.raft.propose(proposed)) this.#queue.add(proposed);
    });
  }

  /** Returns the error of a command that was proposed, but not applied in time: `parseProposeCtxErr` in etcd. */
  #timeout(startMs: number): StatusError {
    const isDuringElection = startMs > this.#electedMs - 2 * ELECTION_MS && startMs < this.#electedMs;
    return serverError(isDuringElection ? 'TimeoutDueToLeaderFail' : 'Timeout');
  }

  async read<T>(read: () => T): Promise<T> {
    await this.#reads.wait();
    return read();
  }

  /** Asks the leader over the network. Asks again until a leader has answered, or until the time limit. */
  atLeader<T>(ask: (leader: Member) => T): Promise<T> {
    const { clock } = this.#member.settings;
    const { id } = this.raft;
    const untilMs = clock.now() + REQUEST_TIMEOUT_MS;
    let stop = (): void => {};
    return new Promise<T>((resolve, reject) => {
      const finish = (settle: () => void): void => {
        stop();
        if (this.#asked.delete(pending)) settle();
      };
      const pending: Pending = {
        resolve: (result) => finish(() => resolve(result as T)),
        reject: (error) => finish(() => reject(error)),
      };
      const attempt = (): void => {
        if (clock.now() >= untilMs) return pending.reject(serverError(this.leaderId === 0n ? 'NoLeader' : 'Timeout'));
        stop = clock.after(Math.min(ASK_AGAIN_MS, untilMs - clock.now()), attempt);
        const leader = this.#replicaOf(this.raft.leader);
        if (leader === this) return settle(() => ask(this.#member), pending);
        if (leader === undefined) return;
        this.#network.deliver(id, leader.raft.id, () => {
          if (leader.raft.role !== 'leader') return;
          settle(() => ask(leader.#member), {
            resolve: (result) => this.#network.deliver(leader.raft.id, id, () => pending.resolve(result)),
            reject: (error) => this.#network.deliver(leader.raft.id, id, () => pending.reject(error)),
          });
        });
      };
      this.#asked.add(pending);
      attempt();
    });
  }

  moveLeader(targetId: bigint, call: ServerCall): Promise<void> {
    const target = this.#replicas.find(({ memberId }) => memberId === targetId);
    if (target === undefined) return untilCallEnds(call);
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void): void => {
        stop();
        offAbort();
        settle();
      };
      const stop = this.onChange(() => {
        if (this.raft.leader === target.raft.id) finish(resolve);
      });
      const offAbort = onAbort(call.signal, () => finish(() => void untilCallEnds(call).catch(reject)));
      this.raft.transferLeadership(target.raft.id);
    });
  }

  #apply({ command: proposed, term }: Entry<Proposed>, index: number): void {
    const { leases, proposals } = this.#member;
    this.#member.raftIndex = BigInt(index);
    if (proposed !== undefined) {
      const isOwn = proposed.proposer === this.raft.id;
      const pending = isOwn ? this.#proposed.get(proposed.number) : undefined;
      settle(() => proposals.apply(proposed.command, BigInt(index), pending !== undefined), pending);
    } else if (this.raft.role === 'leader' && term === this.raft.term) {
      // From now on, this member decides which leases expire. It has applied all grants and revocations before.
      leases.renewAll();
    }
    this.#reads.applied();
  }

  #changed(): void {
    const { role, term, leader } = this.raft;
    const { leases, settings } = this.#member;
    this.#member.raftTerm = BigInt(term);
    const isLeader = role === 'leader';
    if (this.#wasLeader && !isLeader) leases.suspend();
    this.#wasLeader = isLeader;
    const isNew = leader !== undefined && leader !== this.#knownLeader;
    this.#knownLeader = leader;
    if (isNew) {
      if (isLeader) this.#electedMs = settings.clock.now();
      this.#reads.leaderChanged();
      for (const proposed of this.#queue) if (this.raft.propose(proposed)) this.#queue.delete(proposed);
    }
    for (const listener of [...this.#listeners]) listener();
  }

  #replicaOf(id: NodeId | undefined): Replica | undefined {
    return id === undefined ? undefined : this.#replicas[id];
  }
}

/** Settles a call with the result of `action`. If no call waits, ignores a `StatusError`. */
function settle(action: () => unknown, pending: Pending | undefined): void {
  try {
    const result = action();
    pending?.resolve(result);
  } catch (error) {
    if (pending === undefined && !(error instanceof StatusError)) throw error;
    pending?.reject(error);
  }
}
