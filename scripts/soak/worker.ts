import { Client, type KeepAlive, type Watch } from '../../src/index.js';
import type { Violation } from '../../src/testing/index.js';
import { blockEventLoop } from '../../test/support/block.js';
import { Load } from '../../test/support/faults/load.js';
import { LockLoad } from '../../test/support/faults/lock-load.js';
import { branchOf, randomNumbers } from '../../test/support/faults/rounds.js';
import type { Target } from '../../test/support/faults/target.js';
import { openHandles, type ProcessSample, takeSample } from './sample.js';

export type WorkerRequest =
  /** Begins an episode. */
  | { readonly type: 'load'; readonly target: Target; readonly name: string; readonly seed: number }
  | { readonly type: 'block'; readonly ms: number }
  /** Ends the episode. */
  | { readonly type: 'judge' }
  /** Between two episodes. */
  | { readonly type: 'sample' }
  /** Closes everything. */
  | { readonly type: 'close' };

export type WorkerAnswer =
  | { readonly type: 'loaded' }
  | {
      readonly type: 'judged';
      readonly violations: readonly Violation[];
      readonly events: number;
      readonly puts: number;
      readonly holds: number;
    }
  | { readonly type: 'sampled'; readonly sample: ProcessSample }
  | { readonly type: 'closed'; readonly handlesLeft: readonly string[]; readonly unhandled: readonly string[] }
  /** In place of any other. */
  | { readonly type: 'failed'; readonly problem: string };

// The clients of a soak in a process of their own, so that its memory and handles are theirs.

const unhandled: string[] = [];
process.on('unhandledRejection', (reason) => unhandled.push(String(reason)));
const atStart = openHandles();
let resident: { readonly client: Client; readonly watch: Watch; readonly alive: KeepAlive } | undefined;
let episode: { readonly load: Load; readonly locks: LockLoad } | undefined;

process.on('disconnect', () => process.exit());
process.on('message', async (request: WorkerRequest) => {
  if (request.type === 'block') return blockEventLoop(request.ms);
  process.send?.(await answer(request).catch(failed));
  if (request.type === 'close') process.disconnect();
});

/** Else it would be taken for a rejection of the clients', and waited for. */
function failed(error: unknown): WorkerAnswer {
  return { type: 'failed', problem: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

async function answer(request: Exclude<WorkerRequest, { readonly type: 'block' }>): Promise<WorkerAnswer> {
  if (request.type === 'load') {
    const { target, name, seed } = request;
    resident ??= await open(target);
    const random = randomNumbers(seed);
    const load = await Load.start(target, { name, random: branchOf(random) });
    episode = { load, locks: await LockLoad.start(target, { name: `${name}-lock`, random: branchOf(random) }) };
    return { type: 'loaded' };
  }
  if (request.type === 'judge') return judge();
  if (request.type === 'sample') return { type: 'sampled', sample: await takeSample() };
  await resident?.watch.close();
  await resident?.alive.close();
  await resident?.client.close();
  await takeSample();
  const handlesLeft = [...openHandles()];
  for (const kind of atStart) {
    const index = handlesLeft.indexOf(kind);
    if (index >= 0) handlesLeft.splice(index, 1);
  }
  return { type: 'closed', handlesLeft, unhandled };
}

/** What lives as long as the process does. */
async function open({ proxied }: Target): Promise<NonNullable<typeof resident>> {
  const client = new Client({ endpoints: proxied });
  const watch = client.watch('resident');
  const alive = client.lease.keepAlive(await client.lease.grant({ ttl: 60 }));
  return { client, watch, alive };
}

async function judge(): Promise<WorkerAnswer> {
  const { load, locks } = episode as NonNullable<typeof episode>;
  const [judged, held] = [await load.judge(), await locks.judge()];
  await load[Symbol.asyncDispose]();
  await locks[Symbol.asyncDispose]();
  episode = undefined;
  const { events, puts } = judged;
  const violations = [...judged.violations, ...held.violations];
  return { type: 'judged', violations, events, puts, holds: held.holds };
}
