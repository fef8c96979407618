import type { Command } from 'commander';
import {
  BASE64_PREFIX,
  type Client,
  keysOf,
  textOrBase64,
  toBase64,
  type WatchEvent,
} from '../../../../src/internal.js';
import { countAfterDashes, hasDashes } from '../arguments.js';
import { runProgram } from '../child.js';
import { type Context, contextOf, endpointLogger, withClient } from '../context.js';
import { ExitCode, type SetExitCode } from '../exit-code.js';
import type { Io } from '../io.js';
import type { Output } from '../output.js';
import type { KeyFlags } from './key-flags.js';
import { eventJson } from './keys.js';
import { addWatchFlags, noCommand, type Watched, watchedBy } from './watched.js';

export function addWatchCommand(program: Command, io: Io, setExitCode: SetExitCode): void {
  addWatchFlags(program.command('watch').argument('[key]').argument('[range-end]').argument('[command...]', 'after --'))
    .description('print events as they arrive, each once and in order, across reconnects, and run a command for each')
    .addHelpText(
      'after',
      `
The command gets the event in ETCDWIRE_WATCH_TYPE (PUT or DELETE), ETCDWIRE_WATCH_KEY, ETCDWIRE_WATCH_VALUE and
ETCDWIRE_WATCH_REVISION. Bytes that are not text are base64 after "base64:". The command also gets the variables of
etcdctl, whose names begin with ETCD_WATCH_ and whose values are in quotes, except the revision. Operating systems limit
the length of a variable. The command gets no variable longer than 100,000 bytes. ETCDWIRE_WATCH_OMITTED then contains
the names of the missing variables, separated by blanks, and the command can read the value with: etcdwire get KEY --rev
REVISION. The commands run one after the other. If one of them fails, watch ends with its exit code.

With -i, each line of standard input is a watch, such as: watch --prefix config/ -- COMMAND`,
    )
    .option('-i, --interactive', 'read watches from standard input')
    .action(async (...given: readonly unknown[]) => {
      const command = given.at(-1) as Command;
      const flags = command.opts<KeyFlags>();
      if (flags.interactive) {
        const { watchLines } = await import('../lazy.js');
        return setExitCode(
          await watchLines(contextOf(io, command), (context, watched, each) => watch(context, watched, each, false)),
        );
      }
      const after = countAfterDashes(command);
      if (after === 0 && hasDashes(command)) throw noCommand(io);
      const watched = watchedBy(io, flags, command.args, after);
      setExitCode(await watch(contextOf(io, command), watched, flags));
    });
}

/** `isOnly` is false for a watch of `watch -i`. */
async function watch(context: Context, watched: Watched, flags: KeyFlags, isOnly = true): Promise<ExitCode> {
  const { io, out } = context;
  if (out.etcdctl !== undefined) {
    const { watchAsEtcdctl } = await import('../lazy.js');
    return watchAsEtcdctl(context, watched, flags, isOnly);
  }
  return withClient(context, (client) => follow(context, client, watched, flags), endpointLogger(io));
}

/** Prints the events of a watch until it ends. Resolves with the exit code of the first program that fails, or 0. */
async function follow(
  { io, out }: Context,
  client: Client,
  { range, program }: Watched,
  { rev, prevKv }: KeyFlags,
): Promise<ExitCode> {
  const startRevision = rev === 0n ? undefined : rev;
  const events = client.watch(keysOf(range), { startRevision, prevKv, signal: io.interrupted });
  for await (const event of events) {
    printEvent(out, event);
    const code = program.length === 0 ? ExitCode.OK : await runForEvent(io, program, event);
    if (code !== ExitCode.OK) return code;
  }
  return ExitCode.OK;
}

/** Formats bytes for an environment variable, which cannot contain a 0 byte. */
function variableOf(bytes: Uint8Array): string {
  return bytes.includes(0) ? BASE64_PREFIX + toBase64(bytes) : textOrBase64(bytes);
}

/**
 * Maximum length in bytes of an environment variable for a command. Linux allows 131,072 bytes for a variable, and macOS
 * allows 1,048,576 bytes for all variables and arguments together.
 */
const MAX_VARIABLE_BYTES = 100_000;

/** Runs the program with the variables of an event. Leaves out variables that are too long, and reports their names. */
function runForEvent(io: Io, program: readonly string[], event: WatchEvent): Promise<ExitCode> {
  const [key, value] = [variableOf(event.keyBytes), event.type === 'put' ? variableOf(event.kv.value) : ''];
  const [type, revision] = [event.type === 'put' ? 'PUT' : 'DELETE', String(event.modRevision)];
  const environment = {
    ETCDWIRE_WATCH_TYPE: type,
    ETCDWIRE_WATCH_KEY: key,
    ETCDWIRE_WATCH_VALUE: value,
    ETCDWIRE_WATCH_REVISION: revision,
    ETCD_WATCH_EVENT_TYPE: JSON.stringify(type),
    ETCD_WATCH_KEY: JSON.stringify(key),
    ETCD_WATCH_VALUE: JSON.stringify(value),
    ETCD_WATCH_REVISION: revision,
  };
  const omitted = Object.entries(environment)
    .filter(([name, text]) => Buffer.byteLength(text) + name.length > MAX_VARIABLE_BYTES)
    .map(([name]) => name);
  if (omitted.length > 0)
    io.stderr.write(
      `etcdwire: watch: the command gets no ${omitted.join(', ')} for the event at revision ${revision}, because the ` +
        `variable would have more than ${MAX_VARIABLE_BYTES} bytes; read the key with: etcdwire get --rev ${revision}\n`,
    );
  // This process may itself run for an event, and then has variables of that event.
  const without = Object.fromEntries(omitted.map((name) => [name, undefined]));
  return runProgram(program, 'ignore', { ...environment, ...without, ETCDWIRE_WATCH_OMITTED: omitted.join(' ') });
}

function printEvent(out: Output, event: WatchEvent): void {
  const { type, keyBytes: key, modRevision, prevKv } = event;
  const wireType = type === 'put' ? 'PUT' : 'DELETE';
  if (out.format === 'json') return out.json(eventJson(type, event.type === 'put' ? event.kv : event, prevKv));
  if (out.format === 'simple') {
    const previous = prevKv === undefined ? [] : [out.keyText(prevKv.keyBytes), out.keyText(prevKv.value)];
    const value = event.type === 'put' ? out.keyText(event.kv.value) : '';
    return out.line([wireType, ...previous, out.keyText(key), value].join('\n'));
  }
  const value = event.type === 'put' ? `  ${out.keyText(event.kv.value)}` : '';
  const before = prevKv === undefined ? '' : `  (before: ${out.keyText(prevKv.value)})`;
  out.line(`${String(modRevision).padStart(8)}  ${type.padEnd(6)}  ${out.keyText(key)}${value}${before}`);
}
