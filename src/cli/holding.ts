import { type Command, Option } from 'commander';
import type { Held } from '../concurrency/lock.js';
import { Session } from '../concurrency/session.js';
import type { WaitOptions } from '../concurrency/waiting.js';
import { EtcdError } from '../errors/etcd-error.js';
import { pause } from '../runtime/timers.js';
import { runChild } from './child.js';
import { type Context, withClient } from './context.js';
import { durationMs, timeLimitMs } from './duration.js';
import { CliError, ExitCode } from './exit-code.js';
import { interruptedBy } from './io.js';
import { harmless } from './output.js';
import { seconds } from './values.js';

export interface HoldFlags {
  readonly ttl: number;
  /** Milliseconds. */
  readonly timeout?: number;
  /** Milliseconds. */
  readonly grace?: number;
}

/** For the help of every command that holds. */
export const STOPPED_HELP = `
Ctrl-Z stops the command too. A command whose etcdwire is stopped for longer than --ttl, or killed, is ended before
another can take over. Only the fencing token protects while the whole machine or container is frozen: let what the
command writes to refuse a token that is smaller than the greatest it has seen.`;

export function addHoldFlags(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--ttl <seconds>',
        'after which it is free when this process has died or is stopped; its command ends before',
      )
        .default(10)
        .argParser(seconds),
    )
    .option('--timeout <duration>', 'how long to wait for it; default: for ever', timeLimitMs)
    .option(
      '--grace <duration>',
      'between SIGTERM and SIGKILL, where it is lost; default: half of what the lease lasts then, 500ms at most',
      durationMs,
    );
}

/** Of what is given so many come before --: the rest is the command. @throws CliError */
export function wantBeforeDashes(command: Command, count: number, problem: string): void {
  let program = command;
  while (program.parent !== null) program = program.parent;
  const { rawArgs } = program as unknown as { readonly rawArgs: readonly string[] };
  const dashes = rawArgs.indexOf('--');
  const after = dashes === -1 ? 0 : rawArgs.length - dashes - 1;
  if (command.args.length - after < count) throw new CliError(ExitCode.USAGE, problem);
  // As "$COMMAND" that is empty: to hold it for ever is not what was meant.
  if (dashes !== -1 && after === 0)
    throw new CliError(ExitCode.USAGE, 'command: got none after --; allowed: one, or no --');
}

interface Hold {
  readonly name: string;
  /** What to run. Nothing: to hold it until it is lost, or the user has enough. */
  readonly command: readonly string[];
  readonly flags: HoldFlags;
  /** What is proclaimed with it, if anything is. */
  readonly value?: string;
  /** Gives undefined where it is another's, and is not to be waited for. */
  take(session: Session, options: WaitOptions): Promise<Held | undefined>;
}

/** Takes what several want and one can have, and runs the command while it is held. Gives the code to end with. */
export async function hold(context: Context, { name, command, flags, value, take }: Hold): Promise<ExitCode> {
  return withClient(context, async (client) => {
    const { call } = context;
    await context.entering(name);
    const session = await Session.open(client, { ...call, ttl: flags.ttl });
    // What became of the command is said whatever becomes of the lease.
    const givenBack = (giving: Promise<void>): Promise<void> =>
      giving.catch((error: unknown) => {
        const { message } = error as Error;
        context.io.stderr.write(`etcdwire: ${name} may stay taken for up to ${flags.ttl} s: ${harmless(message)}\n`);
      });
    try {
      const held = await take(session, { ...call, maxWaitMs: flags.timeout }).catch((error: unknown) => {
        throw isTimeout(error) ? new CliError(ExitCode.TRY_AGAIN, `${name} was not free within --timeout`) : error;
      });
      if (held === undefined) throw new CliError(ExitCode.TRY_AGAIN, `${name} is another's`);
      try {
        if (command.length === 0) print(context, held, value);
        return await whileHeld(context, session, held, command, flags);
      } finally {
        await givenBack(held.release());
      }
    } finally {
      await givenBack(session.close());
    }
  });
}

async function whileHeld(
  { io }: Context,
  session: Session,
  held: Held,
  command: readonly string[],
  { ttl, grace = defaultGraceMs(ttl) }: HoldFlags,
): Promise<ExitCode> {
  if (command.length === 0) {
    await pause(Number.POSITIVE_INFINITY, held.signal, io.interrupted);
    if (held.signal.aborted) throw lost(held);
    throw interruptedBy(io);
  }
  const code = await runChild(command, {
    environment: environmentOf(held),
    signal: held.signal,
    graceMs: grace,
    remainingMs: () => session.remainingMs(),
    warn: (problem) => void io.stderr.write(`etcdwire: ${problem}\n`),
  }).catch((error: unknown) => {
    throw error === held.signal.reason ? lost(held, '; the command was not started') : error;
  });
  if (held.signal.aborted) throw lost(held, '; the command was ended');
  return code;
}

function print({ out }: Context, { key, token }: Held, value: string | undefined): void {
  if (out.format === 'json') return out.json({ key, token: String(token), ...(value === undefined ? {} : { value }) });
  out.line(key);
  if (value !== undefined) out.line(value);
}

/** A lease that was not renewed lasts a tenth of its TTL, or 1 s, beyond the end of the hold. */
function defaultGraceMs(ttl: number): number {
  return Math.min(ttl * 50, 500);
}

/** What the command is told, also under the names that etcdctl has for it. */
function environmentOf({ key, token }: Held): Readonly<Record<string, string>> {
  return {
    ETCDWIRE_LOCK_KEY: key,
    ETCDWIRE_LOCK_TOKEN: String(token),
    ETCD_LOCK_KEY: key,
    ETCD_LOCK_REV: String(token),
  };
}

function lost({ name, signal }: Held, more = ''): CliError {
  const { message } = signal.reason as EtcdError;
  return new CliError(ExitCode.LOST, `${name} was lost: ${message}${more}`);
}

function isTimeout(error: unknown): boolean {
  return error instanceof EtcdError && error.reason === 'DeadlineExceeded';
}
