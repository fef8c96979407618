import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Mutex, Session } from '../src/concurrency/index.js';
import type { LeaseKeepAliveResponse } from '../src/gen/etcdserverpb/rpc.js';
import { Client, type Interceptor, prefix } from '../src/index.js';
import type { EtcdMember } from '../src/testing/index.js';
import { goProgram } from '../test/support/go-program.js';
import { startEtcd } from './etcd.js';
import { median } from './median.js';

// Measures how many locks etcd takes from their holders when a leader is paused for longer than the TTL and then
// resumed. Each run holds the locks with this client and then with Go's clientv3, each time on new servers.

const USAGE =
  'npx tsx scripts/faults-resumed-leader.ts [--runs N] [--locks N] [--ttl S] [--pause S] [--first leader|follower]\n' +
  '--first is the member to which the clients connect first. ETCD_VERSION=3.4|3.5|3.6|3.7 chooses the version of etcd.\n';
const GO_SOURCE = fileURLToPath(new URL('../test/support/faults/go', import.meta.url));
/**
 * How long, in milliseconds, a run observes the locks after the leader has resumed. In this time, the leader can revoke
 * leases: its first requests to revoke them fail after 7 s, and then the leader repeats the requests.
 */
const AFTERWARDS_MS = 12_000;
/**
 * Milliseconds between the acquisition of the last lock and the pause of the leader. The client renews each lease at
 * least once in this time.
 */
const BEFORE_MS = 4_000;

interface Settings {
  readonly runs: number;
  readonly locks: number;
  readonly ttl: number;
  readonly pauseMs: number;
  readonly first: string;
}

/**
 * An event that a holder reports. `ack`: it received a keepalive response. `lost`: it lost a session and the lock of
 * that session. `held`: it has acquired all its locks.
 */
interface Observation {
  readonly type: 'ack' | 'lost' | 'held';
  readonly unixMs: number;
  /** ID of the lease in hexadecimal, as in the queue key of a lock. */
  readonly lease?: string;
  readonly ttl?: number;
  readonly member?: string;
  readonly term?: number;
}

interface Holder extends AsyncDisposable {
  /** The observations so far. */
  readonly observed: readonly Observation[];
}

type OpenHolder = (endpoints: readonly string[], name: string, settings: Settings) => Promise<Holder>;

const settings = readSettings();
const go = await goProgram(GO_SOURCE);
if ('missing' in go) process.stderr.write(`Go's clientv3 is not measured: ${go.missing}\n`);
const holders: (readonly [string, OpenHolder])[] = [['etcdwire', holdWithEtcdwire]];
if ('path' in go) holders.push(["Go's clientv3", (...args) => holdWithGo(go.path, ...args)]);
const HEADS = [
  ...['servers', 'client', 'keys deleted', 'time of the deletions after SIGCONT'],
  ...['renewals acknowledged by the new leader', 'time from the last renewal of a lease to its deletion'],
  ...['renewals acknowledged by the former leader', 'time until the holder learned of the deletion, median (longest)'],
];
process.stdout.write(`| ${HEADS.join(' | ')} |\n| ${HEADS.map(() => '---').join(' | ')} |\n`);
for (let run = 0; run < settings.runs; run += 1) {
  for (const [client, open] of holders) process.stdout.write(`${await measure(client, open, settings)}\n`);
}

async function measure(client: string, open: OpenHolder, { locks, pauseMs, ...rest }: Settings): Promise<string> {
  const etcd = await startEtcd({ members: 3 });
  const cluster = etcd.cluster;
  if (cluster === undefined) throw new Error('this measurement needs members that it can start as processes');
  try {
    const leader = await cluster.leader();
    const others = cluster.members.filter((member) => member !== leader);
    const leaderId = await idOf(leader);
    const endpoints = [...(rest.first === 'leader' ? [leader] : []), ...others].map(({ endpoint }) => endpoint);
    await using observer = new Client({ endpoints: [others[0]?.endpoint ?? ''] });
    const deletions = await deletionsOf(observer, 'lock/');
    await using holder = await open(endpoints, 'lock/', { locks, pauseMs, ...rest });
    await pause(BEFORE_MS);
    const pausedAt = Date.now();
    leader.pause();
    await pause(pauseMs);
    const resumedAt = Date.now();
    leader.resume();
    await pause(AFTERWARDS_MS);
    const acks = holder.observed.filter(({ type, ttl = 0 }) => type === 'ack' && ttl > 0);
    const newAcks = acks.filter(({ unixMs, member }) => member !== leaderId && unixMs > pausedAt && unixMs < resumedAt);
    const newTerm = Math.max(...newAcks.map(({ term = 0 }) => term));
    const staleAcks = acks.filter(({ unixMs, term = 0 }) => unixMs >= resumedAt && term < newTerm);
    const sinceAck: number[] = [];
    const learnedAfter: number[] = [];
    for (const [lease, deletedAt] of deletions) {
      const before = acks.filter((ack) => ack.lease === lease && ack.unixMs <= deletedAt).map(({ unixMs }) => unixMs);
      sinceAck.push(deletedAt - Math.max(...before));
      const lost = holder.observed.find((each) => each.type === 'lost' && each.lease === lease);
      learnedAfter.push(lost === undefined ? Number.POSITIVE_INFINITY : Math.max(0, lost.unixMs - deletedAt));
    }
    const since = [...deletions.values()].map((at) => at - resumedAt);
    const cells = [
      `etcd ${etcd.version}`,
      client,
      `${deletions.size} of ${locks}`,
      deletions.size === 0 ? '' : `${Math.min(...since)} to ${Math.max(...since)} ms`,
      `${newAcks.length}`,
      sinceAck.length === 0 ? '' : `${Math.min(...sinceAck)} to ${Math.max(...sinceAck)} ms`,
      `${staleAcks.length}`,
      learnedAfter.length === 0 ? '' : `${median(learnedAfter)} ms (${Math.max(...learnedAfter)} ms)`,
    ];
    return `| ${cells.join(' | ')} |`;
  } finally {
    await etcd.close();
  }
}

/**
 * Watches all queue keys. Resolves with a map from lease IDs to times. Whenever a queue key is deleted, the map
 * receives the lease ID in that key and the time of the deletion.
 */
async function deletionsOf(client: Client, name: string): Promise<ReadonlyMap<string, number>> {
  const deletions = new Map<string, number>();
  const watch = client.watch(prefix(name));
  await watch.created();
  const watching = async (): Promise<void> => {
    for await (const event of watch)
      if (event.type === 'delete') deletions.set(event.keyText().split('/').at(-1) ?? '', Date.now());
  };
  watching().catch(() => {});
  return deletions;
}

async function holdWithEtcdwire(endpoints: readonly string[], name: string, { locks, ttl }: Settings): Promise<Holder> {
  const observed: Observation[] = [];
  const client = new Client({ endpoints: [...endpoints], interceptors: [noteAcks(observed)] });
  for (let index = 0; index < locks; index += 1) {
    const session = await Session.open(client, { ttl });
    const held = await new Mutex(session, `${name}${index}`).lock();
    const lease = session.leaseId.toString(16);
    held.signal.addEventListener('abort', () => observed.push({ type: 'lost', unixMs: Date.now(), lease }));
  }
  return { observed, [Symbol.asyncDispose]: () => client.close() };
}

function noteAcks(observed: Observation[]): Interceptor {
  const note = ({ header, id, ttl }: LeaseKeepAliveResponse): void => {
    const [member, term] = [header?.memberId.toString(16) ?? '', Number(header?.raftTerm)];
    observed.push({ type: 'ack', unixMs: Date.now(), lease: id.toString(16), ttl: Number(ttl), member, term });
  };
  return {
    stream: (call, handler, next) => {
      if (!call.method.path.endsWith('/LeaseKeepAlive')) return next(call, handler);
      return next(call, {
        message: (message) => {
          note(message as LeaseKeepAliveResponse);
          handler.message(message);
        },
        end: (error) => handler.end(error),
        leaving: () => handler.leaving?.(),
      });
    },
  };
}

async function holdWithGo(
  program: string,
  endpoints: readonly string[],
  name: string,
  { locks, ttl }: Settings,
): Promise<Holder> {
  const args = ['locks', endpoints.map((endpoint) => new URL(endpoint).host).join(','), name, `${locks}`, `${ttl}`];
  const child: ChildProcess = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const observed: Observation[] = [];
  const held = new Promise<void>((resolve, reject) => {
    child.once('exit', () => reject(new Error('the Go program ended before it held all locks')));
    createInterface({ input: child.stdout as Readable }).on('line', (line) => {
      const observation = JSON.parse(line) as Observation;
      observed.push(observation);
      if (observation.type === 'held') resolve();
    });
  });
  await held;
  return {
    observed,
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
    },
  };
}

async function idOf(member: EtcdMember): Promise<string | undefined> {
  await using client = new Client({ endpoints: [member.endpoint] });
  return (await client.raw.maintenance.status({})).header?.memberId.toString(16);
}

function readSettings(): Settings {
  try {
    const { values } = parseArgs({
      options: {
        runs: { type: 'string', default: '3' },
        locks: { type: 'string', default: '50' },
        ttl: { type: 'string', default: '10' },
        pause: { type: 'string', default: '12' },
        first: { type: 'string', default: 'follower' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      process.stdout.write(USAGE);
      process.exit(0);
    }
    for (const name of ['runs', 'locks', 'ttl', 'pause'] as const) {
      if (!/^[1-9]\d*$/.test(values[name]))
        throw new Error(`--${name}: got "${values[name]}"; allowed: whole numbers above 0`);
    }
    if (!['leader', 'follower'].includes(values.first))
      throw new Error(`--first: got "${values.first}"; allowed: leader, follower`);
    const [runs, locks, ttl, seconds] = [values.runs, values.locks, values.ttl, values.pause].map(Number) as [
      number,
      number,
      number,
      number,
    ];
    return { runs, locks, ttl, pauseMs: seconds * 1_000, first: values.first };
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    process.exit(2);
  }
}
