import { type Command, Option } from 'commander';
import { Mutex } from '../../concurrency/mutex.js';
import { Session } from '../../concurrency/session.js';
import { type Context, contextOf, withClient } from '../context.js';
import { durationMs } from '../duration.js';
import { CliError, type Ends, ExitCode } from '../exit-code.js';
import { type HoldFlags, isTimeout, whileHeld } from '../holding.js';
import type { Io } from '../io.js';
import { seconds } from '../values.js';

interface LockFlags extends HoldFlags {
  readonly try?: boolean;
}

export function addLockCommand(program: Command, io: Io, ends: Ends): void {
  holdFlags(program.command('lock').argument('<name>').argument('[command...]', 'after --'))
    .description('runs a command under a fair lock, which etcdctl lock takes part in; ends with its code')
    .option('--try', 'only if it is free now')
    .addHelpText(
      'after',
      `
The command finds the lock's key and its fencing token in ETCDWIRE_LOCK_KEY and ETCDWIRE_LOCK_TOKEN. Should the lock be
lost it is ended, and the code is ${ExitCode.LOST}; where the lock was not to be had in time it is ${ExitCode.TRY_AGAIN}. Without a command
the key is printed, and the lock held until this program is interrupted.`,
    )
    .action(async (name: string, rest: string[], flags: LockFlags, command: Command) => {
      ends(await lock(contextOf(io, command), name, rest, flags));
    });
}

export function holdFlags(command: Command): Command {
  return command
    .addOption(
      new Option('--ttl <seconds>', 'after which it is free where this process died').default(10).argParser(seconds),
    )
    .option('--timeout <duration>', 'how long to wait for it; default: for ever', durationMs)
    .option(
      '--grace <duration>',
      'between SIGTERM and SIGKILL, where it is lost; default: half of what the lease lasts then, 500ms at most',
      durationMs,
    );
}

async function lock(context: Context, name: string, command: readonly string[], flags: LockFlags): Promise<ExitCode> {
  return withClient(context, async (client) => {
    const { call, out } = context;
    await context.entering(name);
    await using session = await Session.open(client, { ...call, ttl: flags.ttl });
    const mutex = new Mutex(session, name);
    const options = { ...call, timeoutMs: flags.timeout };
    const held = await (flags.try ? mutex.tryLock(options) : mutex.lock(options)).catch((error: unknown) => {
      throw isTimeout(error) ? new CliError(ExitCode.TRY_AGAIN, `${name} was not free within --timeout`) : error;
    });
    if (held === undefined) throw new CliError(ExitCode.TRY_AGAIN, `${name} is another's`);
    if (command.length === 0) {
      if (out.format === 'json') out.json({ key: held.key, token: String(held.token) });
      else out.line(held.key);
    }
    try {
      return await whileHeld(context, held, command, flags);
    } finally {
      await held.unlock();
    }
  });
}
