import type { Command } from 'commander';
import { saveSnapshot } from '../../node/save-snapshot.js';
import { contextOf, withClient } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import type { Io } from '../io.js';

export function addSnapshotCommand(program: Command, io: Io): void {
  program
    .command('snapshot')
    .description("a member's database")
    .command('save')
    .argument('<file>')
    .description('writes it to a file, for etcdutl snapshot restore; the file appears when it is whole and verified')
    .action(async (file: string, _, command: Command) => {
      const context = contextOf(io, command);
      await withClient(context, async (client) => {
        const [endpoint = '', ...more] = client.endpoints;
        if (more.length > 0)
          throw new CliError(ExitCode.USAGE, `--endpoints: got ${more.length + 1}; allowed: the one to take it from`);
        const { signal, timeoutMs } = context.call;
        const size = await saveSnapshot(client, endpoint, file, { signal, timeoutMs });
        if (context.out.format === 'json') context.out.json({ file, bytes: size, endpoint });
        else context.out.line(`snapshot of ${endpoint} saved to ${file}: ${size} bytes`);
      });
    });
}
