import { EtcdError } from '../base/index.js';
import { type Endpoint, opensslReason } from '../host/index.js';

const CHECK_SCHEME = 'check the URL: https: for a server with TLS, http: for a server without';

/**
 * Advice for failed TLS connections. Each pattern matches an error text of OpenSSL, Node.js or this package; the error
 * message shows the advice of the first pattern that matches.
 */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /alert .*(certificate|unknown ca)/,
    'the server requires a client certificate that it accepts: set tls.cert, tls.key',
  ],
  [/has expired|not yet valid/, "renew the server's certificate, or correct the clock"],
  [/altnames/, "the server's certificate must contain this name; set tls.serverName if it contains another one"],
  [/issuer|first certificate|self.signed/, 'set tls.ca to the authority that issued it'],
  [/version number|before secure TLS/, CHECK_SCHEME],
  [/protocol version|unsupported protocol/, 'the server must support TLS 1.2 or newer'],
  [/answers in HTTP/, 'workerd cannot request HTTP/2 by ALPN; on workerd, use etcdwire/gateway'],
  [/key values mismatch/, 'tls.key does not belong to tls.cert'],
];
const MAX_PROBLEM_CHARS = 300;

/**
 * Returns the error for a connection that the client could not open. The client has sent no call on this connection.
 * `hasAnswered` is true if the peer has closed the connection or has violated the HTTP/2 protocol.
 */
export function connectFailed(
  { url, tls }: Pick<Endpoint, 'url' | 'tls'>,
  reason: string,
  cause?: unknown,
  hasAnswered = false,
): EtcdError {
  const problem = opensslReason(reason)
    .slice(0, MAX_PROBLEM_CHARS)
    .replace(/[^\w)]+$/, '');
  const advice = tls
    ? ADVICE.find(([pattern]) => pattern.test(problem))?.[1]
    : (hasAnswered || /^Failed|ECONNRESET/.test(problem)) && CHECK_SCHEME;
  return new EtcdError(`cannot connect to ${url}: ${problem}${advice ? `; ${advice}` : ''}`, {
    code: 'Unavailable',
    reason: 'ConnectFailed',
    outcome: 'not-sent',
    endpoint: url,
    cause,
  });
}
