import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EventType, type KeyValue } from '../../../src/gen/mvccpb/kv.js';
import type { Commit } from '../../../src/testing/memory/change.js';
import { KeyRange, keyId } from '../../../src/testing/memory/key-range.js';
import { Store } from '../../../src/testing/memory/store.js';
import type { WriteTransaction } from '../../../src/testing/memory/write-transaction.js';
import { iterations } from '../../support/thorough.js';

const SEED = 17;

function utf8(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

function rangeOf(first: string, end = ''): KeyRange {
  return new KeyRange(utf8(first), utf8(end));
}

const ALL_KEYS = rangeOf('\0', '\0');

function commit(store: Store, write: (transaction: WriteTransaction) => void): void {
  const transaction = store.write();
  write(transaction);
  transaction.commit();
}

function put(store: Store, key: string, value = '', lease = 0n): void {
  commit(store, (transaction) => transaction.put(utf8(key), utf8(value), lease));
}

function remove(store: Store, first: string, end = ''): void {
  commit(store, (transaction) => transaction.delete(rangeOf(first, end)));
}

function keysIn(kvs: readonly KeyValue[]): string[] {
  return kvs.map(({ key }) => keyId(key));
}

/** Describes changes as strings such as `+a@2` for a put and `-a@3` for a deletion. */
function describeChanges(commits: Iterable<Commit>): string[] {
  return [...commits].flatMap(({ changes }) =>
    changes.map(({ type, key, kv }) => `${type === EventType.PUT ? '+' : '-'}${key}@${kv.modRevision}`),
  );
}

describe('the store of a MemoryEtcd', () => {
  test('counts the versions of a key from its creation', () => {
    const store = new Store();
    put(store, 'a');
    put(store, 'a');
    expect(store.get('a')).toMatchObject({ createRevision: 2n, modRevision: 3n, version: 2n });
    remove(store, 'a');
    put(store, 'a');
    expect(store.get('a')).toMatchObject({ createRevision: 5n, modRevision: 5n, version: 1n });
  });

  test('keeps its revision when a transaction changes nothing', () => {
    const store = new Store();
    remove(store, 'a', 'z');
    expect(store.revision).toBe(1n);
  });

  test('yields 2,000 keys in byte order when they were written in another order', () => {
    const store = new Store();
    const keys = Array.from({ length: 2_000 }, (_, index) => `key-${String((index * 1_231) % 2_000).padStart(4, '0')}`);
    for (const key of keys) put(store, key);
    expect(keysIn(store.range(ALL_KEYS))).toEqual([...keys].sort());
    expect(keysIn(store.range(rangeOf('key-1499', 'key-1503')))).toEqual([
      'key-1499',
      'key-1500',
      'key-1501',
      'key-1502',
    ]);
  });

  test('detaches a key from its lease when the key is put with another lease, without a lease, or deleted', () => {
    const store = new Store();
    for (const key of ['a', 'b', 'c', 'd']) put(store, key, '', 7n);
    put(store, 'a', 'again', 7n);
    put(store, 'b', '', 8n);
    put(store, 'c');
    remove(store, 'd');
    expect(store.keysOf(7n)).toEqual(['a']);
    expect(store.keysOf(8n)).toEqual(['b']);
    put(store, 'd');
    expect(store.keysOf(7n)).toEqual(['a']);
  });

  test('keeps both changes when a transaction puts and deletes a key', () => {
    const store = new Store();
    commit(store, (transaction) => {
      transaction.put(utf8('a'), utf8(''), 7n);
      transaction.delete(ALL_KEYS);
    });
    expect(store.get('a')).toBeUndefined();
    expect(store.keysOf(7n)).toEqual([]);
    expect(describeChanges(store.commits(2n, ALL_KEYS))).toEqual(['+a@2', '-a@2']);
    store.compact(2n);
    expect(describeChanges(store.commits(2n, ALL_KEYS))).toEqual(['-a@2']);
  });

  test('keeps a tombstone of exactly the compacted revision, and no older tombstone', () => {
    const store = new Store();
    put(store, 'a');
    remove(store, 'a');
    put(store, 'b');
    remove(store, 'b');
    store.compact(5n);
    expect(describeChanges(store.commits(5n, ALL_KEYS))).toEqual(['-b@5']);
    expect(store.snapshot().commits.flatMap(({ changes }) => changes.map(({ key }) => key))).toEqual(['b']);
    store.restore(store.snapshot());
    expect(describeChanges(store.commits(5n, ALL_KEYS))).toEqual(['-b@5']);
  });

  test('does not shrink until it is defragmented, and reuses freed space', () => {
    const store = new Store();
    const empty = store.bytes;
    put(store, 'a', 'x'.repeat(100_000));
    put(store, 'a', '');
    const full = store.bytes;
    expect(full - empty).toBeGreaterThan(100_000);
    store.compact(store.revision);
    expect(store.bytes).toBe(full);
    expect(store.bytesInUse).toBeLessThan(full - 100_000);
    put(store, 'b', 'x'.repeat(90_000));
    expect(store.bytes).toBe(full);
    store.compact(store.revision);
    remove(store, 'b');
    store.compact(store.revision);
    store.defragment();
    expect(store.bytes).toBe(store.bytesInUse);
    expect(store.bytes).toBeLessThan(empty + 10_000);
  });

  test('calls a listener after each commit, until the listener is removed', () => {
    const store = new Store();
    const seen: bigint[] = [];
    const stop = store.onCommit(({ revision }) => seen.push(revision));
    put(store, 'a');
    remove(store, 'b');
    put(store, 'a');
    stop();
    put(store, 'a');
    expect(seen).toEqual([2n, 3n]);
  });
});

describe("a write transaction of a MemoryEtcd's store", () => {
  test('reads its own changes at its own revision, and the store at older revisions', () => {
    const store = new Store();
    for (const key of ['a', 'c', 'e']) put(store, key, 'old');
    const transaction = store.write();
    expect(transaction.revision).toBe(4n);
    transaction.delete(rangeOf('c'));
    transaction.put(utf8('b'), utf8(''), 0n);
    transaction.put(utf8('e'), utf8('new'), 0n);
    transaction.put(utf8('f'), utf8(''), 0n);
    expect(transaction.revision).toBe(5n);
    expect(keysIn(transaction.range(ALL_KEYS))).toEqual(['a', 'b', 'e', 'f']);
    expect(keysIn(transaction.range(ALL_KEYS, 4n))).toEqual(['a', 'c', 'e']);
    expect(keysIn(store.range(ALL_KEYS))).toEqual(['a', 'c', 'e']);
    expect(transaction.get('e')).toMatchObject({ createRevision: 4n, modRevision: 5n, version: 2n });
  });

  test('has no effect when it is dropped', () => {
    const store = new Store();
    store.write().put(utf8('a'), utf8(''), 7n);
    expect(store.revision).toBe(1n);
    expect(store.keysOf(7n)).toEqual([]);
  });
});

/** One operation of a transaction, or a compaction. The numbers choose a key, a value, a lease or a revision. */
type Command =
  | { readonly kind: 'put'; readonly key: string; readonly lease: bigint }
  | { readonly kind: 'delete'; readonly first: string; readonly end: string };

const someKey = fc.constantFrom('a', 'a\0', 'ab', 'b', 'c', '\xff');
const someEnd = fc.constantFrom('', '\0', 'b', 'c');
const somePut = fc.record({ kind: fc.constant('put' as const), key: someKey, lease: fc.bigInt({ min: 0n, max: 2n }) });
const someDeletion = fc.record({ kind: fc.constant('delete' as const), first: someKey, end: someEnd });
const someStep = fc.record({
  commands: fc.array(fc.oneof({ weight: 3, arbitrary: somePut }, someDeletion), { maxLength: 4 }),
  /** How far behind the newest revision the store is compacted. */
  compactBehind: fc.option(fc.nat(12), { freq: 6, nil: undefined }),
});

/** A simple store that keeps a copy of its whole content after each revision. */
class Model {
  readonly contents: Map<string, KeyValue>[] = [new Map(), new Map()];
  readonly events: string[][] = [[], []];

  apply(commands: readonly Command[]): void {
    const content = new Map(this.contents.at(-1));
    const modRevision = BigInt(this.contents.length);
    const events: string[] = [];
    for (const command of commands) {
      if (command.kind === 'put') {
        const before = content.get(command.key);
        content.set(command.key, {
          key: bytesOf(command.key),
          value: utf8(''),
          lease: command.lease,
          createRevision: before?.createRevision ?? modRevision,
          modRevision,
          version: (before?.version ?? 0n) + 1n,
        });
        events.push(`+${command.key}@${modRevision}`);
        continue;
      }
      for (const key of [...content.keys()].sort()) {
        if (!isIn(key, command.first, command.end)) continue;
        content.delete(key);
        events.push(`-${key}@${modRevision}`);
      }
    }
    if (events.length === 0) return;
    this.contents.push(content);
    this.events.push(events);
  }

  range(first: string, end: string, revision: number): KeyValue[] {
    const content = [...(this.contents[revision] as Map<string, KeyValue>)];
    return content
      .filter(([key]) => isIn(key, first, end))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, kv]) => kv);
  }

  keysOf(lease: bigint): string[] {
    const newest = this.range('\0', '\0', this.contents.length - 1);
    return keysIn(newest.filter((kv) => kv.lease === lease));
  }
}

function isIn(key: string, first: string, end: string): boolean {
  if (end === '') return key === first;
  return key >= first && (end === '\0' || key < end);
}

function bytesOf(key: string): Uint8Array {
  return Uint8Array.from(key, (character) => character.charCodeAt(0));
}

function applyAll(transaction: WriteTransaction, commands: readonly Command[]): void {
  for (const command of commands) {
    if (command.kind === 'put') transaction.put(bytesOf(command.key), utf8(''), command.lease);
    else transaction.delete(new KeyRange(bytesOf(command.first), bytesOf(command.end)));
  }
}

describe("a MemoryEtcd's store with random transactions and compactions", () => {
  test('agrees with a model that copies its whole content at each revision', () => {
    const property = fc.property(
      fc.array(someStep, { maxLength: 40 }),
      someKey,
      someEnd,
      fc.boolean(),
      (steps, first, end, restored) => {
        let store = new Store();
        const model = new Model();
        for (const { commands, compactBehind } of steps) {
          const transaction = store.write();
          applyAll(transaction, commands);
          const own = transaction.range(ALL_KEYS);
          transaction.commit();
          model.apply(commands);
          expect(own).toEqual(store.range(ALL_KEYS));
          if (compactBehind === undefined) continue;
          const revision = store.revision - BigInt(compactBehind);
          if (revision > store.compacted) store.compact(revision);
        }
        if (restored) {
          const copy = new Store();
          copy.restore(store.snapshot());
          store = copy;
        }
        agrees(store, model, first, end);
      },
    );
    fc.assert(property, { seed: SEED, numRuns: iterations(2_000) });
  });
});

function agrees(store: Store, model: Model, first: string, end: string): void {
  expect(store.revision).toBe(BigInt(model.contents.length - 1));
  const range = new KeyRange(bytesOf(first), bytesOf(end));
  const oldest = Math.max(1, Number(store.compacted));
  for (let revision = oldest; revision < model.contents.length; revision += 1)
    expect(store.range(range, BigInt(revision))).toEqual(model.range(first, end, revision));
  for (const lease of [1n, 2n]) expect(store.keysOf(lease)).toEqual(model.keysOf(lease));
  // A compaction keeps the last change of each key at the compacted revision, and all later changes.
  const compacted = lastOfEachKey(model.events[oldest] ?? []);
  const events = [store.compacted > 0n ? compacted : (model.events[oldest] ?? []), ...model.events.slice(oldest + 1)];
  expect(describeChanges(store.commits(BigInt(oldest), ALL_KEYS))).toEqual(events.flat());
}

function lastOfEachKey(events: readonly string[]): string[] {
  return events.filter((event, index) => !events.slice(index + 1).some((later) => later.slice(1) === event.slice(1)));
}
