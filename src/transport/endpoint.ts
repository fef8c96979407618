import { invalidInput } from '../errors.js';

/** One address of one member. */
export interface Endpoint {
  /** As given, less a trailing slash; names the endpoint in errors. */
  readonly url: string;
  readonly tls: boolean;
  readonly address: { readonly host: string; readonly port: number } | { readonly path: string };
}

const ALLOWED = 'http://host:port, https://host:port or unix:///path';
const DEFAULT_PORT = 2379;

/** @throws EtcdError, reason `InvalidInput`. */
export function parseEndpoint(text: string, argument: string): Endpoint {
  // A password in an endpoint would end up in errors and logs, this one among them.
  if (typeof text === 'string' && text.includes('@'))
    throw invalidInput(argument, 'a URL with a user name or password', ALLOWED);
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:', 'unix:'].includes(url.protocol)) {
    throw invalidInput(
      argument,
      JSON.stringify(text),
      `${ALLOWED}${/^[\w.-]+:\d+$/.test(text) ? `; did you mean http://${text}?` : ''}`,
    );
  }
  if (url.protocol === 'unix:') {
    if (url.pathname.length < 2) throw invalidInput(argument, JSON.stringify(text), ALLOWED);
    return { url: `unix://${url.pathname}`, tls: false, address: { path: decodeURIComponent(url.pathname) } };
  }
  if (url.hostname === '' || url.pathname !== '/' || url.search !== '' || url.hash !== '') {
    throw invalidInput(argument, JSON.stringify(text), `${ALLOWED}, without a path`);
  }
  const port = url.port === '' ? DEFAULT_PORT : Number(url.port);
  return {
    url: `${url.protocol}//${url.hostname}:${port}`,
    tls: url.protocol === 'https:',
    address: { host: url.hostname.replace(/^\[|\]$/g, ''), port },
  };
}
