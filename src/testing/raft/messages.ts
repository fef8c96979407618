/** The number of a member in its cluster, from 0. */
export type NodeId = number;

/** An entry of the log. Its index is its position in the log, from 1. */
export interface Entry<Command> {
  /** The term of the leader that created the entry. */
  readonly term: number;
  /** Undefined in the empty entry with which each leader begins its term. */
  readonly command: Command | undefined;
}

/**
 * Asks for a vote: the paper's RequestVote.
 *
 * `isPreVote`: the sender asks whether it would get the vote, and has not begun the term. `isTransfer`: the leader
 * itself has asked the sender to become the leader, so its followers may vote although they hear from the leader.
 */
export interface RequestVote {
  readonly type: 'RequestVote';
  readonly term: number;
  readonly lastLogIndex: number;
  readonly lastLogTerm: number;
  readonly isPreVote: boolean;
  readonly isTransfer: boolean;
}

/** The answer to `RequestVote`. In a vote that is granted, `term` is the term of the request. */
export interface Vote {
  readonly type: 'Vote';
  readonly term: number;
  readonly isPreVote: boolean;
  readonly voteGranted: boolean;
}

/** Replicates entries: the paper's AppendEntries. Without entries, it is a heartbeat. */
export interface AppendEntries<Command> {
  readonly type: 'AppendEntries';
  readonly term: number;
  /** The index of the entry before `entries`, and its term. The follower must have this entry. */
  readonly prevLogIndex: number;
  readonly prevLogTerm: number;
  readonly entries: readonly Entry<Command>[];
  /** The commit index of the leader. */
  readonly leaderCommit: number;
  /** The answer repeats this number. By it, the leader knows that it was still the leader when it sent the number. */
  readonly round: number;
}

/** The answer to `AppendEntries`. */
export interface Appended {
  readonly type: 'Appended';
  readonly term: number;
  readonly success: boolean;
  /** On success, the last index at which the logs are equal. On failure, an index at which they may be equal. */
  readonly matchIndex: number;
  readonly round: number;
}

/** A follower forwards a command to its leader. If the message is lost, so is the command. */
interface Forward<Command> {
  readonly type: 'Forward';
  readonly command: Command;
}

/** A follower asks its leader which index it must apply before it may answer a linearizable read. */
interface ReadIndex {
  readonly type: 'ReadIndex';
  /** A number that the follower chooses. */
  readonly request: number;
}

/** The answer to `ReadIndex`. */
interface ReadIndexAnswer {
  readonly type: 'ReadIndexAnswer';
  readonly request: number;
  readonly index: number;
}

/** A leader that wants to give up its leadership asks a follower to start an election now. */
interface TimeoutNow {
  readonly type: 'TimeoutNow';
  readonly term: number;
}

/** A message between two members. The network may lose, delay and reorder messages. */
export type Message<Command> =
  | RequestVote
  | Vote
  | AppendEntries<Command>
  | Appended
  | Forward<Command>
  | ReadIndex
  | ReadIndexAnswer
  | TimeoutNow;
