import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EtcdError } from '../../../src/errors.js';
import {
  answerHeaders,
  CREATE_WATCH,
  put,
  range,
  rangeAnswer,
  rangeMessage,
  trailers,
  watch,
  watchMessage,
} from '../../support/http2-calls.js';
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
} from '../../support/http2-frames.js';
import { Http2Peer, turn } from '../../support/http2-peer.js';

// Whatever a peer sends: every call ends, by an EtcdError if not by its answer; nothing else is thrown, and the client
// keeps to the rules itself.

const SEED = 7_541;
const RUNS = 3_000;

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
/** An octet of one place is another: most of what follows is read in a way that nobody meant. */
const flip = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), fc.nat({ max: 255 }));

const conversation = fc.record({
  pieces: fc.array(
    fc.oneof(
      { weight: 30, arbitrary: RIGHT_FRAME },
      { weight: 2, arbitrary: ANY_FRAME },
      { weight: 1, arbitrary: ANY_BLOCK },
    ),
    { maxLength: 14 },
  ),
  greeting: fc.oneof(
    { weight: 20, arbitrary: fc.constant(Buffer.concat([settings(), settingsAck])) },
    { weight: 1, arbitrary: ANY_FRAME },
  ),
  flips: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(flip, { maxLength: 2 }) },
  ),
  sizes: fc.array(fc.nat({ max: 60 }), { maxLength: 20 }),
  pause: fc.boolean(),
});

test('every call ends as an answer or an error, whatever the peer sends', { timeout: 120_000 }, async () => {
  let answered = 0;
  await fc.assert(
    fc.asyncProperty(conversation, async ({ pieces, greeting, flips, sizes, pause }) => {
      const peer = new Http2Peer({ greeting: false });
      const calls = [range(peer), put(peer)];
      const watching = watch(peer);
      watching.stream.send(CREATE_WATCH);
      if (pause) watching.stream.pause();
      await turn();

      const { connection } = peer;
      const bytes = Buffer.concat([greeting, ...pieces]);
      for (const [place, octet] of flips) bytes[Math.floor(place * bytes.length)] = octet;
      let at = 0;
      for (const [index, size] of sizes.entries()) {
        connection.send(bytes.subarray(at, at + size));
        at += size;
        if (index % 5 === 4) await turn();
      }
      connection.send(bytes.subarray(at));
      if (pause) watching.stream.resume();
      // Calls that were moved end with the next connection.
      for (let turns = 0; turns < 6; turns += 1) {
        await turn();
        for (const each of peer.connections) each.lose();
      }

      let settled = 0;
      for (const call of calls) {
        call.then(
          () => {
            settled += 1;
            answered += 1;
          },
          (error: unknown) => {
            settled += 1;
            expect(error).toBeInstanceOf(EtcdError);
            expect((error as EtcdError).method).toMatch(/^\/etcdserverpb.KV/);
          },
        );
      }
      await turn();
      expect([settled, watching.end === undefined]).toEqual([2, false]);
      expect(peer.breaches).toEqual([]);
    }),
    { seed: SEED, numRuns: RUNS },
  );
  // Else nothing was tried but greetings.
  expect(answered).toBeGreaterThan(RUNS / 20);
});
