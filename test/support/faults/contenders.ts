import { type ChildProcess, fork } from 'node:child_process';
import { expect, onTestFinished } from 'vitest';
import { Client } from '../../../src/index.js';
import { type Claim, checkLock, GuardedResource } from '../../../src/testing/index.js';
import { compiled } from '../compiled.js';
import { whatHappened } from '../truth.js';
import type { FaultyCluster } from './cluster.js';
import type { ContenderMessage, MishapMessage } from './lock-contender.js';
import { pick } from './rounds.js';

const CONTENDERS = 3;
const PROGRAM = compiled(new URL('./lock-contender.ts', import.meta.url));
const MIN_CLAIMS = 10;
/** A bound for hangs. */
const NEXT_TIMEOUT_MS = 60_000;

export type Told<Type extends ContenderMessage['type']> = Extract<ContenderMessage, { readonly type: Type }> & {
  readonly by: ChildProcess;
};

export interface ContendersOptions {
  /** Under which the lock and what it protects lie. */
  readonly name: string;
  /** Seconds. */
  readonly ttl: number;
  readonly environment?: NodeJS.ProcessEnv | undefined;
}

/** Processes that take a lock from each other, and write as its holder to a key and to two resources outside of etcd. */
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
  #over = false;
  /** Reasons for which sessions were lost. */
  readonly lostSessions: string[] = [];

  private constructor(cluster: FaultyCluster, { name, ttl, environment }: ContendersOptions, fromRevision: bigint) {
    this.#cluster = cluster;
    this.#name = name;
    this.#fromRevision = fromRevision;
    this.#children = Array.from({ length: CONTENDERS }, (_, index) => {
      const args = [cluster.endpoints.join(','), this.#lock, this.#guarded, String(ttl)];
      const env = { ...process.env, ...environment };
      const child = fork(PROGRAM, args, { env });
      child.on('message', (message: ContenderMessage) => this.#hear(child, `contender ${index}`, message));
      child.on('exit', (code, signal) => this.#ended(`contender ${index} ended: ${code ?? signal}`));
      return child;
    });
  }

  static async start(cluster: FaultyCluster, options: ContendersOptions): Promise<Contenders> {
    await using etcd = new Client({ endpoints: cluster.endpoints });
    const contenders = new Contenders(cluster, options, (await etcd.range(options.name)).header.revision);
    // Also where the test takes too long: one that is stopped would outlive it.
    onTestFinished(() => contenders[Symbol.dispose]());
    return contenders;
  }

  /** Stale writes that a resource without fencing took. */
  get unfencedViolations(): number {
    return this.#unfenced.violations.length;
  }

  /** Tokens with which a resource with fencing took no write. */
  get refusedTokens(): readonly bigint[] {
    return this.#refused;
  }

  /** The next of such a kind that any of them tells, or such a one of them. */
  next<Type extends ContenderMessage['type']>(
    type: Type,
    isMeant: (told: Told<Type>) => boolean = () => true,
  ): Promise<Told<Type>> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { type, isMeant, resolve, reject, timer: undefined };
      const late = (): void => this.#settle(waiting, () => reject(new Error(`no '${type}' in ${NEXT_TIMEOUT_MS} ms`)));
      waiting.timer = setTimeout(late, NEXT_TIMEOUT_MS);
      this.#waiting.add(waiting);
    });
  }

  /** All of them block their event loop, each when it next holds the lock. */
  block(blockMs: number): void {
    for (const child of this.#children) tell(child, { blockMs });
  }

  /** One of them stops while it holds the lock, until it gets a SIGCONT. */
  stopOne(random: () => number): Promise<Told<'stops'>> {
    tell(pick(this.#children, random), { stop: true });
    return this.next('stops');
  }

  /**
   * Expects that no two of them took themselves for the holder, that the lock was granted in order, and that no stale
   * write was accepted; gives how many writes there were.
   */
  async judge(): Promise<number> {
    while (this.#claims.length < MIN_CLAIMS) await this.next('claim');
    this[Symbol.dispose]();
    expect(this.#died).toEqual([]);
    const { etcdctl, endpoints } = this.#cluster;
    const [prefix, last, fromRevision] = [`${this.#name}/`, `${this.#name}/~last`, this.#fromRevision];
    await using etcd = new Client({ endpoints });
    await etcd.put(last, 'last');
    const truth = await whatHappened({ etcdctl, endpoints, prefix, last, fromRevision });
    const line = truth.filter(({ key }) => key.startsWith(`${this.#lock}/`));
    expect(checkLock(this.#claims, line)).toEqual([]);
    expect(this.#refused).toEqual(
      this.#written.filter((token, at) => this.#written.slice(0, at).some((t) => t > token)),
    );
    const tokens = truth.filter(({ key }) => key === this.#guarded).map(({ value }) => BigInt(value));
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

  #hear(by: ChildProcess, holder: string, message: ContenderMessage): void {
    if (message.type === 'claim') this.#claims.push({ ...message.claim, holder, token: BigInt(message.claim.token) });
    if (message.type === 'session lost') this.lostSessions.push(message.reason);
    if (message.type === 'write') {
      const token = BigInt(message.token);
      this.#written.push(token);
      if (!this.#fenced.write(holder, token)) this.#refused.push(token);
      this.#unfenced.write(holder, token);
    }
    const told = { ...message, by } as never;
    for (const waiting of this.#waiting) {
      if (waiting.type === message.type && waiting.isMeant(told)) this.#settle(waiting, () => waiting.resolve(told));
    }
  }

  #ended(what: string): void {
    if (this.#over) return;
    this.#died.push(what);
    for (const waiting of this.#waiting) this.#settle(waiting, () => waiting.reject(new Error(what)));
  }

  #settle(waiting: Waiting, tell: () => void): void {
    clearTimeout(waiting.timer);
    this.#waiting.delete(waiting);
    tell();
  }
}

interface Waiting {
  readonly type: string;
  readonly isMeant: (told: never) => boolean;
  readonly resolve: (told: never) => void;
  readonly reject: (reason: Error) => void;
  timer: NodeJS.Timeout | undefined;
}

function tell(contender: ChildProcess, message: MishapMessage): void {
  contender.send(message);
}
