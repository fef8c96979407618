import { type Command, Option } from 'commander';
import { Mutex } from '../../concurrency/mutex.js';
import { contextOf } from '../context.js';
import { type Ends, ExitCode } from '../exit-code.js';
import { addHoldFlags, type HoldFlags, hold, STOPPED_HELP, wantBeforeDashes } from '../holding.js';
import type { Io } from '../io.js';

interface LockFlags extends HoldFlags {
  readonly try?: boolean;
}

export function addLockCommand(program: Command, io: Io, ends: Ends): void {
  addHoldFlags(program.command('lock').argument('<name>').argument('[command...]', 'after --'))
    .description('runs a command under a fair lock, which etcdctl lock takes part in; ends with its code')
    .addOption(new Option('--try', 'only if it is free now').conflicts('timeout'))
    .addHelpText(
      'after',
      `
The command finds the lock's key and its fencing token in ETCDWIRE_LOCK_KEY and ETCDWIRE_LOCK_TOKEN. When the lock is
lost the command is ended, and the code is ${ExitCode.LOST}. When the lock was not free in time the code is ${ExitCode.TRY_AGAIN}. Without a command
this program prints the key, and holds the lock until it is interrupted.
${STOPPED_HELP}`,
    )
    .action(async (name: string, rest: string[], flags: LockFlags, command: Command) => {
      wantBeforeDashes(command, 1, 'name: got none; allowed: the name of the lock, before --');
      const code = await hold(contextOf(io, command), {
        name,
        command: rest,
        flags,
        take: async (session, options) => {
          const mutex = new Mutex(session, name);
          return flags.try ? mutex.tryLock(options) : mutex.lock(options);
        },
      });
      ends(code);
    });
}
