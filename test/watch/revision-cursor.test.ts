import { describe, expect, test } from 'vitest';
import { RevisionCursor } from '../../src/watch/server-watch.js';

describe('where a watch goes on (S2, S3)', () => {
  test('after the last delivered revision, however far ahead the header is', () => {
    const cursor = new RevisionCursor(5n);
    cursor.created(900n);
    cursor.delivered(7n);
    expect(cursor.resume).toBe(8n);
  });

  test('after the header of a progress notification', () => {
    const cursor = new RevisionCursor(5n);
    cursor.progressed(40n);
    expect(cursor.resume).toBe(41n);
  });

  test('an event that comes after a progress reply which was ahead of it is no repeat', () => {
    const cursor = new RevisionCursor(5n);
    cursor.progressed(40n);
    expect(cursor.isRepeat(39n)).toBe(false);
    cursor.delivered(39n);
    expect([cursor.isRepeat(39n), cursor.resume]).toEqual([true, 41n]);
  });

  test('a watch from now goes on after the revision it was created at', () => {
    const cursor = new RevisionCursor(0n);
    expect(cursor.resume).toBe(0n);
    cursor.created(10n);
    expect(cursor.resume).toBe(11n);
  });

  test('an event on its way when a watch from now was created is no repeat', () => {
    const cursor = new RevisionCursor(0n);
    cursor.created(11n);
    expect(cursor.isRepeat(11n)).toBe(false);
    cursor.delivered(11n);
    expect(cursor.isRepeat(11n)).toBe(true);
  });

  test('a start revision in the future is kept until events pass it', () => {
    const cursor = new RevisionCursor(1_000n);
    cursor.created(10n);
    cursor.progressed(20n);
    expect(cursor.resume).toBe(1_000n);
    cursor.delivered(1_000n);
    expect(cursor.resume).toBe(1_001n);
  });

  test('it never goes back', () => {
    const cursor = new RevisionCursor(0n);
    cursor.created(50n);
    cursor.delivered(60n);
    cursor.progressed(55n);
    cursor.created(40n);
    cursor.delivered(52n);
    expect(cursor.resume).toBe(61n);
  });
});
