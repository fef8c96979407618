import type { Reporter, TestCase, TestModule } from 'vitest/node';
import type { Figures } from '../../test/load/row.js';
import { median } from '../median.js';

/**
 * The result of one round over one transport. A row of the table is a kind of fault. A round tests a client under that
 * fault once, with random choices that its seed determines.
 */
export interface RoundResult {
  readonly row: string;
  readonly transport: string;
  /** The name of the round, in the form "seed N". */
  readonly round: string;
  readonly state: 'passed' | 'failed' | 'skipped';
  /** Duration of the round in milliseconds, including the time that its servers and processes took to start. */
  readonly ms: number;
  readonly figures: Figures | undefined;
}

/** The results of one run. All rounds of a run use the same version of etcd. */
export interface FaultsRun {
  /** The version of etcd, and where it comes from. */
  readonly etcd: string;
  readonly results: readonly RoundResult[];
}

/** Collects the results of the rounds and reports progress and failures on stderr. */
export class FaultsReporter implements Reporter {
  readonly results: RoundResult[] = [];
  /** Number of failures outside of a round, such as servers that do not start. */
  broken = 0;
  readonly #onResult: () => void;

  constructor(onResult: () => void) {
    this.#onResult = onResult;
  }

  onTestCaseResult(testCase: TestCase): void {
    const { row, seed, figures } = testCase.meta();
    const round = `seed ${seed}`;
    const { state, errors } = testCase.result();
    if (row === undefined || state === 'pending') return;
    const { name: transport } = testCase.project;
    const ms = Math.round(testCase.diagnostic()?.duration ?? 0);
    this.results.push({ row, transport, round, state, ms, figures });
    this.#onResult();
    const done = this.results.filter((result) => result.row === row && result.transport === transport);
    const failed = done.filter((result) => result.state === 'failed').length;
    process.stderr.write(`${transport}: ${row}: ${done.length} done, ${failed} failed\n`);
    for (const { message } of errors ?? []) process.stderr.write(`  FAILED with ${round}: ${message}\n`);
  }

  onTestModuleEnd(module: TestModule): void {
    for (const { message } of module.errors()) this.#addFailure(`${module.relativeModuleId}: ${message}`);
    for (const suite of module.children.allSuites()) {
      for (const { message } of suite.errors()) this.#addFailure(`${suite.fullName}: ${message}`);
    }
  }

  onTestRunEnd(_modules: unknown, unhandled: readonly { readonly message: string }[]): void {
    for (const { message } of unhandled) this.#addFailure(`unhandled error: ${message}`);
  }

  #addFailure(problem: string): void {
    this.broken += 1;
    process.stderr.write(`FAILED: ${problem}\n`);
  }
}

/** Returns a Markdown table with the results of each kind of fault. */
export function faultsTable(results: readonly RoundResult[]): string {
  const rows = [...new Set(results.map(({ row }) => row))];
  const groups = rows.map((name): Group => ({ name, results: results.filter(({ row }) => row === name) }));
  groups.push({ name: 'all', results });
  return table('fault', groups, {
    'recovery, median (longest)': (some) => (some === results ? '' : recoveryText(some)),
    further: (some) => (some === results ? '' : furtherText(some)),
  });
}

/** Returns a Markdown table with the results on each version of etcd. */
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

function table(heading: string, groups: readonly Group[], further: Readonly<Record<string, Column>> = {}): string {
  const all = groups.flatMap(({ results }) => results);
  const transports = [...new Set(all.map(({ transport }) => transport))].sort().reverse();
  const columns: Readonly<Record<string, Column>> = {
    ...Object.fromEntries(
      transports.map((name): [string, Column] => [
        `rounds, ${name}`,
        (results) => roundsText(results.filter(({ transport }) => transport === name)),
      ]),
    ),
    'faults injected': (results) => sum(results, 'faults'),
    'events compared': (results) => sum(results, 'events'),
    'puts verified': (results) => sum(results, 'puts'),
    ...further,
  };
  const heads = [heading, ...Object.keys(columns)];
  const lines = groups.map(({ name, results }) => [name, ...Object.values(columns).map((column) => column(results))]);
  return [heads, heads.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}

function roundsText(results: readonly RoundResult[]): string {
  const count = (state: RoundResult['state']): number => results.filter((result) => result.state === state).length;
  if (results.length === 0) return '';
  if (count('skipped') === results.length) return 'not available here';
  const failed = results.filter(({ state }) => state === 'failed').map(({ round }) => round);
  return failed.length === 0
    ? `${count('passed')}, all passed`
    : `${count('passed')} passed, FAILED: ${failed.join(', ')}`;
}

function sum(results: readonly RoundResult[], figure: 'faults' | 'events' | 'puts'): string {
  const values = results.map(({ figures }) => figures?.[figure]).filter((value) => value !== undefined);
  return values.length === 0 ? '' : values.reduce((total, value) => total + value, 0).toLocaleString('en');
}

function recoveryText(results: readonly RoundResult[]): string {
  const values = results.flatMap(({ figures }) => figures?.recoveryMs ?? []);
  return values.length === 0 ? '' : `${seconds(median(values))} (${seconds(Math.max(...values))})`;
}

/** Returns the names and the medians of the figures that have no separate column in the table. */
function furtherText(results: readonly RoundResult[]): string {
  const names = new Set(results.flatMap(({ figures }) => Object.keys(figures?.further ?? {})));
  const text = (name: string): string => {
    const values = results.map(({ figures }) => figures?.further?.[name]).filter((value) => value !== undefined);
    return `${name} ${Math.round(median(values)).toLocaleString('en')}`;
  };
  return [...names].map(text).join(', ');
}

function seconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
