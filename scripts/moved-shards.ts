import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client, prefix } from '../src/index.js';
import { shardOwners } from '../src/recipes/index.js';
import { compiled } from '../test/support/compiled.js';
import { startEtcd } from './etcd.js';
import { median } from './median.js';

// Measures how soon all shards have owners again, and how many shards move, when a process that shares them starts or
// ends.

const USAGE = 'npx tsx scripts/moved-shards.ts [--runs N] [--shards N] [--processes N] [--ttl S]\n';
/** A program that works on shards until it receives SIGTERM. */
const PROGRAM = compiled(new URL('../test/support/sharded-program.ts', import.meta.url));
const SHARD_KEY = /\/shards\/\d+\//;
/** Milliseconds between two checks of the owners. */
const LOOK_MS = 50;
/** How long nothing may change before the shards count as settled, in milliseconds. */
const QUIET_MS = 1_000;

interface Settings {
  readonly runs: number;
  readonly shards: number;
  readonly processes: number;
  /** TTL of the leases in seconds. */
  readonly ttl: number;
}

const { runs, shards, processes, ttl } = readSettings();

/** The effects of the start or the end of one process. */
interface Measured {
  /**
   * Time from the signal, or from the first key of a process that joins, until every shard has an owner and no shard
   * moves.
   */
  readonly settledMs: number;
  /** The longest time that the lock of a shard had no key. */
  readonly longestGapMs: number;
  readonly moves: number;
}

const results = new Map<string, Measured[]>();
for (let run = 0; run < runs; run += 1) await measure(run);
process.stdout.write('| change | settled, median (slowest) ms | a shard without a key, at most ms | moved shards |\n');
process.stdout.write('|---|---:|---:|---:|\n');
for (const [change, all] of results) {
  const settled = all.map(({ settledMs }) => settledMs);
  const gap = Math.max(...all.map(({ longestGapMs }) => longestGapMs));
  const moves = [...new Set(all.map((each) => each.moves))].join(', ');
  process.stdout.write(
    `| ${change} | ${ms(median(settled))} (${ms(Math.max(...settled))}) | ${ms(gap)} | ${moves} |\n`,
  );
}

async function measure(run: number): Promise<void> {
  const etcd = await startEtcd();
  const client = new Client({ endpoints: etcd.endpoints });
  const children: ChildProcess[] = [];
  const name = `run-${run}`;
  const start = async (): Promise<void> => {
    const args = [PROGRAM, etcd.endpoints[0] as string, name, `${shards}`, `${ttl}`, '50'];
    children.push(spawn(process.execPath, args, { stdio: 'inherit' }));
  };
  const stop = async (signal: NodeJS.Signals): Promise<void> => void children.shift()?.kill(signal);
  const note = async (change: string, act: () => Promise<void>): Promise<void> => {
    const measured = await observe(client, name, act, act !== start);
    results.set(change, [...(results.get(change) ?? []), measured]);
  };
  try {
    await observe(client, name, start);
    for (let number = 2; number < processes; number += 1) await observe(client, name, start);
    await note(`a process joins ${processes - 1} others`, start);
    await note(`SIGTERM of 1 of ${processes} processes`, () => stop('SIGTERM'));
    await observe(client, name, start);
    await note(`kill -9 of 1 of ${processes} processes, TTL ${ttl} s`, () => stop('SIGKILL'));
  } finally {
    for (const child of children) child.kill('SIGKILL');
    await client.close();
    await etcd.close();
  }
}

/** Runs `act`, and watches the keys of the locks until the shards have settled. */
async function observe(client: Client, name: string, act: () => Promise<void>, isSignal = false): Promise<Measured> {
  const watch = client.watch(prefix(`${name}/`));
  await watch.created();
  const free = new Map<string, number>();
  let [longestGapMs, moves, lastMs] = [0, 0, 0];
  let startedMs = 0;
  const following = (async () => {
    for await (const { type, key } of watch) {
      if (startedMs === 0) startedMs = performance.now();
      const text = new TextDecoder().decode(key);
      if (!SHARD_KEY.test(text)) continue;
      const shard = text.slice(0, text.lastIndexOf('/'));
      lastMs = performance.now();
      if (type === 'delete') free.set(shard, lastMs);
      else {
        const since = free.get(shard);
        if (since !== undefined) longestGapMs = Math.max(longestGapMs, lastMs - since);
        moves += 1;
      }
    }
  })();
  const membersBefore = (await shardOwners(client, name)).workers.length;
  if (isSignal) startedMs = performance.now();
  await act();
  for (;;) {
    await pause(LOOK_MS);
    const { workers, shards: all } = await shardOwners(client, name);
    const isShared = all.length === shards && all.every(({ owner }) => owner !== undefined);
    const hasChanged = workers.length !== membersBefore;
    const isRight = workers.every(({ owned, quota }) => owned === quota);
    if (hasChanged && isShared && isRight && performance.now() - lastMs > QUIET_MS) break;
  }
  await watch.close();
  await following;
  return { settledMs: lastMs - startedMs, longestGapMs, moves };
}

function ms(value: number): string {
  return Math.round(value).toLocaleString('en');
}

function readSettings(): Settings {
  const text = (value: number) => ({ type: 'string', default: `${value}` }) as const;
  const { values } = parseArgs({
    options: {
      runs: text(5),
      shards: text(64),
      processes: text(4),
      ttl: text(10),
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    process.exit(0);
  }
  const { runs, shards, processes, ttl } = values;
  return { runs: Number(runs), shards: Number(shards), processes: Number(processes), ttl: Number(ttl) };
}
