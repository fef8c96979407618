import { pick, randomNumbers } from '../load/rounds.js';
import { Arena, type Parts, type Scenario } from './arena.js';
import { areIndependent, type Event, TIME, type Touched, type Unplanned, World } from './world.js';

/** The maximum number of events in a history. */
const MAX_EVENTS = 1_000;

/** In random histories, the priority of a party falls this many times, before this step. */
const PRIORITY_FALLS = 3;
const MAX_SAMPLED_STEP = 60;

/** An event that a history contains. */
interface Step {
  readonly label: string;
  readonly touched: Touched;
}

/** One choice of a history. */
export interface Choice {
  /** The labels of the events that may happen here. */
  labels: readonly string[];
  /** Those of them that can no longer happen after the chosen event. */
  disabled: readonly string[];
  /** The labels of the events that the explorer plays here, each in a history of its own. */
  readonly wanted: string[];
  chosen: string;
  /** Whether time may pass before the chosen event. */
  isLate: boolean;
  /** What the chosen event has touched. */
  touched: Touched;
  /** The parties that did not receive a message which the chosen event has sent, because of an earlier event. */
  discards: readonly string[];
  /** Events that were chosen here in earlier histories. */
  readonly done: Step[];
  /**
   * Events whose histories were all played: earlier histories contain the same events in an order that leads to the
   * same state ("sleep set", Godefroid 1996).
   */
  readonly asleep: readonly Step[];
}

function newChoice(chosen: string, facts: Partial<Choice>): Choice {
  return {
    labels: [],
    disabled: [],
    wanted: [chosen],
    chosen,
    isLate: false,
    touched: {},
    discards: [],
    done: [],
    asleep: [],
    ...facts,
  };
}

/** What the explorer has played, and where it stopped. It can be written as JSON. */
export interface Checkpoint {
  /** The number of histories that were played to their end. */
  readonly played: number;
  /**
   * The number of histories that broke off, because earlier ones lead to the same states, or because a planned event did
   * not happen.
   */
  readonly pruned: number;
  /** Whether all histories were played. */
  readonly isComplete: boolean;
  readonly failure?: Failure | undefined;
  /** The faults and decisions that could have happened in the histories. */
  readonly possible: readonly Unplanned[];
  /** The number of parties. */
  readonly parties: number;
  /** The names of the parties that do the same. */
  readonly alike: readonly string[];
  readonly choices: readonly Choice[];
}

/** A history that breaks a rule. */
export interface Failure {
  readonly problem: string;
  readonly plan: readonly string[];
  /** The events of the history, in their order. */
  readonly trace: readonly string[];
}

/** Limits of an exploration. */
export interface Limits {
  /** The labels of the faults, and of the decisions of programs, that happen in each history. */
  readonly plan: readonly string[];
  /** The maximum number of histories that are played to their end. Default: no limit. */
  readonly maxHistories?: number;
  /** How many random histories to play first. They do not count. Default: 0. */
  readonly samples?: number;
  /** Whether to play each event at each choice, to check the search for orders that matter. */
  readonly isExhaustive?: boolean;
  /** Where an earlier exploration of the scenario with this plan stopped. */
  readonly from?: Checkpoint | undefined;
}

/** Plays all histories of a scenario that follow the plan, and stops at the first one that breaks a rule. */
export async function explore(scenario: Scenario, limits: Limits): Promise<Checkpoint> {
  const { plan, maxHistories = Number.POSITIVE_INFINITY, samples = 0, from, isExhaustive = false } = limits;
  const choices: Choice[] = [...(from?.choices ?? [])];
  const possible = new Map<string, Unplanned>();
  let { played, pruned } = from ?? { played: 0, pruned: 0 };
  let failure: Failure | undefined;
  let isComplete = false;
  let parties = 0;
  let alike: readonly string[] = [];
  const play = async (history: History): Promise<boolean> => {
    const { problem, trace, isPruned = false } = await history.play();
    ({ parties, alike } = history);
    for (const [label, each] of history.world.possible) possible.set(label, each);
    if (problem !== undefined) failure = { problem, plan, trace };
    return isPruned;
  };
  const random = randomNumbers(played + pruned);
  for (let count = 0; count < samples && failure === undefined; count += 1) await play(sample(scenario, plan, random));
  const choose: Wanted = isExhaustive ? (events) => events : (events) => events.slice(0, 1);
  for (let count = 0; count < maxHistories && !isComplete && failure === undefined; count += 1) {
    if (await play(new History(scenario, plan, choices, choose))) pruned += 1;
    else played += 1;
    if (failure !== undefined) break;
    wantReversals(choices);
    isComplete = !chooseNext(choices);
  }
  return { played, pruned, isComplete, failure, possible: [...possible.values()], parties, alike, choices };
}

/** Returns a random history. */
export function sample(scenario: Scenario, plan: readonly string[], random: () => number): History {
  return new History(scenario, plan, [], sampling(plan, random));
}

/**
 * Chooses the event of the party with the highest random priority. The priority of a party falls at a few random steps
 * ("probabilistic concurrency testing", Burckhardt et al. 2010), so that some parties do much before others begin. Each
 * planned event, and each late message, has a priority of its own.
 */
function sampling(plan: readonly string[], random: () => number): Wanted {
  const priorities = new Map<string, number>();
  const falls = new Set(Array.from({ length: PRIORITY_FALLS }, () => Math.floor(MAX_SAMPLED_STEP * random() ** 2)));
  let step = 0;
  const nameOf = ({ label, isLate = false }: Event): string =>
    isLate || plan.includes(label) ? label : label.slice(0, label.indexOf(':'));
  const highest = (events: readonly Event[]): readonly Event[] => {
    const most = Math.max(...events.map((event) => priorities.get(nameOf(event)) as number));
    return events.filter((event) => priorities.get(nameOf(event)) === most);
  };
  return (events) => {
    step += 1;
    for (const event of events) if (!priorities.has(nameOf(event))) priorities.set(nameOf(event), random());
    if (falls.has(step)) priorities.set(nameOf(highest(events)[0] as Event), -step);
    return [pick(highest(events), random)];
  };
}

/**
 * Plays one history again. Returns what is wrong with it, and what could happen before each event. The history may end
 * before its last event. Calls `onEvent` before each event, with the milliseconds since the start.
 */
export async function replay(
  scenario: Scenario,
  { plan, trace }: Omit<Failure, 'problem'>,
  onEvent?: OnEvent,
): Promise<{ readonly problem: string | undefined; readonly choices: readonly Choice[] }> {
  const choices = trace.map((chosen) => newChoice(chosen, {}));
  const { problem } = await new History(scenario, plan, choices, () => [], onEvent).play();
  return { problem, choices };
}

/** Returns a history that breaks a rule although it leaves the first order of events as early as possible. */
export async function shrink(scenario: Scenario, failure: Failure): Promise<Failure> {
  const { plan, trace } = failure;
  for (let length = 0; length < trace.length; length += 1) {
    const choices = trace.slice(0, length).map((chosen) => newChoice(chosen, {}));
    const shrunk = await new History(scenario, plan, choices, (events) => events.slice(0, 1)).play();
    if (shrunk.problem !== undefined) return { problem: shrunk.problem, plan, trace: shrunk.trace };
  }
  return failure;
}

/**
 * Finds events of the history whose order matters, and wants the other order, too ("source sets", Abdulla et al. 2014).
 * The explorer plays two events that touch nothing in common in one order only.
 */
function wantReversals(choices: readonly Choice[]): void {
  /** The indexes of the events that must happen before each event. */
  const before: Set<number>[] = [];
  const isEnabled = (index: number, label: string): boolean => choices[index]?.labels.includes(label) ?? false;
  const want = ({ wanted, asleep }: Choice, labels: readonly string[]): void => {
    if (!labels.some((label) => wanted.includes(label) || isIn(asleep, label))) wanted.push(...labels.slice(0, 1));
  };
  /** Wants an event before the earlier ones that touch the same and are not its causes. `own` is its index, if it has one. */
  const wantBefore = (touched: Touched, causes: Set<number>, own: readonly number[] = []): void => {
    for (let other = before.length - 1; other >= 0; other -= 1) {
      const choice = choices[other] as Choice;
      if (own.includes(other) || causes.has(other) || areIndependent(choice.touched, touched)) continue;
      addCause(causes, other);
      // The events after `other` that do not need it. One of them must be played instead of `other`.
      const rest = [...before.keys()].filter((each) => each > other && !before[each]?.has(other)).concat(own);
      const first = rest.filter((each) => !rest.some((cause) => before[each]?.has(cause)));
      want(
        choice,
        first.map((each) => choices[each]?.chosen as string).filter((label) => isEnabled(other, label)),
      );
    }
  };
  const addCause = (causes: Set<number>, cause: number): void => {
    causes.add(cause);
    for (const each of before[cause] ?? []) causes.add(each);
  };
  for (const [index, choice] of choices.entries()) {
    const { chosen, disabled, touched, discards } = choice;
    const causes = new Set<number>();
    before.push(causes);
    let since = index;
    while (isEnabled(since - 1, chosen)) since -= 1;
    if (since > 0) addCause(causes, since - 1);
    if (passesTime(choice))
      for (let other = index - 1; other >= 0 && !passesTime(choices[other] as Choice); other -= 1)
        if (!choices[other]?.isLate) addCause(causes, other);
    wantBefore(touched, causes, [index]);
    for (const label of disabled) want(choice, [label]);
    for (const party of discards) wantBefore({ [party]: 'write' }, new Set([index, ...causes]));
  }
}

function passesTime({ touched }: Choice): boolean {
  return touched[TIME] === 'write';
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

type OnEvent = (event: Event, elapsedMs: number) => void;

/** Returns the events to play, of those that may happen. */
type Wanted = (events: readonly Event[]) => readonly Event[];

/** One history. It repeats the given choices, and then plays the first wanted event each time. */
export class History {
  /** The number of parties. */
  parties = 0;
  /** The names of the parties that do the same. */
  alike: readonly string[] = [];
  readonly #scenario: Scenario;
  readonly #choices: Choice[];
  readonly #wanted: Wanted;
  readonly #onEvent: OnEvent;
  readonly world: World;
  readonly #trace: string[] = [];

  constructor(
    scenario: Scenario,
    plan: readonly string[],
    choices: Choice[],
    wanted: Wanted,
    onEvent: OnEvent = () => {},
  ) {
    this.#scenario = scenario;
    this.#choices = choices;
    this.#wanted = wanted;
    this.#onEvent = onEvent;
    this.world = new World(plan);
  }

  async play(): Promise<Played> {
    const restore = this.world.install();
    const arena = new Arena(this.world);
    const onRejection = (error: unknown): void => arena.failed('a promise without a handler', error);
    process.on('unhandledRejection', onRejection);
    try {
      const parts = await this.#inOneOrder(this.#scenario.prepare(arena));
      if (parts === undefined) return this.#ends('the scenario does not begin');
      this.parties = parts.size;
      this.alike = arena.alike;
      this.world.isUnsafe = true;
      const isPruned = await this.#inAnyOrder(arena, parts);
      this.world.isUnsafe = false;
      if (isPruned || arena.problem !== undefined) return this.#ends(arena.problem, isPruned);
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
      const [event] = this.world.events(false);
      if (event === undefined) return undefined;
      this.world.run(event);
    }
    return undefined;
  }

  /**
   * Starts the parties, and chooses events until the parties have ended and no message is on its way. Returns whether
   * other histories contain the rest.
   */
  async #inAnyOrder(arena: Arena, parts: Parts): Promise<boolean> {
    await arena.start(parts, promiseCallbacks);
    for (let index = 0; ; index += 1) {
      await promiseCallbacks();
      arena.noteLeases();
      const last = this.#choices[index - 1];
      const [touched, discards] = [this.world.takeTouched(), this.world.takeDiscards()];
      const hasEnded = arena.waiting.length === 0;
      const events = this.world.events(hasEnded);
      if (last !== undefined) {
        const disabled = last.labels.filter(
          (each) => each !== last.chosen && events.every(({ label }) => label !== each),
        );
        Object.assign(last, { touched, discards, disabled });
      }
      if (arena.problem !== undefined) return false;
      if (hasEnded && events.length === 0) return this.world.missing.length > 0;
      if (events.length === 0 || index === MAX_EVENTS) {
        const end = events.length === 0 ? 'nothing can happen' : `${MAX_EVENTS} events have happened`;
        arena.breaks(`${arena.waiting.join(' and ') || 'a message'} still waits, and ${end}`);
        return false;
      }
      const event = this.#choose(index, events);
      if (event === undefined) return true;
      this.#trace.push(event.label);
      this.#onEvent(event, this.world.elapsedMs);
      try {
        this.world.run(event);
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
      Object.assign(known, { labels, isLate: chosen.isLate === true });
      return chosen;
    }
    const before = this.#choices[index - 1];
    const asleep = [...(before?.asleep ?? []), ...(before?.done ?? [])].filter(({ touched }) =>
      areIndependent(touched, before?.touched ?? {}),
    );
    const awake = events.filter(({ label }) => !isIn(asleep, label));
    const wanted = this.#wanted(awake);
    const [chosen] = wanted;
    const facts = { labels, isLate: chosen?.isLate === true, wanted: wanted.map(({ label }) => label), asleep };
    if (chosen !== undefined) this.#choices.push(newChoice(chosen.label, facts));
    return chosen;
  }
}

/** Resolves when all promise callbacks have run. */
function promiseCallbacks(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
