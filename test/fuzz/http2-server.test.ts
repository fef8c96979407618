import fc from 'fast-check';
import { expect } from 'vitest';
import { ManualClock } from '../../src/testing/memory/clock.js';
import { changedBytes } from '../support/changed-bytes.js';
import { fromHex, fuzz, hex } from '../support/fuzz.js';
import {
  data,
  FLAG,
  frame,
  goAway,
  grpcMessage,
  headers,
  PREFACE,
  ping,
  rstStream,
  settings,
  settingsAck,
  windowUpdate,
  words,
} from '../support/http2-frames.js';
import { block } from '../support/http2-hpack.js';
import { turn } from '../support/http2-peer.js';
import { RawClient, requestBlock } from '../support/http2-raw-client.js';

// A client of the HTTP/2 server sends arbitrary bytes. The server must throw nothing, obey the rules of HTTP/2, still
// answer, unless it has closed the connection, and end every call when the connection ends.

const MAX_STREAMS = 4;

/** The actions that a conversation can contain apart from bytes that the client sends. */
const ACTIONS = ['turn', 'respond', 'end', 'answer', 'advance', 'congest', 'drain', 'leave'] as const;

type Action = (typeof ACTIONS)[number];

/** The steps of one run: octets that the client sends, in hexadecimal, and actions. */
type Conversation = readonly string[];

const streamId = fc.constantFrom(0, 1, 3, 5, 7, 9, 2, 2 ** 31 - 1);
const payload = fc.uint8Array({ maxLength: 40 });
const ANY_FRAME = fc
  .tuple(fc.nat({ max: 11 }), fc.nat({ max: 255 }), streamId, payload)
  .map(([type, flags, id, bytes]) => frame(type, flags, id, bytes));
const PATHS = ['KV/Range', 'KV/Put', 'Watch/Watch', 'Maintenance/Snapshot', 'KV/None'];

/** The kinds of frames that a client may send. Those of the first list open a stream. */
const OPENING = ['call', 'headers', 'padded headers', 'deadline'] as const;
const OTHER = [
  ...['trailers', 'message', 'data', 'any message', 'padded data', 'reset', 'stream window', 'connection window'],
  ...['ping', 'initial window', 'frame size', 'header list size', 'goaway'],
] as const;

/** A frame of a kind. `back` selects a stream: 0 for the newest stream, 1 for the one before. */
interface Choice {
  readonly kind: string;
  readonly back: number;
  readonly number: number;
}

const CHOICE: fc.Arbitrary<Choice> = fc.record({
  kind: fc.oneof(
    { weight: 2, arbitrary: fc.constantFrom(...OPENING) },
    { weight: 3, arbitrary: fc.constantFrom(...OTHER) },
  ),
  back: fc.constantFrom(0, 0, 0, 0, 1, 1, 2),
  number: fc.nat({ max: 70_000 }),
});

/** Returns a frame of this kind that is valid on stream `id`, if the stream allows it. `number` varies the contents. */
function rightFrame(kind: string, id: number, number: number): Buffer {
  const path = `/etcdserverpb.${PATHS[number % PATHS.length]}`;
  const key = ['a', 'held', 'text', 'defect', '99999 bytes'][number % 5] as string;
  const message = grpcMessage(Buffer.concat([Buffer.from([0x0a, key.length]), Buffer.from(key)]));
  const endStream = number % 2 === 0;
  switch (kind) {
    case 'call':
      return Buffer.concat([headers(id, requestBlock([], path)), data(id, message, { endStream })]);
    case 'headers':
      return headers(id, requestBlock([], path));
    case 'padded headers':
      return headers(id, requestBlock([], path), { endStream, padding: number % 256, priority: true });
    case 'deadline':
      return headers(id, requestBlock([['grpc-timeout', `${number % 9}S`]], path));
    case 'trailers':
      return headers(id, block([['a', 'b']]), { endStream: true });
    case 'message':
      return data(id, message, { endStream });
    case 'data':
      return data(id, message.subarray(0, number % 10), { endStream });
    case 'any message':
      return data(id, grpcMessage(new Uint8Array(number % 300), number % 3));
    case 'padded data':
      return data(id, message, { padding: number % 256 });
    case 'reset':
      return rstStream(id, number % 14);
    case 'stream window':
      return windowUpdate(id, number + 1);
    case 'connection window':
      return windowUpdate(0, number + 1);
    case 'ping':
      return ping(words(0, number % 4), number % 2);
    case 'initial window':
      return settings({ INITIAL_WINDOW_SIZE: number });
    case 'frame size':
      return settings({ MAX_FRAME_SIZE: 16_384 + number, HEADER_TABLE_SIZE: number % 300 });
    case 'header list size':
      return settings({ MAX_HEADER_LIST_SIZE: number % 400 });
    default:
      return goAway(0, number % 14);
  }
}

/** Returns the frames in order. Each opening frame uses the next stream identifier. */
function rightFrames(choices: readonly (readonly (Choice | string)[])[]): string[] {
  let last = -1;
  return choices.map((each) =>
    each
      .map((choice) => {
        if (typeof choice === 'string') return choice;
        if (OPENING.some((kind) => kind === choice.kind)) last += 2;
        const id = Math.max(1, OPENING.some((kind) => kind === choice.kind) ? last : last - 2 * choice.back);
        return hex(rightFrame(choice.kind, id, choice.number));
      })
      .join(''),
  );
}

const ANY_BLOCK = fc
  .tuple(streamId, payload, fc.boolean())
  .map(([id, bytes, endStream]) => headers(id, bytes, { endStream }));
const ANYTHING = fc
  .oneof(
    ANY_FRAME,
    ANY_BLOCK,
    changedBytes(
      CHOICE.map(({ kind, number }): Uint8Array => rightFrame(kind, 1, number)),
      2,
    ),
  )
  .map(hex);
const sent: fc.Arbitrary<readonly (Choice | string)[]> = fc.array(
  fc.oneof({ weight: 60, arbitrary: CHOICE }, { weight: 1, arbitrary: ANYTHING }),
  { minLength: 1, maxLength: 6 },
);
const greeting = fc.oneof(
  { weight: 20, arbitrary: fc.constant(Buffer.concat([Buffer.from(PREFACE), settings(), settingsAck])) },
  { weight: 1, arbitrary: changedBytes(fc.constant(Buffer.concat([Buffer.from(PREFACE), settings()])), 1) },
);
const action: fc.Arbitrary<readonly string[]> = fc.constantFrom(...ACTIONS).map((name) => [name]);
const inputs: fc.Arbitrary<Conversation> = fc
  .tuple(
    greeting,
    fc.array(fc.oneof({ weight: 3, arbitrary: sent }, { weight: 2, arbitrary: action }), { maxLength: 12 }),
  )
  .map(([first, rest]) => [hex(first), ...rightFrames(rest)]);

fuzz<Conversation>({
  target: 'http2-server',
  property: 'the server obeys HTTP/2 and ends every call when the client sends arbitrary bytes',
  inputs,
  runs: 3_000,
  parts: { answered: 0.3, closed: 0.1 },
  check: async (conversation) => {
    const talk = new Talk();
    for (const step of conversation) {
      if (isAction(step)) await talk.act(step);
      else await talk.send(fromHex(step));
    }
    return talk.end();
  },
});

function isAction(step: string): step is Action {
  return ACTIONS.some((action) => action === step);
}

class Talk {
  readonly #timers = new Set<() => void>();
  readonly #clock = new ManualClock();
  readonly #client = new RawClient({
    greeting: false,
    maxConcurrentStreams: MAX_STREAMS,
    maxReceiveBytes: 1_000,
    clock: {
      now: () => this.#clock.now(),
      after: (delayMs, action) => {
        const cancel = this.#clock.after(delayMs, () => {
          this.#timers.delete(action);
          action();
        });
        this.#timers.add(action);
        return () => {
          this.#timers.delete(action);
          cancel();
        };
      },
    },
  });

  async send(bytes: Uint8Array): Promise<void> {
    // The client first receives what the server has written, because its checks of the server depend on this order.
    await turn();
    this.#client.send(bytes);
    expect(this.#timers.size).toBeLessThanOrEqual(MAX_STREAMS);
  }

  act(action: Action): Promise<void> | void {
    const { service, server } = this.#client.served;
    switch (action) {
      case 'turn':
        return turn();
      case 'respond':
        for (const { responses } of service.watches) responses.send({ cancelReason: 'x'.repeat(20_000) });
        return;
      case 'end':
        for (const { responses } of service.watches) responses.end();
        return;
      case 'answer':
        for (const call of service.held) call.answer();
        return;
      case 'advance':
        return this.#clock.advance(3_000);
      case 'congest':
        this.#client.roomy = false;
        return;
      case 'drain':
        return this.#client.drain();
      case 'leave':
        return server.leave();
    }
  }

  /** Checks that the server still answers, or has closed the connection, and that nothing is left of the connection. */
  async end(): Promise<string> {
    const client = this.#client;
    client.drain();
    await turn();
    const before = client.sent('PING').filter(({ flags }) => flags === FLAG.ACK).length;
    // If the bytes so far end within a frame, this PING completes the frame, or is a part of its payload.
    client.send(ping(words(0, 0)));
    await turn();
    const answers = client.sent('PING').filter(({ flags }) => flags === FLAG.ACK).length - before;
    const end = client.closed ? 'closed' : answers > 0 ? 'answered' : 'within a frame';
    expect(client.closed).toBe(client.served.server.connections === 0);
    client.lose();
    await turn();
    expect(client.served.server.connections).toBe(0);
    expect(this.#timers.size).toBe(0);
    client.expectNoBreach();
    for (const { ends } of client.served.service.watches)
      expect(ends.filter((what) => what === 'canceled').length).toBeLessThan(2);
    for (const { call, ends } of client.served.service.watches)
      if (ends.includes('canceled')) expect(call.signal.aborted).toBe(true);
    return end;
  }
}
