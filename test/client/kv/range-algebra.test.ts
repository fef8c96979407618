import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareBytes, concatBytes } from '../../../src/base/bytes.js';
import { prefixEnd, prefixInterval, resolveKeys, type WireRange } from '../../../src/client/kv/keys.js';
import { type Client, compare, type Keyspace, op, prefix } from '../../../src/index.js';
import { openClient } from '../../support/client.js';
import { bytesOf, hex, type Selection, selection, someKey, sorted, startsWith } from '../../support/key-model.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { iterations } from '../../support/thorough.js';
import { valueText } from '../../support/watch-events.js';

const SEED = 34;
const EVERY_KEY = prefix('');

/**
 * Generates prefixes of namespaces. Prefixes that end in 0xff are the hard cases, because their range end is shorter
 * than the prefix.
 */
const namespacePrefix = fc.oneof(
  fc.constantFrom('ff', 'ffff', '61ff', '61ffff', 'feff', '00ff', '00', '61', 'ff61').map(fromHex),
  bytesOf(1, 3),
);

describe('a range of keys', () => {
  // Rule S33 (docs/semantics.md): the end of a prefix follows etcd's rule.
  test('selects the same keys as the model in `range`, `scan`, `delete`, `watch` and `compare`', async () => {
    // The test uses its own server, because open-ended ranges would contain the keys of other tests.
    const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
    const keys = fc.array(someKey, { minLength: 1, maxLength: 12 });
    const property = fc.asyncProperty(keys, selection, fc.nat(), (all, selected, odd) =>
      agrees({ etcd, inside: etcd, start: new Uint8Array(0), stored: sorted(all), selected, odd }),
    );
    await fc.assert(property, { seed: SEED, numRuns: 300 });
  });

  // Rule S34: a range in a namespace never includes keys outside the namespace.
  test('in a namespace selects the same keys as the model, and no key outside the namespace', async () => {
    const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
    const setting = namespacePrefix.chain((start) =>
      fc.record({
        start: fc.constant(start),
        own: fc.array(
          someKey.map((key) => concatBytes(start, key)),
          { minLength: 1, maxLength: 8 },
        ),
        foreign: fc.array(neighborOf(start), { minLength: 1, maxLength: 8 }),
      }),
    );
    const property = fc.asyncProperty(setting, selection, fc.nat(), ({ start, own, foreign }, selected, odd) =>
      agrees({
        etcd,
        inside: etcd.namespace(start),
        start,
        stored: sorted([...own, ...foreign]),
        selected,
        odd,
      }),
    );
    await fc.assert(property, { seed: SEED, numRuns: 300 });
  });
});

// Rule S34: a range in a namespace never includes keys outside the namespace.
test('the interval of a range in a namespace contains all keys of the range and no key outside the namespace', () => {
  const candidate = namespacePrefix.chain((start) => fc.tuple(fc.constant(start), neighborOf(start)));
  fc.assert(
    fc.property(candidate, selection, someKey, ([start, foreign], { keys, contains, member }, key) => {
      const interval = prefixInterval(start, resolveKeys(keys, 'keys'));
      expect(isIn(interval, concatBytes(start, member))).toBe(true);
      expect(isIn(interval, concatBytes(start, key))).toBe(contains(key));
      expect(isIn(interval, foreign)).toBe(false);
      expect(isIn(interval, start)).toBe(false);
    }),
    { seed: SEED, numRuns: iterations(20_000) },
  );
});

interface Setting {
  /** A client that reads and writes the whole store. */
  readonly etcd: Client;
  /** The namespace of the keys that start with `start`. */
  readonly inside: Keyspace;
  readonly start: Uint8Array;
  readonly stored: readonly Uint8Array[];
  readonly selected: Selection;
  /** A random number that selects the key whose value the test changes. */
  readonly odd: number;
}

/** Checks that each operation on the selected range concerns exactly the keys that the model `selected` contains. */
async function agrees({ etcd, inside, start, stored, selected, odd }: Setting): Promise<void> {
  const { keys, member, contains } = selected;
  const isOwn = (key: Uint8Array): boolean =>
    startsWith(key, start) && key.length > start.length && contains(key.subarray(start.length));
  const expected = stored.filter(isOwn).map((key) => key.subarray(start.length));
  const values = (value: string): ReturnType<typeof op.put>[] =>
    stored.map((key) => op.put(key, isOwn(key) ? value : 'foreign'));
  const allAre = async (value: string): Promise<boolean> =>
    (await inside.txn({ if: [compare.value(keys, '==', value)] })).succeeded;

  await etcd.delete(EVERY_KEY);
  const watch = inside.watch(keys);
  await watch.created();
  await etcd.txn({ then: values('own') });

  const range = await inside.range(keys);
  expect(hex(range.kvs.map(({ keyBytes: key }) => key))).toEqual(hex(expected));
  expect(range.count).toBe(expected.length);
  const scanned: Uint8Array[] = [];
  for await (const { keyBytes: key } of inside.scan(keys)) scanned.push(key);
  expect(hex(scanned)).toEqual(hex(expected));

  // A comparison of a range checks every key in the range and no other key. A comparison of values fails if the
  // range contains no key.
  expect(await allAre('own')).toBe(expected.length > 0);
  const different = expected[odd % Math.max(1, expected.length)];
  if (different !== undefined) {
    await inside.put(different, 'different');
    expect(await allAre('own')).toBe(false);
  }

  const deleted = await inside.delete(keys, { prevKv: true });
  expect(hex(deleted.prevKvs.map(({ keyBytes: key }) => key))).toEqual(hex(expected));
  const left = (await etcd.range(EVERY_KEY)).kvs.map(({ keyBytes: key }) => key);
  expect(hex(left)).toEqual(hex(stored.filter((key) => !isOwn(key))));

  await inside.put(member, 'last');
  const events: Uint8Array[][] = [];
  for await (const batch of watch.batches()) {
    events.push(batch.events.map(({ keyBytes: key }) => key));
    if (batch.events.some((event) => valueText(event) === 'last')) break;
  }
  const changed = different === undefined ? [] : [expected, [different], expected];
  expect(events.map((batch) => hex(sorted(batch)))).toEqual([...changed, [member]].map(hex));
}

/**
 * Generates keys that do not start with the prefix `start`. Most of these keys are directly before or after the keys
 * with the prefix.
 */
function neighborOf(start: Uint8Array): fc.Arbitrary<Uint8Array> {
  const end = prefixEnd(start);
  const uncut = start.map((byte, index) => (index === end.length - 1 ? byte + 1 : byte));
  const lowered = start.map((byte, index) => (index === start.length - 1 ? byte - 1 : byte));
  const near = fc
    .tuple(fc.constantFrom(end, uncut, lowered, start.subarray(0, -1)), bytesOf(0, 2))
    .map((parts) => concatBytes(...parts));
  return fc.oneof(near, someKey).filter((key) => key.length > 0 && !startsWith(key, start));
}

/** Whether etcd counts the key as part of the range. */
function isIn({ key, rangeEnd }: WireRange, candidate: Uint8Array): boolean {
  if (rangeEnd.length === 0) return compareBytes(candidate, key) === 0;
  const noEnd = rangeEnd.length === 1 && rangeEnd[0] === 0;
  return compareBytes(candidate, key) >= 0 && (noEnd || compareBytes(candidate, rangeEnd) < 0);
}

function fromHex(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, 'hex'));
}
