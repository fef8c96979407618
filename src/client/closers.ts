/** A function that runs when a keyspace begins to close, for example to revoke the lease of a session. */
export type Closer = () => Promise<void>;

/** The functions that run before a client or a namespace is closed. */
export class Closers {
  readonly #closers = new Set<Closer>();
  readonly #last = new Set<Closer>();
  readonly #running = new Set<Promise<unknown>>();
  /** Whether `close` was called. */
  isClosing = false;

  /**
   * Adds a closer, which runs at once if `close` was called before. It may run several times, if a namespace closes
   * before its client. Returns a function that removes it.
   */
  add(closer: Closer): () => void {
    this.#closers.add(closer);
    if (this.isClosing) this.#run(closer);
    return () => void this.#closers.delete(closer);
  }

  /** Adds a closer that runs after all closers of `add` have ended, because it ends what they may use. */
  addLast(closer: Closer): void {
    this.#last.add(closer);
  }

  /** Runs all closers. Resolves when they have ended, also those that were added meanwhile. */
  async close(): Promise<void> {
    this.isClosing = true;
    for (const closer of [...this.#closers]) this.#run(closer);
    while (this.#running.size > 0) await Promise.all(this.#running);
    await Promise.allSettled([...this.#last].map((closer) => closer()));
  }

  #run(closer: Closer): void {
    const running = closer()
      .catch(() => {})
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }
}
