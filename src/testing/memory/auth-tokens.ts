import type { MemberSettings } from './settings.js';

const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';
const PREFIX_LENGTH = 16;
/** etcd looks for expired tokens once a second, so a token lives up to one second longer than its TTL. */
const SWEEP_INTERVAL_MS = 1_000;
const MS_PER_SECOND = 1_000;
const MAX_UINT64 = 2n ** 64n - 1n;

interface Token {
  readonly user: string;
  /** The time after which the next sweep removes the token. Each use of the token moves this time. */
  expiresMs: number;
}

type TokenSettings = Pick<MemberSettings, 'clock' | 'random' | 'tokenTtlSeconds'>;

/** The simple tokens of a member: etcd's `auth/simple_token.go`. A restart loses them. */
export class Tokens {
  readonly #settings: TokenSettings;
  readonly #tokens = new Map<string, Token>();
  /** The time in milliseconds at which the sweeps started. The first sweep follows one interval later. */
  #enabledMs: number;

  constructor(settings: TokenSettings) {
    this.#settings = settings;
    this.#enabledMs = settings.clock.now();
  }

  /** Discards all tokens, and starts the sweeps. */
  reset(): void {
    this.#tokens.clear();
    this.#enabledMs = this.#settings.clock.now();
  }

  /** Returns random letters for a new token. */
  newText(): string {
    const { random } = this.#settings;
    const letter = (): string => LETTERS.charAt(Math.floor(random() * LETTERS.length));
    return Array.from({ length: PREFIX_LENGTH }, letter).join('');
  }

  /** Returns a new token: letters, a dot, and the raft index of the request that created the token. */
  assign(user: string, text: string, raftIndex: bigint): string {
    this.#sweep();
    const token = `${text}.${raftIndex}`;
    this.#tokens.set(token, { user, expiresMs: this.#expiry() });
    return token;
  }

  /**
   * Returns the user to whom the token belongs, and prolongs the token. Returns undefined if the token is unknown.
   *
   * If the index in the token is higher than the index of the member, etcd waits until the member reaches the index or
   * the call ends. This class reports such a token as unknown at once.
   */
  userOf(token: string): string | undefined {
    if (!isWellFormedToken(token)) return undefined;
    this.#sweep();
    const found = this.#tokens.get(token);
    if (found === undefined) return undefined;
    found.expiresMs = this.#expiry();
    return found.user;
  }

  /** Discards the tokens of a user. */
  invalidate(user: string): void {
    for (const [token, owner] of this.#tokens) if (owner.user === user) this.#tokens.delete(token);
  }

  #expiry(): number {
    return this.#settings.clock.now() + this.#settings.tokenTtlSeconds * MS_PER_SECOND;
  }

  /**
   * Removes the tokens that etcd's latest sweep would have removed. This class needs no timer, because it computes the
   * time of the latest sweep.
   */
  #sweep(): void {
    const elapsedMs = this.#settings.clock.now() - this.#enabledMs;
    const lastSweepMs = this.#enabledMs + Math.floor(elapsedMs / SWEEP_INTERVAL_MS) * SWEEP_INTERVAL_MS;
    for (const [token, { expiresMs }] of this.#tokens) if (lastSweepMs > expiresMs) this.#tokens.delete(token);
  }
}

/** Whether a dot divides the token into two parts, and the second part is an unsigned 64-bit number. */
function isWellFormedToken(token: string): boolean {
  const parts = token.split('.');
  const index = parts[1] ?? '';
  return parts.length === 2 && /^[0-9]+$/.test(index) && BigInt(index) <= MAX_UINT64;
}
