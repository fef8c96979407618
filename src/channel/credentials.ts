import { invalidInput } from '../errors/etcd-error.js';
import type { Endpoint } from '../host/endpoint.js';
import { checkFields, show } from '../runtime/arguments.js';

/** Who the client is to a cluster with authentication. */
export type Credentials = (
  | {
      readonly username: string;
      /** Exchanged for tokens, which are renewed when the server does not take them any more. */
      readonly password: string;
    }
  | {
      /** A token of the caller's own, never renewed. */
      readonly token: string;
    }
) & {
  /** Send the password and the tokens over `http:` too, for everybody on the way to read. Default false. */
  readonly allowPlaintext?: boolean | undefined;
};

const CREDENTIALS = { username: true, password: true, token: true, allowPlaintext: true } as const;

const TOKEN = /^[\x21-\x7e]+$/;

/**
 * A copy that has nothing else in it.
 *
 * @throws EtcdError, reason `InvalidInput`; what was given for a secret is not part of it.
 */
export function checkCredentials(credentials: Credentials, endpoints: readonly Endpoint[]): Credentials {
  checkFields(credentials, CREDENTIALS, 'auth');
  const { username, password, token }: Readonly<Record<string, unknown>> = { ...credentials };
  const plaintext = endpoints.find((endpoint) => !endpoint.tls && 'host' in endpoint.address);
  if (plaintext !== undefined && credentials.allowPlaintext !== true) {
    throw invalidInput(
      'auth',
      `credentials for ${plaintext.url}`,
      'https: or unix: endpoints, or allowPlaintext: true',
    );
  }
  if (token === undefined) return { username: secret('username', username), password: secret('password', password) };
  if (username !== undefined || password !== undefined) {
    throw invalidInput('auth', 'a token together with a user name or password', 'one of the two');
  }
  const given = secret('token', token);
  // It goes into a header; a line break at its end is what reading it from a file leaves.
  if (!TOKEN.test(given))
    throw invalidInput('auth.token', 'one with spaces or line breaks in it', 'visible ASCII only');
  return { token: given };
}

function secret(name: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  throw invalidInput(`auth.${name}`, show(value), '{ username, password } or { token }, none of them empty');
}
