import type { Held } from '../concurrency/held.js';
import { EtcdError } from '../errors.js';
import { onAbort } from '../on-abort.js';
import { runChild } from './child.js';
import type { Context } from './context.js';
import { CliError, ExitCode } from './exit-code.js';

export interface HoldFlags {
  readonly ttl: number;
  readonly timeout?: number;
  /** Milliseconds. */
  readonly grace?: number;
}

/**
 * While it is held: runs the command, or without one waits until it is lost or the user has enough. Gives the code to
 * end with.
 */
export async function whileHeld(
  context: Context,
  held: Held,
  command: readonly string[],
  { ttl, grace = graceMs(ttl) }: Pick<HoldFlags, 'ttl' | 'grace'>,
): Promise<ExitCode> {
  const { io } = context;
  if (command.length === 0) {
    await new Promise<void>((resolve) => {
      for (const signal of [held.signal, io.interrupted]) {
        if (signal.aborted) resolve();
        else onAbort(signal, resolve);
      }
    });
    if (held.signal.aborted) throw lost(held);
    return ExitCode.OK;
  }
  const code = await runChild(command, io, { environment: environmentOf(held), signal: held.signal, graceMs: grace });
  if (held.signal.aborted) throw lost(held);
  return code;
}

/** A lease that was not renewed lasts a tenth of its TTL, or 1 s, beyond the end of the hold. */
function graceMs(ttl: number): number {
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

function lost({ name, signal }: Held): CliError {
  const { message } = signal.reason as EtcdError;
  return new CliError(ExitCode.LOST, `${name} was lost: ${message}; the command was ended`);
}

/** Somebody else had it all the time. */
export function isTimeout(error: unknown): boolean {
  return error instanceof EtcdError && error.reason === 'DeadlineExceeded';
}
