import { type ChildProcess, fork } from 'node:child_process';
import { expect, onTestFinished } from 'vitest';
import { Client } from '../../src/index.js';
import { type Claim, checkLock, GuardedResource } from '../../src/testing/index.js';
import { compiled } from '../support/compiled.js';
import { historyOf } from '../support/etcdctl.js';
import type { FaultyCluster } from './cluster.js';
import type { ContenderMessage, FaultMessage } from './lock-contender.js';
import { pick } from './rounds.js';

export const CONTENDERS = 3;
const PROGRAM = compiled(new URL('./lock-contender.ts', import.meta.url));
const MIN_CLAIMS = 10;
/** The maximum time to wait for a message, in milliseconds. The limit ends a test that hangs. */
const NEXT_TIMEOUT_MS = 60_000;

/** A message of one type, with the process that sent it. */
export type MessageOf<Type extends ContenderMessage['type']> = Extract<ContenderMessage, { readonly type: Type }> & {
  readonly by: ChildProcess;
};

export interface ContendersOptions {
  /** The prefix of the lock's name and of the key that the lock protects. */
  readonly name: string;
  /** The TTL, in seconds, of each session's lease. */
  readonly ttl: number;
  readonly environment?: NodeJS.ProcessEnv | undefined;
}

/**
 * Processes that contend for one lock. The holder writes to a key in etcd and to two resources outside of etcd. One
 * resource checks fencing tokens, and the other does not.
 */
export class Contenders implements Disposable {
  readonly #cluster: FaultyCluster;
  readonly #name: string;
  readonly #fromRevision: bigint;
  readonly #children: readonly ChildProcess[];
  readonly #claims: Claim[] = [];
  readonly #fenced = new GuardedResource();
  readonly #unfenced = new GuardedResource({ fenced: false });
  readonly #written: bigint[] = [];
  readonly #refused: bigint[] = [];
  readonly #waiting = new Set<Waiting>();
  readonly #died: string[] = [];
  /** The number of the latest fault. A contender's report about a fault contains the number of that fault. */
  #faults = 0;
  #over = false;
  /** The reason for each loss of a session. */
  readonly lostSessions: string[] = [];

  private constructor(cluster: FaultyCluster, { name, ttl, environment }: ContendersOptions, fromRevision: bigint) {
    this.#cluster = cluster;
    this.#name = name;
    this.#fromRevision = fromRevision;
    this.#children = Array.from({ length: CONTENDERS }, (_, index) => {
      const args = [cluster.endpoints.join(','), this.#lock, this.#guarded, String(ttl)];
      const env = { ...process.env, ...environment };
      const child = fork(PROGRAM, args, { env });
      child.on('message', (message: ContenderMessage) => this.#receive(child, `contender ${index}`, message));
      child.on('exit', (code, signal) => this.#ended(`contender ${index} ended: ${code ?? signal}`));
      return child;
    });
  }

  static async start(cluster: FaultyCluster, options: ContendersOptions): Promise<Contenders> {
    await using etcd = new Client({ endpoints: cluster.endpoints });
    const contenders = new Contenders(cluster, options, (await etcd.range(options.name)).header.revision);
    // Ends the processes even if the test times out, because a suspended process would outlive the test.
    onTestFinished(() => contenders[Symbol.dispose]());
    return contenders;
  }

  /** The number of stale writes that the resource without fencing accepted. */
  get unfencedViolations(): number {
    return this.#unfenced.violations.length;
  }

  /** The tokens of the writes that the resource with fencing refused. */
  get refusedTokens(): readonly bigint[] {
    return this.#refused;
  }

  /** Resolves with the next message of a type, from any contender, that `matches` accepts. */
  next<Type extends ContenderMessage['type']>(
    type: Type,
    matches: (message: MessageOf<Type>) => boolean = () => true,
  ): Promise<MessageOf<Type>> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { type, matches, resolve, reject, timer: undefined };
      const late = (): void =>
        this.#settle(waiting, () => reject(new Error(`no contender sent '${type}' within ${NEXT_TIMEOUT_MS} ms`)));
      waiting.timer = setTimeout(late, NEXT_TIMEOUT_MS);
      this.#waiting.add(waiting);
    });
  }

  /**
   * Makes each contender block its event loop for `blockMs` the next time that it holds the lock. Resolves with the
   * first report that a contender's event loop runs again. Ignores late reports about earlier calls to this method.
   */
  block(blockMs: number): Promise<MessageOf<'resumed'>> {
    this.#faults += 1;
    const fault = this.#faults;
    for (const child of this.#children) send(child, { fault, blockMs });
    return this.next('resumed', (message) => message.fault === fault);
  }

  /**
   * Makes one contender suspend its own process (SIGSTOP) the next time that it holds the lock. The process continues
   * on SIGCONT. Resolves immediately before the process is suspended.
   */
  stopOne(random: () => number): Promise<MessageOf<'stopping'>> {
    this.#faults += 1;
    const fault = this.#faults;
    send(pick(this.#children, random), { fault, stop: true });
    return this.next('stopping', (message) => message.fault === fault);
  }

  /**
   * Ends the contenders. Expects that no two contenders held the lock at the same time, that etcd granted the lock in
   * the order of the queue, and that neither etcd nor the resource with fencing accepted a stale write. Resolves with
   * the number of writes.
   */
  async verify(): Promise<number> {
    while (this.#claims.length < MIN_CLAIMS) await this.next('claim');
    this[Symbol.dispose]();
    expect(this.#died).toEqual([]);
    const { etcdctl, endpoints } = this.#cluster;
    const [prefix, last, fromRevision] = [`${this.#name}/`, `${this.#name}/~last`, this.#fromRevision];
    await using etcd = new Client({ endpoints });
    await etcd.put(last, 'last');
    const history = await historyOf({ etcdctl, endpoints, prefix, last, fromRevision });
    const queueEvents = history.filter(({ key }) => key.startsWith(`${this.#lock}/`));
    expect(checkLock(this.#claims, queueEvents)).toEqual([]);
    expect(this.#refused).toEqual(
      this.#written.filter((token, at) => this.#written.slice(0, at).some((t) => t > token)),
    );
    const tokens = history.filter(({ key }) => key === this.#guarded).map(({ value }) => BigInt(value));
    expect(tokens).toEqual(tokens.toSorted((a, b) => Number(a - b)));
    return tokens.length;
  }

  [Symbol.dispose](): void {
    this.#over = true;
    for (const child of this.#children) child.kill('SIGKILL');
  }

  get #lock(): string {
    return `${this.#name}/lock`;
  }

  get #guarded(): string {
    return `${this.#name}/value`;
  }

  #receive(by: ChildProcess, holder: string, message: ContenderMessage): void {
    if (message.type === 'claim') this.#claims.push({ ...message.claim, holder, token: BigInt(message.claim.token) });
    if (message.type === 'session lost') this.lostSessions.push(message.reason);
    if (message.type === 'write') {
      const token = BigInt(message.token);
      this.#written.push(token);
      if (!this.#fenced.write(holder, token)) this.#refused.push(token);
      this.#unfenced.write(holder, token);
    }
    const received = { ...message, by } as never;
    for (const waiting of this.#waiting) {
      if (waiting.type === message.type && waiting.matches(received))
        this.#settle(waiting, () => waiting.resolve(received));
    }
  }

  #ended(problem: string): void {
    if (this.#over) return;
    this.#died.push(problem);
    for (const waiting of this.#waiting) this.#settle(waiting, () => waiting.reject(new Error(problem)));
  }

  #settle(waiting: Waiting, finish: () => void): void {
    clearTimeout(waiting.timer);
    this.#waiting.delete(waiting);
    finish();
  }
}

interface Waiting {
  readonly type: string;
  readonly matches: (message: never) => boolean;
  readonly resolve: (message: never) => void;
  readonly reject: (reason: Error) => void;
  timer: NodeJS.Timeout | undefined;
}

function send(contender: ChildProcess, message: FaultMessage): void {
  contender.send(message);
}
