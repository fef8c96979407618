/** Cuts text that comes in pieces into lines. Each piece is looked through once, however long a line becomes. */
export class Lines {
  #rest = '';

  /** What comes after the last line that has ended. */
  get rest(): string {
    return this.#rest;
  }

  /** The lines that end with this piece. */
  *push(piece: string): Generator<string, void> {
    const [first = '', ...others] = piece.split('\n');
    this.#rest += first;
    for (const next of others) {
      yield this.#rest;
      this.#rest = next;
    }
  }
}

/** 63 random bits, never 0: for IDs of leases, which are positive, and for keys that nobody else has. */
export function randomId(): bigint {
  const [random = 0n] = crypto.getRandomValues(new BigUint64Array(1));
  return BigInt.asUintN(63, random) || 1n;
}
