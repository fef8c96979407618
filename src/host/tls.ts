import { type EtcdError, invalidInput } from '../errors/etcd-error.js';
import { checkFields } from '../runtime/arguments.js';
import { describeType, textOf } from '../runtime/bytes.js';
import { type Endpoint, parseEndpoint } from './endpoint.js';

/** "…:error:0A00010B:SSL routines:ssl3_get_record:wrong version number:…": what is for people in it. Else as it is. */
export function opensslWords(text: string): string {
  return /(?:^|:)error:\w+:[^:]*:[^:]*:([^:]+)/.exec(text)?.[1] ?? text;
}

/** PEM texts or bytes. */
export interface TlsOptions {
  /** Authorities to trust in place of the platform's. */
  readonly ca?: string | Uint8Array | undefined;
  /** Client certificate, with those between it and its authority, for servers that ask for one. */
  readonly cert?: string | Uint8Array | undefined;
  /** Its private key, not encrypted. */
  readonly key?: string | Uint8Array | undefined;
  /** Name that the server's certificate must bear, in place of the endpoint's host. */
  readonly serverName?: string | undefined;
}

const TLS_OPTIONS = { ca: true, cert: true, key: true, serverName: true } as const;

/** A function is asked for each new connection: what was renewed meanwhile is used from then on. */
export type TlsSource = TlsOptions | (() => TlsOptions | Promise<TlsOptions>);

/** @throws EtcdError, reason `InvalidInput`; what was given is not part of it. */
export function checkTls(tls: TlsSource | undefined): TlsSource | undefined {
  return tls === undefined || typeof tls === 'function' ? tls : checkTlsOptions(tls);
}

/** A copy that has nothing else in it. */
function checkTlsOptions(tls: TlsOptions): TlsOptions {
  // A promise has none of the options: the platform's authorities would be trusted in place of those meant.
  if (typeof tls !== 'object' || tls === null || 'then' in tls)
    throw invalidInput('tls', describeType(tls), 'options, or a function that gives them');
  checkFields(tls, TLS_OPTIONS, 'tls');
  const { ca, cert, key, serverName } = tls;
  if ((cert === undefined) !== (key === undefined))
    throw invalidInput(key === undefined ? 'tls.key' : 'tls.cert', 'none', 'tls.cert and tls.key, or neither');
  return {
    ca: checkPem(ca, 'ca', 'CERTIFICATE'),
    cert: checkPem(cert, 'cert', 'CERTIFICATE'),
    key: checkPem(key, 'key', 'PRIVATE KEY'),
    serverName: serverName === undefined ? undefined : checkServerName(serverName),
  };
}

/** What holds for one connection. */
export async function tlsForDial(tls: TlsSource | undefined): Promise<TlsOptions | undefined> {
  if (typeof tls !== 'function') return tls;
  let given: TlsOptions;
  try {
    given = await tls();
  } catch (cause) {
    // In its words there may be anything.
    throw new Error('the function given as tls failed', { cause });
  }
  return checkTlsOptions(given);
}

/** The name that the certificate must bear. TLS knows no dot at the end. */
export function serverNameOf({ address }: Endpoint, tls: TlsOptions | undefined): string {
  return (tls?.serverName ?? ('host' in address ? address.host : '')).replace(/\.$/, '');
}

/** Written as the host of an endpoint is: in lower case, of ASCII alone. */
function checkServerName(name: string): string {
  try {
    return serverNameOf(parseEndpoint(`https://${name.includes(':') ? `[${name}]` : name}`, ''), undefined);
  } catch {
    throw invalidInput('tls.serverName', describeType(name), 'a host name or an IP address, no port');
  }
}

/** RFC 7468, section 3; where the end is missing there is no text. */
const BLOCK = /-----BEGIN ([^-]+)-----(?:([^-]*)-----END \1-----)?/g;

/**
 * What of it has this label, each on lines of its own. TLS libraries pass over authorities that they cannot read without
 * a word, and trust nobody, or the platform's.
 */
function checkPem(pem: string | Uint8Array | undefined, name: string, label: string): string | undefined {
  if (pem === undefined) return undefined;
  const refuse = (given: string): EtcdError => invalidInput(`tls.${name}`, given, `PEM with -----BEGIN ${label}-----`);
  if (typeof pem !== 'string' && !(pem instanceof Uint8Array)) throw refuse(describeType(pem));
  const text = typeof pem === 'string' ? pem : textOf(pem);
  if (name === 'key' && /[ ,]ENCRYPTED/.test(text)) throw refuse('an encrypted key');
  const blocks = [...text.matchAll(BLOCK)].filter(([, found]) => found?.endsWith(label));
  if (blocks.length === 0) throw refuse('text without it');
  if (!blocks.every(([, , base64 = '']) => isSequence(base64))) throw refuse('PEM that is damaged');
  return blocks.map(([block]) => block).join('\n');
}

/** Whether it is the base64 of a whole SEQUENCE in DER: X.690, section 8.1. Keys and certificates are. */
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
