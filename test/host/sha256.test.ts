import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Sha256 } from '../../src/host/sha256.js';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

test('`Sha256` returns the same digest as `node:crypto`, no matter how the input is split', () => {
  expect(hex(new Sha256().digest())).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 8 }), (pieces) => {
      const [ours, theirs] = [new Sha256(), createHash('sha256')];
      for (const piece of pieces) {
        ours.update(piece);
        theirs.update(piece);
      }
      expect(hex(ours.digest())).toBe(theirs.digest('hex'));
    }),
  );
});

test('`Sha256` returns the same digest as `node:crypto` for every input length below 200 bytes', () => {
  for (let length = 0; length < 200; length += 1) {
    const bytes = new Uint8Array(length).fill(length);
    expect(hex(new Sha256().update(bytes).digest())).toBe(createHash('sha256').update(bytes).digest('hex'));
  }
});
