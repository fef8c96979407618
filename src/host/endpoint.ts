import { type EtcdError, invalidInput } from '../errors/etcd-error.js';
import { describeType } from '../runtime/bytes.js';

/** One address of one member. */
export interface Endpoint {
  /** As given, less a trailing slash; names the endpoint in errors. */
  readonly url: string;
  readonly tls: boolean;
  readonly address: { readonly host: string; readonly port: number } | { readonly path: string };
}

const ALLOWED = 'http://host:port, https://host:port or unix:///path';
const DEFAULT_PORT = 2379;
/** Where it stands in a URL. */
const OWN_PORT = /^\w+:\/+[^/]+:(\d+)(?:\/|$)/;
const HOST_AND_PORT = /^[\w.-]+:\d+$/;
/**
 * Without white space, controls and backslashes, which a URL parser reads as something else; and without a user name,
 * password, query or fragment.
 */
const SHAPE = /^(?:https?|unix):\/\/[!"$->A-[\]-\uffff]+$/i;

/** @throws EtcdError, reason `InvalidInput`. */
export function parseEndpoint(text: string, argument: string): Endpoint {
  const refused = (hint = ''): EtcdError => invalidInput(argument, showUrl(text), ALLOWED + hint);
  if (typeof text !== 'string') throw refused();
  const url = SHAPE.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) throw refused(HOST_AND_PORT.test(text) ? `; did you mean http://${text}?` : '');
  if (url.protocol === 'unix:') {
    const path = decoded(url.pathname);
    if (url.host !== '' || path.length < 2) throw refused();
    return { url: `unix://${url.pathname}`, tls: false, address: { path } };
  }
  if (url.pathname !== '/') throw refused(', without a path');
  // A URL does not tell of a port that is its scheme's own.
  const port = Number(url.port || OWN_PORT.exec(text)?.[1] || DEFAULT_PORT);
  return {
    url: `${url.protocol}//${url.hostname}:${port}`,
    tls: url.protocol === 'https:',
    address: { host: url.hostname.replace(/^\[|\]$/g, ''), port },
  };
}

/** What was given for a URL, for an error. What may have a secret in it, or is no URL at all, is not shown. */
export function showUrl(given: unknown): string {
  if (typeof given !== 'string') return describeType(given);
  if (/[@?#]/.test(given)) return 'a URL with a user name or password, query or fragment';
  return HOST_AND_PORT.test(given) || given.includes('://') ? JSON.stringify(given) : describeType(given);
}

/** Empty where it is not encoded rightly. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return '';
  }
}
