import { beforeEach, describe, expect, test } from 'vitest';
import { ManualClock } from '../../../src/testing/memory/clock.js';
import type { Message } from '../../../src/testing/raft/messages.js';
import { Raft } from '../../../src/testing/raft/raft.js';

// The leader under test has an entry of an earlier term that no other member is known to have. The tests play the other
// members, because members with this implementation never confirm such an entry without the entries after it.

const OLD_TERM = 2;
const TERM = 3;

let leader: Raft<string>;
let readable: [request: number, index: number][];
let sent: Message<string>[];

/** Two of the other four members confirm the log up to an index, and the latest round. */
function confirm(matchIndex: number): void {
  const round = Math.max(...sent.map((message) => (message.type === 'AppendEntries' ? message.round : 0)));
  for (const from of [1, 2]) leader.receive(from, { type: 'Appended', term: TERM, success: true, matchIndex, round });
}

beforeEach(() => {
  readable = [];
  sent = [];
  leader = new Raft(0, [0, 1, 2, 3, 4], {
    clock: new ManualClock(),
    random: () => 0,
    send: (_, message) => void sent.push(message),
    apply: () => {},
    readable: (request, index) => void readable.push([request, index]),
    changed: () => {},
  });
  leader.start();
  leader.receive(4, {
    type: 'AppendEntries',
    term: OLD_TERM,
    prevLogIndex: 0,
    prevLogTerm: 0,
    entries: [{ term: OLD_TERM, command: 'old' }],
    leaderCommit: 0,
    round: 0,
  });
  leader.campaign('Vote');
  for (const from of [1, 2]) leader.receive(from, { type: 'Vote', term: TERM, isPreVote: false, voteGranted: true });
  expect([leader.role, leader.term, leader.log.length]).toEqual(['leader', TERM, 2]);
});

describe('a leader with an entry of an earlier term', () => {
  test('commits this entry only together with an entry of its own term, although a majority has it', () => {
    confirm(1);
    expect(leader.commitIndex).toBe(0);
    confirm(2);
    expect(leader.commitIndex).toBe(2);
  });

  test('answers reads only after it has committed an entry of its own term', () => {
    leader.readIndex(7);
    confirm(1);
    confirm(1);
    expect(readable).toEqual([]);
    confirm(2);
    confirm(2);
    expect(readable).toEqual([[7, 2]]);
  });
});
