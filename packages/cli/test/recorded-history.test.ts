import { expect, test } from 'vitest';
import { RecordedHistory } from '../src/replay/history.js';

/** Returns the history that answers with these create revisions of a key show, in this order. */
function historyOf(...created: readonly number[]): RecordedHistory {
  return new RecordedHistory(
    created.map((revision) => ({
      ms: 0,
      call: {} as never,
      kind: 'answer',
      message: { kvs: [{ key: 'color', create_revision: String(revision), mod_revision: String(revision) }] },
      status: '',
    })),
  );
}

test('the history of a recording finds the first creation of a key after a revision, whatever the order of the answers is', () => {
  for (const history of [historyOf(3, 5, 9), historyOf(9, 5, 3)]) {
    expect([2n, 3n, 4n, 5n, 8n].map((after) => history.createdAfter('color', after))).toEqual([3n, 5n, 5n, 9n, 9n]);
    expect(history.createdAfter('color', 9n)).toBeUndefined();
    expect(history.createdAfter('other', 0n)).toBeUndefined();
  }
});
