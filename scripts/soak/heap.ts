import type { SoakSample } from './plot.js';
import { slopeOf } from './slope.js';

/** What is made once, such as bytecode, is made in the first episodes. */
const WARM_UP = 5;
/** So many in a run of five minutes, and more: fewer tell nothing of a slope. */
const MIN_SAMPLES = 10;
const JUDGED_FROM_MINUTES = 5;

interface HeapJudgement {
  readonly problems: readonly string[];
  readonly text: string;
  /** Undefined where there are too few samples. */
  readonly slopeMiBPerMinute?: number;
  readonly standardError?: number;
}

/** Whether the heap grows by more than chance explains. A run of a few minutes does not tell, and need not. */
export function judgeHeap(samples: readonly SoakSample[], minutes: number): HeapJudgement {
  const judged = samples.slice(WARM_UP);
  if (judged.length < MIN_SAMPLES) {
    const text = `heap: not judged, ${judged.length} samples after the first ${WARM_UP} where ${MIN_SAMPLES} are needed`;
    return { problems: minutes < JUDGED_FROM_MINUTES ? [] : [text], text };
  }
  const { perUnit, standardError } = slopeOf(judged.map(({ minute, heapMiB }) => [minute, heapMiB]));
  const text = `heap: ${(perUnit * 1_024).toFixed(1)} KiB a minute, standard error ${(standardError * 1_024).toFixed(1)}`;
  const problems = perUnit <= 2 * standardError ? [] : ['the heap grows'];
  return { problems, text, slopeMiBPerMinute: perUnit, standardError };
}
