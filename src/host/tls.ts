import {
  checkedLaterAll,
  checkFields,
  describeType,
  type EtcdError,
  invalidInput,
  isBytes,
  missingInput,
  textOf,
  toBytes,
} from '../base/index.js';
import { type Endpoint, parseEndpoint } from './endpoint.js';

/**
 * Extracts the reason from an error text of OpenSSL. For example, the reason in
 * "error:0A00010B:SSL routines:ssl3_get_record:wrong version number:" is "wrong version number". Returns any other text
 * unchanged.
 */
export function opensslReason(text: string): string {
  return /(?:^|:)error:\w+:[^:]*:[^:]*:([^:]+)/.exec(text)?.[1] ?? text;
}

/**
 * Options for TLS connections. Certificates and keys are in PEM format, as text or bytes.
 *
 * @example
 * const tls: TlsOptions = {
 *   ca: await readFile('ca.crt'),
 *   cert: await readFile('client.crt'),
 *   key: await readFile('client.key'),
 * };
 */
export interface TlsOptions {
  /** The certificate authorities to trust. Default: the authorities that the platform trusts. */
  readonly ca?: string | Uint8Array | undefined;
  /** The client certificate and its intermediate certificates, for servers that require them. Requires `key`. */
  readonly cert?: string | Uint8Array | undefined;
  /** The private key of `cert`. It must not be encrypted. */
  readonly key?: string | Uint8Array | undefined;
  /** The name that the server's certificate must contain: `servername` of `node:tls`. Default: the endpoint's host. */
  readonly serverName?: string | undefined;
}

const TLS_OPTIONS = checkedLaterAll('ca', 'cert', 'key', 'serverName');

/**
 * TLS options, or a function that returns them. The client calls the function for each new connection, so that renewed
 * certificates take effect.
 *
 * @example
 * const tls: TlsSource = async () => ({ ca: await readFile('ca.crt') });
 */
export type TlsSource = TlsOptions | (() => TlsOptions | Promise<TlsOptions>);

/**
 * Checks the options, and returns a copy of them. If `tls` is a function, returns the function unchanged, and
 * `tlsForDial` checks the function's result for each connection.
 *
 * @throws EtcdError with reason `InvalidInput` if an option is invalid. The error does not show the option's value.
 */
export function checkTls(tls: TlsSource | undefined): TlsSource | undefined {
  return tls === undefined || typeof tls === 'function' ? tls : checkTlsOptions(tls);
}

function checkTlsOptions(tls: TlsOptions): TlsOptions {
  // Refuse a promise: it has no TLS fields, so the client would silently ignore the options inside the promise.
  if (typeof tls !== 'object' || tls === null || 'then' in tls)
    throw invalidInput('tls', describeType(tls), 'TLS options, or a function that returns them');
  checkFields(tls, TLS_OPTIONS, 'tls');
  const { ca, cert, key, serverName } = tls;
  if ((cert === undefined) !== (key === undefined))
    throw missingInput(key === undefined ? 'tls.key' : 'tls.cert', 'give both tls.cert and tls.key, or neither');
  return {
    ca: checkPem(ca, 'ca', 'CERTIFICATE'),
    cert: checkPem(cert, 'cert', 'CERTIFICATE'),
    key: checkPem(key, 'key', 'PRIVATE KEY'),
    serverName: serverName === undefined ? undefined : checkServerName(serverName),
  };
}

/** If `tls` is a function, calls it and checks the result. */
export async function tlsForDial(tls: TlsSource | undefined): Promise<TlsOptions | undefined> {
  if (typeof tls !== 'function') return tls;
  let given: TlsOptions;
  try {
    given = await tls();
  } catch (cause) {
    // The message of the cause may contain secrets, so the message of this error does not contain it.
    throw new Error('the function given as tls failed', { cause });
  }
  return checkTlsOptions(given);
}

/** Returns the name that the server's certificate must contain. TLS allows no trailing dot. */
export function serverNameOf({ address }: Endpoint, tls: TlsOptions | undefined): string {
  return (tls?.serverName ?? ('host' in address ? address.host : '')).replace(/\.$/, '');
}

/** Checks the name, and converts it to lower case and ASCII in the same way as the host of an endpoint. */
function checkServerName(name: string): string {
  try {
    return serverNameOf(parseEndpoint(`https://${name.includes(':') ? `[${name}]` : name}`, ''), undefined);
  } catch {
    throw invalidInput('tls.serverName', showName(name), 'a host name or an IP address without a port');
  }
}

/** Describes a server name for an error message. Does not show text that looks like a key or another secret. */
function showName(name: unknown): string {
  if (typeof name !== 'string' || name === '') return describeType(name);
  return /^[\w .:/[\]*-]{1,253}$/.test(name) ? JSON.stringify(name) : 'text that cannot be a host name';
}

/** Matches a PEM block: RFC 7468, section 3. The second group is undefined if the block has no END line. */
const BLOCK = /-----BEGIN ([^-]+)-----(?:([^-]*)-----END \1-----)?/g;

/**
 * Checks the PEM text, and returns the blocks whose label ends with `label`. `name` is the name of the TLS option, for
 * errors. The check is strict, because TLS libraries silently ignore certificate authorities that they cannot read. A
 * library would then trust no authority, or the authorities of the platform.
 */
function checkPem(pem: string | Uint8Array | undefined, name: string, label: string): string | undefined {
  if (pem === undefined) return undefined;
  const refuse = (given: string): EtcdError => invalidInput(`tls.${name}`, given, `PEM with -----BEGIN ${label}-----`);
  if (typeof pem !== 'string' && !isBytes(pem)) throw refuse(describeType(pem));
  const text = typeof pem === 'string' ? pem : textOf(toBytes(pem, `tls.${name}`));
  if (name === 'key' && /[ ,]ENCRYPTED/.test(text)) throw refuse('an encrypted key, which the client cannot decrypt');
  const blocks = [...text.matchAll(BLOCK)].filter(([, found]) => found?.endsWith(label));
  if (blocks.length === 0) throw refuse(`text without a ${label} block`);
  if (!blocks.every(([, , base64 = '']) => isSequence(base64))) throw refuse('damaged PEM');
  return blocks.map(([block]) => block).join('\n');
}

/** Whether the base64 text is a complete DER SEQUENCE (X.690, section 8.1), as every key and certificate is. */
function isSequence(base64: string): boolean {
  let der: string;
  try {
    der = atob(base64);
  } catch {
    return false;
  }
  let [at, length] = [2, der.charCodeAt(1)];
  if (length > 0x80) {
    const end = at + length - 0x80;
    for (length = 0; at < end; at += 1) length = length * 256 + der.charCodeAt(at);
  }
  return der.charCodeAt(0) === 0x30 && der.length - at >= length;
}
