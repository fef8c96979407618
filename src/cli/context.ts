import { readFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import type { CallOptions } from '../channel/rpc.js';
import { Client, type ClientOptions } from '../client/client.js';
import { discoverSrv } from '../node/dns.js';
import type { LogDetails, Logger } from '../runtime/log.js';
import { programOf, timeLimitMs } from './arguments.js';
import { CliError, ExitCode } from './exit-code.js';
import type { Io } from './io.js';
import { escapeControls, type Format, Output } from './output.js';
import { askHidden, terminalOf } from './password.js';

/** The values of the global flags. */
interface GlobalFlags {
  readonly endpoints: string;
  readonly discoverySrv?: string | undefined;
  readonly discoverySrvName?: string | undefined;
  readonly insecureDiscovery: 'true' | 'false';
  readonly cacert?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  readonly plaintextAuth?: boolean;
  readonly dialTimeout: number;
  readonly commandTimeout: number;
  readonly writeOut?: Format;
  readonly hex?: boolean;
}

/**
 * Adds the connection flags. Except for --plaintext-auth, these flags also exist in etcdctl, with the same environment
 * variables, defaults and meanings. Of the other global flags of etcdctl, this program has only --write-out and --hex.
 */
export function addConnectionFlags(program: Command): Command {
  const flag = (flags: string, text: string, variable: string): Option =>
    new Option(flags, text).env(`ETCDCTL_${variable}`);
  const timeLimit = (flags: string, text: string, variable: string, ms: number): Option =>
    flag(flags, text, variable)
      .default(ms, `${ms / 1_000}s`)
      .argParser(timeLimitMs);
  return program
    .addOption(flag('--endpoints <urls>', 'members, separated by commas', 'ENDPOINTS').default('127.0.0.1:2379'))
    .addOption(flag('--discovery-srv <domain>', 'domain whose SRV records name the members', 'DISCOVERY_SRV'))
    .addOption(flag('--discovery-srv-name <name>', 'name of the cluster in those records', 'DISCOVERY_SRV_NAME'))
    .addOption(
      flag('--insecure-discovery <boolean>', 'accept records of members without TLS', 'INSECURE_DISCOVERY')
        .choices(['true', 'false'])
        .default('true'),
    )
    .addOption(flag('--cacert <file>', 'authorities that sign server certificates, PEM', 'CACERT'))
    .addOption(flag('--cert <file>', 'client certificate, PEM', 'CERT'))
    .addOption(flag('--key <file>', 'private key of the client certificate, PEM', 'KEY'))
    .addOption(flag('--user <name[:password]>', 'user name', 'USER'))
    .addOption(flag('--password <password>', 'password of --user', 'PASSWORD'))
    .option('--plaintext-auth', 'send the password to http: endpoints too, where others can read it')
    .addOption(timeLimit('--dial-timeout <duration>', 'time limit for opening a connection', 'DIAL_TIMEOUT', 2_000))
    .addOption(timeLimit('--command-timeout <duration>', 'time limit of a call', 'COMMAND_TIMEOUT', 5_000));
}

/** The values of the flags that say where a cluster is and how to log in there. */
type ClusterFlags = Pick<GlobalFlags, 'endpoints' | 'cacert' | 'cert' | 'key' | 'user' | 'password'>;

/**
 * Returns the client options for the flags. `userFlag` is the name of the flag `user` in error messages.
 *
 * @throws CliError if a file or a password is missing; EtcdError if DNS names no members.
 */
async function clientOptions(io: Io, flags: GlobalFlags, userFlag = '--user'): Promise<ClientOptions> {
  const { cacert, cert, key, user, plaintextAuth } = flags;
  const hasTlsFlag = cacert !== undefined || cert !== undefined || key !== undefined;
  const { endpoints, serverName } = await membersOf(flags, hasTlsFlag ? 'https' : 'http');
  const text = (path: string | undefined): string | undefined => (path === undefined ? undefined : readText(path));
  return {
    endpoints,
    // A user who lists endpoints expects the answer of the first one that works.
    balance: 'in-order',
    ...(hasTlsFlag || serverName !== undefined
      ? { tls: { ca: text(cacert), cert: text(cert), key: text(key), serverName } }
      : {}),
    ...(user === undefined
      ? {}
      : { auth: { ...(await login(io, user, flags, userFlag)), allowPlaintext: plaintextAuth } }),
    connectTimeoutMs: flags.dialTimeout,
    timeoutMs: flags.commandTimeout,
  };
}

/** The members, and the name that their certificates must contain. Default: the host of each member. */
interface MemberUrls {
  readonly endpoints: readonly string[];
  readonly serverName?: string;
}

/** Returns the members that the flags name. As in etcdctl, --discovery-srv takes precedence over --endpoints. */
async function membersOf(flags: GlobalFlags, scheme: 'http' | 'https'): Promise<MemberUrls> {
  const { discoverySrv: domain, discoverySrvName: serviceName } = flags;
  if (domain !== undefined) {
    const allowInsecure = flags.insecureDiscovery === 'true';
    const endpoints = await discoverSrv(domain, { serviceName, allowInsecure });
    // As in etcdctl, the certificates must contain the domain itself, because DNS answers are not authenticated.
    return allowInsecure ? { endpoints } : { endpoints, serverName: domain };
  }
  // As in etcdctl, an endpoint without a scheme gets https if there is a TLS flag, and http otherwise.
  const endpoints = flags.endpoints
    .split(',')
    .filter((each) => each !== '')
    .map((each) => (each.includes('://') ? each : `${scheme}://${each}`));
  return { endpoints };
}

async function login(
  io: Io,
  user: string,
  { password }: GlobalFlags,
  flag: string,
): Promise<{ readonly username: string; readonly password: string }> {
  const colon = user.indexOf(':');
  if (colon > 0) return { username: user.slice(0, colon), password: user.slice(colon + 1) };
  if (password !== undefined) return { username: user, password };
  const terminal = terminalOf(io);
  if (terminal !== undefined) {
    const [typed = ''] = await askHidden(terminal, io, [`Password of ${escapeControls(user)}: `]);
    return { username: user, password: typed };
  }
  throw new CliError(
    ExitCode.USAGE,
    `password of ${flag}: missing; give ${flag} NAME:PASSWORD, or set ${flag.replace('user', 'password')} or ` +
      `ETCDCTL_${flag.slice(2).replace('user', 'password').replace('-', '_').toUpperCase()}`,
  );
}

/** Returns the content of a text file. @throws CliError if the file cannot be read. */
export function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new CliError(ExitCode.USAGE, `cannot read ${path}: ${(error as Error).message}`);
  }
}

/** The input, the output and the options that every command uses. */
export interface Context {
  readonly io: Io;
  readonly out: Output;
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
  const flags = programOf(command).opts<GlobalFlags>();
  const context: Omit<Context, 'clientOptions'> = {
    io,
    out: new Output(io.stdout, flags.writeOut, flags.hex),
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
  { io, clientOptions }: Context,
  use: (client: Client) => Promise<T>,
  logger?: Logger,
  options: Pick<ClientOptions, 'maxTxnOps' | 'maxRequestBytes'> = {},
): Promise<T> {
  await using client = new Client({ ...(await clientOptions()), ...options, transport: io.transport, logger });
  return await use(client);
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
    const cause = problem === undefined ? '' : `: ${escapeControls(String(problem))}; it is tried again`;
    // Most error texts name the endpoint already.
    const place = cause.includes(String(endpoint)) ? '' : `: ${endpoint}`;
    stderr.write(`etcdwire: ${message}${place}${cause}\n`);
  };
  return { info: log, warn: log };
}
