import { actionOf } from './actions.js';
import { type Address, fragmentOf, type TimedAction } from './address.js';
import { SLICE_MS } from './play-client.js';
import { Playground, type Step } from './playground.js';
import { StoryPlayer } from './stories/stage.js';
import { STORIES } from './stories.js';

/** The state that an address leads to, and the way from there to the next states. */
export class Visit {
  readonly playground: Playground;
  /** The story. Undefined if the visitor began with an empty etcd. */
  readonly player: StoryPlayer | undefined;
  readonly #start: Address['start'];
  readonly #actions: TimedAction[] = [];
  #isOwn: boolean;
  /** When the visitor has left the story, in simulated milliseconds since the start. */
  #leftMs = 0;

  /** Begins at the start of the address. `startTask` is that of `Playground`. */
  constructor(start: Address['start'], startTask: (task: () => void) => void) {
    this.#start = start;
    this.#isOwn = start.kind === 'try';
    const story = start.kind === 'story' ? STORIES.find(({ id }) => id === start.id) : undefined;
    const members = start.kind === 'try' ? start.members : (story?.members ?? 1);
    this.playground = new Playground(startTask, members);
    this.player = story && new StoryPlayer(story, this.playground);
  }

  /** Returns the state that an address leads to. Leaves out actions that do not exist. */
  static async at(
    { start, actions, untilMs }: Address,
    startTask: (task: () => void) => void,
    isObsolete: () => boolean = () => false,
  ): Promise<Visit> {
    const visit = new Visit(start, startTask);
    const scenes = start.kind === 'story' ? start.scene : 0;
    while (visit.player !== undefined && visit.player.scene < scenes && !isObsolete()) {
      visit.player.next();
      while (!visit.player.isResting && !isObsolete()) await visit.advance(SLICE_MS);
      if (visit.player.failure !== undefined) break;
    }
    if (start.kind === 'story' && start.isOwn) visit.leaveStory();
    for (const { name, atMs } of actions) {
      await visit.#advanceTo(atMs, isObsolete);
      visit.act(name);
    }
    await visit.#advanceTo(untilMs, isObsolete);
    return visit;
  }

  /** The address of the present state. */
  get address(): Address {
    const { nowMs } = this.playground;
    const scene = this.player?.scene ?? 0;
    const start = this.#start.kind === 'story' ? { ...this.#start, scene, isOwn: this.isOwn } : this.#start;
    return { start, actions: [...this.#actions], untilMs: this.isOwn && nowMs > this.#leftMs ? nowMs : 0 };
  }

  /** Whether the visitor acts on the clients, instead of a story. */
  get isOwn(): boolean {
    return this.#isOwn;
  }

  /** Leaves the story after its present scene: from now on, the visitor acts on the clients. */
  leaveStory(): void {
    this.#isOwn = true;
    this.#leftMs = this.playground.nowMs;
    this.playground.scene = 0;
  }

  get fragment(): string {
    return fragmentOf(this.address);
  }

  get actions(): readonly TimedAction[] {
    return this.#actions;
  }

  /** Lets time pass: a multiple of `SLICE_MS`, so that the same steps lead to the same state. */
  advance(ms: number): Promise<void> {
    return this.playground.advance(Math.ceil(ms / SLICE_MS) * SLICE_MS);
  }

  /** Performs an action of the visitor, such as `A.lock`. Ignores an action that does not exist. */
  act(name: string): void {
    const act = actionOf(this.playground, name);
    if (act === undefined) return;
    this.#actions.push({ name, atMs: this.playground.nowMs });
    act();
  }

  /** The step of the trace that explains the present state best. Undefined if nothing has happened. */
  get presentStep(): Step | undefined {
    const { steps, scene } = this.playground;
    const shown = scene === 0 ? undefined : this.player?.story.scenes[scene - 1]?.shows;
    const major = steps.filter(({ kind }) => kind !== 'frame' && kind !== 'renewal');
    if (shown !== undefined && this.player?.isResting) {
      const found = major.findLast(({ label }) => label.startsWith(shown));
      if (found !== undefined) return found;
    }
    return major.at(-1);
  }

  close(): void {
    this.playground.close();
  }

  async #advanceTo(atMs: number, isObsolete: () => boolean): Promise<void> {
    while (this.playground.nowMs < atMs && !isObsolete())
      await this.advance(Math.min(1_000, atMs - this.playground.nowMs));
  }
}
