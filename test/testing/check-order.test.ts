import { describe, expect, test } from 'vitest';
import {
  checkOrder,
  type Operation,
  type OrderedCall,
  type OrderedResult,
  type SeenEvent,
} from '../../src/testing/index.js';

/** The events that etcd really applied. */
const TRUTH: SeenEvent[] = [
  put(2n, 'a', 'a1'),
  put(3n, 'b', 'b1'),
  put(4n, 'a', 'a2'),
  { ...put(5n, 'b', ''), type: 'delete' },
];

describe('`checkOrder`', () => {
  test('accepts calls in the order of their revisions if each read returns the value at its revision', () => {
    expect(
      checkOrder(
        [
          write(0, 10, 'a1', 2n),
          read(11, 12, 'a', 'a1', 2n),
          // This read is concurrent with the write of a2, so it may return either a1 or a2.
          read(19, 30, 'a', 'a1', 3n),
          write(20, 29, 'a2', 4n),
          read(31, 32, 'b', undefined, 5n),
        ],
        TRUTH,
      ),
    ).toEqual([]);
  });

  test('reports a read whose revision is older than the revision of a call that ended before the read began', () => {
    expect(rules([write(0, 10, 'a2', 4n), read(11, 12, 'a', 'a1', 3n)])).toEqual(['stale']);
    expect(rules([read(0, 10, 'a', 'a2', 4n), read(11, 12, 'b', 'b1', 3n)])).toEqual(['stale']);
  });

  test('reports a write whose value was read before the write began, even if the outcome of the write is unknown', () => {
    expect(rules([read(0, 10, 'a', 'a2', 4n), write(11, 12, 'a2', 4n)])).toEqual(['stale']);
    const unknown = {
      ...write(11, Number.POSITIVE_INFINITY, 'a2', 4n),
      outcome: 'unknown',
      result: undefined,
    } as const;
    expect(rules([read(0, 10, 'a', 'a2', 4n), unknown])).toEqual(['stale']);
    expect(rules([read(0, 10, 'a', 'a1', 3n), unknown])).toEqual([]);
  });

  test('reports a read that did not return the value that the key had at the revision of the read', () => {
    expect(rules([read(0, 1, 'a', 'a1', 4n)])).toEqual(['wrong value']);
    expect(rules([read(0, 1, 'b', 'b1', 5n)])).toEqual(['wrong value']);
    expect(rules([read(0, 1, 'a', undefined, 2n)])).toEqual(['wrong value']);
  });

  // An event that deletes a key has an empty value, too.
  test('accepts a write of an empty value to a key that is deleted later', () => {
    const truth: SeenEvent[] = [put(2n, '', ''), { ...put(3n, '', ''), type: 'delete' }];
    expect(checkOrder([write(0, 1, '', 2n)], truth)).toEqual([]);
    expect(checkOrder([write(0, 1, '', 3n)], truth)).toMatchObject([{ rule: 'not applied' }]);
  });

  test('reports a successful write that etcd did not apply or applied at another revision', () => {
    expect(rules([write(0, 1, 'a3', 6n)])).toEqual(['not applied']);
    expect(rules([write(0, 1, 'a2', 3n)])).toEqual(['not applied']);
  });

  test('ignores calls that failed', () => {
    const failed = { ...write(11, 12, 'never', 0n), outcome: 'fail', result: undefined } as const;
    expect(rules([read(0, 10, 'a', 'a2', 4n), failed])).toEqual([]);
  });
});

function rules(operations: readonly Operation<OrderedCall, OrderedResult>[]): string[] {
  return checkOrder(operations, TRUTH).map(({ rule }) => rule);
}

function put(revision: bigint, key: string, value: string): SeenEvent {
  return { revision, type: 'put', key, value };
}

function write(startMs: number, endMs: number, value: string, revision: bigint): Operation<OrderedCall, OrderedResult> {
  const call = { type: 'write', key: value.at(0) ?? '', value } as const;
  return { process: 'p', call, startMs, endMs, outcome: 'ok', result: { revision } };
}

function read(
  startMs: number,
  endMs: number,
  key: string,
  value: string | undefined,
  revision: bigint,
): Operation<OrderedCall, OrderedResult> {
  return { process: 'q', call: { type: 'read', key }, startMs, endMs, outcome: 'ok', result: { revision, value } };
}
