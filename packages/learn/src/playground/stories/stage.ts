import type { MemoryMember } from '../../../../../src/internal.js';
import type { Application } from '../application.js';
import type { PlayClient } from '../play-client.js';
import type { Members, Playground } from '../playground.js';

/** Maximum time in milliseconds that a scene waits for one event. */
const PATIENCE_MS = 60_000;
const POLL_MS = 20;
/** Simulated time in milliseconds after a scene, in which its last messages arrive. */
const SETTLE_MS = 200;

/** A part of a story: one sentence, and what happens meanwhile. */
interface Scene {
  readonly says: string | ((stage: Stage) => string);
  readonly does?: (stage: Stage) => Promise<void> | void;
  /** The beginning of the label of the step that the caption shows at the end. Default: the last step of the scene. */
  readonly shows?: string;
}

/** A prepared story. Each scene ends in a state that has an address. */
export interface Story {
  readonly id: string;
  readonly title: string;
  readonly question: string;
  readonly members: Members;
  readonly scenes: readonly Scene[];
}

/** What a scene can do besides the actions of the clients. */
export class Stage {
  readonly playground: Playground;
  readonly a: PlayClient;
  readonly b: PlayClient;
  readonly c: PlayClient;

  constructor(playground: Playground) {
    this.playground = playground;
    [this.a, this.b, this.c] = playground.clients as [PlayClient, PlayClient, PlayClient];
  }

  /** Returns a member by its number. */
  member(index: number): MemoryMember {
    return this.playground.server.members[index] as MemoryMember;
  }

  /** The names of the members whose log has the entry. */
  logs(index: number): string {
    return this.#namesOf(({ raft }) => (raft?.log.length ?? 0) >= index);
  }

  /** The names of the members that have committed the entry. */
  commits(index: number): string {
    return this.#namesOf(({ raft }) => (raft?.commitIndex ?? 0) >= index);
  }

  #namesOf(isMeant: (member: MemoryMember) => boolean): string {
    const { members } = this.playground.server;
    return members
      .filter(isMeant)
      .map(({ name }) => name)
      .join(', ');
  }

  /** The name of the leader. Empty while the members have elected none. */
  get leader(): string {
    return this.playground.server.leader?.name ?? '';
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
    // Let the client start the watch of the key ahead.
    await this.playground.world.sleep(SETTLE_MS);
  }

  /** Lets a client watch the ledger, and waits until etcd has created the watch. */
  async watches(client: PlayClient): Promise<void> {
    const { name, app } = client;
    app.watch();
    await this.until('the watch is created', () =>
      this.playground.steps.some((step) => step.client === name && step.label === 'watch created'),
    );
  }

  /** Lets a client write, resumes it if it is paused, and waits until it knows the result. Returns the result. */
  async writes(client: PlayClient): Promise<Application['lastWrite']> {
    client.app.lastWrite = 'none';
    client.app.write();
    client.resume();
    await this.until(`${client.name} knows the result`, () => !['none', 'pending'].includes(client.app.lastWrite));
    return client.app.lastWrite;
  }

  /** Lets a client read, and waits until it has an answer. Returns the entry, or undefined if the read fails. */
  async reads(client: PlayClient, kind: 'linearizable' | 'serializable'): Promise<string | undefined> {
    client.app.lastRead = { state: 'none', entry: '' };
    client.app.read(kind);
    await this.until(`${client.name} has an answer`, () => /answered|failed/.test(client.app.lastRead.state));
    return client.app.lastRead.state === 'answered' ? client.app.lastRead.entry : undefined;
  }

  /** Makes each message between two members take this time, so that a scene can end while messages are on their way. */
  slowMembers(delayMs: number): void {
    const { network } = this.playground.server;
    if (network !== undefined) network.delayMs = () => delayMs;
  }

  /** Waits until there is a leader other than the member. */
  async elects(former: MemoryMember): Promise<void> {
    await this.until('there is a new leader', () => !['', former.name].includes(this.leader));
  }
}

/** Plays a story, one scene at a time. */
export class StoryPlayer {
  readonly story: Story;
  /** The sentences of the scenes that have begun. */
  readonly told: string[] = [];
  /** Whether the last scene that has begun has also ended. */
  isResting = true;
  /** Why the story failed. */
  failure: Error | undefined;
  readonly #stage: Stage;

  constructor(story: Story, playground: Playground) {
    this.story = story;
    this.#stage = new Stage(playground);
  }

  /** The number of scenes that have begun. */
  get scene(): number {
    return this.told.length;
  }

  get isOver(): boolean {
    return this.isResting && (this.failure !== undefined || this.scene === this.story.scenes.length);
  }

  /** Begins the next scene. Does nothing while a scene plays, and at the end. */
  next(): void {
    const scene = this.story.scenes[this.scene];
    if (!this.isResting || scene === undefined || this.failure !== undefined) return;
    const stage = this.#stage;
    const { playground } = stage;
    this.isResting = false;
    this.told.push(typeof scene.says === 'string' ? scene.says : scene.says(stage));
    playground.scene = this.scene;
    const play = async (): Promise<void> => {
      try {
        await scene.does?.(stage);
        await playground.world.sleep(SETTLE_MS);
      } catch (error) {
        this.failure = error as Error;
      }
      this.isResting = true;
    };
    playground.world.soon(playground.world.outside, 'begins a scene', () => void play());
  }
}
