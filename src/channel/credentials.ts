import { describeType } from '../bytes.js';
import { invalidInput } from '../errors.js';
import type { Endpoint } from '../transport/endpoint.js';

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

/** @throws EtcdError, reason `InvalidInput`; what was given for a secret is not part of it. */
export function checkCredentials(credentials: Credentials, endpoints: readonly Endpoint[]): Credentials {
  const given: Readonly<Record<string, unknown>> = { ...credentials };
  const forms = given.token === undefined ? ['username', 'password'] : ['token'];
  for (const name of forms) {
    if (typeof given[name] === 'string' && given[name] !== '') continue;
    const shown = given[name] === '' ? 'an empty string' : describeType(given[name]);
    throw invalidInput(`auth.${name}`, shown, '{ username, password } or { token }, none of them empty');
  }
  if (given.token !== undefined && (given.username !== undefined || given.password !== undefined)) {
    throw invalidInput('auth', 'a token together with a user name or password', 'one of the two');
  }
  const plaintext = endpoints.find((endpoint) => !endpoint.tls && 'host' in endpoint.address);
  if (plaintext !== undefined && credentials.allowPlaintext !== true) {
    throw invalidInput(
      'auth',
      `credentials for ${plaintext.url}`,
      'https: or unix: endpoints, or allowPlaintext: true',
    );
  }
  return credentials;
}
