import { readFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import type { ClientOptions } from '../client.js';
import { timeLimitMs } from './duration.js';
import { CliError, ExitCode } from './exit-code.js';

/** What the flags of the connection come to. */
export interface ConnectionFlags {
  readonly endpoints: string;
  readonly cacert?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly user?: string;
  readonly password?: string;
  readonly plaintextAuth?: boolean;
  readonly dialTimeout: number;
  readonly commandTimeout: number;
}

/** Flags and environment variables of etcdctl, of the same names, defaults and meaning. */
export function addConnectionFlags(program: Command): Command {
  const flag = (flags: string, text: string, variable: string): Option =>
    new Option(flags, text).env(`ETCDCTL_${variable}`);
  return program
    .addOption(flag('--endpoints <urls>', 'members, with commas between', 'ENDPOINTS').default('127.0.0.1:2379'))
    .addOption(flag('--cacert <file>', 'authorities to verify servers with, PEM', 'CACERT'))
    .addOption(flag('--cert <file>', "the client's certificate, PEM", 'CERT'))
    .addOption(flag('--key <file>', 'its private key, PEM', 'KEY'))
    .addOption(flag('--user <name[:password]>', 'who to log in as', 'USER'))
    .addOption(flag('--password <password>', 'the password, where --user has none', 'PASSWORD'))
    .option('--plaintext-auth', 'send the password to http: endpoints too, for everybody on the way to read')
    .addOption(
      flag('--dial-timeout <duration>', 'for a connection', 'DIAL_TIMEOUT').default(2_000, '2s').argParser(timeLimitMs),
    )
    .addOption(
      flag('--command-timeout <duration>', 'for a call', 'COMMAND_TIMEOUT').default(5_000, '5s').argParser(timeLimitMs),
    );
}

/** @throws CliError, EtcdError on what cannot be. */
export function clientOptions(flags: ConnectionFlags): ClientOptions {
  const { cacert, cert, key } = flags;
  const wantsTls = cacert !== undefined || cert !== undefined || key !== undefined;
  // As in etcdctl: an endpoint without a scheme is of the kind that the other flags are for.
  const endpoints = flags.endpoints
    .split(',')
    .filter((each) => each !== '')
    .map((each) => (each.includes('://') ? each : `${wantsTls ? 'https' : 'http'}://${each}`));
  return {
    endpoints,
    ...(wantsTls ? { tls: { ca: fileOf(cacert), cert: fileOf(cert), key: fileOf(key) } } : {}),
    ...(flags.user === undefined ? {} : { auth: { ...login(flags.user, flags), allowPlaintext: flags.plaintextAuth } }),
    connectTimeoutMs: flags.dialTimeout,
    timeoutMs: flags.commandTimeout,
  };
}

function fileOf(path: string | undefined): string | undefined {
  return path === undefined ? undefined : readText(path);
}

/** @throws CliError where there is no such file. */
export function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new CliError(ExitCode.USAGE, `cannot read ${path}: ${(error as Error).message}`);
  }
}

function login(user: string, { password }: ConnectionFlags): { readonly username: string; readonly password: string } {
  const colon = user.indexOf(':');
  if (colon > 0) return { username: user.slice(0, colon), password: user.slice(colon + 1) };
  if (password !== undefined) return { username: user, password };
  throw new CliError(ExitCode.USAGE, 'no password for --user: give NAME:PASSWORD, --password or ETCDCTL_PASSWORD');
}
