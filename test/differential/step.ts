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
 * - `member`: the index of a member: first those of the cluster at the start, then those that the sequence has added. -1 is
 *   the last member.
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

/** Who sends the request of a step, and to which member. */
export interface Sent {
  /**
   * The user whose last token the call carries. "?" stands for a token that no server has issued. Default: no token.
   */
  readonly as?: string | undefined;
  /** The position of the member that gets the request. Default: 0. */
  readonly at?: number | undefined;
}

/** A call with one request. Server-streaming calls are read to their end. */
export interface CallStep extends Sent {
  readonly rpc: `${Service}.${string}`;
  readonly request: Fields;
  /** Whether the member refuses the call while it knows no leader. Default: false. */
  readonly requiresLeader?: boolean | undefined;
}

/** A request on a watch stream, which the step opens if it is not open yet. */
export interface WatchStep extends Sent {
  readonly watch: 'create' | 'cancel' | 'progress' | 'close';
  readonly stream: number;
  readonly request?: Fields | undefined;
}

/** A request on a keepalive stream. */
export interface KeepAliveStep extends Sent {
  readonly keepAlive: Integer;
  readonly stream: number;
}

/** Observes an election from this step on. */
export interface ObserveStep extends Sent {
  readonly observe: string;
}

/** Waits until the lease with this ID has expired. Does not wait for a lease with a long TTL. */
export interface ExpireStep extends Sent {
  readonly expire: Integer;
}

export type Step = CallStep | WatchStep | KeepAliveStep | ObserveStep | ExpireStep;

/**
 * A change of a cluster. The next step follows when the members have agreed on a leader. `leader` is the position of this
 * leader.
 */
export type FaultStep =
  | { readonly fault: 'cut' | 'kill'; readonly at: number; readonly leader: number }
  | { readonly fault: 'heal'; readonly leader: number }
  | { readonly fault: 'move'; readonly leader: number };

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
export function showStep(step: Step | FaultStep): string {
  const text = 'rpc' in step ? showCall(step) : JSON.stringify(step);
  return text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}... (${text.length} characters)`;
}

function showCall({ rpc, request, requiresLeader, ...sent }: CallStep): string {
  return `${rpc} ${JSON.stringify(request)}${requiresLeader ? ' with a leader' : ''}${showSent(sent)}`;
}

function showSent({ as, at }: Sent): string {
  return `${as === undefined ? '' : ` of ${as}`}${at === undefined ? '' : ` at member ${at}`}`;
}

/** Returns the key of the stream that a step uses. */
export function streamKey(step: Sent & { readonly stream: number }): string {
  return `stream ${step.stream}${showSent(step)}`;
}
