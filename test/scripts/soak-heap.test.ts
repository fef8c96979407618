import { describe, expect, test } from 'vitest';
import { judgeHeap, type SoakSample } from '../../scripts/soak/heap.js';

describe('`judgeHeap`', () => {
  test('reports a heap that grows, but not a heap that only fluctuates', () => {
    expect(
      judgeHeap(
        samples(30, (minute) => 10 + 0.1 * minute + noise(minute)),
        20,
      ).problems,
    ).toEqual(['the heap grows']);
    expect(
      judgeHeap(
        samples(30, (minute) => 10 + noise(minute)),
        20,
      ),
    ).toMatchObject({ problems: [] });
  });

  test('ignores growth in the first samples', () => {
    const warm = samples(30, (minute) => (minute < 5 ? minute : 10 + noise(minute)));
    expect(judgeHeap(warm, 20)).toMatchObject({ problems: [] });
  });

  test('skips a heap with too few samples, and reports the lack of samples as a problem only after a long run', () => {
    const few = samples(14, (minute) => 10 * minute);
    expect(judgeHeap(few, 20).problems).toEqual([
      'heap: not judged, because 10 samples after the first 5 are needed and there are 9',
    ]);
    const short = judgeHeap(few, 1);
    expect(short).toMatchObject({ problems: [], text: expect.stringContaining('not judged') });
    expect(short.slopeMiBPerMinute).toBeUndefined();
  });
});

function samples(count: number, heapMiB: (minute: number) => number): SoakSample[] {
  return Array.from({ length: count }, (_, minute) => ({ minute, heapMiB: heapMiB(minute), handles: 0, events: 0 }));
}

function noise(minute: number): number {
  return minute % 2 === 0 ? 0.2 : -0.2;
}
