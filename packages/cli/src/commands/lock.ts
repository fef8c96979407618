import { type Command, Option } from 'commander';
import {
  type Client,
  Election,
  EtcdError,
  escapeControls,
  type Held,
  KeyValueMessage,
  Mutex,
  pause,
  prefix,
  Session,
  toJson,
  type WaitOptions,
  wireOf,
} from '../../../../src/internal.js';
import { countAfterDashes, durationMs, hasDashes, seconds, timeLimitMs } from '../arguments.js';
import { runChild } from '../child.js';
import { type Context, contextOf, endpointLogger, withClient } from '../context.js';
import { CliError, ExitCode, type SetExitCode, wrongArguments } from '../exit-code.js';
import { type Io, interruptedBy } from '../io.js';
import { quoted, readable } from '../output.js';

interface HoldFlags {
  /** TTL of the lease, in seconds. */
  readonly ttl: number;
  /** Maximum wait for the lock, in milliseconds. */
  readonly timeout?: number;
  /** How long, in milliseconds, the command may run between SIGTERM and SIGKILL after the lock was lost. */
  readonly grace?: number;
  /** Whether to fail instead of waiting if the lock is not free. For `lock` only. */
  readonly try?: boolean;
  /** Whether to print every leader instead of campaigning. For `elect` only. */
  readonly listen?: boolean;
}

const STOPPED_HELP = `
Ctrl-Z suspends both etcdwire and the command. If etcdwire is killed, or is suspended for longer than --ttl, the command
is ended before another contender can become the holder. While the whole machine or container is frozen, only the
fencing token protects the data: the system that the command writes to should refuse a token that is smaller than the
largest token that it has seen.`;

export function addLockCommands(program: Command, io: Io, setExitCode: SetExitCode): void {
  addHoldFlags(program.command('lock').argument('<name>').argument('[command...]', 'after --'))
    .description(
      'run a command while holding a fair lock, compatible with etcdctl lock; exits with the code of the command',
    )
    .addOption(new Option('--try', 'do not wait: fail if the lock is not free').conflicts('timeout'))
    .addHelpText(
      'after',
      `
The command gets the queue key of the lock and its fencing token in ETCDWIRE_LOCK_KEY and ETCDWIRE_LOCK_TOKEN. If the lock
is lost, etcdwire ends the command, and the exit code is ${ExitCode.LOST}. If the lock was not free in time, the exit code is ${ExitCode.TRY_AGAIN}. Without a
command, etcdwire prints the queue key and holds the lock until it is interrupted.
${STOPPED_HELP}`,
    )
    .action(async (name: string, rest: string[], flags: HoldFlags, command: Command) => {
      checkDashes(command, 1, 'name: missing; give the name of the lock before --');
      const take = async (session: Session, options: WaitOptions): Promise<Held | undefined> => {
        const mutex = new Mutex(session, name);
        return flags.try ? mutex.tryLock(options) : mutex.lock(options);
      };
      setExitCode(await hold(contextOf(io, command), { name, command: rest, flags, take }));
    });
  addHoldFlags(program.command('elect').argument('<name>').argument('[value]').argument('[command...]', 'after --'))
    .description('run a command as the elected leader and proclaim the value; exits with the code of the command')
    .option('-l, --listen', 'print every leader in order instead of campaigning')
    .addHelpText(
      'after',
      `
The command gets the leader's key and its fencing token in ETCDWIRE_LOCK_KEY and ETCDWIRE_LOCK_TOKEN. If the leadership is
lost, etcdwire ends the command, and the exit code is ${ExitCode.LOST}.
${STOPPED_HELP}`,
    )
    .action(async (name: string, value: string | undefined, rest: string[], flags: HoldFlags, command: Command) => {
      const context = contextOf(io, command);
      if (flags.listen) {
        if (value === undefined) return printLeaders(context, name);
        throw wrongArguments('value: got a value to proclaim together with --listen; allowed: only one of the two');
      }
      const missing = 'value: missing; give the value to proclaim before --, or use --listen to watch the leaders';
      checkDashes(command, 2, missing);
      if (value === undefined) throw wrongArguments(missing);
      const take = (session: Session, options: WaitOptions): Promise<Held> =>
        new Election(session, name).campaign(value, options);
      setExitCode(await hold(context, { name, command: rest, flags, value, take }));
    });
}

function addHoldFlags(command: Command): Command {
  return command
    .addOption(
      new Option('--ttl <seconds>', 'time after which the lock is free if etcdwire has died or is suspended')
        .default(10)
        .argParser(seconds),
    )
    .option('--timeout <duration>', 'wait at most this long for the lock; default: no limit', timeLimitMs)
    .option(
      '--grace <duration>',
      'time between SIGTERM and SIGKILL if the lock is lost; default: --ttl / 20, at most 500ms',
      durationMs,
    );
}

/**
 * Checks the arguments around `--`.
 *
 * @throws CliError with the message `problem` if fewer than `count` arguments come before `--`; with another message if
 * no command comes after `--`.
 */
function checkDashes(command: Command, count: number, problem: string): void {
  const after = countAfterDashes(command);
  if (command.args.length - after < count) throw wrongArguments(problem);
  // If a script passes an empty variable as the command, the program must not hold the lock forever.
  if (after === 0 && hasDashes(command))
    throw wrongArguments('command: missing; give a command after --, or leave out --');
}

interface Hold {
  readonly name: string;
  /** The command to run. If empty, the program holds the lock until the lock is lost or the program is interrupted. */
  readonly command: readonly string[];
  readonly flags: HoldFlags;
  /** The value that a leader proclaims. */
  readonly value?: string;
  /** Resolves with undefined if another contender holds the lock and the program should not wait. */
  take(session: Session, options: WaitOptions): Promise<Held | undefined>;
}

/**
 * Acquires the lock, or becomes leader of the election, and runs the command while holding the lock or the leadership.
 * Resolves with the exit code.
 */
async function hold(context: Context, { name, command, flags, value, take }: Hold): Promise<ExitCode> {
  const { io, call } = context;
  const what = `the ${value === undefined ? 'lock' : 'leadership of'} ${name}`;
  return withClient(
    context,
    async (client) => {
      await io.onEnterQueue?.(await context.clientOptions(), name);
      const session = await Session.open(client, { ...call, ttl: flags.ttl, allowLongTtl: true });
      // A failed release must not hide the exit code of the command.
      const released = (releasing: Promise<void>): Promise<void> =>
        releasing.catch((error: unknown) => {
          const problem = escapeControls((error as Error).message);
          io.stderr.write(`etcdwire: ${name} may stay locked for up to ${flags.ttl} s: ${problem}\n`);
        });
      try {
        const taking = take(session, { ...call, maxWaitMs: flags.timeout }).catch((error: unknown) => {
          const isTimeout = error instanceof EtcdError && error.code === 'DeadlineExceeded';
          throw isTimeout ? new CliError(ExitCode.TRY_AGAIN, `${what} was not free within --timeout`) : error;
        });
        const held = flags.try ? await taking : await speaking(context, client, session, { name, what, taking });
        if (held === undefined) throw new CliError(ExitCode.TRY_AGAIN, `another contender holds ${what}`);
        try {
          if (command.length > 0) {
            const code = await runHolding(io, session, { held, what }, command, flags);
            io.etcdctl?.checkProgram(code);
            return code;
          }
          await printHeld(context, client, held, value);
          await pause(Number.POSITIVE_INFINITY, held.signal, io.interrupted);
          // etcdctl regards the interruption as the normal end.
          if (io.etcdctl !== undefined && !held.signal.aborted) return ExitCode.OK;
          throw held.signal.aborted ? lost(what, held) : interruptedBy(io);
        } finally {
          await released(held.release());
        }
      } finally {
        await released(session.close());
      }
    },
    endpointLogger(io),
  );
}

/** Maximum number of queue keys that a waiting program reads, because many programs may wait and read the queue. */
const MAX_SHOWN_QUEUE = 100;
/** A program that has waited for this time, in milliseconds, prints that it waits. */
const WAIT_MESSAGE_MS = 200;

interface Taking {
  readonly name: string;
  readonly what: string;
  readonly taking: Promise<Held | undefined>;
}

/**
 * Waits for the lock. If the wait is longer than `WAIT_MESSAGE_MS`, prints to standard error which contender holds the
 * lock, and later that this program has acquired the lock.
 */
async function speaking(
  { io }: Context,
  client: Client,
  session: Session,
  { name, what, taking }: Taking,
): Promise<Held | undefined> {
  const ended = new AbortController();
  const speak = async (): Promise<boolean> => {
    await pause(WAIT_MESSAGE_MS, ended.signal);
    if (ended.signal.aborted) return false;
    const sort = { target: 'createRevision', order: 'asc' } as const;
    const [holder, ...waiters] = (
      await client.range(prefix(`${name}/`), { signal: ended.signal, sort, limit: MAX_SHOWN_QUEUE })
    ).kvs;
    const ahead = waiters.findIndex(({ lease }) => lease === session.leaseId);
    // Print nothing if the program already has the lock, is not in the queue yet, or has left the queue.
    if (ended.signal.aborted || holder === undefined) return false;
    if (ahead === -1 && waiters.length + 1 < MAX_SHOWN_QUEUE) return false;
    const value = holder.value.length === 0 ? '' : ` with the value ${quoted(holder.value)}`;
    const count = ahead === -1 ? `at least ${waiters.length}` : ahead;
    const others = ahead === 0 ? '' : `, and ${count} ${ahead === 1 ? 'other is' : 'others are'} ahead`;
    const problem = `waiting for ${what}: ${readable(holder.keyBytes)}${value} holds it${others}`;
    io.stderr.write(`etcdwire: ${escapeControls(problem)}\n`);
    return true;
  };
  // If the program cannot read the queue, it waits without a message.
  const spoke = speak().catch(() => false);
  try {
    const held = await taking;
    ended.abort();
    if (held !== undefined && (await spoke))
      io.stderr.write(`etcdwire: acquired ${escapeControls(what)}, token ${held.token}\n`);
    return held;
  } finally {
    ended.abort();
  }
}

async function runHolding(
  io: Io,
  session: Session,
  { held, what }: { readonly held: Held; readonly what: string },
  command: readonly string[],
  { ttl, grace = defaultGraceMs(ttl) }: HoldFlags,
): Promise<ExitCode> {
  const { key, token, signal } = held;
  // `etcdctl lock` sets the variables whose names begin with ETCD_, so existing commands may read them.
  const environment = {
    ETCDWIRE_LOCK_KEY: key,
    ETCDWIRE_LOCK_TOKEN: String(token),
    ETCD_LOCK_KEY: key,
    ETCD_LOCK_REV: String(token),
  };
  const code = await runChild(command, {
    environment,
    signal,
    graceMs: grace,
    remainingMs: () => session.remainingMs(),
    warn: (problem) => void io.stderr.write(`etcdwire: ${problem}\n`),
  }).catch((error: unknown) => {
    throw error === signal.reason ? lost(what, held, '; the command was not started') : error;
  });
  if (signal.aborted) throw lost(what, held, '; the command was ended');
  return code;
}

async function printHeld(
  { out, call }: Context,
  client: Client,
  { key, token }: Held,
  value: string | undefined,
): Promise<void> {
  if (out.etcdctl !== undefined)
    return out.etcdctl.keys(await client.raw.kv.range({ key: Buffer.from(key) }, call), {});
  if (out.format === 'json') return out.json({ key, token: String(token), ...(value === undefined ? {} : { value }) });
  out.line(key);
  if (value !== undefined) out.line(value);
}

/**
 * Returns the default of --grace in milliseconds. A session gives up its locks a tenth of the TTL, at most 1 s, before
 * the lease expires. The grace period is half of that time.
 */
function defaultGraceMs(ttl: number): number {
  return Math.min(ttl * 50, 500);
}

/** Returns the error for a lost lock or a lost leadership, which `what` names. */
function lost(what: string, { signal }: Held, more = ''): CliError {
  const { message } = signal.reason as EtcdError;
  return new CliError(ExitCode.LOST, `${what} was lost: ${message}${more}`);
}

async function printLeaders(context: Context, name: string): Promise<void> {
  const { out, call, io } = context;
  const observe = async (client: Client): Promise<void> => {
    await using session = await Session.open(client, call);
    for await (const kv of new Election(session, name).observe({ signal: io.interrupted })) {
      if (out.etcdctl !== undefined) out.etcdctl.keys(await client.raw.kv.range({ key: kv.keyBytes }, call), {});
      else if (out.format === 'json') out.json(toJson(KeyValueMessage, wireOf(kv)));
      else if (out.format === 'table') out.line(`${readable(kv.keyBytes)}  ${readable(kv.value)}`);
      else for (const part of [kv.keyBytes, kv.value]) out.line(readable(part));
    }
  };
  await withClient(context, observe, endpointLogger(io)).catch((error: unknown) => {
    // etcdctl regards the interruption as the normal end.
    if (io.etcdctl === undefined || !io.interrupted.aborted) throw error;
  });
}
