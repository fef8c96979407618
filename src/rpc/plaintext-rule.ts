import { EtcdError, invalidInput } from '../base/index.js';
import type { Endpoint } from '../host/index.js';
import type { StreamCall, UnaryCall } from '../wire/index.js';
import { beforeSending } from './before-sending.js';

/** What the errors about endpoints without TLS allow. */
export const PERMITTED =
  'only https: and unix: endpoints, unless allowPlaintext: true permits unencrypted passwords and tokens';

/** Whether others on the network path can read what the client sends to the endpoint. */
export function isPlaintext({ tls, address }: Endpoint): boolean {
  return !tls && 'host' in address;
}

/** Whether the call contains a token, or the password or the hash of the password of a user. */
function sendsSecret({ method, metadata, request }: UnaryCall<unknown, unknown>): boolean {
  if (metadata?.token !== undefined) return true;
  if (!method.path.startsWith('/etcdserverpb.Auth/')) return false;
  const { password, hashedPassword } = request as Readonly<Record<string, unknown>>;
  return Boolean(password || hashedPassword);
}

type Permission = { readonly allowPlaintext?: boolean | undefined } | undefined;

/**
 * Decides whether an attempt may send a password or a token to its endpoint. The credentials and the endpoints may
 * change while a call waits for a token or for its next attempt. Therefore, the channel asks this rule for each attempt,
 * after it has chosen the endpoint.
 */
export class PlaintextRule {
  readonly #permission: () => Permission | Promise<Permission>;
  readonly #configured: () => readonly Endpoint[];

  /**
   * `permission` returns the current credentials, or a promise of them if the function `auth` has not returned any yet.
   * `configured` returns the endpoints that the caller has configured last.
   */
  constructor(permission: () => Permission | Promise<Permission>, configured: () => readonly Endpoint[]) {
    this.#permission = permission;
    this.#configured = configured;
  }

  /** Returns undefined if the attempt may send the call at once. Otherwise, returns a promise that may reject. */
  unary(call: UnaryCall<unknown, unknown>, url: string): Promise<void> | undefined {
    if (!url.startsWith('http:') || !sendsSecret(call)) return undefined;
    const given = this.#permission();
    if (!(given instanceof Promise) && given?.allowPlaintext) return undefined;
    return beforeSending(call, this.#check(given, call.method.path, url));
  }

  /** Returns the call. Its metadata reject if they contain a token that the endpoint must not receive. */
  stream<Request, Response>(call: StreamCall<Request, Response>, url: string): StreamCall<Request, Response> {
    const { metadata, method } = call;
    if (!url.startsWith('http:') || (!(metadata instanceof Promise) && metadata?.token === undefined)) return call;
    const checked = Promise.resolve(metadata).then(async (given = {}) => {
      if (given.token !== undefined) await this.#check(this.#permission(), method.path, url);
      return given;
    });
    // The transport ends the stream with the error. The empty handler keeps the runtime from reporting the error, too.
    checked.catch(() => {});
    return { ...call, metadata: checked };
  }

  async #check(permission: Permission | Promise<Permission>, method: string, url: string): Promise<void> {
    if ((await permission)?.allowPlaintext) return;
    // If the caller has removed the endpoint meanwhile, another attempt uses another endpoint.
    if (!this.#configured().some((each) => each.url === url)) {
      const details = { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'not-sent' } as const;
      throw new EtcdError('the client no longer uses the endpoint', { ...details, method, endpoint: url });
    }
    const given = `no allowPlaintext: true, but ${method} would send a password or token to ${url}, which has no TLS`;
    throw invalidInput('auth', `${given}; nothing was sent`, PERMITTED);
  }
}
