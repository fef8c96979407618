import { onAbort } from '../../base/index.js';
import type { Auth } from './auth.js';
import type { Clock } from './clock.js';
import type { Command } from './command.js';
import type { Lessor } from './lessor.js';
import { type ServerCall, StatusError, serverError } from './service.js';

/** How long etcd waits until it has applied a request: 5 s plus two election timeouts of 1 s. */
export const REQUEST_TIMEOUT_MS = 7_000;

/** How a member agrees with the other members of its cluster. */
export interface Consensus {
  /** The ID of the leader that the member knows. 0 if it knows none. */
  readonly leaderId: bigint;
  /** Whether all members of the cluster run and can reach each other. */
  readonly isHealthy: boolean;
  /**
   * Puts a write into the log, and returns the result of the write at this member.
   *
   * @throws StatusError if the write fails.
   */
  propose(command: Command): unknown;
  /** Runs a linearizable read, when the member has applied all writes that were committed before the call. */
  read<T>(read: () => T): T | Promise<T>;
  /** Asks the leader for something that no log contains, such as the remaining time of a lease. */
  atLeader<T>(ask: (leader: StateMachine) => T): T | Promise<T>;
  /** Moves the leadership from this member to another one. */
  moveLeader(targetId: bigint, call: ServerCall): Promise<void>;
}

/** The part of a `Member` that its consensus needs: the state machine. */
export interface StateMachine {
  readonly memberId: bigint;
  /** The raft index of the latest request that the member has applied. */
  raftIndex: bigint;
  readonly leases: Lessor;
  readonly auth: Auth;
  readonly proposals: { apply(command: Command, index: bigint, isAwaited: boolean): unknown };
}

/** A member without other members: its own leader. It applies each write at once. */
export class Alone implements Consensus {
  readonly isHealthy = true;
  readonly #member: StateMachine;

  constructor(member: StateMachine) {
    this.#member = member;
  }

  get leaderId(): bigint {
    return this.#member.memberId;
  }

  propose(command: Command): unknown {
    this.#member.raftIndex += 1n;
    return this.#member.proposals.apply(command, this.#member.raftIndex, true);
  }

  read<T>(read: () => T): T {
    return read();
  }

  atLeader<T>(ask: (leader: StateMachine) => T): T {
    return ask(this.#member);
  }

  /** Always rejects, at the end of the call: the cluster has only one running member, so no other can become the leader. */
  moveLeader(_: bigint, call: ServerCall): Promise<never> {
    return untilCallEnds(call);
  }
}

/** Rejects when the call ends, with etcd's error of a leadership that has not moved in time. */
export function untilCallEnds({ signal }: ServerCall): Promise<never> {
  return new Promise((_, reject) => {
    const fail = (): void =>
      reject(new StatusError('Unknown', 'etcdserver: request timed out, leader transfer took too long'));
    onAbort(signal, fail);
    if (signal.aborted) fail();
  });
}

/** Rejects with `Timeout` after the time limit of the server. */
export function untilTimeLimit(clock: Clock, { signal }: ServerCall): Promise<never> {
  return new Promise((_, reject) => {
    const stop = clock.after(REQUEST_TIMEOUT_MS, () => reject(serverError('Timeout')));
    onAbort(signal, stop);
  });
}

/** Calls `next` with a value, at once unless the value is a promise. */
export function andThen<T, Result>(
  value: T | Promise<T>,
  next: (value: T) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value);
}
