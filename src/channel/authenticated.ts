import { amended, canceled, EtcdError, outOfTime } from '../errors/etcd-error.js';
import { methods } from '../gen/methods.js';
import { onAbort } from '../runtime/signals.js';
import { after, monotonicMs } from '../runtime/timers.js';
import type {
  Metadata,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  UnaryCall,
} from '../transport/transport.js';
import { forwardStream } from '../transport/transport.js';
import type { Credentials } from './credentials.js';
import { isTokenRefused, MAX_RENEWALS, TokenSource } from './token-source.js';

/** For an exchange of the password for a token, which costs the server some work. Calls have their own limits too. */
const EXCHANGE_TIMEOUT_MS = 15_000;

/** Calls that put a key before they wait: a token that is refused after that does not mean that nothing was done. */
const WAITING: ReadonlySet<string> = new Set([methods.lock.lock.path, methods.election.campaign.path]);

/**
 * A transport whose calls carry a token. A unary call whose token is refused is repeated with a new one; a stream ends,
 * and whoever owns it opens the next one, which gets a new token.
 */
export class AuthenticatedTransport implements Transport {
  readonly #inner: Transport;
  readonly #tokens: TokenSource;
  /** What the exchange under way has met with. */
  #problem: EtcdError | undefined;

  constructor(inner: Transport, credentials: Credentials) {
    this.#inner = inner;
    this.#tokens = new TokenSource(credentials, async (name, password) => {
      this.#problem = undefined;
      const { token } = await inner.unary({
        method: methods.auth.authenticate,
        request: { name, password },
        timeoutMs: EXCHANGE_TIMEOUT_MS,
        deadline: monotonicMs() + EXCHANGE_TIMEOUT_MS,
        onRetry: (error) => {
          this.#problem = error;
        },
      });
      return token;
    });
  }

  /** Whether a new stream may do better where a token was refused. */
  get renewsTokens(): boolean {
    return this.#tokens.renews;
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    // The one call that needs no token, and has the password in it.
    if (call.method.path === methods.auth.authenticate.path) return this.#inner.unary(call);
    const lastWord = (error: EtcdError): EtcdError =>
      WAITING.has(call.method.path) ? amended(error, { outcome: 'unknown' }) : error;
    for (let renewals = 0; ; renewals += 1) {
      const token = await this.#tokenFor(call, renewals > 0 ? lastWord : undefined);
      try {
        return await this.#inner.unary({ ...call, metadata: withToken(call.metadata, token) });
      } catch (error) {
        if (!(error instanceof EtcdError) || !isRefused(error, token)) throw error;
        this.#tokens.refused(token);
        if (!this.#tokens.renews || renewals === MAX_RENEWALS) throw lastWord(error);
      }
    }
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    let used: string | undefined;
    const carry = (metadata: Metadata | undefined, token: string | undefined): Metadata => {
      used = token;
      return withToken(metadata, token);
    };
    const [given, token] = [call.metadata, this.#tokens.get()];
    const metadata =
      given instanceof Promise || token instanceof Promise
        ? Promise.all([given, this.#orReason(token, call.method.path)]).then((both) => carry(...both))
        : carry(given, token);
    // Heard of as the end of the stream, and not twice.
    if (metadata instanceof Promise) metadata.catch(() => {});
    const stream = this.#inner.stream<Request, Response>(
      { ...call, metadata },
      {
        message: (message) => handler.message(message),
        leaving: () => handler.leaving?.(),
        end: (error) => {
          if (error !== undefined && isRefused(error, used)) this.#tokens.refused(used);
          handler.end(error);
        },
      },
    );
    return forwardStream(stream, {
      cancel: (why) => {
        if (why === 'unauthenticated') this.#tokens.refused(used);
        stream.cancel(why);
      },
    });
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  /** The token, waited for no longer than the call may take. */
  async #tokenFor(
    call: UnaryCall<unknown, unknown>,
    amend: (error: EtcdError) => EtcdError = (error) => error,
  ): Promise<string | undefined> {
    const token = this.#tokens.get();
    if (!(token instanceof Promise)) return token;
    const { method, signal, deadline } = call;
    return new Promise((resolve, reject) => {
      const abort = (): void => reject(amend(canceled(signal as AbortSignal, 'not-sent', method.path)));
      const late = (): void => reject(amend(outOfTime(call, 'not-sent', this.#problem)));
      const undos = [after(deadline - monotonicMs(), late), signal === undefined ? () => {} : onAbort(signal, abort)];
      if (signal?.aborted) abort();
      this.#orReason(token, method.path)
        .then(resolve, (error: EtcdError) => reject(amend(error)))
        .finally(() => {
          for (const undo of undos) undo();
        });
    });
  }

  async #orReason(
    token: string | undefined | Promise<string | undefined>,
    method: string,
  ): Promise<string | undefined> {
    try {
      return await token;
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      const { code, reason, endpoint } = error;
      const problem = `no token is to be had: ${error.problem}`;
      throw new EtcdError(problem, { code, reason, outcome: 'not-sent', method, endpoint, cause: error });
    }
  }
}

function withToken(metadata: Metadata | undefined, token: string | undefined): Metadata {
  return token === undefined ? { ...metadata } : { ...metadata, token };
}

/** "The user name is empty" is about the token only where there was none. */
function isRefused(error: EtcdError, token: string | undefined): boolean {
  return isTokenRefused(error) && (error.reason !== 'UserEmpty' || token === undefined);
}
