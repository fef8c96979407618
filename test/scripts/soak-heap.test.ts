import { describe, expect, test } from 'vitest';
import { judgeHeap } from '../../scripts/soak/heap.js';
import type { SoakSample } from '../../scripts/soak/plot.js';

describe('judgeHeap', () => {
  test('reports a heap that grows, and none that goes up and down', () => {
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

  test('ignores growth in the first episodes', () => {
    const warm = samples(30, (minute) => (minute < 5 ? minute : 10 + noise(minute)));
    expect(judgeHeap(warm, 20)).toMatchObject({ problems: [] });
  });

  test('does not judge few samples, which is a problem of a long run and a remark for a short one', () => {
    const few = samples(14, (minute) => 10 * minute);
    expect(judgeHeap(few, 20).problems).toEqual(['heap: not judged, 9 samples after the first 5 where 10 are needed']);
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
