import { fork } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Violation } from '../src/testing/index.js';
import { FaultyCluster } from '../test/support/faults/cluster.js';
import { FAULTS } from '../test/support/faults/nemesis.js';
import { between, pick, randomNumbers } from '../test/support/faults/rounds.js';
import { judgeHeap } from './soak/heap.js';
import { type SoakSample, writeSoakPlot } from './soak/plot.js';
import type { WorkerAnswer, WorkerRequest } from './soak/worker.js';

// All faults mixed, for as long as it is told: clients read, write, watch and lock through them, in episodes of which each
// is judged, and between which memory and open handles are counted.
const USAGE = 'npm run test:soak -- [--minutes N] [--seed S] [--svg FILE] [--json]\n';

/** Judging takes the longer the more happened. */
const FAULTS_PER_EPISODE = 6;
const CALM_MS = 500;
const HEALED_EACH = 0.7;
/**
 * V8 compiles, and takes memory for it, as long as it finds something to make faster, for an hour and longer. Interpreted
 * code leaves what the clients themselves keep.
 */
const INTERPRETED = ['--no-opt', '--no-sparkplug'];

const { minutes, seed, svg, json } = readArguments();
const random = randomNumbers(seed);
const cluster = await FaultyCluster.start({ peerProxies: true });
if (cluster === undefined) throw new Error('the servers are not ours, or etcdctl is missing');
const worker = fork(new URL('./soak/worker.ts', import.meta.url), { execArgv: [...INTERPRETED, '--import', 'tsx'] });
// Also between two questions, when nobody waits for an answer.
const died = new Promise<never>((_, reject) => {
  worker.once('exit', (code, signal) => reject(new Error(`the clients ended: ${code ?? signal}`)));
});
died.catch(() => {});
worker.on('error', () => {});
const violations: Violation[] = [];
const samples: SoakSample[] = [];
const startedAt = performance.now();
const minute = (): number => (performance.now() - startedAt) / 60_000;
let [faults, puts, holds] = [0, 0, 0];

const problems = await soak(cluster).catch((error: unknown) => [textOf(error)]);
worker.kill('SIGKILL');
await cluster.close();
if (svg !== undefined) await writeSoakPlot(svg, samples);
const events = samples.at(-1)?.events ?? 0;
const heap = judgeHeap(samples, minutes);
problems.push(...violations.map(({ rule, detail }) => `${rule}: ${detail}`), ...heap.problems);
if (events === 0) problems.push('no event was compared');
if (holds === 0) problems.push('the lock was never held');
const { slopeMiBPerMinute, standardError } = heap;
const result = { seed, minutes, faults, events, puts, holds, slopeMiBPerMinute, standardError, problems };
process.stdout.write(json ? `${JSON.stringify({ ...result, samples })}\n` : text());
if (problems.length > 0) process.exitCode = 1;

/** Episodes until the time is over; what is wrong with the clients' process then. */
async function soak(through: FaultyCluster): Promise<string[]> {
  while (minute() < minutes) {
    const judged = await episode(through);
    violations.push(...judged.violations);
    puts += judged.puts;
    holds += judged.holds;
    const soFar = (samples.at(-1)?.events ?? 0) + judged.events;
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

async function episode(through: FaultyCluster): Promise<Extract<WorkerAnswer, { readonly type: 'judged' }>> {
  const { etcdctl, version, endpoints, proxied } = through;
  const target = { etcdctl, version, endpoints, proxied };
  const [name, loadSeed] = [`soak-${samples.length}`, Math.floor(random() * 2 ** 31)];
  await ask({ type: 'load', target, name, seed: loadSeed }, 'loaded');
  const block = (ms: number): void => tell({ type: 'block', ms });
  for (let made = 0; made < FAULTS_PER_EPISODE; made += 1) {
    await pause(between(0, CALM_MS, random));
    await pick(FAULTS, random).make({ cluster: through, block }, random);
    faults += 1;
    // Some come while others last.
    if (random() < HEALED_EACH) await through.heal();
  }
  await through.heal();
  return ask({ type: 'judge' }, 'judged');
}

function tell(request: WorkerRequest): void {
  worker.send(request);
}

function ask<Type extends WorkerAnswer['type']>(
  request: WorkerRequest,
  type: Type,
): Promise<Extract<WorkerAnswer, { readonly type: Type }>> {
  const answered = new Promise<Extract<WorkerAnswer, { readonly type: Type }>>((resolve, reject) => {
    worker.once('message', (answer: WorkerAnswer) => {
      if (answer.type === type) resolve(answer as Extract<WorkerAnswer, { readonly type: Type }>);
      else if (answer.type === 'failed') reject(new Error(`the clients failed: ${answer.problem}`));
      else reject(new Error(`asked for "${type}", got "${answer.type}"`));
    });
    tell(request);
  });
  return Promise.race([answered, died]);
}

function text(): string {
  return [
    `seed ${seed}, ${minutes} min: ${faults} faults, ${events.toLocaleString('en')} events compared, ` +
      `${puts.toLocaleString('en')} puts judged, ${holds.toLocaleString('en')} holds of a lock`,
    heap.text,
    problems.length === 0 ? 'no violation, no unhandled rejection, nothing open after close()' : problems.join('\n'),
    '',
  ].join('\n');
}

function textOf(error: unknown): string {
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
      },
    });
    const [given, seeded] = [Number(values.minutes), Number(values.seed)];
    if (!(given > 0 && Number.isFinite(given)))
      throw new Error(`--minutes: got "${values.minutes}"; allowed: numbers above 0`);
    if (!Number.isInteger(seeded)) throw new Error(`--seed: got "${values.seed}"; allowed: whole numbers`);
    return { minutes: given, seed: seeded, svg: values.svg, json: values.json };
  } catch (error) {
    process.stderr.write(`${textOf(error)}\n${USAGE}`);
    process.exit(2);
  }
}
