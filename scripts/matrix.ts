import { parseArgs } from 'node:util';
import { type EtcdMinor, MINORS, wantedVersion } from '../src/testing/etcd/versions.js';
import { type Context, type Exercise, perform, type Verdict } from '../test/matrix/exercise.js';
import { exerciseList } from '../test/matrix/exercises.js';
import { openMatrix } from '../test/matrix/open-matrix.js';
import { findEtcd } from './etcd.js';

// Calls every RPC on every supported version of etcd that is available, or on the servers in ETCD_ENDPOINTS. No
// other program may use those servers, because the calls turn authentication on and off and compact the history.

const USAGE = `npm run test:matrix -- [--json]\n\nETCD_VERSION=${MINORS.join('|')} tests only this version.\n`;

const { values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } },
});
if (values.help) {
  process.stdout.write(USAGE);
  process.exit(0);
}

interface Result {
  readonly verdict: Verdict | 'FAILED';
  readonly error?: string;
}

interface Column {
  /** The version of the running server, or the requested version. */
  readonly version: string;
  /** Why no etcd of this version is available. Undefined if the RPCs were called. */
  readonly missing?: string;
  /** The result of each RPC, by its name in the form "service.rpc". */
  readonly results: Readonly<Record<string, Result>>;
}

const { minor: asked } = wantedVersion(false);
const versions = process.env.ETCD_ENDPOINTS ? [undefined] : MINORS.filter((minor) => (asked ?? minor) === minor);
const columns: Column[] = [];
for (const version of versions) columns.push(await column(version));
const present = columns.filter(({ missing }) => missing === undefined);
const failures = present.flatMap(({ version, results }) =>
  Object.entries(results).flatMap(([rpc, { error }]) => (error === undefined ? [] : `${rpc} on ${version}: ${error}`)),
);
process.stdout.write(values.json ? `${JSON.stringify(columns, null, 2)}\n` : table());
if (failures.length > 0 || present.length === 0) process.exitCode = 1;

async function column(version: EtcdMinor | undefined): Promise<Column> {
  const name = version === undefined ? 'the servers in ETCD_ENDPOINTS' : `etcd ${version}`;
  const report = (progress: string): void => void process.stderr.write(`${name}: ${progress}\n`);
  report('looking for a server …');
  try {
    await findEtcd({ prefer: 'exact', version });
  } catch (error) {
    report('not available');
    return { version: String(version), missing: messageOf(error), results: {} };
  }
  const { context, close } = await openMatrix(version);
  try {
    const results: Record<string, Result> = {};
    for (const [index, [rpc, exercise]] of exerciseList.entries()) {
      const result = await resultOf(exercise, context);
      results[rpc] = result;
      report(`${index + 1} of ${exerciseList.length}: ${rpc} ${result.verdict}`);
    }
    return { version: context.version, results };
  } finally {
    await close();
  }
}

async function resultOf(exercise: Exercise, context: Context): Promise<Result> {
  try {
    return { verdict: await perform(exercise, context) };
  } catch (error) {
    return { verdict: 'FAILED', error: messageOf(error) };
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function table(): string {
  const missing = columns.flatMap(({ version, missing: why }) =>
    why === undefined ? [] : ['', `etcd ${version} is not available: ${why}`],
  );
  return [
    `| ${['RPC', ...present.map(({ version }) => version)].join(' | ')} |`,
    `|${'---|'.repeat(present.length + 1)}`,
    ...exerciseList.map(([rpc]) => `| ${[rpc, ...present.map(({ results }) => results[rpc]?.verdict)].join(' | ')} |`),
    ...missing,
    ...failures.map((failure) => `\n${failure}`),
    '',
  ].join('\n');
}
