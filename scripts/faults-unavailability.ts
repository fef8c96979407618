import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface, type Interface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Mutex, Session } from '../src/concurrency/index.js';
import { Client, hedgedReads } from '../src/index.js';
import type { EtcdCluster } from '../src/testing/index.js';
import { moveLeader, pauseLeader, replaceMember, restartEach } from '../test/support/faults/cluster-faults.js';
import { ignoringEtcdErrors } from '../test/support/faults/recovery.js';
import { goProgram } from '../test/support/go-program.js';
import { startEtcd } from './etcd.js';

// Measures how long changes and failures in a cluster of three members interrupt puts, gets and locks, with this client
// and with Go's clientv3 at the same time. Each kind of call is made again and again, with a time limit of 5 s for each
// call. The result for each kind is the maximum time between two successful calls.

const USAGE =
  'npx tsx scripts/faults-unavailability.ts [--rounds N] [--only REGEX]\n' +
  "The columns of Go's clientv3 need a Go toolchain. ETCD_VERSION=3.4|3.5|3.6|3.7 chooses the version of etcd.\n";
const GO_SOURCE = fileURLToPath(new URL('../test/support/faults/go', import.meta.url));
const CALL_TIMEOUT_MS = 5_000;
/** The pause between two calls of a kind. */
const PAUSE_MS = 5;
/** TTL of the sessions that hold the locks, in seconds. */
const TTL = 3;
/** How long a member is paused. This is longer than the TTL, so leases could expire in this time. */
const PAUSED_MS = 5_000;
const SYNC_INTERVAL_MS = 500;
/** The time between the start of the calls and the fault. */
const CALM_MS = 2_000;
/**
 * The time after each fault. It is long enough for a call without a response to time out and for the next call to
 * succeed.
 */
const AFTERWARDS_MS = CALL_TIMEOUT_MS + 2_000;
/** The kinds of calls of each client. A hedged get is a get of a client with `hedgedReads`. */
const KINDS = { ours: ['put', 'get', 'hedged get', 'lock'], theirs: ['put', 'get', 'lock'] } as const;

type Kind = (typeof KINDS)['ours'][number];
/** For each kind of call, the maximum time between two successful calls, in milliseconds. */
type Gaps = Readonly<Partial<Record<Kind, number>>>;

interface Load extends AsyncDisposable {
  reset(): Promise<void>;
  report(): Promise<Gaps>;
}

const FAULTS: readonly (readonly [string, (cluster: EtcdCluster) => Promise<unknown>])[] = [
  ['members restarted one by one', restartEach],
  ['leader moved three times', moveLeader],
  ['a member added, and the leader removed', (cluster) => replaceMember(cluster, 'leader')],
  ['a member added, and a follower removed', (cluster) => replaceMember(cluster, 'follower')],
  [`leader paused for ${PAUSED_MS / 1_000} s`, (cluster) => pauseLeader(cluster, PAUSED_MS)],
  [`follower paused for ${PAUSED_MS / 1_000} s`, pauseFollower],
];

const { rounds, only } = readArguments();
const go = await goProgram(GO_SOURCE);
let servers = '';

/** Starts new servers and causes one fault while both clients make calls. Resolves with the gaps of both clients. */
async function measure(
  makeFault: (cluster: EtcdCluster) => Promise<unknown>,
): Promise<{ readonly ours: Gaps; readonly theirs: Gaps | undefined }> {
  const { cluster, version, close } = await startEtcd({ members: 3 });
  if (cluster === undefined) throw new Error('this measurement needs members that it can start as processes');
  servers = `etcd ${version}`;
  try {
    const endpoints = await followersFirst(cluster);
    await using ours = new EtcdwireLoad(endpoints);
    await using theirs = 'path' in go ? new GoLoad(go.path, endpoints) : undefined;
    await pause(CALM_MS);
    await Promise.all([ours.reset(), theirs?.reset()]);
    await makeFault(cluster);
    await pause(AFTERWARDS_MS);
    return { ours: await ours.report(), theirs: await theirs?.report() };
  } finally {
    await close();
  }
}

/** Returns the endpoints of the cluster, those of the followers first. */
async function followersFirst(cluster: EtcdCluster): Promise<readonly string[]> {
  const leader = await cluster.leader();
  return cluster.members
    .toSorted((a, b) => Number(a === leader) - Number(b === leader))
    .map(({ endpoint }) => endpoint);
}

/** Suspends the process of the follower that the clients use first. */
async function pauseFollower(cluster: EtcdCluster): Promise<void> {
  const [first] = await followersFirst(cluster);
  const follower = cluster.members.find(({ endpoint }) => endpoint === first);
  follower?.pause();
  await pause(PAUSED_MS);
  follower?.resume();
}

class EtcdwireLoad implements Load {
  readonly #client: Client;
  readonly #hedging: Client;
  readonly #over = new AbortController();
  readonly #last: Record<Kind, number> = { put: 0, get: 0, 'hedged get': 0, lock: 0 };
  readonly #most: Record<Kind, number> = { put: 0, get: 0, 'hedged get': 0, lock: 0 };
  readonly #loops: Promise<unknown>;

  constructor(endpoints: readonly string[]) {
    const options = {
      endpoints,
      balance: 'in-order',
      autoSyncIntervalMs: SYNC_INTERVAL_MS,
      timeoutMs: CALL_TIMEOUT_MS,
    } as const;
    this.#client = new Client(options);
    const hedging: Client = new Client({
      ...options,
      interceptors: [hedgedReads({ endpoints: () => hedging.endpoints })],
    });
    this.#hedging = hedging;
    this.#loops = Promise.all([
      this.#repeat('put', () => this.#client.put('ours/put', 'x')),
      this.#repeat('get', () => this.#client.get('ours/get')),
      this.#repeat('hedged get', () => this.#hedging.get('ours/get')),
      this.#repeatLock(),
    ]);
    this.#loops.catch(() => {});
  }

  async reset(): Promise<void> {
    for (const kind of KINDS.ours) {
      this.#last[kind] = performance.now();
      this.#most[kind] = 0;
    }
  }

  /** Resolves with the gaps since `reset`. They include the time since the last success. */
  async report(): Promise<Gaps> {
    const most = (kind: Kind): number => Math.max(this.#most[kind], performance.now() - this.#last[kind]);
    return { put: most('put'), get: most('get'), 'hedged get': most('hedged get'), lock: most('lock') };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await Promise.all([this.#client.close(), this.#hedging.close()]);
    await this.#loops;
  }

  #succeeded(kind: Kind): void {
    const now = performance.now();
    this.#most[kind] = Math.max(this.#most[kind], now - this.#last[kind]);
    this.#last[kind] = now;
  }

  async #repeat(kind: Kind, call: () => Promise<unknown>): Promise<void> {
    while (!this.#over.signal.aborted) {
      await ignoringEtcdErrors(async () => {
        await call();
        this.#succeeded(kind);
      });
      await pause(PAUSE_MS);
    }
  }

  async #repeatLock(): Promise<void> {
    while (!this.#over.signal.aborted) {
      await ignoringEtcdErrors(async () => {
        await using session = await Session.open(this.#client, { ttl: TTL });
        const mutex = new Mutex(session, 'ours/lock');
        while (!session.signal.aborted && !this.#over.signal.aborted) {
          await ignoringEtcdErrors(async () => {
            const held = await mutex.lock({ maxWaitMs: CALL_TIMEOUT_MS });
            this.#succeeded('lock');
            await held.release();
          });
          await pause(PAUSE_MS);
        }
      });
    }
  }
}

/** Makes the calls with Go's clientv3, in a process of the program in test/support/faults/go. */
class GoLoad implements Load {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(program: string, endpoints: readonly string[]) {
    const hosts = endpoints.map((endpoint) => new URL(endpoint).host).join(',');
    this.#child = spawn(program, ['load', hosts, 'theirs/', `${TTL}`], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines: Interface = createInterface({ input: this.#child.stdout as Readable });
    this.#lines = lines[Symbol.asyncIterator]();
  }

  async reset(): Promise<void> {
    this.#child.stdin?.write('reset\n');
  }

  async report(): Promise<Gaps> {
    this.#child.stdin?.write('report\n');
    const { value, done } = await this.#lines.next();
    if (done) throw new Error('the Go program ended before it wrote its report');
    return JSON.parse(value) as Gaps;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
  }
}

function cells(whose: keyof typeof KINDS, all: readonly Gaps[]): string[] {
  if (all.length === 0) return KINDS[whose].map(() => 'no Go toolchain');
  return KINDS[whose].map((kind) => {
    const values = all.map((gaps) => gaps[kind] ?? Number.NaN).sort((a, b) => a - b);
    return `${seconds(values[Math.floor(values.length / 2)])} (${seconds(values.at(-1))})`;
  });
}

function text(whose: keyof typeof KINDS, all: readonly Gaps[]): string {
  return cells(whose, all)
    .map((cell, index) => `${KINDS[whose][index]} ${cell}`)
    .join(', ');
}

function seconds(ms = Number.NaN): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

function readArguments(): { readonly rounds: number; readonly only: RegExp } {
  try {
    const { values } = parseArgs({
      options: {
        rounds: { type: 'string', default: '5' },
        only: { type: 'string', default: '' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      process.stdout.write(USAGE);
      process.exit(0);
    }
    if (!/^[1-9]\d*$/.test(values.rounds))
      throw new Error(`--rounds: got "${values.rounds}"; allowed: whole numbers above 0`);
    return { rounds: Number(values.rounds), only: new RegExp(values.only) };
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    process.exit(2);
  }
}

async function main(): Promise<void> {
  const measured = new Map<string, { ours: Gaps[]; theirs: Gaps[] }>();
  for (let round = 0; round < rounds; round += 1) {
    for (const [what, makeFault] of FAULTS.filter(([name]) => only.test(name))) {
      const found = measured.get(what) ?? { ours: [], theirs: [] };
      measured.set(what, found);
      const { ours, theirs } = await measure(makeFault);
      found.ours.push(ours);
      if (theirs !== undefined) found.theirs.push(theirs);
      process.stderr.write(
        `round ${round + 1}: ${what}: ${text('ours', [ours])}, Go's clientv3: ${text('theirs', theirs ? [theirs] : [])}\n`,
      );
    }
  }
  const heads = [
    servers,
    ...KINDS.ours.map((kind) => `${kind}, etcdwire`),
    ...KINDS.theirs.map((kind) => `${kind}, Go's clientv3`),
  ];
  process.stdout.write(`| ${heads.join(' | ')} |\n| ${heads.map(() => '---').join(' | ')} |\n`);
  for (const [what, { ours, theirs }] of measured)
    process.stdout.write(`| ${[what, ...cells('ours', ours), ...cells('theirs', theirs)].join(' | ')} |\n`);
}

await main();
