import { readFileSync } from 'node:fs';
import { checkBoolean, checkOptions, invalidInput, isPlain, missingInput, show } from '../../base/index.js';
import type { TlsOptions } from '../../host/index.js';
import type { ClientOptions } from '../full/index.js';
import { checkSrvResolver, type DiscoverSrvOptions, discoverSrv } from './dns.js';
import { parseDuration } from './duration.js';
import { BOOLEANS, endpointsIn, loginOf, parseBoolean } from './flag-values.js';

/** Options of `fromEnv`. */
export interface FromEnvOptions {
  /** The environment variables. Default `process.env`. */
  readonly variables?: Readonly<Record<string, string | undefined>> | undefined;
  /** Allows passwords and tokens for endpoints without TLS; see `Credentials`. Default false. */
  readonly allowPlaintext?: boolean | undefined;
}

const FROM_ENV_OPTIONS = { variables: checkVariables, allowPlaintext: checkBoolean } as const;

/**
 * Returns the options of a client from the environment variables of etcdctl: `ETCDCTL_ENDPOINTS` (default
 * 127.0.0.1:2379), `ETCDCTL_CACERT`, `ETCDCTL_CERT`, `ETCDCTL_KEY`, `ETCDCTL_USER` (`name` or `name:password`),
 * `ETCDCTL_PASSWORD`, `ETCDCTL_AUTH_JWT_TOKEN`, `ETCDCTL_INSECURE_TRANSPORT`, `ETCDCTL_DIAL_TIMEOUT` and
 * `ETCDCTL_COMMAND_TIMEOUT` (such as `5s`). `ETCDCTL_CACERT`, `ETCDCTL_CERT` and
 * `ETCDCTL_KEY` are paths. The client reads these files again for each new connection, so renewed certificates take
 * effect. Without the two timeouts, or if `ETCDCTL_DIAL_TIMEOUT` is zero or less, the defaults of `Client` apply. The
 * function reads booleans, durations, lists and credentials as etcdctl does: an empty variable counts as unset.
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
  const read = (name: string): string | undefined => readVariable(variables, name);
  // To ignore one of these variables, whose effects `fromEnv` lacks, would be dangerous.
  if (readBoolean(variables, 'INSECURE_SKIP_TLS_VERIFY', false))
    throw invalidInput(
      'ETCDCTL_INSECURE_SKIP_TLS_VERIFY',
      'a value',
      'unset; the client always verifies certificates, so name the authority in ETCDCTL_CACERT',
    );
  if (read('DISCOVERY_SRV') !== undefined)
    throw invalidInput(
      'ETCDCTL_DISCOVERY_SRV',
      'a value',
      'unset, unless you call fromEnvWithDiscovery; name the members in ETCDCTL_ENDPOINTS',
    );
  const duration = (name: string): number | undefined => {
    const text = read(name);
    const ms = text === undefined ? undefined : parseDuration(text);
    if (text !== undefined && ms === undefined)
      throw invalidInput(`ETCDCTL_${name}`, JSON.stringify(text), 'a duration such as 5s or 500ms');
    return ms;
  };
  const connectTimeoutMs = duration('DIAL_TIMEOUT') ?? 0;
  const timeoutMs = duration('COMMAND_TIMEOUT');
  if (timeoutMs !== undefined && timeoutMs <= 0)
    throw invalidInput(
      'ETCDCTL_COMMAND_TIMEOUT',
      JSON.stringify(read('COMMAND_TIMEOUT')),
      'a duration longer than 0, such as 5s or 500ms',
    );
  const [ca, cert, key] = [read('CACERT'), read('CERT'), read('KEY')];
  if ((cert === undefined) !== (key === undefined))
    throw missingInput(
      cert === undefined ? 'ETCDCTL_CERT' : 'ETCDCTL_KEY',
      'set both ETCDCTL_CERT and ETCDCTL_KEY, or neither',
    );
  // As in etcdctl, ETCDCTL_INSECURE_TRANSPORT=false requests TLS. The client trusts the authorities of the system if no
  // file names others.
  const hasTls = ca !== undefined || cert !== undefined || !readBoolean(variables, 'INSECURE_TRANSPORT', true);
  const text = (path: string | undefined): string | undefined => path && readFileSync(path, 'utf8');
  const token = read('AUTH_JWT_TOKEN');
  const login = token === undefined ? credentialsOf(read('USER'), read('PASSWORD')) : { token };
  const permission = allowPlaintext === true ? { auth: { allowPlaintext } } : {};
  return {
    endpoints: endpointsIn(read('ENDPOINTS') ?? '127.0.0.1:2379'),
    ...(hasTls && { tls: () => ({ ca: text(ca), cert: text(cert), key: text(key) }) }),
    ...(login === undefined ? permission : { auth: { ...login, allowPlaintext } }),
    connectTimeoutMs: connectTimeoutMs > 0 ? connectTimeoutMs : undefined,
    timeoutMs,
  };
}

type Variables = Readonly<Record<string, string | undefined>>;

/** Returns the value of a variable of etcdctl. An empty variable counts as unset, as in etcdctl. */
function readVariable(variables: Variables, name: string): string | undefined {
  return variables[`ETCDCTL_${name}`] || undefined;
}

/** @throws EtcdError with reason `InvalidInput` if the variable is set, and is not a boolean of Go. */
function readBoolean(variables: Variables, name: string, unset: boolean): boolean {
  const text = readVariable(variables, name);
  const value = text === undefined ? unset : parseBoolean(text);
  if (value === undefined) throw invalidInput(`ETCDCTL_${name}`, JSON.stringify(text), BOOLEANS);
  return value;
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
  const allowInsecure = readBoolean(variables, 'INSECURE_DISCOVERY', true);
  const serviceName = readVariable(variables, 'DISCOVERY_SRV_NAME');
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
  const isEmpty = Object.keys(variables).length === 0;
  const isObject = isEmpty ? isPlain(variables) : !(Symbol.iterator in variables);
  const values = isObject ? Object.values(variables) : [null];
  for (const value of values)
    if (value !== undefined && typeof value !== 'string') throw invalidInput(argument, show(variables), allowed);
}

function credentialsOf(
  user: string | undefined,
  ownPassword: string | undefined,
): { readonly username: string; readonly password: string } | undefined {
  if (user === undefined) return undefined;
  const { username, password } = loginOf(user, ownPassword);
  const allowed = 'set ETCDCTL_USER to name:password, or set ETCDCTL_PASSWORD';
  if (username === '') throw missingInput('the name in ETCDCTL_USER', allowed);
  if (password === undefined) throw missingInput('the password of ETCDCTL_USER', allowed);
  return { username, password };
}
