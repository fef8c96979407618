import type { Story } from './stage.js';

// The stories about three members that agree by raft. m0 leads at the start.

export const MEMBER_STORIES: readonly Story[] = [
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
        says: 'm0 leads, and A calls it. B calls m1 and m2. A opens a session, and unlocks at once: so far, all is well.',
        does: async (stage) => {
          stage.check('m0 leads', stage.leader === 'm0');
          stage.b.knows(stage.member(1), stage.member(2));
          await stage.locks(stage.a);
          stage.a.app.unlock();
          await stage.until('the lock is free', () => stage.playground.queue.length === 0);
        },
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
      },
    ],
  },
];
