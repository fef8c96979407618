import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { startVitest } from 'vitest/node';
import { describeSource, findEtcd } from './etcd.js';
import { FaultsReporter, type FaultsRun, faultsTable, type RoundResult, serversTable } from './faults/report.js';

// Runs the fault tests in test/faults/ and prints a table with one row for each kind of fault. Given files that earlier
// runs have written with --json, the script prints one table with the results of all those runs instead.
const USAGE =
  'npm run test:faults -- [--rounds N] [--seed S] [--only REGEX] [--transport http2|grpc-js] [--workers N]\n' +
  '                        [--json FILE]\n' +
  'npm run test:faults -- FILE...\n' +
  'To repeat a failed round, give its seed. ETCD_VERSION=3.4|3.5|3.6|3.7 chooses the version of etcd.\n';

const { files, ...options } = readArguments();
const runs = files.length === 0 ? [await run(options)] : files.map(read);
const results = runs.flatMap((each) => each.results);
process.stdout.write(`${serversTable(runs)}\n${faultsTable(results)}`);
const has = (wanted: RoundResult['state']): boolean => results.some(({ state }) => state === wanted);
if (!has('passed')) process.stderr.write('FAILED: no round passed\n');
if (!has('passed') || has('failed')) process.exitCode = 1;

async function run({ rounds, seed, only, transport, workers, json }: Omit<Arguments, 'files'>): Promise<FaultsRun> {
  // The tests run in other processes, which inherit these variables.
  process.env.FAULT_ROUNDS = rounds;
  if (seed !== undefined) process.env.FAULT_SEED = seed;
  if (transport !== undefined) process.env.ETCDWIRE_TRANSPORT = transport;
  const etcd = describeSource(await findEtcd({ prefer: 'exact' }));
  process.stderr.write(`${etcd}\n`);
  const current = (): FaultsRun => ({ etcd, results: reporter.results });
  const write = (): void => {
    if (json !== undefined) writeFileSync(json, `${JSON.stringify(current(), null, 2)}\n`);
  };
  // Write the file after each round, because a run may take hours and the user may stop it early.
  const reporter = new FaultsReporter(write);
  const maxWorkers = Number(workers);
  const filter = only === undefined ? {} : { testNamePattern: only };
  const vitest = await startVitest('test', ['test/faults'], {
    watch: false,
    reporters: [reporter],
    maxWorkers,
    ...filter,
  });
  await vitest.close();
  process.exitCode = reporter.broken > 0 ? 1 : 0;
  return current();
}

function read(file: string): FaultsRun {
  return JSON.parse(readFileSync(file, 'utf8')) as FaultsRun;
}

interface Arguments {
  readonly rounds: string;
  readonly seed?: string | undefined;
  readonly only?: string | undefined;
  readonly transport?: string | undefined;
  readonly workers: string;
  readonly json?: string | undefined;
  readonly files: readonly string[];
}

function readArguments(): Arguments {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        rounds: { type: 'string', default: '1' },
        seed: { type: 'string' },
        only: { type: 'string' },
        transport: { type: 'string' },
        workers: { type: 'string', default: '2' },
        json: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      process.stdout.write(USAGE);
      process.exit(0);
    }
    for (const name of ['rounds', 'seed', 'workers'] as const) {
      const value = values[name];
      if (value !== undefined && !/^[1-9]\d*$/.test(value))
        throw new Error(`--${name}: got "${value}"; allowed: whole numbers above 0`);
    }
    if (values.transport !== undefined && !['http2', 'grpc-js'].includes(values.transport))
      throw new Error(`--transport: got "${values.transport}"; allowed: http2, grpc-js`);
    return { ...values, files: positionals };
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    process.exit(2);
  }
}
