import { type Command, InvalidArgumentError, Option } from 'commander';
import { type Client, prefix } from '../../../../src/internal.js';
import type { Context } from '../context.js';
import { wrongArguments } from '../exit-code.js';

// What `check perf` and `check datascale` have in common.

type Load = 's' | 'm' | 'l' | 'xl';
/** The names of the loads, and the long names that etcdctl accepts. */
const LOADS: Readonly<Record<string, Load>> = {
  ...{ s: 's', m: 'm', l: 'l', xl: 'xl' },
  ...{ small: 's', medium: 'm', large: 'l', xLarge: 'xl' },
};

export interface CheckFlags {
  readonly load: Load;
  readonly prefix: string;
  readonly autoCompact?: true;
  readonly autoDefrag?: true;
}

export function addCheckFlags(command: Command, loads: string, start: string): Command {
  return command
    .addOption(new Option('--load <load>', loads).choices(Object.keys(LOADS)).argParser(loadNamed).default('s'))
    .option('--prefix <prefix>', 'write keys under this prefix, and delete them afterwards', start)
    .option('--auto-compact', 'compact the store afterwards')
    .option('--auto-defrag', 'defragment the members of --endpoints afterwards, one after the other');
}

/** @throws InvalidArgumentError if etcdctl has no load of this name. */
function loadNamed(name: string): Load {
  const load = Object.hasOwn(LOADS, name) ? LOADS[name] : undefined;
  if (load === undefined) throw new InvalidArgumentError(`Allowed: ${Object.keys(LOADS).join(', ')}.`);
  return load;
}

/** @throws CliError if the store has keys under the prefix, because the command deletes them at its end. */
export async function checkNoKeys(
  { io, call }: Context,
  client: Client,
  start: string,
  name: 'perf' | 'datascale',
): Promise<void> {
  const { count } = start === '' ? { count: 1 } : await client.range(prefix(start), { ...call, countOnly: true });
  if (count === 0) return;
  throw (
    io.etcdctl?.prefixHasKeys(start, name) ??
    wrongArguments(
      `--prefix: got "${start}", under which the store has keys; allowed: a prefix without keys, because check ${name} deletes them`,
    )
  );
}

/** Deletes the keys that the command has written, and compacts and defragments if the user has asked for it. */
export async function cleanUp(
  { io, out, call, nameOf }: Context,
  client: Client,
  { prefix: start, autoCompact, autoDefrag }: CheckFlags,
): Promise<void> {
  const say = (text: string): void => {
    if (out.etcdctl !== undefined) out.line(text);
  };
  const { header } = await client.delete(prefix(start), call);
  if (autoCompact) {
    say(`Compacting with revision ${header.revision}`);
    await client.compact(header.revision, { ...call, physical: true });
    say(`Compacted with revision ${header.revision}`);
  }
  if (!autoDefrag) return;
  for (const endpoint of client.endpoints) {
    const name = JSON.stringify(nameOf(endpoint));
    say(`Defragmenting ${name}`);
    await client.maintenance.defragment(endpoint, { signal: io.interrupted });
    say(`Defragmented ${name}`);
  }
}
