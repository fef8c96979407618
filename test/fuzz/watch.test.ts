import fc from 'fast-check';
import { expect } from 'vitest';
import { ClientEvents } from '../../src/base/log.js';
import { prefix } from '../../src/client/kv/keys.js';
import { KeyWatch } from '../../src/client/watch/watch.js';
import { WatchStream } from '../../src/client/watch/watch-stream.js';
import { ResponseHeader } from '../../src/gen/etcdserverpb/rpc.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { Channel } from '../../src/rpc/channel.js';
import { Rpc } from '../../src/rpc/rpc.js';
import type { Transport } from '../../src/wire/transport.js';
import { fuzz } from '../support/fuzz.js';
import { JudgedWatch } from '../support/judged-watch.js';
import { type Play, playing, script } from '../support/script.js';
import { MEMBER, SimulatedStore, SimulatedWatchStream, type WatchServerKind } from '../support/simulated-watches.js';
import type { VirtualClock } from '../support/virtual-clock.js';

// The server is correct, but its streams break at any time. A watch must not lose, repeat or reorder events, and must
// deliver the events of one revision together.

/**
 * The maximum number of open streams: the stream that all watches share, and streams of watches that are far behind.
 */
const MAX_STREAMS = 5;
const KEYS = ['a', 'b', 'c'] as const;
/** The ranges to watch: a single key, or undefined for every key. */
const RANGES = ['a', 'b', undefined] as const;
const BUFFERS = [1, 700, 40_000, 8 * 1024 * 1024] as const;
/**
 * The revision at which `put many` stops. For a history of this length, the client needs several server-side watches in
 * succession, and yet a run stays short.
 */
const LONGEST = 3_000n;

type Step =
  /** Chooses the kind of server. This is the first step of a script. */
  | ({ readonly do: 'server' } & WatchServerKind)
  /** Restores the server's data to the state of `behind` revisions ago, and breaks all streams. */
  | { readonly do: 'restore'; readonly behind: number }
  /** `put`: puts, in one revision, the keys whose bits are set in `keys`. `put many`: puts one key `count` times. */
  | { readonly do: 'put'; readonly keys: number }
  | { readonly do: 'put many'; readonly count: number }
  /** Compacts all but the latest `behind` revisions. */
  | { readonly do: 'compact'; readonly behind: number }
  /** Opens a watch that starts at the next event, or `offset` revisions after the first or the present revision. */
  | {
      readonly do: 'watch';
      readonly from: 'now' | 'first' | 'present';
      readonly offset: number;
      readonly range: number;
      readonly buffer: number;
      readonly progress: boolean;
    }
  /** Reads `batches` batches: `take` asks for all batches at once, and `read` asks for one batch after the other. */
  | { readonly do: 'take' | 'read'; readonly watch: number; readonly batches: number }
  | { readonly do: 'close' | 'ask'; readonly watch: number }
  /** In this step and the next ones, `stream` is the index of one of the open streams. Default: the first. */
  | { readonly do: 'serve' | 'deliver'; readonly stream?: number; readonly count: number }
  /** Sends events to a watch. Starts `again` revisions before the first revision that has not been sent. */
  | {
      readonly do: 'sync';
      readonly stream?: number;
      readonly watch: number;
      readonly revisions: number;
      readonly fragment: number;
      readonly again: number;
    }
  | { readonly do: 'notify' | 'refuse'; readonly stream?: number; readonly watch: number }
  | { readonly do: 'break'; readonly stream?: number; readonly how: number }
  | { readonly do: 'exceed'; readonly stream?: number }
  | { readonly do: 'expire' }
  | { readonly do: 'pass'; readonly ms: number };

const few = fc.nat({ max: 3 });
/** Generates the index of a stream. 0 is the most frequent, because all watches usually share the first stream. */
const stream = fc.constantFrom(0, 0, 0, 1, 1, 2, 3);
const watch = fc.record({
  do: fc.constant('watch' as const),
  from: fc.constantFrom('now', 'first', 'present'),
  offset: fc.integer({ min: -2, max: 3 }),
  range: few,
  buffer: few,
  progress: fc.boolean(),
});
const STEPS: readonly fc.Arbitrary<Step>[] = [
  watch,
  fc.record({ do: fc.constant('put'), keys: fc.integer({ min: 1, max: 7 }) }),
  fc.record({ do: fc.constant('put'), keys: fc.integer({ min: 1, max: 7 }) }),
  fc.record({ do: fc.constant('put many'), count: fc.constantFrom(20, 20, 1_001, 2_500) }),
  fc.record({ do: fc.constant('compact'), behind: few }),
  fc.record({ do: fc.constant('restore'), behind: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ do: fc.constantFrom('take', 'read'), watch: few, batches: fc.constantFrom(1, 3, 20, 2_000) }),
  fc.record({ do: fc.constantFrom('close', 'ask', 'ask'), watch: few }),
  fc.record({ do: fc.constant('serve'), stream, count: fc.constantFrom(1, 2, 100) }),
  fc.record({ do: fc.constant('deliver'), stream, count: fc.constantFrom(1, 2, 100) }),
  fc.record({
    do: fc.constant('sync'),
    stream,
    watch: few,
    revisions: fc.constantFrom(1, 3, 1_000),
    fragment: few,
    again: fc.constantFrom(0, 0, 0, 1, 3),
  }),
  fc.record({ do: fc.constantFrom('notify', 'refuse'), stream, watch: few }),
  fc.record({ do: fc.constant('break'), stream, how: few }),
  fc.record({ do: fc.constant('exceed'), stream }),
  fc.record({ do: fc.constant('expire') }),
  fc.record({ do: fc.constant('pass'), ms: fc.constantFrom(1, 60, 1_100, 2_500) }),
];

const server = fc.record({ do: fc.constant('server' as const), ownIds: fc.boolean(), earlyProgress: fc.boolean() });

/** Generates first steps that open a watch and bring it into one of several states. */
const beginning = fc.oneof(
  watch.map((step): Step[] => [step]),
  watch.map((step): Step[] => [step, { do: 'serve', count: 1 }, { do: 'exceed' }, { do: 'serve', count: 1 }]),
  // A watch that receives a progress reply before the server has sent all events, and then loses its stream.
  watch.map((step): Step[] => [
    { ...step, from: 'now' },
    { do: 'serve', count: 1 },
    { do: 'deliver', count: 1 },
    { do: 'put', keys: 7 },
    { do: 'ask', watch: 0 },
    { do: 'serve', count: 1 },
    { do: 'deliver', count: 1 },
    { do: 'break', how: 0 },
  ]),
  // A watch whose cluster is restored from a backup that is older than the events that the watch has delivered.
  watch.map((step): Step[] => [
    { ...step, from: 'now' },
    { do: 'serve', count: 1 },
    { do: 'put many', count: 20 },
    { do: 'sync', watch: 0, revisions: 1_000, fragment: 0, again: 0 },
    { do: 'deliver', count: 2 },
    { do: 'read', watch: 0, batches: 20 },
    { do: 'restore', behind: 4 },
  ]),
  watch.map((step): Step[] => [
    { do: 'put many', count: 2_500 },
    { ...step, from: 'first' },
    { do: 'serve', count: 1 },
  ]),
);

fuzz<readonly Step[]>({
  target: 'watch',
  property:
    'a watch delivers the events of each revision once, in order and in one batch, even if its streams break at any time',
  inputs: fc.tuple(server, beginning, script(STEPS, 40)).map(([kind, first, rest]) => [kind, ...first, ...rest]),
  runs: 500,
  parts: { delivered: 0.3 },
  check: playing((clock) => new Watching(clock)),
});

/**
 * A client, a simulated server, and the client's watches. For each watch, a `JudgedWatch` checks the events that the
 * watch delivers.
 */
class Watching implements Play<Step> {
  readonly #clock: VirtualClock;
  readonly #store = new SimulatedStore();
  readonly #channel: Channel;
  readonly #watchStream: WatchStream;
  readonly #watched: JudgedWatch[] = [];
  readonly #closing = new AbortController();
  #streams: SimulatedWatchStream[] = [];
  #kind: WatchServerKind = MEMBER;
  /**
   * The server has issued the tokens 1 to `#tokens`, one for each stream. The server refuses the tokens 1 to
   * `#goodFrom`, because they have expired.
   */
  #tokens = 0;
  #goodFrom = 0;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
    const transport: Transport = {
      // Every unary call succeeds. When the server refuses a watch, the client makes a unary call to check whether it
      // may read the keys. The success shows that the server refused only the token.
      unary: async ({ method }) => {
        const header = { ...ResponseHeader.create(), clusterId: 1n, revision: this.#store.revision };
        return { ...method.response.create(), header, version: this.#kind.earlyProgress ? '3.5.7' : '3.6.0' };
      },
      stream: (_call, handler) => {
        const token = ++this.#tokens;
        const isTokenGood = (): boolean => token > this.#goodFrom;
        const opened = new SimulatedWatchStream(this.#store, handler as never, isTokenGood, this.#kind);
        this.#streams = [...this.#open, opened];
        expect(this.#streams.length, 'open streams').toBeLessThanOrEqual(MAX_STREAMS);
        return opened as never;
      },
      close: async () => {},
    };
    this.#channel = new Channel([parseEndpoint('http://member:2379', 'endpoint')], () => transport);
    const settings = {
      timeoutMs: 1_000,
      renewsTokens: true,
      events: new ClientEvents(),
      closed: this.#closing.signal,
      cluster: this.#channel.cluster,
    };
    this.#watchStream = new WatchStream(new Rpc(this.#channel, settings));
  }

  async step(step: Step): Promise<void> {
    const stream = this.#streamOf(step);
    switch (step.do) {
      case 'server':
        this.#kind = step;
        break;
      case 'restore':
        this.#store.restore(this.#store.revision - BigInt(step.behind), this.#channel.cluster.revision);
        for (const each of this.#open) each.break(0);
        break;
      case 'put':
        this.#store.put(KEYS.filter((_, bit) => step.keys & (1 << bit)));
        break;
      case 'put many':
        for (let count = 0; count < step.count && this.#store.revision < LONGEST; count += 1) this.#store.put(['a']);
        break;
      case 'compact':
        this.#store.compact(this.#store.revision - BigInt(step.behind));
        break;
      case 'watch':
        this.#watch(step);
        break;
      case 'take':
      case 'read':
        this.#at(step.watch)?.[step.do](step.batches);
        break;
      case 'close':
        await this.#at(step.watch)?.close();
        break;
      case 'ask':
        this.#at(step.watch)?.watch.requestProgress();
        break;
      case 'sync':
        stream?.sync(step.watch, step.revisions, step.fragment, step.again);
        break;
      case 'serve':
      case 'deliver':
        stream?.[step.do](step.count);
        break;
      case 'notify':
      case 'refuse':
        stream?.[step.do](step.watch);
        break;
      case 'break':
        stream?.break(step.how);
        break;
      case 'exceed':
        stream?.exceed();
        break;
      case 'expire':
        // Expire the tokens at most once per run. Repeated `expire` steps would refuse several new tokens in a row,
        // which no correct server does, and the client would rightly give up.
        if (this.#goodFrom === 0) this.#goodFrom = this.#tokens;
        break;
      case 'pass':
        await this.#clock.pass(step.ms);
        break;
    }
    await this.#clock.pass(0);
  }

  /** Runs the server without breaks and expects that each watch delivers all events. */
  async end(): Promise<string> {
    this.#store.put(KEYS);
    const missing = (): (bigint | string | undefined)[] => this.#watched.map((each) => each.missing());
    for (const each of this.#watched) each.read(Number.POSITIVE_INFINITY);
    // Give up when no watch has made progress for 3 s. This is longer than the client's longest backoff, which is 2 s.
    for (let before = '', idle = 0; idle < 30 && missing().some((each) => each !== undefined); idle += 1) {
      if (before !== missing().join()) idle = 0;
      before = missing().join();
      for (const each of this.#open) {
        each.serve(1_000);
        // Send events repeatedly, because the client drops the events for which a small buffer has no room.
        for (let watch = 0; watch < 40; watch += 1) each.sync(watch, idle < 3 ? 100 : 1_000, 1_000);
        each.deliver(10_000);
      }
      await this.#clock.pass(100);
    }
    // Give the client time to reconnect and to check the revision of the store.
    await this.#clock.pass(5_000);
    // No watch may be ahead of the store without an error, because it would miss all events up to its own revision.
    expect(this.#watched.filter((each) => each.isAheadOf(this.#store.revision))).toEqual([]);
    for (const { problems } of this.#watched) for (const problem of problems) throw problem;
    expect(missing().filter((each) => each !== undefined)).toEqual([]);
    const delivered = this.#watched.some(({ batches }) => batches > 0);
    await Promise.all(this.#watched.map((each) => each.close()));
    await this.#clock.pass(5_000);
    expect([this.#clock.timers, this.#open.length]).toEqual([0, 0]);
    return delivered ? 'delivered' : 'nothing';
  }

  get #open(): SimulatedWatchStream[] {
    return this.#streams.filter(({ over }) => !over);
  }

  #streamOf(step: Step): SimulatedWatchStream | undefined {
    const open = this.#open;
    return open[(('stream' in step && step.stream) || 0) % open.length];
  }

  #at(index: number): JudgedWatch | undefined {
    return this.#watched[index % this.#watched.length];
  }

  #watch({ from, offset, range, buffer, progress }: Extract<Step, { do: 'watch' }>): void {
    const base = from === 'first' ? 2n : this.#store.revision;
    const start = from === 'now' ? 0n : base + BigInt(offset) > 0n ? base + BigInt(offset) : 1n;
    const key = RANGES[range % RANGES.length];
    const bufferBytes = BUFFERS[buffer % BUFFERS.length];
    // A server with `earlyProgress` sends wrong progress replies, and a watch delivers these replies unchanged. Do not
    // ask such a server for progress, because `JudgedWatch` would report a fault of the watch.
    const isTrusted = !this.#kind.earlyProgress;
    const given = new Uint8Array(Buffer.from(key ?? ''));
    const watch = new KeyWatch(this.#watchStream, key === undefined ? prefix(given) : given, {
      startRevision: start,
      bufferBytes,
      progress: progress && isTrusted,
    });
    // Overwrite the caller's buffer. The watch must still use the original key.
    given.fill(0x7e);
    const isJudgedWatch = (changed: string): boolean => key === undefined || key === changed;
    this.#watched.push(new JudgedWatch(watch, this.#store, isJudgedWatch, start));
  }
}
