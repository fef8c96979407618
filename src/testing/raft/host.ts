import type { Clock } from '../memory/clock.js';
import type { Entry, Message, NodeId } from './messages.js';

/** The interval of heartbeats and the minimum election timeout: etcd's defaults. */
export const HEARTBEAT_MS = 100;
export const ELECTION_MS = 1_000;

/**
 * - `follower`: answers the leader, and waits for its heartbeats.
 * - `pre-candidate`: has not heard from a leader, and asks whether it could win an election.
 * - `candidate`: has begun a term, and asks for votes.
 * - `leader`: has the votes of a majority.
 */
export type Role = 'follower' | 'pre-candidate' | 'candidate' | 'leader';

/** What the rest of a member does for its raft. */
export interface RaftHost<Command> {
  readonly clock: Clock;
  /** Returns a number from 0 to below 1. */
  readonly random: () => number;
  send(to: NodeId, message: Message<Command>): void;
  /** Applies a committed entry to the state machine. Called once for each index, in order. */
  apply(entry: Entry<Command>, index: number): void;
  /** The state that a read may return is the one after this index. Answers `readIndex`. */
  readable(request: number, index: number): void;
  /** Called after the role, the term or the leader has changed. */
  changed(): void;
}

/** What a leader knows of a follower. */
export interface Progress {
  /** The index of the next entry that the leader sends. */
  nextIndex: number;
  /** The highest index up to which the log of the follower is known to equal that of the leader. */
  matchIndex: number;
  /** The highest round that the follower has answered. */
  round: number;
  /** The time of the latest answer. */
  heardMs: number;
}
