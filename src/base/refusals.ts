import { type ServerReason, type StatusCode, statusOfReason } from './status.js';

/** Status codes that do not show whether the request took effect. */
const INCONCLUSIVE: ReadonlySet<StatusCode> = new Set(['Canceled', 'DeadlineExceeded', 'Unavailable', 'DataLoss']);

/**
 * Reasons of refusals that prove that the request had no effect, whatever the status is. A member without a leader
 * refuses a request with the metadata `hasleader` before it processes the request (v3rpc/interceptor.go). A learner does
 * not process the requests that it refuses; before etcd 3.6, it refuses them with status Unavailable. Raft drops a
 * proposal before it appends the proposal to its log (`ErrProposalDropped` in raft.go); etcd forwards that error with
 * status Unknown. A member checks whether the cluster is healthy before it proposes a change of the membership
 * (`ErrUnhealthy` in server.go). While the alarm CORRUPT is raised, each member refuses a write instead of applying it
 * (apply/corrupt.go).
 */
const PROOF_WITH_ANY_STATUS: ReadonlySet<ServerReason> = new Set([
  'NoLeader',
  'NotSupportedForLearner',
  'ProposalDropped',
  'Unhealthy',
  'Corrupt',
]);

/** What the refusals of one RPC prove. Either list names reasons. */
interface Proofs {
  /** The refusals that do not prove that the request had no effect. All other refusals prove it. */
  readonly inconclusive?: readonly ServerReason[];
  /** The only refusals that prove that the request had no effect. */
  readonly conclusive?: readonly ServerReason[];
}

/**
 * Refusals, by the path of the RPC, that etcd also sends for a request that it has carried out, or that other members
 * carry out. All members make the other refusals at the same point of raft's log, or the member that receives the
 * request makes them before it proposes the request. The list is the result of reading the sources of etcd 3.4 to 3.7.
 * docs/errors.md shows the list.
 */
export const REFUSALS: Readonly<Record<string, Proofs>> = {
  // A member checks the quota again while it applies a write, and refuses the write although it applies it, as all other
  // members do (`quotaApplierV3` in apply.go).
  '/etcdserverpb.KV/Put': { inconclusive: ['NoSpace'] },
  '/etcdserverpb.Lease/LeaseGrant': { inconclusive: ['NoSpace'] },
  // Before etcd 3.7, only the member that received the transaction checks the reads outside of nested transactions. The
  // other members remove these reads (`removeNeedlessRangeReqs`, etcd issue 18667). For transactions without such
  // reads, `withProof` in rpc/proofs.ts changes the outcome.
  '/etcdserverpb.KV/Txn': { inconclusive: ['NoSpace', 'PermissionDenied', 'Compacted', 'FutureRev'] },
  // Each member compares the number of learners with its own `--max-learners` (`ValidateMaxLearnerConfig`).
  '/etcdserverpb.Cluster/MemberAdd': { inconclusive: ['TooManyLearners'] },
  // A follower passes the request on to the leader, repeats it if no answer arrives, and returns the refusal of the
  // repetition (`PromoteMember` in server.go).
  '/etcdserverpb.Cluster/MemberPromote': { inconclusive: ['MemberNotLearner', 'MemberNotFound', 'LearnerNotReady'] },
  // `Lock` and `Campaign` put a key, and then read and watch the queue. Only the following refusals cannot concern the
  // reads or the watch (client/v3/concurrency).
  '/v3lockpb.Lock/Lock': {
    conclusive: [
      ...(['NotSupportedForLearner', 'NotCapable', 'LeaseNotFound', 'RequestTooLarge', 'Corrupt'] as const),
      ...(['RequestTooManyRequests', 'ProposalDropped', 'NoLeader'] as const),
    ],
  },
  // If the candidate's key exists, `Campaign` changes the key's value in a second transaction, and deletes the key if
  // that fails.
  '/v3electionpb.Election/Campaign': {
    conclusive: ['NotSupportedForLearner', 'NotCapable', 'LeaseNotFound', 'RequestTooLarge', 'NoLeader'],
  },
};

/**
 * Whether a refusal proves that the request had no effect. Without `method`, answers for an RPC whose refusals all
 * prove it, except for `NoSpace`.
 */
export function provesNoEffect(code: StatusCode, reason: ServerReason, method = ''): boolean {
  const { inconclusive = ['NoSpace'], conclusive }: Proofs = REFUSALS[method] ?? {};
  if (inconclusive.includes(reason) || conclusive?.includes(reason) === false) return false;
  if (PROOF_WITH_ANY_STATUS.has(reason)) return true;
  // Checks both the received status and the usual status of the reason, because the lock and election services forward
  // every error with status Unknown.
  return !INCONCLUSIVE.has(code) && !INCONCLUSIVE.has(statusOfReason(reason));
}
