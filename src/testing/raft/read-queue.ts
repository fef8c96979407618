import type { NodeId } from './messages.js';

/** A linearizable read that a member has asked its leader for. */
interface Read {
  readonly from: NodeId;
  readonly request: number;
  /** The commit index of the leader when the read arrived. */
  readonly index: number;
  /** The read is confirmed when a majority has answered this round of `AppendEntries`. */
  readonly round: number;
}

/**
 * The linearizable reads at a leader (section 8). A leader may answer a read at its commit index once a majority has
 * confirmed, after the read arrived, that it is still the leader.
 */
export class ReadQueue {
  /** The reads that wait until the leader has committed an entry of its term. */
  #early: Pick<Read, 'from' | 'request'>[] = [];
  #unconfirmed: Read[] = [];

  /** Adds a read for which the leader does not know the commit index yet. */
  addEarly(from: NodeId, request: number): void {
    this.#early.push({ from, request });
  }

  /** Removes and returns the reads that `addEarly` has added. */
  takeEarly(): Pick<Read, 'from' | 'request'>[] {
    return this.#early.splice(0);
  }

  add(read: Read): void {
    this.#unconfirmed.push(read);
  }

  /** Removes and returns the reads whose round is confirmed. */
  takeConfirmed(isConfirmed: (round: number) => boolean): Read[] {
    const first = this.#unconfirmed.findIndex(({ round }) => !isConfirmed(round));
    return this.#unconfirmed.splice(0, first === -1 ? this.#unconfirmed.length : first);
  }

  clear(): void {
    this.#early = [];
    this.#unconfirmed = [];
  }
}
