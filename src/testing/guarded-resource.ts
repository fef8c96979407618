import { checkOptions } from '../runtime/arguments.js';
import type { Violation } from './violation.js';

const RESOURCE_OPTIONS = { fenced: true } as const;

/**
 * Something outside of etcd that a lock protects, as it should be: it refuses a write whose token is smaller than one it
 * has seen. `fenced: false` takes any, and so shows what happens without.
 */
export class GuardedResource {
  readonly #fenced: boolean;
  #greatest = 0n;
  readonly #stale: Violation<'stale write'>[] = [];

  constructor(options: { readonly fenced?: boolean | undefined } = {}) {
    checkOptions(options, RESOURCE_OPTIONS, 'GuardedResource');
    this.#fenced = options.fenced ?? true;
  }

  /** Writes that were taken though a later holder had written before. */
  get violations(): readonly Violation<'stale write'>[] {
    return this.#stale;
  }

  /** Whether the write was taken. */
  write(holder: string, token: bigint): boolean {
    if (token >= this.#greatest) {
      this.#greatest = token;
      return true;
    }
    if (this.#fenced) return false;
    const detail = `${holder} with token ${token} after token ${this.#greatest}`;
    this.#stale.push({ rule: 'stale write', detail });
    return true;
  }
}
