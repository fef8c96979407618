import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ConnectionError } from '../../../src/wire/http2/frame.js';
import { FrameReader } from '../../../src/wire/http2/frame-reader.js';
import { frame } from '../../support/http2-frames.js';

// These tests check how the client splits chunks of bytes into frames: RFC 9113, section 4.1.

const SEED = 9_113;

interface Read {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: string;
}

describe('the frame reader', () => {
  const frames = fc.array(
    fc.record({
      type: fc.nat({ max: 255 }),
      flags: fc.nat({ max: 255 }),
      streamId: fc.nat({ max: 2 ** 31 - 1 }),
      payload: fc.oneof(
        fc.uint8Array({ maxLength: 20 }),
        fc.constantFrom(255, 256, 16_383, 16_384).map((length) => new Uint8Array(length).fill(length)),
      ),
    }),
    { minLength: 1, maxLength: 8 },
  );

  test('passes on the same frames for any division of the bytes into chunks', () => {
    fc.assert(
      fc.property(frames, fc.array(fc.oneof(fc.nat({ max: 12 }), fc.nat({ max: 20_000 }))), (sent, sizes) => {
        const bytes = Buffer.concat(
          sent.map(({ type, flags, streamId, payload }) => frame(type, flags, streamId, payload)),
        );
        const { read, push } = reading();
        let at = 0;
        for (const size of sizes) {
          push(bytes.subarray(at, at + size));
          at = Math.min(bytes.length, at + size);
        }
        push(bytes.subarray(at));
        expect(read).toEqual(sent.map((each) => ({ ...each, payload: Buffer.from(each.payload).toString('hex') })));
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  test('passes on a frame as soon as the last octet of the frame arrives when octets arrive one at a time', () => {
    const { read, push } = reading();
    const [first, second] = [frame('PING', 0, 0, new Uint8Array(8)), frame('SETTINGS', 1, 0)];
    for (const octet of first.subarray(0, -1)) push(Uint8Array.of(octet));
    expect(read).toEqual([]);
    push(first.subarray(-1));
    expect(read.length).toBe(1);
    for (const octet of second) push(Uint8Array.of(octet));
    expect(read.length).toBe(2);
  });

  test('reads the right stream identifier when the reserved bit before the identifier is set', () => {
    const { read, push } = reading();
    push(frame('DATA', 0, 0x8000_0003));
    expect(read[0]?.streamId).toBe(3);
  });
});

describe('a frame longer than SETTINGS_MAX_FRAME_SIZE (4.2)', () => {
  const header = frame('DATA', 0, 1, new Uint8Array(16_385)).subarray(0, 9);

  test('is refused as soon as its header has arrived', () => {
    expect(() => reading().push(header)).toThrow(ConnectionError);
  });

  test('is refused when its header arrives in pieces after another frame', () => {
    const { read, push } = reading();
    push(Buffer.concat([frame('SETTINGS', 1, 0), header.subarray(0, 2)]));
    expect(read.length).toBe(1);
    expect(() => {
      for (const octet of header.subarray(2)) push(Uint8Array.of(octet));
    }).toThrow(expect.objectContaining({ code: 6 }));
  });

  test('is refused when its length is the maximum that a frame header can express', () => {
    expect(() => reading().push(Buffer.of(0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1))).toThrow(ConnectionError);
  });
});

test('a stopped frame reader passes on no more frames, not even the frames in the rest of the chunk', () => {
  const { read, push, reader } = reading(() => reader.stop());
  const three = Buffer.concat([1, 3, 5].map((streamId) => frame('DATA', 0, streamId)));
  push(three);
  push(three);
  expect(read.map(({ streamId }) => streamId)).toEqual([1]);
});

/** Returns a frame reader, the list of the frames that it has passed on, and a function that gives it a chunk. */
function reading(onFrame: () => void = () => {}): {
  readonly read: Read[];
  readonly reader: FrameReader;
  push(chunk: Uint8Array): void;
} {
  const read: Read[] = [];
  const reader = new FrameReader({
    frame: (type, flags, streamId, bytes, start, end) => {
      read.push({ type, flags, streamId, payload: Buffer.from(bytes.subarray(start, end)).toString('hex') });
      onFrame();
    },
  });
  const push = (chunk: Uint8Array): void => {
    const copy = Uint8Array.from(chunk);
    reader.push(copy);
    // Overwrite the chunk, as a runtime does when it reuses its buffer for the next read.
    copy.fill(0xee);
  };
  return { read, reader, push };
}
