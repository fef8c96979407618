import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { startVitest } from 'vitest/node';
import { findEtcd } from './etcd/find.js';
import { describeSource } from './etcd.js';
import { FaultsReporter } from './faults/reporter.js';
import { faultsTable } from './faults/table.js';

// The catalogue of faults, as a table of rows, rounds and results on stdout; how far it is, on stderr.
const USAGE =
  'npm run test:faults -- [--rounds N] [--seed S] [--only REGEX] [--transport http2|grpc-js] [--json FILE]\n' +
  'ETCD_VERSION=3.4|3.5|3.6|3.7 chooses the servers.\n';

const { rounds, seed, only, transport, json } = readArguments();
// How the tests, in processes of their own, hear of it.
process.env.FAULT_ROUNDS = rounds;
if (seed !== undefined) process.env.FAULT_SEED = seed;
if (transport !== undefined) process.env.ETCDWIRE_TRANSPORT = transport;
const source = await findEtcd({ prefer: 'exact' });
process.stderr.write(`${describeSource(source)}\n`);
const reporter = new FaultsReporter();
const vitest = await startVitest('test', ['test/faults'], {
  watch: false,
  reporters: [reporter],
  ...(only === undefined ? {} : { testNamePattern: only }),
});
await vitest.close();
const { results, broken } = reporter;
if (json !== undefined) writeFileSync(json, `${JSON.stringify({ etcd: describeSource(source), results }, null, 2)}\n`);
process.stdout.write(`${describeSource(source)}\n\n${faultsTable(results)}`);
const failed = results.some(({ state }) => state === 'failed');
process.exitCode = failed || broken > 0 || results.length === 0 ? 1 : 0;

function readArguments() {
  try {
    const { values } = parseArgs({
      options: {
        rounds: { type: 'string', default: '1' },
        seed: { type: 'string' },
        only: { type: 'string' },
        transport: { type: 'string' },
        json: { type: 'string' },
      },
    });
    for (const name of ['rounds', 'seed'] as const) {
      const value = values[name];
      if (value !== undefined && !/^[1-9]\d*$/.test(value))
        throw new Error(`--${name}: got "${value}"; allowed: whole numbers above 0`);
    }
    if (values.transport !== undefined && !['http2', 'grpc-js'].includes(values.transport))
      throw new Error(`--transport: got "${values.transport}"; allowed: http2, grpc-js`);
    return values;
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    process.exit(2);
  }
}
