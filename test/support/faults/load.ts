import { setTimeout as pause } from 'node:timers/promises';
import { Client, type ClientOptions, EtcdError, op, prefix, type WithHeader } from '../../../src/index.js';
import {
  checkOrder,
  checkPuts,
  checkRegister,
  checkWatch,
  History,
  type OrderedCall,
  type OrderedResult,
  type PutCall,
  type RegisterCall,
  type RegisterResult,
  type SeenEvent,
  type Violation,
} from '../../../src/testing/index.js';
import { seenEvents, whatHappened } from '../truth.js';
import { watchesExactly } from './cluster.js';
import { branchOf, pick } from './rounds.js';
import { proxiedFrom, type Target } from './target.js';
import { untilPut } from './until-put.js';

const WRITERS = 4;
const WATCHES = 3;
const KEYS = 4;
const MAX_PUTS_PER_TXN = 20;
/** Up to so long between two calls of one writer. */
const PAUSE_MS = 60;
/** So small that a watch is taken off its stream now and then. */
const SMALL_BUFFER_BYTES = 4_096;
const CALL_TIMEOUT_MS = 5_000;
/** Once the faults are over: what has not come by then is lost. */
const LAST_TIMEOUT_MS = 30_000;
/** The search for an order of all calls takes time that is exponential in these. */
const MAX_UNKNOWN = 12;

export interface LoadOptions {
  /** Of the clients. */
  readonly client?: Partial<ClientOptions> | undefined;
  /** Under which all keys are. */
  readonly name: string;
  readonly random: () => number;
}

interface Writer {
  readonly etcd: Client;
  readonly process: string;
  readonly random: () => number;
}

/** What a watch has delivered, as it grows. */
interface Watched {
  readonly batches: readonly (readonly SeenEvent[])[];
  readonly done: Promise<void>;
}

/** What was found, and of how much. */
export interface Judgement {
  readonly violations: readonly Violation[];
  /** Events delivered by watches and compared with the truth. */
  readonly events: number;
  /** Puts that were tried, those of transactions included. */
  readonly puts: number;
  readonly unknown: number;
  readonly succeeded: number;
  /** Keys for which an order of all calls was searched: those with few unknown outcomes. */
  readonly registers: number;
}

/**
 * Writers, readers and watches through the proxies of a cluster, each first at another member, for as long as a round of
 * faults lasts; judged by what etcdctl sees without proxies.
 */
export class Load implements AsyncDisposable {
  readonly #target: Target;
  readonly #options: LoadOptions;
  readonly #prefix: string;
  readonly #last: string;
  readonly #fromRevision: bigint;
  readonly #clients: Client[] = [];
  readonly #watched: readonly Watched[];
  readonly #writers: Promise<unknown>;
  readonly #puts = new History<PutCall, unknown>();
  readonly #ordered = new History<OrderedCall, OrderedResult>();
  readonly #registers = new Map<string, History<RegisterCall, RegisterResult>>();
  /** Under what each writer's last transaction put its keys. */
  readonly #previous = new Map<string, string>();
  #over = false;

  private constructor(target: Target, options: LoadOptions, fromRevision: bigint) {
    this.#target = target;
    this.#options = options;
    this.#prefix = `${options.name}/`;
    this.#last = `${this.#prefix}~last`;
    this.#fromRevision = fromRevision;
    this.#watched = Array.from({ length: WATCHES }, (_, index) => this.#watch(index));
    this.#writers = Promise.all(
      Array.from({ length: WRITERS }, (_, index) => this.#write(index, branchOf(options.random))),
    );
    this.#writers.catch(() => {});
  }

  static async start(target: Target, options: LoadOptions): Promise<Load> {
    await using etcd = new Client({ endpoints: target.endpoints });
    const { header } = await etcd.range(options.name, { timeoutMs: LAST_TIMEOUT_MS });
    return new Load(target, options, header.revision);
  }

  /** Ends the load and compares what was seen with what happened. The cluster has to be healed by then. */
  async judge(): Promise<Judgement> {
    this.#over = true;
    await this.#writers;
    await using etcd = new Client({ endpoints: this.#target.endpoints });
    await untilPut(etcd, this.#last);
    const { etcdctl, endpoints } = this.#target;
    const [prefix, last, fromRevision] = [this.#prefix, this.#last, this.#fromRevision];
    const truth = await whatHappened({ etcdctl, endpoints, prefix, last, fromRevision });
    const puts = this.#puts.operations;
    const violations: Violation[] = [
      ...checkPuts(
        puts,
        truth.slice(0, -1).filter(({ type }) => type === 'put'),
      ),
    ];
    violations.push(...checkOrder(this.#ordered.operations, truth));
    const searched = [...this.#registers.values()].filter(
      ({ operations }) => operations.filter(({ outcome }) => outcome === 'unknown').length <= MAX_UNKNOWN,
    );
    for (const { operations } of searched) violations.push(...checkRegister(operations));
    let events = 0;
    for (const { batches, done } of watchesExactly(this.#target) ? this.#watched : []) {
      await Promise.race([done, pause(LAST_TIMEOUT_MS, undefined, { ref: false })]);
      violations.push(...checkWatch(truth, batches));
      for (const batch of batches) events += batch.length;
    }
    const count = (wanted: string): number => puts.filter(({ outcome }) => outcome === wanted).length;
    const [unknown, succeeded] = [count('unknown'), count('ok')];
    return { violations, events, puts: puts.length, unknown, succeeded, registers: searched.length };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over = true;
    await Promise.all(this.#clients.map((client) => client.close()));
  }

  #open(first: number): Client {
    const client = new Client({ endpoints: proxiedFrom(this.#target, first), ...this.#options.client });
    this.#clients.push(client);
    return client;
  }

  #watch(index: number): Watched {
    const bufferBytes = index === 0 ? SMALL_BUFFER_BYTES : undefined;
    const watch = this.#open(index).watch(prefix(this.#prefix), { startRevision: this.#fromRevision, bufferBytes });
    const batches: SeenEvent[][] = [];
    const taking = async (): Promise<void> => {
      for await (const batch of watch.batches()) {
        const seen = seenEvents(batch);
        batches.push(seen);
        if (seen.some(({ key }) => key === this.#last)) break;
      }
    };
    const done = taking();
    done.catch(() => {});
    return { batches, done };
  }

  /** One call after the other. Errors of etcd's are part of it. */
  async #write(index: number, random: () => number): Promise<void> {
    const process = `w${index}`;
    const writer = { etcd: this.#open(index), process, random };
    for (let call = 0; !this.#over; call += 1) {
      await pause(PAUSE_MS * random());
      const key = `${this.#prefix}r${Math.floor(KEYS * random())}`;
      const value = `${process}.${call}`;
      const act = pick([this.#read, this.#put, this.#putMany], random);
      try {
        await act.call(this, writer, key, value);
      } catch (error) {
        if (!(error instanceof EtcdError)) throw error;
      }
    }
  }

  async #read({ etcd, process }: Writer, key: string): Promise<void> {
    await this.#register(key).record(process, { type: 'read' }, async () => {
      const { value } = await this.#ordered.record(process, { type: 'read', key }, async () => {
        const { header, kvs } = await etcd.range(key, { timeoutMs: CALL_TIMEOUT_MS });
        return { revision: header.revision, value: kvs[0]?.text() };
      });
      return value;
    });
  }

  async #put({ etcd, process }: Writer, key: string, value: string): Promise<void> {
    await this.#register(key).record(process, { type: 'write', value }, async () => {
      await this.#recordPuts(process, [{ key, value }], () => etcd.put(key, value, { timeoutMs: CALL_TIMEOUT_MS }));
      return undefined;
    });
  }

  /** Many keys at one revision, and some of those before deleted in the same. */
  async #putMany({ etcd, process, random }: Writer, _key: string, value: string): Promise<void> {
    const own = `${this.#prefix}${process}`;
    const count = 1 + Math.floor(MAX_PUTS_PER_TXN * random());
    const puts = Array.from({ length: count }, (_, index) => ({ key: `${own}/${value}/${index}`, value }));
    const then = [
      ...(this.#previous.has(own) ? [op.delete(prefix(this.#previous.get(own) as string))] : []),
      ...puts.map((put) => op.put(put.key, put.value)),
    ];
    this.#previous.set(own, `${own}/${value}/`);
    await this.#recordPuts(process, puts, () => etcd.txn({ then }, { timeoutMs: CALL_TIMEOUT_MS }));
  }

  /** Puts that one call makes. */
  async #recordPuts(process: string, puts: readonly PutCall[], act: () => Promise<WithHeader<object>>): Promise<void> {
    const done = this.#ordered.record(process, { type: 'write', ...(puts[0] as PutCall) }, async () => {
      const { header } = await act();
      return { revision: header.revision };
    });
    await Promise.all(puts.map((put) => this.#puts.record(process, put, () => done)));
  }

  #register(key: string): History<RegisterCall, RegisterResult> {
    let register = this.#registers.get(key);
    if (register === undefined) {
      register = new History();
      this.#registers.set(key, register);
    }
    return register;
  }
}
