import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EtcdBinary } from './binary.js';
import { withProgress } from './progress.js';

const START_TIMEOUT_MS = 30_000;
const POLL_MS = 50;

/** One member as a child process. */
export class EtcdProcess {
  readonly name: string;
  readonly endpoint: string;
  readonly #program: string;
  readonly #args: readonly string[];
  readonly #logFile: string;
  #child: ChildProcess | undefined;

  constructor(name: string, endpoint: string, program: string, args: readonly string[], logFile: string) {
    this.name = name;
    this.endpoint = endpoint;
    this.#program = program;
    this.#args = args;
    this.#logFile = logFile;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  start(): void {
    const log = openSync(this.#logFile, 'a');
    const child = spawn(this.#program, this.#args, { env: ownEnvironment(), stdio: ['ignore', log, log] });
    this.#child = child;
    const killWithUs = (): void => void child.kill('SIGKILL');
    process.once('exit', killWithUs);
    child.once('exit', () => process.removeListener('exit', killWithUs));
  }

  /** Resolves once the member serves. @throws Error with the end of its log. */
  async ready(): Promise<void> {
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (performance.now() < deadline) {
      if (this.#child?.exitCode !== null) break;
      const health = await fetch(`${this.endpoint}/health`).then(
        (response) => response.text(),
        () => '',
      );
      if (/"health":\s*"true"/.test(health)) return;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    const log = readFileSync(this.#logFile, 'utf8').trim().split('\n').slice(-5).join('\n');
    throw new Error(`etcd ${this.name} did not start:\n${log}`);
  }

  /** Sends a signal; one that ends the process is waited for. */
  async signal(signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    if (signal === 'SIGKILL' || signal === 'SIGTERM') await ended;
  }
}

/** A member as the cluster tells of it. */
interface KnownMember {
  readonly name: string;
  readonly peerUrls: readonly string[];
}

/**
 * Starts one more member of a cluster that runs: `add` makes it known to the cluster by its peer URL, and gives all
 * members as they are then.
 */
export type Join = (add: (peerUrl: string) => Promise<readonly KnownMember[]>) => Promise<EtcdProcess>;

export interface Processes {
  readonly members: readonly EtcdProcess[];
  readonly join: Join;
  /** Ends the members and removes their data. */
  readonly stop: () => Promise<void>;
}

/** A cluster on free ports of the loopback, in a temporary folder. */
export async function startProcesses(
  binary: EtcdBinary,
  count: number,
  extraArgs: readonly string[],
): Promise<Processes> {
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-data-'));
  const all: EtcdProcess[] = [];
  const start = (place: Place, cluster: readonly string[], state: 'new' | 'existing'): EtcdProcess => {
    const initial = [`--initial-cluster=${cluster.join(',')}`, `--initial-cluster-state=${state}`];
    const args = [...memberArgs(place, folder), ...initial, ...extraArgs];
    const { name, client } = place;
    const member = new EtcdProcess(name, client, binary.etcd, args, join(folder, `${name}.log`));
    all.push(member);
    member.start();
    return member;
  };
  const stop = async (): Promise<void> => {
    await Promise.all(all.map((member) => member.signal('SIGKILL')));
    rmSync(folder, { recursive: true, force: true });
  };
  const joinCluster: Join = async (add) => {
    const [place] = (await freePlaces(all.length, 1)) as [Place];
    const known = await add(place.peer);
    const cluster = known.flatMap(({ name, peerUrls }) =>
      peerUrls.map((url) => `${url === place.peer ? place.name : name}=${url}`),
    );
    const member = start(place, cluster, 'existing');
    await withProgress('joining', member.ready());
    return member;
  };
  const places = await freePlaces(0, count);
  const cluster = places.map(({ name, peer }) => `${name}=${peer}`);
  const members = places.map((place) => start(place, cluster, 'new'));
  try {
    await withProgress('starting', Promise.all(members.map((member) => member.ready())));
  } catch (error) {
    await stop();
    throw error;
  }
  return { members, join: joinCluster, stop };
}

/** Name and addresses of a member. */
interface Place {
  readonly name: string;
  readonly client: string;
  readonly peer: string;
}

async function freePlaces(first: number, count: number): Promise<Place[]> {
  const ports = await freePorts(count * 2);
  return Array.from({ length: count }, (_, index) => ({
    name: `m${first + index}`,
    client: `http://127.0.0.1:${ports[index]}`,
    peer: `http://127.0.0.1:${ports[count + index]}`,
  }));
}

function memberArgs({ name, client, peer }: Place, folder: string): string[] {
  return [
    `--name=${name}`,
    `--data-dir=${join(folder, name)}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    '--log-level=warn',
  ];
}

/** etcd takes its flags from ETCD_* too, and those of ours mean something else. */
function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('ETCD_')));
}

/** All held at once, so that no two are the same. */
async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<ReturnType<typeof createServer>>((resolve, reject) => {
          const server = createServer().once('error', reject);
          server.listen(0, '127.0.0.1', () => resolve(server));
        }),
    ),
  );
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
