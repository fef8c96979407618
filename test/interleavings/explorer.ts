import { Arena, type Parts, type Scenario } from './arena.js';
import { areIndependent, type Event, World } from './world.js';

/** The maximum number of events in a history. */
const MAX_EVENTS = 300;

/** One choice of a history: the events among which the explorer has chosen, and those that it need not choose. */
interface Choice {
  events: readonly Event[];
  chosen: Event;
  /** Events that were chosen here in earlier histories. */
  readonly done: Event[];
  /**
   * Events whose histories were all played: earlier histories contain the same events in an order that leads to the
   * same state ("sleep set", Godefroid 1996).
   */
  readonly asleep: readonly Event[];
}

/** What the explorer has played. */
export interface Explored {
  /** The number of histories that were played to their end. */
  readonly played: number;
  /** The number of histories that broke off, because earlier ones lead to the same states. */
  readonly pruned: number;
  /** Whether all histories were played. */
  readonly isComplete: boolean;
  readonly failure?: Failure | undefined;
}

interface Failure {
  readonly problem: string;
  /** The events of the history, in their order. */
  readonly trace: readonly string[];
}

/** Limits of an exploration. */
export interface Limits {
  /** The maximum number of faults in a history. */
  readonly faults: number;
  /** The time limit in milliseconds. Default: none. */
  readonly maxMs?: number;
  /** The maximum number of histories that are played to their end. Default: no limit. */
  readonly maxHistories?: number;
  /** Called after each history. */
  readonly onHistory?: (soFar: Explored) => void;
}

/** Plays all histories of a scenario, and stops at the first one that breaks a rule. */
export async function explore(scenario: Scenario, limits: Limits): Promise<Explored> {
  const { faults, maxMs = Number.POSITIVE_INFINITY, maxHistories = Number.POSITIVE_INFINITY, onHistory } = limits;
  const choices: Choice[] = [];
  const endMs = performance.now() + maxMs;
  let [played, pruned] = [0, 0];
  for (;;) {
    const { problem, trace, isPruned } = await new History(scenario, faults, choices).play();
    if (isPruned) pruned += 1;
    else played += 1;
    if (problem !== undefined) return { played, pruned, isComplete: false, failure: { problem, trace } };
    const isComplete = !chooseNext(choices);
    const soFar = { played, pruned, isComplete };
    onHistory?.(soFar);
    if (isComplete || played >= maxHistories || performance.now() > endMs) return soFar;
  }
}

/** Plays one history again, and returns what is wrong with it. The history may end before its last event. */
export async function replay(scenario: Scenario, trace: readonly string[]): Promise<string | undefined> {
  const choices = trace.map((label): Choice => {
    const chosen = { label, at: '', action: () => {} };
    return { events: [chosen], chosen, done: [], asleep: [] };
  });
  return (await new History(scenario, Number.POSITIVE_INFINITY, choices).play()).problem;
}

/** Changes the last choice that has another event left, and removes the later ones. Returns false if no choice has one. */
function chooseNext(choices: Choice[]): boolean {
  for (let last = choices.at(-1); last !== undefined; last = choices.at(-1)) {
    last.done.push(last.chosen);
    const next = last.events.find((event) => !isIn(last.done, event) && !isIn(last.asleep, event));
    if (next !== undefined) {
      last.chosen = next;
      return true;
    }
    choices.pop();
  }
  return false;
}

function isIn(events: readonly Event[], { label }: Event): boolean {
  return events.some((event) => event.label === label);
}

interface Played {
  readonly problem?: string | undefined;
  readonly trace: readonly string[];
  readonly isPruned?: boolean;
}

/** One history. It repeats the given choices, and then chooses the first event each time. */
class History {
  readonly #scenario: Scenario;
  readonly #faults: number;
  readonly #choices: Choice[];
  readonly #world = new World();
  readonly #trace: string[] = [];

  constructor(scenario: Scenario, faults: number, choices: Choice[]) {
    this.#scenario = scenario;
    this.#faults = faults;
    this.#choices = choices;
  }

  async play(): Promise<Played> {
    const restore = this.#world.install();
    try {
      const arena = new Arena(this.#world);
      const parts = await this.#inOneOrder(this.#scenario.prepare(arena));
      if (parts === undefined) return this.#ends('the scenario does not begin');
      const isPruned = await this.#inAnyOrder(arena, parts);
      if (isPruned || arena.problem !== undefined) return this.#ends(arena.problem, isPruned);
      if ((await this.#inOneOrder(arena.end())) === undefined) return this.#ends('the clients do not close');
      return this.#ends(arena.problem);
    } finally {
      restore();
    }
  }

  #ends(problem: string | undefined, isPruned = false): Played {
    return { problem, trace: this.#trace, isPruned };
  }

  /** Runs the first event each time until the promise resolves. Returns undefined if it does not. */
  async #inOneOrder<T>(running: Promise<T>): Promise<T | undefined> {
    let isSettled = false;
    const settle = (): void => {
      isSettled = true;
    };
    running.then(settle, settle);
    for (let count = 0; count < MAX_EVENTS; count += 1) {
      await promiseCallbacks();
      if (isSettled) return running;
      const [event] = this.#world.events(false);
      if (event === undefined) return undefined;
      event.action();
    }
    return undefined;
  }

  /** Starts the parties, and chooses events until they have ended. Returns whether earlier histories contain the rest. */
  async #inAnyOrder(arena: Arena, parts: Parts): Promise<boolean> {
    arena.start(parts);
    for (let index = 0, faults = 0; ; index += 1) {
      await promiseCallbacks();
      if (arena.waiting.length === 0 || arena.problem !== undefined) return false;
      const events = this.#world.events(faults < this.#faults);
      if (events.length === 0 || index === MAX_EVENTS) {
        const end = events.length === 0 ? 'nothing can happen' : `${MAX_EVENTS} events have happened`;
        arena.breaks(`${arena.waiting.join(' and ')} still waits, and ${end}`);
        return false;
      }
      const event = this.#choose(index, events);
      if (event === undefined) return true;
      if (event.isFault) faults += 1;
      this.#trace.push(event.label);
      event.action();
    }
  }

  /** Returns the event of the choice at this index. Undefined if earlier histories contain all of them. */
  #choose(index: number, events: readonly Event[]): Event | undefined {
    const known = this.#choices[index];
    if (known !== undefined) {
      const chosen = events.find(({ label }) => label === known.chosen.label);
      if (chosen === undefined) throw new Error(`the history is not the same again: there is no ${known.chosen.label}`);
      known.events = events;
      known.chosen = chosen;
      return chosen;
    }
    const before = this.#choices[index - 1];
    const asleep = [...(before?.asleep ?? []), ...(before?.done ?? [])].filter((event) =>
      areIndependent(event, (before as Choice).chosen),
    );
    const chosen = events.find((event) => !isIn(asleep, event));
    if (chosen !== undefined) this.#choices.push({ events, chosen, done: [], asleep });
    return chosen;
  }
}

/** Resolves when all promise callbacks have run. */
function promiseCallbacks(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
