import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Endpoint, parseEndpoint, showUrl, type TlsOptions, tlsForDial } from '../../../../src/internal.js';
import { type Context, readText } from '../context.js';
import { wrongArguments } from '../exit-code.js';
import { type ProxyTls, WireProxy, type WireProxyOptions } from './wire-proxy.js';

/** Files of the certificate that the proxy shows to its clients, and which of their requests it forwards. */
export interface ListenFlags {
  readonly listenCert?: string;
  readonly listenKey?: string;
  readonly listenCacert?: string;
  readonly allowHost?: string;
  readonly allowUpgrades?: true;
}

/** Proxies for all members of a cluster. */
export interface ProxySession {
  /** The URLs for clients. */
  readonly urls: readonly string[];
  /** Path of the certificate of the authority that the proxy has made for its own certificate. */
  readonly caFile: string | undefined;
  stop(): Promise<void>;
}

type Sinks = Pick<WireProxyOptions, 'rules' | 'traffic' | 'onProblem'>;

/**
 * Starts the proxies. With one URL to listen at, a connection goes to any member. With one URL for each member, it goes
 * to this member. Without a URL, chooses free ports of loopback, one for each member.
 *
 * @throws CliError if the flags are wrong; Error if a port cannot be opened.
 */
export async function startProxies(
  { clientOptions }: Context,
  listen: readonly string[] | undefined,
  flags: ListenFlags,
  sinks: Sinks,
): Promise<ProxySession> {
  const { endpoints, tls } = await clientOptions();
  const hasTls = tls !== undefined;
  const members = (endpoints as readonly string[]).map((each) =>
    parseEndpoint(each, '--endpoints', hasTls ? 'https' : 'http'),
  );
  const memberTls = await tlsForDial(tls);
  const places = placesOf(listen ?? members.map((member) => `${member.tls ? 'https' : 'http'}://127.0.0.1:0`), members);
  checkClientCertificates(places, flags, memberTls);
  const hosts = [...new Set(places.map(({ host }) => host))];
  const listenTls = places.some(({ isTls }) => isTls) ? await listenTlsOf(flags, hosts) : undefined;
  const started: WireProxy[] = [];
  const counter = { connections: 0 };
  const stop = async (): Promise<void> => {
    await Promise.all(started.map((proxy) => proxy.stop()));
    if (listenTls?.folder !== undefined) rmSync(listenTls.folder, { recursive: true, force: true });
  };
  try {
    const { allowHost = '', allowUpgrades = false } = flags;
    const gate = { allowHosts: allowHost.split(',').filter((name) => name !== ''), allowUpgrades };
    for (const { host, port, isTls, members: own } of places) {
      const options = { host, port, members: own, memberTls, counter, ...gate, ...sinks };
      const proxy = await WireProxy.start({ ...options, listenTls: isTls ? listenTls?.tls : undefined });
      started.push(proxy);
      if (lendsCertificate(own, memberTls) && flags.listenCacert === undefined)
        sinks.onProblem(
          `all programs of this machine can use the certificate in --cert through ${proxy.url}, because it requires no ` +
            `certificates of clients; to require them: ${REQUIRE_CERTIFICATES}`,
        );
    }
  } catch (error) {
    await stop();
    throw error;
  }
  const caFile = listenTls?.folder === undefined ? undefined : join(listenTls.folder, CA_FILE);
  return { urls: started.map(({ url }) => url), caFile, stop };
}

interface Place {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
  readonly members: readonly Endpoint[];
}

function placesOf(listen: readonly string[], members: readonly Endpoint[]): readonly Place[] {
  if (listen.length !== 1 && listen.length !== members.length)
    throw wrongArguments(
      `--listen: got ${listen.length} URLs for ${members.length} members; allowed: one URL, or one for each member`,
    );
  return listen.map((given, index) => {
    const url = URL.canParse(given) ? new URL(given) : undefined;
    if (url === undefined || !/^https?:$/.test(url.protocol) || url.pathname !== '/' || url.username !== '')
      throw wrongArguments(
        `--listen: got ${/[@?#]/.test(given) ? showUrl(given) : JSON.stringify(given)}; allowed: a URL such as http://127.0.0.1:23790`,
      );
    const isTls = url.protocol === 'https:';
    const port = url.port === '' ? (isTls ? 443 : 80) : Number(url.port);
    const own = listen.length === 1 ? members : [members[index] as Endpoint];
    return { host: url.hostname.replace(/^\[|\]$/g, ''), port, isTls, members: own };
  });
}

const REQUIRE_CERTIFICATES = 'etcdwire proxy --listen https://127.0.0.1:PORT --listen-cacert FILE';
const LOOPBACK = /^(127\.[\d.]+|::1|localhost)$/;

/** Whether the proxy shows its own certificate to a member, so that its clients have the rights of the certificate. */
function lendsCertificate(members: readonly Endpoint[], memberTls: TlsOptions | undefined): boolean {
  return memberTls?.cert !== undefined && members.some(({ tls }) => tls);
}

/**
 * @throws CliError if the proxy could not require the certificates that the flags ask for, or if programs of other
 *   machines could use the certificate of the proxy without a certificate of their own.
 */
function checkClientCertificates(
  places: readonly Place[],
  { listenCert, listenKey, listenCacert }: ListenFlags,
  memberTls: TlsOptions | undefined,
): void {
  const plain = places.find(({ isTls }) => !isTls);
  const given = { '--listen-cert': listenCert, '--listen-key': listenKey, '--listen-cacert': listenCacert };
  const [flag] = Object.entries(given).find(([, file]) => file !== undefined) ?? [];
  if (plain !== undefined && flag !== undefined)
    throw wrongArguments(`${flag}: got an http: URL in --listen; allowed: with https: URLs only`);
  const open = places.find(({ host, members }) => !LOOPBACK.test(host) && lendsCertificate(members, memberTls));
  if (open !== undefined && listenCacert === undefined)
    throw wrongArguments(
      `--listen: got the host ${open.host} together with --cert and without --listen-cacert, so each program that ` +
        'reaches the port could use the certificate in --cert; allowed: a URL of 127.0.0.1, or --listen-cacert',
    );
}

const CA_FILE = 'ca.pem';
const DAY_MS = 86_400_000;

/** Reads the certificate of the proxy, or makes one that is valid for a day. */
async function listenTlsOf(
  { listenCert, listenKey, listenCacert }: ListenFlags,
  hosts: readonly string[],
): Promise<{ readonly tls: ProxyTls; readonly folder: string | undefined }> {
  const clientCa = listenCacert === undefined ? undefined : readText(listenCacert);
  if ((listenCert === undefined) !== (listenKey === undefined))
    throw wrongArguments('--listen-cert and --listen-key: got only one of them; allowed: both or neither');
  if (listenCert !== undefined && listenKey !== undefined)
    return { tls: { cert: readText(listenCert), key: readText(listenKey), clientCa }, folder: undefined };
  // This module is large, and most commands do not need it.
  const { Authority } = await import('./authority.js');
  const authority = await Authority.create('etcdwire proxy, for one day');
  const names = [
    ...new Set([...hosts.filter((host) => !/^(0\.0\.0\.0|::)$/.test(host)), 'localhost', '127.0.0.1', '::1']),
  ];
  const { cert, key } = await authority.issue({
    names,
    commonName: names.find((name) => isIP(name) === 0) ?? 'localhost',
    untilMs: DAY_MS,
  });
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-proxy-'));
  writeFileSync(join(folder, CA_FILE), authority.cert);
  return { tls: { cert, key, clientCa }, folder };
}
