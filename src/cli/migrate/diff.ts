/** Unchanged lines that a diff shows around each change. */
const CONTEXT = 3;

interface Line {
  readonly sign: ' ' | '-' | '+';
  readonly text: string;
}

/** Returns the differences of two texts in the unified format of `diff -u`, for `patch` and for people. */
export function unifiedDiff(file: string, before: string, after: string): string {
  const lines = compared(before.split('\n'), after.split('\n'));
  const changed = lines.flatMap(({ sign }, index) => (sign === ' ' ? [] : [index]));
  let text = `--- a/${file}\n+++ b/${file}\n`;
  for (let next = 0; next < changed.length; ) {
    const from = Math.max(0, (changed[next] as number) - CONTEXT);
    let to = changed[next] as number;
    while (next < changed.length && (changed[next] as number) <= to + 2 * CONTEXT) to = changed[next++] as number;
    const hunk = lines.slice(from, to + CONTEXT + 1);
    const count = (part: readonly Line[], without: Line['sign']): number =>
      part.filter(({ sign }) => sign !== without).length;
    const at = (without: Line['sign']): string => `${count(lines.slice(0, from), without) + 1},${count(hunk, without)}`;
    text += `@@ -${at('+')} +${at('-')} @@\n${hunk.map(({ sign, text: line }) => `${sign}${line}\n`).join('')}`;
  }
  return text;
}

/** Compares two lists of lines. Finds the longest common subsequence between their common beginning and end. */
function compared(before: readonly string[], after: readonly string[]): readonly Line[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end))
    end += 1;
  const [old, fresh] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const same = (lines: readonly string[]): Line[] => lines.map((text) => ({ sign: ' ', text }));
  return [...same(before.slice(0, start)), ...middle(old, fresh), ...same(before.slice(before.length - end))];
}

function middle(before: readonly string[], after: readonly string[]): readonly Line[] {
  const width = after.length + 1;
  // For each pair of positions, the length of the longest common subsequence of the lines from there on.
  const lengths = new Uint32Array((before.length + 1) * width);
  const lengthAt = (i: number, j: number): number => lengths[i * width + j] as number;
  for (let i = before.length - 1; i >= 0; i -= 1)
    for (let j = after.length - 1; j >= 0; j -= 1)
      lengths[i * width + j] =
        before[i] === after[j] ? lengthAt(i + 1, j + 1) + 1 : Math.max(lengthAt(i + 1, j), lengthAt(i, j + 1));
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      lines.push({ sign: ' ', text: before[i++] as string });
      j += 1;
    } else if (j === after.length || (i < before.length && lengthAt(i + 1, j) >= lengthAt(i, j + 1)))
      lines.push({ sign: '-', text: before[i++] as string });
    else lines.push({ sign: '+', text: after[j++] as string });
  }
  return lines;
}
