import type { Story } from './stage.js';

// The stories about the lock.

export const LOCK_STORIES: readonly Story[] = [
  {
    id: 'fair',
    title: 'A fair hand-off',
    question: 'Who gets the lock next, and how does it learn of it?',
    members: 1,
    scenes: [
      {
        says: 'A asks for the lock. It puts a key with its lease, and no key is older, so A holds the lock.',
        does: (stage) => stage.locks(stage.a),
        shows: 'applied: no contender is ahead',
      },
      {
        says: 'B asks too. It puts its own key, sees that the key of A is older, and watches only that key.',
        does: (stage) => stage.queues(stage.b),
        shows: 'watch the queue key of A',
      },
      {
        says: 'C asks as well. Its key is the youngest, so C watches the key of B, which is just ahead.',
        does: (stage) => stage.queues(stage.c),
        shows: 'watch the queue key of B',
      },
      {
        says: 'A unlocks: it deletes its key. Only B receives an event. C sleeps on.',
        does: async (stage) => {
          stage.a.app.unlock();
          await stage.until('B holds the lock', () => stage.b.app.token !== undefined);
          stage.check('C still waits', stage.c.app.token === undefined);
        },
        shows: 'the queue key of A was deleted',
      },
      {
        says: 'B unlocks. Now C receives the event, and holds the lock.',
        does: async (stage) => {
          stage.b.app.unlock();
          await stage.until('C holds the lock', () => stage.c.app.token !== undefined);
          stage.check('the queue holds C only', stage.playground.queue.length === 1);
        },
        shows: 'the queue key of B was deleted',
      },
      {
        says: ({ playground }) => {
          const held = playground.steps.filter(({ kind }) => kind === 'held');
          const tokens = held.map(({ label }) => label.match(/\d+$/)?.[0]);
          return `The fencing tokens were ${tokens.join(', ')}: the revisions that created the keys. etcd puts all changes in one order, so the queue is fair.`;
        },
        shows: 'C HOLDS THE LOCK',
      },
    ],
  },
  {
    id: 'dies',
    title: 'The holder dies',
    question: 'What frees the lock of a process that is gone?',
    members: 1,
    scenes: [
      {
        says: 'A takes the lock. B queues behind it.',
        does: async (stage) => {
          await stage.locks(stage.a);
          await stage.queues(stage.b);
        },
        shows: 'applied: A is ahead',
      },
      {
        says: 'A is killed. Its key and its lease stay in etcd, but nothing renews the lease now.',
        does: ({ a }) => a.kill(),
        shows: 'A is killed',
      },
      {
        says: 'The lease of A runs out. Until then, B can only wait, because A might still be alive.',
        does: async (stage) => {
          const leases = stage.playground.leases.length;
          await stage.until('the lease of A expires', () => stage.playground.leases.length < leases);
          await stage.until('B holds the lock', () => stage.b.app.token !== undefined);
        },
        shows: 'the lease of A has expired',
      },
      {
        says: 'etcd deleted the key of A together with its lease. B received the event and holds the lock.',
        shows: 'the queue key of A was deleted',
      },
    ],
  },
  {
    id: 'stale',
    title: 'A stale holder is fenced',
    question: 'What if a holder was only asleep, and wakes up believing that it holds the lock?',
    members: 1,
    scenes: [
      {
        says: 'A takes the lock and writes to the ledger. B queues behind it.',
        does: async (stage) => {
          await stage.locks(stage.a);
          await stage.writes(stage.a);
          await stage.queues(stage.b);
        },
        shows: 'applied: A is ahead',
      },
      {
        says: 'A is paused, as by a long garbage collection. Its lease runs out meanwhile.',
        does: async (stage) => {
          stage.a.pause();
          await stage.until('B holds the lock', () => stage.b.app.token !== undefined);
        },
        shows: 'the lease of A has expired',
      },
      {
        says: 'B holds the lock now, with a greater token, and writes.',
        does: async (stage) => void (await stage.writes(stage.b)),
      },
      {
        says: 'A wakes up, and tries to write at once with its old token. etcd refuses.',
        does: async (stage) => {
          stage.check('etcd refused the write', (await stage.writes(stage.a)) === 'refused');
          stage.check('the entry of B is the last one', stage.playground.ledger?.value === 'B 1');
        },
        shows: 'the condition is false',
      },
      {
        says: ({ a }) =>
          `The transaction of A asks whether its key still has create revision ${a.app.oldToken}. That key no longer exists, so nothing is written. No clock takes part in this decision.`,
        shows: 'if ',
      },
    ],
  },
  {
    id: 'lost-answer',
    title: 'An answer is lost',
    question: 'Was it written or not, and may the client try again?',
    members: 1,
    scenes: [
      {
        says: 'A asks for the lock. etcd applies the transaction, but the connection breaks before A learns it.',
        does: async (stage) => {
          stage.a.toggleLostAnswer();
          await stage.locks(stage.a);
          stage.check('A is in the queue once', stage.playground.queue.length === 1);
        },
        shows: 'etcd applied the write of A',
      },
      {
        says: 'A asked etcd for its own key, found it, and holds the lock. It is in the queue once. Only A uses a key of this name, so A can ask instead of guessing.',
        shows: 'applied: found your queue key',
      },
      {
        says: 'Now A writes to the ledger, and the answer is lost again.',
        does: async (stage) => {
          stage.a.toggleLostAnswer();
          stage.check('the outcome is unknown', (await stage.writes(stage.a)) === 'unknown');
          stage.check('the write was applied once', stage.playground.ledger?.version === 1n);
        },
        shows: 'etcd applied the write of A',
      },
      {
        says: 'etcd applied the write once. A cannot know that, so its error says that the outcome is unknown. The client does not send the write again, because another client may have written since.',
        shows: 'if my queue key still exists: put ledger',
      },
    ],
  },
];
