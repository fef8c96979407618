import type { Command } from 'commander';
import type { Client } from '../../client.js';
import { Event, EventType } from '../../gen/mvccpb/kv.js';
import { keysOf } from '../../kv/keys.js';
import { toJson } from '../../protobuf/json.js';
import type { WatchEvent } from '../../watch/event.js';
import { contextOf, tellsOfEndpoints, withClient } from '../context.js';
import type { Io } from '../io.js';
import { type Output, readable } from '../output.js';
import { int64 } from '../values.js';
import { type RangeFlags, rangeFlags, rangeOf } from './keys.js';

interface WatchFlags extends RangeFlags {
  readonly rev?: bigint;
  readonly prevKv?: boolean;
}

export function addWatchCommand(program: Command, io: Io): void {
  rangeFlags(program.command('watch').argument('<key>').argument('[range-end]'))
    .description('events as they come, each once and in order, over any number of reconnects')
    .option('--rev <revision>', 'from this revision on', int64)
    .option('--prev-kv', 'tells what was there before')
    .action(async (key: string, end: string | undefined, flags: WatchFlags, command: Command) => {
      const context = contextOf(io, command);
      const keys = keysOf(rangeOf(key, end, flags));
      const startRevision = flags.rev === undefined || flags.rev === 0n ? undefined : flags.rev;
      const follow = async (client: Client): Promise<void> => {
        const watch = client.watch(keys, { startRevision, prevKv: flags.prevKv, signal: io.interrupted });
        for await (const event of watch) tell(context.out, event);
      };
      await withClient(context, follow, tellsOfEndpoints(io));
    });
}

function tell(out: Output, { type, kv, prevKv }: WatchEvent): void {
  if (out.format === 'json') {
    const wire = { type: type === 'put' ? EventType.PUT : EventType.DELETE, kv, prevKv };
    // Always with its type, also where that is the default.
    return out.json({ ...toJson(Event, wire), type: type === 'put' ? 'PUT' : 'DELETE' });
  }
  if (out.format === 'simple') {
    const previous = prevKv === undefined ? [] : [readable(prevKv.key), readable(prevKv.value)];
    const lines = [type === 'put' ? 'PUT' : 'DELETE', ...previous, readable(kv.key), readable(kv.value)];
    return out.line(lines.join('\n'));
  }
  const value = type === 'put' ? `  ${readable(kv.value)}` : '';
  const before = prevKv === undefined ? '' : `  (before: ${readable(prevKv.value)})`;
  out.line(`${String(kv.modRevision).padStart(8)}  ${type.padEnd(6)}  ${readable(kv.key)}${value}${before}`);
}
