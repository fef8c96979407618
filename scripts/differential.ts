import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SERVER_ERRORS } from '../src/base/status.js';
import { localVersions } from '../src/testing/etcd/find.js';
import type { MemoryVersion } from '../src/testing/memory/settings.js';
import { compare, showMismatch } from '../test/differential/compare.js';
import { memoryTarget } from '../test/differential/memory-target.js';
import { rpcs } from '../test/differential/methods.js';
import { Player } from '../test/differential/player.js';
import { CONFIRMATIONS, type Counts, type Failure, kindOf, noCounts, run } from '../test/differential/run.js';
import { PROFILE_NAMES } from '../test/differential/sequence.js';
import type { Step } from '../test/differential/step.js';
import { realTarget, type Target } from '../test/differential/target.js';
import { testClusters } from './differential/clusters.js';
import { UNREACHABLE } from './differential/unreachable.js';

// The differential test sends generated sequences of requests to a `MemoryEtcd` and to a real etcd of the same version,
// and compares every answer, field by field. With --between, it compares two versions of the real etcd with each other.

const VERSIONS: readonly MemoryVersion[] = ['3.5', '3.6', '3.7'];
const USAGE = `npm run test:differential -- [--requests N] [--seed S] [--versions 3.5,3.6,3.7] [--profiles kv,...] [--replay FILE]
npm run test:differential -- --between 3.5,3.6 [--requests N] [--seed S]
npm run test:differential -- --members 3 [--sequences N] [--seed S] [--versions 3.6]

--requests is the number of requests for each version, 100000 by default. --versions names the versions, by default all
local versions. --profiles names some of ${PROFILE_NAMES.join(', ')}; the default is all of them.
--replay plays a sequence that a failed run has saved. --between lists the differences between two versions of etcd.
--members 3 compares clusters of three members, with elections, cuts, kills and new members between the requests. It plays
--sequences sequences of 30 steps, by default 300, whose seeds are --seed and the numbers after it.
`;
/** Maximum number of kinds of differences that --between lists. */
const MOST_KINDS = 100;
const PROGRESS_INTERVAL_MS = 5_000;

interface Arguments {
  readonly requests: number;
  readonly seed: number;
  readonly versions: readonly MemoryVersion[];
  readonly profiles: readonly string[] | undefined;
  readonly replay: string | undefined;
  readonly between: readonly [MemoryVersion, MemoryVersion] | undefined;
  readonly members: number;
  readonly sequences: number;
}

/** The result of the run for one version. */
interface Result {
  readonly version: MemoryVersion;
  readonly counts: Counts;
  readonly seconds: number;
  /** The report of the first confirmed difference. Undefined if there was none. */
  readonly failure: string | undefined;
  /** The reports of differences that did not appear again when the sequence was played again. */
  readonly unconfirmed: readonly string[];
}

const given = await readArguments();
if (given.members !== 1) {
  for (const version of given.versions) if (!(await testClusters(version, given))) process.exitCode = 1;
} else if (given.between !== undefined) await listDifferences(given.between, given);
else if (given.replay !== undefined) await replay(given.replay, given.versions);
else {
  const results = await Promise.all(given.versions.map((version) => test(version, given)));
  process.stdout.write(`${table(results)}\n${unreached(results)}`);
  for (const { version, counts } of results)
    for (const steps of counts.ended) process.stdout.write(`\nThe process of etcd ${version} ended after:\n${steps}\n`);
  for (const { unconfirmed, failure } of results)
    for (const report of failure === undefined ? unconfirmed : [...unconfirmed, failure])
      process.stdout.write(`\n${report}\n`);
  const total = results.filter(({ failure }) => failure !== undefined).length;
  process.stdout.write(`\nseed ${given.seed}: ${total === 0 ? 'no difference' : `${total} differences`}\n`);
  if (total > 0) process.exitCode = 1;
}

/** Sends sequences of requests to a `MemoryEtcd` and to a real etcd, and compares the answers. */
async function test(version: MemoryVersion, { requests, seed, profiles }: Arguments): Promise<Result> {
  const [left, right] = [memoryTarget(version), await realTarget(version)];
  const counts = noCounts();
  const started = performance.now();
  const seconds = (): number => (performance.now() - started) / 1_000;
  let lastReport = Number.NEGATIVE_INFINITY;
  const onProgress = (): void => {
    if (performance.now() < lastReport + PROGRESS_INTERVAL_MS) return;
    lastReport = performance.now();
    process.stderr.write(`${progress(version, counts, seconds())}\n`);
  };
  try {
    const failure = await run({ left, right, requests, seed, profiles, onProgress }, counts);
    const describe = (found: Failure): string => describeFailure(found, left, right);
    return {
      version,
      counts,
      seconds: seconds(),
      failure: failure === undefined ? undefined : describe(failure),
      unconfirmed: counts.unconfirmed.map(describe),
    };
  } finally {
    await Promise.all([left.close(), right.close()]);
  }
}

function progress(version: string, { requests, sequences }: Counts, seconds: number): string {
  const rate = Math.round(requests / seconds);
  return `${version}: ${requests} requests in ${sequences} sequences, ${Math.round(seconds)} s, ${rate} requests/s`;
}

function describeFailure({ steps, mismatch, confirmed }: Failure, left: Target, right: Target): string {
  const file = join(mkdtempSync(join(tmpdir(), 'etcdwire-differential-')), `${right.version}.json`);
  writeFileSync(file, `${JSON.stringify(steps, undefined, 2)}\n`);
  return [
    `Difference, which appeared again in ${confirmed} of ${CONFIRMATIONS} further runs:`,
    showMismatch(steps, mismatch, [left.name, right.name]),
    `Replay with: npm run test:differential -- --versions ${right.version} --replay ${file}`,
  ].join('\n');
}

async function replay(file: string, versions: readonly MemoryVersion[]): Promise<void> {
  const steps = JSON.parse(readFileSync(file, 'utf8')) as Step[];
  for (const version of versions) {
    const [left, right] = [memoryTarget(version), await realTarget(version)];
    try {
      const players = [new Player([await left.next()]), new Player([await right.next()])] as const;
      const mismatch = await compare(steps, players);
      const text = mismatch === undefined ? 'no difference' : showMismatch(steps, mismatch, [left.name, right.name]);
      process.stdout.write(`${version}: ${text}\n`);
      if (mismatch !== undefined) process.exitCode = 1;
    } finally {
      await Promise.all([left.close(), right.close()]);
    }
  }
}

/** Writes one example of each kind of difference between two versions of etcd, in Markdown. */
async function listDifferences(
  [older, newer]: readonly [MemoryVersion, MemoryVersion],
  { requests, seed, profiles }: Arguments,
): Promise<void> {
  const [left, right] = await Promise.all([realTarget(older), realTarget(newer)]);
  const counts = noCounts();
  const tolerated = new Set<string>();
  try {
    for (let next = seed; counts.requests < requests && tolerated.size < MOST_KINDS; ) {
      const failure = await run({ left, right, requests, seed: next, profiles, tolerated }, counts);
      if (failure === undefined) break;
      const { steps, mismatch } = failure;
      const kind = kindOf(steps, mismatch);
      tolerated.add(kind);
      next = failure.nextSeed;
      const example = showMismatch(steps, mismatch, [left.name, right.name]);
      process.stdout.write(`## ${kind}\n\n\`\`\`text\n${example}\n\`\`\`\n\n`);
    }
  } finally {
    await Promise.all([left.close(), right.close()]);
  }
}

/** Returns the requests by RPC and the errors by reason, one column for each version. */
function table(results: readonly Result[]): string {
  const names = (of: (counts: Counts) => ReadonlyMap<string, number>): string[] =>
    [...new Set(results.flatMap(({ counts }) => [...of(counts).keys()]))].sort();
  const numbers = (label: string, of: (result: Result) => number | string): string[] => [
    label,
    ...results.map((result) => String(of(result))),
  ];
  const rows = [
    numbers('etcd', ({ version }) => version),
    numbers('requests', ({ counts }) => counts.requests),
    numbers('sequences', ({ counts }) => counts.sequences),
    numbers('seconds', ({ seconds }) => Math.round(seconds)),
    numbers('requests per second', ({ counts, seconds }) => Math.round(counts.requests / seconds)),
    ['', ...results.map(() => '')],
    ...names(({ rpcs: called }) => called).map((name) => numbers(name, ({ counts }) => counts.rpcs.get(name) ?? 0)),
    ['', ...results.map(() => '')],
    ...names(({ errors }) => errors).map((name) => numbers(name, ({ counts }) => counts.errors.get(name) ?? 0)),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ');
  return rows.map((row) => line(row).trimEnd()).join('\n');
}

/** Lists the RPCs that the run has called on no version, and the errors of etcd that no version has returned. */
function unreached(results: readonly Result[]): string {
  const has = (of: (counts: Counts) => ReadonlyMap<string, number>, name: string): boolean =>
    results.some(({ counts }) => of(counts).has(name));
  const calls = [...rpcs.keys()].filter((name) => !has(({ rpcs: called }) => called, name));
  const errors = Object.keys(SERVER_ERRORS).filter((name) => !has(({ errors: seen }) => seen, name));
  return [
    ...calls.map((name) => `RPC not called: ${name}`),
    ...errors.map((name) => `error not reached: ${name}: ${UNREACHABLE[name] ?? 'only by chance, in longer runs'}`),
    '',
  ].join('\n');
}

async function readArguments(): Promise<Arguments> {
  try {
    const { values } = parseArgs({
      options: {
        requests: { type: 'string', default: '100000' },
        seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
        versions: { type: 'string' },
        profiles: { type: 'string' },
        replay: { type: 'string' },
        between: { type: 'string' },
        members: { type: 'string', default: '1' },
        sequences: { type: 'string', default: '300' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      process.stdout.write(USAGE);
      process.exit(0);
    }
    const [requests, sequences, seed] = [values.requests, values.sequences, values.seed].map(Number) as [
      number,
      number,
      number,
    ];
    for (const [name, count] of Object.entries({ requests, sequences }))
      if (!(Number.isInteger(count) && count > 0))
        throw new Error(`--${name}: got "${values[name as 'requests']}"; allowed: whole numbers above 0`);
    if (!Number.isInteger(seed)) throw new Error(`--seed: got "${values.seed}"; allowed: whole numbers`);
    const profiles = values.profiles?.split(',');
    checkList('profiles', profiles, PROFILE_NAMES);
    const versions = values.versions?.split(',') ?? (await localVersions()).filter((minor) => minor !== '3.4');
    checkList('versions', versions, VERSIONS);
    if (versions.length === 0)
      throw new Error('found no etcd on this machine; name the versions to fetch with --versions');
    const between = values.between?.split(',');
    checkList('between', between, VERSIONS);
    if (between !== undefined && between.length !== 2)
      throw new Error(`--between: got "${values.between}"; allowed: two versions, such as 3.5,3.6`);
    checkList('members', [values.members], ['1', '3']);
    const members = Number(values.members);
    return { requests, seed, versions, profiles, replay: values.replay, between, members, sequences } as Arguments;
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    process.exit(2);
  }
}

function checkList(option: string, items: readonly string[] | undefined, allowed: readonly string[]): void {
  for (const item of items ?? [])
    if (!allowed.includes(item)) throw new Error(`--${option}: got "${item}"; allowed: ${allowed.join(', ')}`);
}
