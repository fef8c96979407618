import type { HandOffs } from '../child/hand-offs.js';
import { calledKeys, type KeyWork, type Work } from '../child/tasks.js';
import {
  CLIENTS,
  type ClientName,
  HOOKED,
  type HookedName,
  RETRYING,
  type RetryingName,
} from '../clients/bench-client.js';
import type { Sample } from '../metrics.js';
import {
  GO_MUTEX,
  GO_WAYS,
  isGoWay,
  isNativeClient,
  type LockLimit,
  measureGoLocks,
  measureNativeCalls,
  NATIVE_CLIENTS,
} from '../native-clients.js';
import type { Bench, ClientProcess } from '../processes.js';
import type { Settings } from '../settings.js';
import type { Workload } from '../workload.js';

type CallKind = KeyWork['kind'];
const KINDS: readonly CallKind[] = ['get', 'put', 'txn'];

const SIZES = { 100: '100-byte', 100000: '100-kB' } as const;
type ValueBytes = keyof typeof SIZES;

export function callGroup(kind: CallKind, valueBytes: ValueBytes): string {
  return `${kind} of ${SIZES[valueBytes]} values`;
}

export function tlsGroup(kind: CallKind): string {
  return `${callGroup(kind, TLS_VALUE_BYTES)} over TLS`;
}

/** The calls that are also measured over TLS. */
export const TLS_KINDS: readonly CallKind[] = ['get', 'put'];
const TLS_VALUE_BYTES = 100;

export function inFlightVariant(inFlight: number): string {
  return `${inFlight} in flight`;
}

/**
 * Returns the workloads with gets, puts and transactions, for different numbers of concurrent calls and different sizes
 * of values.
 */
export function callWorkloads(settings: Settings): Workload[] {
  return ([100, 100_000] as const).flatMap((valueBytes) =>
    KINDS.flatMap((kind) =>
      settings.inFlight[valueBytes].map((inFlight) => callWorkload(kind, valueBytes, inFlight, settings)),
    ),
  );
}

/** Returns the workloads with gets and puts over TLS. Each client verifies the server's certificate. */
export function tlsWorkloads(settings: Settings): Workload[] {
  return TLS_KINDS.flatMap((kind) =>
    settings.inFlightOverTls.map((inFlight) => ({
      ...callWorkload(kind, TLS_VALUE_BYTES, inFlight, settings),
      group: tlsGroup(kind),
      tls: true,
    })),
  );
}

function callWorkload(kind: CallKind, valueBytes: ValueBytes, inFlight: number, settings: Settings): Workload {
  const work: KeyWork = { kind, valueBytes };
  return {
    group: callGroup(kind, valueBytes),
    variant: inFlightVariant(inFlight),
    competitors: [...CLIENTS, ...NATIVE_CLIENTS],
    rounds: settings.rounds,
    prepare: async (bench) => {
      await putValues(bench, valueBytes);
      const { warmUpSeconds, firstWarmUp } = settings;
      if (bench.once('warm-up')) await bench.performAll(CLIENTS, { kind: 'calls', work, limits: firstWarmUp });
      await bench.performAll(CLIENTS, { kind: 'calls', work, limits: { inFlight, seconds: warmUpSeconds } });
    },
    measure: (bench, competitor) => {
      if (isNativeClient(competitor)) return measureNativeCalls(bench, competitor, work, inFlight);
      const limits = { inFlight, seconds: settings.seconds };
      return bench.perform(competitor as ClientName, { kind: 'calls', work, limits });
    },
    afterRound: async (bench) => {
      if (kind !== 'get') await compactHistory(bench);
    },
  };
}

/** Puts the keys that gets and transactions use, unless an earlier call has put them. */
export async function putValues(bench: Bench, valueBytes: ValueBytes): Promise<void> {
  if (!bench.once(`values of ${valueBytes} bytes`)) return;
  const value = Buffer.alloc(valueBytes, 'v');
  for (const key of calledKeys(valueBytes)) await bench.client.put(key, value);
}

/** Compacts the history to keep the store small, because the store keeps every past value until a compaction. */
async function compactHistory({ client }: Bench): Promise<void> {
  const { header } = await client.range('bench/', { countOnly: true });
  await client.compact(header.revision, { physical: true });
}

export const HOOKS_GROUP = 'gets with hooks';

const VARIANT_VALUE_BYTES = 100;
/**
 * The factor by which the workloads of `hookWorkloads` have more rounds than other workloads. They need more rounds,
 * because the differences between clients with and without hooks are small.
 */
const HOOKED_ROUNDS_FACTOR = 3;

/**
 * Returns the workloads with gets by a client without hooks, with unused hooks, with an interceptor, and
 * with a subscriber.
 */
export function hookWorkloads(settings: Settings): Workload[] {
  return variantWorkloads(HOOKS_GROUP, 'get', HOOKED, { ...settings, rounds: settings.rounds * HOOKED_ROUNDS_FACTOR });
}

export const RETRYING_GROUP = 'puts with retryWrites';

/** Returns the workloads with puts by a client without and with `retryWrites`. */
export function retryingWorkloads(settings: Settings): Workload[] {
  return variantWorkloads(RETRYING_GROUP, 'put', RETRYING, settings);
}

/** Returns the workloads with calls of one kind by variants of etcdwire, for different numbers of concurrent calls. */
function variantWorkloads<Name extends HookedName | RetryingName>(
  group: string,
  kind: CallKind,
  variants: readonly Name[],
  { inFlight, rounds, seconds, warmUpSeconds, firstWarmUp }: Settings,
): Workload[] {
  const work: Work = { kind, valueBytes: VARIANT_VALUE_BYTES };
  return inFlight[VARIANT_VALUE_BYTES].map(
    (calls): Workload<Name> => ({
      group,
      variant: inFlightVariant(calls),
      competitors: variants,
      rounds,
      prepare: async (bench) => {
        await putValues(bench, VARIANT_VALUE_BYTES);
        if (bench.once(`warm-up of ${group}`))
          await bench.performAll(variants, { kind: 'calls', work, limits: firstWarmUp });
        await bench.performAll(variants, { kind: 'calls', work, limits: { inFlight: calls, seconds: warmUpSeconds } });
      },
      measure: (bench, client) => bench.perform(client, { kind: 'calls', work, limits: { inFlight: calls, seconds } }),
      afterRound: async (bench) => {
        if (kind !== 'get') await compactHistory(bench);
      },
    }),
  );
}

export const LEASES_AND_LOCKS_GROUP = 'leases and locks';

const KEEPALIVES_IN_FLIGHT = 16;
/** The clients that have locks, except "etcdwire". */
const OTHERS_WITH_LOCKS = ['etcdwire over grpc-js', 'etcd3'] as const;
/** The competitor that makes the transactions of a lock cycle with the client "etcdwire", but without the lock. */
const TRANSACTIONS = 'its two transactions';

/** Returns the workloads with keepalives of a lease, and with a lock that has no other contenders. */
export function leaseAndLockWorkloads(settings: Settings): Workload[] {
  return [keepAlives(settings), lockCycles(settings), firstLockCycles(settings)];
}

function keepAlives({ rounds, seconds, warmUpSeconds }: Settings): Workload<ClientName> {
  const inFlight = KEEPALIVES_IN_FLIGHT;
  const work: Work = { kind: 'lease' };
  return {
    group: LEASES_AND_LOCKS_GROUP,
    variant: `keepalive, ${inFlight} in flight`,
    competitors: CLIENTS,
    rounds,
    prepare: (bench) =>
      bench.performAll(CLIENTS, { kind: 'calls', work, limits: { inFlight, seconds: warmUpSeconds } }),
    measure: (bench, client) => bench.perform(client, { kind: 'calls', work, limits: { inFlight, seconds } }),
  };
}

function lockCycles({ rounds, seconds, warmUpSeconds }: Settings): Workload {
  const measure = (bench: Bench, competitor: string, forSeconds: number): Promise<Sample> => {
    if (competitor === GO_MUTEX) return measureGoCycles(bench, { seconds: forSeconds });
    const isBare = competitor === TRANSACTIONS;
    const work: Work = { kind: isBare ? 'lock transactions' : 'lock' };
    const client = isBare ? 'etcdwire' : (competitor as ClientName);
    return bench.perform(client, { kind: 'calls', work, limits: { inFlight: 1, seconds: forSeconds } });
  };
  return {
    group: LEASES_AND_LOCKS_GROUP,
    variant: 'uncontended lock cycle',
    competitors: ['etcdwire', TRANSACTIONS, ...OTHERS_WITH_LOCKS, GO_MUTEX],
    rounds,
    prepare: async (bench) => {
      for (const competitor of ['etcdwire', TRANSACTIONS, ...OTHERS_WITH_LOCKS])
        await measure(bench, competitor, warmUpSeconds);
    },
    measure: (bench, competitor) => measure(bench, competitor, seconds),
  };
}

/** Number of lock cycles. After so few cycles, Node.js has compiled little of the code of the lock. */
const FIRST_CYCLES = 1_000;

/** Returns the workload that measures each sample in a new process. The process first opens its session. */
function firstLockCycles({ rounds }: Settings): Workload {
  return {
    group: LEASES_AND_LOCKS_GROUP,
    variant: `uncontended lock, first ${FIRST_CYCLES.toLocaleString('en')} cycles of a process`,
    competitors: ['etcdwire', GO_MUTEX],
    rounds,
    measure: async (bench, competitor) => {
      if (competitor === GO_MUTEX) return measureGoCycles(bench, { locks: FIRST_CYCLES });
      const limits = { inFlight: 1, calls: FIRST_CYCLES };
      return bench.performInNewProcess('etcdwire', { kind: 'calls', work: { kind: 'lock' }, limits });
    },
  };
}

/** Measures cycles of Go's Mutex. Leaves out the percentiles, because they do not include the release of the lock. */
async function measureGoCycles({ endpoint }: Bench, limit: LockLimit): Promise<Sample> {
  const { p50Ms, p99Ms, ...sample } = await measureGoLocks(
    endpoint,
    GO_MUTEX,
    { name: newLockName(), contenders: 1 },
    limit,
  );
  return sample;
}

export const HAND_OFFS_GROUP = 'hand-offs of a contended lock';
export const CONTENDERS = [2, 10, 50] as const;

/** The two methods by which an etcdwire client waits for a lock. Each key is the name that the report shows. */
const WAYS = { etcdwire: 'etcdwire', "wait of Go's client": 'go' } as const;

export function contendersVariant(contenders: number): string {
  return `${contenders} contenders`;
}

function newLockName(): string {
  return `bench/hand-offs/${Math.random().toString(36).slice(2)}`;
}

/**
 * Returns the workloads where contenders pass a lock from one to the next, with each method of waiting for the lock,
 * for etcdwire and for Go's client.
 */
export function handOffWorkloads(settings: Settings): Workload[] {
  const quiet = CONTENDERS.map((contenders) =>
    handOffs(contendersVariant(contenders), { contenders, otherWrites: false }, settings),
  );
  const apart = handOffsBetweenProcesses(settings);
  if (!settings.otherWrites) return [...quiet, apart];
  return [
    ...quiet,
    handOffs('10 contenders, with other writes', { contenders: 10, otherWrites: true }, settings),
    apart,
  ];
}

function handOffs(
  variant: string,
  options: Pick<HandOffs, 'contenders' | 'otherWrites'>,
  { rounds, handOffSeconds: seconds }: Settings,
): Workload {
  const measure: Workload['measure'] = (bench, competitor) => {
    const name = newLockName();
    if (isGoWay(competitor)) return measureGoLocks(bench.endpoint, competitor, { ...options, name }, { seconds });
    const way = WAYS[competitor as keyof typeof WAYS];
    return bench.perform('etcdwire', { kind: 'hand-offs', handOffs: { way, name, seconds, ...options } });
  };
  return {
    group: HAND_OFFS_GROUP,
    variant,
    competitors: [...Object.keys(WAYS), ...(options.otherWrites ? [] : GO_WAYS)],
    rounds,
    prepare: (bench) => measure(bench, 'etcdwire'),
    measure,
  };
}

/** The number of processes that pass a lock from one to the next. */
const PROCESSES = 4;

/** Each contender runs in a separate process. The processes use the members in turn. */
function handOffsBetweenProcesses({ rounds, handOffSeconds: seconds }: Settings): Workload {
  const processes: ClientProcess[] = [];
  const measure = async (bench: Bench, competitor: string): Promise<Sample> => {
    const name = newLockName();
    const samples = await Promise.all(
      Array.from({ length: PROCESSES }, (_, index) => {
        const endpoint = endpointOf(bench, index);
        if (isGoWay(competitor)) return measureGoLocks(endpoint, competitor, { name, contenders: 1 }, { seconds });
        const way = WAYS[competitor as keyof typeof WAYS];
        const handOffs: HandOffs = { way, name, seconds, contenders: 1, otherWrites: false };
        return (processes[index] as ClientProcess).perform({ kind: 'hand-offs', handOffs });
      }),
    );
    return sumOf(samples);
  };
  return {
    group: HAND_OFFS_GROUP,
    variant: `${PROCESSES} contenders in ${PROCESSES} processes`,
    competitors: [...Object.keys(WAYS), ...GO_WAYS],
    rounds,
    prepare: async (bench) => {
      for (let index = 0; index < PROCESSES; index += 1)
        processes.push(bench.startProcess('etcdwire', endpointOf(bench, index)));
      await measure(bench, 'etcdwire');
    },
    measure,
    finish: async (bench) => {
      for (const process of processes.splice(0)) bench.stopProcess(process);
    },
  };
}

function endpointOf({ endpoints }: Bench, index: number): string {
  return endpoints[index % endpoints.length] as string;
}

/** Adds the rates of processes that ran at once. The other metrics are the means over all operations. */
function sumOf(samples: readonly Sample[]): Sample {
  const rate = samples.reduce((sum, each) => sum + (each.rate ?? 0), 0);
  const mean = (metric: 'cpuUs' | 'p50Ms'): number =>
    samples.reduce((sum, each) => sum + (each[metric] ?? 0) * (each.rate ?? 0), 0) / rate;
  return { rate, cpuUs: mean('cpuUs'), p50Ms: mean('p50Ms') };
}
