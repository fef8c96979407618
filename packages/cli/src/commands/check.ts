import { type Command, Option } from 'commander';
import { escapeControls, monotonicMs, pause } from '../../../../src/internal.js';
import { timeLimitMs } from '../arguments.js';
import { type Context, contextOf, withClient } from '../context.js';
import { ExitCode, type SetExitCode } from '../exit-code.js';
import { type Io, interruptedBy } from '../io.js';
import { Progress } from '../progress.js';
import { checkDataScale } from './check-datascale.js';
import { addCheckFlags, type CheckFlags, checkNoKeys, cleanUp } from './check-flags.js';

/** The loads of `etcdctl check perf`: writes per second, and how many may be in progress at once. */
const LOADS = {
  s: { rate: 150, clients: 50 },
  m: { rate: 1_000, clients: 200 },
  l: { rate: 8_000, clients: 500 },
  xl: { rate: 15_000, clients: 1_000 },
} as const;
const VALUE = 'x'.repeat(1_024);
/**
 * The limits of etcdctl: the minimum share of the rate, the maximum time of a write, and the maximum standard deviation
 * of these times.
 */
const LIMITS = { share: 0.9, slowestMs: 500, deviationMs: 100 } as const;
/** Interval in milliseconds at which the command starts writes. */
const TICK_MS = 10;

interface PerfFlags extends CheckFlags {
  readonly duration: number;
}

export function addCheckCommands(program: Command, io: Io, setExitCode: SetExitCode): void {
  const check = program.command('check').description('check the performance of a cluster');
  addCheckFlags(check.command('perf'), 'writes per second: s 150, m 1,000, l 8,000, xl 15,000', '/etcdwire-check-perf/')
    .addOption(new Option('--duration <duration>', 'how long to write').default(60_000, '60s').argParser(timeLimitMs))
    .description('write for a minute, and say whether the cluster is fast enough; exits with 1 if it is not')
    .action(async (flags: PerfFlags, command: Command) => {
      setExitCode(await checkPerformance(contextOf(io, command), flags));
    });
  const sizes = 'keys of 1 KiB: s 10,000, m 100,000, l 1,000,000, xl 3,000,000';
  addCheckFlags(check.command('datascale'), sizes, '/etcdwire-check-datascale/')
    .description('write keys, and print how much memory the member of the first endpoint has used for them')
    .action((flags: CheckFlags, command: Command) => checkDataScale(contextOf(io, command), flags));
}

async function checkPerformance(context: Context, { duration, ...flags }: PerfFlags): Promise<ExitCode> {
  const { io, out, call } = context;
  const { prefix: start } = flags;
  const { rate, clients } = LOADS[flags.load];
  const tookMs: number[] = [];
  const failures = new Map<string, number>();
  await withClient(context, async (client) => {
    await checkNoKeys(context, client, start, 'perf');
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
    await cleanUp(context, client, flags);
  });
  const verdicts = verdictsOn(tookMs, failures, (rate * duration) / 1_000, duration);
  const isPassed = verdicts.every(({ passed }) => passed);
  if (out.etcdctl !== undefined) for (const line of etcdctlLines(verdicts, isPassed)) out.line(line);
  else if (out.format === 'json')
    out.json({ passed: isPassed, checks: verdicts.map(({ passed, text }) => ({ passed, text })) });
  else
    for (const { passed, text } of [...verdicts, { passed: isPassed, text: '' }])
      out.line(`${passed ? 'PASS' : 'FAIL'}${escapeControls(text)}`);
  return isPassed ? ExitCode.OK : ExitCode.FAILED;
}

interface Verdict {
  readonly passed: boolean;
  readonly text: string;
  /** The whole line of etcdctl if the check has failed. */
  readonly failure: string;
}

/** Returns the lines of etcdctl, which prints the failed writes first. */
function etcdctlLines(verdicts: readonly Verdict[], isPassed: boolean): readonly string[] {
  const lines = verdicts.map(({ passed, text, failure }) => (passed ? `PASS${text}` : failure));
  const errors = lines.slice(CHECK_COUNT);
  const intro = errors.length === 0 ? [] : ['FAIL: too many errors'];
  return [...intro, ...errors, ...lines.slice(0, CHECK_COUNT), isPassed ? 'PASS' : 'FAIL'];
}

/** The number of checks that are always made. The verdicts on failed writes follow them. */
const CHECK_COUNT = 3;

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
  const atMost = (ms: number, limitMs: number, what: string, excess: string): Verdict => {
    const passed = ms <= limitMs;
    const text = `: ${what} ${seconds(ms)}s${passed ? '' : `, limit ${seconds(limitMs)}s`}`;
    return { passed, text, failure: `${excess}: ${seconds(ms)}s` };
  };
  return [
    {
      passed: tookMs.length >= LIMITS.share * wanted,
      text: `: Throughput is ${perSecond} writes/s`,
      failure: `FAIL: Throughput too low: ${perSecond} writes/s`,
    },
    atMost(slowestMs, LIMITS.slowestMs, 'Slowest request took', 'Slowest request took too long'),
    atMost(deviationMs, LIMITS.deviationMs, 'Stddev is', 'Stddev too high'),
    ...[...failures].map(([message, count]) => ({
      passed: false,
      text: `: ${count} writes failed: ${message}`,
      failure: `FAIL: ERROR(${message}) -> ${count}`,
    })),
  ];
}
