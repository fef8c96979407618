import { RateLimiter } from '../../../src/extras/recipes/rate-limiter.js';
import { WALL_CLOCK_FAULTS } from '../faults.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A call of `take` or `tryTake`. */
interface TakeOp {
  readonly afterMs: number;
  readonly tokens: number;
  readonly isTry: boolean;
  readonly maxWaitMs: number | undefined;
}

const KEY = 'limit';
const LIMITS = { perSecond: 4, burst: 3 } as const;
/** The wall clock shows whole milliseconds, so the exact window may be shorter by one millisecond. */
const CLOCK_STEP_MS = 1;

/**
 * Tokens that several processes take from one rate limiter. No window of time may contain more tokens than the rate
 * allows.
 */
export const rates: Workload<TakeOp> = {
  name: 'rate limiter',
  weight: 1,
  isUnary: true,
  hasOneRate: true,
  without: WALL_CLOCK_FAULTS,
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(2, 8) }, () => ({
        afterMs: random.pick([0, 0, 0, random.magnitude(1, 2_000)]),
        tokens: random.pick([1, 1, 2, LIMITS.burst]),
        isTry: random.chance(0.2),
        maxWaitMs: random.chance(0.2) ? random.magnitude(1, 5_000) : undefined,
      })),
    })),
  begin: (context) => new Rates(context),
};

class Rates implements Player<TakeOp> {
  readonly #context: Context<TakeOp>;
  readonly #taken: { readonly ms: number; readonly tokens: number }[] = [];

  constructor(context: Context<TakeOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<TakeOp>): Promise<void> {
    const { world, waits } = this.#context;
    const limiter = new RateLimiter(this.#context.client(index), KEY, LIMITS);
    for (const { afterMs, tokens, isTry, maxWaitMs } of ops) {
      if (afterMs > 0) await world.sleep(afterMs);
      waits(index, 'tokens');
      try {
        const taken = isTry
          ? await limiter.tryTake(tokens)
          : await limiter.take(tokens, { maxWaitMs }).then(() => true);
        if (taken) this.#taken.push({ ms: world.time, tokens });
      } catch (error) {
        expected(error);
      }
    }
  }

  /** The key expires with its lease, when it means nothing any longer. */
  mayLeasesStay(): boolean {
    return true;
  }

  check(): void {
    const taken = this.#taken.toSorted((a, b) => a.ms - b.ms);
    for (const [first, { ms: from }] of taken.entries()) {
      let sum = 0;
      for (const { ms, tokens } of taken.slice(first)) {
        sum += tokens;
        const allowed = LIMITS.burst + (LIMITS.perSecond * (ms - from + CLOCK_STEP_MS)) / 1_000;
        if (sum > allowed) this.#context.violated('too many tokens', `${sum} from ${from} to ${ms}`);
      }
    }
  }

  mayStay(key: string): boolean {
    return key === KEY;
  }
}
