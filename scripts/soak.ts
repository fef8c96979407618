import { fork } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Violation } from '../src/testing/index.js';
import { FaultyCluster } from '../test/support/faults/cluster.js';
import { FAULTS } from '../test/support/faults/nemesis.js';
import { between, pick, randomNumbers } from '../test/support/faults/rounds.js';
import { type SoakSample, writeSoakPlot } from './soak/plot.js';
import { slopeOf } from './soak/slope.js';
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
/** What is made once, such as bytecode, is made in the first episodes. */
const WARM_UP = 5;

const { minutes, seed, svg, json } = readArguments();
const random = randomNumbers(seed);
const cluster = await FaultyCluster.start({ peerProxies: true });
if (cluster === undefined) throw new Error('the servers are not ours, or etcdctl is missing');
const worker = fork(new URL('./soak/worker.ts', import.meta.url), { execArgv: [...INTERPRETED, '--import', 'tsx'] });
const violations: Violation[] = [];
const samples: SoakSample[] = [];
const startedAt = performance.now();
const minute = (): number => (performance.now() - startedAt) / 60_000;
let [faults, puts, holds] = [0, 0, 0];

while (minute() < minutes) {
  const judged = await episode(cluster);
  violations.push(...judged.violations);
  puts += judged.puts;
  holds += judged.holds;
  const events = (samples.at(-1)?.events ?? 0) + judged.events;
  const { sample } = await ask({ type: 'sample' }, 'sampled');
  samples.push({ ...sample, minute: minute(), events });
  const { heapMiB, handles } = sample;
  process.stderr.write(
    `${minute().toFixed(1)} of ${minutes} min: ${faults} faults, ${events} events, ${puts} puts, ${holds} holds, ` +
      `${violations.length} violations, heap ${heapMiB.toFixed(1)} MiB, ${handles} handles\n`,
  );
}

const { handlesLeft, unhandled } = await ask({ type: 'close' }, 'closed');
await cluster.close();
if (svg !== undefined) await writeSoakPlot(svg, samples);
const slope = slopeOf(samples.slice(WARM_UP).map((sample) => [sample.minute, sample.heapMiB]));
const problems = [
  ...violations.map(({ rule, detail }) => `${rule}: ${detail}`),
  ...unhandled.map((reason) => `unhandled rejection: ${reason}`),
  ...handlesLeft.map((kind) => `open after close(): ${kind}`),
  ...(slope.perUnit > 2 * slope.standardError ? ['the heap grows'] : []),
];
const { perUnit, standardError } = slope;
const events = samples.at(-1)?.events ?? 0;
const result = { seed, minutes, faults, events, puts, holds, slopeMiBPerMinute: perUnit, standardError, problems };
process.stdout.write(json ? `${JSON.stringify({ ...result, samples })}\n` : text());
if (problems.length > 0) process.exitCode = 1;

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
  return new Promise((resolve, reject) => {
    const died = (code: number | null): void => reject(new Error(`the clients ended with exit code ${code}`));
    worker.once('exit', died);
    worker.once('message', (answer: WorkerAnswer) => {
      worker.removeListener('exit', died);
      if (answer.type === type) resolve(answer as Extract<WorkerAnswer, { readonly type: Type }>);
      else reject(new Error(`asked for "${type}", got "${answer.type}"`));
    });
    tell(request);
  });
}

function text(): string {
  return [
    `seed ${seed}, ${minutes} min: ${faults} faults, ${events.toLocaleString('en')} events compared, ` +
      `${puts.toLocaleString('en')} puts judged, ${holds.toLocaleString('en')} holds of a lock`,
    `heap: ${(perUnit * 1_024).toFixed(1)} KiB a minute, standard error ${(standardError * 1_024).toFixed(1)}`,
    problems.length === 0 ? 'no violation, no unhandled rejection, nothing open after close()' : problems.join('\n'),
    '',
  ].join('\n');
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
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    process.exit(2);
  }
}
