import { readFileSync } from 'node:fs';
import type { BenchClient, ClientName } from '../clients/bench-client.js';
import type { Sample } from '../metrics.js';
import {
  type Answer,
  type Calls,
  callsOf,
  footprint,
  LiveEvents,
  measureCalls,
  type Task,
  writeEvents,
} from './tasks.js';

// Runs one client in a separate process, and performs the tasks that the parent process sends:
//   program.mjs CLIENT ENDPOINT [CA_FILE]

const [name, endpoint, caFile] = process.argv.slice(2) as [ClientName, string, string?];
const client = await openClient();
const liveEvents = new LiveEvents(client);
/**
 * The prepared calls for each kind of work. The warm-up prepares the calls, so that leases and sessions are open before
 * the measurement.
 */
const callsByWork = new Map<string, Promise<Calls>>();

process.on('disconnect', () => process.exit());
process.on('message', (task: Task) => {
  perform(task).then(
    (sample) => send({ sample }),
    (error: unknown) => send({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
});

function send(answer: Answer): void {
  process.send?.(answer);
}

async function perform(task: Task): Promise<Sample> {
  switch (task.kind) {
    case 'calls': {
      const key = Object.values(task.work).join();
      const calls = callsByWork.get(key) ?? callsOf(task.work, client);
      callsByWork.set(key, calls);
      return measureCalls(await calls, task.limits);
    }
    case 'open-watchers':
      await liveEvents.open(task.prefix, task.watchers);
      return {};
    case 'close-watchers':
      await liveEvents.close();
      return {};
    case 'expect-events':
      liveEvents.expect(task.events);
      return {};
    case 'await-events':
      return liveEvents.measured();
    case 'write-events':
      await writeEvents(client, task.prefix, task.events, task.keys);
      return {};
    case 'footprint':
      return footprint();
    case 'catch-up':
      return (await import('./catch-up.js')).measureCatchUp(endpoint, task.catchUp);
    case 'expiring':
      return (await import('./expiring.js')).measureExpiring(endpoint, task.expiring);
    case 'jobs':
      return (await import('./jobs.js')).measureJobs(endpoint, task.jobs);
    case 'scaling':
      return (await import('./scaling.js')).measureScaling(endpoint, task.scaling);
    case 'hand-offs':
      return (await import('./hand-offs.js')).measureHandOffs([endpoint], task.handOffs);
  }
}

/** Opens the client. Loads only this client's code, because the memory of the process is measured. */
async function openClient(): Promise<BenchClient> {
  const ca = caFile === undefined ? undefined : readFileSync(caFile);
  const tls = ca && { ca };
  switch (name) {
    case 'etcdwire':
      return (await import('../clients/etcdwire.js')).openEtcdwire({ endpoints: [endpoint], tls });
    case 'etcdwire over grpc-js': {
      const { openEtcdwire } = await import('../clients/etcdwire.js');
      const { grpcJs } = await import('../../../src/grpc-js.js');
      return openEtcdwire({ endpoints: [endpoint], transport: grpcJs(), tls });
    }
    case 'etcd3':
      return (await import('../clients/etcd3.js')).openEtcd3(endpoint, ca);
    case 'bare grpc-js':
      return (await import('../clients/bare-grpc-js.js')).openBareGrpcJs(endpoint, ca);
    default:
      return (await import('../clients/variants.js')).openVariant(name, endpoint);
  }
}
