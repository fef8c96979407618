import type { Service } from './methods.js';

// The steps of a sequence. JSON can represent every step, so that a sequence can be saved and replayed. A symbol stands
// for a value that the server chooses, such as a revision or a lease ID. The player replaces the symbol by the value
// that its server has chosen.

/**
 * An integer. A string holds digits, for numbers that JSON cannot represent. An object is a symbol:
 *
 * - `base`: an offset from the revision at the start of the sequence.
 * - `current`: an offset from the last revision that the target returned.
 * - `compacted`: an offset from the revision of the last compaction.
 * - `lease`: the index of a lease ID that the server has chosen in this sequence.
 * - `member`: the index of a member. 0 is the member that answers; the others are learners that the sequence has added.
 */
export type Integer =
  | number
  | string
  | { readonly base: number }
  | { readonly current: number }
  | { readonly compacted: number }
  | { readonly lease: number }
  | { readonly member: number };

/**
 * Bytes: a string with one character per byte, a repeated string, or the key of a lock (`lockKey`) or of a leadership
 * (`leaderKey`) that the sequence has acquired, by its index.
 */
export type Bytes =
  | string
  | { readonly repeat: string; readonly times: number }
  | { readonly lockKey: number }
  | { readonly leaderKey: number };

/** A request in JSON. Bytes are `Bytes`, integers of 64 bits are `Integer`, and fields may be missing. */
export type Fields = { readonly [field: string]: unknown };

/** A call with one request. Server-streaming calls are read to their end. */
export interface CallStep {
  readonly rpc: `${Service}.${string}`;
  readonly request: Fields;
  /**
   * The user whose last token the call carries. "?" stands for a token that no server has issued. Default: no token.
   */
  readonly as?: string | undefined;
}

/** A request on a watch stream, which the step opens if it is not open yet. */
export interface WatchStep {
  readonly watch: 'create' | 'cancel' | 'progress' | 'close';
  readonly stream: number;
  readonly request?: Fields | undefined;
  readonly as?: string | undefined;
}

/** A request on a keepalive stream. */
export interface KeepAliveStep {
  readonly keepAlive: Integer;
  readonly stream: number;
  readonly as?: string | undefined;
}

/** Observes an election from this step on. */
export interface ObserveStep {
  readonly observe: string;
  readonly as?: string | undefined;
}

/** Waits until the lease with this ID has expired. Does not wait for a lease with a long TTL. */
export interface ExpireStep {
  readonly expire: Integer;
}

export type Step = CallStep | WatchStep | KeepAliveStep | ObserveStep | ExpireStep;

/** Returns the name of the RPC that a step calls, such as "kv.put". */
export function rpcOf(step: Step): string {
  if ('rpc' in step) return step.rpc;
  if ('watch' in step) return 'watch.watch';
  if ('keepAlive' in step) return 'lease.leaseKeepAlive';
  if ('observe' in step) return 'election.observe';
  return 'lease.leaseTimeToLive';
}

/** The maximum number of characters of a step in `showStep`. */
const SHOWN_CHARACTERS = 600;

/** Returns a step as one line, for reports. */
export function showStep(step: Step): string {
  const text = 'rpc' in step ? showCall(step) : JSON.stringify(step);
  return text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}... (${text.length} characters)`;
}

function showCall({ rpc, request, as }: CallStep): string {
  return `${rpc} ${JSON.stringify(request)}${as === undefined ? '' : ` as ${as}`}`;
}

/** Returns the key of a user's stream with this index. */
export function streamKey(index: number, as: string | undefined): string {
  return `stream ${index}${as === undefined ? '' : ` of ${as}`}`;
}
