import type { RoundResult } from './round-result.js';

/** A table of all rows, in Markdown. */
export function faultsTable(results: readonly RoundResult[]): string {
  const transports = [...new Set(results.map(({ transport }) => transport))].sort().reverse();
  const rows = [...new Set(results.map(({ row }) => row))];
  const heads = ['fault', ...transports.map((transport) => `rounds, ${transport}`)];
  heads.push('faults made', 'events compared', 'puts judged', 'recovery, median (longest)', 'further');
  const lines = rows.map((row) => {
    const all = results.filter((result) => result.row === row);
    const cells = [
      row,
      ...transports.map((transport) => roundsText(all.filter((each) => each.transport === transport))),
    ];
    cells.push(sum(all, 'faults'), sum(all, 'events'), sum(all, 'puts'), recoveryText(all), furtherText(all));
    return cells;
  });
  const total = [
    'all',
    ...transports.map((transport) => roundsText(results.filter((each) => each.transport === transport))),
  ];
  lines.push([...total, sum(results, 'faults'), sum(results, 'events'), sum(results, 'puts'), '', '']);
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
