import { expect, test } from 'vitest';
import { checkPuts, type Operation, type PutCall } from '../../src/testing/index.js';

function put(value: string, outcome: Operation<PutCall, unknown>['outcome']): Operation<PutCall, unknown> {
  return { process: 'p', call: { key: 'k', value }, startMs: 0, endMs: 1, outcome, result: undefined };
}

const held = (...values: readonly string[]): { key: string; value: string }[] =>
  values.map((value) => ({ key: 'k', value }));

test('`checkPuts` accepts puts whose outcomes match the values that etcd applied', () => {
  const operations = [put('1', 'ok'), put('2', 'fail'), put('3', 'unknown'), put('4', 'unknown'), put('5', 'ok')];
  expect(checkPuts(operations, held('1', '4', '5'))).toEqual([]);
});

test.for([
  ['succeeded but was not applied', 'lost', [put('1', 'ok')], held()],
  ['succeeded but was applied twice', 'applied twice', [put('1', 'ok')], held('1', '1')],
  ['has an unknown outcome but was applied twice', 'applied twice', [put('1', 'unknown')], held('1', '1')],
  ['failed but was applied', 'applied though failed', [put('1', 'fail')], held('1')],
  ['no caller made', 'invented', [put('1', 'ok')], held('1', '2')],
] as const)('`checkPuts` reports a put that %s', ([, rule, operations, truth]) => {
  expect(checkPuts(operations, truth).map((violation) => violation.rule)).toEqual([rule]);
});

test('`checkPuts` accepts the same value under two keys', () => {
  const other = { ...put('1', 'ok'), call: { key: 'other', value: '1' } };
  expect(checkPuts([put('1', 'ok'), other], [...held('1'), { key: 'other', value: '1' }])).toEqual([]);
});

test('`checkPuts` throws a `TypeError` when two puts have the same key and value', () => {
  expect(() => checkPuts([put('1', 'ok'), put('1', 'ok')], held('1'))).toThrow(TypeError);
});
