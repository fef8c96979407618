import { createHistogram } from 'node:perf_hooks';
import type { Sample } from '../sample.js';

const NS_PER_MS = 1e6;
/** The hundredth part of fewer is nothing. */
const LAPS_FOR_P99 = 100;

/** Runs from when it is made. */
export class Stopwatch {
  readonly #latencies = createHistogram();
  readonly #startMs = performance.now();
  readonly #startCpu = process.cpuUsage();

  /** What one operation took; costs some 30 ns. */
  lap(ms: number): void {
    this.#latencies.record(Math.max(1, Math.round(ms * NS_PER_MS)));
  }

  /** What so many operations took, from the start up to now. */
  sample(operations: number): Sample {
    const elapsedMs = performance.now() - this.#startMs;
    const { user, system } = process.cpuUsage(this.#startCpu);
    const rates = { rate: (operations / elapsedMs) * 1_000, cpuUs: (user + system) / operations };
    if (this.#latencies.count === 0) return rates;
    const p50Ms = this.#latencies.percentile(50) / NS_PER_MS;
    if (this.#latencies.count < LAPS_FOR_P99) return { ...rates, p50Ms };
    return { ...rates, p50Ms, p99Ms: this.#latencies.percentile(99) / NS_PER_MS };
  }
}
