import type { Address } from './address.js';
import { SLICE_MS } from './play-client.js';
import { Visit } from './visit.js';

/** Longest real time in milliseconds that one frame of the page may add to the simulated time. */
const MAX_FRAME_MS = 100;
/** Simulated time per real time: while messages are on their way, and while nothing happens. */
const BUSY_RATE = 0.1;
const IDLE_RATE = 2;
/** Simulated time per real time while the visitor lets time pass. */
const PASSING_RATE = 2;
/** Messages are on their way if the trace has grown within this simulated time, in milliseconds. */
const BUSY_MS = 60;
/** If nothing happens for this simulated time, in milliseconds, time stops after an action of the visitor. */
const QUIET_MS = 500;
/** Time stops at the latest this simulated time, in milliseconds, after an action of the visitor. */
const LONGEST_MS = 4_000;
/** Real time in milliseconds to read one word, and the minimum time for a sentence, before a story goes on. */
const WORD_MS = 160;
const SENTENCE_MS = 1_800;

/**
 * What time runs for: the end of the scene, the end of the story, until nothing happens after an action, until a
 * certain time, or until the visitor stops it. `nothing`: time stands still.
 */
export type Goal = 'nothing' | 'scene' | 'story' | 'quiet' | 'forever' | { readonly untilMs: number };

/** Moves a visit through its time, at a pace that lets the visitor see each message. */
export class Player {
  /** Undefined until the first state is ready. */
  visit: Visit | undefined;
  goal: Goal = 'nothing';
  pace = 1;
  readonly #startTask: (task: () => void) => void;
  /** Called when the visit has reached a state that has a new address. */
  readonly #moved: (how: 'push' | 'replace') => void;
  #generation = 0;
  /** The worlds of two visits must not overlap, because a world replaces the clocks and timers of the whole page. */
  #opening: Promise<unknown> = Promise.resolve();
  #isAdvancing = false;
  /** Simulated time that the frames have earned, and that is too short for a slice. */
  #owedMs = 0;
  /** Real time in milliseconds until the story goes on. */
  #lingerMs = 0;

  constructor(startTask: (task: () => void) => void, moved: (how: 'push' | 'replace') => void) {
    this.#startTask = startTask;
    this.#moved = moved;
  }

  /** Replaces the visit by the state of an address. Returns false if another call has replaced it meanwhile. */
  async open(address: Address): Promise<boolean> {
    this.#generation += 1;
    const generation = this.#generation;
    const isObsolete = (): boolean => generation !== this.#generation;
    this.visit?.close();
    this.visit = undefined;
    this.goal = 'nothing';
    const opened = this.#opening.then(async () => {
      if (isObsolete()) return false;
      const visit = await Visit.at(address, this.#startTask, isObsolete);
      if (isObsolete()) {
        visit.close();
        return false;
      }
      this.visit = visit;
      this.#owedMs = 0;
      this.#lingerMs = 0;
      return true;
    });
    this.#opening = opened;
    return opened;
  }

  /** Begins the next scene of a story. A scene that still plays comes to its end at once. */
  async nextScene(goal: 'scene' | 'story'): Promise<void> {
    const { visit } = this;
    if (visit?.player === undefined) return;
    this.goal = 'nothing';
    await this.#finishScene(visit);
    if (visit !== this.visit || visit.player.isOver) return;
    visit.player.next();
    this.goal = goal;
    this.#linger(visit);
    this.#moved(goal === 'scene' ? 'push' : 'replace');
  }

  act(name: string): void {
    if (this.visit === undefined) return;
    this.visit.act(name);
    if (this.goal !== 'forever') this.goal = 'quiet';
    this.#moved('push');
  }

  /** Called for each frame of the page. */
  frame(realMs: number): void {
    const { visit } = this;
    if (visit === undefined || this.#isAdvancing || this.goal === 'nothing') return;
    const elapsedMs = Math.min(realMs, MAX_FRAME_MS);
    if (this.#isReached(visit)) return this.#reached(visit, elapsedMs);
    this.#owedMs += elapsedMs * this.#rateOf(visit);
    const slices = Math.floor(this.#owedMs / SLICE_MS);
    if (slices === 0) return;
    this.#owedMs -= slices * SLICE_MS;
    this.#isAdvancing = true;
    void this.#advance(visit, slices).finally(() => {
      this.#isAdvancing = false;
    });
  }

  async #advance(visit: Visit, slices: number): Promise<void> {
    for (let slice = 0; slice < slices && visit === this.visit && !this.#isReached(visit); slice += 1)
      await visit.advance(SLICE_MS);
  }

  async #finishScene(visit: Visit): Promise<void> {
    while (this.#isAdvancing) await new Promise((resolve) => setTimeout(resolve, 1));
    while (visit === this.visit && visit.player?.isResting === false) await visit.advance(SLICE_MS);
  }

  #isReached({ player, playground: { nowMs, lastStepMs }, actions }: Visit): boolean {
    const { goal } = this;
    if (typeof goal === 'object') return nowMs >= goal.untilMs;
    const actedMs = actions.at(-1)?.atMs ?? 0;
    if (goal === 'quiet') return nowMs - Math.max(lastStepMs, actedMs) >= QUIET_MS || nowMs - actedMs >= LONGEST_MS;
    if (goal === 'forever') return false;
    return player?.isResting ?? true;
  }

  #reached(visit: Visit, realMs: number): void {
    if (this.goal === 'story' && visit.player?.isOver === false) {
      this.#lingerMs -= realMs * Math.max(this.pace, 0.5);
      if (this.#lingerMs <= 0) void this.nextScene('story');
      return;
    }
    this.goal = 'nothing';
    this.#moved('replace');
  }

  #linger({ player }: Visit): void {
    this.#lingerMs = Math.max(SENTENCE_MS, (player?.told.at(-1)?.split(' ').length ?? 0) * WORD_MS);
  }

  #rateOf({ playground: { nowMs, lastStepMs }, actions }: Visit): number {
    if (typeof this.goal === 'object' || this.goal === 'forever') return this.pace * PASSING_RATE;
    const isBusy = nowMs - Math.max(lastStepMs, actions.at(-1)?.atMs ?? 0) < BUSY_MS;
    return this.pace * (isBusy ? BUSY_RATE : IDLE_RATE);
  }
}
