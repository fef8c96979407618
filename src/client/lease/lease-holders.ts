/**
 * What is held under one lease, by all sessions of a client that use the lease, or what runs with the guards of one
 * lease. A closing client revokes the lease only if nothing is held.
 */
export class LeaseHolders {
  /** Locks whose holders have not called `release`, sessions of a function whose action runs, and writes that run. */
  readonly #holders = new Set<object>();
  #waiters: (() => void)[] = [];
  /** Number of sessions that use the lease. */
  sessions = 0;

  add(holder: object): void {
    this.#holders.add(holder);
  }

  delete(holder: object): void {
    if (!this.#holders.delete(holder) || this.#holders.size > 0) return;
    for (const resolve of this.#waiters.splice(0)) resolve();
  }

  /** Resolves when nothing is held. */
  async empty(): Promise<void> {
    if (this.#holders.size > 0)
      await new Promise<void>((resolve) => {
        this.#waiters.push(resolve);
      });
  }
}

/** Returns the holders of a lease for a new session, and a function that the session calls when its lease has ended. */
export function holdersOf(leases: Map<bigint, LeaseHolders>, lease: bigint): readonly [LeaseHolders, () => void] {
  const holders = leases.get(lease) ?? new LeaseHolders();
  leases.set(lease, holders);
  holders.sessions += 1;
  const leave = (): void => {
    holders.sessions -= 1;
    if (holders.sessions === 0 && leases.get(lease) === holders) leases.delete(lease);
  };
  return [holders, leave];
}
