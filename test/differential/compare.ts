import { type Difference, firstDifference, type Normal } from './normalize.js';
import { type FaultStep, type Step, showStep } from './step.js';

/** The first step of a sequence that two servers answered differently. */
export interface Mismatch {
  /** The index of the step in the sequence. */
  readonly index: number;
  /** The answers of the two servers. */
  readonly left: Normal;
  readonly right: Normal;
  /** The first field in which the answers differ. */
  readonly first: Difference;
}

/**
 * `compare` rejects with this error if a server no longer responds, because a request has ended its process. The
 * message lists the steps up to that request.
 */
export class ServerEndedError extends Error {
  override readonly name = 'ServerEndedError';
}

/** What plays the steps of a sequence: a `Player`, or a `ClusterPlayer`, which also plays the changes of a cluster. */
export interface Playing<S> {
  /** Removes the state that earlier sequences have left. */
  start(): Promise<void>;
  /** Plays a step. Resolves with all responses that the servers have sent because of the step, in normal form. */
  play(step: S): Promise<Normal>;
  /** Ends all streams. */
  close(): void;
  /** Ends the calls that wait. */
  finish(): Promise<void>;
}

/**
 * Plays a sequence at two servers or clusters, step by step. Stops at the first step whose answers differ, and resolves with this
 * step and its answers. Resolves with undefined if all answers are equal.
 */
export async function compare<S extends Step | FaultStep>(
  steps: readonly S[],
  players: readonly [left: Playing<S>, right: Playing<S>],
  onAnswer: (step: S, answer: Normal) => void = () => {},
): Promise<Mismatch | undefined> {
  await Promise.all(players.map((player) => player.start()));
  let hasEnded = false;
  try {
    for (const [index, step] of steps.entries()) {
      const [ours, theirs] = (await Promise.all(players.map((player) => player.play(step)))) as [Normal, Normal];
      hasEnded = isLost(ours) || isLost(theirs);
      if (hasEnded) throw new ServerEndedError(showSteps(steps, index));
      onAnswer(step, theirs);
      const first = firstDifference(ours, theirs);
      if (first !== undefined) return { index, left: ours, right: theirs, first };
    }
    return undefined;
  } finally {
    for (const player of players) player.close();
    if (!hasEnded) await Promise.all(players.map((player) => player.finish()));
  }
}

/** Whether the answer shows that the server no longer responds. */
function isLost(answer: Normal): boolean {
  const { error } = answer as { readonly error?: { readonly reason: string } };
  return error?.reason === 'ConnectionLost' || error?.reason === 'ConnectFailed';
}

/** Returns the steps up to the index `last`, one line for each. */
function showSteps(steps: readonly (Step | FaultStep)[], last: number): string {
  const lines = steps.slice(0, last + 1).map((step, index) => `${String(index + 1).padStart(3)}. ${showStep(step)}`);
  return lines.join('\n');
}

/** Describes a mismatch: one line for each step, the two answers, and the first field that differs. */
export function showMismatch(
  steps: readonly (Step | FaultStep)[],
  mismatch: Mismatch,
  names: readonly [string, string],
): string {
  const { first, left, right } = mismatch;
  const width = Math.max(...names.map((name) => name.length));
  const shown = (name: string, value: Normal | undefined): string => `${name.padEnd(width)}  ${JSON.stringify(value)}`;
  return [
    showSteps(steps, mismatch.index),
    `first difference: ${first.path || 'the whole answer'}`,
    shown(names[0], first.left),
    shown(names[1], first.right),
    'whole answers:',
    shown(names[0], left),
    shown(names[1], right),
  ].join('\n');
}
