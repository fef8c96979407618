import { type EtcdError, invalidInput } from '../errors/etcd-error.js';
import { describeType } from '../runtime/bytes.js';

/** The address of a member. A member may have several. */
export interface Endpoint {
  /** The normalized URL, without a trailing slash. Errors name the endpoint by it. */
  readonly url: string;
  readonly tls: boolean;
  readonly address: { readonly host: string; readonly port: number } | { readonly path: string };
}

const ALLOWED = 'http://host:port, https://host:port or unix:///path';
const DEFAULT_PORT = 2379;
/** The port in a URL. `URL.port` is empty for a scheme's default port, even if the text contains it. */
const PORT_IN_URL = /^\w+:\/+[^/]+:(\d+)(?:\/|$)/;
const HOST_AND_PORT = /^[\w.-]+:\d+$/;
/**
 * A URL without a user name, password, query or fragment. It has no white space, control characters or backslashes either,
 * because a URL parser removes or replaces them.
 */
const ENDPOINT_URL = /^(?:https?|unix):\/\/[!"$->A-[\]-\uffff]+$/i;

/**
 * Parses the URL of an endpoint. The default port is 2379. `argument` names the argument in an error.
 *
 * @throws EtcdError, reason `InvalidInput`.
 */
export function parseEndpoint(text: string, argument: string): Endpoint {
  const refused = (hint = ''): EtcdError => invalidInput(argument, showUrl(text), ALLOWED + hint);
  if (typeof text !== 'string') throw refused();
  const url = ENDPOINT_URL.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) throw refused(HOST_AND_PORT.test(text) ? `; did you mean http://${text}?` : '');
  if (url.protocol === 'unix:') {
    const path = decoded(url.pathname);
    if (url.host !== '' || path.length < 2) throw refused();
    return { url: `unix://${url.pathname}`, tls: false, address: { path } };
  }
  if (url.pathname !== '/') throw refused(', without a path');
  const port = Number(url.port || PORT_IN_URL.exec(text)?.[1] || DEFAULT_PORT);
  return {
    url: `${url.protocol}//${url.hostname}:${port}`,
    tls: url.protocol === 'https:',
    address: { host: url.hostname.replace(/^\[|\]$/g, ''), port },
  };
}

/** Describes the value given for a URL in an error. Does not show a text that may contain a secret or is not a URL. */
export function showUrl(given: unknown): string {
  if (typeof given !== 'string') return describeType(given);
  if (/[@?#]/.test(given)) return 'a URL with a user name or password, query or fragment';
  return HOST_AND_PORT.test(given) || given.includes('://') ? JSON.stringify(given) : describeType(given);
}

/** Returns an empty string if the encoding is invalid. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return '';
  }
}
