import {
  Member as MemberMessage,
  type MemberPromoteRequest,
  MemberRemoveRequest,
  MemberUpdateRequest,
  type ResponseHeader,
} from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import type { Auth } from './auth.js';
import { andThen, untilTimeLimit } from './consensus.js';
import type { Member } from './member.js';
import { type Router, type ServerCall, StatusError, serverError } from './service.js';

/** Registers the service Cluster. Members that a client adds never start: see `Membership`. */
export function registerCluster(router: Router, member: Member): void {
  const { auth, membership, proposals } = member;
  // The headers of this service have no revision: see `header` in etcd's `v3rpc/member.go`.
  const header = (): ResponseHeader => member.header(0n);
  const { cluster } = methods;
  const add = proposals.define('memberAdd', MemberMessage, (added) => {
    membership.add(added);
    return { header: header(), member: added, members: membership.list() };
  });
  const remove = proposals.define('memberRemove', MemberRemoveRequest, ({ id }) => {
    membership.remove(id);
    return { header: header(), members: membership.list() };
  });
  const update = proposals.define('memberUpdate', MemberUpdateRequest, ({ id, peerUrls }) => {
    membership.update(id, peerUrls);
    return { header: header(), members: membership.list() };
  });

  auth.serve(router, cluster.memberList, (request) => {
    const list = () => ({ header: header(), members: membership.list() });
    return request.linearizable ? member.consensus.read(list) : list();
  });
  router.unary(cluster.memberAdd, (request, call) => {
    const peerUrls = checkPeerUrls(request.peerUrls);
    auth.authorize(cluster.memberAdd.path, request, call);
    membership.checkAdd(peerUrls, request.isLearner);
    if (!member.consensus.isHealthy) throw serverError('Unhealthy');
    return add({ id: member.randomId(), name: '', peerUrls, clientUrls: [], isLearner: request.isLearner });
  });
  auth.serve(router, cluster.memberRemove, (request) => {
    membership.checkRemove(request.id);
    return remove(request);
  });
  auth.serve(router, cluster.memberUpdate, (request) => {
    membership.checkUpdate(request.id, request.peerUrls);
    return update(request);
  });
  router.unary(cluster.memberPromote, (request, call) => {
    authorizePromotion(auth, request, call);
    // Only the leader knows whether a learner has caught up. A follower repeats the request until the time limit if the
    // leader refuses it, for example because the leader has lost the token in a restart: `PromoteMember` in etcd's
    // `etcdserver/server.go`.
    const asked = member.consensus.atLeader((leader) => permitsPromotion(leader.auth, request, call));
    return andThen(asked, (isPermitted) =>
      isPermitted ? membership.promote(request.id) : untilTimeLimit(member.settings.clock, call),
    );
  });
}

function authorizePromotion(auth: Auth, request: MemberPromoteRequest, call: ServerCall): void {
  auth.authorize(methods.cluster.memberPromote.path, request, call);
}

function permitsPromotion(auth: Auth, request: MemberPromoteRequest, call: ServerCall): boolean {
  try {
    authorizePromotion(auth, request, call);
    return true;
  } catch (error) {
    if (error instanceof StatusError) return false;
    throw error;
  }
}

/** A URL with a host, a port and no path: `NewURLs` in etcd's `client/pkg/types/urls.go`. */
const HTTP_URL = /^https?:\/\/(?:[^\s/?#@]*@)?(?:\[[^\s\]]*\]|[^\s/?#@:[\]<>"]*):[0-9]*(?:[?#].*)?$/i;
/** A Unix socket. Everything after the scheme is its path. */
const UNIX_URL = /^unixs?:/i;

/** Returns the URLs as etcd stores them, in order. @throws StatusError with reason `MemberBadURLs` */
function checkPeerUrls(urls: readonly string[]): string[] {
  if (urls.length === 0) throw serverError('MemberBadURLs');
  return urls.map((given) => checkPeerUrl(given.trim())).sort();
}

/** Returns the URL as Go's `url.URL` prints it. */
function checkPeerUrl(url: string): string {
  if (!HTTP_URL.test(url) && !UNIX_URL.test(url)) throw serverError('MemberBadURLs');
  return url
    .replace(/^[a-z]+/i, (scheme) => scheme.toLowerCase())
    .replace(/[^ -~]+/g, encodeURIComponent)
    .replace(/#$/, '');
}
