import fc from 'fast-check';
import type { Bytes, CallStep, Fields, Integer, Step } from './step.js';

// Generates requests of the key-value service. There are only a few keys, so that several requests often use the same
// key. Many numbers are at the limits of the accepted ranges.

const KEYS = ['a', 'b', 'c', 'a\0', 'ab', 'b/1', 'L/1', 'L/2', 'E/1', '\xff\xfe'];
const ENDS = ['', '\0', 'b', 'c', 'a\0', 'b0', 'L0', 'z', '\xff\xff\xff', 'a'];
const HUGE = '9223372036854775807';

/** Chooses items by weight. */
export function weighted<T>(
  ...choices: readonly (readonly [weight: number, arbitrary: fc.Arbitrary<T>])[]
): fc.Arbitrary<T> {
  return fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })));
}

/** Generates a field that a request contains with the probability `share`. */
export function rare<T>(arbitrary: fc.Arbitrary<T>, share = 0.15): fc.Arbitrary<T | undefined> {
  const weight = Math.round(1_000 * share);
  return fc.oneof({ weight: 1_000 - weight, arbitrary: fc.constant(undefined) }, { weight, arbitrary });
}

/** Generates a request from generators of its fields, without the fields that are undefined. */
export function request(fields: Readonly<Record<string, fc.Arbitrary<unknown>>>): fc.Arbitrary<Fields> {
  return fc
    .record(fields, { noNullPrototype: true })
    .map((all) => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)));
}

export function call(rpc: CallStep['rpc'], fields: fc.Arbitrary<Fields>): fc.Arbitrary<CallStep> {
  return fields.map((given) => ({ rpc, request: given }));
}

export const key: fc.Arbitrary<Bytes> = weighted<Bytes>(
  [60, fc.constantFrom(...KEYS.slice(0, 3))],
  [25, fc.constantFrom(...KEYS)],
  [1, fc.constantFrom('', '\0', '~none', '\xff')],
);

export const rangeEnd: fc.Arbitrary<string> = weighted(
  [10, fc.constant('')],
  [6, fc.constantFrom(...ENDS)],
  [4, fc.constant('\0')],
  [3, fc.constant('z')],
);

const near = (least: number, most: number): fc.Arbitrary<number> => fc.integer({ min: least, max: most });

/**
 * Generates revisions: most are readable, some are compacted or one or two revisions in the future, and a few are far
 * outside the valid range.
 */
export const revision: fc.Arbitrary<Integer> = weighted<Integer>(
  [8, near(-4, 0).map((current) => ({ current }))],
  [3, near(-2, 6).map((base) => ({ base }))],
  [3, near(-1, 1).map((compacted) => ({ compacted }))],
  [2, near(1, 2).map((current) => ({ current }))],
  [1, fc.constantFrom<Integer>(1, -1, -2, HUGE, '-9223372036854775808', '1000000000000')],
);

/** Generates lease IDs: mostly IDs that `leaseGrant` requests name. */
export const leaseId: fc.Arbitrary<Integer> = weighted<Integer>(
  [12, fc.constantFrom(1, 2, 3)],
  [3, near(0, 1).map((lease) => ({ lease }))],
  [2, fc.constantFrom<Integer>(0, 99, -1, '1099511627775')],
);

const value: fc.Arbitrary<Bytes> = weighted<Bytes>(
  [300, fc.constantFrom('', 'x', 'y', 'z', '10', '9')],
  [10, near(10, 300).map((times) => ({ repeat: 'v', times }))],
  [2, near(1_000, 40_000).map((times) => ({ repeat: 'w', times }))],
);

/** Values near the limits of the size of a request. */
const hugeValue: fc.Arbitrary<Bytes> = weighted<Bytes>(
  [3, near(-60, 10).map((off) => ({ repeat: 'h', times: 1_572_864 + off }))],
  [2, near(-60, 10).map((off) => ({ repeat: 'h', times: 1_572_864 + 524_288 + off }))],
  [1, near(600_000, 900_000).map((times) => ({ repeat: 'h', times }))],
);

const yes = fc.constant(true);

export const range: fc.Arbitrary<Fields> = request({
  key,
  rangeEnd: rare(rangeEnd, 0.8),
  limit: rare(weighted<Integer>([6, near(1, 4)], [1, fc.constantFrom<Integer>(0, -1, 1_000, HUGE)]), 0.25),
  revision: rare(revision, 0.3),
  sortOrder: rare(weighted([12, near(0, 2)], [1, fc.constantFrom(3, -1)]), 0.4),
  sortTarget: rare(weighted([16, near(0, 4)], [1, fc.constantFrom(5, -1)]), 0.4),
  serializable: rare(yes, 0.2),
  keysOnly: rare(yes, 0.1),
  countOnly: rare(yes, 0.1),
  minModRevision: rare(revision, 0.06),
  maxModRevision: rare(revision, 0.06),
  minCreateRevision: rare(revision, 0.06),
  maxCreateRevision: rare(revision, 0.06),
});

export const put: fc.Arbitrary<Fields> = request({
  key,
  value,
  lease: rare(leaseId, 0.2),
  prevKv: rare(yes, 0.25),
  ignoreValue: rare(yes, 0.07),
  ignoreLease: rare(yes, 0.07),
});

export const deleteRange: fc.Arbitrary<Fields> = request({
  key,
  rangeEnd: rare(rangeEnd, 0.3),
  prevKv: rare(yes, 0.4),
});

const compareValues: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  version: weighted<Integer>([8, near(0, 3)], [1, fc.constantFrom<Integer>(-1, HUGE)]),
  createRevision: weighted<Integer>([2, fc.constant(0)], [3, revision]),
  modRevision: weighted<Integer>([2, fc.constant(0)], [3, revision]),
  value: fc.constantFrom('', 'x', 'y', 'z', 'm'),
  lease: leaseId,
};
const TARGETS = Object.keys(compareValues);

const compareOf = (
  target: fc.Arbitrary<number>,
  union: (target: number) => fc.Arbitrary<unknown>,
): fc.Arbitrary<Fields> =>
  target.chain((chosen) =>
    request({
      result: weighted([40, near(0, 3)], [1, fc.constantFrom(4, -1)]),
      target: fc.constant(chosen),
      key,
      targetUnion: union(chosen),
      rangeEnd: rare(rangeEnd, 0.2),
    }),
  );

const unionOf = (name: string): fc.Arbitrary<unknown> =>
  (compareValues[name] as fc.Arbitrary<unknown>).map((chosen) => ({ case: name, value: chosen }));

const compare: fc.Arbitrary<Fields> = weighted<Fields>(
  [30, compareOf(near(0, 4), (target) => unionOf(TARGETS[target] as string))],
  // The field of the value may not match the target, or is missing.
  [
    1,
    compareOf(weighted([6, near(0, 4)], [1, fc.constantFrom(5, -1)]), () => fc.constantFrom(...TARGETS).chain(unionOf)),
  ],
  [1, compareOf(near(0, 4), () => fc.constant(undefined))],
);

const operation = (name: string, fields: fc.Arbitrary<Fields>): fc.Arbitrary<Fields> =>
  fields.map((inner) => ({ request: { case: name, value: inner } }));

function operations(depth: number): fc.Arbitrary<Fields[]> {
  const nested = depth === 0 ? [] : [[2, operation('requestTxn', txnOf(depth - 1))] as const];
  return fc.array(
    weighted<Fields>(
      [4, operation('requestRange', range)],
      [8, operation('requestPut', put)],
      [3, operation('requestDeleteRange', deleteRange)],
      ...nested,
      ...(depth === 2 ? [[0.1, fc.constant({})] as const] : []).map(([, empty]) => [1, empty] as const),
    ),
    { maxLength: 4 },
  );
}

function txnOf(depth: number): fc.Arbitrary<Fields> {
  return request({
    compare: rare(fc.array(compare, { maxLength: 3 }), 0.8),
    success: rare(operations(depth), 0.85),
    failure: rare(operations(depth), 0.7),
  });
}

export const txn: fc.Arbitrary<Fields> = txnOf(2);

const manyPuts = (count: number): Fields[] =>
  Array.from({ length: count }, (_, at) => ({ request: { case: 'requestPut', value: { key: `m${at}`, value: 'x' } } }));
const manyReads = (count: number): Fields[] =>
  Array.from({ length: count }, () => ({ request: { case: 'requestRange', value: { key: 'a' } } }));
const manyCompares = (count: number): Fields[] =>
  Array.from({ length: count }, () => ({ target: 0, result: 0, key: 'a', targetUnion: { case: 'version', value: 0 } }));

/** Transactions with about as many operations as the server allows. */
const largeTxn: fc.Arbitrary<Fields> = fc
  .tuple(near(126, 130), fc.constantFrom('puts', 'reads', 'compares', 'failure', 'nested', 'both'), near(1, 128))
  .map(([count, shape, inner]) => {
    switch (shape) {
      case 'puts':
        return { success: manyPuts(count) };
      case 'reads':
        return { success: manyReads(count) };
      case 'compares':
        return { compare: manyCompares(count), success: manyReads(1) };
      case 'failure':
        return { failure: manyReads(count) };
      case 'nested':
        return {
          success: [
            ...manyReads(inner),
            { request: { case: 'requestTxn', value: { success: manyPuts(count - inner) } } },
          ],
        };
      default:
        return { success: manyReads(count), failure: manyReads(count) };
    }
  });

const compact: fc.Arbitrary<Fields> = request({
  revision: weighted<Integer>(
    [6, near(-3, 0).map((current) => ({ current }))],
    [2, revision],
    [1, fc.constantFrom<Integer>(0, -1)],
  ),
  physical: rare(yes, 0.2),
});

/** Steps that read, write and compact keys. */
export const kvStep: fc.Arbitrary<CallStep> = weighted<CallStep>(
  [30, call('kv.put', put)],
  [30, call('kv.range', range)],
  [9, call('kv.deleteRange', deleteRange)],
  [22, call('kv.txn', txn)],
  [5, call('kv.compact', compact)],
  [4, call('kv.rangeStream', range)],
  [1, call('kv.txn', largeTxn)],
);

/** Steps with requests near the limits of size. These steps take long. */
export const hugeStep: fc.Arbitrary<CallStep> = weighted<CallStep>(
  [3, call('kv.put', request({ key, value: hugeValue, prevKv: rare(yes, 0.2) }))],
  [
    1,
    call(
      'kv.txn',
      hugeValue.map((huge) => ({ success: [{ request: { case: 'requestPut', value: { key: 'a', value: huge } } }] })),
    ),
  ],
  [3, call('kv.rangeStream', range)],
  [2, call('kv.range', range)],
);

/**
 * Puts of large values, and a watch that starts before the puts. The events of the watch may not fit in one message.
 */
export const hugeWatchSteps: fc.Arbitrary<readonly Step[]> = fc
  .tuple(
    fc.array(fc.integer({ min: 500_000, max: 1_500_000 }), { minLength: 1, maxLength: 4 }),
    fc.boolean(),
    fc.boolean(),
  )
  .map(([sizes, fragment, prevKv]): Step[] => [
    ...sizes.map((times): Step => ({ rpc: 'kv.put', request: { key: 'a', value: { repeat: 'h', times } } })),
    { watch: 'create', stream: 0, request: { key: 'a', startRevision: { base: 1 }, fragment, prevKv } },
    { rpc: 'kv.put', request: { key: 'a', value: { repeat: 'i', times: sizes[0] } } },
  ]);
