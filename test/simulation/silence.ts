export type Direction = 'to-server' | 'to-client';

/**
 * The silence between a process and a member: messages on the path, or on one connection, wait until a time. Each
 * direction has its own time. A connection is also silent while its path is silent.
 */
export class Silence {
  readonly #path: Silence | undefined;
  readonly #until = { 'to-server': 0, 'to-client': 0 };

  /** `path` is the silence of the path that a connection uses. */
  constructor(path?: Silence) {
    this.#path = path;
  }

  /** Makes messages in these directions wait until a time. */
  begin(until: number, ...directions: readonly Direction[]): void {
    for (const direction of directions) this.#until[direction] = until;
  }

  /** Returns the time until which messages in the direction wait. */
  until(direction: Direction): number {
    return Math.max(this.#until[direction], this.#path?.until(direction) ?? 0);
  }

  /** Returns whether messages in at least one direction wait. */
  isActive(now: number): boolean {
    return this.until('to-server') > now || this.until('to-client') > now;
  }

  /** Ends the silence. The silence of the path remains. */
  end(now: number): void {
    for (const direction of ['to-server', 'to-client'] as const)
      this.#until[direction] = Math.min(this.#until[direction], now);
  }
}
