import { describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  FilterType,
  type WatchCreateRequest,
  type WatchRequest,
  WatchResponse,
} from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { type Event, EventType } from '../../../src/gen/mvccpb/kv.js';
import { StatusError } from '../../../src/testing/memory/service.js';
import type { MemberSettings } from '../../../src/testing/memory/settings.js';
import { registerWatch } from '../../../src/testing/memory/watch-service.js';
import { encode, type Init } from '../../../src/wire/protobuf/writer.js';
import { CountingClock, type OpenStream, ServiceBench, text, utf8 } from '../../support/memory-services.js';

type Stream = OpenStream<WatchRequest, WatchResponse>;

function openBench(settings: Partial<MemberSettings> = {}): ServiceBench {
  const bench = new ServiceBench(settings);
  registerWatch(bench.router, bench.member);
  return bench;
}

function openStream(bench: ServiceBench): Stream {
  return bench.open(methods.watch.watch);
}

function create(stream: Stream, key: string, options: Init<WatchCreateRequest> = {}): void {
  stream.send({ requestUnion: { case: 'createRequest', value: { key: utf8(key), ...options } } });
}

function cancel(stream: Stream, watchId: bigint): void {
  stream.send({ requestUnion: { case: 'cancelRequest', value: { watchId } } });
}

function requestProgress(stream: Stream): void {
  stream.send({ requestUnion: { case: 'progressRequest', value: {} } });
}

/** Opens a stream with one watch, and takes the response to its creation. */
function watch(bench: ServiceBench, key: string, options: Init<WatchCreateRequest> = {}): Stream {
  const stream = openStream(bench);
  create(stream, key, options);
  expect(stream.take()[0]).toMatchObject({ created: true, canceled: false });
  return stream;
}

/** A response with all its fields. */
function response(bench: ServiceBench, revision: bigint, fields: Partial<WatchResponse>): WatchResponse {
  return { ...WatchResponse.create(), header: bench.member.header(revision), ...fields };
}

function show({ type, kv, prevKv }: Event): string {
  const { key, value, modRevision } = kv as NonNullable<Event['kv']>;
  const change = type === EventType.PUT ? `${text(key)}=${text(value)}` : `-${text(key)}`;
  return `${change}@${modRevision}${prevKv === undefined ? '' : ` was ${text(prevKv.value)}@${prevKv.modRevision}`}`;
}

/** Takes the responses of a stream. Returns the header's revision and the events of each response. */
function taken(stream: Stream): unknown[] {
  return stream.take().map(({ header, events }) => [header?.revision, ...events.map(show)]);
}

const ALL_KEYS = { rangeEnd: utf8('\0') };

describe('the creation of a watch on a MemoryEtcd', () => {
  test('is answered with an ID that the server chooses, from 0 on, and with the current revision', () => {
    const bench = openBench();
    bench.write({ a: '1' });
    const stream = openStream(bench);
    create(stream, 'a');
    create(stream, 'a');
    expect(stream.take()).toEqual([
      response(bench, 2n, { watchId: 0n, created: true }),
      response(bench, 2n, { watchId: 1n, created: true }),
    ]);
  });

  test('uses the ID of the request, and skips it when the server chooses', () => {
    const stream = openStream(openBench());
    for (const watchId of [1n, 0n, 0n, -1n]) create(stream, 'a', { watchId });
    expect(stream.take().map(({ watchId }) => watchId)).toEqual([1n, 0n, 2n, -1n]);
  });

  test.for<[string, string, Init<WatchCreateRequest>, string]>([
    ['an ID that is in use', 'a', { watchId: 9n }, 'mvcc: duplicate watch ID provided on the WatchStream'],
    ['an empty range', 'b', { rangeEnd: utf8('a') }, 'mvcc: watcher range is empty'],
    ['a range that ends where it begins', 'b', { rangeEnd: utf8('b') }, 'mvcc: watcher range is empty'],
    ['a negative revision', 'a', { startRevision: -1n }, 'etcdserver: mvcc: required revision has been compacted'],
  ])('is refused for %s', ([, key, options, cancelReason]) => {
    const bench = openBench();
    const stream = watch(bench, 'a', { watchId: 9n });
    create(stream, key, options);
    expect(stream.take()).toEqual([response(bench, 1n, { watchId: -1n, created: true, canceled: true, cancelReason })]);
  });

  test('is refused with the text of the error in Go when the user may not read the range', () => {
    const bench = openBench();
    const asked: unknown[] = [];
    vi.spyOn(bench.member.auth, 'mayWatch').mockImplementation((_, key, rangeEnd) => {
      asked.push([text(key), text(rangeEnd)]);
      return new StatusError('PermissionDenied', 'etcdserver: permission denied');
    });
    const stream = openStream(bench);
    create(stream, '', ALL_KEYS);
    const cancelReason = 'rpc error: code = PermissionDenied desc = etcdserver: permission denied';
    expect(stream.take()).toEqual([response(bench, 1n, { watchId: -1n, created: true, canceled: true, cancelReason })]);
    expect(asked).toEqual([['\0', '\0']]);
  });
});

describe('a watch on a MemoryEtcd', () => {
  test('receives all events of a revision in one response, while the store commits', () => {
    const bench = openBench();
    const stream = watch(bench, 'a', { rangeEnd: utf8('c'), watchId: 5n });
    bench.write({ b: '1', c: '1', a: '1' });
    bench.write({ c: '2' });
    bench.write({ a: undefined });
    const [first, second, ...rest] = stream.take();
    expect(first).toEqual(response(bench, 2n, { watchId: 5n, events: first?.events ?? [] }));
    expect(first?.events.map(show)).toEqual(['b=1@2', 'a=1@2']);
    const kv = { key: utf8('a'), value: utf8(''), createRevision: 0n, modRevision: 4n, version: 0n, lease: 0n };
    expect(second).toEqual(
      response(bench, 4n, { watchId: 5n, events: [{ type: EventType.DELETE, kv, prevKv: undefined }] }),
    );
    expect(rest).toEqual([]);
  });

  test.for<[string, string, string, string[]]>([
    ['of an empty key', '', '', []],
    ['of all keys', '', '\0', ['a=1@2', 'b=1@2', 'bb=1@2', 'c=1@2']],
    ['of the keys from one key on', 'b', '\0', ['b=1@2', 'bb=1@2', 'c=1@2']],
    ['of a range', 'b', 'c', ['b=1@2', 'bb=1@2']],
    ['of one key', 'b', '', ['b=1@2']],
  ])('%s receives the events of the range', ([, key, rangeEnd, events]) => {
    const bench = openBench();
    const stream = watch(bench, key, { rangeEnd: utf8(rangeEnd) });
    bench.write({ a: '1', b: '1', bb: '1', c: '1' });
    expect(stream.take().flatMap((received) => received.events.map(show))).toEqual(events);
  });

  test('from a past revision receives the past events in one response with the current revision', () => {
    const bench = openBench();
    bench.write({ a: '1' });
    bench.write({ a: '2' });
    bench.write({ b: '1' });
    bench.write({ a: undefined });
    bench.write({ b: '2' });
    const stream = openStream(bench);
    create(stream, 'a', { startRevision: 3n });
    bench.write({ a: '3' });
    expect(taken(stream)).toEqual([[6n], [6n, 'a=2@3', '-a@5'], [7n, 'a=3@7']]);
  });

  test('from a future revision receives nothing before that revision', () => {
    const bench = openBench();
    const stream = watch(bench, 'a', { startRevision: 4n });
    for (const value of ['1', '2', '3']) bench.write({ a: value });
    expect(taken(stream)).toEqual([[4n, 'a=3@4']]);
  });

  test.for<[string, FilterType[], string[]]>([
    ['without filters receives all events', [], ['a=1@2', '-a@3']],
    ['with NOPUT receives no puts', [FilterType.NOPUT], ['-a@3']],
    ['with NODELETE receives no deletions', [FilterType.NODELETE], ['a=1@2']],
    ['with both filters receives nothing', [FilterType.NODELETE, FilterType.NOPUT], []],
    ['with an unknown filter receives all events', [7 as FilterType], ['a=1@2', '-a@3']],
  ])('%s', ([, filters, events]) => {
    const bench = openBench();
    const stream = watch(bench, 'a', { filters });
    bench.write({ a: '1' });
    bench.write({ a: undefined });
    const past = openStream(bench);
    create(past, 'a', { filters, startRevision: 2n });
    expect(stream.take().flatMap((received) => received.events.map(show))).toEqual(events);
    expect(past.take().flatMap((received) => received.events.map(show))).toEqual(events);
  });

  test('with `prevKv` receives the key as before each change, unless the key is new or the revision before the change is compacted', () => {
    const bench = openBench();
    const stream = watch(bench, 'a', { prevKv: true });
    for (const value of ['1', '2', undefined, '3']) bench.write({ a: value });
    expect(taken(stream)).toEqual([
      [2n, 'a=1@2'],
      [3n, 'a=2@3 was 1@2'],
      [4n, '-a@4 was 2@3'],
      [5n, 'a=3@5'],
    ]);
    bench.member.store.compact(3n);
    const past = openStream(bench);
    create(past, 'a', { prevKv: true, startRevision: 3n });
    expect(taken(past)).toEqual([[5n], [5n, 'a=2@3', '-a@4 was 2@3', 'a=3@5']]);
  });

  test('does not receive events after its cancellation, and its ID is free again', () => {
    const bench = openBench();
    const stream = watch(bench, 'a', { watchId: 5n });
    bench.write({ a: '1' });
    cancel(stream, 5n);
    bench.write({ a: '2' });
    create(stream, 'a', { watchId: 5n });
    bench.write({ a: '3' });
    const [event, canceled, created, next] = stream.take();
    expect(event?.events.map(show)).toEqual(['a=1@2']);
    expect(canceled).toEqual(response(bench, 2n, { watchId: 5n, canceled: true }));
    expect(created).toEqual(response(bench, 3n, { watchId: 5n, created: true }));
    expect(next?.events.map(show)).toEqual(['a=3@4']);
  });

  test('continues after the client has half-closed the stream, until the client cancels the call', () => {
    const bench = openBench();
    const stream = watch(bench, 'a');
    stream.halfClose();
    bench.write({ a: '1' });
    expect(taken(stream)).toEqual([[2n, 'a=1@2']]);
    expect(stream.ended).toBeUndefined();
    stream.cancel();
    bench.write({ a: '2' });
    expect(stream.take()).toEqual([]);
  });
});

describe('a watch stream of a MemoryEtcd', () => {
  test('does not answer the cancellation of an unknown watch, or a request without an operation', () => {
    const stream = openStream(openBench());
    cancel(stream, 5n);
    stream.send({});
    expect([stream.take(), stream.ended]).toEqual([[], undefined]);
  });

  test('delivers an event to each of its watches', () => {
    const bench = openBench();
    const stream = openStream(bench);
    create(stream, 'a');
    create(stream, '', ALL_KEYS);
    create(stream, 'b');
    stream.take();
    bench.write({ a: '1' });
    expect(stream.take().map(({ watchId, events }) => [watchId, ...events.map(show)])).toEqual([
      [0n, 'a=1@2'],
      [1n, 'a=1@2'],
    ]);
  });
});

describe('a watch response with fragments of a MemoryEtcd', () => {
  // The server splits responses of at least 512 KiB plus `maxRequestBytes`, which is 100,000 in these tests.
  const LIMIT = 524_288 + 100_000;
  const VALUE = 'x'.repeat(200_000);

  function pastEvents(count: number, fragment: boolean): WatchResponse[] {
    const bench = openBench({ maxRequestBytes: 100_000 });
    for (let at = 0; at < count; at += 1) bench.write({ a: VALUE });
    const stream = openStream(bench);
    create(stream, 'a', { startRevision: 2n, fragment });
    return stream.take().slice(1);
  }

  test('has parts below the limit, of which all but the last are marked', () => {
    const whole = pastEvents(8, false);
    const parts = pastEvents(8, true);
    expect(whole).toHaveLength(1);
    expect(parts.map(({ events, fragment }) => [events.length, fragment])).toEqual([
      [3, true],
      [3, true],
      [2, false],
    ]);
    expect(parts.flatMap(({ events }) => events.map(({ kv }) => kv?.modRevision))).toEqual(
      whole[0]?.events.map(({ kv }) => kv?.modRevision),
    );
    for (const { header, watchId, events, fragment } of parts) {
      const part = { header, watchId, events, fragment };
      expect(encode(WatchResponse, part).length).toBeLessThan(LIMIT);
      expect(encode(WatchResponse, { ...part, events: [...events, ...events.slice(0, 1)] }).length >= LIMIT).toBe(
        fragment,
      );
    }
  });

  test('has one part when it is small', () => {
    expect(pastEvents(3, true).map(({ events, fragment }) => [events.length, fragment])).toEqual([[3, false]]);
  });

  test('has one part for a single event of any size', () => {
    const bench = openBench({ maxRequestBytes: 1 });
    const stream = watch(bench, 'a', { fragment: true });
    bench.write({ a: 'x'.repeat(LIMIT) });
    expect(stream.take().map(({ events, fragment }) => [events.length, fragment])).toEqual([[1, false]]);
  });
});

describe('a progress request to a MemoryEtcd', () => {
  test('is answered for all watches of the stream, with the current revision', () => {
    const bench = openBench();
    const stream = watch(bench, 'a');
    bench.write({ b: '1' });
    requestProgress(stream);
    expect(stream.take()).toEqual([response(bench, 2n, { watchId: -1n })]);
  });

  test('is not answered when the stream has no watch', () => {
    const stream = openStream(openBench());
    requestProgress(stream);
    expect(stream.take()).toEqual([]);
  });

  test('is not answered while a watch of the stream waits for a future revision', () => {
    const bench = openBench();
    const stream = watch(bench, 'a');
    create(stream, 'a', { startRevision: 3n });
    stream.take();
    bench.write({ b: '1' });
    requestProgress(stream);
    expect(stream.take()).toEqual([]);
    bench.write({ b: '2' });
    requestProgress(stream);
    expect(stream.take()).toEqual([response(bench, 3n, { watchId: -1n })]);
  });

  test('is not answered until the client has canceled a watch that a compaction has ended', () => {
    const bench = openBench();
    for (const value of ['1', '2', '3']) bench.write({ a: value });
    bench.member.store.compact(3n);
    const stream = watch(bench, 'a');
    create(stream, 'a', { startRevision: 2n });
    stream.take();
    requestProgress(stream);
    expect(stream.take()).toEqual([]);
    cancel(stream, 1n);
    requestProgress(stream);
    expect(stream.take()).toEqual([
      response(bench, 4n, { watchId: 1n, canceled: true }),
      response(bench, 4n, { watchId: -1n }),
    ]);
  });
});

describe('progress notifications of a MemoryEtcd', () => {
  test('arrive for each watch with `progressNotify` after each interval without events for that watch', () => {
    const bench = openBench({ progressIntervalMs: 1_000 });
    const stream = openStream(bench);
    bench.clock.advance(300);
    create(stream, 'a', { progressNotify: true });
    create(stream, 'b', { progressNotify: true });
    create(stream, 'c');
    stream.take();
    bench.clock.advance(699);
    bench.write({ a: '1' });
    expect(taken(stream)).toEqual([[2n, 'a=1@2']]);
    bench.clock.advance(1);
    expect(stream.take()).toEqual([response(bench, 2n, { watchId: 1n })]);
    bench.write({ c: '1' });
    bench.clock.advance(1_000);
    expect(stream.take().slice(1)).toEqual([
      response(bench, 3n, { watchId: 0n }),
      response(bench, 3n, { watchId: 1n }),
    ]);
  });

  test('do not arrive for a watch that waits for a future revision', () => {
    const bench = openBench({ progressIntervalMs: 1_000 });
    const stream = watch(bench, 'a', { progressNotify: true, startRevision: 3n });
    bench.clock.advance(1_000);
    expect(stream.take()).toEqual([]);
    for (const value of ['1', '2']) bench.write({ b: value });
    bench.clock.advance(1_000);
    expect(stream.take()).toEqual([response(bench, 3n, { watchId: 0n })]);
  });

  test('stop when the client cancels the watch or the call', () => {
    const bench = openBench({ progressIntervalMs: 1_000 });
    const first = watch(bench, 'a', { progressNotify: true });
    const second = watch(bench, 'a', { progressNotify: true });
    cancel(first, 0n);
    first.take();
    second.cancel();
    bench.clock.advance(10_000);
    expect([first.take(), second.take()]).toEqual([[], []]);
  });
});

describe('a compaction of a MemoryEtcd', () => {
  test('ends a new watch that needs a compacted revision, after the response to its creation', () => {
    const bench = openBench();
    for (const value of ['1', '2', '3']) bench.write({ a: value });
    bench.member.store.compact(3n);
    const stream = openStream(bench);
    create(stream, 'a', { startRevision: 2n });
    bench.write({ a: '4' });
    expect(stream.take()).toEqual([
      response(bench, 4n, { watchId: 0n, created: true }),
      response(bench, 0n, { watchId: 0n, canceled: true, compactRevision: 3n }),
    ]);
  });

  test('does not end a watch that has received the compacted events', () => {
    const bench = openBench();
    const stream = watch(bench, 'a');
    for (const value of ['1', '2', '3']) bench.write({ a: value });
    bench.member.store.compact(4n);
    bench.write({ a: '4' });
    expect(taken(stream).at(-1)).toEqual([5n, 'a=4@5']);
  });

  test('leaves the ID of the ended watch in use, until the client cancels the watch', () => {
    const bench = openBench();
    for (const value of ['1', '2', '3']) bench.write({ a: value });
    bench.member.store.compact(3n);
    const stream = openStream(bench);
    create(stream, 'a', { startRevision: 2n, watchId: 5n });
    create(stream, 'a', { watchId: 5n });
    cancel(stream, 5n);
    create(stream, 'a', { watchId: 5n });
    expect(stream.take().map(({ watchId, created, canceled }) => [watchId, created, canceled])).toEqual([
      [5n, true, false],
      [5n, false, true],
      [-1n, true, true],
      [5n, false, true],
      [5n, true, false],
    ]);
  });
});

describe('a watch on a MemoryEtcd that is more than 1,000 revisions behind', () => {
  const INTERVAL_MS = 10;

  /** Returns a bench with three responses of past revisions, and a stream with a watch that has received the first. */
  function behind(settings: Partial<MemberSettings> = {}): { readonly bench: ServiceBench; readonly stream: Stream } {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const bench = openBench(settings);
    for (let count = 0; count < 2_001; count += 1) bench.write({ a: '1', b: '1', other: '1' });
    const stream = openStream(bench);
    create(stream, 'a', { rangeEnd: utf8('c'), startRevision: 2n, progressNotify: true });
    expect(sizes(stream)).toEqual([
      [2_002n, 0],
      [2_002n, 2_000],
    ]);
    return { bench, stream };
  }

  function sizes(stream: Stream): unknown[] {
    return stream.take().map(({ header, events }) => [header?.revision, events.length]);
  }

  test('receives at most 1,000 revisions in one response, and one response in each interval', () => {
    const { bench, stream } = behind();
    create(openStream(bench), 'a', { startRevision: 2n });
    vi.advanceTimersByTime(INTERVAL_MS - 1);
    expect(sizes(stream)).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(sizes(stream)).toEqual([[2_002n, 2_000]]);
    vi.advanceTimersByTime(INTERVAL_MS);
    expect(sizes(stream)).toEqual([[2_002n, 2]]);
  });

  test('receives past and new events together, then new events at once', () => {
    const { bench, stream } = behind();
    vi.advanceTimersByTime(INTERVAL_MS);
    bench.write({ a: '2' });
    requestProgress(stream);
    expect(sizes(stream)).toEqual([[2_002n, 2_000]]);
    vi.advanceTimersByTime(INTERVAL_MS);
    expect(sizes(stream)).toEqual([[2_003n, 3]]);
    bench.write({ a: '3' });
    expect(taken(stream)).toEqual([[2_004n, 'a=3@2004']]);
  });

  test('ends if its next revision is compacted meanwhile', () => {
    const { bench, stream } = behind();
    bench.member.store.compact(2_000n);
    expect(stream.take()).toEqual([]);
    vi.advanceTimersByTime(INTERVAL_MS);
    expect(stream.take()).toEqual([response(bench, 0n, { watchId: 0n, canceled: true, compactRevision: 2_000n })]);
  });

  test('receives nothing more after its cancellation', () => {
    const { stream } = behind();
    cancel(stream, 0n);
    stream.take();
    vi.advanceTimersByTime(3 * INTERVAL_MS);
    expect(stream.take()).toEqual([]);
  });

  test('leaves no timer when the client cancels the call', () => {
    const clock = new CountingClock();
    const { stream } = behind({ clock });
    expect([clock.timers, vi.getTimerCount()]).toEqual([1, 1]);
    stream.cancel();
    expect([clock.timers, vi.getTimerCount()]).toEqual([0, 0]);
  });
});
