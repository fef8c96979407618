import { EtcdError, type Reason } from '../errors/etcd-error.js';
import type { Credentials } from './credentials.js';

/** Exchanges name and password for a token. */
export type Authenticate = (username: string, password: string) => Promise<string>;

/**
 * The token of the present: one exchange at a time, however many calls wait for it. Undefined while the cluster has
 * authentication turned off.
 */
export class TokenSource {
  readonly #credentials: Credentials;
  readonly #authenticate: Authenticate;
  #current: { readonly token: string | undefined } | undefined;
  #exchange: Promise<string | undefined> | undefined;

  constructor(credentials: Credentials, authenticate: Authenticate) {
    this.#credentials = credentials;
    this.#authenticate = authenticate;
    if ('token' in credentials) this.#current = { token: credentials.token };
  }

  /** Whether a token that was refused can be replaced. */
  get renews(): boolean {
    return !('token' in this.#credentials);
  }

  /** At hand, or to be waited for. @throws EtcdError, reason `AuthFailed` where the password is wrong. */
  get(): string | undefined | Promise<string | undefined> {
    if (this.#current !== undefined) return this.#current.token;
    this.#exchange ??= this.#fetch().finally(() => {
      this.#exchange = undefined;
    });
    return this.#exchange;
  }

  /** The server does not take this one. Of many calls that hear so, the first makes a difference. */
  refused(token: string | undefined): void {
    if (this.renews && this.#current?.token === token) this.#current = undefined;
  }

  async #fetch(): Promise<string | undefined> {
    const { username, password } = this.#credentials as Extract<Credentials, { username: string }>;
    const token = await this.#authenticate(username, password).catch((error: unknown) => {
      if (error instanceof EtcdError && error.reason === 'AuthNotEnabled') return undefined;
      throw error;
    });
    this.#current = { token };
    return token;
  }
}

/**
 * New tokens in a row, without a success in between. Enough where changes of users and roles overtake one; a server
 * that refuses every token is not asked for ever.
 */
export const MAX_RENEWALS = 3;

/** What servers answer to a token that expired or is older than the users' rights, and to none where one is needed. */
const REFUSED: ReadonlySet<Reason> = new Set(['InvalidAuthToken', 'AuthOldRevision', 'UserEmpty']);

/** Nothing was done: a token is looked at before anything else. */
export function isTokenRefused({ reason }: { readonly reason: Reason }): boolean {
  return REFUSED.has(reason);
}
