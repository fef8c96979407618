import { EtcdError } from '../errors/etcd-error.js';
import type { Endpoint } from '../host/endpoint.js';
import { opensslWords } from '../host/tls.js';

const WRONG_SCHEME = 'does the peer speak TLS? Then the URL begins with https:, and else with http:';

/** What it means, or what to do about it, by the words of OpenSSL and Node: the first that fits. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/alert .*(certificate|unknown ca)/, 'the server asks for a certificate that it accepts: tls.cert'],
  [/has expired|not yet valid/, 'the server needs another one, unless the clock here is wrong'],
  [/altnames/, 'the server needs one for this name, unless tls.serverName gives another'],
  [/issuer|first certificate|self.signed/, 'no authority in tls.ca, or else of the platform, vouches for it'],
  [/version number|before secure TLS/, WRONG_SCHEME],
  [/protocol version|unsupported protocol/, 'TLS 1.2 or newer is needed'],
  [/answers in HTTP/, 'HTTP/2 was not asked for by ALPN, which workerd cannot: there, use etcdwire/gateway'],
  [/key values mismatch/, 'tls.key is not the key of tls.cert'],
];
const LONGEST_PROBLEM = 300;

/** No connection came about; nothing was sent. */
export function connectFailed({ url, tls }: Endpoint, words: string, cause?: unknown): EtcdError {
  const problem = opensslWords(words).slice(0, LONGEST_PROBLEM).replace(/\W+$/, '');
  const advice = tls
    ? ADVICE.find(([pattern]) => pattern.test(problem))?.[1]
    : /peer closed|broke a rule|^Failed|ECONNRESET/.test(problem) && WRONG_SCHEME;
  return new EtcdError(`cannot connect to ${url}: ${problem}${advice ? `; ${advice}` : ''}`, {
    code: 'Unavailable',
    reason: 'ConnectFailed',
    outcome: 'not-sent',
    endpoint: url,
    cause,
  });
}
