import type { Command } from 'commander';
import { addAuthCommands } from './commands/auth.js';
import { addCheckCommands } from './commands/check.js';
import { addClusterCommands } from './commands/cluster.js';
import { addCopyCommands } from './commands/copy.js';
import { addHistoryCommand } from './commands/history.js';
import { addMemberCommands } from './commands/member.js';
import { addMirrorCommand } from './commands/mirror.js';
import { addProxyCommand } from './commands/proxy.js';
import { addReplayCommand } from './commands/replay.js';
import { addRpcCommands } from './commands/rpc.js';
import { addShardsCommand } from './commands/shards.js';
import { addShellCommands } from './commands/shell.js';
import { addShowCommand } from './commands/show.js';
import { addTraceCommand, type Run } from './commands/trace.js';
import type { SetExitCode } from './exit-code.js';
import type { Io } from './io.js';

/**
 * Adds the commands that are not in the table `COMMON_COMMANDS` of program.ts. One file loads all of them, because with
 * several such files, esbuild would divide the code that these commands share with the common ones into many files.
 */
export function addOtherCommands(program: Command, io: Io, setExitCode: SetExitCode, run: Run, version: string): void {
  addHistoryCommand(program, io);
  addCopyCommands(program, io);
  addMirrorCommand(program, io);
  addShardsCommand(program, io);
  addMemberCommands(program, io);
  addClusterCommands(program, io, setExitCode);
  addAuthCommands(program, io);
  addRpcCommands(program, io);
  addTraceCommand(program, io, setExitCode, run, version);
  addProxyCommand(program, io, version);
  addShowCommand(program, io);
  addReplayCommand(program, io, setExitCode);
  addCheckCommands(program, io, setExitCode);
  addShellCommands(program, io, version);
}
