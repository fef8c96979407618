import { createHistogram } from 'node:perf_hooks';
import { sharedClockMs } from '../../shared-clock.js';
import type { BenchClient } from '../clients/bench-client.js';
import { inTurn } from '../in-turn.js';
import type { Sample } from '../metrics.js';
import type { CatchUp } from './catch-up.js';
import type { Expiring } from './expiring.js';
import type { HandOffs } from './hand-offs.js';
import type { Jobs } from './jobs.js';
import type { Scaling } from './scaling.js';

/** Calls that read or write one key with a value of this size. */
export interface KeyWork {
  readonly kind: 'get' | 'put' | 'txn';
  readonly valueBytes: number;
}

/** The kind of call that a task repeats. */
export type Work =
  | KeyWork
  | { readonly kind: 'scan'; readonly prefix: string; readonly keys: number }
  | { readonly kind: 'catch-up'; readonly prefix: string; readonly startRevision: bigint; readonly events: number }
  | { readonly kind: 'lease' | 'lock' | 'lock transactions' };

/** A message from the parent to the process that runs a client. */
export type Task =
  | { readonly kind: 'calls'; readonly work: Work; readonly limits: Limits }
  /** Opens one watcher for all keys with the prefix, or several watchers for one key each. */
  | { readonly kind: 'open-watchers'; readonly prefix: string; readonly watchers: number }
  | { readonly kind: 'close-watchers' }
  /** Starts to measure the events that the watchers receive. */
  | { readonly kind: 'expect-events'; readonly events: number }
  /** Ends once the watchers have received all expected events. */
  | { readonly kind: 'await-events' }
  /** Writes keys, so that watchers in another process receive events. */
  | { readonly kind: 'write-events'; readonly prefix: string; readonly events: number; readonly keys: number }
  | { readonly kind: 'footprint' }
  | { readonly kind: 'hand-offs'; readonly handOffs: HandOffs }
  | { readonly kind: 'catch-up'; readonly catchUp: CatchUp }
  | { readonly kind: 'expiring'; readonly expiring: Expiring }
  | { readonly kind: 'jobs'; readonly jobs: Jobs }
  | { readonly kind: 'scaling'; readonly scaling: Scaling };

/** The answer of a client's process to one task. */
export type Answer = { readonly sample: Sample } | { readonly error: string };

/**
 * The number of keys that the calls use in turn. The number is constant, so that the store does not grow with the
 * number of calls.
 */
export const CALLED_KEYS = 128;

/** Returns the prefix of the keys for the calls with values of this size. Each key ends with a number, from 0. */
export function calledPrefix(valueBytes: number): string {
  return `bench/called/${valueBytes}/`;
}

/** Returns the keys for the calls with values of this size. */
export function calledKeys(valueBytes: number): string[] {
  return Array.from({ length: CALLED_KEYS }, (_, index) => `${calledPrefix(valueBytes)}${index}`);
}

const NS_PER_MS = 1e6;
/**
 * The minimum number of recorded latencies for a 99th percentile. With fewer latencies, the percentile would only be
 * the maximum.
 */
const MIN_LAPS_FOR_P99 = 100;

/** Measures the rate, CPU time and latencies of operations. The measurement starts when the object is constructed. */
export class Stopwatch {
  readonly #latencies = createHistogram();
  readonly #startMs = performance.now();
  readonly #startCpu = process.cpuUsage();

  /** Records the duration of one operation. This takes about 30 ns. */
  lap(ms: number): void {
    this.#latencies.record(Math.max(1, Math.round(ms * NS_PER_MS)));
  }

  /** Returns the sample for this number of operations, measured from the start until now. */
  sample(operations: number): Sample {
    const elapsedMs = performance.now() - this.#startMs;
    const { user, system } = process.cpuUsage(this.#startCpu);
    const rates = { rate: (operations / elapsedMs) * 1_000, cpuUs: (user + system) / operations };
    if (this.#latencies.count === 0) return rates;
    const p50Ms = this.#latencies.percentile(50) / NS_PER_MS;
    if (this.#latencies.count < MIN_LAPS_FOR_P99) return { ...rates, p50Ms };
    return { ...rates, p50Ms, p99Ms: this.#latencies.percentile(99) / NS_PER_MS };
  }
}

export interface Calls {
  /** Makes one call. `index` counts from 0. */
  readonly call: (index: number) => Promise<unknown>;
  /**
   * The number of operations that one call counts as. A scan, for example, counts as one operation for each key that it
   * reads.
   */
  readonly operationsPerCall: number;
}

export interface Limits {
  /** Number of concurrent calls. */
  readonly inFlight: number;
  /** Time in seconds after which no new call starts. Default: no limit. */
  readonly seconds?: number | undefined;
  /** Total number of calls. Default: no limit. */
  readonly calls?: number | undefined;
}

/**
 * Keeps `inFlight` calls running until a limit is reached. Each response starts the next call. Resolves with the
 * measured rate, CPU time and latencies.
 */
export async function measureCalls({ call, operationsPerCall }: Calls, limits: Limits): Promise<Sample> {
  const { inFlight, seconds = Number.POSITIVE_INFINITY, calls = Number.POSITIVE_INFINITY } = limits;
  let made = 0;
  const stopwatch = new Stopwatch();
  const deadline = performance.now() + seconds * 1_000;
  const loop = async (): Promise<void> => {
    let startedAt = performance.now();
    while (startedAt < deadline && made < calls) {
      await call(made++);
      const endedAt = performance.now();
      stopwatch.lap(endedAt - startedAt);
      startedAt = endedAt;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, loop));
  return stopwatch.sample(made * operationsPerCall);
}

/** Prepares the calls for one kind of work. Each call checks its own result. */
export async function callsOf(work: Work, client: BenchClient): Promise<Calls> {
  switch (work.kind) {
    case 'get':
    case 'put':
    case 'txn':
      return { call: keyCall(work, client), operationsPerCall: 1 };
    case 'scan': {
      const call = async (): Promise<void> => check(await client.scan(work.prefix), work.keys);
      return { call, operationsPerCall: work.keys };
    }
    case 'catch-up':
      return { call: () => catchUp(work, client), operationsPerCall: work.events };
    case 'lease':
      return { call: await client.lease(), operationsPerCall: 1 };
    case 'lock': {
      const cycle = await client.lock?.(`bench/lock/${process.pid}`);
      if (cycle === undefined) throw new Error('this client has no locks');
      return { call: cycle, operationsPerCall: 1 };
    }
    case 'lock transactions': {
      const cycle = await client.lockTransactions?.(`bench/lock-transactions/${process.pid}`);
      if (cycle === undefined) throw new Error('this client has no locks');
      return { call: cycle, operationsPerCall: 1 };
    }
  }
}

function keyCall({ kind, valueBytes }: KeyWork, client: BenchClient): Calls['call'] {
  const keys = calledKeys(valueBytes);
  const value = Buffer.alloc(valueBytes, 'v');
  const keyAt = (index: number): string => keys[index % keys.length] as string;
  if (kind === 'put') return (index) => client.put(keyAt(index), value);
  if (kind === 'txn') return async (index) => check(await client.txn(keyAt(index), value), true);
  return async (index) => check(await client.get(keyAt(index)), valueBytes);
}

/** Creates a watch that starts at a past revision, and waits for all events up to the present. */
async function catchUp(work: Extract<Work, { kind: 'catch-up' }>, client: BenchClient): Promise<void> {
  const { prefix, startRevision, events } = work;
  let seen = 0;
  let done = (): void => {};
  const all = new Promise<void>((resolve) => {
    done = resolve;
  });
  const onEvent = (): void => {
    seen += 1;
    if (seen === events) done();
  };
  const close = await client.watch({ prefix }, onEvent, startRevision);
  await all;
  await close();
  check(seen, events);
}

function check<T>(got: T, expected: T): void {
  if (got !== expected) throw new Error(`wrong result: got ${got}, expected ${expected}`);
}

/** Length of the watched values in bytes. The first eight bytes hold the time of the put. */
const EVENT_VALUE_BYTES = 100;
const WRITES_IN_FLIGHT = 64;
/** Number of events per measured latency. Only one event in eight is measured, because reading the clock takes time. */
const EVENTS_PER_LAP = 8;

interface Measurement {
  readonly expected: number;
  readonly stopwatch: Stopwatch;
  readonly finish: (sample: Sample) => void;
  seen: number;
}

/** Opens the watchers of one process and measures the rate and latency of their events. */
export class LiveEvents {
  readonly #client: BenchClient;
  #closers: (() => Promise<unknown>)[] = [];
  #measurement: Measurement | undefined;
  #measured: Promise<Sample> | undefined;

  constructor(client: BenchClient) {
    this.#client = client;
  }

  async open(prefix: string, watchers: number): Promise<void> {
    const onEvent = (value: Uint8Array): void => this.#receive(value);
    const ranges =
      watchers === 1
        ? [{ prefix }]
        : Array.from({ length: watchers }, (_, index) => ({ key: watchedKey(prefix, index) }));
    this.#closers = await Promise.all(ranges.map((range) => this.#client.watch(range, onEvent)));
  }

  async close(): Promise<void> {
    await Promise.all(this.#closers.splice(0).map((close) => close()));
  }

  expect(expected: number): void {
    this.#measured = new Promise((finish) => {
      this.#measurement = { expected, stopwatch: new Stopwatch(), finish, seen: 0 };
    });
  }

  /** Resolves once the watchers have received all expected events. */
  measured(): Promise<Sample> {
    return this.#measured ?? Promise.reject(new Error('the task "await-events" came before "expect-events"'));
  }

  #receive(value: Uint8Array): void {
    const measurement = this.#measurement;
    if (measurement === undefined) return;
    if (measurement.seen % EVENTS_PER_LAP === 0) {
      measurement.stopwatch.lap(sharedClockMs() - new DataView(value.buffer, value.byteOffset).getFloat64(0));
    }
    measurement.seen += 1;
    if (measurement.seen === measurement.expected) measurement.finish(measurement.stopwatch.sample(measurement.seen));
  }
}

/** Makes `events` puts, up to `WRITES_IN_FLIGHT` at a time. They write the watched keys in turn. */
export async function writeEvents(client: BenchClient, prefix: string, events: number, keys: number): Promise<void> {
  await inTurn(WRITES_IN_FLIGHT, events, async (index) => {
    const value = Buffer.alloc(EVENT_VALUE_BYTES);
    value.writeDoubleBE(sharedClockMs());
    await client.put(watchedKey(prefix, index % keys), value);
  });
}

function watchedKey(prefix: string, index: number): string {
  return `${prefix}${index}`;
}

const BYTES_PER_KB = 1_000;
/**
 * Number of garbage collections before memory is measured. Each collection may free objects that the previous
 * collection made unreachable.
 */
const COLLECTIONS = 3;

/** Measures the memory of this process after garbage collections. Node.js must run with --expose-gc. */
export async function footprint(): Promise<Sample> {
  for (let pass = 0; pass < COLLECTIONS; pass += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    globalThis.gc?.();
  }
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heapKb: (heapUsed + external) / BYTES_PER_KB, rssKb: rss / BYTES_PER_KB };
}
