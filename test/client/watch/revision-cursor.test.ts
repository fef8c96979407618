import { describe, expect, test } from 'vitest';
import { RevisionCursor } from '../../../src/client/watch/server-watch.js';

// The cursor of a watch holds the revision from which the watch resumes on a new stream, and detects repeated events
// (rules S2 and S3 in docs/semantics.md).

describe('the cursor of a watch (S2, S3)', () => {
  test('resumes after the last delivered revision even if the header revision of the creation is far ahead', () => {
    const cursor = new RevisionCursor(5n);
    cursor.created(900n);
    cursor.delivered(7n);
    expect(cursor.resume).toBe(8n);
  });

  test('resumes after the header revision of a progress notification', () => {
    const cursor = new RevisionCursor(5n);
    cursor.progressed(40n);
    expect(cursor.resume).toBe(41n);
  });

  test('accepts an event below the revision of an earlier progress reply', () => {
    const cursor = new RevisionCursor(5n);
    cursor.progressed(40n);
    expect(cursor.isRepeat(39n)).toBe(false);
    cursor.delivered(39n);
    expect([cursor.isRepeat(39n), cursor.resume]).toEqual([true, 41n]);
  });

  test('resumes after the creation revision when the watch starts from now', () => {
    const cursor = new RevisionCursor(0n);
    expect(cursor.resume).toBe(0n);
    cursor.created(10n);
    expect(cursor.resume).toBe(11n);
  });

  test('accepts an event at the creation revision when the watch starts from now', () => {
    const cursor = new RevisionCursor(0n);
    cursor.created(11n);
    expect(cursor.isRepeat(11n)).toBe(false);
    cursor.delivered(11n);
    expect(cursor.isRepeat(11n)).toBe(true);
  });

  test('keeps a start revision in the future until the watch has delivered events from there', () => {
    const cursor = new RevisionCursor(1_000n);
    cursor.created(10n);
    cursor.progressed(20n);
    expect(cursor.resume).toBe(1_000n);
    cursor.delivered(1_000n);
    expect(cursor.resume).toBe(1_001n);
  });

  test('never moves back to an earlier revision', () => {
    const cursor = new RevisionCursor(0n);
    cursor.created(50n);
    cursor.delivered(60n);
    cursor.progressed(55n);
    cursor.created(40n);
    cursor.delivered(52n);
    expect(cursor.resume).toBe(61n);
  });
});
