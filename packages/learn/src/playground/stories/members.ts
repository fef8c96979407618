import type { Story } from './stage.js';

// The stories about three members that agree by raft. m0 leads at the start.

/** Simulated time in milliseconds for each message between two members, in the story that follows one put. */
const SLOW_MS = 400;

export const MEMBER_STORIES: readonly Story[] = [
  {
    id: 'put',
    title: 'Where a put goes',
    question: 'What happens inside etcd between a put and its answer?',
    members: 3,
    scenes: [
      {
        says: 'B puts the key ledger, and calls m1, a follower. Only the leader adds entries to the log, so m1 forwards the put to m0.',
        does: async (stage) => {
          stage.slowMembers(SLOW_MS);
          stage.check('m0 leads', stage.leader === 'm0');
          stage.b.app.write();
          await stage.until('m1 forwards the put', () =>
            stage.playground.steps.some(({ label }) => label === 'a write for the leader'),
          );
        },
        shows: 'a write for the leader',
      },
      {
        says: 'm0 appends the put to its log as entry 2, and sends the entry to m1 and m2. Meanwhile, a real etcd also writes it to its disk. This page has no disks.',
        does: async (stage) => {
          await stage.until('m0 has the entry', () => stage.logs(2) === 'm0');
          stage.check('no member has committed it', stage.commits(2) === '');
        },
        shows: 'append entry 2',
      },
      {
        says: 'm1 and m2 append the entry to their logs, write it to their disks, and confirm it. The border of the entry is dashed, because no member has committed it.',
        does: async (stage) => {
          await stage.until('all members have the entry', () => stage.logs(2) === 'm0, m1, m2');
          stage.check('no member has committed it', stage.commits(2) === '');
        },
        shows: 'I have entry 2',
      },
      {
        says: 'm0 has the first confirmation, so two of three members have the entry: a majority. m0 commits the entry, applies it to its store, and tells the followers.',
        does: async (stage) => {
          await stage.until('m0 commits the entry', () => stage.commits(2) !== '');
          stage.check('only m0 has committed it', stage.commits(2) === 'm0');
        },
        shows: 'entry 2 is committed',
      },
      {
        says: 'm1 learns that entry 2 is committed. It applies the entry to its own store, and answers B.',
        does: async (stage) => {
          await stage.until('B has the answer', () => stage.b.app.lastWrite === 'applied');
          stage.check('all members have committed it', stage.commits(2) === 'm0, m1, m2');
        },
        shows: 'put applied',
      },
      {
        says: 'The answer means that a majority has the put on its disks, so the loss of one member cannot undo it. All members apply one log in one order, so their stores become equal.',
        shows: 'put applied',
      },
    ],
  },
  {
    id: 'leader-dies',
    title: 'The leader dies',
    question: 'Who decides which writes count when the leader is gone?',
    members: 3,
    scenes: [
      {
        says: 'Three members keep one store, and m0 leads. A writes: m0 appends an entry to its log, and sends it to m1 and m2.',
        does: async (stage) => {
          stage.a.knows(stage.member(0), stage.member(1), stage.member(2));
          stage.check('m0 leads', stage.leader === 'm0');
          await stage.writes(stage.a);
        },
        shows: 'append entry',
      },
      {
        says: 'Two of the three have the entry. That is a majority, so the entry is committed, and m0 answers A. From now on, the loss of one member cannot undo the write.',
        shows: 'put applied',
      },
      {
        says: 'm0 is killed. The others hear no heartbeat, and after one to two seconds one of them asks for votes.',
        does: async (stage) => {
          const [killed] = [stage.member(0)];
          stage.playground.toggleMember(killed);
          await stage.elects(killed);
        },
        shows: 'vote for me',
      },
      {
        says: ({ leader }) =>
          `${leader} has two of three votes, its own included. It leads a new term. A term has at most one leader, because each member votes once in it.`,
        shows: 'my vote is yours',
      },
      {
        says: ({ leader }) =>
          `A writes again. Its client finds a member that answers, and ${leader} commits the entry with the other one.`,
        does: async (stage) => stage.check('the write is applied', (await stage.writes(stage.a)) === 'applied'),
        shows: 'put applied',
      },
      {
        says: 'm0 starts again, as a follower. The leader sends it the entries that it lacks.',
        does: async (stage) => {
          stage.playground.toggleMember(stage.member(0));
          const { raft } = stage.playground.server.leader ?? stage.member(1);
          await stage.until('m0 is up to date', () => stage.member(0).raft?.lastApplied === raft?.commitIndex);
        },
        shows: 'append entr',
      },
    ],
  },
  {
    id: 'cut-off',
    title: 'Old data, or no answer',
    question: 'What does a read return at a member that has lost the others?',
    members: 3,
    scenes: [
      {
        says: 'A calls m0, the leader, and writes. C calls m2, and reads. m2 first asks the leader which entry is the latest, so the read is linearizable.',
        does: async (stage) => {
          stage.check('m0 leads', stage.leader === 'm0');
          await stage.writes(stage.a);
          stage.check('C reads the entry', (await stage.reads(stage.c, 'linearizable')) === 'A 1');
        },
        shows: 'which entry is the latest',
      },
      {
        says: 'The network cuts m2 off from the other members. C still reaches it. A writes again: m0 and m1 are a majority.',
        does: async (stage) => {
          stage.playground.toggleCut(stage.member(2));
          stage.check('the write is applied', (await stage.writes(stage.a)) === 'applied');
        },
        shows: 'append entry',
      },
      {
        says: 'C reads serializably: m2 answers at once from its own store, and the answer is old.',
        does: async (stage) => stage.check('the read is old', (await stage.reads(stage.c, 'serializable')) === 'A 1'),
        shows: 'found ledger',
      },
      {
        says: 'C reads linearizably: m2 may not answer before the leader has confirmed, and cannot reach it. After 3 s, C gives up.',
        does: async (stage) =>
          stage.check('the read fails', (await stage.reads(stage.c, 'linearizable')) === undefined),
        shows: 'which entry is the latest',
      },
      {
        says: 'The network works again. m2 receives the entry that it lacks, and the same read returns the latest entry.',
        does: async (stage) => {
          stage.playground.toggleCut(stage.member(2));
          await stage.until('m2 has the entry', () => stage.logs(3) === 'm0, m1, m2');
          stage.check('the read is current', (await stage.reads(stage.c, 'linearizable')) === 'A 2');
        },
        shows: 'found ledger',
      },
      {
        says: 'So a read is either certainly current, or certainly answered, but not both. etcd lets each call choose, and linearizable is the default.',
      },
    ],
  },
  {
    id: 'minority',
    title: 'A minority grants no lock',
    question: 'Can two clients hold the lock, one on each side of a cut?',
    members: 3,
    scenes: [
      {
        says: 'm0 leads, and A calls it. B calls m1 and m2. All members reach each other, so A takes the lock, and releases it.',
        does: async (stage) => {
          stage.check('m0 leads', stage.leader === 'm0');
          stage.b.knows(stage.member(1), stage.member(2));
          await stage.locks(stage.a);
          stage.a.app.unlock();
          await stage.until('the lock is free', () => stage.playground.queue.length === 0);
        },
        shows: 'applied: no contender is ahead',
      },
      {
        says: 'The network cuts m0 off. A asks for the lock: m0 appends the entry to its log, but no other member receives it.',
        does: async (stage) => {
          stage.playground.toggleCut(stage.member(0));
          const { length } = stage.member(0).raft?.log ?? [];
          stage.a.app.lock();
          await stage.until('m0 has the entry', () => (stage.member(0).raft?.log.length ?? 0) > length);
          stage.check('A does not hold the lock', stage.a.app.token === undefined);
        },
        shows: 'append entry',
      },
      {
        says: 'One of three is no majority, so the entry is not committed, and m0 grants nothing. After a second without answers, m0 stops leading, and the others elect a leader.',
        does: (stage) => stage.elects(stage.member(0)),
        shows: 'vote for me',
      },
      {
        says: ({ leader }) =>
          `B asks for the lock. m1 and m2 are a majority: ${leader} commits the entry, and B holds the lock.`,
        does: async (stage) => {
          await stage.locks(stage.b);
          stage.check('A does not hold the lock', stage.a.app.token === undefined);
        },
        shows: 'applied: no contender is ahead',
      },
      {
        says: 'The network works again. m0 follows the new leader. Its own entry was never committed, so m0 discards it, and takes the entries of the leader instead.',
        does: async (stage) => {
          stage.playground.toggleCut(stage.member(0));
          const { server } = stage.playground;
          await stage.until('m0 follows', () => stage.member(0).raft?.lastApplied === server.leader?.raft?.commitIndex);
        },
        shows: 'append entr',
      },
      {
        says: 'Two majorities of three members have a member in common. So the cluster never grants one lock on both sides of a cut.',
        does: (stage) => stage.check('only B holds the lock', stage.a.app.token === undefined),
        shows: 'append entr',
      },
    ],
  },
];
