import { randomBytes } from 'node:crypto';
import type { methods } from '../../src/gen/methods.js';
import { type Client, type ClientOptions, EtcdError } from '../../src/index.js';
import type { EtcdCluster } from '../../src/testing/index.js';

/** A cluster of its own, and what exercises have to do with it. */
export interface Context {
  /** Asks the first member alone, so that an answer reflects what was called before. */
  readonly etcd: Client;
  /** Every member. */
  readonly endpoints: readonly string[];
  /** "major.minor.patch". */
  readonly version: string;
  /** Undefined where the members are not processes of ours. */
  readonly cluster: EtcdCluster | undefined;
  /** A client of other options, closed at the end. */
  readonly open: (options: Partial<ClientOptions>) => Client;
}

/** Calls one RPC and asserts on its result. It leaves the cluster as it was, but for keys and revisions. */
export interface Exercise {
  /** The first version that has the RPC, "major.minor". */
  readonly since: string;
  readonly run: (context: Context) => Promise<void>;
}

type Service = keyof typeof methods;
/** One exercise for each RPC of a service: one that is missing does not compile. */
export type ExercisesOf<S extends Service> = { readonly [Rpc in keyof (typeof methods)[S]]: Exercise };
export type Exercises = { readonly [S in Service]: ExercisesOf<S> };

/** What came of an exercise: the RPC works, or the server is too old for it and the refusal is the typed one. */
export type Verdict = 'ok' | 'Unimplemented';

export function expectedVerdict({ since }: Exercise, version: string): Verdict {
  return isAtLeast(version, since) ? 'ok' : 'Unimplemented';
}

/** @throws Error where the server does other than its version has it. */
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
  throw new Error(`etcd ${context.version} has it, though it is said to have come with ${exercise.since}`);
}

function isAtLeast(version: string, since: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [sinceMajor = 0, sinceMinor = 0] = since.split('.').map(Number);
  return major > sinceMajor || (major === sinceMajor && minor >= sinceMinor);
}

const PATIENCE_MS = 20_000;
const POLL_MS = 50;

/** Repeats what fails while a cluster settles, and throws the last failure when it does not. */
export async function eventually<T>(action: () => T | Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
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
