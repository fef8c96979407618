import {
  amended,
  checkBoolean,
  checkedLater,
  checkFields,
  describeType,
  EtcdError,
  invalidInput,
  missingInput,
  monotonicMs,
  noteFailure,
} from '../base/index.js';
import * as authMethods from '../gen/methods/auth.js';
import type { Endpoint } from '../host/index.js';
import { forwardStream, type Metadata, type Transport, type UnaryCall } from '../wire/index.js';
import { isTokenRefused, mayRenewToken } from './attempts.js';
import { beforeSending } from './before-sending.js';
import { isPlaintext, PERMITTED } from './plaintext-rule.js';
import { REQUIRE_LEADER } from './rpc.js';

/**
 * How the client authenticates itself to a cluster that has authentication enabled.
 *
 * @example
 * const auth: Credentials = { username: 'app', password: 'secret' };
 * const etcd = new Client({ endpoints: ['https://127.0.0.1:2379'], auth });
 */
export type Credentials = (
  | {
      readonly username: string;
      /**
       * The password of the user. The client exchanges the password for a token, and requests a new token if the server
       * refuses the current token.
       */
      readonly password: string;
    }
  | {
      /** A token that the caller obtained. The client never renews it. */
      readonly token: string;
    }
) & {
  /**
   * Whether to send passwords and tokens unencrypted, over `http:`. Anyone on the network path can then read them. This
   * includes the passwords that `auth.userAdd` and similar methods send. Default: false.
   */
  readonly allowPlaintext?: boolean | undefined;
};

/**
 * Credentials, or a function that returns them. The client calls the function before the first call, and again each
 * time that the server refuses the token or the password, so that rotated secrets take effect. Calls wait for its
 * result, as long as their own time limits allow, so the function should have a time limit too. If the function throws
 * or rejects, the waiting calls fail with reason `AuthFailed`. If it returns credentials that are not allowed, the
 * calls fail with reason `InvalidInput`.
 *
 * @example
 * const auth: CredentialsSource = async () => ({ username: 'app', password: await readFile('/run/secrets/etcd', 'utf8') });
 */
export type CredentialsSource = Credentials | (() => Credentials | Promise<Credentials>);

/**
 * The option `auth` of a client without credentials that may send the passwords of `auth.userAdd` and similar methods
 * over `http:`.
 *
 * @example
 * const auth: PlaintextPermission = { allowPlaintext: true };
 * const etcd = new Client({ endpoints: ['http://127.0.0.1:2379'], auth });
 */
export interface PlaintextPermission {
  /** Allows passwords and tokens over `http:`, as the field of `Credentials` does. */
  readonly allowPlaintext: true;
}

const CREDENTIALS = {
  username: checkedLater,
  password: checkedLater,
  token: checkedLater,
  allowPlaintext: checkBoolean,
} as const;

/**
 * Matches visible ASCII only, because a token is sent in a header. Rejects, for example, the line break at the end of a
 * token that was read from a file.
 */
const TOKEN = /^[\x21-\x7e]+$/;

/** Whether the option `auth` contains no credentials: see `PlaintextPermission`. */
export function isPermission(auth: Credentials | PlaintextPermission): auth is PlaintextPermission {
  return Object.keys(auth ?? {}).join() === 'allowPlaintext' && auth.allowPlaintext === true;
}

/**
 * Checks the credentials, and returns a copy of them. Credentials for an `http:` endpoint require `allowPlaintext`.
 *
 * @throws EtcdError with reason `InvalidInput` if the credentials are not allowed. The error never contains secrets.
 */
export function checkCredentials(credentials: Credentials, endpoints: readonly Endpoint[]): Credentials {
  checkFields(credentials, CREDENTIALS, 'auth');
  const { allowPlaintext } = credentials;
  const { username, password, token }: Readonly<Record<string, unknown>> = { ...credentials };
  const plaintext = endpoints.find(isPlaintext);
  if (plaintext !== undefined && allowPlaintext !== true)
    throw invalidInput('auth', `credentials together with the endpoint ${plaintext.url}, which has no TLS`, PERMITTED);
  if (token === undefined)
    return { username: secret('username', username), password: secret('password', password), allowPlaintext };
  if (username !== undefined || password !== undefined)
    throw invalidInput(
      'auth',
      'a token together with a user name or password',
      'either a token, or a user name and a password',
    );
  const given = secret('token', token);
  if (!TOKEN.test(given))
    throw invalidInput(
      'auth.token',
      'a token with spaces, line breaks or non-ASCII text',
      'visible ASCII characters only',
    );
  return { token: given, allowPlaintext };
}

function secret(name: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  if (value === undefined) throw missingInput(`auth.${name}`, 'give username and password, or give token');
  // `describeType` never shows the value, not even a number, because the value may be a password.
  throw invalidInput(`auth.${name}`, describeType(value), 'a non-empty string');
}

/**
 * Whether the error means that the client needs a token other than `token`. `UserEmpty` means this only if the request
 * had no token.
 */
function refuses(error: EtcdError, token: string | undefined): boolean {
  return isTokenRefused(error) && (error.reason !== 'UserEmpty' || token === undefined);
}

/**
 * Keeps the current token. Makes only one `Authenticate` call at a time, no matter how many calls wait for the token.
 * The token is undefined while the cluster has authentication disabled.
 */
export class TokenSource {
  readonly #credentials: Credentials | (() => Promise<Credentials>);
  readonly #authenticate: (username: string, password: string) => Promise<string>;
  #current: { readonly token: string | undefined } | undefined;
  #request: Promise<string | undefined> | undefined;

  /** If `credentials` is a function, the source calls the function for each new token. */
  constructor(
    credentials: Credentials | (() => Promise<Credentials>),
    authenticate: (username: string, password: string) => Promise<string>,
  ) {
    this.#credentials = credentials;
    this.#authenticate = authenticate;
    if ('token' in credentials) this.#current = { token: credentials.token };
  }

  /** Whether the client can replace a refused token. It cannot if the option `auth` contains the token. */
  get renews(): boolean {
    return !('token' in this.#credentials);
  }

  /** Returns the token, or a promise of it. The promise rejects with reason `AuthFailed` if the password is wrong. */
  get(): string | undefined | Promise<string | undefined> {
    if (this.#current !== undefined) return this.#current.token;
    this.#request ??= this.#fetch().finally(() => {
      this.#request = undefined;
    });
    return this.#request;
  }

  /** Discards `token`, which the server refused, unless another call has already replaced it with a new token. */
  refused(token: string | undefined): void {
    if (this.renews && this.#current?.token === token) this.#current = undefined;
  }

  async #fetch(): Promise<string | undefined> {
    const given = this.#credentials;
    const credentials = typeof given === 'function' ? await given() : given;
    const token =
      'token' in credentials
        ? credentials.token
        : await this.#authenticate(credentials.username, credentials.password).catch((error: unknown) => {
            if (error instanceof EtcdError && error.reason === 'AuthNotEnabled') return undefined;
            throw error;
          });
    this.#current = { token };
    return token;
  }
}

/** Calls the function that the caller gave as `auth`. Does not check its result. */
export async function askForCredentials(ask: () => Credentials | Promise<Credentials>): Promise<Credentials> {
  try {
    return await ask();
  } catch (cause) {
    // The message of the cause may contain secrets, so do not copy it into the message of this error.
    const details = { code: 'Unavailable', reason: 'AuthFailed', outcome: 'not-sent', cause } as const;
    throw new EtcdError('the function given as auth failed', details);
  }
}

/**
 * Time limit of an `Authenticate` call, in milliseconds. The limit is high because the server's password hash is slow.
 */
const AUTHENTICATE_TIMEOUT_MS = 15_000;

/**
 * Adds a token to each call except `Authenticate`. Repeats a unary call with a new token if the server refused the
 * token. A stream ends if the server refuses its token. The code that opened the stream may open another stream, which
 * gets a new token.
 */
export class AuthenticatedTransport implements Transport {
  readonly #inner: Transport;
  readonly #tokens: TokenSource;
  /** The latest failure at each endpoint during the current `Authenticate` call. */
  readonly #failures = new Map<string, EtcdError>();

  constructor(inner: Transport, credentials: Credentials | (() => Promise<Credentials>)) {
    this.#inner = inner;
    this.#tokens = new TokenSource(credentials, async (name, password) => {
      this.#failures.clear();
      const { token } = await inner.unary({
        method: authMethods.authenticate,
        request: { name, password },
        metadata: REQUIRE_LEADER,
        timeoutMs: AUTHENTICATE_TIMEOUT_MS,
        deadline: monotonicMs() + AUTHENTICATE_TIMEOUT_MS,
        observer: { retry: (error) => noteFailure(this.#failures, error) },
      });
      return token;
    });
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    // `Authenticate` needs no token, because its request contains the password.
    if (call.method.path === authMethods.authenticate.path) return this.#inner.unary(call);
    /** Whether a server may have carried out an attempt, at least in part. */
    let isInDoubt = false;
    for (let renewals = 0; ; renewals += 1) {
      let token: string | undefined;
      try {
        token = await this.#tokenFor(call);
        return await this.#inner.unary({ ...call, metadata: withToken(call.metadata, token) });
      } catch (error) {
        if (!(error instanceof EtcdError)) throw error;
        const isRefused = refuses(error, token);
        if (isRefused) {
          isInDoubt ||= error.outcome === 'unknown';
          this.#tokens.refused(token);
        }
        if (!isRefused || !mayRenewToken(this.#tokens.renews, error, renewals))
          throw isInDoubt ? amended(error, { outcome: 'unknown' }) : error;
        call.observer?.retry?.(error);
      }
    }
  }

  readonly stream: Transport['stream'] = (call, handler) => {
    let used: string | undefined;
    const merge = (metadata: Metadata | undefined, token: string | undefined): Metadata => {
      used = token;
      return withToken(metadata, token);
    };
    const [given, token] = [call.metadata, this.#tokens.get()];
    const metadata =
      given instanceof Promise || token instanceof Promise
        ? Promise.all([given, explainedToken(token, call.method.path)]).then((both) => merge(...both))
        : merge(given, token);
    // If `metadata` rejects, the inner transport ends the stream with that error. The empty handler keeps the runtime
    // from reporting the rejection as unhandled as well.
    if (metadata instanceof Promise) metadata.catch(() => {});
    const authenticated = { ...call, metadata };
    const stream = this.#inner.stream(authenticated, {
      message: (message) => handler.message(message),
      leaving: () => handler.leaving?.(),
      end: (error) => {
        if (error !== undefined && refuses(error, used)) this.#tokens.refused(used);
        handler.end(error);
      },
    });
    return forwardStream(stream, {
      cancel: (why) => {
        if (why === 'unauthenticated') this.#tokens.refused(used);
        stream.cancel(why);
      },
    });
  };

  readonly close: Transport['close'] = () => this.#inner.close();

  /** Returns the token for the call. Waits no longer than the call's deadline and signal allow. */
  async #tokenFor(call: UnaryCall<unknown, unknown>): Promise<string | undefined> {
    for (let isShared = true; ; isShared = false) {
      const token = this.#tokens.get();
      if (!(token instanceof Promise)) return token;
      try {
        return await beforeSending(call, explainedToken(token, call.method.path), this.#failures);
      } catch (error) {
        // An earlier call may have started the `Authenticate` call, whose time limit has passed now.
        const isLate = error instanceof EtcdError && error.reason === 'DeadlineExceeded';
        if (!isLate || !isShared || monotonicMs() >= call.deadline) throw error;
      }
    }
  }
}

/**
 * Waits for the token. If the client cannot obtain a token, throws an error that names `method` and has the outcome
 * `not-sent`.
 */
async function explainedToken(
  token: string | undefined | Promise<string | undefined>,
  method: string,
): Promise<string | undefined> {
  try {
    return await token;
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
    const { code, reason, endpoint } = error;
    const problem = `could not obtain a token: ${error.problem}`;
    throw new EtcdError(problem, { code, reason, outcome: 'not-sent', method, endpoint, cause: error });
  }
}

function withToken(metadata: Metadata | undefined, token: string | undefined): Metadata {
  return token === undefined ? { ...metadata } : { ...metadata, token };
}
