import { checkList, describeType, type EtcdError, invalidInput } from '../base/index.js';

/** A client address of an etcd member. A member may have several endpoints. */
export interface Endpoint {
  /** The normalized URL, without a trailing slash. Error messages show this URL. */
  readonly url: string;
  readonly tls: boolean;
  readonly address: { readonly host: string; readonly port: number } | { readonly path: string };
}

const ALLOWED = 'host:port, http://host:port, https://host:port or unix:///path';
const DEFAULT_PORT = 2379;
/** Matches the port in a URL. `URL.port` is empty for a scheme's default port, even if the URL contains that port. */
const PORT_IN_URL = /^\w+:\/+[^/]+:(\d+)(?:\/|$)/;
const HOST_AND_PORT = /^(?:[\w.-]+|\[[\da-f:.]+\]):\d+$/i;
/**
 * Matches a URL without user name, password, query, fragment, or characters that a URL parser would remove or replace.
 */
const ENDPOINT_URL = /^(?:https?|unix):\/\/[!"$->A-[\]-\uffff]+$/i;

/**
 * Parses a list of endpoints. Keeps only the first of several endpoints with the same URL.
 *
 * @throws EtcdError with reason `InvalidInput` if the list is empty, or if one of the endpoints is invalid.
 */
export function parseEndpoints(given: readonly string[] | undefined, defaultScheme?: 'http' | 'https'): Endpoint[] {
  const allowed = 'a list of at least one URL';
  const list = checkList(given as readonly string[], 'endpoints', allowed);
  if (list.length === 0) throw invalidInput('endpoints', 'an empty list', allowed);
  const parsed = list.map((endpoint, index) => parseEndpoint(endpoint, `endpoints[${index}]`, defaultScheme));
  return parsed.filter(({ url }, index) => parsed.findIndex((other) => other.url === url) === index);
}

/**
 * Parses the URL of an endpoint. The default port is 2379. If the text is only a host and a port, it gets the scheme
 * `defaultScheme`. `argument` is the name of the argument in error messages.
 *
 * @throws EtcdError with reason `InvalidInput` if the text is not the URL of an endpoint.
 */
export function parseEndpoint(given: string, argument: string, defaultScheme: 'http' | 'https' = 'http'): Endpoint {
  const refused = (hint = ''): EtcdError => invalidInput(argument, showUrl(given), ALLOWED + hint);
  if (typeof given !== 'string') throw refused();
  // Go's client also takes `unix:/path`, which RFC 3986 regards as equal to `unix:///path`.
  const text = HOST_AND_PORT.test(given) ? `${defaultScheme}://${given}` : given.replace(/^unix:\/(?!\/)/i, 'unix:///');
  const url = ENDPOINT_URL.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) throw refused();
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

/** Describes a URL for an error message. Does not show text that may contain a secret or does not look like a URL. */
export function showUrl(given: unknown): string {
  if (typeof given !== 'string') return describeType(given);
  if (/[@?#]/.test(given)) return 'a URL with a user name or password, query or fragment';
  if (given === '') return describeType(given);
  return HOST_AND_PORT.test(given) || given.includes('://') ? JSON.stringify(given) : 'text without "://"';
}

/** Returns an empty string if the encoding is invalid. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return '';
  }
}
