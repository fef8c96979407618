import fc from 'fast-check';
import { expect } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { changedBytes } from '../support/changed-bytes.js';
import { fromHex, fuzz, hex } from '../support/fuzz.js';
import {
  answerHeaders,
  CREATE_WATCH,
  type OpenWatch,
  put,
  range,
  rangeAnswer,
  rangeMessage,
  trailers,
  watch,
  watchMessage,
} from '../support/http2-calls.js';
import {
  data,
  frame,
  goAway,
  grpcMessage,
  headers,
  ping,
  rstStream,
  settings,
  settingsAck,
  windowUpdate,
  words,
} from '../support/http2-frames.js';
import { Http2Peer, turn } from '../support/http2-peer.js';

// The peer of an HTTP/2 client sends arbitrary bytes. Every call must end with its response or with an EtcdError, the
// client must throw nothing else, and the client must obey the rules of HTTP/2.

/** The actions on the client side that a conversation can contain. */
const ACTIONS = [
  'turn',
  'get',
  'put',
  'abort',
  'write',
  'end',
  'cancel',
  'pause',
  'resume',
  'congest',
  'drain',
] as const;

type Action = (typeof ACTIONS)[number];

/** The steps of one run: octets that the peer sends, in hexadecimal, and actions on the client side. */
type Conversation = readonly string[];

const streamId = fc.constantFrom(0, 1, 3, 5, 7, 2, 2 ** 31 - 1);
const payload = fc.uint8Array({ maxLength: 40 });
const ANY_FRAME = fc
  .tuple(fc.nat({ max: 11 }), fc.nat({ max: 255 }), streamId, payload)
  .map(([type, flags, id, bytes]) => frame(type, flags, id, bytes));
const RIGHT_FRAME = fc
  .tuple(fc.constantFrom(1, 3, 5), fc.nat({ max: 70_000 }))
  .chain(([id, number]) =>
    fc.constantFrom(
      answerHeaders(id),
      data(id, rangeMessage(number)),
      data(id, watchMessage(number)),
      data(id, grpcMessage(new Uint8Array(number % 300))),
      data(id, rangeMessage(number), { padding: number % 256 }),
      trailers(id),
      trailers(id, [['grpc-status', String(number % 17)]]),
      rangeAnswer(id, number),
      rstStream(id, number % 14),
      windowUpdate(id, number + 1),
      windowUpdate(0, number + 1),
      ping(words(0, number % 4), number % 2),
      settings({ INITIAL_WINDOW_SIZE: number }),
      settings({ MAX_CONCURRENT_STREAMS: number % 3, HEADER_TABLE_SIZE: number }),
      goAway(id, number % 14),
    ),
  );
const ANY_BLOCK = fc
  .tuple(streamId, payload, fc.boolean())
  .map(([id, block, endStream]) => headers(id, block, { endStream }));
const frames = fc
  .array(
    fc.oneof(
      { weight: 30, arbitrary: RIGHT_FRAME },
      { weight: 2, arbitrary: ANY_FRAME },
      { weight: 1, arbitrary: ANY_BLOCK },
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map((each): Uint8Array => Buffer.concat(each));
const sent = fc
  .tuple(
    fc.oneof({ weight: 5, arbitrary: frames }, { weight: 1, arbitrary: changedBytes(frames, 2) }),
    fc.array(fc.nat({ max: 60 }), { maxLength: 5 }),
  )
  .map(([bytes, sizes]) => cut(bytes, sizes));
const greeting = fc.oneof(
  { weight: 20, arbitrary: fc.constant(Buffer.concat([settings(), settingsAck])) },
  { weight: 1, arbitrary: ANY_FRAME },
);
const inputs: fc.Arbitrary<Conversation> = fc
  .tuple(
    greeting,
    fc.array(
      fc.oneof(
        { weight: 3, arbitrary: sent },
        { weight: 2, arbitrary: fc.constantFrom(...ACTIONS).map((action): string[] => [action]) },
      ),
      { maxLength: 10 },
    ),
  )
  .map(([first, rest]) => [hex(first), ...rest.flat()]);

function cut(bytes: Uint8Array, sizes: readonly number[]): string[] {
  let at = 0;
  const pieces = sizes.map((size) => {
    at += size;
    return bytes.subarray(at - size, at);
  });
  return [...pieces, bytes.subarray(at)].filter(({ length }) => length > 0).map(hex);
}

fuzz<Conversation>({
  target: 'http2',
  property: 'every call ends with a response or an EtcdError when the peer sends arbitrary bytes',
  inputs,
  runs: 3_000,
  parts: { answered: 0.05 },
  check: async (conversation) => {
    const client = new BusyClient();
    for (const step of conversation) {
      if (isAction(step)) await client.act(step);
      else await client.receive(fromHex(step));
    }
    return (await client.end()) > 0 ? 'answered' : 'unanswered';
  },
});

function isAction(step: string): step is Action {
  return ACTIONS.some((action) => action === step);
}

/** A client with a get, a put and a watch in progress. */
class BusyClient {
  readonly #peer = new Http2Peer({ greeting: false, ownClose: true });
  readonly #calls: Promise<unknown>[];
  readonly #watching: OpenWatch;
  readonly #aborting = new AbortController();
  #canceled = false;

  constructor() {
    this.#calls = [range(this.#peer, { signal: this.#aborting.signal }), put(this.#peer)];
    this.#watching = watch(this.#peer);
    this.#watching.stream.send(CREATE_WATCH);
  }

  async receive(bytes: Uint8Array): Promise<void> {
    const { connection } = this.#peer;
    // Wait until a new connection is open, because the peer cannot send before then.
    if (connection.frames.length === 0) await turn();
    connection.send(bytes);
  }

  act(action: Action): Promise<void> | void {
    const { stream } = this.#watching;
    switch (action) {
      case 'turn':
        return turn();
      case 'get':
        return void this.#calls.push(range(this.#peer));
      case 'put':
        return void this.#calls.push(put(this.#peer, 70_000));
      case 'abort':
        return this.#aborting.abort();
      case 'write':
        return stream.send(CREATE_WATCH);
      case 'cancel':
        this.#canceled = true;
        return stream.cancel();
      case 'congest':
        this.#peer.connection.roomy = false;
        return;
      case 'drain':
        return this.#peer.connection.drain();
      default:
        return stream[action]();
    }
  }

  /** Ends all connections, and expects that every call and the watch end. Returns the number of successful calls. */
  async end(): Promise<number> {
    this.#watching.stream.resume();
    let settled = 0;
    let answered = 0;
    for (const call of this.#calls) {
      call.then(
        () => {
          settled += 1;
          answered += 1;
        },
        (error: unknown) => {
          if (!(error instanceof EtcdError)) throw error;
          settled += 1;
          expect(error.method).toMatch(/^\/etcdserverpb.KV/);
        },
      );
    }
    // Calls that the client has moved to another connection end when that connection closes.
    for (let turns = 0; turns < 6; turns += 1) {
      await turn();
      for (const connection of this.#peer.connections) connection.lose();
    }
    await turn();
    expect([settled, this.#canceled || this.#watching.end !== undefined]).toEqual([this.#calls.length, true]);
    await this.#peer.close();
    return answered;
  }
}
