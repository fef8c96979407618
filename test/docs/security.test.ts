import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PAGE = readFileSync(join(ROOT, 'SECURITY.md'), 'utf8');

/**
 * Sentences without a test of their own: the next sentence of the same promise names the tests, or, for the last one,
 * no program can show what happens when the guard process is suspended, too, because it would have to be that program.
 */
const WITHOUT_TESTS = [
  '**A server cannot make the client do an unbounded amount of work.**',
  'A holder may lose its lock after it has checked',
  'A user who can pause a process',
  'If the guard process is suspended, too',
];

/** Returns the sentences of the lists in a part of the page. */
function sentencesOf(title: string): string[] {
  const part = PAGE.slice(PAGE.indexOf(`## ${title}\n`)).split('\n## ')[0] ?? '';
  return part
    .split(/^- /m)
    .slice(1)
    .flatMap((promise) =>
      promise
        .replace(/\s+/g, ' ')
        .trim()
        .split(/(?<=\.(?:\*\*)?) (?=[A-Z`[*])/),
    );
}

test.each(['What is promised', 'What is not promised'])(
  'each sentence under "%s" in SECURITY.md names a test',
  (title) => {
    const sentences = sentencesOf(title);
    expect(sentences.length).toBeGreaterThan(5);
    const untested = sentences.filter((sentence) => {
      const tests = [...sentence.matchAll(/\]\(((?:packages\/\w+\/)?test\/[^)]+)\)/g)].map(
        ([, path]) => path as string,
      );
      return tests.length === 0 || !tests.every((path) => existsSync(join(ROOT, path)));
    });
    expect(untested.filter((sentence) => !WITHOUT_TESTS.some((start) => sentence.startsWith(start)))).toEqual([]);
  },
);
