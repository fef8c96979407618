import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { escapeControls, type HeaderField } from '../../../../src/internal.js';
import { withoutSecret } from '../inspect/index.js';

// The proxy has the rights of its client certificate, and runs where every web page can connect to it, because a browser
// runs there, too. etcd's gateway accepts requests and WebSockets of any origin. So the proxy refuses what only a web
// page sends.

export interface GateOptions {
  /** The hosts of the URLs that the proxy listens at, and the further names that the user allows. */
  readonly hosts: readonly string[];
  /** The certificate that the proxy shows to its clients, in PEM. */
  readonly cert?: string | undefined;
  /** Whether a connection may change to another protocol, such as WebSocket. */
  readonly allowUpgrades: boolean;
}

/** Says why the proxy refuses a request with these fields. Returns undefined if the proxy forwards the request. */
export type RequestGate = (fields: readonly HeaderField[]) => string | undefined;

export function requestGate({ hosts, cert, allowUpgrades }: GateOptions): RequestGate {
  const certificate = cert === undefined ? undefined : new X509Certificate(cert);
  const names = new Set(['localhost', ...hosts.map((host) => host.toLowerCase())]);
  /**
   * A page gets an answer only from its own host. With DNS rebinding, an attacker makes a name of this host lead to the
   * proxy. That is impossible with an IP address, and with a name in the certificate of the proxy.
   */
  const isOwn = (host: string): boolean => {
    const name = host
      .toLowerCase()
      .replace(/:\d*$/, '')
      .replace(/^\[(.*)\]$/, '$1');
    return isIP(name) !== 0 || names.has(name) || certificate?.checkHost(name) !== undefined;
  };
  return (fields) => {
    for (const field of fields) {
      const [name, value] = field;
      if (name === 'origin') return 'it has the field Origin, so a web page has sent it';
      if (name === 'sec-fetch-site' && !/^(none|same-origin)$/.test(value))
        return 'it has the field Sec-Fetch-Site, so a web page of another site has sent it';
      if (name === 'host' && !isOwn(value))
        return `its host is ${escapeControls(JSON.stringify(withoutSecret(field)[1]))}, which is no name of the proxy; --allow-host allows it`;
      if ((name === 'upgrade' || name === ':protocol') && !allowUpgrades)
        return 'it asks for another protocol, such as WebSocket, which the proxy cannot show; --allow-upgrades allows it';
    }
    return undefined;
  };
}
