import { isIP } from 'node:net';
import { type ConnectionOptions, connect } from 'node:tls';
import { http2, type TlsOptions, type TransportFactory } from '../../../src/internal.js';

/**
 * Returns a transport that does TLS without checking the certificate of the server. It is for --insecure-skip-tls-verify
 * only: the client itself always checks certificates.
 */
export function unverifiedTls(tls: TlsOptions | undefined): TransportFactory {
  const options: ConnectionOptions = {
    ALPNProtocols: ['h2'],
    rejectUnauthorized: false,
    checkServerIdentity: () => undefined,
    ...(tls?.cert === undefined ? {} : { cert: String(tls.cert) }),
    ...(tls?.key === undefined ? {} : { key: String(tls.key) }),
  };
  const overTls = http2({
    connect: ({ address }) => {
      if ('path' in address) throw new Error(`${address.path} is a Unix socket, which has no TLS`);
      const { host, port } = address;
      return connect({ ...options, host, port, servername: isIP(host) === 0 ? host : '' });
    },
  });
  const inClear = http2({});
  // The connection does TLS, so the transport must not do it again.
  return (endpoint, given) =>
    endpoint.tls ? overTls({ ...endpoint, tls: false }, { ...given, tls: undefined }) : inClear(endpoint, given);
}
