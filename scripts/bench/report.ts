import { METRICS, type Metric, metricSpreadOf, type Sample } from './metrics.js';
import type { Outcome, Results, Workload } from './workload.js';
import {
  callGroup,
  HAND_OFFS_GROUP,
  HOOKS_GROUP,
  inFlightVariant,
  LEASES_AND_LOCKS_GROUP,
  RETRYING_GROUP,
  TLS_KINDS,
  tlsGroup,
} from './workloads/calls.js';
import { EXPIRING_GROUP } from './workloads/expiring.js';
import { JOBS_GROUP } from './workloads/jobs.js';
import { BOUNDS_GROUP, exponentOf, MAX_EXPONENT, SCALING_GROUP } from './workloads/scaling.js';
import { COLD_START_GROUP, COLD_START_VARIANT, MEMORY_GROUP } from './workloads/start-and-memory.js';
import {
  CATCH_UP_VARIANT,
  LIVE_EVENTS_GROUP,
  MANY_KEYS_GROUP,
  ONE_WATCHER_VARIANT,
  SCAN_VARIANT,
} from './workloads/watches-and-scans.js';

const TLS_NOTE =
  "etcd has a certificate from the benchmark's own authority. Each client verifies this certificate, and has no " +
  'certificate of its own.';

/** The text below each group's table. It explains how the numbers in the table were measured. */
const NOTES: Readonly<Record<string, string>> = {
  [COLD_START_GROUP]:
    'Each program is a new process that imports the client, makes one get, and exits right after the response. ' +
    'The time is from the start of the process until its exit. Each round starts every program once.',
  ...Object.fromEntries(TLS_KINDS.map((kind) => [tlsGroup(kind), TLS_NOTE])),
  [LEASES_AND_LOCKS_GROUP]:
    'A keepalive is one renewal with `keepAliveOnce` (etcd3: `keepaliveOnce`). With every client, each renewal ' +
    'uses a stream of its own. A lock cycle takes a lock and releases it. etcdwire uses an open session. etcd3 ' +
    'grants a lease for each lock, because it has no other way. Bare grpc-js has no locks. "Its two transactions" are ' +
    'those of a lock cycle of etcdwire, made by the same client without the lock. In the rows "first … cycles", each ' +
    'round starts a new process, which opens its session before the measurement.',
  [HAND_OFFS_GROUP]:
    'All contenders run in one process, unless the row says otherwise, each with a client and a session of its own. ' +
    'Processes use the members in turn, if there are several. The percentiles are those of ' +
    'the time that a contender waits for the lock. etcd3 is missing because its lock does not wait.',
  [HOOKS_GROUP]:
    'This table is about etcdwire only, and has three times as many rounds as the others. "Without hooks" is a ' +
    'client built from the same sources, but without the code for interceptors and diagnostics channels. "Hooks ' +
    'unused" is the client as published. The interceptor only passes each call on. The subscriber listens to `etcdwire:call:start` and `etcdwire:call:end` and does nothing.',
  [RETRYING_GROUP]:
    'This table is about etcdwire only. With `retryWrites`, each put is a transaction that also puts a guard, so etcd ' +
    'writes two keys instead of one.',
  [LIVE_EVENTS_GROUP]:
    'Each event is one put of 100 bytes. Whichever client watches, the puts always come from an etcdwire client in ' +
    'another process, which keeps 64 puts in flight. The column CPU shows the CPU time of the watching process. The ' +
    'percentiles are those of the time from the start of a put until the watcher has received its event. As long as ' +
    'the client keeps up with the puts, the rate is the rate of the puts.',
  [MANY_KEYS_GROUP]:
    'One operation (op) is one key read or one event received, each of 100 bytes. The percentiles are those of the ' +
    'time for the whole scan or watch. etcd3 and bare grpc-js read all keys with one response, for which the benchmark ' +
    "lifts grpc-js's limit of 4 MB. The server starts to send past events within 100 ms after a watch is created, and " +
    'then sends 1,000 revisions of each watch every 100 ms.',
  [SCALING_GROUP]:
    'This table is about etcdwire, unless a row says otherwise. The second column is the size of the work: the number ' +
    'of calls, sessions, waiters, watches, keys or past events. "Watch … behind" delivers past events while another ' +
    'watch of the same client receives a put every 100 ms. Each measurement runs in a new process. The exponent ' +
    'compares the CPU times of the two sizes: 1 means that the cost grows in proportion to the work.',
  [BOUNDS_GROUP]:
    'This table is about etcdwire only. The program makes all puts in one turn of the event loop, and waits for all ' +
    'responses.',
  [JOBS_GROUP]:
    'This table is about etcdwire only. Each worker has its own client, and the handler of a job only waits. The time ' +
    'begins with the first worker, and ends when the last job is complete. Each measurement runs in a new process.',
  [EXPIRING_GROUP]:
    'This table is about etcdwire only. Each client writes keys of 100 bytes, 256 at a time, and then waits until they ' +
    'have expired. The keys have TTLs of 10 to 19 s, except that the keys under one lease are deleted at the end. The ' +
    'bound of a key counts from the answer to its put: that of `ExpiringKeys` is the TTL and a tenth, but at least a ' +
    'second more, and that of a key with its own lease is the TTL. Each measurement runs in a new process, which first ' +
    'writes 5,000 other keys.',
  [MEMORY_GROUP]:
    'Memory is measured after a garbage collection. The column "heap" includes buffers outside the JavaScript ' +
    'heap. Each client runs in a new process, and growth is counted after the first 1,000 gets of the client. In ' +
    'the rows "per watcher", growth is divided by the number of watchers. The other columns show the memory of ' +
    'the whole process.',
};

/** A target: the factor by which etcdwire should be better than the npm package etcd3 in one metric. */
interface Target {
  readonly what: string;
  readonly workload: Pick<Workload, 'group' | 'variant'>;
  readonly metric: Metric;
  /** The least allowed ratio of the rates of etcdwire and etcd3. For any other metric, the greatest allowed ratio. */
  readonly factor: number;
}

const gets = (inFlight: number): Target['workload'] => ({
  group: callGroup('get', 100),
  variant: inFlightVariant(inFlight),
});
const puts = (inFlight: number): Target['workload'] => ({
  group: callGroup('put', 100),
  variant: inFlightVariant(inFlight),
});

const TARGETS: readonly Target[] = [
  { what: 'gets per second, 128 in flight', workload: gets(128), metric: 'rate', factor: 5 },
  { what: 'CPU per get, 128 in flight', workload: gets(128), metric: 'cpuUs', factor: 1 / 8 },
  { what: 'puts per second, 128 in flight', workload: puts(128), metric: 'rate', factor: 3.5 },
  { what: 'puts per second, 512 in flight', workload: puts(512), metric: 'rate', factor: 5 },
  { what: 'gets per second, 1 in flight', workload: gets(1), metric: 'rate', factor: 1.8 },
  {
    what: 'events per second of a watch that starts in the past',
    workload: { group: MANY_KEYS_GROUP, variant: CATCH_UP_VARIANT },
    metric: 'rate',
    factor: 3,
  },
  {
    what: 'keys per second of a scan',
    workload: { group: MANY_KEYS_GROUP, variant: SCAN_VARIANT },
    metric: 'rate',
    factor: 3,
  },
  {
    what: 'CPU per live watch event',
    workload: { group: LIVE_EVENTS_GROUP, variant: ONE_WATCHER_VARIANT },
    metric: 'cpuUs',
    factor: 1 / 3,
  },
  {
    what: 'cold start without Node.js itself',
    workload: { group: COLD_START_GROUP, variant: COLD_START_VARIANT },
    metric: 'netStartMs',
    factor: 1 / 5,
  },
];

/** A target, and whether the run has met it. */
export interface Verdict {
  readonly what: string;
  readonly metric: Metric;
  /** The least allowed `measured` if the metric is `rate`. For any other metric, the greatest allowed `measured`. */
  readonly limit: number;
  /** The median of etcdwire divided by the median of etcd3. For the metric `exponent`, the exponent itself. */
  readonly measured: number;
  readonly met: boolean;
}

/** Compares the results with the targets. Leaves out a target if the run did not measure it. */
export function verdictsOn(outcomes: readonly Outcome[]): Verdict[] {
  return [...comparedWithEtcd3(outcomes), ...exponents(outcomes)];
}

function exponents(outcomes: readonly Outcome[]): Verdict[] {
  return outcomes.flatMap(({ group, variant, samples }) => {
    const measured = exponentOf(samples);
    if (measured === undefined) return [];
    const what = `growth of ${group}, ${variant}`;
    return [{ what, metric: 'exponent' as const, limit: MAX_EXPONENT, measured, met: measured <= MAX_EXPONENT }];
  });
}

function comparedWithEtcd3(outcomes: readonly Outcome[]): Verdict[] {
  return TARGETS.flatMap(({ what, workload: { group, variant }, metric, factor }) => {
    const medianOf = (client: string): number | undefined => {
      const outcome = outcomes.find(
        (candidate) => candidate.group === group && candidate.variant === variant && candidate.competitor === client,
      );
      return metricSpreadOf(outcome?.samples ?? [], metric)?.median;
    };
    const [etcdwire, etcd3] = [medianOf('etcdwire'), medianOf('etcd3')];
    if (etcdwire === undefined || etcd3 === undefined) return [];
    const measured = etcdwire / etcd3;
    const met = metric === 'rate' ? measured >= factor : measured <= factor;
    return [{ what: `${what}, compared with etcd3`, metric, limit: factor, measured, met }];
  });
}

/** Returns the whole report in Markdown. */
export function reportOn(
  results: Results,
  verdicts: readonly Verdict[],
  { colors }: { readonly colors: boolean },
): string {
  const { etcd, node, cpu, cpus, date, members, settings, leftOut, outcomes } = results;
  const about =
    `etcd ${etcd ?? 'of ETCD_ENDPOINTS'}, ${members === 1 ? 'one member' : `${members} members`}; Node.js ${node}; ${cpus} × ${cpu ?? 'CPU'}; ${date.slice(0, 10)}. ` +
    `Each cell is the median of ${settings.rounds} rounds of ${settings.seconds} s, followed by the minimum and the maximum.`;
  const caution = settings.quick ? ['This was a quick run. Its numbers are not reliable.', ''] : [];
  const targets = verdicts.length === 0 ? [] : [targetTable(verdicts, colors)];
  const missing = leftOut.length === 0 ? [] : [leftOut.join(' '), ''];
  return [about, '', ...caution, ...missing, groupTables(outcomes), ...targets].join('\n');
}

function groupTables(outcomes: readonly Outcome[]): string {
  const groups = [...new Set(outcomes.map(({ group }) => group))];
  return groups
    .map((group) =>
      groupTable(
        group,
        outcomes.filter((outcome) => outcome.group === group),
      ),
    )
    .join('\n');
}

function groupTable(group: string, outcomes: readonly Outcome[]): string {
  const metrics = (Object.keys(METRICS) as Metric[]).filter((metric) =>
    outcomes.some(({ samples }) => samples.some((sample) => sample[metric] !== undefined)),
  );
  const rows = outcomes.map(({ variant, competitor, samples, failure }) => [
    variant,
    competitor,
    ...(failure === undefined ? metrics.map((metric) => cell(samples, metric)) : [`failed: ${failure.split('\n')[0]}`]),
  ]);
  const note = NOTES[group];
  return [
    `### ${group}`,
    '',
    ...markdown(['', 'client', ...metrics.map((metric) => METRICS[metric].heading)], rows),
    ...(note === undefined ? [] : ['', note]),
    '',
  ].join('\n');
}

function cell(samples: readonly Sample[], metric: Metric): string {
  const spread = metricSpreadOf(samples, metric);
  if (spread === undefined) return '';
  const [median, min, max] = [spread.median, spread.min, spread.max].map((value) =>
    text(value, METRICS[metric].digits),
  );
  return samples.length === 1 ? `${median}` : `${median} (${min}–${max})`;
}

/** Returns the table of targets and measured values. */
function targetTable(verdicts: readonly Verdict[], colors: boolean): string {
  const shown = (metric: Metric, value: number, digits: number): string => {
    if (metric === 'rate') return `${text(value, digits)} ×`;
    return metric === 'exponent' ? text(value, 2) : `1/${text(1 / value, digits)}`;
  };
  const rows = verdicts.map(({ what, metric, limit, measured, met }) => [
    what,
    `at ${metric === 'rate' ? 'least' : 'most'} ${shown(metric, limit, metric === 'rate' ? 1 : 0)}`,
    shown(metric, measured, 2),
    colors ? `\x1b[${met ? 32 : 31}m${verdictText(met)}\x1b[39m` : verdictText(met),
  ]);
  return ['### Targets', '', ...markdown(['', 'target', 'measured', ''], rows), ''].join('\n');
}

function verdictText(met: boolean): string {
  return met ? 'met' : 'missed';
}

function text(value: number, digits: number): string {
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Returns the lines of a Markdown table. The first two columns are text, and all other columns are numbers. */
function markdown(headings: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(headings), `|---|---|${'---:|'.repeat(headings.length - 2)}`, ...rows.map(line)];
}
