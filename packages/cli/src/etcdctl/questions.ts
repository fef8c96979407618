import { pause } from '../../../../src/internal.js';
import { type Io, interruptedBy, linesOf } from '../io.js';
import { badArgs } from './errors.js';
import { goQuoted } from './go-format.js';

// What etcdctl asks the user, or waits for.

/** How long etcdctl waits before it deletes a range. */
const RANGE_WARNING_MS = 2_000;

/** Warns of the deletion of a range, and waits so that the user can interrupt it, as etcdctl does. */
export async function warnOfRange({ stderr, interrupted }: Io, [key, end]: readonly string[]): Promise<void> {
  if (key === undefined || end === undefined) return;
  stderr.write(
    `Warning: Keys between ${goQuoted(key)} and ${goQuoted(end)} will be deleted. Please interrupt the command within ` +
      'next 2 seconds to cancel. You can provide `--range` flag to avoid the delay.\n',
  );
  await pause(RANGE_WARNING_MS, interrupted);
  if (interrupted.aborted) throw interruptedBy({ interrupted });
}

/**
 * Reads a new password from standard input, which is not a terminal: one word, or twice the same line if `interactive`
 * is true. Prints the questions of etcdctl.
 *
 * @throws EtcdctlError if the lines are empty or different.
 */
export async function readNewPassword(io: Io, name: string, interactive: boolean): Promise<string> {
  const lines = linesOf(io);
  const next = async (): Promise<string> => ((await lines.next()).value ?? '').trim();
  if (!interactive) return (await next()).split(/\s/)[0] ?? '';
  io.stdout.write(`Password of ${name}: `);
  const first = await next();
  io.stdout.write('\n');
  if (first === '') throw badArgs('empty password');
  io.stdout.write(`Type password of ${name} again for confirmation: `);
  const second = await next();
  io.stdout.write('\n');
  if (first !== second) throw badArgs('given passwords are different');
  return first;
}
