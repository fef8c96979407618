import {
  LeaseGrantRequest,
  type LeaseKeepAliveRequest,
  type LeaseKeepAliveResponse,
  LeaseRevokeRequest,
} from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import { andThen } from './consensus.js';
import type { Member } from './member.js';
import { checkQuota } from './quota.js';
import {
  type RequestSink,
  type ResponseStream,
  type Router,
  type ServerCall,
  StatusError,
  serverError,
} from './service.js';

// The sources in etcd: `etcdserver/api/v3rpc/lease.go`, `etcdserver/v3_server.go` and `lease/lessor.go`. The releases
// 3.5.33, 3.6.14 and 3.7.1 give the same answers. They list the keys of a lease in random order; this service lists
// them in byte order.

/** The ID in a LeaseGrant request that lets the server choose. */
const NO_LEASE = 0n;
/** The TTL of a lease that does not exist, in the answer of LeaseTimeToLive. */
const NO_LEASE_TTL = -1n;
/** The TTL of a lease that does not exist, in the answer of LeaseKeepAlive. */
const NOT_RENEWED_TTL = 0n;

/** Estimate of the bytes that a lease adds to the database: `leaseOverhead` in etcd's source `storage/quota.go`. */
const LEASE_BYTES = 64;

/** Registers the service Lease. */
export function registerLease(router: Router, member: Member): void {
  const { lease } = methods;
  const { auth, leases, alarms, proposals } = member;
  const grant = proposals.define(lease.leaseGrant.path, LeaseGrantRequest, ({ id, ttl }) => {
    if (alarms.isInEffect('CORRUPT')) throw serverError('Corrupt');
    if (alarms.isInEffect('NOSPACE')) throw serverError('NoSpace');
    const granted = leases.grant(id, ttl);
    return { header: member.header(), id: granted.id, ttl: granted.ttlSeconds };
  });
  const revoke = proposals.define(lease.leaseRevoke.path, LeaseRevokeRequest, (request, entry) => {
    if (alarms.isInEffect('CORRUPT')) throw serverError('Corrupt');
    auth.admit(lease.leaseRevoke.path, request, entry);
    leases.revoke(request.id);
    return { header: member.header() };
  });

  router.unary(lease.leaseGrant, (request, call) => {
    checkQuota(member, LEASE_BYTES);
    auth.authorize(lease.leaseGrant.path, request, call);
    return grant(request.id === NO_LEASE ? { ...request, id: leases.unusedId() } : request);
  });

  router.unary(lease.leaseRevoke, (request, call) =>
    revoke(request, auth.authorize(lease.leaseRevoke.path, request, call)),
  );

  auth.serve(router, lease.leaseTimeToLive, ({ id, keys }) => {
    const asked = member.consensus.atLeader(({ leases: leaderLeases }) => {
      const ttl = leaderLeases.timeToLive(id);
      if (ttl === undefined) return { ttl: NO_LEASE_TTL };
      return { ttl: ttl.remaining, grantedTtl: ttl.granted, keys: keys ? leaderLeases.keysOf(id) : [] };
    });
    return andThen(asked, (answer) => ({ header: member.header(), id, ...answer }));
  });

  auth.serve(router, lease.leaseLeases, () => ({
    header: member.header(),
    leases: leases.ids.map((id) => ({ id })),
  }));

  router.streaming(lease.leaseKeepAlive, (responses, call) => keepAlive(member, responses, call));
}

/** Renews a lease for each request. Ends the call when the client half-closes the stream. */
function keepAlive(
  member: Member,
  responses: ResponseStream<LeaseKeepAliveResponse>,
  call: ServerCall,
): RequestSink<LeaseKeepAliveRequest> {
  let unanswered = 0;
  /** Settled when the requests so far are answered. */
  let last: Promise<void> = Promise.resolve();
  const failed = (error: unknown): void => {
    if (!(error instanceof StatusError)) throw error;
    responses.end(error);
  };
  return {
    message(request) {
      const { id } = request;
      // The header has the revision before the renewal. With a later revision, the client could conclude that the lease
      // was alive at a revision at which it had already ended.
      const header = member.header();
      const answer = (ttl = NOT_RENEWED_TTL): void => responses.send({ header, id, ttl });
      try {
        member.auth.authorize(methods.lease.leaseKeepAlive.path, request, call);
        const renewed = member.consensus.atLeader(({ leases }) => leases.renew(id));
        if (!(renewed instanceof Promise)) return answer(renewed);
        unanswered += 1;
        last = Promise.all([renewed, last])
          .then(([ttl]) => answer(ttl))
          .catch(failed)
          .finally(() => {
            unanswered -= 1;
          });
      } catch (error) {
        failed(error);
      }
    },
    halfClosed() {
      if (unanswered === 0) responses.end();
      else void last.then(() => responses.end());
    },
    canceled() {},
  };
}
