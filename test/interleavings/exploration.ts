import type { Checkpoint, Failure, Limits } from './explorer.js';

/** How many histories of a plan are played before the next plan has its turn. Each turn of a plan is twice as long. */
const FIRST_TURN = 64;
const LONGEST_TURN = 2_048;
/**
 * In the first turns of a plan, up to this length, one random history is played for `SAMPLED` others, because random
 * histories find many defects early.
 */
const LONGEST_SAMPLED_TURN = 256;
const SAMPLED = 4;

/** The histories of a scenario that have the same faults and decisions. */
interface Plan {
  readonly plan: readonly string[];
  readonly faults: number;
  readonly turn: number;
  readonly from?: Checkpoint;
}

/** Where the exploration of a scenario stopped. It can be written as JSON. */
export type SavedPlans = readonly Plan[];

/**
 * All plans of a scenario with at most a given number of faults. The histories of a plan show which faults and decisions
 * could have happened in addition: these are the next plans. The plans have their turns one after the other, so that a
 * defect which some plan shows early is found early.
 */
export class Exploration {
  /** The first history that broke a rule. */
  failure: Failure | undefined;
  readonly #maxFaults: number;
  #alike: readonly string[];
  readonly #plans = new Map<string, Plan>();
  readonly #queue: Plan[] = [];

  constructor(maxFaults: number, saved: SavedPlans = [{ plan: [], faults: 0, turn: FIRST_TURN }]) {
    this.#maxFaults = maxFaults;
    this.#alike = saved.find(({ from }) => from !== undefined)?.from?.alike ?? [];
    for (const plan of saved) this.#add(plan);
  }

  get played(): number {
    return this.#sum(({ from }) => from?.played ?? 0);
  }

  get pruned(): number {
    return this.#sum(({ from }) => from?.pruned ?? 0);
  }

  get plans(): number {
    return this.#plans.size;
  }

  get parties(): number {
    return this.#plans.get('')?.from?.parties ?? 0;
  }

  get isComplete(): boolean {
    return [...this.#plans.values()].every(({ from }) => from?.isComplete);
  }

  /** Returns the limits of the next call of `explore`. Undefined if no plan waits for its turn. */
  next(): Limits | undefined {
    const next = this.#queue.shift();
    if (next === undefined) return undefined;
    const { plan, turn, from } = next;
    return { plan, samples: turn > LONGEST_SAMPLED_TURN ? 0 : turn / SAMPLED, maxHistories: turn, from };
  }

  /** Notes what `explore` has returned. */
  note(plan: readonly string[], explored: Checkpoint): void {
    const { faults, turn } = this.#plans.get(this.#keyOf(plan)) as Plan;
    const { possible, alike } = explored;
    this.#alike = alike;
    for (const { label, isFault } of possible) {
      const next = { plan: [...plan, label], faults: faults + (isFault ? 1 : 0), turn: FIRST_TURN };
      if (!plan.includes(label) && next.faults <= this.#maxFaults && !this.#plans.has(this.#keyOf(next.plan)))
        this.#add(next);
    }
    this.#add({ plan, faults, turn: Math.min(LONGEST_TURN, 2 * turn), from: { ...explored, possible: [] } });
  }

  save(): SavedPlans {
    return [...this.#plans.values()];
  }

  #add(plan: Plan): void {
    this.#plans.set(this.#keyOf(plan.plan), plan);
    this.failure ??= plan.from?.failure;
    if (!plan.from?.isComplete) this.#queue.push(plan);
  }

  #sum(count: (plan: Plan) => number): number {
    return [...this.#plans.values()].reduce((sum, plan) => sum + count(plan), 0);
  }

  /**
   * The faults of a plan have no order. Plans have the same key if they differ only in the names of parties that do the
   * same, because their histories then differ only in these names, too.
   */
  #keyOf(plan: readonly string[]): string {
    const keys = permutations(this.#alike).map((names) => {
      const renamed = (name: string): string => names[this.#alike.indexOf(name)] ?? name;
      return plan
        .map((label) => label.replace(/\b[A-Z]\b/g, renamed))
        .sort()
        .join('\n');
    });
    return keys.sort()[0] as string;
  }
}

function permutations(names: readonly string[]): readonly (readonly string[])[] {
  if (names.length === 0) return [[]];
  return names.flatMap((name) => permutations(names.filter((each) => each !== name)).map((rest) => [name, ...rest]));
}
