import { expect, test } from 'vitest';
import { EtcdError, type Outcome } from '../../src/index.js';
import { History } from '../../src/testing/index.js';

function failure(outcome: Outcome): EtcdError {
  return new EtcdError('no', { code: 'Unavailable', reason: 'Other', outcome });
}

test('`History.record` records the result, the start and the end of a call, and resolves with the result', async () => {
  const history = new History<string, number>();
  expect(await history.record('p', 'call', async () => 7)).toBe(7);
  const [operation] = history.operations;
  expect(operation).toMatchObject({ process: 'p', call: 'call', outcome: 'ok', result: 7 });
  expect(operation?.endMs).toBeGreaterThanOrEqual(operation?.startMs as number);
});

test.for([
  ['not-sent', 'fail'],
  ['rejected', 'fail'],
  ['unknown', 'unknown'],
] as const)(
  '`History.record` records outcome "%s" of an error as "%s", and rejects with the error',
  async ([outcome, noted]) => {
    const history = new History<string, number>();
    const error = failure(outcome);
    await expect(history.record('p', 'call', () => Promise.reject(error))).rejects.toBe(error);
    expect(history.operations[0]).toMatchObject({ outcome: noted, result: undefined });
    expect(history.operations[0]?.endMs === Number.POSITIVE_INFINITY).toBe(noted === 'unknown');
  },
);

test('`History.record` records outcome "unknown" for an error that is not an EtcdError', async () => {
  const history = new History<string, number>();
  await expect(history.record('p', 'call', () => Promise.reject(new Error('?')))).rejects.toThrow('?');
  expect(history.operations[0]?.outcome).toBe('unknown');
});
