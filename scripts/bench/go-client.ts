import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { onPath } from '../../src/testing/etcd/programs.js';
import { goProgram } from '../../test/support/go-program.js';
import type { CatchUp } from './child/catch-up.js';
import type { HandOffs } from './child/hand-offs.js';
import type { Sample } from './metrics.js';

export const GO_MUTEX = "Go's concurrency.Mutex";
/** The ways in which Go's client waits for a lock, by the names that the report shows. */
const GO_WAYS = { [GO_MUTEX]: 'mutex', "Go, with etcdwire's wait": 'from-now' } as const;
export type GoWay = keyof typeof GO_WAYS;

export const GO = "Go's client";

/** The ways that can be measured: none without a Go toolchain. */
export function goWays(): GoWay[] {
  return onPath('go') === undefined ? [] : (Object.keys(GO_WAYS) as GoWay[]);
}

export function isGoWay(competitor: string): competitor is GoWay {
  return competitor in GO_WAYS;
}

/** Lets contenders of one process of Go's client take and release the lock `name` for `seconds`. */
export async function measureGo(
  endpoint: string,
  way: GoWay,
  { name, contenders, seconds }: Pick<HandOffs, 'name' | 'contenders' | 'seconds'>,
): Promise<Sample> {
  return runGo(endpoint, name, GO_WAYS[way], String(contenders), String(seconds));
}

/** Measures with Go's client what `measureCatchUp` measures with etcdwire. */
export async function measureGoCatchUp(endpoint: string, { prefix, first, last }: CatchUp): Promise<Sample> {
  return runGo(endpoint, prefix, 'catch-up', String(first), String(last));
}

async function runGo(...args: readonly string[]): Promise<Sample> {
  const built = await goProgram(fileURLToPath(new URL('go', import.meta.url)));
  if ('missing' in built) throw new Error(built.missing);
  const { stdout } = await promisify(execFile)(built.path, args);
  return JSON.parse(stdout) as Sample;
}
