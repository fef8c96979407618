import { Arena, type Parts, type Scenario } from './arena.js';
import { areIndependent, type Event, type Touched, World } from './world.js';

/** The maximum number of events in a history. */
const MAX_EVENTS = 1_000;

/** An event that a history contains. */
interface Step {
  readonly label: string;
  readonly touched: Touched;
}

/** One choice of a history. */
interface Choice {
  /** The labels of the events that may happen. */
  labels: readonly string[];
  /** The labels of the events that the explorer plays here, each in a history of its own. */
  readonly wanted: string[];
  chosen: string;
  /** What the chosen event has touched. */
  touched: Touched;
  /** Events that were chosen here in earlier histories. */
  readonly done: Step[];
  /**
   * Events whose histories were all played: earlier histories contain the same events in an order that leads to the
   * same state ("sleep set", Godefroid 1996).
   */
  readonly asleep: readonly Step[];
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
  /** Whether to play each event at each choice, to check the search for orders that matter. */
  readonly isExhaustive?: boolean;
  /** Where an earlier exploration of the scenario stopped. */
  readonly from?: Checkpoint | undefined;
  /** Called after each history. */
  readonly onHistory?: (soFar: Checkpoint) => void;
}

/** Where an exploration stopped. It can be written as JSON. */
export interface Checkpoint extends Explored {
  readonly choices: readonly Choice[];
}

/** Plays all histories of a scenario, and stops at the first one that breaks a rule. */
export async function explore(scenario: Scenario, limits: Limits): Promise<Explored> {
  const { maxMs = Number.POSITIVE_INFINITY, maxHistories = Number.POSITIVE_INFINITY, from, onHistory } = limits;
  const choices: Choice[] = [...(from?.choices ?? [])];
  const endMs = performance.now() + maxMs;
  if (from?.isComplete) return from;
  let { played, pruned } = from ?? { played: 0, pruned: 0 };
  for (;;) {
    const { problem, trace, isPruned } = await new History(scenario, limits, choices).play();
    if (isPruned) pruned += 1;
    else played += 1;
    if (problem !== undefined) return { played, pruned, isComplete: false, failure: { problem, trace } };
    wantReversals(choices);
    const isComplete = !chooseNext(choices);
    onHistory?.({ played, pruned, isComplete, choices });
    if (isComplete || played >= maxHistories || performance.now() > endMs) return { played, pruned, isComplete };
  }
}

/** Plays one history again, and returns what is wrong with it. The history may end before its last event. */
export async function replay(scenario: Scenario, trace: readonly string[]): Promise<string | undefined> {
  const choices = trace.map(
    (chosen): Choice => ({ labels: [chosen], wanted: [], chosen, touched: {}, done: [], asleep: [] }),
  );
  return (await new History(scenario, { faults: Number.POSITIVE_INFINITY }, choices).play()).problem;
}

/**
 * Finds events of the history whose order matters, and wants the other order, too ("source sets", Abdulla et al. 2014).
 * The explorer plays two events that touch nothing in common in one order only.
 */
function wantReversals(choices: readonly Choice[]): void {
  /** The indexes of the events that must happen before each event. */
  const before: Set<number>[] = [];
  const isEnabled = (index: number, label: string): boolean => choices[index]?.labels.includes(label) ?? false;
  for (const [index, { chosen, touched }] of choices.entries()) {
    const earlier = new Set<number>();
    before.push(earlier);
    const follows = (cause: number): void => {
      earlier.add(cause);
      for (const each of before[cause] ?? []) earlier.add(each);
    };
    let since = index;
    while (isEnabled(since - 1, chosen)) since -= 1;
    if (since > 0) follows(since - 1);
    for (let other = index - 1; other >= 0; other -= 1) {
      const choice = choices[other] as Choice;
      if (earlier.has(other) || areIndependent(choice.touched, touched)) continue;
      follows(other);
      // The events after `other` that do not need it. One of them must be played instead of `other`.
      const rest = [...before.keys()].filter((each) => each > other && !before[each]?.has(other)).concat(index);
      const first = rest.filter((each) => !rest.some((cause) => before[each]?.has(cause)));
      const labels = first.map((each) => choices[each]?.chosen as string).filter((label) => isEnabled(other, label));
      const { wanted, asleep } = choice;
      if (!labels.some((label) => wanted.includes(label) || isIn(asleep, label))) wanted.push(...labels.slice(0, 1));
    }
  }
}

/** Changes the last choice that has another event left, and removes the later ones. Returns false if no choice has one. */
function chooseNext(choices: Choice[]): boolean {
  for (let last = choices.at(-1); last !== undefined; last = choices.at(-1)) {
    const { chosen, touched, wanted, done, asleep } = last;
    done.push({ label: chosen, touched });
    const next = wanted.find((label) => !isIn(done, label) && !isIn(asleep, label));
    if (next !== undefined) {
      last.chosen = next;
      return true;
    }
    choices.pop();
  }
  return false;
}

function isIn(steps: readonly Step[], wanted: string): boolean {
  return steps.some(({ label }) => label === wanted);
}

interface Played {
  readonly problem?: string | undefined;
  readonly trace: readonly string[];
  readonly isPruned?: boolean;
}

/** One history. It repeats the given choices, and then chooses the first event each time. */
class History {
  readonly #scenario: Scenario;
  readonly #limits: Limits;
  readonly #choices: Choice[];
  readonly #world = new World();
  readonly #trace: string[] = [];

  constructor(scenario: Scenario, limits: Limits, choices: Choice[]) {
    this.#scenario = scenario;
    this.#limits = limits;
    this.#choices = choices;
  }

  async play(): Promise<Played> {
    const restore = this.#world.install();
    const arena = new Arena(this.#world);
    const onRejection = (error: unknown): void => arena.failed('a promise without a handler', error);
    process.on('unhandledRejection', onRejection);
    try {
      const parts = await this.#inOneOrder(this.#scenario.prepare(arena));
      if (parts === undefined) return this.#ends('the scenario does not begin');
      const isPruned = await this.#inAnyOrder(arena, parts);
      if (isPruned || arena.problem !== undefined) return this.#ends(arena.problem, isPruned);
      // A copy of a request may arrive after all parties have ended.
      for (let late = this.#world.lateMessages; late.length > 0; late = this.#world.lateMessages) {
        this.#world.run(late[0] as Event);
        await promiseCallbacks();
      }
      if ((await this.#inOneOrder(arena.end())) === undefined) return this.#ends('the clients do not close');
      return this.#ends(arena.problem);
    } finally {
      process.off('unhandledRejection', onRejection);
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
      this.#world.run(event);
    }
    return undefined;
  }

  /** Starts the parties, and chooses events until they have ended. Returns whether earlier histories contain the rest. */
  async #inAnyOrder(arena: Arena, parts: Parts): Promise<boolean> {
    await arena.start(parts, promiseCallbacks);
    for (let index = 0, faults = 0; ; index += 1) {
      await promiseCallbacks();
      arena.noteServer();
      const last = this.#choices[index - 1];
      const touched = this.#world.takeTouched();
      if (last !== undefined) last.touched = touched;
      if (arena.problem !== undefined) return false;
      // Only events that a history contains are reordered, so no message may be on its way at the end.
      if (arena.waiting.length === 0 && this.#world.isQuiet) return false;
      const events = this.#world.events(faults < this.#limits.faults);
      if (events.length === 0 || index === MAX_EVENTS) {
        const end = events.length === 0 ? 'nothing can happen' : `${MAX_EVENTS} events have happened`;
        arena.breaks(`${arena.waiting.join(' and ')} still waits, and ${end}`);
        return false;
      }
      const event = this.#choose(index, events);
      if (event === undefined) return true;
      if (event.isFault) faults += 1;
      this.#trace.push(event.label);
      try {
        this.#world.run(event);
      } catch (error) {
        arena.failed(event.label, error);
      }
    }
  }

  /** Returns the event of the choice at this index. Undefined if earlier histories contain all of them. */
  #choose(index: number, events: readonly Event[]): Event | undefined {
    const labels = events.map(({ label }) => label);
    const known = this.#choices[index];
    if (known !== undefined) {
      const chosen = events.find(({ label }) => label === known.chosen);
      if (chosen === undefined) throw new Error(`the history is not the same again: there is no ${known.chosen}`);
      known.labels = labels;
      return chosen;
    }
    const before = this.#choices[index - 1];
    const asleep = [...(before?.asleep ?? []), ...(before?.done ?? [])].filter(({ touched }) =>
      areIndependent(touched, before?.touched ?? {}),
    );
    const isAwake = ({ label }: Event): boolean => !isIn(asleep, label);
    const first = events.find((event) => isAwake(event) && !event.isOptional);
    const isWanted = (event: Event): boolean =>
      event === first || event.isOptional || this.#limits.isExhaustive === true;
    const wanted = events.filter((event) => isAwake(event) && isWanted(event));
    const [chosen] = wanted;
    if (chosen !== undefined) {
      const { label } = chosen;
      this.#choices.push({
        labels,
        wanted: wanted.map((each) => each.label),
        chosen: label,
        touched: {},
        done: [],
        asleep,
      });
    }
    return chosen;
  }
}

/** Resolves when all promise callbacks have run. */
function promiseCallbacks(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
