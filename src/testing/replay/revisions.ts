const NAMES: ReadonlySet<string> = new Set([
  ...['revision', 'rev', 'start_revision', 'compact_revision', 'hash_revision', 'create_revision', 'mod_revision'],
  ...['min_mod_revision', 'max_mod_revision', 'min_create_revision', 'max_create_revision'],
]);

/** Whether the field of a message, by its name in the .proto file, is a revision of the store. */
export function isRevision(name: string): boolean {
  return NAMES.has(name);
}

/**
 * Maps recorded revisions to the revisions of the server that repeats the calls.
 *
 * A server that began at the recorded revision, and has no other clients, must answer the same revisions (`isExact`).
 * After the first wrong revision, its later revisions must have the same distance to the recorded ones, so that one
 * fault is reported once. Any other server has its own revisions. It must answer the same revision each time for the
 * same change, but the revision in the header of an answer may be any, because other clients may have written.
 */
export class RevisionMap {
  readonly #isExact: boolean;
  /** If exact: the distances to the recorded revisions, each with the first recorded revision that has it. */
  readonly #shifts: { readonly from: bigint; readonly by: bigint }[] = [{ from: 0n, by: 0n }];
  /** If exact: the latest recorded revision that agrees. */
  #agreed = 0n;
  /** If not exact: the revisions of changes. */
  readonly #changes = new Map<bigint, bigint>();
  /** If not exact: the first revision that the server has answered in a header for a recorded one. */
  readonly #headers = new Map<bigint, bigint>();

  constructor(isExact: boolean) {
    this.#isExact = isExact;
  }

  /** Notes the revision of a change at a server whose revisions may be others. */
  learn(recorded: bigint, replayed: bigint): void {
    this.#changes.set(recorded, replayed);
  }

  /** Returns the revision of the server for a revision in a request. */
  toServer(recorded: bigint): bigint {
    if (recorded <= 0n) return recorded;
    if (this.#isExact) return recorded + this.#shiftAt(recorded);
    const known = this.#changes.get(recorded) ?? this.#headers.get(recorded);
    if (known !== undefined) return known;
    // A request often names the revision after one that the client has seen.
    let nearest: readonly [bigint, bigint] | undefined;
    for (const pair of [...this.#headers, ...this.#changes])
      if (pair[0] < recorded && (nearest === undefined || pair[0] >= nearest[0])) nearest = pair;
    return nearest === undefined ? recorded : nearest[1] + (recorded - nearest[0]);
  }

  /** Whether a revision of the server fits the recorded one. */
  agree(recorded: bigint, replayed: bigint, isOfHeader: boolean): boolean {
    if (recorded <= 0n || replayed <= 0n) return recorded === replayed;
    if (this.#isExact) return this.#agreeExactly(recorded, replayed);
    const known = (isOfHeader ? this.#headers : this.#changes).get(recorded);
    if (known === undefined) (isOfHeader ? this.#headers : this.#changes).set(recorded, replayed);
    return isOfHeader || known === undefined || known === replayed;
  }

  #agreeExactly(recorded: bigint, replayed: bigint): boolean {
    const agrees = replayed === recorded + this.#shiftAt(recorded);
    if (!agrees && recorded > this.#agreed) this.#shifts.push({ from: this.#agreed + 1n, by: replayed - recorded });
    if (recorded > this.#agreed) this.#agreed = recorded;
    return agrees;
  }

  #shiftAt(recorded: bigint): bigint {
    return this.#shifts.findLast(({ from }) => from <= recorded)?.by ?? 0n;
  }
}
