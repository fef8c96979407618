import { type Command, InvalidArgumentError, Option } from 'commander';
import { prefix } from '../../kv/keys.js';
import { monotonicMs, pause } from '../../runtime/timers.js';
import { timeLimitMs } from '../arguments.js';
import { type Context, contextOf, withClient } from '../context.js';
import { CliError, ExitCode, type SetExitCode } from '../exit-code.js';
import { type Io, interruptedBy } from '../io.js';
import { escapeControls } from '../output.js';
import { Progress } from '../progress.js';

/** The loads of `etcdctl check perf`: writes per second, and how many may be in progress at once. */
const LOADS = {
  s: { rate: 150, clients: 50 },
  m: { rate: 1_000, clients: 200 },
  l: { rate: 8_000, clients: 500 },
  xl: { rate: 15_000, clients: 1_000 },
} as const;
/** The long names that etcdctl accepts for the loads. */
const LOAD_NAMES: Readonly<Record<string, keyof typeof LOADS>> = { small: 's', medium: 'm', large: 'l', xLarge: 'xl' };
const VALUE = 'x'.repeat(1_024);
/**
 * The limits of etcdctl: the minimum share of the rate, the maximum time of a write, and the maximum standard deviation
 * of these times.
 */
const LIMITS = { share: 0.9, slowestMs: 500, deviationMs: 100 } as const;
/** Interval in milliseconds at which the command starts writes. */
const TICK_MS = 10;

interface PerfFlags {
  readonly load: keyof typeof LOADS;
  readonly prefix: string;
  readonly duration: number;
  readonly autoCompact?: true;
  readonly autoDefrag?: true;
}

export function addCheckCommands(program: Command, io: Io, setExitCode: SetExitCode): void {
  program
    .command('check')
    .description('check the performance of a cluster')
    .command('perf')
    .addOption(
      new Option('--load <load>', 'writes per second: s 150, m 1,000, l 8,000, xl 15,000')
        .choices([...Object.keys(LOADS), ...Object.keys(LOAD_NAMES)])
        .argParser(loadNamed)
        .default('s'),
    )
    .option('--prefix <prefix>', 'write keys under this prefix, and delete them afterwards', '/etcdwire-check-perf/')
    .addOption(new Option('--duration <duration>', 'how long to write').default(60_000, '60s').argParser(timeLimitMs))
    .option('--auto-compact', 'compact the store afterwards')
    .option('--auto-defrag', 'defragment the members of --endpoints afterwards, one after the other')
    .description('write for a minute, and say whether the cluster is fast enough; exits with 1 if it is not')
    .action(async (flags: PerfFlags, command: Command) => {
      setExitCode(await checkPerformance(contextOf(io, command), flags));
    });
}

/** @throws InvalidArgumentError if etcdctl has no load of this name. */
function loadNamed(name: string): keyof typeof LOADS {
  const load = LOAD_NAMES[name] ?? name;
  if (load in LOADS) return load as keyof typeof LOADS;
  throw new InvalidArgumentError('Allowed: s, m, l, xl, small, medium, large, xLarge.');
}

async function checkPerformance(
  context: Context,
  { load, prefix: start, duration, autoCompact, autoDefrag }: PerfFlags,
): Promise<ExitCode> {
  const { io, out, call } = context;
  const { rate, clients } = LOADS[load];
  const tookMs: number[] = [];
  const failures = new Map<string, number>();
  await withClient(context, async (client) => {
    const { count } = start === '' ? { count: 1 } : await client.range(prefix(start), { ...call, countOnly: true });
    if (count > 0)
      throw new CliError(
        ExitCode.USAGE,
        `--prefix: got "${start}", under which the store has keys; allowed: a prefix without keys, because check perf deletes them`,
      );
    const progress = new Progress(io);
    const running = new Set<Promise<void>>();
    const write = async (index: number): Promise<void> => {
      const startMs = monotonicMs();
      try {
        await client.put(`${start}${index % 10_000}`, VALUE, call);
        tookMs.push(monotonicMs() - startMs);
      } catch (error) {
        const { message } = error as Error;
        failures.set(message, (failures.get(message) ?? 0) + 1);
      }
    };
    const startMs = monotonicMs();
    for (let started = 0; monotonicMs() - startMs < duration; await pause(TICK_MS, io.interrupted)) {
      if (io.interrupted.aborted) throw interruptedBy(io);
      const due = (rate * (monotonicMs() - startMs)) / 1_000;
      for (; started < due && running.size < clients; started += 1) {
        const writing = write(started).finally(() => running.delete(writing));
        running.add(writing);
      }
      progress.show(
        () => `${Math.floor((monotonicMs() - startMs) / 1_000)} of ${duration / 1_000} s, ${tookMs.length} writes`,
      );
    }
    await Promise.all(running);
    progress.erase();
    const { header } = await client.delete(prefix(start), call);
    if (autoCompact) await client.compact(header.revision, { ...call, physical: true });
    if (autoDefrag)
      for (const endpoint of client.endpoints)
        await client.maintenance.defragment(endpoint, { signal: io.interrupted });
  });
  const verdicts = verdictsOn(tookMs, failures, (rate * duration) / 1_000, duration);
  const isPassed = verdicts.every(({ passed }) => passed);
  if (out.format === 'json') out.json({ passed: isPassed, checks: verdicts.map((each) => ({ ...each })) });
  else
    for (const { passed, text } of [...verdicts, { passed: isPassed, text: '' }])
      out.line(`${passed ? 'PASS' : 'FAIL'}${escapeControls(text)}`);
  return isPassed ? ExitCode.OK : ExitCode.FAILED;
}

interface Verdict {
  readonly passed: boolean;
  readonly text: string;
}

function verdictsOn(
  tookMs: readonly number[],
  failures: ReadonlyMap<string, number>,
  wanted: number,
  durationMs: number,
): readonly Verdict[] {
  const mean = tookMs.reduce((sum, each) => sum + each, 0) / Math.max(1, tookMs.length);
  const deviationMs = Math.sqrt(tookMs.reduce((sum, each) => sum + (each - mean) ** 2, 0) / Math.max(1, tookMs.length));
  const slowestMs = tookMs.reduce((slowest, each) => Math.max(slowest, each), 0);
  const perSecond = Math.floor((tookMs.length / durationMs) * 1_000);
  const seconds = (ms: number): string => (ms / 1_000).toFixed(6);
  const atMost = (ms: number, limitMs: number, what: string): Verdict => {
    const passed = ms <= limitMs;
    return { passed, text: `: ${what} ${seconds(ms)}s${passed ? '' : `, limit ${seconds(limitMs)}s`}` };
  };
  return [
    { passed: tookMs.length >= LIMITS.share * wanted, text: `: Throughput is ${perSecond} writes/s` },
    atMost(slowestMs, LIMITS.slowestMs, 'Slowest request took'),
    atMost(deviationMs, LIMITS.deviationMs, 'Stddev is'),
    ...[...failures].map(([message, count]) => ({ passed: false, text: `: ${count} writes failed: ${message}` })),
  ];
}
