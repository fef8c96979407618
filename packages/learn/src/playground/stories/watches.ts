import type { Stage, Story } from './stage.js';

// The stories about watches.

/** Cuts the wire of B, and lets A write three entries. */
async function bMissesEntries(stage: Stage): Promise<void> {
  stage.b.cutWire();
  for (let entry = 0; entry < 3; entry += 1) await stage.writes(stage.a);
}

export const WATCH_STORIES: readonly Story[] = [
  {
    id: 'resumed-watch',
    title: 'A watch survives a cut',
    question: 'Which events does a watcher miss while its wire is cut?',
    members: 1,
    scenes: [
      {
        says: 'B watches the ledger.',
        does: (stage) => stage.watches(stage.b),
        shows: 'watch ledger',
      },
      {
        says: 'A writes, and B receives an event. Each event carries the revision that made it.',
        does: async (stage) => {
          await stage.writes(stage.a);
          await stage.until('B sees the entry', () => stage.b.app.seen.length === 1);
        },
        shows: 'ledger = A 1',
      },
      {
        says: 'The wire of B is cut. A writes three more entries, of which B hears nothing.',
        does: bMissesEntries,
      },
      {
        says: 'The wire works again. B asks for all events after the last revision that it has seen.',
        does: async (stage) => {
          stage.b.mendWire();
          await stage.until('B has seen all entries', () => stage.b.app.seen.length >= 4);
        },
        shows: 'watch ledger from revision 3',
      },
      {
        says: 'None is missed: B has all entries, in their order, and none of them twice.',
        shows: 'ledger = A 2',
        does: (stage) => stage.check('each entry arrived once', stage.b.app.seen.join() === 'A 1,A 2,A 3,A 4'),
      },
    ],
  },
  {
    id: 'compaction',
    title: 'History is compacted',
    question: 'What if the events that a watcher missed do not exist any more?',
    members: 1,
    scenes: [
      {
        says: 'B watches the ledger. Its wire is cut, and A writes three entries.',
        does: async (stage) => {
          await stage.watches(stage.b);
          await stage.writes(stage.a);
          await stage.until('B sees the entry', () => stage.b.app.seen.length === 1);
          await bMissesEntries(stage);
        },
      },
      {
        says: 'An operator compacts the store: etcd forgets all older revisions.',
        does: ({ playground }) => playground.compact(),
      },
      {
        says: 'The wire works again. B asks for the events after its last revision, and etcd no longer has them.',
        does: async (stage) => {
          stage.b.mendWire();
          await stage.until('B reads the ledger', () => stage.b.app.seen.at(-1) === 'A 4');
        },
        shows: 'watch canceled',
      },
      {
        says: 'The watch ended with an error instead of a gap. The program of B read the ledger, and watches from there.',
        does: async (stage) => {
          await stage.writes(stage.a);
          await stage.until('B sees the new entry', () => stage.b.app.seen.at(-1) === 'A 5');
          stage.check('B missed two entries and knows it', stage.b.app.seen.join() === 'A 1,A 4,A 5');
        },
        shows: 'ledger = A 5',
      },
      {
        says: 'No client can deliver events that are gone. It must say so, and etcdwire does.',
        shows: 'watch canceled',
      },
    ],
  },
];
