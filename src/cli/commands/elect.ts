import type { Command } from 'commander';
import type { Client } from '../../client.js';
import { Election } from '../../concurrency/election.js';
import { Session } from '../../concurrency/session.js';
import { KeyValue } from '../../gen/mvccpb/kv.js';
import { toJson } from '../../protobuf/json.js';
import { type Context, contextOf, tellsOfEndpoints, withClient } from '../context.js';
import { CliError, type Ends, ExitCode } from '../exit-code.js';
import { addHoldFlags, type HoldFlags, hold, STOPPED_HELP, wantBeforeDashes } from '../holding.js';
import type { Io } from '../io.js';
import { readable } from '../output.js';

interface ElectFlags extends HoldFlags {
  readonly listen?: boolean;
}

export function addElectCommand(program: Command, io: Io, ends: Ends): void {
  addHoldFlags(program.command('elect').argument('<name>').argument('[value]').argument('[command...]', 'after --'))
    .description('runs a command as the leader, with that value proclaimed; ends with its code')
    .option('-l, --listen', 'tells every leader, in order, in place of standing for election')
    .addHelpText(
      'after',
      `
The command finds the leader's key and its fencing token in ETCDWIRE_LOCK_KEY and ETCDWIRE_LOCK_TOKEN. When the
leadership is lost the command is ended, and the code is ${ExitCode.LOST}.
${STOPPED_HELP}`,
    )
    .action(async (name: string, value: string | undefined, rest: string[], flags: ElectFlags, command: Command) => {
      const context = contextOf(io, command);
      if (flags.listen) {
        if (value === undefined) return listen(context, name);
        throw new CliError(ExitCode.USAGE, '--listen: got a value or a command with it; allowed: the name alone');
      }
      const missing = 'value: got none; allowed: what to proclaim, before --, or --listen';
      wantBeforeDashes(command, 2, missing);
      if (value === undefined) throw new CliError(ExitCode.USAGE, missing);
      const code = await hold(context, {
        name,
        command: rest,
        flags,
        value,
        take: async (session, options) => new Election(session, name).campaign(value, options),
      });
      ends(code);
    });
}

async function listen(context: Context, name: string): Promise<void> {
  const { out, call, io } = context;
  const observe = async (client: Client): Promise<void> => {
    await using session = await Session.open(client, call);
    for await (const kv of new Election(session, name).observe({ signal: io.interrupted })) {
      if (out.format === 'json') out.json(toJson(KeyValue, kv));
      else if (out.format === 'table') out.line(`${readable(kv.key)}  ${readable(kv.value)}`);
      else for (const part of [kv.key, kv.value]) out.line(readable(part));
    }
  };
  await withClient(context, observe, tellsOfEndpoints(io));
}
