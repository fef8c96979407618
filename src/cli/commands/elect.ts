import type { Command } from 'commander';
import { Election } from '../../concurrency/election.js';
import { Session } from '../../concurrency/session.js';
import { KeyValue } from '../../gen/mvccpb/kv.js';
import { toJson } from '../../json/to-json.js';
import { type Context, contextOf, withClient } from '../context.js';
import { CliError, type Ends, ExitCode } from '../exit-code.js';
import { type HoldFlags, isTimeout, whileHeld } from '../holding.js';
import type { Io } from '../io.js';
import { readable } from '../output.js';
import { holdFlags } from './lock.js';

interface ElectFlags extends HoldFlags {
  readonly listen?: boolean;
}

export function addElectCommand(program: Command, io: Io, ends: Ends): void {
  holdFlags(program.command('elect').argument('<name>').argument('[value]').argument('[command...]', 'after --'))
    .description('runs a command as the leader, with that value proclaimed; ends with its code')
    .option('-l, --listen', 'tells every leader, in order, in place of standing for election')
    .action(async (name: string, value: string | undefined, rest: string[], flags: ElectFlags, command: Command) => {
      const context = contextOf(io, command);
      if (flags.listen) return listen(context, name);
      if (value === undefined)
        throw new CliError(ExitCode.USAGE, 'value: got none; allowed: what to proclaim, or --listen');
      ends(await elect(context, name, value, rest, flags));
    });
}

async function elect(
  context: Context,
  name: string,
  value: string,
  command: readonly string[],
  flags: ElectFlags,
): Promise<ExitCode> {
  return withClient(context, async (client) => {
    const { call, out } = context;
    await context.entering(name);
    await using session = await Session.open(client, { ...call, ttl: flags.ttl });
    const campaign = new Election(session, name).campaign(value, { ...call, timeoutMs: flags.timeout });
    const leadership = await campaign.catch((error: unknown) => {
      throw isTimeout(error) ? new CliError(ExitCode.TRY_AGAIN, `not elected within --timeout`) : error;
    });
    if (command.length === 0) {
      if (out.format === 'json') out.json({ key: leadership.key, token: String(leadership.token), value });
      else for (const line of [leadership.key, value]) out.line(line);
    }
    try {
      return await whileHeld(context, leadership, command, flags);
    } finally {
      await leadership.resign();
    }
  });
}

async function listen(context: Context, name: string): Promise<void> {
  await withClient(context, async (client) => {
    const { out, call, io } = context;
    await using session = await Session.open(client, call);
    for await (const kv of new Election(session, name).observe({ signal: io.interrupted })) {
      if (out.format === 'json') out.json(toJson(KeyValue, kv));
      else if (out.format === 'table') out.line(`${readable(kv.key)}  ${readable(kv.value)}`);
      else for (const part of [kv.key, kv.value]) out.line(readable(part));
    }
  });
}
