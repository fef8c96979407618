import { readFileSync } from 'node:fs';
import type { Command, Option } from 'commander';
import {
  type CallOptions,
  Client,
  type ClientOptions,
  discoverSrv,
  endpointsIn,
  escapeControls,
  type LogDetails,
  type Logger,
  loginOf,
  parseEndpoint,
  type TlsOptions,
  type TransportFactory,
} from '../../../src/internal.js';
import { flag, int64, programOf, signedMs, timeLimitMs, withVariable } from './arguments.js';
import type { ConnectionFlags } from './etcdctl/mode.js';
import { withFlagNames, wrongArguments } from './exit-code.js';
import { booleanOption } from './go-arguments.js';
import type { Io } from './io.js';
import { type Format, Output } from './output.js';
import { askHidden, terminalOf } from './password.js';
import { CertificateRefusal } from './refused-certificate.js';
import { unverifiedTls } from './unverified-tls.js';

/** The values of the global flags. */
interface GlobalFlags extends ConnectionFlags {
  readonly discoverySrv?: string | undefined;
  readonly discoverySrvName?: string | undefined;
  readonly insecureDiscovery: boolean;
  readonly plaintextAuth?: boolean;
  readonly insecureTransport: boolean;
  readonly insecureSkipTlsVerify?: boolean;
  /** In milliseconds. Without a limit if zero or less. */
  readonly dialTimeout: number;
  /** The default of the client if zero or less. */
  readonly keepaliveTime?: number;
  /** The default of the client if zero or less. */
  readonly keepaliveTimeout?: number;
  readonly debug?: boolean;
  readonly writeOut?: Format;
  readonly hex?: boolean;
}

/**
 * Adds the connection flags. Except for --plaintext-auth, these flags also exist in etcdctl, with the same environment
 * variables, defaults and meanings.
 */
export function addConnectionFlags(program: Command): Command {
  const boolean = (flags: string, text: string): Option => withVariable(booleanOption(flags, text)).default(true);
  // As in etcdctl, several of these flags add up.
  let given: readonly string[] = [];
  const addEndpoints = (list: string): readonly string[] => {
    given = [...given, ...endpointsIn(list)];
    return given;
  };
  const bytes = (flags: string, text: string): Option => flag(flags, text).argParser(int64);
  return program
    .addOption(
      flag('--endpoints <urls>', 'members, separated by commas')
        .default(['127.0.0.1:2379'], '127.0.0.1:2379')
        .argParser(addEndpoints),
    )
    .addOption(flag('-d, --discovery-srv <domain>', 'domain whose SRV records name the members'))
    .addOption(flag('--discovery-srv-name <name>', 'name of the cluster in those records'))
    .addOption(boolean('--insecure-discovery <boolean>', 'accept records of members without TLS'))
    .addOption(flag('--cacert <file>', 'authorities that sign server certificates, PEM'))
    .addOption(flag('--cert <file>', 'client certificate, PEM'))
    .addOption(flag('--key <file>', 'private key of the client certificate, PEM'))
    .addOption(flag('--user <name[:password]>', 'user name'))
    .addOption(flag('--password <password>', 'password of --user'))
    .option('--plaintext-auth', 'send passwords to http: endpoints too, where others can read them')
    .addOption(boolean('--insecure-transport <boolean>', 'false: endpoints without a scheme use TLS'))
    .addOption(flag('--insecure-skip-tls-verify', 'do not check certificates; only for tests'))
    .addOption(
      flag('--dial-timeout <duration>', 'time limit for opening a connection; 0: the default of the client')
        .default(2_000, '2s')
        .argParser(signedMs),
    )
    .addOption(flag('--command-timeout <duration>', 'time limit of a call').default(5_000, '5s').argParser(timeLimitMs))
    .addOption(flag('--keepalive-time <duration>', 'time between PINGs; at least 5s').argParser(signedMs))
    .addOption(flag('--keepalive-timeout <duration>', 'time limit of a PING').argParser(signedMs))
    .addOption(bytes('--max-request-bytes <bytes>', 'maximum size of a request'))
    .addOption(bytes('--max-recv-bytes <bytes>', 'maximum size of a response'))
    .addOption(flag('--debug', 'print the settings and all events of the client on standard error'));
}

/** The values of the flags that say where a cluster is and how to log in there. */
type ClusterFlags = Pick<ConnectionFlags, 'endpoints' | 'cacert' | 'cert' | 'key' | 'user' | 'password'>;

/**
 * Returns the client options for the flags. `userFlag` is the name of the flag `user` in error messages.
 *
 * @throws CliError if a file or a password is missing; EtcdError if DNS names no members.
 */
async function clientOptions(io: Io, flags: GlobalFlags, userFlag = '--user'): Promise<ClientOptions> {
  const { cacert, cert, key } = flags;
  io.etcdctl?.checkConnection(flags);
  for (const [name, file] of Object.entries({ cacert, cert, key }))
    if (file === '')
      throw wrongArguments(`--${name}: got an empty text; allowed: the path of a PEM file, or no --${name}`);
  const auth = await authOf(io, flags, userFlag);
  const hasTlsFile = [cacert, cert, key].some((file) => file !== undefined);
  const hasTlsFlag = hasTlsFile || !flags.insecureTransport || flags.insecureSkipTlsVerify === true;
  const { endpoints, serverName } = await membersOf(flags, hasTlsFlag ? 'https' : 'http');
  const text = (path: string | undefined): string | undefined => (path === undefined ? undefined : readText(path));
  return {
    endpoints,
    // A user who lists endpoints expects the answer of the first one that works.
    balance: 'in-order',
    ...(hasTlsFlag || serverName !== undefined
      ? { tls: { ca: text(cacert), cert: text(cert), key: text(key), serverName } }
      : {}),
    ...auth,
    connectTimeoutMs: positive(flags.dialTimeout),
    timeoutMs: flags.commandTimeout,
    ...limitsOf(io, flags),
  };
}

/**
 * Returns the option `auth`. Without `--user`, the option only says whether `user add` and `user passwd` may send a
 * password to `http:` endpoints.
 */
async function authOf(io: Io, flags: GlobalFlags, userFlag: string): Promise<Pick<ClientOptions, 'auth'>> {
  const auth = await login(io, flags, userFlag);
  const allowPlaintext = flags.plaintextAuth === true || io.etcdctl !== undefined;
  if (auth !== undefined) return { auth: { ...auth, allowPlaintext } };
  return allowPlaintext ? { auth: { allowPlaintext } } : {};
}

/** Returns a number of milliseconds, or undefined if it is zero or less, which means the same as no flag. */
function positive(ms: number | undefined): number | undefined {
  return ms !== undefined && ms > 0 ? ms : undefined;
}

/** The shortest time between PINGs in milliseconds that etcd allows. The default of etcdctl is shorter. */
const MIN_PING_INTERVAL_MS = 5_000;
/** The limit of Go's client for requests, which is larger than that of the server. */
const GO_MAX_REQUEST_BYTES = 2 * 1_024 * 1_024;

function limitsOf(
  { etcdctl }: Io,
  { keepaliveTime, keepaliveTimeout, maxRequestBytes = 0n, maxRecvBytes = 0n }: GlobalFlags,
): Pick<ClientOptions, 'pingIntervalMs' | 'pingTimeoutMs' | 'maxRequestBytes' | 'maxReceiveBytes'> {
  const given = (bytes: bigint, other?: number): number | undefined => (bytes === 0n ? other : Number(bytes));
  const intervalMs = positive(keepaliveTime);
  return {
    pingIntervalMs: intervalMs === undefined ? undefined : Math.max(intervalMs, MIN_PING_INTERVAL_MS),
    pingTimeoutMs: positive(keepaliveTimeout),
    maxRequestBytes: given(maxRequestBytes, etcdctl === undefined ? undefined : GO_MAX_REQUEST_BYTES),
    maxReceiveBytes: given(maxRecvBytes),
  };
}

/** The members, and the name that their certificates must contain. Default: the host of each member. */
interface MemberUrls {
  readonly endpoints: readonly string[];
  readonly serverName?: string;
}

/** Returns the members that the flags name. As in etcdctl, --discovery-srv takes precedence over --endpoints. */
async function membersOf(flags: GlobalFlags, scheme: 'http' | 'https'): Promise<MemberUrls> {
  const { discoverySrv: domain, insecureDiscovery: allowInsecure } = flags;
  if (domain !== undefined && domain !== '') {
    const serviceName = flags.discoverySrvName || undefined;
    const endpoints = await discoverSrv(domain, { serviceName, allowInsecure });
    // As in etcdctl, the certificates must contain the domain itself, because DNS answers are not authenticated.
    return allowInsecure ? { endpoints } : { endpoints, serverName: domain };
  }
  // As in etcdctl, an endpoint without a scheme gets https if there is a TLS flag, and http otherwise.
  return { endpoints: flags.endpoints.map((each) => withScheme(each, scheme)) };
}

function withScheme(endpoint: string, scheme: 'http' | 'https'): string {
  return /:\/\/|^unix:/.test(endpoint) ? endpoint : `${scheme}://${endpoint}`;
}

/** Returns the credentials that the flags name, or asks for the password. @throws CliError if one of them is missing. */
async function login(
  io: Io,
  { user = '', password: ownPassword }: GlobalFlags,
  flag: string,
): Promise<{ readonly username: string; readonly password: string } | undefined> {
  if (user === '' || io.etcdctl?.hasLogin(user, ownPassword) === false) return undefined;
  const { username, password } = loginOf(user, ownPassword);
  if (username === '') throw wrongArguments(`name of ${flag}: missing; give ${flag} NAME:PASSWORD`);
  if (password !== undefined) return { username, password };
  const terminal = user.includes(':') ? undefined : terminalOf(io);
  if (terminal !== undefined) {
    const [typed = ''] = await askHidden(terminal, io, [`Password of ${escapeControls(user)}: `]);
    return { username, password: typed };
  }
  throw wrongArguments(
    `password of ${flag}: missing; give ${flag} NAME:PASSWORD, or set ${flag.replace('user', 'password')} or ` +
      `ETCDCTL_${flag.slice(2).replace('user', 'password').replace('-', '_').toUpperCase()}`,
  );
}

/** Returns the content of a text file. @throws CliError if the file cannot be read. */
export function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw wrongArguments(`cannot read ${path}: ${(error as Error).message}`);
  }
}

/** The input, the output and the options that every command uses. */
export interface Context {
  readonly io: Io;
  readonly out: Output;
  /** The values of --endpoints as the user gave them. */
  readonly endpointNames: readonly string[];
  /** Returns the text of --endpoints for an endpoint of the client, or the endpoint itself if no text names it. */
  readonly nameOf: (endpoint: string) => string;
  /** The value of --command-timeout if the user gave one. */
  readonly commandTimeoutMs: number | undefined;
  /** Whether --insecure-skip-tls-verify was given. */
  readonly skipsTlsVerify: boolean;
  /** Whether --debug was given. */
  readonly debugs: boolean;
  /** Options for each call. They cancel the call when the program is interrupted. */
  readonly call: CallOptions;
  /**
   * Resolves with the client options for the global flags.
   *
   * @throws CliError if a file or a password is missing; EtcdError if DNS names no members.
   */
  readonly clientOptions: () => Promise<ClientOptions>;
  /** Returns the same context for another cluster. `userFlag` is the name of the flag `user` in error messages. */
  readonly atCluster: (cluster: ClusterFlags, userFlag: string) => Context;
}

export function contextOf(io: Io, command: Command): Context {
  // Read only the options of the program, because `user add --no-password` has the name of a global option.
  const program = programOf(command);
  const flags = program.opts<GlobalFlags>();
  const printer = io.etcdctl?.printer(io.stdout, flags.writeOut ?? 'simple', flags.hex ?? false);
  const isTimed = program.getOptionValueSource('commandTimeout') !== 'default';
  if (flags.debug) printSettings(io, program);
  const context: Omit<Context, 'clientOptions'> = {
    io,
    out: new Output(io.stdout, printer === undefined ? flags.writeOut : printer.nearestFormat, flags.hex, printer),
    endpointNames: flags.endpoints,
    nameOf: (endpoint) => {
      const scheme = endpoint.startsWith('https:') ? 'https' : 'http';
      const isSame = (name: string): boolean => parseEndpoint(withScheme(name, scheme), '--endpoints').url === endpoint;
      return flags.endpoints.find(isSame) ?? endpoint;
    },
    commandTimeoutMs: isTimed ? flags.commandTimeout : undefined,
    skipsTlsVerify: flags.insecureSkipTlsVerify ?? false,
    debugs: flags.debug ?? false,
    call: { signal: io.interrupted },
    atCluster: (cluster, userFlag) => ({
      ...context,
      clientOptions: once(() => clientOptions(io, { ...flags, discoverySrv: undefined, ...cluster }, userFlag)),
    }),
  };
  return { ...context, clientOptions: once(() => clientOptions(io, flags)) };
}

/** Returns a function that calls `get` only the first time, because a user types a password only once. */
function once<T>(get: () => Promise<T>): () => Promise<T> {
  let got: Promise<T> | undefined;
  return () => {
    got ??= get();
    return got;
  };
}

/** Opens a client, passes it to `use`, and closes it afterwards. */
export async function withClient<T>(
  { io, clientOptions, skipsTlsVerify, debugs }: Context,
  use: (client: Client) => Promise<T>,
  logger?: Logger,
  options: Pick<ClientOptions, 'maxTxnOps' | 'maxRequestBytes' | 'interceptors'> = {},
): Promise<T> {
  const given = await clientOptions();
  const transport = skipsTlsVerify ? unverifiedTransport(io, given) : io.transport;
  const refusal = new CertificateRefusal();
  await using client = new Client({
    ...{ ...given, ...options, transport },
    interceptors: [refusal.interceptor, ...(options.interceptors ?? [])],
    logger: debugs ? debugLogger(io) : logger,
  });
  return await refusal.orRefused(client, use(client));
}

/** Returns a transport that does not check certificates, and prints a warning. @throws CliError in `trace`. */
function unverifiedTransport({ stderr, transport }: Io, { tls }: ClientOptions): TransportFactory {
  if (transport !== undefined)
    throw wrongArguments('--insecure-skip-tls-verify: got the flag under trace; allowed: no such flag');
  stderr.write(
    'etcdwire: warning: --insecure-skip-tls-verify turns off the check of certificates; anyone on the network path can ' +
      'read and change requests and responses, and read passwords\n',
  );
  return unverifiedTls(tls as TlsOptions | undefined);
}

/** Matches the values of flags that contain a password. The client refuses a URL with a user name or a query. */
const SECRETS: Readonly<Record<string, RegExp>> = { '--user': /:/, '--endpoints': /[@?#]/ };

/** Prints the value of each global flag as the environment variable that sets it, as etcdctl does, but no password. */
function printSettings({ stderr }: Io, program: Command): void {
  for (const option of program.options) {
    const { envVar, long } = option;
    if (envVar === undefined) continue;
    const value = program.getOptionValue(option.attributeName());
    const isSecret = long === '--password' || SECRETS[long ?? '']?.test(String(value)) === true;
    const shown = value === undefined ? '' : isSecret ? '(hidden)' : String(value);
    stderr.write(`${envVar}=${escapeControls(shown)}\n`);
  }
}

/** Returns a logger that prints every event of the client to standard error. */
function debugLogger({ stderr }: Io): Logger {
  const log = (message: string, details: LogDetails): void => {
    const shown = Object.entries(details).map(([name, value]) => ` ${name}=${JSON.stringify(String(value))}`);
    stderr.write(`etcdwire: ${escapeControls(message + shown.join(''))}\n`);
  };
  return { info: log, warn: log };
}

/**
 * Returns a logger for commands that run for a long time. The logger prints failures and recoveries of endpoints to
 * standard error.
 */
export function endpointLogger({ stderr }: Pick<Io, 'stderr'>): Logger {
  const log = (message: string, { endpoint, problem }: LogDetails): void => {
    // Print only the messages about endpoints. The other messages describe the calls and watches that the failure of an
    // endpoint affects.
    if (!message.startsWith('endpoint ')) return;
    const cause = problem === undefined ? '' : `: ${escapeControls(withFlagNames(String(problem)))}; it is tried again`;
    // Most error texts name the endpoint already.
    const place = cause.includes(String(endpoint)) ? '' : `: ${endpoint}`;
    stderr.write(`etcdwire: ${message}${place}${cause}\n`);
  };
  return { info: log, warn: log };
}
