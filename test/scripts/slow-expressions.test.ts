import { expect, test } from 'vitest';
import { BOUNDED } from '../../scripts/expressions/bounded-expressions.js';
import { expressionProblems, slowExpressionsOf } from '../../scripts/expressions/slow-expressions.js';

const ROOT = new URL('../..', import.meta.url).pathname;

test('the regular expressions of the code take linear time, except the listed ones', () => {
  expect(expressionProblems(ROOT, BOUNDED)).toEqual([]);
});

test.each([
  ['const NAME = /^(?=.{1,32}$)[a-z]+(?:_?[a-z]+)*$/i;', 'exponential time for a text that repeats [A-Z]'],
  ['text.replace(/%.*$/, "");', 'polynomial time for a text that repeats %'],
  ['const end = new RegExp(word + "+$");', 'scslre cannot examine a computed expression'],
])('the check of regular expressions finds %s', (program, problem) => {
  expect(slowExpressionsOf(program).map((each) => each.problem)).toEqual([problem]);
});

test('the check of regular expressions names an entry of its list that is not slow', () => {
  const listed = { ...BOUNDED, 'src/core.ts': { '/a/': 'the text is short' } };
  expect(expressionProblems(ROOT, listed)).toEqual([
    'src/core.ts: /a/ is not slow, or does not exist; remove it from the list of harmless ones',
  ]);
});
