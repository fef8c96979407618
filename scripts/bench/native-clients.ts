import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { withProgress } from '../../src/testing/etcd/programs.js';
import { goProgram } from '../../test/support/go-program.js';
import { rustProgram } from '../../test/support/rust-program.js';
import type { CatchUp } from './child/catch-up.js';
import type { HandOffs } from './child/hand-offs.js';
import { CALLED_KEYS, calledPrefix, type KeyWork } from './child/tasks.js';
import type { Sample } from './metrics.js';
import type { Bench } from './processes.js';
import type { Workload } from './workload.js';

// The clients in other languages. Each measurement runs in a new process.

export const GO = "Go's client";
const RUST = "Rust's client";
/** The clients whose gets, puts and transactions are measured, by the names that the report shows. */
export const NATIVE_CLIENTS = [GO, RUST] as const;
export type NativeClient = (typeof NATIVE_CLIENTS)[number];

export const GO_MUTEX = "Go's concurrency.Mutex";
const GO_FROM_NOW = "Go, with etcdwire's wait";
/** The ways in which Go's client waits for a lock, by the names that the report shows. */
export const GO_WAYS = [GO_MUTEX, GO_FROM_NOW] as const;
export type GoWay = (typeof GO_WAYS)[number];
const WAY_ARGUMENTS: Readonly<Record<GoWay, string>> = { [GO_MUTEX]: 'mutex', [GO_FROM_NOW]: 'from-now' };

export function isNativeClient(competitor: string): competitor is NativeClient {
  return (NATIVE_CLIENTS as readonly string[]).includes(competitor);
}

export function isGoWay(competitor: string): competitor is GoWay {
  return competitor in WAY_ARGUMENTS;
}

type Builder = () => ReturnType<typeof goProgram>;

const buildGo: Builder = () => goProgram(fileURLToPath(new URL('go', import.meta.url)));
const buildRust: Builder = () => rustProgram(fileURLToPath(new URL('rust', import.meta.url)));

/** Returns the function that builds the program of a competitor. Undefined if the competitor runs in Node.js. */
function builderOf(competitor: string): Builder | undefined {
  if (competitor === RUST) return buildRust;
  return competitor === GO || isGoWay(competitor) ? buildGo : undefined;
}

/**
 * Builds the programs of all competitors. Resolves with the workloads without the competitors whose program cannot be
 * built, for example because a toolchain is missing, and with one sentence for each reason.
 */
export async function withBuiltPrograms(
  workloads: readonly Workload[],
): Promise<{ readonly workloads: readonly Workload[]; readonly leftOut: readonly string[] }> {
  const missing = new Map<string, string>();
  for (const competitor of new Set(workloads.flatMap(({ competitors }) => competitors))) {
    const build = builderOf(competitor);
    if (build === undefined) continue;
    const built = await withProgress(`${competitor}: building`, build());
    if ('missing' in built) missing.set(competitor, built.missing);
  }
  const leftOut = [...new Set(missing.values())].map((reason) => {
    const names = [...missing].filter(([, each]) => each === reason).map(([name]) => `"${name}"`);
    return `The rows of ${names.join(', ')} are missing: ${reason}.`;
  });
  return {
    workloads: workloads.map((workload) => ({
      ...workload,
      competitors: workload.competitors.filter((competitor) => !missing.has(competitor)),
    })),
    leftOut,
  };
}

/** When contenders stop: after this time in seconds, or after each contender has taken the lock this many times. */
export type LockLimit = { readonly seconds: number } | { readonly locks: number };

/** Lets contenders of one process of Go's client take and release the lock `name`. */
export async function measureGoLocks(
  endpoint: string,
  way: GoWay,
  { name, contenders }: Pick<HandOffs, 'name' | 'contenders'>,
  limit: LockLimit,
): Promise<Sample> {
  const limitText = 'locks' in limit ? `${limit.locks}x` : `${limit.seconds}s`;
  return run(buildGo, endpoint, name, WAY_ARGUMENTS[way], String(contenders), limitText);
}

/** Measures with Go's client what `measureCatchUp` measures with etcdwire. */
export async function measureGoCatchUp(endpoint: string, { prefix, first, last }: CatchUp): Promise<Sample> {
  return run(buildGo, endpoint, prefix, 'catch-up', String(first), String(last));
}

/** Makes calls for the warm-up time of the settings, and then measures calls for the time of the settings. */
export async function measureNativeCalls(
  { endpoint, caFile, settings: { warmUpSeconds, seconds } }: Bench,
  client: NativeClient,
  { kind, valueBytes }: KeyWork,
  inFlight: number,
): Promise<Sample> {
  const numbers = [valueBytes, inFlight, warmUpSeconds, seconds].map(String);
  const calls = [String(CALLED_KEYS), kind, ...numbers, ...(caFile === undefined ? [] : [caFile])];
  const prefix = calledPrefix(valueBytes);
  if (client === RUST) return run(buildRust, endpoint, prefix, ...calls);
  return run(buildGo, endpoint, prefix, 'calls', ...calls);
}

/** The maximum time in milliseconds of a measurement. Watches that are far behind take the longest time. */
const TIMEOUT_MS = 300_000;

async function run(build: Builder, ...args: readonly string[]): Promise<Sample> {
  const built = await build();
  if ('missing' in built) throw new Error(built.missing);
  const { stdout } = await promisify(execFile)(built.path, args, { timeout: TIMEOUT_MS });
  return JSON.parse(stdout) as Sample;
}
