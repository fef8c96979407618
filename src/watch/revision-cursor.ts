/** Where a watch stands: which events it has delivered, and from which revision a new stream must go on. */
export class RevisionCursor {
  /** Events below it are delivered, or not wanted. */
  #floor: bigint;
  /** What to ask a new stream for; 0n means "from now". */
  #resume: bigint;

  /** `startRevision` stands until events pass it; 0n for "from now". */
  constructor(startRevision: bigint) {
    this.#floor = startRevision;
    this.#resume = startRevision;
  }

  get resume(): bigint {
    return this.#resume;
  }

  isRepeat(revision: bigint): boolean {
    return revision < this.#floor;
  }

  /**
   * A watch "from now" stands. The header may be ahead of an event that is on its way already, so that event must still
   * be let in; but a new stream need not go back behind the header, for nothing written after `created` is below it.
   */
  created(headerRevision: bigint): void {
    if (this.#resume === 0n) this.#resume = headerRevision + 1n;
  }

  /** Every event of this revision was delivered. The header of the response does not matter: it may be far ahead. */
  delivered(revision: bigint): void {
    this.#advance(revision + 1n);
  }

  /**
   * A response without events says that there are none up to its header's revision. Events below it are let in all the
   * same: some servers answer a request for progress ahead of events that are on their way.
   */
  progressed(headerRevision: bigint): void {
    if (headerRevision >= this.#resume) this.#resume = headerRevision + 1n;
  }

  #advance(next: bigint): void {
    if (next > this.#floor) this.#floor = next;
    if (next > this.#resume) this.#resume = next;
  }
}
