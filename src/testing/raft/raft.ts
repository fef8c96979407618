import { ELECTION_MS, HEARTBEAT_MS, type Progress, type RaftHost, type Role } from './host.js';
import type { AppendEntries, Appended, Entry, Message, NodeId, RequestVote, Vote } from './messages.js';
import { ReadQueue } from './read-queue.js';

// Raft, as in "In Search of an Understandable Consensus Algorithm" by Ongaro and Ousterhout. The names are those of the
// paper. Section numbers in comments refer to its extended version. As in etcd, the implementation adds:
//
// - PreVote: before an election, a member asks whether it could win. A member that was cut off therefore does not force
//   an election when it returns.
// - CheckQuorum: a leader that does not hear from a majority gives up its leadership, and a follower that hears from a
//   leader grants no vote.
// - ReadIndex: a linearizable read without an entry in the log.
// - The transfer of the leadership to a certain member.
//
// Logs are not compacted: a member that returns gets all entries that it lacks. Members do not join or leave.

/** The raft of one member. */
export class Raft<Command> {
  // The state that survives a restart. The paper calls `term` currentTerm. In etcd, `commitIndex` and the state
  // machine, and so `lastApplied`, survive too.
  term = 1;
  votedFor: NodeId | undefined;
  readonly log: Entry<Command>[] = [];
  commitIndex = 0;
  lastApplied = 0;

  // The state that a restart loses.
  role: Role = 'follower';
  /** The leader of the term, if the member knows it. */
  leader: NodeId | undefined;
  /** The members that have granted the vote, or the pre-vote, that this member asks for. */
  readonly votes: Set<NodeId> = new Set<NodeId>();
  /** What a leader knows of the other members. */
  readonly progress: Map<NodeId, Progress> = new Map<NodeId, Progress>();

  readonly id: NodeId;
  readonly #peers: readonly NodeId[];
  readonly #host: RaftHost<Command>;
  /** The number of the latest round of `AppendEntries`. */
  #round = 0;
  readonly #reads = new ReadQueue();
  /** The member that should become the leader instead of this one, and when the leader gives up the transfer. */
  #transfer: { readonly to: NodeId; readonly untilMs: number } | undefined;
  /** The time of the next election, unless the member hears from a leader before. */
  #electionMs = Number.POSITIVE_INFINITY;
  /** The time of the latest message of the leader. */
  #heardMs = Number.NEGATIVE_INFINITY;
  #stopTimer: (() => void) | undefined;
  /** The time at which the running timer fires. */
  #timerMs = 0;
  #isApplying = false;

  /** @param members all members of the cluster, including `id` */
  constructor(id: NodeId, members: readonly NodeId[], host: RaftHost<Command>) {
    this.id = id;
    this.#peers = members.filter((member) => member !== id);
    this.#host = host;
  }

  /** The term of the entry at an index. 0 before the first entry. Undefined if the log has no such entry. */
  termAt(index: number): number | undefined {
    return index === 0 ? 0 : this.log[index - 1]?.term;
  }

  /** Starts, or restarts, the member as a follower. */
  start(): void {
    this.#becomeFollower(this.term, undefined);
    this.#heardMs = Number.NEGATIVE_INFINITY;
  }

  /** Stops the timer, and forgets what a restart loses. The member must receive no message until `start`. */
  stop(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#setRole('follower', undefined);
  }

  /**
   * Appends a command to the log, if this member is the leader, or forwards the command to the leader. Returns false if
   * the member knows no leader that accepts commands. The command may be lost in any case. `RaftHost.apply` tells when
   * it is committed.
   */
  propose(command: Command): boolean {
    if (this.leader === undefined || this.#transfer !== undefined) return false;
    if (this.role === 'leader') this.#append(command);
    else this.#host.send(this.leader, { type: 'Forward', command });
    return true;
  }

  /**
   * Asks which index this member must have applied before it may answer a linearizable read. The answer, if there is
   * one, comes through `RaftHost.readable`.
   */
  readIndex(request: number): void {
    if (this.role === 'leader') this.#startRead(this.id, request);
    else if (this.leader !== undefined) this.#host.send(this.leader, { type: 'ReadIndex', request });
  }

  /** Whether this member is a leader that gives its leadership to another member. It accepts no commands. */
  get isTransferring(): boolean {
    return this.#transfer !== undefined;
  }

  /** Makes a leader give its leadership to another member, as soon as the log of that member is complete. */
  transferLeadership(to: NodeId): void {
    if (this.role !== 'leader' || to === this.id) return;
    this.#transfer = { to, untilMs: this.#nowMs + ELECTION_MS };
    this.#sendEntries(to);
    this.#finishTransfer(to);
  }

  /**
   * Asks the other members for their votes. With `PreVote`, which is the default, the member begins a new term only if
   * it could win. With `Transfer`, the followers of the present leader vote, too.
   */
  campaign(kind: 'PreVote' | 'Vote' | 'Transfer' = 'PreVote'): void {
    if (this.role === 'leader') return;
    const isPreVote = kind === 'PreVote';
    this.#setRole(isPreVote ? 'pre-candidate' : 'candidate', undefined);
    if (!isPreVote) {
      this.term += 1;
      this.votedFor = this.id;
    }
    this.#startElectionTimer();
    this.#host.changed();
    const request: RequestVote = {
      type: 'RequestVote',
      term: isPreVote ? this.term + 1 : this.term,
      lastLogIndex: this.log.length,
      lastLogTerm: this.termAt(this.log.length) as number,
      isPreVote,
      isTransfer: kind === 'Transfer',
    };
    for (const peer of this.#peers) this.#host.send(peer, request);
    this.#countVote(this.id);
  }

  /** Handles a message of another member. */
  receive(from: NodeId, message: Message<Command>): void {
    if ('term' in message && !this.#acceptTerm(from, message)) return;
    switch (message.type) {
      case 'RequestVote':
        return this.#voteFor(from, message);
      case 'Vote':
        return this.#receiveVote(from, message);
      case 'AppendEntries':
        return this.#receiveEntries(from, message);
      case 'Appended':
        return this.#receiveAnswer(from, message);
      case 'Forward':
        if (this.role === 'leader' && this.#transfer === undefined) this.#append(message.command);
        return;
      case 'ReadIndex':
        if (this.role === 'leader') this.#startRead(from, message.request);
        return;
      case 'ReadIndexAnswer':
        return this.#host.readable(message.request, message.index);
      case 'TimeoutNow':
        return this.campaign('Transfer');
    }
  }

  /** Compares the term of a message with the own term (section 5.1). Returns whether the member handles the message. */
  #acceptTerm(from: NodeId, message: Extract<Message<Command>, { readonly term: number }>): boolean {
    const { term, type } = message;
    const isPreVote = type === 'RequestVote' && message.isPreVote;
    if (type === 'RequestVote' && term > this.term && !message.isTransfer && this.#hearsLeader) return false;
    if (term > this.term) {
      // A pre-vote begins no term: neither the request, nor an answer that grants it.
      const isGranted = type === 'Vote' && message.isPreVote && message.voteGranted;
      if (!isPreVote && !isGranted) this.#becomeFollower(term, type === 'AppendEntries' ? from : undefined);
      return true;
    }
    if (term === this.term) return true;
    // Tells an old leader, and a member that asks for a pre-vote in an old term, the current term.
    if (type === 'AppendEntries') this.#answer(from, false, 0, message.round);
    if (isPreVote) this.#host.send(from, { type: 'Vote', term: this.term, isPreVote, voteGranted: false });
    return false;
  }

  /** Whether this member is a leader, or a follower that has heard from its leader within an election timeout. */
  get #hearsLeader(): boolean {
    if (this.role === 'leader') return true;
    return this.leader !== undefined && this.#nowMs - this.#heardMs < ELECTION_MS;
  }

  /** Votes once in a term, and only for a member whose log is at least as up to date (section 5.4.1). */
  #voteFor(from: NodeId, { term, lastLogIndex, lastLogTerm, isPreVote }: RequestVote): void {
    const ownTerm = this.termAt(this.log.length) as number;
    const isUpToDate = lastLogTerm > ownTerm || (lastLogTerm === ownTerm && lastLogIndex >= this.log.length);
    const mayVote = isPreVote
      ? term > this.term
      : this.votedFor === from || (this.votedFor === undefined && this.leader === undefined);
    const voteGranted = mayVote && isUpToDate;
    if (voteGranted && !isPreVote) {
      this.votedFor = from;
      this.#startElectionTimer();
    }
    this.#host.send(from, { type: 'Vote', term: voteGranted ? term : this.term, isPreVote, voteGranted });
  }

  #receiveVote(from: NodeId, { term, isPreVote, voteGranted }: Vote): void {
    const isAwaited = isPreVote
      ? this.role === 'pre-candidate' && term === this.term + 1
      : this.role === 'candidate' && term === this.term;
    if (isAwaited && voteGranted) this.#countVote(from);
  }

  #countVote(from: NodeId): void {
    if (!this.#isMajority(this.votes.add(from).size)) return;
    if (this.role === 'pre-candidate') this.campaign('Vote');
    else if (this.role === 'candidate') this.#becomeLeader();
  }

  /** Begins to lead with an empty entry, because only an entry of its own term tells what is committed (5.4.2). */
  #becomeLeader(): void {
    this.#setRole('leader', this.id);
    const nextIndex = this.log.length + 1;
    for (const peer of this.#peers)
      this.progress.set(peer, { nextIndex, matchIndex: 0, round: 0, heardMs: this.#nowMs });
    this.#append(undefined);
    this.#host.changed();
    this.#runTimer(HEARTBEAT_MS);
  }

  #becomeFollower(term: number, leader: NodeId | undefined): void {
    this.#setRole('follower', leader);
    if (term > this.term) this.votedFor = undefined;
    this.term = term;
    this.#startElectionTimer();
    this.#host.changed();
  }

  /** Changes the role, and forgets what belongs to the role before. */
  #setRole(role: Role, leader: NodeId | undefined): void {
    this.role = role;
    this.leader = leader;
    this.votes.clear();
    this.progress.clear();
    this.#reads.clear();
    this.#transfer = undefined;
  }

  #append(command: Command | undefined): void {
    this.log.push({ term: this.term, command });
    this.#sendToAll();
    this.#commit();
  }

  #sendToAll(): void {
    for (const peer of this.#peers) this.#sendEntries(peer);
  }

  /**
   * Sends a follower the entries that it lacks, or a heartbeat if it lacks none. Counts the entries as received: if they
   * are lost, the follower refuses a later message, and the leader sends them again.
   */
  #sendEntries(peer: NodeId): void {
    const progress = this.progress.get(peer) as Progress;
    const prevLogIndex = progress.nextIndex - 1;
    const entries = this.log.slice(prevLogIndex);
    progress.nextIndex += entries.length;
    this.#host.send(peer, {
      type: 'AppendEntries',
      term: this.term,
      prevLogIndex,
      prevLogTerm: this.termAt(prevLogIndex) as number,
      entries,
      leaderCommit: this.commitIndex,
      round: this.#round,
    });
  }

  /** Appends the entries of the leader, if this member has the entry before them (section 5.3). */
  #receiveEntries(from: NodeId, message: AppendEntries<Command>): void {
    const { prevLogIndex, prevLogTerm, entries, leaderCommit, round } = message;
    if (this.role !== 'follower' || this.leader !== from) this.#becomeFollower(this.term, from);
    this.#heardMs = this.#nowMs;
    this.#startElectionTimer();
    if (this.termAt(prevLogIndex) !== prevLogTerm)
      return this.#answer(from, false, Math.min(prevLogIndex - 1, this.log.length), round);
    for (const [offset, entry] of entries.entries()) {
      const index = prevLogIndex + 1 + offset;
      if (this.termAt(index) === entry.term) continue;
      if (index <= this.commitIndex) throw new Error(`raft: entry ${index} is committed and would be replaced`);
      this.log.length = index - 1;
      this.log.push(entry);
    }
    const matchIndex = prevLogIndex + entries.length;
    this.#commitUntil(Math.min(leaderCommit, matchIndex));
    this.#answer(from, true, matchIndex, round);
  }

  #answer(to: NodeId, success: boolean, matchIndex: number, round: number): void {
    this.#host.send(to, { type: 'Appended', term: this.term, success, matchIndex, round });
  }

  #receiveAnswer(from: NodeId, { success, matchIndex, round }: Appended): void {
    const progress = this.progress.get(from);
    if (progress === undefined) return;
    progress.heardMs = this.#nowMs;
    progress.round = Math.max(progress.round, round);
    this.#answerReads();
    if (success) {
      progress.matchIndex = Math.max(progress.matchIndex, matchIndex);
      progress.nextIndex = Math.max(progress.nextIndex, matchIndex + 1);
      this.#commit();
      this.#finishTransfer(from);
    } else {
      progress.nextIndex = Math.max(progress.matchIndex, Math.min(progress.nextIndex - 1, matchIndex)) + 1;
      this.#sendEntries(from);
    }
  }

  /** Commits what a majority has, if its last entry is of the term (section 5.4.2). Tells the followers at once. */
  #commit(): void {
    const have = [this.log.length, ...[...this.progress.values()].map(({ matchIndex }) => matchIndex)];
    const index = have.sort((a, b) => b - a)[Math.floor(have.length / 2)] as number;
    if (index <= this.commitIndex || this.termAt(index) !== this.term) return;
    this.#commitUntil(index);
    // A program may stop the member while it applies an entry.
    if (this.role !== 'leader') return;
    this.#sendToAll();
    for (const { from, request } of this.#reads.takeEarly()) this.#startRead(from, request);
  }

  #commitUntil(index: number): void {
    this.commitIndex = Math.max(this.commitIndex, index);
    // The state machine may propose a command while it applies an entry.
    if (this.#isApplying) return;
    this.#isApplying = true;
    try {
      while (this.lastApplied < this.commitIndex) {
        this.lastApplied += 1;
        this.#host.apply(this.log[this.lastApplied - 1] as Entry<Command>, this.lastApplied);
      }
    } finally {
      this.#isApplying = false;
    }
  }

  #startRead(from: NodeId, request: number): void {
    if (this.termAt(this.commitIndex) !== this.term) return this.#reads.addEarly(from, request);
    this.#round += 1;
    this.#reads.add({ from, request, index: this.commitIndex, round: this.#round });
    this.#sendToAll();
    this.#answerReads();
  }

  #answerReads(): void {
    const followers = [...this.progress.values()];
    const isConfirmed = (round: number): boolean =>
      this.#isMajority(1 + followers.filter((follower) => follower.round >= round).length);
    for (const { from, request, index } of this.#reads.takeConfirmed(isConfirmed)) {
      if (from === this.id) this.#host.readable(request, index);
      else this.#host.send(from, { type: 'ReadIndexAnswer', request, index });
    }
  }

  #finishTransfer(to: NodeId): void {
    if (this.#transfer?.to === to && this.progress.get(to)?.matchIndex === this.log.length)
      this.#host.send(to, { type: 'TimeoutNow', term: this.term });
  }

  /** Starts an election after a random time, so that rarely two members start one at the same time (section 5.2). */
  #startElectionTimer(): void {
    const timeoutMs = ELECTION_MS * (1 + this.#host.random());
    this.#electionMs = this.#nowMs + timeoutMs;
    // A timer that is already running looks at `#electionMs` when it fires.
    if (this.#stopTimer === undefined || this.#timerMs > this.#electionMs) this.#runTimer(timeoutMs);
  }

  #runTimer(delayMs: number): void {
    this.#stopTimer?.();
    this.#timerMs = this.#nowMs + delayMs;
    this.#stopTimer = this.#host.clock.after(delayMs, () => {
      this.#stopTimer = undefined;
      if (this.role === 'leader') this.#heartbeat();
      else if (this.#nowMs >= this.#electionMs) this.campaign();
      else this.#runTimer(this.#electionMs - this.#nowMs);
    });
  }

  /** Sends heartbeats, unless a majority has been silent for an election timeout: then the member stops leading. */
  #heartbeat(): void {
    const heard = [...this.progress.values()].filter(({ heardMs }) => this.#nowMs - heardMs < ELECTION_MS).length;
    if (!this.#isMajority(1 + heard)) return this.#becomeFollower(this.term, undefined);
    if ((this.#transfer?.untilMs ?? 0) <= this.#nowMs) this.#transfer = undefined;
    this.#sendToAll();
    this.#runTimer(HEARTBEAT_MS);
  }

  #isMajority(count: number): boolean {
    return count > (this.#peers.length + 1) / 2;
  }

  get #nowMs(): number {
    return this.#host.clock.now();
  }
}
