import fc from 'fast-check';
import { serverReason } from '../../src/base/status.js';
import { pause } from '../../src/base/timers.js';
import { compare, type Mismatch, ServerEndedError } from './compare.js';
import type { Normal } from './normalize.js';
import { Player } from './player.js';
import { sequences } from './sequence.js';
import { rpcOf, type Step } from './step.js';
import type { Target } from './target.js';

/** The number of sequences that fast-check generates from one seed. */
const BATCH_SEQUENCES = 25;
/** The time limit in milliseconds of one batch. It includes the search for a smaller sequence that still fails. */
const SHRINK_LIMIT_MS = 120_000;

/** How long a server takes to end after it has closed its connections, in milliseconds. */
const END_MS = 1_000;

export interface RunOptions {
  /** The server under test, and the server whose answers are the expected ones. */
  readonly left: Target;
  readonly right: Target;
  /** The run ends after the sequence with which it reaches this number of requests. */
  readonly requests: number;
  readonly seed: number;
  readonly profiles?: readonly string[] | undefined;
  /**
   * Kinds of differences that do not end the run; see `kindOf`. The run skips the rest of a sequence with such a
   * difference.
   */
  readonly tolerated?: ReadonlySet<string>;
  /** Called after each batch of sequences. */
  readonly onProgress?: (counts: Counts) => void;
}

/** The numbers of requests, errors and differences in a run. */
export interface Counts {
  requests: number;
  sequences: number;
  /** Requests by RPC. */
  readonly rpcs: Map<string, number>;
  /** Errors by their reason, or by their text if etcd does not define an error with this text. */
  readonly errors: Map<string, number>;
  /** Differences that were tolerated, by kind. */
  readonly tolerated: Map<string, number>;
  /** Differences that did not appear again when the sequence was played again. */
  readonly unconfirmed: Failure[];
  /** The sequences that have ended the process of a server. */
  readonly ended: string[];
}

/** A sequence that the two servers answer differently. */
export interface Failure {
  readonly steps: readonly Step[];
  readonly mismatch: Mismatch;
  /** The seed with which a run continues after this failure. */
  readonly nextSeed: number;
  /** In how many of the further runs, whose number is `CONFIRMATIONS`, the difference appeared again. */
  readonly confirmed: number;
}

/** How many times a run plays a smaller sequence again, to find out whether the difference appears again. */
export const CONFIRMATIONS = 3;

export function noCounts(): Counts {
  return {
    requests: 0,
    sequences: 0,
    rpcs: new Map(),
    errors: new Map(),
    tolerated: new Map(),
    unconfirmed: [],
    ended: [],
  };
}

/**
 * Plays generated sequences at two servers. Resolves with the first difference, or with undefined when the number of
 * requests is reached. If a difference does not appear again, `run` counts it and continues, because a real etcd is not
 * deterministic in every detail.
 */
export async function run(options: RunOptions, counts: Counts = noCounts()): Promise<Failure | undefined> {
  const { left, right, requests, seed, profiles, onProgress } = options;
  const for35 = [left, right].some(({ version }) => version === '3.5');
  const checks = new Checks(options, counts);
  const property = fc.asyncProperty(sequences({ profiles, for35 }), (steps) => checks.property(steps));
  for (let batch = 0; counts.requests < requests; batch += 1) {
    const { counterexample } = await fc.check(property, {
      seed: seed + batch,
      numRuns: BATCH_SEQUENCES,
      interruptAfterTimeLimit: SHRINK_LIMIT_MS,
    });
    if (counterexample !== null) {
      const failure = await checks.failure(counterexample[0], seed + batch + 1);
      if (failure.confirmed > 0) return failure;
      counts.unconfirmed.push(failure);
    }
    onProgress?.(counts);
  }
  return undefined;
}

/** The checks of one run: of generated sequences and, once answers have differed, of smaller sequences. */
class Checks {
  readonly #options: RunOptions;
  readonly #counts: Counts;
  /** The first sequence whose answers differ, until `failure` has made it smaller. */
  #original: Pick<Failure, 'steps' | 'mismatch'> | undefined;
  /** The first error other than a difference. After such an error, the run plays no more sequences. */
  #problem: { readonly error: unknown } | undefined;

  constructor(options: RunOptions, counts: Counts) {
    this.#options = options;
    this.#counts = counts;
  }

  /** Rejects if the answers differ. */
  async property(steps: readonly Step[]): Promise<void> {
    const isDone = this.#original === undefined && this.#counts.requests >= this.#options.requests;
    if (isDone || this.#problem !== undefined) return;
    const mismatch = await this.#check(steps);
    if (mismatch === undefined) return;
    this.#original ??= { steps, mismatch };
    throw new Error('the answers differ');
  }

  /** Makes the failing sequence of fast-check smaller, and plays it again. */
  async failure(shrunk: readonly Step[], nextSeed: number): Promise<Failure> {
    const original = this.#original;
    if (this.#problem !== undefined) throw this.#problem.error;
    if (original === undefined) throw new Error('a check failed without a difference');
    const steps = await this.#withoutNeedless(shrunk);
    let confirmed = 0;
    let last: Mismatch | undefined;
    for (let again = 0; again < CONFIRMATIONS; again += 1) {
      const mismatch = await this.#check(steps);
      if (mismatch !== undefined) confirmed += 1;
      last = mismatch ?? last;
    }
    this.#original = undefined;
    return last === undefined ? { ...original, confirmed, nextSeed } : { steps, mismatch: last, confirmed, nextSeed };
  }

  /** Leaves out each step without which the answers still differ. */
  async #withoutNeedless(steps: readonly Step[]): Promise<readonly Step[]> {
    let kept = steps;
    for (let at = kept.length - 1; at >= 0; at -= 1) {
      const shorter = kept.toSpliced(at, 1);
      if (shorter.length > 0 && (await this.#check(shorter)) !== undefined) kept = shorter;
    }
    return kept;
  }

  async #check(steps: readonly Step[]): Promise<Mismatch | undefined> {
    const { left, right, tolerated } = this.#options;
    const counts = this.#original === undefined ? this.#counts : noCounts();
    counts.sequences += 1;
    try {
      const players = [new Player([await left.next()]), new Player([await right.next()])] as const;
      const mismatch = await compare(steps, players, (step, answer) => count(counts, step, answer));
      if (mismatch === undefined) return undefined;
      const kind = kindOf(steps, mismatch);
      if (tolerated?.has(kind) !== true) return mismatch;
      add(counts.tolerated, kind);
    } catch (error) {
      if (!(error instanceof ServerEndedError)) {
        this.#problem ??= { error };
        throw error;
      }
      counts.ended.push(error.message);
      // The process closes its connections before it ends.
      await pause(END_MS);
    }
    return undefined;
  }
}

/** Returns the kind of a difference: the RPC, the path of the field without indexes, and the texts of errors. */
export function kindOf(steps: readonly Step[], { index, first: { path, left, right } }: Mismatch): string {
  const where = path.replace(/\b\d+\b/g, '#').replace(/(?:stream|watch) [^.]*/g, '*');
  const values = path.startsWith('error') ? `: ${JSON.stringify(left)} or ${JSON.stringify(right)}` : '';
  return `${rpcOf(steps[index] as Step)} ${where}${values}`;
}

function count(counts: Counts, step: Step, answer: Normal): void {
  counts.requests += 1;
  add(counts.rpcs, rpcOf(step));
  for (const text of errorTexts(answer)) add(counts.errors, serverReason(text) ?? text.replace(/\d+/g, 'N'));
}

function* errorTexts(answer: Normal | undefined): Generator<string, void> {
  if (typeof answer !== 'object' || answer === null) return;
  for (const [name, value] of Object.entries(answer)) {
    if ((name === 'text' || name === 'cancelReason') && typeof value === 'string' && value !== '') yield value;
    else yield* errorTexts(value as Normal);
  }
}

function add(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
