import type { Fault } from './faults.js';

/** A fault that affects one unary call. */
export type CallFault =
  /** The request, or the response, takes `ms` longer. */
  | { readonly type: 'delay request' | 'delay response'; readonly ms: number }
  /** The connection breaks before the request arrives. The request arrives after `ms`, or never. */
  | { readonly type: 'lose request'; readonly ms: number | undefined }
  /** The server applies the request. The connection breaks before the response arrives. */
  | { readonly type: 'lose response' }
  /** A copy of the request arrives `ms` before the request. The answer to the copy is discarded. */
  | { readonly type: 'early copy'; readonly ms: number }
  /** The request arrives a second time `ms` after the server has applied it. The second answer is discarded. */
  | { readonly type: 'duplicate request'; readonly ms: number }
  /**
   * The server answers with an error. If `isApplied`, it has applied the request. `resetsStream`: over byte streams,
   * the answer is RST_STREAM with REFUSED_STREAM, like the answer of a proxy that has forwarded the request.
   */
  | {
      readonly type: 'refuse';
      readonly reason: Refusal;
      readonly isApplied: boolean;
      readonly resetsStream: boolean;
      /** A copy of a request that was not applied arrives after this time, and is applied. */
      readonly copyMs?: number | undefined;
    };

const REFUSALS = [
  'NoLeader',
  'LeaderChanged',
  'Timeout',
  'TimeoutDueToLeaderFail',
  'ProposalDropped',
  'RequestTooManyRequests',
] as const;
/** The refusals after which the server may have applied the request. */
const UNCERTAIN_REFUSALS = ['LeaderChanged', 'Timeout', 'TimeoutDueToLeaderFail'] as const;
export type Refusal = (typeof REFUSALS)[number];

/** The factor by which some late requests and copies of requests arrive later than others. */
const LATE_FACTOR = 30;

/** Converts a fault from the plan of a history to the fault of one call. */
export function callFaultOf({ kind, ms, variant }: Fault): CallFault {
  // Some copies arrive after minutes, when the client has released the lock, ended its session or closed itself.
  const lateMs = variant >= 40 ? ms * LATE_FACTOR : ms;
  switch (kind) {
    case 'delay request':
    case 'delay response':
    case 'early copy':
      return { type: kind, ms };
    case 'late request':
      return { type: 'lose request', ms: lateMs };
    case 'lose request':
      return { type: 'lose request', ms: undefined };
    case 'duplicate request':
      return { type: 'duplicate request', ms: lateMs };
    case 'refuse':
    case 'copy of a refused request':
      return {
        type: 'refuse',
        reason: REFUSALS[variant % REFUSALS.length] as never,
        isApplied: false,
        resetsStream: false,
        copyMs: kind === 'refuse' ? undefined : lateMs,
      };
    case 'refuse after applying':
      return {
        type: 'refuse',
        reason: UNCERTAIN_REFUSALS[variant % UNCERTAIN_REFUSALS.length] as never,
        isApplied: true,
        resetsStream: variant >= 32,
      };
    default:
      return { type: 'lose response' };
  }
}
