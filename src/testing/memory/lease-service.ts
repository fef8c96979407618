import {
  LeaseGrantRequest,
  type LeaseKeepAliveRequest,
  type LeaseKeepAliveResponse,
  LeaseRevokeRequest,
} from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import type { Member } from './member.js';
import { propose } from './proposals.js';
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

/** The TTL of a lease that does not exist, in the answer of LeaseTimeToLive. */
const NO_LEASE_TTL = -1n;
/** The TTL of a lease that does not exist, in the answer of LeaseKeepAlive. */
const NOT_RENEWED_TTL = 0n;

/** Estimate of the bytes that a lease adds to the database: `leaseOverhead` in etcd's source `storage/quota.go`. */
const LEASE_BYTES = 64;

/** Registers the service Lease. */
export function registerLease(router: Router, member: Member): void {
  const { lease } = methods;
  const { leases, alarms } = member;

  router.unary(lease.leaseGrant, (request, call) => {
    checkQuota(member, LEASE_BYTES);
    member.auth.authorize(lease.leaseGrant.path, request, call);
    propose(member, LeaseGrantRequest, request);
    if (alarms.isInEffect('CORRUPT')) throw serverError('Corrupt');
    if (alarms.isInEffect('NOSPACE')) throw serverError('NoSpace');
    const { id, ttlSeconds } = leases.grant(request.id, request.ttl);
    return { header: member.header(), id, ttl: ttlSeconds };
  });

  router.unary(lease.leaseRevoke, (request, call) => {
    // Before consensus, etcd checks only that the call has a user, as for LeaseGrant. etcd checks the permissions
    // afterwards.
    member.auth.authorize(lease.leaseGrant.path, request, call);
    propose(member, LeaseRevokeRequest, request);
    if (alarms.isInEffect('CORRUPT')) throw serverError('Corrupt');
    member.auth.authorize(lease.leaseRevoke.path, request, call);
    leases.revoke(request.id);
    return { header: member.header() };
  });

  router.unary(lease.leaseTimeToLive, (request, call) => {
    member.auth.authorize(lease.leaseTimeToLive.path, request, call);
    const { id, keys } = request;
    const ttl = leases.timeToLive(id);
    if (ttl === undefined) return { header: member.header(), id, ttl: NO_LEASE_TTL };
    const attached = keys ? leases.keysOf(id) : [];
    return { header: member.header(), id, ttl: ttl.remaining, grantedTtl: ttl.granted, keys: attached };
  });

  router.unary(lease.leaseLeases, (request, call) => {
    member.auth.authorize(lease.leaseLeases.path, request, call);
    return { header: member.header(), leases: leases.ids.map((id) => ({ id })) };
  });

  router.streaming(lease.leaseKeepAlive, (responses, call) => new KeepAliveStream(member, responses, call));
}

/** Renews a lease for each request. Ends the call when the client half-closes the stream. */
class KeepAliveStream implements RequestSink<LeaseKeepAliveRequest> {
  readonly #member: Member;
  readonly #responses: ResponseStream<LeaseKeepAliveResponse>;
  readonly #call: ServerCall;

  constructor(member: Member, responses: ResponseStream<LeaseKeepAliveResponse>, call: ServerCall) {
    this.#member = member;
    this.#responses = responses;
    this.#call = call;
  }

  message(request: LeaseKeepAliveRequest): void {
    const { id } = request;
    // The header has the revision before the renewal. With a later revision, the client could conclude that the lease
    // was alive at a revision at which it had already ended.
    const header = this.#member.header();
    try {
      this.#member.auth.authorize(methods.lease.leaseKeepAlive.path, request, this.#call);
      this.#responses.send({ header, id, ttl: this.#member.leases.renew(id) ?? NOT_RENEWED_TTL });
    } catch (error) {
      if (!(error instanceof StatusError)) throw error;
      this.#responses.end(error);
    }
  }

  halfClosed(): void {
    this.#responses.end();
  }

  canceled(): void {}
}
