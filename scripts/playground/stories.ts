import type { Application } from './application.js';
import type { PlayClient } from './play-client.js';
import type { Playground } from './playground.js';

// The prepared stories of the playground. A story fails if an event that it waits for does not happen in time, or if
// one of its checks fails.

/** Time in milliseconds for the visitor to look at what has happened, before the story shows the next sentence. */
const LOOKING_MS = 1_500;
/** Time in milliseconds for the visitor to read one word, and the minimum time for a sentence. */
const WORD_MS = 300;
const SENTENCE_MS = 2_000;
/** Maximum time in milliseconds that a story waits for one event. */
const PATIENCE_MS = 60_000;
const POLL_MS = 20;

export interface Story {
  readonly id: string;
  readonly title: string;
  readonly question: string;
  play(stage: Stage): Promise<void>;
}

/** What a story can do besides the actions of the clients. */
class Stage {
  readonly playground: Playground;
  readonly a: PlayClient;
  readonly b: PlayClient;
  readonly c: PlayClient;
  readonly #tell: (sentence: string) => void;
  #hasTold = false;
  #isHurried = false;

  constructor(playground: Playground, tell: (sentence: string) => void) {
    this.playground = playground;
    [this.a, this.b, this.c] = playground.clients as [PlayClient, PlayClient, PlayClient];
    this.#tell = tell;
  }

  /** Ends the time for the current sentence, so that the story continues at once. */
  readonly hurry = (): void => {
    this.#isHurried = true;
  };

  /** Lets the visitor look at what has happened, shows a sentence, and waits until the visitor has read it. */
  async say(sentence: string): Promise<void> {
    if (this.#hasTold) await this.#wait(LOOKING_MS);
    this.#hasTold = true;
    this.#tell(sentence);
    this.#isHurried = false;
    await this.#wait(Math.max(SENTENCE_MS, sentence.split(' ').length * WORD_MS));
  }

  async #wait(ms: number): Promise<void> {
    const end = this.playground.world.now + ms;
    while (this.playground.world.now < end && !this.#isHurried) await this.playground.world.sleep(POLL_MS);
  }

  /** Waits until something is true. @throws Error if it does not become true in time. */
  async until(what: string, isTrue: () => boolean): Promise<void> {
    const end = this.playground.world.now + PATIENCE_MS;
    while (!isTrue()) {
      if (this.playground.world.now > end) throw new Error(`the story waited in vain until ${what}`);
      await this.playground.world.sleep(POLL_MS);
    }
  }

  /** @throws Error if `isTrue` is false. `what` is a statement of the story. */
  check(what: string, isTrue: boolean): void {
    if (!isTrue) throw new Error(`the story is not true: ${what}`);
  }

  async locks(client: PlayClient): Promise<void> {
    client.app.lock();
    await this.until(`${client.name} holds the lock`, () => client.app.token !== undefined);
  }

  async queues(client: PlayClient): Promise<void> {
    const { length } = this.playground.queue;
    client.app.lock();
    await this.until(`${client.name} is in the queue`, () => this.playground.queue.length > length);
  }

  /** Lets a client watch the ledger, and waits until etcd has created the watch. */
  async watches(client: PlayClient): Promise<void> {
    const { name, app } = client;
    app.watch();
    await this.until('the watch is created', () =>
      this.playground.steps.some((step) => step.client === name && step.label === 'watch created'),
    );
  }

  /** Cuts the wire of one client, and lets another one write three entries. */
  async missesEntries(watcher: PlayClient, writer: PlayClient): Promise<void> {
    watcher.cutWire();
    for (let entry = 0; entry < 3; entry += 1) await this.writes(writer);
  }

  /** Lets a client write, resumes it if it is paused, and waits until it knows the result. Returns the result. */
  async writes(client: PlayClient): Promise<Application['lastWrite']> {
    client.app.lastWrite = 'none';
    client.app.write();
    client.resume();
    await this.until(`${client.name} knows the result`, () => !['none', 'pending'].includes(client.app.lastWrite));
    return client.app.lastWrite;
  }
}

export const STORIES: readonly Story[] = [
  {
    id: 'fair',
    title: 'A fair hand-off',
    question: 'Who gets the lock next, and how does it learn of it?',
    async play(stage) {
      const { a, b, c, playground } = stage;
      await stage.say('A asks for the lock. It puts a key with its lease, and no key is older, so A holds the lock.');
      await stage.locks(a);
      const first = a.app.token ?? 0n;
      await stage.say('B and then C ask too. Each puts its own key, and watches only the key just ahead of it.');
      await stage.queues(b);
      await stage.queues(c);
      await stage.say('A unlocks: it deletes its key. Only B receives an event; C sleeps on.');
      a.app.unlock();
      await stage.until('B holds the lock', () => b.app.token !== undefined);
      stage.check('C still waits', c.app.token === undefined);
      const second = b.app.token ?? 0n;
      await stage.say('B unlocks. Now C receives the event.');
      b.app.unlock();
      await stage.until('C holds the lock', () => c.app.token !== undefined);
      const third = c.app.token ?? 0n;
      stage.check('the tokens grow', first < second && second < third);
      stage.check('the queue holds C only', playground.queue.length === 1);
      await stage.say(`The fencing tokens were ${first}, ${second} and ${third}: the revisions that created the keys.`);
      await stage.say(
        'The queue is fair, because etcd gives each change a revision, and so puts all of them in one order.',
      );
    },
  },
  {
    id: 'dies',
    title: 'The holder dies',
    question: 'What frees the lock of a process that is gone?',
    async play(stage) {
      const { a, b, playground } = stage;
      await stage.say('A takes the lock. B queues behind it.');
      await stage.locks(a);
      await stage.queues(b);
      await stage.say('A is killed. Its key and its lease stay in etcd, but nothing renews the lease now.');
      a.kill();
      const leases = playground.leases.length;
      await stage.say('Watch the lease of A run out. B can do nothing but wait, because A might still be alive.');
      await stage.until('the lease of A expires', () => playground.leases.length < leases);
      await stage.until('B holds the lock', () => b.app.token !== undefined);
      await stage.say('etcd deleted the key of A together with its lease. B received the event and holds the lock.');
    },
  },
  {
    id: 'stale',
    title: 'A stale holder is fenced',
    question: 'What if a holder was only asleep, and wakes up believing that it holds the lock?',
    async play(stage) {
      const { a, b, playground } = stage;
      await stage.say('A takes the lock and writes to the ledger. B queues behind it.');
      await stage.locks(a);
      const old = a.app.token;
      await stage.writes(a);
      await stage.queues(b);
      await stage.say('A is paused, as by a long garbage collection. Its lease runs out meanwhile.');
      a.pause();
      await stage.until('B holds the lock', () => b.app.token !== undefined);
      await stage.say('B holds the lock now, with a greater token, and writes.');
      await stage.writes(b);
      await stage.say('A wakes up, and tries to write at once with its old token.');
      stage.check('etcd refused the write', (await stage.writes(a)) === 'refused');
      stage.check('the entry of B is the last one', playground.ledger?.value === 'B 1');
      await stage.say(`etcd refused. The transaction of A asks whether its key still has create revision ${old}.`);
      await stage.say('That key no longer exists, so nothing is written. No clock takes part in this decision.');
    },
  },
  {
    id: 'lost-answer',
    title: 'An answer is lost',
    question: 'Was it written or not, and may the client try again?',
    async play(stage) {
      const { a, playground } = stage;
      await stage.say(
        'A asks for the lock. etcd applies the transaction, but the connection breaks before A learns it.',
      );
      a.toggleLostAnswer();
      await stage.locks(a);
      stage.check('A is in the queue once', playground.queue.length === 1);
      await stage.say('A asked etcd for its own key, found it, and holds the lock. It is in the queue once.');
      await stage.say('Only A uses a key of this name, so A can ask whether it was put instead of guessing.');
      await stage.say('Now A writes to the ledger, and the answer is lost again.');
      a.toggleLostAnswer();
      stage.check('the outcome is unknown', (await stage.writes(a)) === 'unknown');
      stage.check('the write was applied once', playground.ledger?.version === 1n);
      await stage.say(
        'etcd applied the write once. A cannot know that, so its error says that the outcome is unknown.',
      );
      await stage.say('The client does not send the write again, because another client may have written since.');
    },
  },
  {
    id: 'resumed-watch',
    title: 'A watch survives a cut',
    question: 'Which events does a watcher miss while its wire is cut?',
    async play(stage) {
      const { a, b } = stage;
      await stage.say('B watches the ledger, and A writes.');
      await stage.watches(b);
      await stage.say('Each event carries the revision that made it.');
      await stage.writes(a);
      await stage.until('B sees the entry', () => b.app.seen.length === 1);
      await stage.say('The wire of B is cut. A writes three more entries.');
      await stage.missesEntries(b, a);
      await stage.say('The wire works again. B asks for all events after the last revision that it has seen.');
      b.mendWire();
      await stage.until('B has seen all entries', () => b.app.seen.length >= 4);
      await stage.say('None is missed: B has all entries, in their order, and none of them twice.');
      stage.check('each entry arrived once', b.app.seen.join() === 'A 1,A 2,A 3,A 4');
    },
  },
  {
    id: 'compaction',
    title: 'History is compacted',
    question: 'What if the events that a watcher missed do not exist any more?',
    async play(stage) {
      const { a, b, playground } = stage;
      await stage.say('B watches the ledger. Its wire is cut, and A writes three entries.');
      await stage.watches(b);
      await stage.writes(a);
      await stage.until('B sees the entry', () => b.app.seen.length === 1);
      await stage.missesEntries(b, a);
      await stage.say('An operator compacts the store: etcd forgets all older revisions.');
      playground.compact();
      await stage.say(
        'The wire works again. B asks for the events after its last revision, and etcd no longer has them.',
      );
      b.mendWire();
      await stage.until('B reads the ledger', () => b.app.seen.at(-1) === 'A 4');
      await stage.say(
        'The watch ended with an error instead of a gap. The program of B read the ledger, and watches from there.',
      );
      await stage.writes(a);
      await stage.until('B sees the new entry', () => b.app.seen.at(-1) === 'A 5');
      stage.check('B missed two entries and knows it', b.app.seen.join() === 'A 1,A 4,A 5');
      await stage.say('No client can deliver events that are gone. It must say so, and etcdwire does.');
    },
  },
];

/**
 * Plays a story. `tell` receives each sentence. `ended` rejects if the story fails. `hurry` ends the time for the
 * current sentence, so that the story continues at once.
 */
export function playStory(
  story: Story,
  playground: Playground,
  tell: (sentence: string) => void,
): { readonly ended: Promise<void>; readonly hurry: () => void } {
  const { world } = playground;
  const stage = new Stage(playground, tell);
  const ended = new Promise<void>((resolve, reject) => {
    world.soon(world.outside, 'begins a story', () => void story.play(stage).then(resolve, reject));
  });
  return { ended, hurry: stage.hurry };
}
