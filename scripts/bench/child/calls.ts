import type { Sample } from '../sample.js';
import { Stopwatch } from './stopwatch.js';

export interface Calls {
  /** Makes one call; `index` counts from 0. */
  readonly call: (index: number) => Promise<unknown>;
  /** What is counted may come by the thousand in one call. */
  readonly operationsPerCall: number;
}

export interface Limits {
  /** Calls that are under way at any time. */
  readonly inFlight: number;
  /** Default: no limit. */
  readonly seconds?: number | undefined;
  /** Default: no limit. */
  readonly calls?: number | undefined;
}

/** Calls, `inFlight` of them at a time, each as soon as the one before it is answered, until a limit is reached. */
export async function measureCalls({ call, operationsPerCall }: Calls, limits: Limits): Promise<Sample> {
  const { inFlight, seconds = Number.POSITIVE_INFINITY, calls = Number.POSITIVE_INFINITY } = limits;
  let made = 0;
  const stopwatch = new Stopwatch();
  const deadline = performance.now() + seconds * 1_000;
  const loop = async (): Promise<void> => {
    let began = performance.now();
    while (began < deadline && made < calls) {
      await call(made++);
      const ended = performance.now();
      stopwatch.lap(ended - began);
      began = ended;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, loop));
  return stopwatch.sample(made * operationsPerCall);
}
