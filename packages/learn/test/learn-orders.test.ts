import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { CHECKS } from '../src/learn/checks.js';
import { COURSE, copyProgram, ROOT } from '../src/learn/course.js';

// Runs the check of chapter 10 that plays random orders, with locks that make mistakes in some orders only.

test.each([
  [
    'does not look again after the key ahead is gone',
    '09-queue.ts',
    "=== 'delete') break;",
    "=== 'delete') return;",
    // What the page of the chapter shows.
    /^```text\n(lock in the random order .*?)\n```$/ms.exec(readFileSync(`${COURSE}10-lock.md`, 'utf8'))?.[1] ??
      'the order on the page',
  ],
  [
    'does not look for its own key',
    '10-lock.ts',
    /^ +if \(!\(await ifHeld.*\n/m,
    '',
    'Ben has the lock, although the lease of Ben has ended',
  ],
  ['does not wait', '10-lock.ts', /^ +await waitForTurn.*\n/m, '', 'two holders: Anne and Ben'],
] as const)(
  'the check of random orders prints the order in which a lock is wrong that %s',
  async (_, file, right, wrong, message) => {
    mkdirSync(`${ROOT}.cache`, { recursive: true });
    const folder = mkdtempSync(`${ROOT}.cache/learn-orders-`);
    onTestFinished(() => rmSync(folder, { recursive: true }));
    for (const name of readdirSync(COURSE).filter((each) => each.endsWith('.ts'))) copyProgram(name, folder);
    const program = readFileSync(`${folder}/${file}`, 'utf8');
    expect(program.replace(right, wrong)).not.toBe(program);
    writeFileSync(`${folder}/${file}`, program.replace(right, wrong));
    const check = CHECKS[10]?.find(({ what }) => what.includes('random orders'));
    const exports = (await import(`${folder}/10-lock.ts`)) as object;
    await expect(check?.run(exports, '127.0.0.1:1')).rejects.toThrow(message);
  },
);
