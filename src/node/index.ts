/// <reference path="../runtime/globals.ts" preserve="true" />

/**
 * Functions that need a file system, environment variables or DNS. They run only on Node.js, Bun and Deno.
 *
 * @module etcdwire/node
 */

import { readFileSync } from 'node:fs';
import { TIME_LIMITS } from '../channel/rpc.js';
import { type Client, type ClientOptions, checkFullClient } from '../client/client.js';
import { invalidInput, missingInput } from '../errors/etcd-error.js';
import { parseEndpoint } from '../host/endpoint.js';
import { PartFile } from '../host/part-file.js';
import type { TlsOptions } from '../host/tls.js';
import { checkBoolean, checkFunction, checkOptions, isPlain, reading, show } from '../runtime/arguments.js';
import { MEMBER_CALL_HINTS, type MemberCallOptions } from '../services/maintenance.js';
import { checkSrvResolver, type DiscoverSrvOptions, discoverSrv } from './dns.js';
import { parseDuration } from './duration.js';
import { checkPath } from './file-store.js';

export {
  type AddressResolver,
  type DiscoverSrvOptions,
  DnsFollower,
  discoverSrv,
  type FollowDnsOptions,
  followDns,
  type ResolvedEndpoints,
  type ResolveEndpointsOptions,
  resolveEndpoints,
  type SrvRecord,
  type SrvResolver,
} from './dns.js';
export { fileStore } from './file-store.js';

const SAVE_SNAPSHOT_OPTIONS = { ...TIME_LIMITS, onProgress: checkFunction } as const;

/** Options of `saveSnapshot`. */
export interface SaveSnapshotOptions extends MemberCallOptions {
  /** Receives the number of bytes written so far, after each piece. Must not throw. */
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

/**
 * Saves the database of a member to a file from which `etcdutl snapshot restore` can restore it. Resolves with the size
 * of the file in bytes.
 *
 * The function first writes to a file with a unique name, `PATH.RANDOM.part`. It renames the file to `path` when the
 * snapshot is complete, verified and on the disk. Only the owner may read the file, because it contains all keys and
 * values. If `path` is a symbolic link, the function replaces the target of the link.
 *
 * @throws EtcdError with reason `InvalidInput` if `path` names something other than a regular file; with reason
 * `SnapshotCorrupt` if the snapshot is incomplete or damaged; or with another reason if the call fails. The function
 * passes errors of the file system on unchanged.
 * @example
 * import { Client } from 'etcdwire';
 * import { saveSnapshot } from 'etcdwire/node';
 *
 * const endpoint = 'http://127.0.0.1:2379';
 * await using etcd = new Client({ endpoints: [endpoint] });
 * const bytes = await saveSnapshot(etcd, endpoint, 'backup.db');
 */
export async function saveSnapshot(
  client: Client,
  endpoint: string,
  path: string,
  options: SaveSnapshotOptions = {},
): Promise<number> {
  checkOptions(options, SAVE_SNAPSHOT_OPTIONS, 'saveSnapshot', MEMBER_CALL_HINTS);
  const { onProgress, ...call } = options;
  checkFullClient(client, 'snapshot');
  parseEndpoint(endpoint, 'endpoint');
  checkPath(path);
  return PartFile.with(path, (file) => {
    let written = 0;
    const write = async (chunk: Uint8Array): Promise<void> => {
      await file.write(chunk);
      written += chunk.length;
      onProgress?.(written);
    };
    return client.maintenance.snapshot(endpoint, call).writeTo({ write });
  });
}

/** Options of `fromEnv`. */
export interface FromEnvOptions {
  /** The environment variables. Default `process.env`. */
  readonly variables?: Readonly<Record<string, string | undefined>> | undefined;
  /** Allows a password for endpoints without TLS; see `Credentials`. Default false. */
  readonly allowPlaintext?: boolean | undefined;
}

const FROM_ENV_OPTIONS = { variables: checkVariables, allowPlaintext: checkBoolean } as const;

/**
 * Variables of etcdctl whose effect `fromEnv` lacks. To ignore them would be dangerous. Each value says, for the error
 * message, what `fromEnv` allows instead.
 */
const REFUSED: Readonly<Record<string, string>> = {
  ETCDCTL_INSECURE_SKIP_TLS_VERIFY:
    'unset; the client always verifies certificates, so name the authority in ETCDCTL_CACERT',
  ETCDCTL_DISCOVERY_SRV: 'unset, unless you call fromEnvWithDiscovery; name the members in ETCDCTL_ENDPOINTS',
};

/**
 * Returns the options of a client from the environment variables of etcdctl: `ETCDCTL_ENDPOINTS` (default
 * 127.0.0.1:2379), `ETCDCTL_CACERT`, `ETCDCTL_CERT`, `ETCDCTL_KEY`, `ETCDCTL_USER` (`name` or `name:password`),
 * `ETCDCTL_PASSWORD`, `ETCDCTL_AUTH_JWT_TOKEN`, `ETCDCTL_INSECURE_TRANSPORT`, `ETCDCTL_DIAL_TIMEOUT` and
 * `ETCDCTL_COMMAND_TIMEOUT` (such as `5s`). `ETCDCTL_CACERT`, `ETCDCTL_CERT` and
 * `ETCDCTL_KEY` are paths. The client reads these files again for each new connection, so renewed certificates take
 * effect. Without the two timeouts, the defaults of `Client` apply.
 *
 * @throws EtcdError with reason `InvalidInput` if a variable is invalid, or if a variable is set that this
 * function does not support, such as `ETCDCTL_INSECURE_SKIP_TLS_VERIFY`.
 *
 * @example
 * import { Client } from 'etcdwire';
 * import { fromEnv } from 'etcdwire/node';
 *
 * await using etcd = new Client(fromEnv({ variables: { ETCDCTL_ENDPOINTS: '127.0.0.1:2379' } }));
 */
export function fromEnv(options: FromEnvOptions = {}): ClientOptions {
  checkOptions(options, FROM_ENV_OPTIONS, 'fromEnv');
  const { variables = process.env, allowPlaintext } = options;
  // An empty variable counts as unset, as in etcdctl.
  const read = (name: string): string | undefined => variables[`ETCDCTL_${name}`] || undefined;
  for (const [name, allowed] of Object.entries(REFUSED)) {
    const given = variables[name];
    if (given && given !== 'false') throw invalidInput(name, 'a value', allowed);
  }
  const duration = (name: string): number | undefined => {
    const text = read(name);
    const ms = text === undefined ? undefined : parseDuration(text);
    if (text !== undefined && !ms)
      throw invalidInput(`ETCDCTL_${name}`, JSON.stringify(text), 'a duration such as 5s or 500ms');
    return ms;
  };
  const [ca, cert, key] = [read('CACERT'), read('CERT'), read('KEY')];
  if ((cert === undefined) !== (key === undefined))
    throw missingInput(
      cert === undefined ? 'ETCDCTL_CERT' : 'ETCDCTL_KEY',
      'set both ETCDCTL_CERT and ETCDCTL_KEY, or neither',
    );
  // As in etcdctl, ETCDCTL_INSECURE_TRANSPORT=false requests TLS. The client trusts the authorities of the system if no
  // file names others.
  const hasTls = ca !== undefined || cert !== undefined || read('INSECURE_TRANSPORT') === 'false';
  const text = (path: string | undefined): string | undefined => path && readFileSync(path, 'utf8');
  const token = read('AUTH_JWT_TOKEN');
  const login = token === undefined ? loginOf(read('USER'), read('PASSWORD')) : { token };
  return {
    endpoints: (read('ENDPOINTS') ?? '127.0.0.1:2379').split(',').filter((each) => each !== ''),
    ...(hasTls && { tls: () => ({ ca: text(ca), cert: text(cert), key: text(key) }) }),
    ...(login !== undefined && { auth: { ...login, allowPlaintext } }),
    connectTimeoutMs: duration('DIAL_TIMEOUT'),
    timeoutMs: duration('COMMAND_TIMEOUT'),
  };
}

/** Options of `fromEnvWithDiscovery`. */
export interface FromEnvWithDiscoveryOptions extends FromEnvOptions {
  /** Makes the DNS requests. Default: the functions of `node:dns`. */
  readonly resolver?: DiscoverSrvOptions['resolver'];
}

const FROM_ENV_WITH_DISCOVERY_OPTIONS = { ...FROM_ENV_OPTIONS, resolver: checkSrvResolver } as const;

/**
 * Does the same as `fromEnv`, but also accepts the variables `ETCDCTL_DISCOVERY_SRV`, `ETCDCTL_DISCOVERY_SRV_NAME` and
 * `ETCDCTL_INSECURE_DISCOVERY`. If `ETCDCTL_DISCOVERY_SRV` is set, looks up the endpoints with `discoverSrv`, and
 * ignores `ETCDCTL_ENDPOINTS`. As in etcdctl, `ETCDCTL_INSECURE_DISCOVERY=false` leaves out endpoints without TLS, and
 * requires certificates for the domain.
 *
 * @throws EtcdError with reason `ConnectFailed` if no endpoints are found, or with reason `InvalidInput` as `fromEnv`
 * does.
 *
 * @example
 * import { Client } from 'etcdwire';
 * import { fromEnvWithDiscovery } from 'etcdwire/node';
 *
 * await using etcd = new Client(await fromEnvWithDiscovery({ variables: { ETCDCTL_ENDPOINTS: '127.0.0.1:2379' } }));
 */
export async function fromEnvWithDiscovery(options: FromEnvWithDiscoveryOptions = {}): Promise<ClientOptions> {
  checkOptions(options, FROM_ENV_WITH_DISCOVERY_OPTIONS, 'fromEnvWithDiscovery');
  const { variables = process.env, allowPlaintext, resolver } = options;
  const { ETCDCTL_DISCOVERY_SRV: domain, ...others } = variables;
  const given = fromEnv({ variables: others, allowPlaintext });
  if (!domain) return given;
  const allowInsecure = variables.ETCDCTL_INSECURE_DISCOVERY !== 'false';
  const serviceName = variables.ETCDCTL_DISCOVERY_SRV_NAME || undefined;
  const endpoints = await discoverSrv(domain, { serviceName, allowInsecure, resolver });
  if (allowInsecure) return { ...given, endpoints };
  const { tls } = given;
  const withName = async (): Promise<TlsOptions> => ({
    ...(typeof tls === 'function' ? await tls() : tls),
    serverName: domain,
  });
  return { ...given, endpoints, tls: withName };
}

function checkVariables(variables: unknown, argument: string): void {
  const allowed = 'an object of environment variables, such as process.env';
  if (typeof variables !== 'object' || variables === null) throw invalidInput(argument, show(variables), allowed);
  const values = reading(variables, argument, () => {
    const isEmpty = Object.keys(variables).length === 0;
    return (isEmpty ? isPlain(variables) : !(Symbol.iterator in variables)) ? Object.values(variables) : [null];
  });
  for (const value of values)
    if (value !== undefined && typeof value !== 'string') throw invalidInput(argument, show(variables), allowed);
}

function loginOf(
  user: string | undefined,
  password: string | undefined,
): { readonly username: string; readonly password: string } | undefined {
  if (user === undefined) return undefined;
  if (password !== undefined) return { username: user, password };
  const colon = user.indexOf(':');
  if (colon > 0) return { username: user.slice(0, colon), password: user.slice(colon + 1) };
  throw missingInput('the password of ETCDCTL_USER', 'set ETCDCTL_USER to name:password, or set ETCDCTL_PASSWORD');
}
