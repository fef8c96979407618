import { Client, type KeepAlive, type Watch } from '../../src/index.js';
import type { Violation } from '../../src/testing/index.js';
import type { Target } from '../../test/load/cluster.js';
import { Load, LockLoad } from '../../test/load/load.js';
import { branchOf, randomNumbers } from '../../test/load/rounds.js';
import { blockEventLoop } from '../../test/support/block.js';
import { openHandles, type ProcessSample, takeSample } from './heap.js';

export type WorkerRequest =
  /** Starts an episode: a period when clients read, write, watch and lock under faults. */
  | { readonly type: 'load'; readonly target: Target; readonly name: string; readonly seed: number }
  /** Blocks the event loop. The worker does not answer this request. */
  | { readonly type: 'block'; readonly ms: number }
  /** Ends the episode and compares its results with etcd's history. */
  | { readonly type: 'verify' }
  /** Measures the process between two episodes. */
  | { readonly type: 'sample' }
  /** Closes all clients. */
  | { readonly type: 'close' };

export type WorkerAnswer =
  | { readonly type: 'loaded' }
  | {
      readonly type: 'verified';
      readonly violations: readonly Violation[];
      readonly events: number;
      readonly puts: number;
      readonly holds: number;
    }
  | { readonly type: 'sampled'; readonly sample: ProcessSample }
  | { readonly type: 'closed'; readonly handlesLeft: readonly string[]; readonly unhandled: readonly string[] }
  /** The answer to any request that fails. */
  | { readonly type: 'failed'; readonly problem: string };

// This process runs only the clients of a soak test, so that all memory and handles of the process belong to them.

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

/**
 * Turns an error into an answer. Without the answer, the error would count as an unhandled rejection of a client, and
 * the parent process would wait forever.
 */
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
  if (request.type === 'verify') return verify();
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

/** Opens a client, a watch and a lease that live as long as the process. */
async function open({ proxied }: Target): Promise<NonNullable<typeof resident>> {
  const client = new Client({ endpoints: proxied });
  const watch = client.watch('resident');
  const alive = client.lease.keepAlive(await client.lease.grant({ ttl: 60 }));
  return { client, watch, alive };
}

async function verify(): Promise<WorkerAnswer> {
  const { load, locks } = episode as NonNullable<typeof episode>;
  const [found, held] = [await load.verify(), await locks.verify()];
  await load[Symbol.asyncDispose]();
  await locks[Symbol.asyncDispose]();
  episode = undefined;
  const { events, puts } = found;
  const violations = [...found.violations, ...held.violations];
  return { type: 'verified', violations, events, puts, holds: held.holds };
}
