import type { Results } from '../results.js';
import { METRICS, type Metric, type Sample } from '../sample.js';
import { spreadOf } from '../statistics.js';
import type { Outcome } from '../workloads/workload.js';
import { NOTES } from './notes.js';
import type { Verdict } from './targets.js';

/** All that a run came to, in Markdown. */
export function reportOn(
  results: Results,
  verdicts: readonly Verdict[],
  { colors }: { readonly colors: boolean },
): string {
  const { etcd, node, cpu, cpus, date, settings, outcomes } = results;
  const about =
    `etcd ${etcd ?? 'as it runs'}, one member; Node.js ${node}; ${cpus} × ${cpu ?? 'CPU'}; ${date.slice(0, 10)}. ` +
    `Medians of ${settings.rounds} rounds of ${settings.seconds} s, and from the least to the most.`;
  const caution = settings.quick
    ? ['A quick run shows that everything runs. Its numbers are not to be relied on.', '']
    : [];
  const verdict = verdicts.length === 0 ? [] : [verdictTable(verdicts, colors)];
  return [about, '', ...caution, tablesOf(outcomes), ...verdict].join('\n');
}

/** Of each group a table: medians, and from the least to the most. */
function tablesOf(outcomes: readonly Outcome[]): string {
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
  const rows = outcomes.map(({ variant, contender, samples, failure }) => [
    variant,
    contender,
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
  const spread = spreadOf(samples, metric);
  if (spread === undefined) return '';
  const [median, min, max] = [spread.median, spread.min, spread.max].map((value) =>
    text(value, METRICS[metric].digits),
  );
  return samples.length === 1 ? `${median}` : `${median} (${min}–${max})`;
}

/** What was to be reached, and what was. */
function verdictTable(verdicts: readonly Verdict[], colors: boolean): string {
  const rows = verdicts.map(({ what, metric, factor, ratio, holds }) => [
    what,
    metric === 'rate' ? `at least ${factor} ×` : `at most 1/${text(1 / factor, 0)}`,
    metric === 'rate' ? `${text(ratio, 2)} ×` : `1/${text(1 / ratio, 2)}`,
    colors ? `\x1b[${holds ? 32 : 31}m${verdictText(holds)}\x1b[39m` : verdictText(holds),
  ]);
  return ['### etcdwire beside etcd3', '', ...markdown(['', 'wanted', 'measured', ''], rows), ''].join('\n');
}

function verdictText(holds: boolean): string {
  return holds ? 'holds' : 'does not hold';
}

function text(value: number, digits: number): string {
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** The first two columns are text. */
function markdown(headings: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(headings), `|---|---|${'---:|'.repeat(headings.length - 2)}`, ...rows.map(line)];
}
