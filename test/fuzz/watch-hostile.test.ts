import fc from 'fast-check';
import { expect } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { ClientEvents } from '../../src/base/log.js';
import { STATUS_CODES } from '../../src/base/status.js';
import { errorFromStatus } from '../../src/base/status-error.js';
import { prefix } from '../../src/client/kv/keys.js';
import { KeyWatch, type Watch } from '../../src/client/watch/watch.js';
import { WatchStream } from '../../src/client/watch/watch-stream.js';
import { ResponseHeader, type WatchRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { Event, KeyValue } from '../../src/gen/mvccpb/kv.js';
import { Rpc } from '../../src/rpc/rpc.js';
import { encodeRequest } from '../../src/wire/messages.js';
import type { OutgoingStream, StreamHandler } from '../../src/wire/transport.js';
import { fuzz } from '../support/fuzz.js';
import { type Play, playing, script } from '../support/script.js';
import type { VirtualClock } from '../support/virtual-clock.js';
import { batchesOf } from '../support/watch-events.js';

// The server sends arbitrary responses on a watch stream. The client must throw only EtcdErrors, every watch must end
// when it is closed, and no timer may be left.

type Step =
  | { readonly do: 'watch'; readonly buffer: number; readonly progress: boolean }
  | { readonly do: 'take' | 'close' | 'ask'; readonly watch: number }
  | {
      readonly do: 'respond';
      /** Which of the open streams carries the response. Default: the first. */
      readonly stream?: number;
      readonly created: boolean;
      readonly canceled: boolean;
      readonly fragment: boolean;
      readonly id: string;
      readonly revision: string;
      readonly compacted: string;
      readonly reason: string;
      /** The revisions of the events. An empty string stands for an event without a key. */
      readonly events: readonly string[];
    }
  | { readonly do: 'break'; readonly stream?: number; readonly code: number; readonly message: string }
  /** Sets whether the server allows the client to read keys from now on. */
  | { readonly do: 'allow'; readonly allowed: boolean }
  | { readonly do: 'pass'; readonly ms: number };

const BUFFERS = [1, 700, 8 * 1024 * 1024] as const;

/**
 * The maximum number of open streams: the stream that all watches share, and streams of watches that are far behind.
 */
const MAX_STREAMS = 5;
const few = fc.nat({ max: 3 });
/** Generates the index of a stream. 0 is the most frequent, because all watches usually share the first stream. */
const stream = fc.constantFrom(0, 0, 0, 1, 1, 2, 3);
const id = fc.constantFrom('1', '1', '1', '2', '3', '4', '-1', '0', '-2', String(2n ** 63n - 1n), String(-(2n ** 63n)));
const revision = fc.oneof(
  fc.nat({ max: 9 }).map(String),
  fc.constantFrom('5', '2000', '-1', String(2n ** 63n - 1n), String(2n ** 63n - 2n), String(-(2n ** 63n))),
);
const message = fc.constantFrom(
  '',
  'etcdserver: no leader',
  'etcdserver: invalid auth token',
  'etcdserver: permission denied',
  'etcdserver: mvcc: required revision has been compacted',
  'rpc error: code = Unavailable desc = etcdserver: no leader',
  'rpc error: code = OK desc = ',
  'nobody knows',
);
const STEPS: readonly fc.Arbitrary<Step>[] = [
  fc.record({ do: fc.constant('watch'), buffer: few, progress: fc.boolean() }),
  fc.record({ do: fc.constantFrom('take', 'take', 'close', 'ask'), watch: few }),
  ...[true, false].map((created) =>
    fc.record({
      do: fc.constant('respond' as const),
      stream,
      created: fc.constant(created),
      canceled: fc.constantFrom(false, false, false, true),
      fragment: fc.boolean(),
      id,
      revision,
      compacted: fc.oneof({ weight: 5, arbitrary: fc.constant('0') }, revision),
      reason: message,
      events: fc.oneof(
        {
          weight: 9,
          arbitrary: fc.array(fc.oneof({ weight: 9, arbitrary: revision }, fc.constant('')), { maxLength: 4 }),
        },
        // A response with 1,000 revisions tells the client that the watch is far behind.
        fc.constantFrom(1, -1).map((step) => Array.from({ length: 1_000 }, (_, index) => String(1_000 + step * index))),
      ),
    }),
  ),
  fc.record({ do: fc.constant('break'), stream, code: fc.nat({ max: STATUS_CODES.length }), message }),
  fc.record({ do: fc.constant('allow'), allowed: fc.boolean() }),
  fc.record({ do: fc.constant('pass'), ms: fc.constantFrom(1, 60, 1_100, 2_500) }),
];

fuzz<readonly Step[]>({
  target: 'watch-hostile',
  property: 'when a server sends arbitrary responses, every closed watch ends, and the client throws only EtcdErrors',
  inputs: script(STEPS, 40),
  runs: 6_000,
  parts: { delivered: 0.05, quiet: 0.1 },
  check: playing((clock) => new Watching(clock)),
});

class Watching implements Play<Step> {
  readonly #clock: VirtualClock;
  readonly #watchStream: WatchStream;
  readonly #watches: Watch[] = [];
  /** The number of unsettled promises that the watches have returned. */
  #pending = 0;
  #delivered = 0;
  readonly #problems: unknown[] = [];
  #streams = 0;
  /** The handlers of the open streams. */
  #handlers: StreamHandler<WatchResponse>[] = [];
  #allowed = true;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
    const settings = {
      timeoutMs: 1_000,
      renewsTokens: true,
      events: new ClientEvents(),
      closed: new AbortController().signal,
    };
    const transport = {
      unary: async (): Promise<never> => {
        if (this.#allowed) return undefined as never;
        throw errorFromStatus('PermissionDenied', 'etcdserver: permission denied');
      },
      stream: (_call: unknown, handler: unknown): never => this.#open(handler as never) as never,
      close: async () => {},
    };
    this.#watchStream = new WatchStream(new Rpc(transport, settings));
  }

  async step(step: Step): Promise<void> {
    switch (step.do) {
      case 'watch': {
        const bufferBytes = BUFFERS[step.buffer % BUFFERS.length];
        const watch = new KeyWatch(this.#watchStream, prefix(''), { bufferBytes, progress: step.progress });
        this.#watches.push(watch);
        this.#await(watch.created());
        break;
      }
      case 'take': {
        const watch = this.#watches[step.watch % this.#watches.length];
        if (watch !== undefined) this.#await(batchesOf(watch).next());
        break;
      }
      case 'close':
        await this.#watches[step.watch % this.#watches.length]?.close();
        break;
      case 'ask':
        this.#watches[step.watch % this.#watches.length]?.requestProgress();
        break;
      case 'respond':
        this.#handlers[(step.stream ?? 0) % this.#handlers.length]?.message(responseOf(step));
        break;
      case 'break': {
        const handler = this.#handlers[(step.stream ?? 0) % this.#handlers.length];
        this.#handlers = this.#handlers.filter((each) => each !== handler);
        const code = STATUS_CODES[step.code] ?? 'OK';
        handler?.end(code === 'OK' ? undefined : errorFromStatus(code, step.message));
        break;
      }
      case 'allow':
        this.#allowed = step.allowed;
        break;
      case 'pass':
        await this.#clock.pass(step.ms);
        break;
    }
    await this.#clock.pass(0);
  }

  async end(): Promise<string> {
    const before = this.#streams;
    await this.#clock.pass(10_000);
    // No stream ends during this time, so the client opens at most the streams that it was about to open.
    expect(this.#streams - before).toBeLessThanOrEqual(MAX_STREAMS);
    for (const watch of this.#watches) await watch.close();
    await this.#clock.pass(10_000);
    for (const problem of this.#problems) throw problem;
    expect([this.#pending, this.#clock.timers, this.#handlers]).toEqual([0, 0, []]);
    return this.#delivered > 0 ? 'delivered' : 'quiet';
  }

  /** Returns the outgoing half of a stream. The steps of the script deliver the messages of the incoming half. */
  #open(handler: StreamHandler<WatchResponse>): OutgoingStream<WatchRequest> {
    this.#streams += 1;
    this.#handlers.push(handler);
    expect(this.#handlers.length, 'open streams').toBeLessThanOrEqual(MAX_STREAMS);
    return {
      send: (message) => void encodeRequest(methods.watch.watch, message, Number.POSITIVE_INFINITY),
      cancel: () => {
        this.#handlers = this.#handlers.filter((each) => each !== handler);
      },
      end: () => {},
      pause: () => {},
      resume: () => {},
    };
  }

  #await(promise: Promise<unknown>): void {
    this.#pending += 1;
    promise.then(
      () => {
        this.#pending -= 1;
        this.#delivered += 1;
      },
      (error: unknown) => {
        this.#pending -= 1;
        if (!(error instanceof EtcdError)) this.#problems.push(error);
      },
    );
  }
}

function responseOf(step: Extract<Step, { do: 'respond' }>): WatchResponse {
  const { created, canceled, fragment, events } = step;
  return {
    ...WatchResponse.create(),
    header: { ...ResponseHeader.create(), revision: BigInt(step.revision) },
    watchId: BigInt(step.id),
    created,
    canceled,
    fragment,
    compactRevision: BigInt(step.compacted),
    cancelReason: step.reason,
    events: events.map((each) => ({
      ...Event.create(),
      kv: each === '' ? undefined : { ...KeyValue.create(), key: new Uint8Array([1]), modRevision: BigInt(each) },
    })),
  };
}
