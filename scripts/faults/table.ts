import type { FaultsRun, RoundResult } from './round-result.js';

/** All rows, and what each came to, in Markdown. */
export function faultsTable(results: readonly RoundResult[]): string {
  const rows = [...new Set(results.map(({ row }) => row))];
  const groups = rows.map((name): Group => ({ name, results: results.filter(({ row }) => row === name) }));
  groups.push({ name: 'all', results });
  return table('fault', groups, {
    'recovery, median (longest)': (some) => (some === results ? '' : recoveryText(some)),
    further: (some) => (some === results ? '' : furtherText(some)),
  });
}

/** The servers, and what all rows came to on each, in Markdown. */
export function serversTable(runs: readonly FaultsRun[]): string {
  const servers = [...new Set(runs.map(({ etcd }) => etcd))].sort();
  const resultsOn = (name: string): RoundResult[] =>
    runs.filter(({ etcd }) => etcd === name).flatMap(({ results }) => results);
  return table(
    'servers',
    servers.map((name) => ({ name, results: resultsOn(name) })),
  );
}

interface Group {
  readonly name: string;
  readonly results: readonly RoundResult[];
}

type Column = (results: readonly RoundResult[]) => string;

function table(what: string, groups: readonly Group[], further: Readonly<Record<string, Column>> = {}): string {
  const all = groups.flatMap(({ results }) => results);
  const transports = [...new Set(all.map(({ transport }) => transport))].sort().reverse();
  const columns: Readonly<Record<string, Column>> = {
    ...Object.fromEntries(
      transports.map((name): [string, Column] => [
        `rounds, ${name}`,
        (results) => roundsText(results.filter(({ transport }) => transport === name)),
      ]),
    ),
    'faults made': (results) => sum(results, 'faults'),
    'events compared': (results) => sum(results, 'events'),
    'puts judged': (results) => sum(results, 'puts'),
    ...further,
  };
  const heads = [what, ...Object.keys(columns)];
  const lines = groups.map(({ name, results }) => [name, ...Object.values(columns).map((column) => column(results))]);
  return [heads, heads.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}

function roundsText(results: readonly RoundResult[]): string {
  const count = (state: RoundResult['state']): number => results.filter((result) => result.state === state).length;
  if (results.length === 0) return '';
  if (count('skipped') === results.length) return 'not to be had here';
  const failed = results.filter(({ state }) => state === 'failed').map(({ round }) => round);
  return failed.length === 0
    ? `${count('passed')}, all green`
    : `${count('passed')} green, FAILED: ${failed.join(', ')}`;
}

function sum(results: readonly RoundResult[], what: 'faults' | 'events' | 'puts'): string {
  const values = results.map(({ figures }) => figures?.[what]).filter((value) => value !== undefined);
  return values.length === 0 ? '' : values.reduce((total, value) => total + value, 0).toLocaleString('en');
}

function recoveryText(results: readonly RoundResult[]): string {
  const values = results.flatMap(({ figures }) => figures?.recoveryMs ?? []);
  return values.length === 0 ? '' : `${seconds(median(values))} (${seconds(Math.max(...values))})`;
}

/** Medians, under the names that the rows give. */
function furtherText(results: readonly RoundResult[]): string {
  const names = new Set(results.flatMap(({ figures }) => Object.keys(figures?.further ?? {})));
  const text = (name: string): string => {
    const values = results.map(({ figures }) => figures?.further?.[name]).filter((value) => value !== undefined);
    return `${name} ${Math.round(median(values)).toLocaleString('en')}`;
  };
  return [...names].map(text).join(', ');
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function seconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
