import { randomBytes } from 'node:crypto';
import type { methods } from '../../src/gen/methods.js';
import { type Client, type ClientOptions, EtcdError } from '../../src/index.js';
import type { EtcdCluster } from '../../src/testing/index.js';

/** The cluster that the exercises run against, and clients of that cluster. */
export interface Context {
  /** A client that is connected only to the first member, so that each response reflects the calls before it. */
  readonly etcd: Client;
  /** The endpoints of all members. */
  readonly endpoints: readonly string[];
  /** The etcd version of the members, as "major.minor.patch". */
  readonly version: string;
  /** The cluster that the tests started. Undefined when the tests did not start the members. */
  readonly cluster: EtcdCluster | undefined;
  /** Opens a client with these options. The client is closed at the end of the run. */
  readonly open: (options: Partial<ClientOptions>) => Client;
}

/**
 * A check that calls one RPC and checks its result. Restores the state of the cluster, except for keys and revisions.
 */
export interface Exercise {
  /** The first version of etcd that has the RPC, "major.minor". */
  readonly since: string;
  readonly run: (context: Context) => Promise<void>;
}

type Service = keyof typeof methods;
/** One exercise for each RPC of a service. A missing exercise is a type error. */
export type ExercisesOf<S extends Service> = { readonly [Rpc in keyof (typeof methods)[S]]: Exercise };
export type Exercises = { readonly [S in Service]: ExercisesOf<S> };

/** The result of an exercise: the RPC works, or the server is too old and the client rejects with Unimplemented. */
export type Verdict = 'ok' | 'Unimplemented';

export function expectedVerdict({ since }: Exercise, version: string): Verdict {
  return isAtLeast(version, since) ? 'ok' : 'Unimplemented';
}

/**
 * Runs the exercise and returns its result.
 * @throws Error when the RPC fails on a server that should have it, or works on a server that should not have it.
 */
export async function perform(exercise: Exercise, context: Context): Promise<Verdict> {
  if (expectedVerdict(exercise, context.version) === 'ok') {
    await exercise.run(context);
    return 'ok';
  }
  try {
    await exercise.run(context);
  } catch (error) {
    if (error instanceof EtcdError && error.code === 'Unimplemented' && error.outcome === 'rejected')
      return 'Unimplemented';
    throw error;
  }
  throw new Error(`etcd ${context.version} has this RPC, but the exercise expects it only since ${exercise.since}`);
}

function isAtLeast(version: string, since: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [sinceMajor = 0, sinceMinor = 0] = since.split('.').map(Number);
  return major > sinceMajor || (major === sinceMajor && minor >= sinceMinor);
}

const EVENTUALLY_TIMEOUT_MS = 20_000;
const POLL_MS = 50;

/**
 * Repeats the action until it succeeds. Throws the last error of the action after the time limit, and throws an
 * Unimplemented error immediately.
 */
export async function eventually<T>(action: () => T | Promise<T>): Promise<T> {
  const deadline = performance.now() + EVENTUALLY_TIMEOUT_MS;
  for (;;) {
    try {
      return await action();
    } catch (error) {
      const hopeless = error instanceof EtcdError && error.code === 'Unimplemented';
      if (hopeless || performance.now() > deadline) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

export function freshName(what = 'k'): string {
  return `matrix-${what}-${randomBytes(6).toString('hex')}`;
}

export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
