import { bytesInUse } from '../../test/support/measure.js';

/** The state of a process between two episodes of a soak test. */
export interface ProcessSample {
  /** Size in MiB, after garbage collection, of the JavaScript heap and of external memory, such as buffers. */
  readonly heapMiB: number;
  /** Number of open handles, such as sockets and timers. */
  readonly handles: number;
}

export interface SoakSample extends ProcessSample {
  /** Minutes since the start of the soak test. */
  readonly minute: number;
  /** Number of watch events that have been compared with etcd's history so far. */
  readonly events: number;
}

/** Milliseconds to wait before a measurement, because Node.js frees handles a moment after they are closed. */
const SETTLE_MS = 200;
const MEBIBYTE = 1024 * 1024;

export async function takeSample(): Promise<ProcessSample> {
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  return { heapMiB: bytesInUse() / MEBIBYTE, handles: openHandles().length };
}

/** Returns the kinds of the sockets, timers and other resources that keep the process alive. */
export function openHandles(): readonly string[] {
  // Pipes and terminals belong to the process itself rather than to the clients.
  return process.getActiveResourcesInfo().filter((kind) => kind !== 'PipeWrap' && kind !== 'TTYWrap');
}

/**
 * Number of samples to ignore at the start, because the first episodes also allocate memory that is allocated only
 * once, such as bytecode.
 */
const WARM_UP_SAMPLES = 5;
/**
 * Minimum number of samples from which the growth of the heap can be computed reliably. A run of five minutes takes
 * more samples than this.
 */
const MIN_SAMPLES = 10;
/**
 * Too few samples are a problem only if the run lasts at least this many minutes. A shorter run may end before it has
 * enough samples.
 */
const MIN_JUDGED_MINUTES = 5;

interface HeapJudgement {
  readonly problems: readonly string[];
  readonly text: string;
  /** Undefined if there are too few samples. */
  readonly slopeMiBPerMinute?: number;
  readonly standardError?: number;
}

/**
 * Computes how fast the heap grows, as the slope of a line through the samples. Reports a problem if the slope exceeds
 * twice its standard error, or if a run of at least `MIN_JUDGED_MINUTES` has too few samples.
 */
export function judgeHeap(samples: readonly SoakSample[], minutes: number): HeapJudgement {
  const judged = samples.slice(WARM_UP_SAMPLES);
  if (judged.length < MIN_SAMPLES) {
    const text =
      `heap: not judged, because ${MIN_SAMPLES} samples after the first ${WARM_UP_SAMPLES} are needed ` +
      `and there are ${judged.length}`;
    return { problems: minutes < MIN_JUDGED_MINUTES ? [] : [text], text };
  }
  const { perUnit, standardError } = slopeOf(judged.map(({ minute, heapMiB }) => [minute, heapMiB]));
  const text =
    `heap: grows by ${(perUnit * 1_024).toFixed(1)} KiB per minute, ` +
    `with a standard error of ${(standardError * 1_024).toFixed(1)}`;
  const problems = perUnit <= 2 * standardError ? [] : ['the heap grows'];
  return { problems, text, slopeMiBPerMinute: perUnit, standardError };
}

/** Fits a line through the points by least squares. Returns its slope and the standard error of the slope. */
function slopeOf(points: readonly (readonly [number, number])[]): {
  readonly perUnit: number;
  readonly standardError: number;
} {
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanX, meanY] = [mean(points.map(([x]) => x)), mean(points.map(([, y]) => y))];
  const spread = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
  const perUnit = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0) / spread;
  const residuals = points.reduce((sum, [x, y]) => sum + (y - meanY - perUnit * (x - meanX)) ** 2, 0);
  return { perUnit, standardError: Math.sqrt(residuals / Math.max(1, points.length - 2) / spread) };
}
