import { fork } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Violation } from '../src/testing/index.js';
import { FaultyCluster } from '../test/load/cluster.js';
import { RANDOM_FAULTS } from '../test/load/cluster-faults.js';
import { between, pick, randomNumbers } from '../test/load/rounds.js';
import { judgeHeap, type SoakSample } from './soak/heap.js';
import { writeSoakPlot } from './soak/plot.js';
import type { WorkerAnswer, WorkerRequest } from './soak/worker.js';

// A soak test: clients read, write, watch and lock while all kinds of faults happen at random. The test runs in
// episodes. After each episode, it compares what the clients saw with the history of etcd, measures the memory and
// counts the open handles.
const USAGE = 'npm run test:soak -- [--minutes N] [--seed S] [--svg FILE] [--json]\n';

/** Number of faults in each episode. With more faults, the verification of an episode would take too long. */
const FAULTS_PER_EPISODE = 6;
/** Maximum time between two faults, in milliseconds. */
const MAX_CALM_MS = 500;
/** The share of faults that are healed before the next fault starts. All other faults overlap with the next fault. */
const HEALED_SHARE = 0.7;
/**
 * Options that turn off V8's compilers, because the compilers keep allocating memory for an hour or longer. With these
 * options, the heap grows only if the clients need more memory.
 */
const INTERPRETED = ['--no-opt', '--no-sparkplug'];

const { minutes, seed, svg, json } = readArguments();
const random = randomNumbers(seed);
const cluster = await FaultyCluster.start({ peerProxies: true });
if (cluster === undefined) throw new Error('the soak test needs etcdctl, and must start the etcd members itself');
const worker = fork(new URL('./soak/worker.ts', import.meta.url), { execArgv: [...INTERPRETED, '--import', 'tsx'] });
// Rejects when the worker process, where the clients run, exits. The worker can also exit between two requests.
const died = new Promise<never>((_, reject) => {
  worker.once('exit', (code, signal) => reject(new Error(`the worker process ended: ${code ?? signal}`)));
});
died.catch(() => {});
worker.on('error', () => {});
const violations: Violation[] = [];
const samples: SoakSample[] = [];
const startedAt = performance.now();
const minute = (): number => (performance.now() - startedAt) / 60_000;
let [faults, puts, holds] = [0, 0, 0];

const problems = await soak(cluster).catch((error: unknown) => [messageOf(error)]);
worker.kill('SIGKILL');
await cluster.close();
if (svg !== undefined) await writeSoakPlot(svg, samples);
const events = samples.at(-1)?.events ?? 0;
const heap = judgeHeap(samples, minutes);
problems.push(...violations.map(({ rule, detail }) => `${rule}: ${detail}`), ...heap.problems);
if (events === 0) problems.push('no events were compared');
if (holds === 0) problems.push('the lock was never held');
const { slopeMiBPerMinute, standardError } = heap;
const result = { seed, minutes, faults, events, puts, holds, slopeMiBPerMinute, standardError, problems };
process.stdout.write(json ? `${JSON.stringify({ ...result, samples })}\n` : text());
if (problems.length > 0) process.exitCode = 1;

/**
 * Runs episodes until the time is up, and then closes the clients. Resolves with the unhandled rejections in the worker
 * process and the handles that the clients have left open there.
 */
async function soak(through: FaultyCluster): Promise<string[]> {
  while (minute() < minutes) {
    const found = await episode(through);
    violations.push(...found.violations);
    puts += found.puts;
    holds += found.holds;
    const soFar = (samples.at(-1)?.events ?? 0) + found.events;
    const { sample } = await ask({ type: 'sample' }, 'sampled');
    samples.push({ ...sample, minute: minute(), events: soFar });
    const { heapMiB, handles } = sample;
    process.stderr.write(
      `${minute().toFixed(1)} of ${minutes} min: ${faults} faults, ${soFar} events, ${puts} puts, ${holds} holds, ` +
        `${violations.length} violations, heap ${heapMiB.toFixed(1)} MiB, ${handles} handles\n`,
    );
  }
  const { handlesLeft, unhandled } = await ask({ type: 'close' }, 'closed');
  return [
    ...unhandled.map((reason) => `unhandled rejection: ${reason}`),
    ...handlesLeft.map((kind) => `open after close(): ${kind}`),
  ];
}

async function episode(through: FaultyCluster): Promise<Extract<WorkerAnswer, { readonly type: 'verified' }>> {
  const { etcdctl, version, endpoints, proxied } = through;
  const target = { etcdctl, version, endpoints, proxied };
  const [name, loadSeed] = [`soak-${samples.length}`, Math.floor(random() * 2 ** 31)];
  await ask({ type: 'load', target, name, seed: loadSeed }, 'loaded');
  const block = (ms: number): void => send({ type: 'block', ms });
  for (let made = 0; made < FAULTS_PER_EPISODE; made += 1) {
    await pause(between(0, MAX_CALM_MS, random));
    await pick(RANDOM_FAULTS, random).make({ cluster: through, block }, random);
    faults += 1;
    if (random() < HEALED_SHARE) await through.heal();
  }
  await through.heal();
  return ask({ type: 'verify' }, 'verified');
}

function send(request: WorkerRequest): void {
  worker.send(request);
}

function ask<Type extends WorkerAnswer['type']>(
  request: WorkerRequest,
  type: Type,
): Promise<Extract<WorkerAnswer, { readonly type: Type }>> {
  const answered = new Promise<Extract<WorkerAnswer, { readonly type: Type }>>((resolve, reject) => {
    worker.once('message', (answer: WorkerAnswer) => {
      if (answer.type === type) resolve(answer as Extract<WorkerAnswer, { readonly type: Type }>);
      else if (answer.type === 'failed') reject(new Error(`the worker process failed: ${answer.problem}`));
      else reject(new Error(`expected the answer "${type}", got "${answer.type}"`));
    });
    send(request);
  });
  return Promise.race([answered, died]);
}

function text(): string {
  return [
    `seed ${seed}, ${minutes} min: ${faults} faults, ${events.toLocaleString('en')} events compared, ` +
      `${puts.toLocaleString('en')} puts verified, ${holds.toLocaleString('en')} holds of a lock`,
    heap.text,
    problems.length === 0 ? 'no violation, no unhandled rejection, no open handle after close()' : problems.join('\n'),
    '',
  ].join('\n');
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function readArguments(): { minutes: number; seed: number; svg: string | undefined; json: boolean } {
  try {
    const { values } = parseArgs({
      options: {
        minutes: { type: 'string', default: '20' },
        seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
        svg: { type: 'string' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      process.stdout.write(USAGE);
      process.exit(0);
    }
    const [given, seeded] = [Number(values.minutes), Number(values.seed)];
    if (!(given > 0 && Number.isFinite(given)))
      throw new Error(`--minutes: got "${values.minutes}"; allowed: numbers above 0`);
    if (!Number.isInteger(seeded)) throw new Error(`--seed: got "${values.seed}"; allowed: whole numbers`);
    return { minutes: given, seed: seeded, svg: values.svg, json: values.json };
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n${USAGE}`);
    process.exit(2);
  }
}
