import 'reflect-metadata';
import { randomBytes, webcrypto } from 'node:crypto';
import { isIP } from 'node:net';
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { environment } from '../../../../src/internal.js';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY_MS = 86_400_000;

/** A certificate chain without the root certificate, and the private key of its first certificate, in PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

export interface CertificateOptions {
  /**
   * Host names and IP addresses for which the certificate is valid. A client certificate has none, because etcd would
   * compare them with the client's address.
   */
  readonly names?: readonly string[];
  /** The common name, which etcd uses as the name of a user. Default: `nobody`. */
  readonly commonName?: string;
  /** The start of the validity, in milliseconds from now. Default: one day ago. */
  readonly fromMs?: number;
  /** The end of the validity, in milliseconds from now. Default: one day ahead. */
  readonly untilMs?: number;
  /** Restricts the certificate to clients. Default: servers and clients. */
  readonly usage?: 'clients';
}

/** A certificate authority, for the proxy and for tests. */
export class Authority {
  /** The certificate of the authority, in PEM. */
  readonly cert: string;
  readonly #certificate: X509Certificate;
  readonly #keys: webcrypto.CryptoKeyPair;
  readonly #chain: string;

  private constructor(certificate: X509Certificate, keys: webcrypto.CryptoKeyPair, chain: string) {
    this.cert = certificate.toString('pem');
    this.#certificate = certificate;
    this.#keys = keys;
    this.#chain = chain;
  }

  static async create(commonName = 'authority'): Promise<Authority> {
    const keys = await generateKeys();
    const certificate = await X509CertificateGenerator.createSelfSigned({
      ...described(commonName, {}),
      keys,
      extensions: AUTHORITY_EXTENSIONS,
    });
    return new Authority(certificate, keys, '');
  }

  /**
   * Creates an intermediate authority, whose certificate this authority signs. The certificate chains that the
   * intermediate authority issues include its own certificate.
   *
   * @param isAuthority Whether the intermediate authority's certificate allows it to sign other certificates.
   */
  async intermediate(commonName: string, isAuthority = true): Promise<Authority> {
    const keys = await generateKeys();
    const extensions = isAuthority ? AUTHORITY_EXTENSIONS : [new BasicConstraintsExtension(false)];
    const certificate = await this.#sign(keys, described(commonName, {}), extensions);
    return new Authority(certificate, keys, `\n${certificate.toString('pem')}${this.#chain}`);
  }

  /** Issues a certificate for a server or a client. */
  async issue({
    names = [],
    commonName = 'nobody',
    usage,
    ...validity
  }: CertificateOptions = {}): Promise<Certificate> {
    const keys = await generateKeys();
    const alternatives = names.map((value) => ({
      type: isIP(value) === 0 ? ('dns' as const) : ('ip' as const),
      value,
    }));
    const certificate = await this.#sign(keys, described(commonName, validity), [
      new BasicConstraintsExtension(false),
      new ExtendedKeyUsageExtension([
        ExtendedKeyUsage.clientAuth,
        ...(usage === 'clients' ? [] : [ExtendedKeyUsage.serverAuth]),
      ]),
      ...(names.length === 0 ? [] : [new SubjectAlternativeNameExtension(alternatives)]),
    ]);
    return { cert: `${certificate.toString('pem')}${this.#chain}`, key: await pemOfKey(keys.privateKey) };
  }

  #sign(keys: webcrypto.CryptoKeyPair, subject: Described, extensions: Extension[]): Promise<X509Certificate> {
    return X509CertificateGenerator.create({
      ...subject,
      issuer: this.#certificate.subjectName,
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      extensions,
    });
  }
}

const AUTHORITY_EXTENSIONS = [
  new BasicConstraintsExtension(true, undefined, true),
  new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
];

type Described = ReturnType<typeof described>;

function described(
  commonName: string,
  { fromMs = -DAY_MS, untilMs = DAY_MS }: Pick<CertificateOptions, 'fromMs' | 'untilMs'>,
) {
  const [name, now] = [`CN=${commonName}`, environment.Date.now()];
  return {
    name,
    subject: name,
    // The first octet is 01 because RFC 5280 requires a positive number.
    serialNumber: `01${randomBytes(15).toString('hex')}`,
    notBefore: new Date(now + fromMs),
    notAfter: new Date(now + untilMs),
    signingAlgorithm: ALGORITHM,
  };
}

function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}

async function pemOfKey(key: webcrypto.CryptoKey): Promise<string> {
  const body = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key)).toString('base64');
  return `-----BEGIN PRIVATE KEY-----\n${body.replace(/.{64}/g, '$&\n')}\n-----END PRIVATE KEY-----\n`;
}
