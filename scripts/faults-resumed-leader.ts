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

// Measures which locks etcd takes from their holders after a leader was paused for longer than the TTL and resumed:
//   npx tsx scripts/faults-resumed-leader.ts [--runs 3] [--locks 50] [--ttl 10] [--pause 12] [--first leader|follower]
// Each run holds the locks with this client, and then with Go's clientv3, each time on new servers. ETCD_VERSION chooses
// them. `--first` says at which member the clients are when the leader is paused.

const USAGE =
  'npx tsx scripts/faults-resumed-leader.ts [--runs N] [--locks N] [--ttl S] [--pause S] [--first leader|follower]\n';
const GO_SOURCE = fileURLToPath(new URL('../test/support/faults/go', import.meta.url));
/** Within which a resumed leader revokes: etcd gives up its first requests after 7 s, and makes the others then. */
const AFTERWARDS_MS = 12_000;
/** From the last lock to the pause, in which each lease is renewed at least once. */
const BEFORE_MS = 4_000;

interface Settings {
  readonly runs: number;
  readonly locks: number;
  readonly ttl: number;
  readonly pauseMs: number;
  readonly first: string;
}

/** One keepalive response, or the loss of a session, as the holder sees it. */
interface Told {
  readonly type: 'ack' | 'lost' | 'held';
  readonly unixMs: number;
  /** In hexadecimal, as in the key of a lock. */
  readonly lease?: string;
  readonly ttl?: number;
  readonly member?: string;
  readonly term?: number;
}

interface Holder extends AsyncDisposable {
  /** Grows as the holder goes on. */
  readonly told: readonly Told[];
}

type OpenHolder = (endpoints: readonly string[], name: string, settings: Settings) => Promise<Holder>;

const settings = readSettings();
const go = await goProgram(GO_SOURCE);
if ('missing' in go) process.stderr.write(`without Go's clientv3: ${go.missing}\n`);
const holders: (readonly [string, OpenHolder])[] = [['etcdwire', holdWithOurs]];
if ('path' in go) holders.push(["Go's clientv3", (...args) => holdWithGo(go.path, ...args)]);
const HEADS = [
  ...['servers', 'client', 'keys deleted', 'after SIGCONT', 'renewals acknowledged meanwhile, by the new leader'],
  ...[
    'of deleted ones, last before',
    'by the paused leader, after SIGCONT',
    'holder told after deletion, median (longest)',
  ],
];
process.stdout.write(`| ${HEADS.join(' | ')} |\n| ${HEADS.map(() => '---').join(' | ')} |\n`);
for (let run = 0; run < settings.runs; run += 1) {
  for (const [client, open] of holders) process.stdout.write(`${await measure(client, open, settings)}\n`);
}

async function measure(client: string, open: OpenHolder, { locks, pauseMs, ...rest }: Settings): Promise<string> {
  const etcd = await startEtcd({ members: 3 });
  const cluster = etcd.cluster;
  if (cluster === undefined) throw new Error('the servers are not processes of ours: there is none to be paused');
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
    const acks = holder.told.filter(({ type, ttl = 0 }) => type === 'ack' && ttl > 0);
    const newAcks = acks.filter(({ unixMs, member }) => member !== leaderId && unixMs > pausedAt && unixMs < resumedAt);
    const newTerm = Math.max(...newAcks.map(({ term = 0 }) => term));
    const staleAcks = acks.filter(({ unixMs, term = 0 }) => unixMs >= resumedAt && term < newTerm);
    const sinceAck: number[] = [];
    const toldAfter: number[] = [];
    for (const [lease, deletedAt] of deletions) {
      const before = acks.filter((ack) => ack.lease === lease && ack.unixMs <= deletedAt).map(({ unixMs }) => unixMs);
      sinceAck.push(deletedAt - Math.max(...before));
      const lost = holder.told.find((each) => each.type === 'lost' && each.lease === lease);
      toldAfter.push(lost === undefined ? Number.POSITIVE_INFINITY : Math.max(0, lost.unixMs - deletedAt));
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
      toldAfter.length === 0 ? '' : `${median(toldAfter)} ms (${Math.max(...toldAfter)} ms)`,
    ];
    return `| ${cells.join(' | ')} |`;
  } finally {
    await etcd.stop();
  }
}

/** When the key of each lock was deleted, by its lease, as another member tells. */
async function deletionsOf(client: Client, name: string): Promise<ReadonlyMap<string, number>> {
  const deletions = new Map<string, number>();
  const watch = client.watch(prefix(name));
  await watch.created();
  const watching = async (): Promise<void> => {
    for await (const { type, kv } of watch)
      if (type === 'delete') deletions.set(kv.keyText().split('/').at(-1) ?? '', Date.now());
  };
  watching().catch(() => {});
  return deletions;
}

async function holdWithOurs(endpoints: readonly string[], name: string, { locks, ttl }: Settings): Promise<Holder> {
  const told: Told[] = [];
  const client = new Client({ endpoints: [...endpoints], interceptors: [tellingAcks(told)] });
  for (let index = 0; index < locks; index += 1) {
    const session = await Session.open(client, { ttl });
    const held = await new Mutex(session, `${name}${index}`).lock();
    const lease = session.leaseId.toString(16);
    held.signal.addEventListener('abort', () => told.push({ type: 'lost', unixMs: Date.now(), lease }));
  }
  return { told, [Symbol.asyncDispose]: () => client.close() };
}

function tellingAcks(told: Told[]): Interceptor {
  const tell = ({ header, id, ttl }: LeaseKeepAliveResponse): void => {
    const [member, term] = [header?.memberId.toString(16) ?? '', Number(header?.raftTerm)];
    told.push({ type: 'ack', unixMs: Date.now(), lease: id.toString(16), ttl: Number(ttl), member, term });
  };
  return {
    stream: (call, handler, next) => {
      if (!call.method.path.endsWith('/LeaseKeepAlive')) return next(call, handler);
      return next(call, {
        message: (message) => {
          tell(message as LeaseKeepAliveResponse);
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
  const told: Told[] = [];
  const held = new Promise<void>((resolve, reject) => {
    child.once('exit', () => reject(new Error('the Go program ended')));
    createInterface({ input: child.stdout as Readable }).on('line', (line) => {
      const each = JSON.parse(line) as Told;
      told.push(each);
      if (each.type === 'held') resolve();
    });
  });
  await held;
  return {
    told,
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
    },
  };
}

async function idOf(member: EtcdMember): Promise<string | undefined> {
  await using client = new Client({ endpoints: [member.endpoint] });
  return (await client.raw.maintenance.status({})).header?.memberId.toString(16);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
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
      },
    });
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
