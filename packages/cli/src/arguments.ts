import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import {
  type BytesFromJson,
  type BytesToJson,
  type Codec,
  EtcdError,
  type FromJsonOptions,
  fromBase64,
  fromJson,
  fromTextOrBase64,
  parseDuration,
  textOrBase64,
  toBase64,
} from '../../../src/internal.js';
import { CliError, ExitCode } from './exit-code.js';

/**
 * Parses a count or a revision. @throws InvalidArgumentError if the text is not a whole number from 0 to 2^63 - 1.
 */
export function int64(text: string): bigint {
  const value = /^\d{1,19}$/.test(text) ? BigInt(text) : -1n;
  if (value < 0n || value >= 2n ** 63n) throw new InvalidArgumentError('Allowed: a whole number from 0 to 2^63 - 1.');
  return value;
}

/**
 * Parses a lease ID in hexadecimal, as etcdctl prints it. A number of 17 or more digits is decimal, as in JSON output.
 *
 * @throws InvalidArgumentError if the text is not a lease ID.
 */
export function leaseId(text: string): bigint {
  const value = idOf(text);
  if (value === 0n || value >= 2n ** 63n)
    throw new InvalidArgumentError('Allowed: a lease ID in hexadecimal, such as 694d8c1b2f4a3e01.');
  return value;
}

/** Parses a member ID in the same way as a lease ID. @throws InvalidArgumentError if the text is not a member ID. */
export function memberId(text: string): bigint {
  const value = idOf(text);
  if (value === 0n || value >= 2n ** 64n)
    throw new InvalidArgumentError('Allowed: a member ID in hexadecimal, such as 8e9e05c52164694d.');
  return value;
}

/** Returns 0 if the text is not an ID. A number with more than 16 digits cannot be hexadecimal, so it is decimal. */
function idOf(text: string): bigint {
  if (/^\d{17,20}$/.test(text)) return BigInt(text);
  return /^(?:0x)?[0-9a-f]{1,16}$/i.test(text) ? BigInt(`0x${text.replace(/^0x/i, '')}`) : 0n;
}

/** Parses the TTL of a lease, in seconds. @throws InvalidArgumentError if the text is not a valid TTL. */
export function seconds(text: string): number {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  if (value === 0) throw new InvalidArgumentError('Allowed: a whole number of seconds from 1 to 9,999,999,999.');
  return value;
}

/**
 * Parses a duration such as "500ms", "5s" or "1m30s", which may be negative, and returns it in milliseconds.
 *
 * @throws InvalidArgumentError if the text is not a duration.
 */
export function signedMs(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError('Allowed: a duration such as 500ms, 5s or 1m30s.');
  return ms;
}

/** Does the same as `signedMs`. @throws InvalidArgumentError also if the duration is negative. */
export function durationMs(text: string): number {
  const ms = signedMs(text);
  if (ms >= 0) return ms;
  throw new InvalidArgumentError('Allowed: a duration of 0 or longer, such as 500ms.');
}

/** Does the same as `signedMs`. @throws InvalidArgumentError also if the duration is not longer than 0. */
export function timeLimitMs(text: string): number {
  const ms = signedMs(text);
  if (ms > 0) return ms;
  throw new InvalidArgumentError('Allowed: a duration longer than 0, such as 500ms.');
}

/** Whether the command line contains `--`. */
export function hasDashes(command: Command): boolean {
  return rawArguments(command).includes('--');
}

/** Returns the number of arguments after `--`. Returns 0 if the command line does not contain `--`. */
export function countAfterDashes(command: Command): number {
  const all = rawArguments(command);
  return hasDashes(command) ? all.length - all.indexOf('--') - 1 : 0;
}

/** Returns the command of the whole program, which has the global options. */
export function programOf(command: Command): Command {
  return command.parent === null ? command : programOf(command.parent);
}

/** Returns the arguments of the program with `--`, which commander removes from the arguments of a command. */
export function rawArguments(command: Command): readonly string[] {
  return (programOf(command) as unknown as { readonly rawArgs: readonly string[] }).rawArgs;
}

/** Value of the client option `maxRequestBytes` for commands that leave this limit to the server. */
export const ANY_REQUEST_BYTES = 2 ** 30;

/** Returns the option for the number of operations in a transaction, which has the name and default of etcdctl. */
export function opsPerTxn(): Option {
  const parse = (text: string): number => {
    const value = /^\d{1,6}$/.test(text) ? Number(text) : 0;
    if (value < 2) throw new InvalidArgumentError('Allowed: a whole number from 2 to 999999.');
    return value;
  };
  return new Option('--max-txn-ops <count>', 'operations in a transaction; at most --max-txn-ops of the server')
    .default(128)
    .argParser(parse);
}

/**
 * Lets the environment variable set a flag that sets it in etcdctl, such as ETCDCTL_DIAL_TIMEOUT for --dial-timeout.
 */
export function withVariable(option: Option): Option {
  return option.env(`ETCDCTL_${option.long?.slice(2).replaceAll('-', '_').toUpperCase()}`);
}

/** Returns a flag that an environment variable can set, too. */
export function flag(flags: string, text: string): Option {
  return withVariable(new Option(flags, text));
}

/** The argument of the commands that read a recording. */
export function captureArgument(): Argument {
  return new Argument(
    '<file>',
    'a capture without TLS in the format pcapng or pcap, from etcdwire proxy --record, Wireshark or tcpdump',
  );
}

/** Returns the option for messages whose bytes are base64, as in etcd's gateway. */
export function base64Option(): Option {
  return new Option('--base64', 'bytes are base64, not text');
}

/**
 * Returns the functions that convert between bytes and JSON strings. With the flag --base64, the strings contain
 * base64, as in etcd's gateway. Otherwise they contain text, or "base64:" and base64: see `textOrBase64`.
 */
export function bytesAs(base64: boolean): { readonly bytesFromJson: BytesFromJson; readonly bytesToJson: BytesToJson } {
  if (base64) return { bytesFromJson: fromBase64, bytesToJson: toBase64 };
  return { bytesFromJson: fromTextOrBase64, bytesToJson: textOrBase64 };
}

/**
 * Matches the whole numbers in JSON that JSON.parse may round, because they may need more than 53 bits. Also matches
 * whole strings, so that no match begins at digits inside a string.
 */
const STRING_OR_LONG_INTEGER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\b\d{16,20}\b(?![.eE\d])/gs;

/**
 * Parses a message in JSON. A 64-bit integer may be a string or a number.
 *
 * @param source The origin of the text, for error messages.
 * @throws CliError if the text is not JSON, or not a message of this type. The error says which part is wrong.
 */
export function messageFrom<T>(codec: Codec<T>, text: string, source: string, options: FromJsonOptions): T {
  let json: unknown;
  try {
    json = JSON.parse(text.replace(STRING_OR_LONG_INTEGER, (found) => (found.startsWith('"') ? found : `"${found}"`)));
  } catch (error) {
    // V8 quotes a part of the text, which may contain a password: `Unexpected token 'x', "{"password":x" is not …`.
    const problem = (error as Error).message.replace(/, (?:\.\.\.)?".*/s, '');
    throw new CliError(ExitCode.DATA, `${source} is not JSON: ${problem}`);
  }
  try {
    return fromJson(codec, json, options);
  } catch (error) {
    if (error instanceof EtcdError && error.reason === 'InvalidInput')
      throw new CliError(ExitCode.DATA, `${source}: ${error.message}`);
    throw error;
  }
}
